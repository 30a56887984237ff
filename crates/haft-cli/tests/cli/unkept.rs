//! What happens when something cannot be kept or read.

use super::*;

#[test]
fn a_reply_is_printed_even_if_nothing_can_be_kept() {
    let lab = two_files();
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    let state = lab.state();
    std::fs::remove_file(state.join("stats.json")).unwrap();
    std::fs::create_dir(state.join("stats.json")).unwrap();
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, format!("{ONE}\n").as_str()));
    assert!(ran.stderr.starts_with("note: the figures could not be kept"), "{ran:?}");
    let ran = lab.run_with(&["batch"], "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    assert!(ran.code == 0 && ran.stdout.contains("one") && ran.stderr.starts_with("note: "), "{ran:?}");
}

#[test]
fn a_lock_that_is_held_does_not_hang_a_call() {
    let lab = two_files();
    lab.run(&["call", "Read", "file_path=one.txt"]);
    let held = std::fs::File::open(lab.state().join("stats.json.lock")).unwrap();
    held.lock().unwrap();
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, format!("{ONE}\n").as_str()));
    assert!(ran.stderr.contains("another process holds this lock"), "{ran:?}");
}

#[test]
fn a_state_folder_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let lab = two_files();
    std::fs::create_dir_all(lab.base.join("state/haft")).unwrap();
    std::fs::set_permissions(lab.base.join("state/haft"), PermissionsExt::from_mode(0o777)).unwrap();
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("can be written by others (mode 777)");
    let ran = lab.run(&["doctor"]);
    assert!(ran.code == 1 && ran.stdout.contains("can be written by others"), "{ran:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_in_a_folder_whose_name_is_no_text_is_kept() {
    use std::os::unix::ffi::OsStrExt as _;
    let lab = Lab::new(&[]);
    let odd = lab.base.join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("one.txt"), "one\n").unwrap();
    for _ in 0..2 {
        let mut command = lab.haft(&["--session", "s", "call", "Read", "file_path=one.txt"]);
        let ran = Ran::of(command.current_dir(&odd).output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    }
    let kept: Value =
        serde_json::from_slice(&std::fs::read(lab.state().join("sessions/s.json")).unwrap()).unwrap();
    assert_eq!(kept["version"], 1);
    assert!(kept["cwd"].as_str().unwrap().ends_with("odd-\\xff"), "{kept}");
    assert_eq!(kept["seen"].as_array().unwrap().len(), 1);
}

#[test]
fn a_session_is_one_in_all_dialects() {
    let lab = two_files();
    let lines = [
        r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"dialect":"cdd","name":"read","input":{"file_path":"two.txt"}}"#,
    ];
    lab.batch(&["--session", "s"], &lines);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(lab.state().join("sessions/s.json")).unwrap()).unwrap();
    assert_eq!(kept["seen"].as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn a_hook_that_fails_after_a_call_is_told() {
    let lab = two_files();
    lab.settings("[[hooks.post_tool_use]]\ncommand = \"exit 1\"\n");
    let call = lab.run(&["call", "Read", "file_path=one.txt"]);
    let batch = lab.run_with(&["batch"], "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    for ran in [call, batch] {
        assert_eq!(ran.code, 0);
        assert!(ran.stderr.starts_with("note: Read (call_1): "), "{ran:?}");
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
fn too_much_on_stdin_is_too_much_even_if_a_character_is_cut() {
    let long = format!("{{\"file_path\":\"{}\"}}", "é".repeat(17 * 1024 * 1024));
    let lab = two_files();
    let mut child = lab
        .haft(&["call", "Read", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // It need not read all of it.
    let feeding = std::thread::spawn(move || drop(pipe.write_all(long.as_bytes())));
    let ran = Ran::of(child.wait_with_output().unwrap());
    feeding.join().unwrap();
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{}", ran.stdout);
}
