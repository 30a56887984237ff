//! `haft call`.

use super::*;

#[test]
fn a_call_that_works_exits_with_0_and_writes_to_stdout_alone() {
    let output = two_files().run(&["call", "Read", r#"{"file_path":"one.txt"}"#]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "     1\tone\n", ""));
}

#[test]
fn a_call_that_fails_exits_with_1_and_its_reply_is_data() {
    let output = two_files().run(&["call", "Read", r#"{"file_path":"three.txt"}"#]);
    assert_eq!((output.code, output.stderr.as_str()), (1, ""));
    assert!(output.stdout.starts_with("`three.txt` does not exist\nhint: "), "{output:?}");
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_right() {
    let fixture = two_files();
    fixture.run(&["--no-such-flag"]).refused("--no-such-flag");
    fixture.run(&["call"]).refused("<TOOL>");
    fixture.run(&["--dialect", "klingon", "tools"]).refused("claude, ally, cdd, workspace");
    fixture.run(&["--mode", "yolo", "tools"]).refused("accept-edits");
    fixture.run(&["call", "Read", "one.txt"]).refused("`one.txt` is neither a JSON object nor `name=value`");
    fixture.run(&["--workspace", "nowhere", "call", "Read"]).refused("nowhere");
    fixture.run(&["--add-dir", "nowhere", "call", "Read"]).refused("nowhere");
    fixture.run(&["--focus", "nowhere", "call", "Read"]).refused("nowhere");
    fixture.run(&["batch", "nowhere.jsonl"]).refused("nowhere.jsonl");
}

#[test]
fn a_call_as_json_is_one_object() {
    let fixture = two_files();
    for (dialect, tool, input) in [
        ("claude", "Read", r#"{"file_path":"one.txt"}"#),
        ("ally", "read", r#"{"file_paths":["one.txt"]}"#),
        ("cdd", "read", r#"{"file_path":"one.txt"}"#),
        ("workspace", "read_file", r#"{"path":"one.txt"}"#),
    ] {
        let plain = fixture.run(&["--dialect", dialect, "call", tool, input]);
        let reply = fixture.run(&["--dialect", dialect, "--json", "call", tool, input]).json();
        let keys: Vec<&String> = reply.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["id", "name", "is_error", "content", "structured"]);
        assert_eq!((&reply["name"], &reply["is_error"]), (&json!(tool), &json!(false)));
        assert_eq!(plain.stdout, format!("{}\n", text(&reply)));
    }
}

#[test]
fn objects_are_the_same_as_text_and_as_value() {
    let fixture = two_files();
    for input in [r#"{"file_paths":["one.txt"]}"#, r#"{"file_paths":["three.txt"]}"#, "{}"] {
        let reply = fixture.run(&["--dialect", "ally", "--json", "call", "read", input]).json();
        assert_eq!(serde_json::from_str::<Value>(text(&reply)).unwrap(), reply["structured"]);
    }
}

#[test]
fn arguments_may_be_pairs() {
    let fixture = Fixture::new(&[("7", "seven\n"), ("lines.txt", "a\nb\nc\n"), ("a=b.txt", "equals\n")]);
    let read = |args: &[&str]| fixture.run(&[&["call", "Read"], args].concat()).stdout;
    assert_eq!(read(&["file_path=lines.txt", "offset=2", "limit=1"]).lines().next(), Some("     2\tb"));
    assert_eq!(read(&["file_path=7"]), "     1\tseven\n", "a name that looks like a number is a name");
    assert_eq!(read(&["file_path=a=b.txt"]), "     1\tequals\n");
}

#[test]
fn a_name_given_twice_makes_a_list() {
    let fixture = two_files();
    let both = ["--dialect", "ally", "--json", "call", "read", "file_paths=one.txt", "file_paths=two.txt"];
    assert_eq!(fixture.run(&both).json()["structured"]["files_read"], 2);
    let one = fixture.run(&both[..6]).json();
    assert_eq!(one["structured"]["files_read"], 1);
    let listed = ["--dialect", "ally", "--json", "call", "read", r#"file_paths=["one.txt","two.txt"]"#];
    assert_eq!(fixture.run(&listed).json()["structured"]["files_read"], 2);
}

#[test]
fn arguments_may_come_on_stdin() {
    let fixture = two_files();
    let output = fixture.run_with(&["call", "Read", "-"], "  {\"file_path\": \"two.txt\"}\n");
    assert_eq!((output.code, output.stdout), (0, format!("{TWO}\n")));
    let output = fixture.run_with(&["call", "Read", "-"], "{");
    assert_eq!(output.code, 1);
    assert!(output.stdout.starts_with("not valid JSON"), "{}", output.stdout);
}
