//! The command line as a person or a program meets it: exit codes, what goes where, and every way in.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // runs the binary in folders it makes itself

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A workspace and a home of its own.
struct Lab {
    _folder: tempfile::TempDir,
    base: PathBuf,
}

/// What came out of a run.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Lab {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("ws")).unwrap();
        std::fs::create_dir_all(base.join("home/.config/haft")).unwrap();
        let lab = Self { _folder: folder, base };
        for (name, text) in files {
            lab.write(&format!("ws/{name}"), text);
        }
        lab
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn settings(&self, text: &str) {
        self.write("home/.config/haft/config.toml", text);
    }

    fn haft(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(args).current_dir(self.base.join("ws")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.base.join("home")).env("XDG_STATE_HOME", self.base.join("state"));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.haft(args).stdin(Stdio::null()).output().unwrap())
    }

    fn run_with(&self, args: &[&str], stdin: &str) -> Ran {
        let mut command = self.haft(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let text = stdin.to_owned();
        let feeding = std::thread::spawn(move || pipe.write_all(text.as_bytes()));
        let ran = Ran::of(child.wait_with_output().unwrap());
        feeding.join().unwrap().unwrap();
        ran
    }

    /// The replies to the lines of a batch.
    fn batch(&self, args: &[&str], lines: &[&str]) -> Vec<Value> {
        let ran = self.run_with(&[&["batch"], args].concat(), &(lines.join("\n") + "\n"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The state that haft keeps for the workspace.
    fn state(&self) -> PathBuf {
        let mut kept = std::fs::read_dir(self.base.join("state/haft")).unwrap();
        kept.next().unwrap().unwrap().path()
    }
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that haft refused to begin: exit code 2, a reason on stderr and nothing on stdout.
    fn refused(&self, reason: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:?}");
        assert!(self.stderr.contains(reason), "`{reason}` is not in {self:?}");
    }
}

fn text(reply: &Value) -> &str {
    reply["content"][0]["text"].as_str().unwrap()
}

const ONE: &str = "     1\tone";
const TWO: &str = "     1\ttwo";

fn two_files() -> Lab {
    Lab::new(&[("one.txt", "one\n"), ("two.txt", "two\n")])
}

// ── calls ────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_call_that_works_exits_with_0_and_writes_to_stdout_alone() {
    let ran = two_files().run(&["call", "Read", r#"{"file_path":"one.txt"}"#]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "     1\tone\n", ""));
}

#[test]
fn a_call_that_fails_exits_with_1_and_its_reply_is_data() {
    let ran = two_files().run(&["call", "Read", r#"{"file_path":"three.txt"}"#]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert!(ran.stdout.starts_with("`three.txt` does not exist\nhint: "), "{ran:?}");
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_right() {
    let lab = two_files();
    lab.run(&["--no-such-flag"]).refused("--no-such-flag");
    lab.run(&["call"]).refused("<TOOL>");
    lab.run(&["--dialect", "klingon", "tools"]).refused("claude, ally, cdd, workspace");
    lab.run(&["--mode", "yolo", "tools"]).refused("accept-edits");
    lab.run(&["call", "Read", "one.txt"]).refused("`one.txt` is neither a JSON object nor `name=value`");
    lab.run(&["--workspace", "nowhere", "call", "Read"]).refused("nowhere");
    lab.run(&["--add-dir", "nowhere", "call", "Read"]).refused("nowhere");
    lab.run(&["--focus", "nowhere", "call", "Read"]).refused("nowhere");
    lab.run(&["batch", "nowhere.jsonl"]).refused("nowhere.jsonl");
}

#[test]
fn a_call_as_json_is_one_object() {
    let lab = two_files();
    for (dialect, tool, input) in [
        ("claude", "Read", r#"{"file_path":"one.txt"}"#),
        ("ally", "read", r#"{"file_paths":["one.txt"]}"#),
        ("cdd", "read", r#"{"file_path":"one.txt"}"#),
        ("workspace", "read_file", r#"{"path":"one.txt"}"#),
    ] {
        let plain = lab.run(&["--dialect", dialect, "call", tool, input]);
        let reply = lab.run(&["--dialect", dialect, "--json", "call", tool, input]).json();
        let keys: Vec<&String> = reply.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["id", "name", "is_error", "content", "structured"]);
        assert_eq!((&reply["name"], &reply["is_error"]), (&json!(tool), &json!(false)));
        assert_eq!(plain.stdout, format!("{}\n", text(&reply)));
    }
}

#[test]
fn objects_are_the_same_as_text_and_as_value() {
    let lab = two_files();
    for input in [r#"{"file_paths":["one.txt"]}"#, r#"{"file_paths":["three.txt"]}"#, "{}"] {
        let reply = lab.run(&["--dialect", "ally", "--json", "call", "read", input]).json();
        assert_eq!(serde_json::from_str::<Value>(text(&reply)).unwrap(), reply["structured"]);
    }
}

#[test]
fn arguments_may_be_pairs() {
    let lab = Lab::new(&[("7", "seven\n"), ("lines.txt", "a\nb\nc\n"), ("a=b.txt", "equals\n")]);
    let read = |args: &[&str]| lab.run(&[&["call", "Read"], args].concat()).stdout;
    assert_eq!(read(&["file_path=lines.txt", "offset=2", "limit=1"]).lines().next(), Some("     2\tb"));
    assert_eq!(read(&["file_path=7"]), "     1\tseven\n", "a name that looks like a number is a name");
    assert_eq!(read(&["file_path=a=b.txt"]), "     1\tequals\n");
}

#[test]
fn a_name_given_twice_makes_a_list() {
    let lab = two_files();
    let both = ["--dialect", "ally", "--json", "call", "read", "file_paths=one.txt", "file_paths=two.txt"];
    assert_eq!(lab.run(&both).json()["structured"]["files_read"], 2);
    let one = lab.run(&both[..6]).json();
    assert_eq!(one["structured"]["files_read"], 1);
    let listed = ["--dialect", "ally", "--json", "call", "read", r#"file_paths=["one.txt","two.txt"]"#];
    assert_eq!(lab.run(&listed).json()["structured"]["files_read"], 2);
}

#[test]
fn arguments_may_come_on_stdin() {
    let lab = two_files();
    let ran = lab.run_with(&["call", "Read", "-"], "  {\"file_path\": \"two.txt\"}\n");
    assert_eq!((ran.code, ran.stdout), (0, format!("{TWO}\n")));
    let ran = lab.run_with(&["call", "Read", "-"], "{");
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.starts_with("not valid JSON"), "{}", ran.stdout);
}

// ── batches ──────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_batch_takes_calls_in_every_form_that_apis_send() {
    let lab = two_files();
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
    let replies = lab.batch(&[], &forms);
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
    let ran = two_files().run_with(&["batch"], r#"{"name":"Read","input":{"file_path":"one.txt"}}"#);
    assert_eq!(text(&ran.json()), ONE);
}

#[test]
fn a_batch_may_be_a_file() {
    let lab = two_files();
    lab.write("ws/calls.jsonl", "{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n");
    assert_eq!(text(&lab.run(&["batch", "calls.jsonl"]).json()), ONE);
}

#[test]
fn replies_come_in_call_order() {
    let lab = Lab::new(&[]);
    let names: Vec<String> = (0..40).map(|n| format!("f{n}.txt")).collect();
    for (n, name) in names.iter().enumerate() {
        // The first files are the largest, so that they are read last.
        lab.write(&format!("ws/{name}"), &format!("{n}\n").repeat(20_000 / (n + 1)));
    }
    let calls = names.iter().map(|name| json!({"id": name, "name": "Read", "input": {"file_path": name}}));
    let turn = Value::from(calls.collect::<Vec<_>>()).to_string();
    let replies = lab.batch(&[], &[&turn]);
    let ids: Vec<&str> = replies.iter().map(|reply| reply["id"].as_str().unwrap()).collect();
    assert_eq!(ids, names);
    for (n, reply) in replies.iter().enumerate() {
        assert!(text(reply).starts_with(&format!("     1\t{n}\n")), "{n}");
    }
}

/// A line of 96 MB is not kept while it is read past.
#[test]
#[cfg(target_os = "linux")]
fn a_huge_line_is_answered_with_a_fault_in_little_memory() {
    let lab = two_files();
    let mut command = lab.haft(&["batch"]);
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
fn whoever_stops_reading_has_read_enough() {
    let lab = two_files();
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
        let output = lab.haft(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

/// The hook says who it is through a FIFO, so that it is known to run; then haft is told to stop.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_stops_what_was_started() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::{Pid, Signal, kill_process};
    let call = r#"{"name":"Read","input":{"file_path":"one.txt"}}"#;
    for args in [["call", "Read", "file_path=one.txt"].as_slice(), &["batch"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let lab = two_files();
            let fifo = lab.base.join("ws/fifo");
            mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            lab.settings("[[hooks.pre_tool_use]]\ncommand = \"echo $$ > fifo; exec sleep 1000\"\n");
            let mut child = lab
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
            let ran = Ran::of(child.wait_with_output().unwrap());
            assert_eq!((ran.code, ran.stderr.as_str()), (130, ""), "{args:?}");
            assert!(ran.stdout.contains("cancelled"), "{args:?}: {}", ran.stdout);
            // Gone, or a body that nobody has buried yet.
            let left = std::fs::read_to_string(format!("/proc/{}/stat", hook.trim())).unwrap_or_default();
            assert!(left.is_empty() || left.contains(") Z "), "{left}");
        }
    }
}

/// The second call hangs in its hook; the first one is answered at once, and keeps its answer.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_loses_no_reply_of_a_turn() {
    use rustix::process::{Pid, Signal, kill_process};
    let lab = two_files();
    lab.settings("[[hooks.pre_tool_use]]\ncommand = \"grep -q two.txt && exec sleep 1000; exit 0\"\n");
    let mut child = lab.haft(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
fn a_batch_that_nobody_reads_is_counted_even_so() {
    let lab = two_files();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    lab.write("calls.jsonl", r#"{"name":"Read","input":{"file_path":"one.txt"}}"#);
    let output = lab.haft(&["batch", "../calls.jsonl"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    assert_eq!(lab.run(&["--json", "stats"]).json()[0]["calls"], 1);
}

#[test]
fn a_batch_that_is_clean_says_nothing_on_stderr() {
    let calls = [
        r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"name":"Read","input":{"file_path":"missing.txt"}}"#,
        r#"{"name":"NoSuchTool"}"#,
    ];
    let ran = two_files().run_with(&["batch"], &calls.join("\n"));
    assert_eq!((ran.code, ran.stdout.lines().count(), ran.stderr.as_str()), (0, 3, ""));
}

#[test]
fn a_name_stays_on_its_line() {
    let lab = two_files();
    lab.batch(&[], &[r#"{"name":"a\nb\u001b[2J"}"#]);
    let ran = lab.run(&["stats"]);
    assert!(ran.stdout.lines().count() <= 2 && !ran.stdout.contains('\u{1b}'), "{ran:?}");
}

/// An interrupt while no call runs is heard as well.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_a_batch_that_waits_for_its_next_line() {
    use rustix::process::{Pid, Signal, kill_process};
    let lab = two_files();
    let mut child = lab.haft(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(b"{\"name\":\"Read\",\"input\":{\"file_path\":\"one.txt\"}}\n").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("one"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let stats = lab.run(&["--json", "stats"]).json();
    assert_eq!(stats[0]["calls"], 1, "what was done before is still counted");
}

// ── what it looks like ───────────────────────────────────────────────────────────────────────────────────

#[test]
fn nothing_that_is_piped_has_colours() {
    let lab = two_files();
    lab.run(&["call", "Read", "file_path=one.txt"]);
    let all: [&[&str]; 7] = [
        &["tools"],
        &["doctor"],
        &["stats"],
        &["--help"],
        &["call", "--help"],
        &["--no-such-flag"],
        &["--dialect", "klingon", "doctor"],
    ];
    for args in all {
        for (name, value) in [("TERM", "xterm-256color"), ("NO_COLOR", "1")] {
            let ran = Ran::of(lab.haft(args).env(name, value).output().unwrap());
            assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{args:?}: {ran:?}");
        }
    }
    let forced = Ran::of(lab.haft(&["tools"]).env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(forced.stdout.contains('\x1b'), "colours are there for those who want them");
}

#[test]
fn a_reply_in_a_pipe_is_exact() {
    let lab = Lab::new(&[("escape.txt", "\u{1b}[31mred\u{1b}[0m\n")]);
    let ran = lab.run(&["call", "Read", "file_path=escape.txt"]);
    assert_eq!(ran.stdout, "     1\t\u{1b}[31mred\u{1b}[0m\n");
}

#[test]
fn completions_for_every_shell() {
    let lab = two_files();
    let scripts = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| {
        let ran = lab.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.stdout.contains("haft") && ran.stdout.contains("doctor"), "{shell}");
        ran.stdout
    });
    for (at, script) in scripts.iter().enumerate() {
        assert!(!scripts[..at].contains(script));
    }
    lab.run(&["completions", "tcsh"]).refused("tcsh");
}

#[test]
fn tools_are_defined_for_every_api() {
    let lab = two_files();
    let first = |format: &str| lab.run(&["--dialect", "ally", "tools", "--format", format]).json()[0].clone();
    assert_eq!(first("openai")["function"]["name"], "read");
    assert_eq!(first("openai")["function"]["parameters"]["required"], json!(["file_paths"]));
    assert_eq!(first("openai-responses")["parameters"]["type"], "object");
    assert_eq!(first("anthropic")["input_schema"]["type"], "object");
    assert_eq!(first("mcp")["inputSchema"]["type"], "object");
    assert_eq!(first("mcp")["annotations"]["readOnlyHint"], true);
    assert_eq!(first("json")["read_only"], true);
    assert_eq!(lab.run(&["--dialect", "ally", "--json", "tools"]).json()[0], first("json"));
    assert!(lab.run(&["tools"]).stdout.starts_with("claude  "));
}

// ── figures, sessions, settings ──────────────────────────────────────────────────────────────────────────

#[test]
fn figures_add_up_over_runs() {
    let lab = two_files();
    assert!(lab.run(&["stats"]).stdout.starts_with("no call has been made in "));
    assert_eq!(lab.run(&["--json", "stats"]).json(), json!([]));
    lab.run(&["call", "Read", "file_path=one.txt"]);
    lab.run(&["call", "Read", "file_path=three.txt"]);
    lab.run(&["--dialect", "ally", "call", "ls", "file_path=."]);
    lab.run(&["call", "NoSuchTool"]);
    let stats = lab.run(&["--json", "stats"]).json();
    let counts: Vec<Value> = stats
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["tool"], row["calls"], row["successes"], row["failures"], row["success_rate"]]))
        .collect();
    assert_eq!(counts, [json!(["Read", 2, 1, 1, 0.5]), json!(["ls", 1, 1, 0, 1.0])]);
    let table = lab.run(&["stats"]).stdout;
    assert!(table.lines().count() == 3 && table.contains("50.0 %"), "{table}");
}

#[test]
fn figures_of_processes_that_run_at_once_are_all_counted() {
    let lab = two_files();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = lab.haft(&["call", "Read", "file_path=one.txt"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let stats = lab.run(&["--json", "stats"]).json();
    assert_eq!((&stats[0]["calls"], &stats[0]["successes"]), (&json!(8), &json!(8)));
}

#[test]
fn figures_belong_to_a_workspace() {
    let lab = two_files();
    lab.run(&["call", "Read", "file_path=one.txt"]);
    std::fs::create_dir(lab.base.join("other")).unwrap();
    assert_eq!(lab.run(&["--workspace", "../other", "--json", "stats"]).json(), json!([]));
}

#[test]
fn a_session_remembers_between_runs() {
    let lab = two_files();
    let reads = || -> Vec<String> {
        let saved = std::fs::read(lab.state().join("sessions/work.json")).unwrap();
        let saved: Value = serde_json::from_slice(&saved).unwrap();
        let mut names: Vec<String> = saved["reads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|read| Path::new(read[0].as_str().unwrap()).file_name().unwrap().display().to_string())
            .collect();
        names.sort();
        names
    };
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    assert_eq!(reads(), ["one.txt"]);
    lab.run(&["--session", "work", "call", "Read", "file_path=two.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"]);
    lab.run(&["--session", "work", "call", "Read", "file_path=three.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"], "what could not be read was not seen");
}

#[test]
fn a_session_that_cannot_be_kept_is_refused() {
    let lab = two_files();
    let read = |name: &str| lab.run(&["--session", name, "call", "Read", "file_path=one.txt"]);
    read("../escape").refused("../escape");
    read("work");
    std::fs::write(lab.state().join("sessions/work.json"), "{").unwrap();
    read("work").refused("the session `work` is damaged; remove ");
}

#[test]
fn doctor_says_what_is_in_force() {
    let lab = two_files();
    lab.settings("dialect = \"cdd\"\n[[hooks.pre_tool_use]]\nmatcher = \"Read\"\ncommand = \"true\"\n");
    let ran = lab.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for told in ["ws\n", "cdd: ", "config.toml", "not trusted", "PreToolUse Read: true", "state"] {
        assert!(ran.stdout.contains(told), "`{told}` is not in {}", ran.stdout);
    }
    let findings = lab.run(&["--json", "doctor"]).json();
    let states: Vec<&str> =
        findings.as_array().unwrap().iter().map(|finding| finding["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"ok") && !states.contains(&"bad"), "{findings}");
}

#[test]
fn doctor_names_the_place_of_a_mistake_in_the_settings() {
    let lab = two_files();
    lab.settings("dialect = \"ally\"\n\n[limits]\nkeep_days = \"seven\"\n");
    let ran = lab.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    for told in ["home/.config/haft/config.toml", "line 4", "keep_days", "✓ state"] {
        assert!(ran.stdout.contains(told), "`{told}` is not in {}", ran.stdout);
    }
}

#[test]
fn a_wrong_hook_pattern_is_a_mistake_in_the_settings() {
    let lab = two_files();
    lab.settings("[[hooks.pre_tool_use]]\nmatcher = \"(\"\ncommand = \"true\"\n");
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("`(` is no pattern for tool names");
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    let lab = two_files();
    for (settings, reason) in [
        (
            "[limits]\nmax_result = { Raed = 2000 }",
            "`Raed`, which is no tool of any dialect; did you mean `Read`?",
        ),
        ("[limits]\nmax_result = { Read = 999 }", "it must be 1000 at least"),
        ("[[hooks.pre_tool_use]]\ncommand = \"x\"\ntimeout = 0", "it must be 1 at least"),
        ("trusted = [\"code\"]", "write a whole path"),
        ("add_dirs = [\"~/nowhere\"]", "home/nowhere"),
    ] {
        lab.settings(settings);
        lab.run(&["call", "Read", "file_path=one.txt"]).refused(reason);
        let told = lab.run(&["doctor"]);
        assert!(told.code == 1 && told.stdout.contains(reason), "{told:?}");
    }
}

#[test]
fn a_hook_that_never_runs_is_told() {
    let lab = two_files();
    lab.settings("[[hooks.pre_tool_use]]\nmatcher = \"Raed\"\ncommand = \"false\"\n");
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stderr, "note: the hook `false` never runs: no tool matches `Raed`\n");
}

#[test]
fn folders_in_settings_start_at_the_workspace_or_the_home() {
    let lab = two_files();
    lab.write("beside/a.txt", "one\n");
    lab.write("home/mine/b.txt", "two\n");
    lab.settings("add_dirs = [\"../beside\", \"~/mine\"]\n");
    let workspace = lab.base.join("ws");
    for file in ["../beside/a.txt", "~/mine/b.txt"] {
        let mut command = lab.haft(&[
            "--workspace",
            workspace.to_str().unwrap(),
            "call",
            "Read",
            &format!("file_path={file}"),
        ]);
        let ran = Ran::of(command.current_dir(lab.base.join("home")).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// Opening a FIFO to read from it waits for somebody who writes.
#[test]
#[cfg(target_os = "linux")]
fn settings_that_are_no_file_do_not_hang() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let lab = two_files();
    std::fs::create_dir(lab.base.join("ws/.haft")).unwrap();
    let path = lab.base.join("ws/.haft/config.toml");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
}

#[test]
fn nothing_from_a_project_reaches_the_terminal_as_it_is() {
    let lab = Lab::new(&[(".haft/config.toml", "\"\u{9b}2J\" = 1\n"), ("one.txt", "one\n")]);
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert!(ran.code == 2 && !ran.stderr.contains('\u{9b}'), "{ran:?}");
    let ran = lab.run(&["doctor"]);
    assert!(ran.code == 1 && !ran.stdout.contains('\u{9b}'), "{ran:?}");
}

// ── what cannot be kept ──────────────────────────────────────────────────────────────────────────────────

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
    assert_eq!(kept["reads"].as_array().unwrap().len(), 1);
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
    assert_eq!(kept["reads"].as_array().unwrap().len(), 2, "{kept}");
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

// ── the workspace ────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_wide_workspace_must_be_meant() {
    let lab = two_files();
    lab.write("home/notes.txt", "home\n");
    let home = lab.base.join("home");
    let read = ["call", "Read", "file_path=notes.txt"];
    Ran::of(lab.haft(&read).current_dir(&home).output().unwrap()).refused("is a wide workspace");
    Ran::of(lab.haft(&read).current_dir("/").output().unwrap()).refused("`/` is a wide workspace");
    let meant = ["--workspace", ".", "call", "Read", "file_path=notes.txt"];
    let ran = Ran::of(lab.haft(&meant).current_dir(&home).output().unwrap());
    assert_eq!(ran.stdout, "     1\thome\n");
    lab.run(&["--workspace", "/", "call", "Read"]).refused("root of the file system");
}

#[test]
fn a_link_to_the_home_is_the_home() {
    let lab = two_files();
    std::os::unix::fs::symlink(lab.base.join("home"), lab.base.join("link")).unwrap();
    let read = ["call", "Read", "file_path=one.txt"];
    let ran = Ran::of(lab.haft(&read).current_dir(lab.base.join("link")).output().unwrap());
    ran.refused("is a wide workspace");
}

#[test]
fn what_touches_nothing_may_be_asked_anywhere() {
    let lab = two_files();
    for command in ["tools", "stats", "settings"] {
        for folder in [std::path::Path::new("/"), &lab.base.join("home")] {
            let ran = Ran::of(lab.haft(&[command]).current_dir(folder).output().unwrap());
            assert_eq!(ran.code, 0, "{command} in {folder:?}: {ran:?}");
        }
    }
}

#[test]
fn nothing_is_written_into_the_workspace() {
    let lab = two_files();
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    lab.batch(&[], &[r#"{"name":"Read","input":{"file_path":"one.txt"}}"#]);
    lab.run(&["doctor"]);
    let mut names: Vec<_> =
        std::fs::read_dir(lab.base.join("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["one.txt", "two.txt"]);
}

#[test]
#[cfg(unix)]
fn what_is_kept_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let lab = two_files();
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    let mut folders = vec![lab.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
}
