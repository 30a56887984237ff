"""What every client is made to do, and the folder it is done in. The steps of a session are turns of the model; the
calls of a turn are made at once."""

# What clients are likely to damage: quotes, backslashes, markup, a tab, characters of two, three and four bytes, and
# those that normalisation replaces.
ODD = 'quoted "text", back\\slash, <tag>&amp;, tab\there, naïve 漢字 🙂 ﬁle…'
COMMAND = "wc -l notes.txt > counted.txt && cat counted.txt"
EDIT = {"file_path": "notes.txt", "old_string": "the old line", "new_string": "the new line"}
READ = [("read", "Read", {"file_path": "notes.txt"})]

# A session: the dialect, whether haft lets edits through by itself, and the turns as (step, tool, input).
WORK = {
    "claude": [
        [*READ, ("search", "Grep", {"pattern": "naïve", "output_mode": "content"})],
        [("edit", "Edit", EDIT)],
        [("command", "Bash", {"command": COMMAND, "description": "Counts the lines"})],
        [("fault", "Edit", EDIT | {"old_string": "no such line"})],
        [("long", "Read", {"file_path": "long.txt"})],
    ],
    "ally": [
        [("read", "read", {"file_paths": ["notes.txt"]})],
        [("command", "bash", {"command": COMMAND})],
        [("fault", "edit", {"file_path": "notes.txt", "edits": [{"old_string": "no such line", "new_string": "x"}]})],
    ],
    "workspace": [
        [("read", "read_file", {"path": "notes.txt"})],
        [("command", "run_code", {"language": "python", "code": "print(6 * 7)"})],
        [("fault", "read_file", {"path": "nothing.txt"})],
    ],
}
# haft asks about the edit and nobody is there to answer; the client asks its own user and nobody is there.
PROBES = {"asks": [READ, [("edit", "Edit", EDIT)]], "own": [READ, [("edit", "Edit", EDIT)]]}

# Commands need a rule. Edits are let through by the mode, or allowed by the user who answers a form.
RULES = '[permissions]\nallow = ["Bash(wc:*)", "Bash(cat:*)", "run_code", "bash(wc:*)"]\n'


def turns(kind):
    return WORK.get(kind) or PROBES[kind]


def dialect(kind):
    return kind if kind in WORK else "claude"


def make_world(base):
    for folder in ("home", "work", "haft/.config/haft"):
        (base / folder).mkdir(parents=True)
    (base / "work/notes.txt").write_text(f"the old line\n{ODD}\nlast line\n")
    lines = (f"this is line {number} of a long file, and it goes on\n" for number in range(1, 1501))
    (base / "work/long.txt").write_text("".join(lines))
    (base / "haft/.config/haft/config.toml").write_text(RULES)


def is_edited(base):
    return "the new line" in (base / "work/notes.txt").read_text()


def problems(kind, base):
    """What the session should have done to the folder and has not, or should not have done and has."""
    found = []
    if kind == "claude" and not is_edited(base):
        found.append("the file was not edited")
    if kind in ("claude", "ally") and not (base / "work/counted.txt").exists():
        found.append("the command did not run")
    if kind == "asks" and is_edited(base):
        found.append("the file was edited although nobody allowed it")
    return found
