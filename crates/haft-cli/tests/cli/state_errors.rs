//! State that cannot be written or read, and invalid input.

use super::*;

#[test]
fn a_reply_is_printed_even_if_nothing_can_be_saved() {
    let fixture = two_files();
    fixture.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    let state = fixture.state();
    std::fs::remove_file(state.join("stats.json")).unwrap();
    std::fs::create_dir(state.join("stats.json")).unwrap();
    let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, format!("{ONE}\n").as_str()));
    assert!(output.stderr.starts_with("note: the figures could not be kept"), "{output:?}");
    let output = fixture.run_with(&["batch"], "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    assert!(
        output.code == 0 && output.stdout.contains("one") && output.stderr.starts_with("note: "),
        "{output:?}"
    );
}

#[test]
fn a_lock_that_is_held_does_not_hang_a_call() {
    let fixture = two_files();
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    let held = std::fs::File::open(fixture.state().join("stats.json.lock")).unwrap();
    held.lock().unwrap();
    let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, format!("{ONE}\n").as_str()));
    assert!(output.stderr.contains("another process holds this lock"), "{output:?}");
}

#[test]
fn a_state_folder_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = two_files();
    std::fs::create_dir_all(fixture.base.join("state/haft")).unwrap();
    std::fs::set_permissions(fixture.base.join("state/haft"), PermissionsExt::from_mode(0o777)).unwrap();
    fixture.run(&["call", "Read", "file_path=one.txt"]).refused("can be written by others (mode 777)");
    let output = fixture.run(&["doctor"]);
    assert!(output.code == 1 && output.stdout.contains("can be written by others"), "{output:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_in_a_folder_whose_name_is_not_utf8_is_saved() {
    use std::os::unix::ffi::OsStrExt as _;
    let fixture = Fixture::new(&[]);
    let odd = fixture.base.join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("one.txt"), "one\n").unwrap();
    for _ in 0..2 {
        let mut command = fixture.haft(&["--session", "s", "call", "Read", "file_path=one.txt"]);
        let output = RunOutput::of(command.current_dir(&odd).output().unwrap());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    }
    let kept: Value =
        serde_json::from_slice(&std::fs::read(fixture.state().join("sessions/s.json")).unwrap()).unwrap();
    assert_eq!(kept["version"], 1);
    assert!(kept["cwd"].as_str().unwrap().ends_with("odd-\\xff"), "{kept}");
    assert_eq!(kept["seen"].as_array().unwrap().len(), 1);
}

#[test]
fn a_session_is_shared_by_all_dialects() {
    let fixture = two_files();
    let lines = [
        r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"dialect":"cdd","name":"read","input":{"file_path":"two.txt"}}"#,
    ];
    fixture.batch(&["--session", "s"], &lines);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(fixture.state().join("sessions/s.json")).unwrap()).unwrap();
    assert_eq!(kept["seen"].as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn a_hook_that_fails_after_a_call_is_reported() {
    let fixture = two_files();
    fixture.settings("[[hooks.post_tool_use]]\ncommand = \"exit 1\"\n");
    let call = fixture.run(&["call", "Read", "file_path=one.txt"]);
    let batch = fixture.run_with(&["batch"], "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    for output in [call, batch] {
        assert_eq!(output.code, 0);
        assert!(output.stderr.starts_with("note: Read (call_1): "), "{output:?}");
    }
}

#[test]
fn a_batch_says_what_is_wrong_with_a_line_in_its_place() {
    let lines = [
        "\u{feff}{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}",
        r#"{"dialect":"nope","name":"Read"}"#,
        r#"{"name":"Read","inptu":{"file_path":"one.txt"}}"#,
        r#"[{"id":"a","name":"Read","input":{"file_path":"one.txt"}},{"id":"a","name":"Read"},{"id":"b"}]"#,
    ];
    let replies = two_files().batch(&[], &lines);
    let told: Vec<(&Value, &str)> =
        replies.iter().map(|reply| (&reply["id"], text(reply).split(" (").next().unwrap())).collect();
    assert_eq!(told[0], (&json!("call_1"), ONE));
    assert_eq!(told[1].1.lines().nth(1), Some("hint: there are `claude`, `ally`, `cdd` or `workspace`"));
    assert!(told[2].1.contains("unknown key `inptu`; did you mean `input`?"), "{told:?}");
    let ids: Vec<&Value> = told[3..].iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["a", "a", "b"]);
    assert!(told[4].1.contains("has the id `a` already"), "{told:?}");
}

#[test]
fn stdin_over_the_limit_is_too_large_even_if_a_character_is_cut() {
    let long = format!("{{\"file_path\":\"{}\"}}", "é".repeat(17 * 1024 * 1024));
    let fixture = two_files();
    let mut child = fixture
        .haft(&["call", "Read", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // haft may stop before it has read everything.
    let feeding = std::thread::spawn(move || drop(pipe.write_all(long.as_bytes())));
    let output = RunOutput::of(child.wait_with_output().unwrap());
    feeding.join().unwrap();
    assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{}", output.stdout);
}
