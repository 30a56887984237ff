//! What a person sees at a terminal while calls run, and when they are interrupted.

use super::seat::Seat;
use super::*;

const CTRL_C: &str = "\u{3}";

/// A fixture with a named pipe, on which a command can wait for the test.
fn with_pipe() -> Fixture {
    let fixture = Fixture::new(&[]);
    let path = fixture.base.join("ws/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    fixture
}

fn bash<'a>(command: &'a str) -> [&'a str; 5] {
    ["--mode", "bypass", "call", "Bash", command]
}

#[test]
fn the_last_line_of_a_running_command_is_on_the_screen() {
    let fixture = with_pipe();
    let mut seat = Seat::take(&fixture, &bash("command=echo one; echo two; read x < pipe; echo $x"), &[]);
    seat.sees("· two");
    assert_eq!(seat.shown(), "* Bash echo one; echo two; read x < pipe; echo $x · N s · two");
    std::fs::write(fixture.base.join("ws/pipe"), "three\n").unwrap();
    assert_eq!(seat.ends(), 0);
    assert_eq!(seat.shown(), "one\ntwo\nthree");
}

#[test]
fn each_running_call_of_a_turn_has_its_line() {
    let fixture = with_pipe();
    let call = |id: &str, command: &str| json!({"id": id, "name": "Bash", "input": {"command": command}});
    let turn = json!([call("a", "echo one; cat pipe"), call("b", "echo other; cat pipe")]);
    fixture.write("calls.jsonl", &turn.to_string());
    let mut seat = Seat::take(&fixture, &["--mode", "bypass", "batch", "../calls.jsonl"], &[]);
    seat.sees("Bash echo");
    seat.types(CTRL_C);
    assert_eq!(seat.ends(), 130);
    let shown = seat.shown();
    assert!(shown.contains("turn 1") && !shown.contains("stopping"), "{shown}");
}

#[test]
fn an_interrupt_keeps_what_a_command_printed_and_lets_it_clean_up() {
    let fixture = Fixture::new(&[]);
    let command = "command=trap 'echo cleaned; exit' TERM; echo begun; while :; do sleep 0.1; done";
    let mut seat = Seat::take(&fixture, &bash(command), &[]);
    seat.sees("begun").types(CTRL_C);
    assert_eq!(seat.ends(), 130);
    // Where the signal meets the `sleep`, bash tells of that, too.
    assert_eq!(seat.shown().replace("Terminated\n", ""), "begun\ncleaned\nit was cancelled");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let fixture = Fixture::new(&[]);
    let command = "command=trap '' TERM; echo begun; while :; do sleep 0.1; done";
    let mut seat = Seat::take(&fixture, &bash(command), &[]);
    seat.sees("begun").types(CTRL_C).sees("Ctrl-C again ends it at once").types(CTRL_C);
    assert_eq!(seat.ends(), 130);
    let shown = seat.shown();
    assert!(!shown.contains("it was cancelled") && !shown.contains("stopping"), "{shown}");
}

#[test]
fn an_interrupted_program_of_a_project_keeps_its_output() {
    let fixture = Fixture::new(&[]);
    let code = "code=print('begun', flush=True)\nimport time\ntime.sleep(1000)";
    let args = ["--mode", "bypass", "--dialect", "workspace", "call", "run_code", "language=python", code];
    let mut seat = Seat::take(&fixture, &args, &[]);
    seat.sees("begun").types(CTRL_C);
    assert_eq!(seat.ends(), 130);
    let shown = seat.shown();
    assert!(shown.contains("cancelled") && shown.contains("begun"), "{shown}");
}

#[test]
fn a_structured_reply_is_a_table_at_a_terminal_and_json_elsewhere() {
    let fixture = two_files();
    let call = ["--dialect", "workspace", "call", "list_directory", "path=."];
    let mut seat = Seat::take(&fixture, &call, &[]);
    assert_eq!(seat.ends(), 0);
    let shown = seat.shown();
    assert!(shown.contains("name") && shown.contains("one.txt") && !shown.contains('{'), "{shown}");
    let piped = fixture.run(&call);
    assert_eq!(piped.json()["ok"], true);
    let raw = fixture.run(&[&["--json"], call.as_slice()].concat());
    assert_eq!(raw.json()["structured"]["ok"], true);
}
