"""Plays edits on a disk that remembers, and then looks at what a power cut would have left at one moment or another: all
that was flushed by then, and of what was written since, anything. Whatever it is, the file must be as an edit has left it,
none that was answered may be missing, and the journal must be able to undo the last one."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HEAD = struct.Struct("<cQQ")
FILE_SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], 24),
    "ext4 without a journal": (["mkfs.ext4", "-q", "-F", "-O", "^has_journal"], 24),
    "xfs": (["mkfs.xfs", "-q", "-f"], 320),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 128),
}
BODY = "".join(f"fn f{n}() -> u32 {{\n    {n}\n}}\n\n" for n in range(200))


def number(version):
    return f"    {100_000 + version}\n"


def text(version):
    return BODY.replace("    100\n", number(version))


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def must(*command):
    done = run(*command)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout.strip()


def sync(*paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


class Haft:
    """A server that edits one file."""

    def __init__(self, haft, work, env):
        self.file, self.buffer = work / "code.rs", b""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([haft, "mcp"], cwd=work, env=env, **pipes)
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cuts", "version": "1"}}
        self.ask("initialize", about)
        self.say({"method": "notifications/initialized"})
        self.call("Read", {"file_path": str(self.file)})

    def say(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        os.write(self.process.stdin.fileno(), line.encode())

    def ask(self, method, params):
        self.say({"id": 1, "method": method, "params": params})
        while b"\n" not in self.buffer:
            self.buffer += os.read(self.process.stdout.fileno(), 1 << 16)
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def call(self, tool, arguments):
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not answer["result"].get("isError"), answer

    def edit(self, version):
        texts = {"old_string": number(version - 1), "new_string": number(version)}
        self.call("Edit", {"file_path": str(self.file), **texts})

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def others(work, stop):
    """Other programs sync as well, so that the file system commits at any moment."""
    for turn in range(1 << 30):
        if stop.is_set():
            return
        fd = os.open(work.parent / f"other{turn % 3}", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"x" * random.randrange(9000))
        os.fsync(fd)
        os.close(fd)
        if turn % 5 == 0:
            sync(work)
        time.sleep(random.random() * 0.004)


def record(haft, base, mkfs, megabytes, kind, edits):
    """Makes edits on a disk, and gives what was on it before and everything that was done to it."""
    image, log, fuse, mount = base / "image", base / "log", base / "fuse", base / "mount"
    for folder in (fuse, mount):
        folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    must(*mkfs, str(image))
    disk = Path(__file__).parent / "disk.py"
    daemon = subprocess.Popen([sys.executable, disk, image, log, fuse], stderr=subprocess.PIPE, text=True)
    loop = None
    try:
        for _ in range(100):
            if (fuse / "disk").exists() or daemon.poll() is not None:
                break
            time.sleep(0.1)
        if not (fuse / "disk").exists():
            daemon.kill()
            sys.exit(f"there is no FUSE: {daemon.stderr.read().strip()}")
        loop = must("losetup", "-f", "--show", str(fuse / "disk"))
        must("mount", "-t", kind, loop, str(mount))
        work, home = mount / "work", mount / "home"
        settings = home / ".config" / "haft" / "config.toml"
        settings.parent.mkdir(parents=True)
        work.mkdir()
        settings.write_text('[permissions]\nallow = ["Edit"]\n')
        (work / "code.rs").write_text(text(0))
        os.sync()
        sync(work / "code.rs", work, settings, settings.parent, settings.parent.parent, home, mount)
        with open(fuse / "mark", "wb", buffering=0) as mark:
            server = Haft(haft, work, environment(home))
            stop = threading.Event()
            busy = threading.Thread(target=others, args=(work, stop))
            busy.start()
            for version in range(1, edits + 1):
                mark.write(b"begun %d" % version)
                server.edit(version)
                mark.write(b"done %d" % version)
            stop.set()
            busy.join()
            server.end()
    finally:
        run("umount", "-l", str(mount))
        if loop:
            run("losetup", "-d", loop)
        run("fusermount", "-u", "-z", str(fuse))
        daemon.wait()
    return image.read_bytes(), operations(log.read_bytes())


def environment(home):
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def operations(log):
    found, at = [], 0
    while at < len(log):
        kind, offset, length = HEAD.unpack_from(log, at)
        at += HEAD.size
        found.append((kind, offset, log[at : at + length]))
        at += length
    return found


def left_by_a_cut(flushed, since):
    """What may be on the disk: what was flushed, and of what was written since, anything."""
    image = bytearray(flushed)
    way = random.choice(["none", "all", "some", "some", "some", "last", "torn"])
    for at, (offset, data) in enumerate(since):
        if way == "none" or (way == "last" and at < len(since) - 1):
            continue
        if way in ("some", "torn") and random.random() < 0.5:
            continue
        if way == "torn" and len(data) > 512:
            data = data[: random.randrange(1, len(data) // 512 + 1) * 512]
        image[offset : offset + len(data)] = data
    return way, image


def latest(done, word):
    marks = (data.split() for kind, _, data in done if kind == b"M")
    return max((int(mark[1]) for mark in marks if mark[0] == word), default=0)


def examine(haft, mount, versions, answered, begun):
    """Says what is wrong with a disk, if anything is, and whether a temporary file is left."""
    work, env = mount / "work", environment(mount / "home")

    def version():
        try:
            now = (work / "code.rs").read_text()
        except (OSError, UnicodeDecodeError) as error:
            return None, str(error)
        found = versions.get(now)
        if found is None:
            return None, f"{len(now)} bytes that no edit has left"
        if not answered <= found <= begun:
            return None, f"edit {found}, but {answered} was answered and {begun} begun"
        return found, None

    found, wrong = version()
    if wrong:
        return wrong, False
    told = run(haft, "history", cwd=work, env=env)
    found, wrong = version()
    if wrong:
        return f"after recovery: {wrong} ({told.stderr.strip()})", False
    if found > 0:
        told = run(haft, "undo", cwd=work, env=env)
        if (work / "code.rs").read_text() != text(found - 1):
            return f"edit {found} was not undone: {told.stdout.strip()} {told.stderr.strip()}", False
    return None, any(path.name != "code.rs" for path in work.iterdir())


def try_cuts(haft, name, edits, cuts):
    mkfs, megabytes = FILE_SYSTEMS[name]
    kind = name.split()[0]
    with tempfile.TemporaryDirectory() as base:
        base = Path(base)
        disk, done = record(haft, base, mkfs, megabytes, kind, edits)
        disk, mount, cut_image = bytearray(disk), base / "mount", base / "cut"
        versions = {text(version): version for version in range(edits + 1)}
        first = next(at for at, operation in enumerate(done) if operation[0] == b"M")
        moments = sorted(random.sample(range(first, len(done)), min(cuts, len(done) - first)))
        flushed, bad, left = 0, 0, 0
        for moment in moments:
            flush = max((at for at in range(flushed, moment) if done[at][0] == b"F"), default=flushed)
            for operation, offset, data in done[flushed:flush]:
                if operation == b"W":
                    disk[offset : offset + len(data)] = data
            flushed = flush
            since = [(offset, data) for operation, offset, data in done[flushed:moment] if operation == b"W"]
            way, image = left_by_a_cut(disk, since)
            cut_image.write_bytes(image)
            if "without" in name:
                run("e2fsck", "-fy", str(cut_image))
            mounted = run("mount", "-t", kind, "-o", "loop", str(cut_image), str(mount))
            if mounted.returncode != 0:
                wrong, is_left = f"it cannot be mounted: {mounted.stderr.strip()}", False
            else:
                before = done[:moment]
                wrong, is_left = examine(haft, mount, versions, latest(before, b"done"), latest(before, b"begun"))
                must("umount", str(mount))
            left += is_left
            if wrong:
                bad += 1
                print(f"  after {moment} operations, {way} of the last writes: {wrong}")
    flushes = sum(operation[0] == b"F" for operation in done)
    print(f"{name}: {edits} edits, {flushes} flushes, {len(moments)} cuts, {bad} bad, {left} with a temporary file left")
    return bad


def main():
    haft, edits, cuts, seed, *names = sys.argv[1:]
    random.seed(int(seed))
    # Without a journal a cut in the moment of a rename can cost the file, whoever renames: seen, and not asked for here.
    names = names or [name for name in FILE_SYSTEMS if "without" not in name]
    bad = sum(try_cuts(haft, name, int(edits), int(cuts)) for name in names)
    sys.exit(1 if bad else 0)


main()
