"""The wire protocols of the models: how a request offers tools and carries their results, and how calls and text are
answered, as one document or as a stream of events. Knows nothing of haft, nor of what the model is to say.

A wire has: `offered(body)`, the tools of a request; `results(body)`, what the request says each call returned;
`answer(body, path, said)`, the response. `said` is a `Said`.
"""
import json
import re
import time
from dataclasses import dataclass, field


@dataclass
class Offered:
    """A tool as a request offers it. `name` is what a call must say, `inside` the namespace it must name."""
    name: str
    description: str
    schema: dict
    inside: str | None = None
    via: "Offered | None" = None  # the tool through which it is called

    @property
    def full(self):
        return f"{self.inside}.{self.name}" if self.inside else self.name


@dataclass
class Said:
    """What the model says: text, or calls as (id, Offered, input)."""
    text: str = ""
    calls: list = field(default_factory=list)


@dataclass
class Answer:
    """A response: a document, or events as (name, data); a name of None has no `event:` line."""
    document: dict | None = None
    events: list = field(default_factory=list)
    last: str | None = None


def texts(content):
    """The texts in the content of a message: a string, or a list of blocks. What is no text is named by its type."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, dict):
        return [json.dumps(content, ensure_ascii=False)]
    return [block["text"] if isinstance(block.get("text"), str) else f"<{block.get('type', 'block')}>" for block in content]


class Wire:
    def is_streamed(self, body, path):
        return bool(body.get("stream"))


class Anthropic(Wire):
    """Messages of Anthropic."""
    name = "Anthropic Messages"
    path = re.compile(r"/v1/messages$")

    def offered(self, body):
        return [Offered(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
                for tool in body.get("tools") or [] if "name" in tool]

    def results(self, body):
        found = {}
        for message in body.get("messages", []):
            if isinstance(message["content"], list):
                for block in message["content"]:
                    if block.get("type") == "tool_result":
                        found[block["tool_use_id"]] = texts(block.get("content"))
        return found

    def answer(self, body, path, said):
        blocks = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [{"type": "tool_use", "id": id, "name": tool.name, "input": input} for id, tool, input in said.calls]
        stop = "tool_use" if said.calls else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {"id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant", "model": body["model"],
                   "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return Answer(document=message)
        events = [("message_start", {"message": message | {"content": [], "stop_reason": None}})]
        for index, block in enumerate(blocks):
            at = {"index": index}
            if block["type"] == "text":
                events.append(("content_block_start", at | {"content_block": {"type": "text", "text": ""}}))
                events.append(("content_block_delta", at | {"delta": {"type": "text_delta", "text": block["text"]}}))
            else:
                events.append(("content_block_start", at | {"content_block": block | {"input": {}}}))
                for piece in pieces(json.dumps(block["input"])):
                    delta = {"type": "input_json_delta", "partial_json": piece}
                    events.append(("content_block_delta", at | {"delta": delta}))
            events.append(("content_block_stop", at))
        events.append(("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}))
        events.append(("message_stop", {}))
        return Answer(events=[(name, {"type": name} | data) for name, data in events])


class Responses(Wire):
    """Responses of OpenAI."""
    name = "OpenAI Responses"
    path = re.compile(r"/v1/responses$")

    def offered(self, body):
        found = []
        for tool in body.get("tools") or []:
            if tool.get("type") == "function":
                found.append(Offered(tool["name"], tool.get("description", ""), tool.get("parameters", {})))
            elif tool.get("type") == "namespace":
                for inner in tool.get("tools", []):
                    found.append(Offered(inner["name"], inner.get("description", ""), inner.get("parameters", {}), tool["name"]))
        return found

    def results(self, body):
        if isinstance(body.get("input"), str):
            return {}
        return {item["call_id"]: texts(item["output"]) for item in body.get("input", [])
                if item.get("type") == "function_call_output"}

    def answer(self, body, path, said):
        base = f"{time.monotonic_ns()}"
        items = []
        if said.text:
            content = [{"type": "output_text", "text": said.text, "annotations": []}]
            items.append({"type": "message", "id": f"msg_{base}", "role": "assistant", "status": "completed", "content": content})
        for id, tool, input in said.calls:
            call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": tool.name,
                    "arguments": json.dumps(input), "status": "completed"}
            items.append(call | ({"namespace": tool.inside} if tool.inside else {}))
        usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": f"resp_{base}", "object": "response", "created_at": int(time.time()), "status": "completed",
                    "model": body["model"], "output": items, "usage": usage, "parallel_tool_calls": True,
                    "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None,
                    "metadata": {}, "temperature": 1.0, "top_p": 1.0}
        if not body.get("stream"):
            return Answer(document=response)
        events = [("response.created", {"response": response | {"status": "in_progress", "output": [], "usage": None}})]
        for index, item in enumerate(items):
            at = {"output_index": index, "item_id": item["id"]}
            begun = {"status": "in_progress"} | ({"content": []} if item["type"] == "message" else {"arguments": ""})
            events.append(("response.output_item.added", {"output_index": index, "item": item | begun}))
            if item["type"] == "message":
                part = at | {"content_index": 0}
                empty = {"type": "output_text", "text": "", "annotations": []}
                events.append(("response.content_part.added", part | {"part": empty}))
                events.append(("response.output_text.delta", part | {"delta": said.text, "logprobs": []}))
                events.append(("response.output_text.done", part | {"text": said.text, "logprobs": []}))
                events.append(("response.content_part.done", part | {"part": item["content"][0]}))
            else:
                for piece in pieces(item["arguments"]):
                    events.append(("response.function_call_arguments.delta", at | {"delta": piece}))
                done = {"arguments": item["arguments"], "name": item["name"]}
                events.append(("response.function_call_arguments.done", at | done))
            events.append(("response.output_item.done", {"output_index": index, "item": item}))
        events.append(("response.completed", {"response": response}))
        numbered = enumerate(events)
        return Answer(events=[(name, {"type": name, "sequence_number": number} | data) for number, (name, data) in numbered])


class Chat(Wire):
    """Chat Completions of OpenAI."""
    name = "OpenAI Chat Completions"
    path = re.compile(r"/chat/completions$")

    def offered(self, body):
        functions = [tool["function"] for tool in body.get("tools") or [] if tool.get("type") == "function"]
        return [Offered(one["name"], one.get("description", ""), one.get("parameters", {})) for one in functions]

    def results(self, body):
        return {message["tool_call_id"]: texts(message.get("content")) for message in body.get("messages", [])
                if message.get("role") == "tool"}

    def answer(self, body, path, said):
        head = {"id": f"chatcmpl-{time.monotonic_ns()}", "created": int(time.time()), "model": body["model"]}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        stop = "tool_calls" if said.calls else "stop"
        calls = [{"id": id, "type": "function", "function": {"name": tool.name, "arguments": json.dumps(input)}}
                 for id, tool, input in said.calls]
        if not body.get("stream"):
            message = {"role": "assistant", "content": said.text or None} | ({"tool_calls": calls} if calls else {})
            choice = {"index": 0, "message": message, "finish_reason": stop, "logprobs": None}
            return Answer(document=head | {"object": "chat.completion", "choices": [choice], "usage": usage})
        deltas = [{"role": "assistant", "content": ""}]
        if said.text:
            deltas.append({"content": said.text})
        for index, call in enumerate(calls):
            function = call["function"]
            deltas.append({"tool_calls": [call | {"index": index, "function": function | {"arguments": ""}}]})
            for piece in pieces(function["arguments"]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        chunk = head | {"object": "chat.completion.chunk"}
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": stop})
        events = [(None, chunk | {"choices": [choice]}) for choice in choices]
        events.append((None, chunk | {"choices": [], "usage": usage}))
        return Answer(events=events, last="[DONE]")


class Gemini(Wire):
    """Content generation of Gemini."""
    name = "Gemini generateContent"
    path = re.compile(r":(generateContent|streamGenerateContent)$")

    def is_streamed(self, body, path):
        return path.endswith(":streamGenerateContent")

    def offered(self, body):
        found = []
        for group in body.get("tools") or []:
            for one in group.get("functionDeclarations", []):
                schema = one.get("parametersJsonSchema") or one.get("parameters") or {}
                found.append(Offered(one["name"], one.get("description", ""), schema))
        return found

    def results(self, body):
        found = {}
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    given = part["functionResponse"]
                    # A response is an object; its fields are what the model reads.
                    found[given.get("id") or given["name"]] = texts(given["response"])
        return found

    def answer(self, body, path, said):
        parts = [{"text": said.text}] if said.text else []
        parts += [{"functionCall": {"id": id, "name": tool.name, "args": input}} for id, tool, input in said.calls]
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
        document = {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                    "usageMetadata": usage, "modelVersion": "scripted"}
        return Answer(events=[(None, document)]) if self.is_streamed(body, path) else Answer(document=document)


def pieces(text, size=40):
    """Text as a stream hands it out."""
    return [text[at:at + size] for at in range(0, len(text), size)]


WIRES = [Anthropic(), Responses(), Chat(), Gemini()]
