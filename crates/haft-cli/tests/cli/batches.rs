//! `haft batch`.

use super::*;

#[test]
fn a_batch_takes_calls_in_every_form_that_apis_send() {
    let fixture = two_files();
    let forms = [
        r#"{"id":"h1","name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"id":"call_o","type":"function","function":{"name":"Read","arguments":"{\"file_path\":\"one.txt\"}"}}"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"call_r","name":"Read","arguments":"{\"file_path\":\"one.txt\"}"}"#,
        r#"[{"id":"a1","name":"Read","input":{"file_path":"one.txt"}},{"id":"a2","name":"Read","input":{"file_path":"two.txt"}}]"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"m1","name":"Read","input":{"file_path":"one.txt"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"m2","type":"function","function":{"name":"Read","arguments":"{\"file_path\":\"two.txt\"}"}}]}"#,
        r#"{"dialect":"claude","calls":[{"id":"t1","name":"Read","input":{"file_path":"one.txt"}}]}"#,
        r#"{"name":"Read","input":{"file_path":"two.txt"}}"#,
    ];
    let replies = fixture.batch(&[], &forms);
    let got: Vec<(&str, &str)> =
        replies.iter().map(|reply| (reply["id"].as_str().unwrap(), text(reply))).collect();
    let wanted = [
        ("h1", ONE),
        ("toolu_1", ONE),
        ("call_o", ONE),
        ("call_r", ONE),
        ("a1", ONE),
        ("a2", TWO),
        ("m1", ONE),
        ("m2", TWO),
        ("t1", ONE),
        ("call_1", TWO),
    ];
    assert_eq!(got, wanted);
}

#[test]
fn a_line_may_speak_a_dialect_of_its_own() {
    let lines = [
        r#"{"dialect":"ally","calls":[{"name":"read","input":{"file_paths":["one.txt"]}}]}"#,
        r#"{"dialect":"workspace","calls":[{"name":"read_file","input":{"path":"one.txt"}}]}"#,
        r#"{"dialect":"klingon","calls":[{"name":"nuqneH","input":{}}]}"#,
        r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
    ];
    let replies = two_files().batch(&[], &lines);
    assert_eq!(replies[0]["structured"]["success"], true);
    assert_eq!(replies[1]["structured"]["value"]["content"], "one\n");
    assert!(text(&replies[2]).starts_with("line 3: there is no dialect `klingon`"), "{}", replies[2]);
    assert_eq!(text(&replies[3]), ONE);
}

#[test]
fn a_line_that_is_wrong_is_answered_and_the_others_go_on() {
    let call = r#"{"id":"fine","name":"Read","input":{"file_path":"one.txt"}}"#;
    let lines = [
        "not JSON",
        call,
        "",
        "   ",
        r#"{"id":"x","input":{}}"#,
        "42",
        r#"{"name":7}"#,
        r#"{"name":"Read","name":"Read"}"#,
        r#"[{"name":"Read","input":{"file_path":"one.txt"}},5]"#,
        call,
    ];
    let replies = two_files().batch(&[], &lines);
    let told: Vec<String> = replies
        .iter()
        .map(|reply| match &reply["id"] {
            Value::Null => {
                assert_eq!((&reply["name"], &reply["is_error"]), (&Value::Null, &json!(true)));
                text(reply).split(':').next().unwrap().to_owned()
            }
            id => format!("{} {}", id.as_str().unwrap(), text(reply).lines().next().unwrap()),
        })
        .collect();
    let fine = format!("fine {ONE}");
    let nameless = "x line 5: not a tool call: `name` is missing";
    let sibling = format!("call_1 {ONE}");
    let wanted = ["line 1", &fine, nameless, "line 6", "line 7", "line 8", &sibling, "line 9", &fine];
    assert_eq!(told, wanted);
}

#[test]
fn a_batch_without_a_last_line_end_is_answered_whole() {
    let output = two_files().run_with(&["batch"], r#"{"name":"Read","input":{"file_path":"one.txt"}}"#);
    assert_eq!(text(&output.json()), ONE);
}

#[test]
fn a_call_finds_what_an_earlier_one_of_its_turn_makes() {
    let fixture = Fixture::new(&[("old.txt", "old\n")]);
    let call = |id: &str, name: &str, input: Value| json!({"id": id, "name": name, "input": input});
    let turn = json!([
        call("1", "Write", json!({"file_path": "new.txt", "content": "one\n"})),
        call("2", "Read", json!({"file_path": "new.txt"})),
        call("3", "Edit", json!({"file_path": "new.txt", "old_string": "one", "new_string": "two"})),
        call("4", "Bash", json!({"command": "mkdir made && cp new.txt made/copy.txt"})),
        call("5", "Read", json!({"file_path": "made/copy.txt"})),
        call("6", "Read", json!({"file_path": "never.txt"})),
        call("7", "Read", json!({"file_path": "old.txt"})),
    ]);
    let replies = fixture.batch(&["--mode", "bypass"], &[&turn.to_string()]);
    let text = |n: usize| replies[n]["content"][0]["text"].as_str().unwrap();
    let failed: Vec<&Value> = replies.iter().filter(|reply| reply["is_error"] == true).collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    assert!(text(1).contains("one") && text(4).contains("two"), "{replies:#?}");
    assert!(text(5).contains("`never.txt` does not exist"), "{}", text(5));
    let workspace = json!([
        call("1", "write_file", json!({"path": "a.txt", "content": "one\n"})),
        call("2", "move_file", json!({"from": "a.txt", "to": "b.txt"})),
        call("3", "read_file", json!({"path": "b.txt"})),
    ]);
    let replies = fixture.batch(&["--dialect", "workspace", "--mode", "bypass"], &[&workspace.to_string()]);
    assert!(replies.iter().all(|reply| reply["is_error"] == false), "{replies:#?}");
}

#[test]
fn a_batch_may_be_a_file() {
    let fixture = two_files();
    fixture.write("ws/calls.jsonl", "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    assert_eq!(text(&fixture.run(&["batch", "calls.jsonl"]).json()), ONE);
}

#[test]
fn replies_come_in_call_order() {
    let fixture = Fixture::new(&[]);
    let names: Vec<String> = (0..40).map(|n| format!("f{n}.txt")).collect();
    for (n, name) in names.iter().enumerate() {
        // The first files are the largest, so they finish last.
        fixture.write(&format!("ws/{name}"), &format!("{n}\n").repeat(20_000 / (n + 1)));
    }
    let calls = names.iter().map(|name| json!({"id": name, "name": "Read", "input": {"file_path": name}}));
    let turn = Value::from(calls.collect::<Vec<_>>()).to_string();
    let replies = fixture.batch(&[], &[&turn]);
    let ids: Vec<&str> = replies.iter().map(|reply| reply["id"].as_str().unwrap()).collect();
    assert_eq!(ids, names);
    for (n, reply) in replies.iter().enumerate() {
        assert!(text(reply).starts_with(&format!("     1\t{n}\n")), "{n}");
    }
}

/// A line of 96 MB is skipped without being held in memory.
#[test]
#[cfg(target_os = "linux")]
fn a_huge_line_is_answered_with_a_fault_in_little_memory() {
    let fixture = two_files();
    let mut command = fixture.haft(&["batch"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..96 {
        stdin.write_all(&megabyte).unwrap();
    }
    stdin.write_all(b"\n{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n").unwrap();
    let fault: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(text(&fault).starts_with("line 1: the input is 100663297 bytes long"), "{fault}");
    let reply: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(text(&reply), ONE);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 80 * 1024, "{peak} kB");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let fixture = two_files();
    let all: [&[&str]; 5] = [
        &["tools"],
        &["settings"],
        &["doctor"],
        &["completions", "zsh"],
        &["call", "Read", "file_path=one.txt"],
    ];
    for args in all {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = fixture.haft(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

/// The hook writes its process id to a FIFO, so the test knows that it runs before it interrupts haft.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_stops_what_was_started() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::{Pid, Signal, kill_process};
    let call = r#"{"name":"Read","input":{"file_path":"one.txt"}}"#;
    for args in [["call", "Read", "file_path=one.txt"].as_slice(), &["batch"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let fixture = two_files();
            let fifo = fixture.base.join("ws/fifo");
            mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            fixture.settings("[[hooks.pre_tool_use]]\ncommand = \"echo $$ > fifo; exec sleep 1000\"\n");
            let mut child = fixture
                .haft(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            writeln!(stdin, "{call}").unwrap();
            let hook = std::fs::read_to_string(&fifo).unwrap();
            kill_process(Pid::from_child(&child), signal).unwrap();
            let output = RunOutput::of(child.wait_with_output().unwrap());
            assert_eq!((output.code, output.stderr.as_str()), (130, ""), "{args:?}");
            assert!(output.stdout.contains("cancelled"), "{args:?}: {}", output.stdout);
            // Ended, or a zombie. It was killed, but that may take a moment.
            let left = || std::fs::read_to_string(format!("/proc/{}/stat", hook.trim())).unwrap_or_default();
            let is_gone = |left: &str| left.is_empty() || left.contains(") Z ");
            let gone = (0..1000).any(|_| {
                is_gone(&left()) || {
                    std::thread::sleep(Duration::from_millis(10));
                    false
                }
            });
            assert!(gone, "{}", left());
        }
    }
}

/// The second call hangs in its hook; the first one is answered at once, and its reply is printed.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_loses_no_reply_of_a_turn() {
    use rustix::process::{Pid, Signal, kill_process};
    let fixture = two_files();
    fixture.settings("[[hooks.pre_tool_use]]\ncommand = \"grep -q two.txt && exec sleep 1000; exit 0\"\n");
    let mut child = fixture.haft(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let call = |id: &str, file: &str| json!({"id": id, "name": "Read", "input": {"file_path": file}});
    writeln!(stdin, "{}", json!([call("a", "one.txt"), call("b", "two.txt"), call("b", "one.txt")])).unwrap();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(text(&next()), ONE, "it does not wait for the turn's end");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let cancelled = next();
    assert_eq!(cancelled["id"], "b");
    assert!(text(&cancelled).contains("cancelled"), "{cancelled}");
    assert!(text(&next()).contains("has the id `b` already"));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_batch_with_a_closed_stdout_is_counted_in_the_statistics() {
    let fixture = two_files();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    fixture.write("calls.jsonl", r#"{"name":"Read","input":{"file_path":"one.txt"}}"#);
    let output = fixture.haft(&["batch", "../calls.jsonl"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    assert_eq!(fixture.run(&["--json", "stats"]).json()[0]["calls"], 1);
}

#[test]
fn a_batch_that_is_clean_says_nothing_on_stderr() {
    let calls = [
        r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"name":"Read","input":{"file_path":"missing.txt"}}"#,
        r#"{"name":"NoSuchTool"}"#,
    ];
    let output = two_files().run_with(&["batch"], &calls.join("\n"));
    assert_eq!((output.code, output.stdout.lines().count(), output.stderr.as_str()), (0, 3, ""));
}

#[test]
fn a_tool_name_cannot_break_its_line() {
    let fixture = two_files();
    fixture.batch(&[], &[r#"{"name":"a\nb\u001b[2J"}"#]);
    let output = fixture.run(&["stats"]);
    assert!(output.stdout.lines().count() <= 2 && !output.stdout.contains('\u{1b}'), "{output:?}");
}

/// An interrupt also works while no call runs.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_a_batch_that_waits_for_its_next_line() {
    use rustix::process::{Pid, Signal, kill_process};
    let fixture = two_files();
    let mut child = fixture.haft(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(b"{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("one"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let stats = fixture.run(&["--json", "stats"]).json();
    assert_eq!(stats[0]["calls"], 1, "what was done before is still counted");
}
