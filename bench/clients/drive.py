"""drive.py CACHE HAFT [--write-docs] [--only NAME] [--keep]: runs all sessions of all clients and reports."""
import argparse
import concurrent.futures
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import report
import script
from clients import CLIENTS, HERE, SERVER, Client, Session
from compare import Heard, Verdict, compare, compare_tools, heard
from model import Model
from wires import Offered

# A session takes seconds. One that has not ended by then has failed.
LIMIT = 120


@dataclass
class Outcome:
    """What came of one session."""
    client: Client
    kind: str
    heard: Heard
    seconds: float
    problems: list                                 # why the session failed as a whole
    verdicts: dict = field(default_factory=dict)   # step -> Verdict
    told: dict = field(default_factory=dict)       # step -> the texts that the model, or the caller, was handed
    wire: str = ""
    tools: list = field(default_factory=list)      # the names that the model knows
    is_deferred: bool = False
    has_instructions: bool = False
    base: Path = None

    @property
    def ok(self):
        return not self.problems and all(verdict.ok for verdict in self.verdicts.values())


def run(client, kind, cache, haft):
    base = Path(tempfile.mkdtemp(prefix="haft-clients-")).resolve()
    script.make_world(base)
    turns = script.turns(kind)
    answers = bool(client.answers) and kind != "asks"
    model = Model(SERVER if client.is_program else None, turns)
    command = [sys.executable, str(HERE / "tee.py"), str(base / "wire.jsonl"), str(base / "haft"), haft, "mcp",
               "--workspace", str(base / "work"), "--dialect", script.dialect(kind)]
    if kind != "asks" and not answers:
        command += ["--mode", "accept-edits"]
    session = Session(base, cache, command, model.url, kind != "own", answers, script.dialect(kind), turns)
    begun = time.monotonic()
    code, said = start(session, *client.start(session))
    model.close()
    outcome = Outcome(client, kind, heard(base / "wire.jsonl"), time.monotonic() - begun, list(model.faults), base=base)
    if code != 0:
        outcome.problems.append(f"the client ended with {code}: {said[-400:].strip()}")
    if client.has_model:
        outcome.told, offers = model.results, model.offers
        outcome.wire, outcome.is_deferred = model.spoken, model.is_deferred
        outcome.has_instructions = any("haft://journal." in json.dumps(request["body"]) for request in model.requests)
        if not model.is_done and kind in script.WORK:
            outcome.problems.append("the client did not go through the whole script")
    else:
        told = json.loads(session.out.read_text()) if session.out.exists() else {"tools": [], "results": {}}
        outcome.told = {step: result["texts"] for step, result in told["results"].items()}
        offers = [Offered(tool["name"], tool["description"], tool["schema"]) for tool in told["tools"]]
    outcome.tools = [tool.full for tool in offers]
    if kind in script.WORK:
        outcome.verdicts["tools"] = compare_tools(outcome.heard.tools, offers, model.find)
    if kind != "own":
        for step, tool, input in sum(turns, []):
            made = [result for name, arguments, result in outcome.heard.calls if (name, arguments) == (tool, input)]
            if len(made) == 1:
                outcome.verdicts[step] = compare(made[0], outcome.told.get(step))
            else:
                outcome.verdicts[step] = Verdict(False, f"haft got the call {len(made)} times")
        # A client may cut what is long: that is reported.
        if "long" in outcome.verdicts and outcome.verdicts["long"].how.startswith("cut"):
            outcome.verdicts["long"].ok = True
    if not client.has_model and not outcome.problems:
        outcome.problems += list(without_model(outcome, told))
    outcome.problems += script.problems(kind, base)
    (base / "requests.json").write_text(json.dumps(model.requests, indent=1))
    (base / "said.txt").write_text(said)
    return outcome


def without_model(outcome, told):
    """What a caller must be handed besides the text: the same structured content, and whether the call failed."""
    for name, arguments, result in outcome.heard.calls:
        step = next(step for step, tool, input in sum(script.turns(outcome.kind), []) if (tool, input) == (name, arguments))
        given = told["results"][step]
        if given["structured"] != result.get("structuredContent"):
            yield f"{step}: the structured content is not haft's"
        if bool(given["failed"]) != bool(result.get("isError")):
            yield f"{step}: whether the call failed was lost"


def start(session, argv, env):
    """Runs a client to its end; returns its exit code and everything it printed."""
    env = {"HOME": str(session.home), "PATH": f"{Path(session.node).parent}:/usr/local/bin:/usr/bin:/bin",
           "LANG": "C.UTF-8", "TERM": "dumb", "NO_PROXY": "*", **env}
    with open(session.base / "output", "w+b") as output:
        client = subprocess.Popen(argv, cwd=session.work, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = client.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = f"no end after {LIMIT} s"
        finally:
            # What a client leaves behind ends with its session.
            try:
                os.killpg(client.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            client.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def only_loopback():
    """Brings loopback up, and makes sure that there is nothing else: clients must not reach the network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS
        try:
            control.connect(("192.0.2.1", 9))
        except OSError as error:
            if error.errno == errno.ENETUNREACH:
                return
    sys.exit("the clients could reach the network: start bench/clients/run, not drive.py")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("cache", type=Path)
    options.add_argument("haft")
    options.add_argument("--write-docs", action="store_true")
    options.add_argument("--only", default="")
    options.add_argument("--keep", action="store_true")
    options = options.parse_args()
    only_loopback()
    clients = [client for client in CLIENTS if options.only.lower() in client.name.lower()]
    kinds = lambda client: [*script.WORK, "asks"] + (["own"] if client.is_program else [])
    sessions = [(client, kind) for client in clients for kind in kinds(client)]
    # The slowest first, so that none is waited for in the end.
    sessions.sort(key=lambda one: one[0].name not in ("OpenCode", "Qwen Code"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        outcomes = list(pool.map(lambda one: run(*one, options.cache.resolve(), options.haft), sessions))
    by_client = [(client, {one.kind: one for one in outcomes if one.client is client}) for client in clients]
    failed = report.show(by_client)
    for outcome in outcomes:
        if options.keep:
            print(f"{outcome.client.name}, {outcome.kind}: {outcome.base}")
        else:
            shutil.rmtree(outcome.base, ignore_errors=True)
    if not options.only and not failed:
        failed = report.check_docs(by_client, options.write_docs)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
