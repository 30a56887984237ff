"""What haft said, as the tee heard it, beside what reached the model."""
import json
import re
import unicodedata
from dataclasses import dataclass


@dataclass
class Heard:
    """The conversation between a client and haft."""
    protocol: str = ""
    client: str = ""
    forms: bool = False        # the client says that it can show forms
    tools: list = None         # as haft listed them
    calls: list = None         # (name, arguments, result), in the order of the calls
    questions: list = None     # what haft asked the client's user
    answers: list = None       # what the client answered


def heard(log):
    """Reads what a tee wrote."""
    found = Heard(tools=[], calls=[], questions=[], answers=[])
    asked, sent = {}, {}
    try:
        lines = [json.loads(line) for line in open(log)]
    except FileNotFoundError:
        return found
    for entry in lines:
        try:
            message = json.loads(entry["line"])
        except ValueError:
            continue
        # A client may start haft more than once.
        params, id = message.get("params") or {}, (entry["server"], message.get("id"))
        if entry["from"] == "client" and "method" in message:
            sent[id] = message
            # Version 2026-07-28 has no `initialize`: each request says who sends it.
            meta = params.get("_meta") or {}
            about = params if message["method"] == "initialize" else {
                "capabilities": meta.get("io.modelcontextprotocol/clientCapabilities"),
                "clientInfo": meta.get("io.modelcontextprotocol/clientInfo"),
            }
            if about.get("capabilities") is not None:
                found.forms = found.forms or "elicitation" in about["capabilities"]
            if about.get("clientInfo"):
                found.client = about["clientInfo"].get("name", "")
            found.protocol = meta.get("io.modelcontextprotocol/protocolVersion", found.protocol)
            if message["method"] == "tools/call":
                found.answers += [answer.get("action") for answer in (params.get("inputResponses") or {}).values()]
        elif entry["from"] == "haft" and "method" in message:
            if message["method"] == "elicitation/create":
                asked[id] = params
                found.questions.append(params)
        elif entry["from"] == "client" and id in asked:
            found.answers.append((message.get("result") or {}).get("action") or f"error: {message.get('error')}")
        elif entry["from"] == "haft" and id in sent:
            request, result = sent[id], message.get("result") or {}
            if request["method"] == "initialize":
                found.protocol = result.get("protocolVersion", "")
            elif request["method"] == "tools/list":
                # A client may list more than once; pages follow one another.
                known = {tool["name"] for tool in found.tools}
                found.tools += [tool for tool in result.get("tools", []) if tool["name"] not in known]
            elif request["method"] == "tools/call":
                found.questions += [one.get("params") for one in (result.get("inputRequests") or {}).values()]
                if "content" in result or "error" in message:
                    found.calls.append((request["params"]["name"], request["params"].get("arguments") or {},
                                        result or {"error": message["error"]}))
    return found


@dataclass
class Verdict:
    """Whether the model was handed what haft said; `how` says in which form, or what is missing."""
    ok: bool
    how: str
    note: str = ""


def escaped(text):
    """The forms in which a text may stand inside a JSON document."""
    return [json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (False, True)]


def around(whole, part):
    """What a client put around a text, in short."""
    before, _, after = whole.partition(part)
    clip = lambda text: text if len(text) <= 60 else f"{text[:30]}…{text[-25:]}"
    # Figures differ from run to run.
    clip_same = lambda text: re.sub(r"\d+", "N", clip(text)).replace("\n", "\\n")
    return f"`{clip_same(before)}` *text* `{clip_same(after)}`".replace("`` ", "").replace(" ``", "")


def compare(result, got):
    """`result` is haft's, `got` the texts that the model was handed."""
    if got is None:
        return Verdict(False, "no result reached the model")
    said = [block["text"] for block in result.get("content", []) if block["type"] == "text"]
    whole = "\n".join(got)
    if got == said or whole == "\n".join(said):
        return Verdict(True, "same")
    structured = result.get("structuredContent")
    if structured is not None:
        try:
            if json.loads(whole) == structured and all(json.loads(text) == structured for text in said):
                return Verdict(True, "structured")
        except ValueError:
            pass
    if all(text in whole for text in said):
        return Verdict(True, "wrapped", around(whole, said[0]) if len(said) == 1 else "")
    twice = lambda text: [form for once in escaped(text) for form in escaped(once)]
    for how, forms in [("as JSON", escaped), ("as JSON in JSON", twice)]:
        if all(any(form in whole for form in forms(text)) for text in said):
            return Verdict(True, how, around(whole, next(form for form in forms(said[0]) if form in whole)))
    # A cut keeps the beginning, and often the end.
    for text, form in [(said[0], "cut")] + [(form, "cut, as JSON") for form in escaped(said[0])]:
        kept = next((size for size in range(len(text), 199, -50) if text[:size] in whole), 0)
        if kept:
            kilobytes = lambda text: f"{len(text) / 1000:.0f}"
            return Verdict(False, form, f"{kilobytes(whole)} of {kilobytes(text)} kB")
    return Verdict(False, "differs", f"haft: {said[0][:200]!r}, model: {whole[:300]!r}")


def compare_tools(listed, offers, find):
    """`listed` are haft's tools, `offers` what the model was offered for them. Clients may rewrite schemas for their
    model's sake, but not lose a tool, a field or a description."""
    added, is_changed = set(), False
    for tool in listed:
        offer = find(offers, tool["name"])
        if offer is None:
            return Verdict(False, f"`{tool['name']}` was not offered")
        # Clients may normalise characters (`…` becomes `...`) and add to a description.
        if plain(tool["description"]) not in plain(offer.description):
            return Verdict(False, f"the description of `{tool['name']}` is another", offer.description[:200])
        fields, offered = (set(schema.get("properties", {})) for schema in (tool["inputSchema"], offer.schema))
        if fields - offered:
            return Verdict(False, f"`{tool['name']}` lacks fields", ", ".join(sorted(fields - offered)))
        added |= offered - fields
        is_changed = is_changed or tool["inputSchema"] != offer.schema
    if not listed:
        return Verdict(False, "the client asked for no tools")
    note = f"adds the field {', '.join(f'`{field}`' for field in sorted(added))}" if added else ""
    return Verdict(True, "rewritten" if is_changed else "same", note)


def plain(text):
    return unicodedata.normalize("NFKC", text).strip()
