//! Changes of files: history, undo and redo, across runs, processes and conflicts.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use super::*;

pub(super) const EDITS: [&str; 2] = ["--mode", "accept-edits"];
const ANY: [&str; 2] = ["--mode", "bypass"];

impl Fixture {
    /// Runs a call in the mode `accept-edits`.
    pub(super) fn change(&self, tool: &str, input: Value) -> RunOutput {
        self.run(&[EDITS.as_slice(), &["call", tool, &input.to_string()]].concat())
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.base.join("ws").join(name)).unwrap()
    }

    pub(super) fn temporary(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.base.join("ws")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".haft-")).collect()
    }
}

pub(super) fn edit(file: &str, old: &str, new: &str) -> Value {
    json!({"file_path": file, "old_string": old, "new_string": new})
}

/// Type, mode and content of everything below a folder.
pub(super) fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if stat.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (stat.mode(), content));
        }
    }
    found
}

#[test]
fn a_history_shows_the_latest_change_first() {
    let fixture = Fixture::new(&[]);
    let output = fixture.run(&["history"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_eq!(output.stdout, format!("nothing has been changed in {}\n", fixture.base.join("ws").display()));
    fixture.change("Write", json!({"file_path": "a.txt", "content": "a\n"}));
    fixture.change("Write", json!({"file_path": "sub/b.txt", "content": "b\n"}));
    let output = fixture.run(&["history"]);
    let lines: Vec<Vec<&str>> = output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    assert_eq!((lines[0][0], lines[1][0]), ("2", "1"));
    assert_eq!(&lines[1][lines[1].len() - 2..], ["Write", "+a.txt"]);
    assert_eq!(fixture.run(&["history", "-n", "1"]).stdout.lines().count(), 1);
    let output = fixture.run(&["history", "--diff", "1"]);
    assert!(output.stdout.ends_with("--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+a\n"), "{output:?}");
}

#[test]
fn undo_in_the_turn_of_an_edit_undoes_that_edit() {
    for (dialect, undo, first) in [("claude", "Undo", "Write"), ("ally", "undo", "write")] {
        let fixture = Fixture::new(&[]);
        let write = |tool: &str, file: &str| {
            let input = match dialect {
                "claude" => json!({"file_path": file, "content": "x\n"}),
                _ => json!({"file_path": file, "content": "x\n"}),
            };
            json!({"id": file, "name": tool, "input": input})
        };
        // The change before the turn is what a look at the journal before the turn's own edits would find.
        let before = json!([write(first, "before.txt")]);
        let turn = json!([write(first, "a.txt"), write(first, "b.txt"), {"id": "u", "name": undo, "input": {"last": 2}}]);
        let next = json!([{"id": "v", "name": undo, "input": {}}]);
        let lines = [before.to_string(), turn.to_string(), next.to_string()];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let replies = fixture.batch(&["--dialect", dialect, "--mode", "accept-edits"], &lines);
        assert!(replies.iter().all(|reply| reply["is_error"] == false), "{replies:?}");
        let left: Vec<_> = snapshot(&fixture.base.join("ws")).into_keys().collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{dialect}: {replies:?}");
        let undone = match dialect {
            "claude" => replies[3]["structured"]["changes"][0]["change"].clone(),
            _ => replies[3]["structured"]["undone"][0].clone(),
        };
        assert_eq!(undone, json!(3), "{dialect}: the latest change is the turn's own");
    }
}

#[test]
fn a_history_as_json_has_every_field() {
    let fixture = Fixture::new(&[]);
    assert_eq!(fixture.run(&["--json", "history"]).json(), json!([]));
    fixture.change("Write", json!({"file_path": "a.txt", "content": "a\n"}));
    fixture.run(&["undo", "--any"]);
    let rows = fixture.run(&["--json", "history", "--diff"]).json();
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let wanted =
        ["number", "time_ms", "tool", "session", "command", "state", "undone_by", "undoes", "files", "diff"];
    assert_eq!(keys, wanted);
    assert_eq!(
        (&rows[0]["tool"], &rows[0]["undoes"], &rows[0]["state"]),
        (&json!("undo"), &json!(1), &json!("done"))
    );
    assert_eq!((&rows[1]["state"], &rows[1]["undone_by"]), (&json!("undone"), &json!(2)));
    assert_eq!(rows[1]["files"][0]["path"], "a.txt");
    assert_eq!(
        (&rows[1]["files"][0]["size_after"], &rows[1]["files"][0]["before"]),
        (&json!(2), &json!("nothing"))
    );
}

#[test]
fn undo_and_redo_say_what_they_did() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    fixture.batch(
        &EDITS,
        &[
            r#"{"name":"Read","input":{"file_path":"a.txt"}}"#,
            &json!({"name": "Edit", "input": edit("a.txt", "one", "two")}).to_string(),
        ],
    );
    let output = fixture.run(&["undo", "--any", "--dry-run"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-two\n+one\n"));
    assert_eq!(fixture.read("a.txt"), "two\n", "a dry run changes nothing");
    let output = fixture.run(&["undo", "--any"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_eq!(
        output.stdout,
        "undid change 1 (Edit) as change 2\n--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-two\n+one\n"
    );
    assert_eq!(fixture.read("a.txt"), "one\n");
    let done = fixture.run(&["--json", "redo"]).json();
    assert_eq!((&done["changes"], &done["notes"]), (&json!([{"change": 1, "by": 3}]), &json!([])));
    assert_eq!(fixture.read("a.txt"), "two\n");
}

#[test]
fn a_failed_undo_exits_with_1_and_wrong_usage_with_2() {
    let fixture = Fixture::new(&[]);
    for args in [
        ["undo"].as_slice(),
        &["redo"],
        &["undo", "7"],
        &["undo", "--any", "--last", "2"],
        &["--json", "undo"],
    ] {
        let output = fixture.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}: {output:?}");
        assert!(output.stderr.starts_with("error: "), "{args:?}: {output:?}");
    }
    assert_eq!(fixture.run(&["history", "7"]).code, 1);
    for args in [
        ["undo", "x"].as_slice(),
        &["undo", "1", "--last", "2"],
        &["undo", "--last", "0"],
        &["history", "-n", "x"],
    ] {
        assert_eq!(fixture.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn undoing_a_change_twice_is_reported() {
    let fixture = Fixture::new(&[]);
    fixture.change("Write", json!({"file_path": "a.txt", "content": "a\n"}));
    assert_eq!(fixture.run(&["undo", "1"]).code, 0);
    let output = fixture.run(&["undo", "1"]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("change 1 is undone already"), "{output:?}");
    let output = fixture.run(&["redo", "1"]);
    assert_eq!(output.code, 0, "{output:?}");
    let output = fixture.run(&["redo", "1"]);
    assert!(output.code == 1 && output.stderr.contains("change 1 "), "{output:?}");
}

#[test]
fn an_undo_over_a_later_change_is_refused_or_merged() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\nthree\nfour\n")]);
    fixture.batch(
        &EDITS,
        &[
            r#"{"name":"Read","input":{"file_path":"a.txt"}}"#,
            &json!({"name": "Edit", "input": edit("a.txt", "one", "1")}).to_string(),
        ],
    );
    fixture.write("ws/a.txt", "1\ntwo\nthree\nfour\nfive\n");
    let output = fixture.run(&["undo", "--any"]);
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.contains("`a.txt` has changed since change 1") && output.stderr.contains("+five"),
        "{output:?}"
    );
    assert_eq!(fixture.read("a.txt"), "1\ntwo\nthree\nfour\nfive\n");
    let dry = fixture.run(&["undo", "--any", "--dry-run"]);
    assert_eq!((dry.code, dry.stdout.as_str(), dry.stderr.as_str()), (1, "", output.stderr.as_str()));
    // The preview is a merge with the current file, including the line added since.
    let made = "--- a.txt\n+++ a.txt\n@@ -1,4 +1,4 @@\n-1\n+one\n two\n three\n four\n";
    let dry = fixture.run(&["undo", "--any", "--merge", "--dry-run"]);
    assert_eq!((dry.code, dry.stdout.as_str()), (0, made), "{dry:?}");
    assert_eq!(fixture.read("a.txt"), "1\ntwo\nthree\nfour\nfive\n");
    let output = fixture.run(&["undo", "--any", "--merge"]);
    assert_eq!((output.code, output.stdout), (0, format!("undid change 1 (Edit) as change 2\n{made}")));
    assert_eq!(fixture.read("a.txt"), "one\ntwo\nthree\nfour\nfive\n");
}

#[test]
fn a_merge_shows_what_it_makes_and_not_what_the_change_was() {
    let lines = |first: &str, last: &str| format!("{first} 1\ntwo\nthree\nfour\nfive\n{last} 6\n");
    let fixture = Fixture::new(&[("a.txt", &lines("line", "line"))]);
    let read = r#"{"name":"Read","input":{"file_path":"a.txt"}}"#;
    let mut input = edit("a.txt", "line", "edited");
    input["replace_all"] = json!(true);
    fixture.batch(&EDITS, &[read, &json!({"name": "Edit", "input": input}).to_string()]);
    // A part of the change was reverted by hand.
    fixture.write("ws/a.txt", &lines("edited", "line"));
    for args in [["undo", "--any", "--merge", "--dry-run"].as_slice(), &["undo", "--any", "--merge"]] {
        let output = fixture.run(args);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(
            output.stdout.contains("-edited 1\n") && !output.stdout.contains("-edited 6\n"),
            "{output:?}"
        );
    }
    assert_eq!(fixture.read("a.txt"), lines("line", "line"));
}

/// A dry run once succeeded although the real undo was refused.
#[test]
fn a_dry_run_ends_as_the_real_one_would() {
    let fixture = Fixture::new(&[("d/a.txt", "one\n"), ("b.txt", "b\n")]);
    let write =
        |path: &str, text: &str| json!({"name": "Write", "input": {"file_path": path, "content": text}});
    let moved = json!({"dialect": "workspace", "name": "move_file", "input": {"from": "d", "to": "e"}});
    let delete = json!({"dialect": "workspace", "name": "delete_file", "input": {"path": "b.txt"}});
    let read = json!({"name": "Read", "input": {"file_path": "d/a.txt"}});
    let calls = [read, write("d/a.txt", "two\n"), write("d/new.txt", "x\n"), moved, delete];
    let calls: Vec<String> = calls.iter().map(Value::to_string).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let replies = fixture.batch(&ANY, &calls);
    assert!(replies.iter().all(|reply| reply["is_error"] == false), "{replies:?}");
    let root = fixture.base.join("ws");
    let compare = |args: &[&str]| {
        let before = snapshot(&root);
        let dry = fixture.run(&[args, &["--dry-run"]].concat());
        assert_eq!(snapshot(&root), before, "{args:?}: a dry run changes nothing");
        let real = fixture.run(args);
        assert_eq!((dry.code, &dry.stderr), (real.code, &real.stderr), "{args:?}");
        real
    };
    fixture.write("ws/e/new.txt", "theirs\n");
    let output = compare(&["undo", "--any", "--last", "4"]);
    assert!(output.code == 1 && output.stderr.contains("has changed since change 2"), "{output:?}");
    fixture.write("ws/e/new.txt", "x\n");
    assert_eq!(compare(&["undo", "--any", "--last", "4"]).code, 0);
    assert_eq!(fixture.read("d/a.txt"), "one\n");
    assert_eq!(compare(&["undo", "1"]).code, 1, "it is undone already");
    fixture.write("ws/b.txt", "other\n");
    let output = compare(&["redo", "--last", "4"]);
    assert!(output.code == 1 && output.stderr.contains("`b.txt`"), "{output:?}");
    fixture.write("ws/b.txt", "b\n");
    assert_eq!(compare(&["redo", "--last", "4"]).code, 0);
    assert_eq!(fixture.read("e/a.txt"), "two\n");
}

/// A model undoes and redoes only changes of its session; a person all changes, with `--any`.
#[test]
fn a_session_redoes_only_what_it_undid_itself() {
    let fixture = Fixture::new(&[]);
    let call = |session: &str, tool: &str, input: Value| {
        let args = ["--session", session, "--mode", "accept-edits", "call", tool, &input.to_string()];
        fixture.run(&args)
    };
    call("a", "Write", json!({"file_path": "a.txt", "content": "a\n"}));
    assert_eq!(call("b", "Undo", json!({})).code, 1, "the change is of another session");
    assert_eq!(call("a", "Undo", json!({})).code, 0);
    let output = call("b", "Undo", json!({"redo": true}));
    assert_eq!((output.code, output.stdout.as_str()), (1, "there is nothing to redo\n"));
    assert_eq!(call("a", "Undo", json!({"redo": true})).code, 0);
    assert_eq!(fixture.run(&["undo", "--any"]).code, 0, "a person undoes it");
    assert_eq!(call("a", "Undo", json!({"redo": true})).code, 1, "and what a person undid stays so");
}

#[test]
fn undo_leaves_changes_of_other_sessions_alone() {
    let fixture = Fixture::new(&[]);
    let write = |session: &[&str], file: &str| {
        let file = format!("file_path={file}");
        let args = [session, &["--mode", "accept-edits", "call", "Write", &file, "content=x"]].concat();
        assert_eq!(fixture.run(&args).code, 0);
    };
    write(&[], "mine.txt");
    write(&["--session", "other"], "theirs.txt");
    fixture.batch(&EDITS, &[r#"{"name":"Write","input":{"file_path":"batch.txt","content":"x"}}"#]);
    let output = fixture.run(&["undo"]);
    assert_eq!((output.code, output.stdout.lines().next()), (0, Some("undid change 1 (Write) as change 4")));
    let output = fixture.run(&["undo"]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("`haft undo --any` would undo 3"), "{output:?}");
    assert_eq!(fixture.run(&["redo"]).code, 0);
    assert_eq!(fixture.run(&["--session", "other", "undo"]).code, 0);
    let left: Vec<_> = snapshot(&fixture.base.join("ws")).into_keys().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(fixture.run(&["undo", "--any"]).code, 0);
    assert!(!fixture.base.join("ws/batch.txt").exists());
}

#[test]
fn a_file_that_one_call_read_the_next_call_edits() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let call =
        |tool: &str, input: Value| fixture.run(&["--mode", "accept-edits", "call", tool, &input.to_string()]);
    assert_eq!(call("Edit", edit("a.txt", "one", "two")).code, 1, "it was not read yet");
    assert_eq!(call("Read", json!({"file_path": "a.txt"})).code, 0);
    let output = call("Edit", edit("a.txt", "one", "two"));
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(fixture.read("a.txt"), "two\n");
}

/// Processes without a terminal have a session for each parent.
#[test]
#[cfg(target_os = "linux")]
fn another_parent_has_another_session() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let haft = env!("CARGO_BIN_EXE_haft");
    let script = format!(
        "'{haft}' call Read file_path=a.txt; '{haft}' --mode accept-edits call Edit file_path=a.txt old_string=one new_string=two; :"
    );
    let template = fixture.haft(&[]);
    let mut command = Command::new("setsid");
    command.args(["--wait", "sh", "-c", &script]).current_dir(fixture.base.join("ws")).env_clear();
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(fixture.run(&["call", "Read", "file_path=a.txt"]).code, 0);
    fixture.write("ws/a.txt", "one\n\n");
    let output = RunOutput::of(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    assert_eq!(fixture.read("a.txt"), "two\n\n");
    let sessions = std::fs::read_dir(fixture.state().join("sessions")).unwrap();
    let names = sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("process-") && name.ends_with(".json")).count(), 2);
}

#[test]
fn a_session_knows_in_the_next_run_what_it_read() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\n")]);
    let call = |tool: &str, input: Value| {
        fixture.run(&["--session", "s", "--mode", "accept-edits", "call", tool, &input.to_string()])
    };
    call("Read", json!({"file_path": "a.txt"}));
    fixture.write("ws/a.txt", "zero\none\ntwo\n");
    let output = call("Edit", edit("a.txt", "two", "2"));
    assert_eq!(output.code, 1);
    assert!(output.stdout.starts_with("`a.txt` was changed since you last saw it"), "{output:?}");
    assert_eq!(fixture.read("a.txt"), "zero\none\ntwo\n");
    if !output.stdout.contains("+zero") {
        // Content is not kept from run to run: it must be read again.
        assert!(output.stdout.contains("read it again"), "{output:?}");
        assert_eq!(call("Edit", edit("a.txt", "two", "2")).code, 1);
        call("Read", json!({"file_path": "a.txt"}));
    }
    assert_eq!(call("Edit", edit("a.txt", "two", "2")).code, 0);
    assert_eq!(fixture.read("a.txt"), "zero\none\n2\n");
    let other = fixture.run(&[
        "--session",
        "t",
        "--mode",
        "accept-edits",
        "call",
        "Edit",
        &edit("a.txt", "2", "3").to_string(),
    ]);
    assert_eq!(other.code, 1, "another session has read nothing: {other:?}");
}

/// The size and the modification time, which is set back, are the same: only the content differs.
#[test]
fn a_file_changed_within_a_tick_of_the_clock_counts_as_changed() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let path = fixture.base.join("ws/a.txt");
    let call = |tool: &str, input: Value| {
        fixture.run(&["--session", "s", "--mode", "accept-edits", "call", tool, &input.to_string()])
    };
    let times = std::fs::metadata(&path).unwrap().modified().unwrap();
    call("Read", json!({"file_path": "a.txt"}));
    let rewrite = |text: &str| {
        let mut file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_modified(times).unwrap();
    };
    rewrite("two\n");
    rewrite("one\n");
    assert_eq!(call("Edit", edit("a.txt", "one", "1")).code, 0, "what was changed back is as it was read");
    let times = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all(b"2").unwrap();
    file.set_modified(times).unwrap();
    let output = call("Edit", edit("a.txt", "1", "3"));
    assert!(output.code == 1 && output.stdout.contains("was changed since"), "{output:?}");
    assert_eq!(fixture.read("a.txt"), "2\n");
}

/// Each process has read the file before any of them changes it.
#[test]
fn processes_that_edit_one_file_lose_no_edit() {
    const COUNT: usize = 20;
    let lines = |word: &str| (0..COUNT).map(|n| format!("{word} {n};\n")).collect::<String>();
    let fixture = Fixture::new(&[("a.txt", &lines("old"))]);
    let children: Vec<_> = (0..COUNT)
        .map(|n| {
            let session = format!("s{n}");
            let mut command = fixture.haft(&["--session", &session, "--mode", "accept-edits", "batch"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            writeln!(stdin, "{}", json!({"name": "Read", "input": {"file_path": "a.txt"}})).unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            lines.next().unwrap().unwrap();
            (n, child, stdin, lines)
        })
        .collect();
    let running: Vec<_> = children
        .into_iter()
        .map(|(n, mut child, mut stdin, mut lines)| {
            std::thread::spawn(move || {
                let call = json!({"name": "Edit", "input": edit("a.txt", &format!("old {n};"), &format!("new {n};"))});
                let mut tries = 0;
                loop {
                    tries += 1;
                    writeln!(stdin, "{call}").unwrap();
                    let reply: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                    if reply["is_error"] == false {
                        break;
                    }
                    let told = text(&reply);
                    assert!(told.contains("was changed since you last saw it") && tries < 200, "{told}");
                }
                drop(stdin);
                assert!(child.wait().unwrap().success());
            })
        })
        .collect();
    running.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(fixture.read("a.txt"), lines("new"));
    assert_eq!(fixture.run(&["--json", "history", "-n", "100"]).json().as_array().unwrap().len(), COUNT);
}

#[test]
fn a_hundred_edits_in_one_turn_are_all_made() {
    let lines = |word: &str| (0..100).map(|n| format!("{word} {n};\n")).collect::<String>();
    let fixture = Fixture::new(&[("a.txt", &lines("old"))]);
    let calls = (0..100)
        .map(|n| json!({"name": "Edit", "input": edit("a.txt", &format!("old {n};"), &format!("new {n};"))}));
    let turn = Value::from(calls.collect::<Vec<_>>()).to_string();
    let replies = fixture.batch(&EDITS, &[r#"{"name":"Read","input":{"file_path":"a.txt"}}"#, &turn]);
    assert_eq!(replies.len(), 101);
    assert!(replies.iter().all(|reply| reply["is_error"] == false));
    assert_eq!(fixture.read("a.txt"), lines("new"));
    assert_eq!(fixture.run(&["undo", "--any", "--last", "100"]).code, 0);
    assert_eq!(fixture.read("a.txt"), lines("old"));
}

#[test]
fn a_tree_that_was_deleted_comes_back_as_it_was() {
    let fixture = Fixture::new(&[
        ("t/run.sh", "#!/bin/sh\n"),
        ("t/secret", "x"),
        ("t/empty", ""),
        ("t/deep/er/a.txt", "a\n"),
        ("keep.txt", "k\n"),
    ]);
    let tree = fixture.base.join("ws/t");
    for (name, mode) in [("run.sh", 0o755), ("secret", 0o600), ("deep", 0o700)] {
        std::fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::create_dir_all(tree.join("nothing/in/here")).unwrap();
    symlink("../keep.txt", tree.join("inside")).unwrap();
    symlink("/etc/hostname", tree.join("outside")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    std::fs::write(tree.join("-rf"), "x\n").unwrap();
    std::fs::write(tree.join("a\nb"), "x\n").unwrap();
    std::fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 20).unwrap();
    let before = snapshot(&fixture.base.join("ws"));
    let output = fixture.run(&[
        "--dialect",
        "workspace",
        "--mode",
        "bypass",
        "call",
        "delete_file",
        r#"{"path":"t","recursive":true}"#,
    ]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!tree.exists() && fixture.base.join("ws/keep.txt").exists());
    let output = fixture.run(&["undo", "--any"]);
    assert_eq!(output.code, 0, "{output:?}");
    let after = snapshot(&fixture.base.join("ws"));
    for (path, what) in &before {
        assert_eq!(after.get(path), Some(what), "{}", path.display());
    }
    assert_eq!(after.len(), before.len());
    assert_eq!(fixture.run(&["redo"]).code, 0);
    assert!(!tree.exists());
}

#[test]
#[cfg(target_os = "linux")]
fn an_edit_keeps_what_is_attached_to_a_file() {
    let fixture = Fixture::new(&[("run.sh", "#!/bin/sh\necho one\n")]);
    let path = fixture.base.join("ws/run.sh");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    let set = rustix::fs::setxattr(&path, "user.note", b"mine", rustix::fs::XattrFlags::empty());
    if let Err(error) = set {
        return missing(Need::Attributes, error);
    }
    let attached = || {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.note", &mut value).unwrap_or(0);
        (std::fs::metadata(&path).unwrap().mode() & 0o7777, value[..length].to_vec())
    };
    let before = attached();
    fixture.batch(
        &EDITS,
        &[
            r#"{"name":"Read","input":{"file_path":"run.sh"}}"#,
            &json!({"name": "Edit", "input": edit("run.sh", "one", "two")}).to_string(),
        ],
    );
    assert_eq!((attached(), fixture.read("run.sh").contains("two")), (before.clone(), true));
    assert_eq!(fixture.run(&["undo", "--any"]).code, 0);
    assert_eq!((attached(), fixture.read("run.sh").contains("one")), (before, true));
}

#[test]
fn a_workspace_behind_a_link_is_one_workspace() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let link = fixture.base.join("proj");
    symlink(fixture.base.join("ws"), &link).unwrap();
    let through = link.join("a.txt");
    let real = fixture.base.join("ws/a.txt");
    let lines = [
        json!({"name": "Read", "input": {"file_path": through}}),
        json!({"name": "Edit", "input": edit(real.to_str().unwrap(), "one", "two")}),
        json!({"name": "Edit", "input": edit("a.txt", "two", "three")}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let args = ["--workspace", link.to_str().unwrap(), "--mode", "accept-edits", "batch"];
    let output = fixture.run_with(&args, &input);
    assert!(output.code == 0 && !output.stdout.contains("\"is_error\":true"), "{output:?}");
    assert_eq!(fixture.read("a.txt"), "three\n");
    assert_eq!(fixture.run(&["undo", "--any", "--last", "2"]).code, 0, "one journal for both names");
    assert_eq!(fixture.read("a.txt"), "one\n");
}

/// A sparse file of a terabyte must take no memory.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_too_large_is_refused_at_once() {
    let fixture = Fixture::new(&[]);
    let file = std::fs::File::create(fixture.base.join("ws/sparse")).unwrap();
    if let Err(error) = file.set_len(1 << 40) {
        return missing(Need::SparseFiles, error);
    }
    let output = fixture.change("Edit", edit("sparse", "x", "y"));
    assert!(output.code == 1 && output.stdout.contains("cannot be changed"), "{output:?}");
    let output = fixture.change("Write", json!({"file_path": "sparse", "content": "x"}));
    assert!(output.code == 1 && output.stdout.contains("cannot be changed"), "{output:?}");
}

/// Replies of a batch in one session, each as whether it failed.
fn failures(fixture: &Fixture, lines: &[Value]) -> Vec<bool> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replies = fixture.batch(&[ANY.as_slice(), &["--session", "s"]].concat(), &lines);
    replies.iter().map(|reply| reply["is_error"] == true).collect()
}

#[test]
fn content_that_was_not_shown_does_not_count_as_read() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\n")]);
    std::fs::write(fixture.base.join("ws/bin.dat"), b"\0\x01\x02").unwrap();
    let past = json!({"name": "Read", "input": {"file_path": "a.txt", "offset": 99}});
    let write = |path: &str| json!({"name": "Write", "input": {"file_path": path, "content": "new\n"}});
    assert_eq!(failures(&fixture, &[past, write("a.txt")]), [false, true]);
    let binary = json!({"dialect": "ally", "name": "read", "input": {"file_paths": ["a.txt", "bin.dat"]}});
    let over = json!({"dialect": "ally", "name": "write", "input": {"file_path": "bin.dat", "content": "x"}});
    assert_eq!(failures(&fixture, &[binary, over]), [false, true]);
    assert_eq!(fixture.read("a.txt"), "one\ntwo\n");
}

#[test]
fn an_undo_shows_nothing_of_a_file_that_the_model_has_not_seen() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\nthree\n")]);
    let read = json!({"name": "Read", "input": {"file_path": "a.txt"}});
    let change = json!({"name": "Edit", "input": edit("a.txt", "one", "1")});
    assert_eq!(failures(&fixture, &[read, change]), [false, false]);
    let lines = [
        json!({"name": "Undo", "input": {"changes": [1]}}).to_string(),
        json!({"name": "Write", "input": {"file_path": "a.txt", "content": "blind\n"}}).to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replies = fixture.batch(&["--mode", "bypass", "--session", "stranger"], &lines);
    assert_eq!(
        (replies[0]["is_error"] == true, replies[1]["is_error"] == true),
        (false, true),
        "{replies:?}"
    );
}

#[test]
fn a_move_and_a_merge_do_not_hide_external_changes() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n")]);
    let read = |path: &str| json!({"name": "Read", "input": {"file_path": path}});
    let write = |path: &str| json!({"name": "Write", "input": {"file_path": path, "content": "blind\n"}});
    let append = |path: &str| {
        let mut file =
            std::fs::OpenOptions::new().append(true).open(fixture.base.join("ws").join(path)).unwrap();
        file.write_all(b"the user's\n").unwrap();
    };
    assert_eq!(
        failures(&fixture, &[read("a.txt"), json!({"name": "Edit", "input": edit("a.txt", "one", "1")})]),
        [false; 2]
    );
    append("a.txt");
    let merge = json!({"name": "Undo", "input": {"merge": true}});
    assert_eq!(failures(&fixture, &[merge, write("a.txt")]), [false, true]);
    assert!(fixture.read("a.txt").starts_with("one\n") && fixture.read("a.txt").ends_with("the user's\n"));
    append("a.txt");
    let moved =
        json!({"dialect": "workspace", "name": "move_file", "input": {"from": "a.txt", "to": "b.txt"}});
    assert_eq!(failures(&fixture, &[moved, write("b.txt")]), [false, true]);
    assert!(fixture.read("b.txt").ends_with("the user's\nthe user's\n"));
}

/// A file too large to be stored in the journal, edited far from an external change.
#[test]
fn edits_of_a_file_that_is_too_large_to_be_kept_are_undone_and_merged() {
    let fixture = Fixture::new(&[]);
    fixture.settings("[journal]\nmax_file_megabytes = 1\n");
    let whole: String = (0..100_000).map(|line| format!("line {line} of a large file\n")).collect();
    fixture.write("ws/big.txt", &whole);
    let call = |old: &str, new: &str| {
        let mut lines =
            vec![json!({"name": "Read", "input": {"file_path": "big.txt", "limit": 10}}).to_string()];
        lines.push(json!({"name": "Edit", "input": edit("big.txt", old, new)}).to_string());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let replies = fixture.batch(&EDITS, &lines);
        assert!(replies[1]["is_error"] == false && !text(&replies[1]).contains("too large"), "{replies:?}");
    };
    call("line 500 of", "edited");
    call("line 700 of", "later");
    let edited = fixture.read("big.txt");
    for _ in 0..2 {
        assert_eq!(fixture.run(&["undo", "--any", "--last", "2"]).code, 0);
        assert!(fixture.read("big.txt") == whole);
        assert_eq!(fixture.run(&["redo", "--last", "2"]).code, 0);
        assert!(fixture.read("big.txt") == edited);
    }
    // The content before and after change 1 is reconstructed from the current file.
    let output = fixture.run(&["undo", "1"]);
    assert!(output.code == 1 && output.stderr.contains("+later a large file"), "{output:?}");
    let output = fixture.run(&["undo", "1", "--merge"]);
    assert!(output.code == 0 && output.stdout.contains("+line 500 of a large file"), "{output:?}");
    assert!(fixture.read("big.txt") == whole.replace("line 700 of", "later"));
    assert_eq!(fixture.run(&["undo", "2", "--merge"]).code, 0);
    assert!(fixture.read("big.txt") == whole);
}

#[test]
fn a_thousand_changes_of_one_file_are_undone_at_once() {
    let original = "\u{feff}first\r\nsecond\twith a tab\r\nno newline at the end";
    let fixture = Fixture::new(&[("a.txt", original)]);
    fixture.settings("[files]\ndurability = \"fast\"\n");
    let read = json!({"name": "Read", "input": {"file_path": "a.txt"}}).to_string();
    let word = |n: usize| if n == 0 { "second".to_owned() } else { format!("<{n}>{}", "x".repeat(n % 50)) };
    let edits = (0..1000).map(|n| json!({"name": "Edit", "input": edit("a.txt", &word(n), &word(n + 1))}));
    let lines: Vec<String> = [read].into_iter().chain(edits.map(|edit| edit.to_string())).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replies = fixture.batch(&EDITS, &lines);
    assert!(replies.iter().all(|reply| reply["is_error"] == false));
    assert_eq!(fixture.run(&["undo", "--any", "--last", "1000"]).code, 0);
    assert_eq!(fixture.read("a.txt"), original);
    assert_eq!(fixture.run(&["redo", "--last", "1000"]).code, 0);
    assert!(fixture.read("a.txt").contains("<1000>"));
}

#[test]
fn a_tree_that_is_too_deep_is_left_alone() {
    let fixture = two_files();
    let mut folder = fixture.base.join("ws/deep");
    (0..800).for_each(|_| folder.push("d"));
    // The path is longer than the system takes, so it is made step by step.
    let mut names = folder.strip_prefix(fixture.base.join("ws")).unwrap().iter();
    let first = fixture.base.join("ws").join(names.next().unwrap());
    std::fs::create_dir(&first).unwrap();
    let mut open = std::fs::File::open(first).unwrap();
    for name in names {
        rustix::fs::mkdirat(&open, name, rustix::fs::Mode::RWXU).unwrap();
        open = rustix::fs::openat(&open, name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
            .unwrap()
            .into();
    }
    let delete =
        ["--dialect", "workspace", "--mode", "bypass", "call", "delete_file", "path=deep", "recursive=true"];
    let output = fixture.run(&delete);
    assert!(output.code == 1 && output.stdout.contains("nested over 256 deep"), "{output:?}");
    // A command can, and the next call is answered.
    let output = fixture.run(&["--mode", "bypass", "call", "Bash", "command=rm -r deep && ls"]);
    assert_eq!(output.stdout, "one.txt\ntwo.txt\n", "{output:?}");
}
