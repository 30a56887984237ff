"""The tables: on standard output for whoever runs the bench, and in docs/clients.md."""
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
    """When a program asks its own user before it uses a tool, unless it is told not to."""
    own = kinds.get("own")
    if own is None:
        return "no", False
    reached = {name for name, _, _ in own.heard.calls}
    if "Edit" in reached:
        return "no", False
    when = "before calls that change something" if "Read" in reached else "before every call"
    refused = "; ".join(dict.fromkeys(" ".join(own.told.get("edit") or ["the tools are not offered"]).splitlines()))
    return when, refused


def approvals(by_client):
    yield ["client", "asks by itself", "unless told by", "can show haft's form", "answers it without a user",
           "a user is asked twice", "the edit above was allowed by"]
    for client, kinds in by_client:
        asks, work = kinds["asks"], kinds["claude"]
        when, refused = own_question(kinds)
        can = work.heard.forms
        answer = ", ".join(f"`{answer}`" for answer in asks.heard.answers) or "is not asked: no callback, no capability"
        if not can:
            answer = "is not asked"
        twice = "yes" if refused and can else "no"
        by = "a form, answered by its callback" if client.answers else "`--mode accept-edits`"
        yield [client.name, when, client.allowed_by if refused else "–", "yes" if can else "no", answer, twice, by]


def notes(by_client):
    """What clients put around a text, and what they say to the model when they refuse a call themselves."""
    for client, kinds in by_client:
        said = []
        for step in ("tools", "edit", "fault"):
            verdict = kinds["claude"].verdicts.get(step)
            if verdict and verdict.note:
                said.append(f"{step}: {verdict.note}")
        _, refused = own_question(kinds)
        if refused:
            said.append(f"not allowed by itself: “{refused}”")
        denied = next((result for name, _, result in kinds["asks"].heard.calls if name == "Edit"), None)
        if denied and kinds["asks"].heard.answers:
            said.append(f"haft after an unanswered form: “{denied['content'][0]['text']}”")
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
