"""tee.py LOG HOME PROGRAM…: runs a server of the protocol with an own HOME, and writes every line between it and its
client to LOG. What a model is handed is compared with this: it is exactly what haft said to that client."""
import json
import os
import subprocess
import sys
import threading

log = open(sys.argv[1], "a", buffering=1)
lock = threading.Lock()
env = os.environ | {"HOME": sys.argv[2]}
server = subprocess.Popen(sys.argv[3:], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pass_on(origin, source, sink):
    for line in iter(source.readline, b""):
        entry = {"server": server.pid, "from": origin, "line": line.decode(errors="replace").rstrip("\n")}
        with lock:
            log.write(json.dumps(entry) + "\n")
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            break
    sink.close()


client = threading.Thread(target=pass_on, args=("client", sys.stdin.buffer, server.stdin), daemon=True)
client.start()
pass_on("haft", server.stdout, sys.stdout.buffer)
sys.exit(server.wait())
