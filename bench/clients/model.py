"""A model that follows a script, on loopback, for one session of one client. It makes the calls of a turn, waits for a
request that has all their results, keeps what that request says, and goes on; after the last turn it says `DONE`.

Knows nothing of haft: a call names a tool as its server does, and the model finds it among the offered ones.
"""
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from wires import WIRES, Offered, Said

DONE = "the script has ended"
# The tools with which a model loads tools that a client only names at first, and those through which it calls them.
SEARCHES, THROUGH = {"ToolSearch", "tool_search"}, {"tool_call"}
SEARCH_CALL = "call_search"


class Model:
    def __init__(self, server, turns):
        """`turns` is a list of lists of (step, tool, input); `server` is the name under which the client knows haft."""
        self.server, self.turns = server, turns
        self.at = -1
        self.pending = {}  # id -> step
        self.calls = []
        self.offers = []   # the server's tools, as they were first offered
        self.loaded = []   # those that are called through another tool
        self.results = {}  # step -> what the model was handed
        self.faults = []   # what the client did that a model could not make sense of
        self.requests = []
        self.spoken = ""   # the wire of the conversation
        self.is_deferred = False  # the tools had to be searched for
        self.is_done = False
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                model.serve(self)

            do_GET = do_HEAD = do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def serve(self, http):
        length = int(http.headers.get("content-length") or 0)
        raw = http.rfile.read(length) if length else b""
        if "chunked" in (http.headers.get("transfer-encoding") or ""):
            raw = unchunked(http.rfile)
        path = http.path.split("?")[0].rstrip("/")
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {}
        with self.lock:
            self.requests.append({"method": http.command, "path": http.path, "body": body})
        wire = next((wire for wire in WIRES if wire.path.search(path)), None)
        try:
            if wire is None:
                send(http, aside(path, body))
                return
            try:
                with self.lock:
                    answer = wire.answer(body, path, self.say(wire, body, path))
            except (KeyError, TypeError, ValueError) as error:
                # A request that this model cannot read is a fault of the run, not of the machine.
                self.faults.append(f"a request to {path} could not be read: {error!r}")
                send(http, {"error": {"type": "invalid_request_error", "message": repr(error)}}, 400)
                return
            send(http, answer.document) if answer.document is not None else stream(http, answer)
        except OSError:
            pass  # the client did not wait for the answer

    def say(self, wire, body, path):
        offered, results = wire.offered(body), wire.results(body)
        ours = [tool for tool in offered if self.is_ours(tool)]
        search = next((tool for tool in offered if tool.name in SEARCHES), None)
        if not ours and not search:
            # A title, a summary, a check of the quota: not the conversation.
            return Said(text=aside_text(body))
        self.spoken = wire.name + (", streamed" if wire.is_streamed(body, path) else "")
        if not ours and not self.loaded:
            if SEARCH_CALL not in results:
                query = f"select:{','.join(self.named(body))}"
                return Said(calls=[(SEARCH_CALL, search, {"query": query, "max_results": 20})])
            self.loaded = self.declared(results[SEARCH_CALL], offered)
        ours = ours or self.loaded
        self.is_deferred = SEARCH_CALL in results
        self.offers = self.offers or ours
        if not all(id in results for id in self.pending):
            return Said(calls=self.calls)  # the client asks once more
        for id, step in self.pending.items():
            self.results[step] = results[id]
        self.pending = {}
        self.at += 1
        self.calls = []
        for number, (step, name, input) in enumerate(self.turns[self.at] if self.at < len(self.turns) else []):
            tool = self.find(ours, name)
            if tool is None:
                self.faults.append(f"no tool `{name}` was offered")
                continue
            id = f"call_{self.at}_{number}"
            self.pending[id] = step
            self.calls.append((id, tool.via, {"name": tool.name, "arguments": input}) if tool.via else (id, tool, input))
        self.is_done = self.at >= len(self.turns)
        return Said(calls=self.calls) if self.calls else Said(text=DONE)

    def named(self, body):
        """The tools that a client names without offering them."""
        return sorted(set(re.findall(rf"mcp__{self.server}__\w+", json.dumps(body))))

    def declared(self, texts, offered):
        """The tools that the answer to a search declares, which are called through another one."""
        via = next((tool for tool in offered if tool.name in THROUGH), None)
        found = [json.loads(one) for one in re.findall(r"<function>(.*?)</function>", "\n".join(texts), re.DOTALL)]
        schema = lambda one: one.get("parameters") or one.get("parametersJsonSchema") or one.get("input_schema") or {}
        return [Offered(one["name"], one["description"], schema(one), via=via) for one in found]

    def is_ours(self, tool):
        return self.server is None or self.server in tool.full

    def find(self, ours, name):
        """The tool that a client offers for a server's `name`: clients put the server's name before it."""
        ends = re.compile(rf"(^|[^A-Za-z0-9]){re.escape(name)}$")
        found = [tool for tool in ours if ends.search(tool.full)]
        return min(found, key=lambda tool: len(tool.full), default=None)


def unchunked(stream):
    parts = []
    while size := int(stream.readline().split(b";")[0], 16):
        parts.append(stream.read(size))
        stream.readline()
    stream.readline()
    return b"".join(parts)


def aside_text(body):
    """An answer to a request beside the conversation. Some demand JSON."""
    return "{}" if "json" in json.dumps(body.get("generationConfig") or body.get("response_format") or "").lower() else "ok"


def aside(path, body):
    """Answers to requests that are not for a completion."""
    if path.endswith("count_tokens"):
        return {"input_tokens": 10}
    if path.endswith(":countTokens"):
        return {"totalTokens": 10}
    if path.endswith("/models"):
        return {"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}
    return {}


def send(http, document, status=200):
    data = json.dumps(document).encode()
    http.send_response(status)
    http.send_header("content-type", "application/json")
    http.send_header("content-length", str(len(data)))
    http.end_headers()
    http.wfile.write(data)


def stream(http, answer):
    http.send_response(200)
    http.send_header("content-type", "text/event-stream")
    http.send_header("connection", "close")
    http.end_headers()
    for name, data in answer.events:
        http.wfile.write(((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n").encode())
        http.wfile.flush()
    if answer.last:
        http.wfile.write(f"data: {answer.last}\n\n".encode())
    http.close_connection = True
