"""The tables: on standard output for whoever runs the bench, and in docs/clients.md."""
import re

from clients import HERE

DOCS = HERE.parent.parent / "docs/clients.md"
MARK = "<!-- results -->"
STEPS = ["tools", "read", "search", "edit", "command", "fault", "long"]


def cell(verdict):
    if verdict is None:
        return "–"
    if not verdict.ok:
        return f"FAIL: {verdict.how}"
    return f"{verdict.how}, {verdict.note}" if verdict.how.startswith("cut") else verdict.how


def whole(outcome):
    """One cell for a session of another dialect."""
    if not outcome.ok:
        return "FAIL"
    forms = [cell(outcome.verdicts[step]) for step in ("read", "command", "fault")]
    return forms[0] if len(set(forms)) == 1 else " / ".join(forms)


def results(by_client):
    yield ["client", *STEPS, "`ally`", "`workspace`"]
    for client, kinds in by_client:
        verdicts = kinds["claude"].verdicts
        yield [client.name, *(cell(verdicts.get(step)) for step in STEPS), whole(kinds["ally"]), whole(kinds["workspace"])]


def versions(by_client):
    yield ["client", "package", "version", "MCP", "API of the model", "`Read` is offered as", "instructions"]
    for client, kinds in by_client:
        work = kinds["claude"]
        spoken = list(dict.fromkeys(one.wire for one in kinds.values() if one.kind in ("claude", "ally", "workspace")))
        read = min((name for name in work.tools if name.endswith("Read")), key=len, default="–")
        deferred = ", after a search" if work.is_deferred else ""
        passed_on = "no model" if not client.has_model else "passed on" if work.has_instructions else "not passed on"
        yield [client.name, f"`{client.package}`", client.version, work.heard.protocol,
               "; ".join(spoken) if client.has_model else "no model", f"`{read}`{deferred}", passed_on]


def own_question(kinds):
    """When a program asks its own user before it uses a tool, and what its model is told if there is none."""
    own = kinds.get("own")
    if own is None:
        return "no", ""
    reached = {name for name, _, _ in own.heard.calls}
    if "Edit" in reached:
        return "no", ""
    when = "before calls that change something" if "Read" in reached else "before every call"
    if not own.told.get("edit"):
        return when, "it does not offer the tools"
    told = " ".join(own.told["edit"])
    told = re.sub(r"<system-reminder>.*?</system-reminder>", "", told, flags=re.DOTALL)
    # Figures differ from run to run.
    told = " ".join(re.sub(r"\d+(\.\d+)?", "N", told).split())
    return when, f"it tells the model “{told}”"


def approvals(by_client):
    yield ["client", "asks before it uses a tool", "unless it has", "can show haft's form", "what it answers without a user",
           "a user is asked twice", "who allowed the edit above"]
    for client, kinds in by_client:
        can, (when, refused) = kinds["claude"].heard.forms, own_question(kinds)
        answers = kinds["asks"].heard.answers
        without = ", ".join(f"`{answer}`" for answer in answers) if answers else "haft does not ask it"
        by = f"{client.answers}, in haft's form" if client.answers else "`haft mcp --mode accept-edits`"
        yield [client.name, when, client.allowed_by if refused else "–", "yes" if can else "no", without,
               "yes" if refused and can else "no", by]


def notes(by_client):
    """What clients put around a text, and what they say to the model when they refuse a call themselves."""
    for client, kinds in by_client:
        said = []
        added = [(step, kinds["claude"].verdicts[step].note) for step in ("tools", "edit", "fault")]
        for step, note in added:
            if note and not (step == "fault" and note == dict(added)["edit"]):
                said.append(f"{step}: {note}")
        _, refused = own_question(kinds)
        if refused:
            said.append(f"without a user {refused}")
        denied = next((result for name, _, result in kinds["asks"].heard.calls if name == "Edit"), None)
        if denied and kinds["asks"].heard.answers:
            said.append(f"after a form that it has not shown, haft says: “{denied['content'][0]['text']}”")
        if said:
            yield f"- **{client.name}**: {'; '.join(said)}"


def markdown(rows):
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def document(by_client):
    return "\n\n".join([
        MARK, "## The clients", markdown(versions(by_client)), "## What reaches the model", markdown(results(by_client)),
        "## Approvals", markdown(approvals(by_client)), "## What they add", "\n".join(notes(by_client)),
    ]) + "\n"


def show(by_client):
    """Prints the results; returns whether anything failed."""
    rows = [[str(cell) for cell in row] for row in results(by_client)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    failed = [outcome for _, kinds in by_client for outcome in kinds.values() if not outcome.ok]
    for outcome in failed:
        for problem in outcome.problems:
            print(f"FAIL {outcome.client.name}, {outcome.kind}: {problem}")
        for step, verdict in outcome.verdicts.items():
            if not verdict.ok:
                print(f"FAIL {outcome.client.name}, {outcome.kind}, {step}: {verdict.how} {verdict.note}")
    seconds = sum(outcome.seconds for _, kinds in by_client for outcome in kinds.values())
    count = sum(len(kinds) for _, kinds in by_client)
    print(f"{count} sessions, {len(failed)} failed, {seconds:.0f} s of them one after the other")
    return bool(failed)


def check_docs(by_client, is_written):
    """Writes docs/clients.md, or says that it is not what it would be; returns whether it is stale."""
    before = DOCS.read_text()
    after = before.partition(MARK)[0] + document(by_client)
    if before == after:
        return False
    if is_written:
        DOCS.write_text(after)
        print("docs/clients.md is new")
        return False
    print("FAIL docs/clients.md says something else: run `bench/clients/run --write-docs` and review the diff")
    return True
