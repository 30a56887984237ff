"""A disk in memory that takes its time to flush: a FUSE folder with one file, `disk`, for a loop device."""

import errno
import stat
import sys
import time

from fuse import FUSE, FuseOSError, Operations


class Disk(Operations):
    def __init__(self, image, seconds):
        self.seconds = seconds
        with open(image, "rb") as file:
            self.data = bytearray(file.read())

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != "/disk":
            raise FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": len(self.data)}

    def readdir(self, path, fh):
        return [".", "..", "disk"]

    def open(self, path, flags):
        return 1

    def read(self, path, size, offset, fh):
        return bytes(self.data[offset : offset + size])

    def write(self, path, data, offset, fh):
        self.data[offset : offset + len(data)] = data
        return len(data)

    def fsync(self, path, datasync, fh):
        time.sleep(self.seconds)
        return 0


if __name__ == "__main__":
    image, milliseconds, folder = sys.argv[1:]
    disk = Disk(image, float(milliseconds) / 1000)
    FUSE(disk, folder, foreground=True, nothreads=True, direct_io=True, max_write=131072)
