"""A disk that remembers: a FUSE folder with one file, `disk`, for a loop device. Every write to it and every flush goes
into a log, in order, and so does what is written to the other file, `mark`. A flush can be made to take some time."""

import errno
import stat
import struct
import sys
import time

from fuse import FUSE, FuseOSError, Operations

HEAD = struct.Struct("<cQQ")


class Disk(Operations):
    def __init__(self, image, log, milliseconds):
        with open(image, "rb") as file:
            self.data = bytearray(file.read())
        self.log = open(log, "wb", buffering=0)
        self.seconds = milliseconds / 1000

    def note(self, kind, offset=0, data=b""):
        self.log.write(HEAD.pack(kind, offset, len(data)) + data)

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        sizes = {"/disk": len(self.data), "/mark": 0}
        if path not in sizes:
            raise FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": sizes[path]}

    def readdir(self, path, fh):
        return [".", "..", "disk", "mark"]

    def open(self, path, flags):
        return 1

    def truncate(self, path, length, fh=None):
        pass

    def read(self, path, size, offset, fh):
        return bytes(self.data[offset : offset + size]) if path == "/disk" else b""

    def write(self, path, data, offset, fh):
        if path == "/mark":
            self.note(b"M", 0, data)
        else:
            self.data[offset : offset + len(data)] = data
            self.note(b"W", offset, data)
        return len(data)

    def fsync(self, path, datasync, fh):
        if path == "/disk":
            self.note(b"F")
            time.sleep(self.seconds)
        return 0


if __name__ == "__main__":
    image, log, folder, *milliseconds = sys.argv[1:]
    disk = Disk(image, log, float(*milliseconds))
    FUSE(disk, folder, foreground=True, nothreads=True, direct_io=True, max_write=131072)
