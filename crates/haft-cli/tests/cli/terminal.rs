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

fn bash(command: &str) -> [&str; 5] {
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
fn the_last_line_is_on_a_narrow_screen_too() {
    let fixture = with_pipe();
    let command = "command=echo one and a long word after it; read x < pipe; echo $x # with a comment";
    for (columns, expected) in [
        (60, "* Bash echo one and … · N s · one and a long word after it"),
        (40, "* Bash ech… · N s · one and a long wor…"),
    ] {
        let mut seat = Seat::with_columns(&fixture, &bash(command), &[], columns);
        seat.sees("· one and a long");
        let rows = seat.rows(columns);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0], expected);
        std::fs::write(fixture.base.join("ws/pipe"), "three\n").unwrap();
        assert_eq!(seat.ends(), 0);
    }
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
    seat.sees("s · begun").types(CTRL_C);
    assert_eq!(seat.ends(), 130);
    // Where the signal meets the `sleep`, bash tells of that, too.
    assert_eq!(seat.shown().replace("Terminated\n", ""), "begun\ncleaned\nit was cancelled");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let fixture = Fixture::new(&[]);
    let command = "command=trap '' TERM; echo begun; while :; do sleep 0.1; done";
    let mut seat = Seat::take(&fixture, &bash(command), &[]);
    seat.sees("s · begun").types(CTRL_C).sees("Ctrl-C again ends it at once").types(CTRL_C);
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
    seat.sees("s · begun").types(CTRL_C);
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
    let grep = ["--dialect", "ally", "call", "grep", "pattern=long"];
    fixture.write("ws/long.txt", &"long words ".repeat(30));
    let mut seat = Seat::take(&fixture, &grep, &[]);
    assert_eq!(seat.ends(), 0);
    assert!(seat.shown().lines().all(|line| line.chars().count() <= 100), "{}", seat.shown());
    let piped = fixture.run(&call);
    assert_eq!(piped.json()["ok"], true);
    let raw = fixture.run(&[&["--json"], call.as_slice()].concat());
    assert_eq!(raw.json()["structured"]["ok"], true);
}

/// A line that is too long would be wrapped by the terminal, and is longer than the terminal then.
#[test]
fn tables_and_lists_fit_the_terminal() {
    let fixture = two_files();
    let calls: String = (0..21)
        .map(|n| {
            json!({"name": "Grep", "input": {"pattern": format!("{}{n}", "long".repeat(30))}}).to_string()
                + "\n"
        })
        .collect();
    assert_eq!(fixture.run_with(&["batch"], &calls).code, 0);
    for args in [["stats"].as_slice(), &["tools"], &["audit"], &["doctor"], &["settings"], &["sessions"]] {
        let mut seat = Seat::take(&fixture, args, &[]);
        let code = seat.ends();
        let long = seat.shown().lines().find(|line| line.chars().count() > 100).map(str::to_owned);
        assert_eq!((code, long), (0, None), "{args:?}: {}", seat.shown());
    }
}

#[test]
fn an_audit_says_how_much_of_it_is_shown_and_of_which_session() {
    let fixture = two_files();
    let call = json!({"name": "Read", "input": {"file_path": "one.txt"}}).to_string() + "\n";
    assert_eq!(fixture.run_with(&["--session", "mine", "batch"], &call.repeat(21)).code, 0);
    let told = fixture.run(&["audit"]).stdout;
    assert!(told.contains("the last 20 of 21 decisions; `haft audit -n 21` shows all"), "{told}");
    assert_eq!(told.matches("  mine  ").count(), 20, "{told}");
    let all = fixture.run(&["audit", "-n", "21"]).stdout;
    assert!(!all.contains("shows all") && all.matches("  mine  ").count() == 21, "{all}");
}

#[test]
fn a_denied_call_is_no_failure() {
    let fixture = two_files();
    fixture.settings("[permissions]\ndeny = [\"Read(two.txt)\"]\n");
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    fixture.run(&["call", "Read", "file_path=two.txt"]);
    let row = fixture.run(&["--json", "stats"]).json()[0].clone();
    let counts = [&row["calls"], &row["successes"], &row["failures"], &row["denials"]];
    assert_eq!((counts, &row["success_rate"]), ([2, 1, 0, 1].map(|n| json!(n)).each_ref(), &json!(1.0)));
}

/// What the tour prints at a terminal, without times, and without who waited for whom, which depends on the machine.
const TOUR: &str = "\
turn 1 · claude · 3 calls in N s, N s of work
  ✓ Read README.md lines 1–3 N s
           1    # a
           2    b
           3    c
      note: the file goes on; read it from line 4 with `offset`: 4
  ✗ Read crates/haft-core/src/enigne.rs N s
      `crates/haft-core/src/enigne.rs` does not exist
      hint: did you mean `crates/haft-core/src/engine.rs`?
  ✓ Read Cargo.toml lines 1–2 N s
           1    [workspace]
           2    members = []
      note: the file goes on; read it from line 3 with `offset`: 3
      note: `limit` came as a string and was read as 2

turn 2 · claude · 3 calls in N s, N s of work
  ✓ Write haft-tour.txt N s
      created `haft-tour.txt` (14 bytes, change 1)
  ✓ Edit haft-tour.txt N s
      changed `haft-tour.txt` (1 line for 1, change 2):
      1  one
        -two
      2 +2
      3  three
  ✓ Bash cat haft-tour.txt (Read it in the sandbox) N s
      one
      2
      three

turn 3 · claude · 3 calls in N s, N s of work
  ✓ Bash ls -d /proc/[0-9]* | wc -l (Count the processes it can see) N s
      N
  ✗ Bash mkfs /dev/sda (Wipe a disk) N s
      this is never run: `mkfs` makes a file system where another may be
      hint: ask the user to do it, if it is really meant
  ✓ Undo the last 2 N s
      undid change 2 (Edit) as change 3
      undid change 1 (Write) as change 4
      --- haft-tour.txt
      +++ haft-tour.txt
      @@ -1,3 +1,3 @@
       one
      -2
      … 8 more lines

turn 4 · ally · 2 calls in N s, N s of work
  ✓ ls examples N s
      tour.jsonl
  ✗ ls examples N s
      ls(file_path=\"examples\"): the same call was made before in this turn, as `1`, and nothing it reads has changed
      hint: use the reply to that call

turn 5 · workspace · 2 calls in N s, N s of work
  ✓ list_directory examples N s
      tour.jsonl
  ✗ read_file ../outside N s
      `../outside` is outside the workspace
      hint: stay inside the workspace, or have the user add the folder with `--add-dir`

turn 6 · claude · 1 call in N s, N s of work
  ✗ Red  N s
      there is no tool `Red`
      hint: did you mean `Read`?

14 calls: 9 succeeded, 4 failed, 1 denied. `haft history` shows what was changed, `haft audit` what was decided";

#[test]
fn the_tour_shows_an_edit_its_undo_the_sandbox_and_what_is_refused() {
    let fixture = Fixture::new(&[
        ("README.md", "# a\nb\nc\nd\n"),
        ("Cargo.toml", "[workspace]\nmembers = []\n\n"),
        ("crates/haft-core/src/engine.rs", "//! a\n"),
        ("examples/tour.jsonl", include_str!("../../../../examples/tour.jsonl")),
    ]);
    let tour = ["--mode", "accept-edits", "batch", "examples/tour.jsonl"];
    let mut seat = Seat::take(&fixture, &tour, &[]);
    assert_eq!(seat.ends(), 0);
    let shown = seat.shown();
    let lines = shown.lines().filter(|line| !line.trim_start().starts_with("waited for "));
    let lines =
        lines.map(|line| if line.trim().parse::<u32>().is_ok_and(|n| n != 2) { "      N" } else { line });
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), TOUR);
    assert!(!fixture.base.join("ws/haft-tour.txt").exists());
}
