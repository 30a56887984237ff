//! Approvals and questions at a real terminal.

use super::seat::Seat;
use super::*;

const WRITE: [&str; 4] = ["call", "Write", "file_path=new.txt", "content=hello"];

fn is_there(fixture: &Fixture) -> bool {
    fixture.base.join("ws/new.txt").exists()
}

#[test]
fn allow_once_holds_for_one_call() {
    let fixture = two_files();
    for _ in 0..2 {
        let mut seat = Seat::take(&fixture, &WRITE, &[]);
        seat.sees("+hello").sees("> ").types("y");
        let (code, screen) = seat.leaves();
        assert!(code == 0 && is_there(&fixture), "{screen}");
        std::fs::remove_file(fixture.base.join("ws/new.txt")).unwrap();
    }
}

#[test]
fn a_denial_reaches_the_model_with_its_reason() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &WRITE, &[]);
    seat.sees("> ").types("n").sees("instead").types("put it elsewhere\n");
    let (code, screen) = seat.leaves();
    assert!(code == 1 && !is_there(&fixture), "{screen}");
    assert!(screen.contains("the user denied the call: put it elsewhere"), "{screen}");
}

#[test]
fn a_project_grant_is_not_asked_again_and_can_be_removed() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &WRITE, &[]);
    seat.sees("always means").sees("Write(./new.txt)").sees("> ").types("p");
    assert_eq!(seat.leaves().0, 0);
    std::fs::remove_file(fixture.base.join("ws/new.txt")).unwrap();
    let again = Seat::take(&fixture, &["call", "Write", "file_path=new.txt", "content=hello"], &[]);
    let (code, screen) = again.leaves();
    assert!(code == 0 && !screen.contains("wants to run"), "{screen}");
    let listed = fixture.run(&["rules"]).stdout;
    assert!(listed.contains("Write(./new.txt)") && listed.contains("this project"), "{listed}");
    assert_eq!(fixture.run(&["rules", "remove", "Write(./new.txt)"]).code, 0);
    assert!(!fixture.run(&["rules"]).stdout.contains("Write"));
}

#[test]
fn a_grant_for_a_path_outside_ends_the_question() {
    for (command, rule) in
        [("command=ls /mnt", "Bash(ls /mnt)"), ("command=cat /srv/a /srv/b", "Bash(cat /srv/a /srv/b)")]
    {
        let fixture = two_files();
        let mut seat = Seat::take(&fixture, &["call", "Bash", command], &[]);
        seat.sees("always means").sees(rule).sees("> ").types("p");
        seat.leaves();
        let (_, screen) = Seat::take(&fixture, &["call", "Bash", command], &[]).leaves();
        assert!(!screen.contains("wants to run"), "{screen}");
        // Another path is another question.
        let other = fixture.run(&["rules", "check", "Bash", "command=ls /media"]);
        assert!(other.stdout.starts_with("ask: "), "{other:?}");
    }
}

#[test]
fn another_rule_can_be_written() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &WRITE, &[]);
    seat.sees("> ").types("r").sees("your rule").types("Raed(x)\n").sees("there is no tool").sees("> ");
    seat.types("r").sees("your rule").types("Edit(*.txt)\n").sees("[u]where").types("u");
    assert_eq!(seat.leaves().0, 0);
    let settings = std::fs::read_to_string(fixture.base.join("home/.config/haft/config.toml")).unwrap();
    assert!(settings.contains("Edit(*.txt)"), "{settings}");
    let output = fixture.run(&["call", "Write", "file_path=other.txt", "content=x"]);
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn the_arguments_can_be_edited() {
    let fixture = two_files();
    let editor = "sed -i s/hello/goodbye/";
    let mut seat = Seat::take(&fixture, &WRITE, &[("EDITOR", editor)]);
    seat.sees("> ").types("e").sees("+goodbye").sees("> ").types("y");
    let (code, screen) = seat.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/new.txt")).unwrap(), "goodbye");
}

#[test]
fn single_hunks_can_be_approved() {
    let fixture = two_files();
    let before: String = (1..40).map(|n| format!("line {n}\n")).collect();
    fixture.write("ws/long.txt", &before);
    let after = before.replace("line 5\n", "five\n").replace("line 30\n", "thirty\n");
    let content = format!("content={after}");
    // The model has to have seen what it changes.
    assert_eq!(fixture.run(&["--session", "s", "call", "Read", "file_path=long.txt"]).code, 0);
    let mut seat =
        Seat::take(&fixture, &["--session", "s", "call", "Write", "file_path=long.txt", &content], &[]);
    seat.sees("[h]").sees("> ").types("h").sees("part 1 of 2").types("n").sees("part 2 of 2").types("y");
    let (code, screen) = seat.leaves();
    assert_eq!(code, 0, "{screen}");
    let now = std::fs::read_to_string(fixture.base.join("ws/long.txt")).unwrap();
    assert_eq!(now, before.replace("line 30\n", "thirty\n"));
    assert!(screen.contains("left out") && screen.contains("+five"), "{screen}");
}

#[test]
fn a_question_can_be_explained_and_shown_in_full() {
    let fixture = two_files();
    let many: String = (1..200).map(|n| format!("line {n}\n")).collect();
    let content = format!("content={many}");
    let mut seat = Seat::take(&fixture, &["call", "Write", "file_path=new.txt", &content], &[]);
    seat.sees("more lines: press v").sees("> ").types("v").sees("line 199").sees("> ");
    seat.types("x").sees("asked because").sees("changes").sees("accept-edits").sees("> ").types("y");
    assert_eq!(seat.leaves().0, 0);
}

#[test]
fn input_typed_before_the_question_is_discarded() {
    let fixture = two_files();
    fixture.settings(
        "[[hooks.pre_tool_use]]\ncommand = \"cat > /dev/null; echo ready > /dev/tty; read line < fifo\"\n",
    );
    let fifo = fixture.base.join("ws/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let mut seat = Seat::take(&fixture, &WRITE, &[]);
    seat.types("yyyy");
    std::fs::write(&fifo, "go\n").unwrap();
    seat.sees("wants to run").sees("> ").types("n").sees("instead").types("\n");
    assert_eq!(seat.leaves().0, 1);
    assert!(!is_there(&fixture));
}

#[test]
fn an_irreversible_command_cannot_be_granted_permanently() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &["call", "Bash", "command=rm -rf one.txt two.txt sub"], &[]);
    seat.sees("> ");
    assert!(!seat.screen.contains("[s]") && !seat.screen.contains("always means"), "{}", seat.screen);
    seat.types("s").sees("> ").types("n").sees("instead").types("\n");
    assert_eq!(seat.leaves().0, 1);
    assert!(fixture.base.join("ws/one.txt").exists());
}

#[test]
fn a_question_of_a_tool_is_answered_by_a_number_or_in_words() {
    let fixture = two_files();
    let option = |label: &str| json!({"label": label, "description": "why"});
    let options = [option("chrono"), option("jiff")];
    let question = json!({"question": "Which one?", "header": "Library", "options": options});
    let input = json!({"questions": [question]}).to_string();
    for (typed, told) in [("2\n", "\"Which one?\": jiff"), ("neither\n", "\"Which one?\": neither")] {
        let mut seat = Seat::take(&fixture, &["call", "AskUserQuestion", &input], &[]);
        seat.sees("Which one?").sees("jiff").sees("> ").types(typed);
        let (code, screen) = seat.leaves();
        assert!(code == 0 && screen.contains(told), "{screen}");
    }
}

#[test]
fn a_plan_is_shown_and_plan_mode_ends_when_it_is_approved() {
    let fixture = two_files();
    let calls = [
        json!({"name": "EnterPlanMode", "input": {}}),
        json!({"name": "ExitPlanMode", "input": {"plan": "1. Make new.txt"}}),
        json!({"name": "Write", "input": {"file_path": "new.txt", "content": "hello"}}),
    ];
    fixture.write("calls.jsonl", &calls.map(|call| call.to_string() + "\n").concat());
    let mut seat = Seat::take(&fixture, &["--mode", "accept-edits", "batch", "../calls.jsonl"], &[]);
    seat.sees("1. Make new.txt").sees("> ").types("y");
    let (code, screen) = seat.leaves();
    assert!(code == 0 && is_there(&fixture), "{screen}");
}

#[test]
fn a_dangerous_call_is_marked_and_every_key_is_answered() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &["call", "Bash", "command=rm -rf one.txt two.txt"], &[]);
    seat.sees("> ");
    let shown = seat.shown();
    let mut lines = shown.lines().skip(1);
    let first = lines.next().unwrap();
    assert!(first.starts_with(" DANGEROUS  Bash wants to run (terminal-"), "{shown}");
    assert!(lines.next().unwrap().starts_with("it may do harm that cannot be undone: "), "{shown}");
    assert!(shown.contains("[y] once  [w] once, with the network  [t] try it  [e] edit"), "{shown}");
    seat.types("q").sees("no such key: press one of y w t e v x n").sees("> ");
    seat.types("\u{1b}[A").sees("no such key").sees("> ");
    seat.types("\u{4}").sees("Ctrl-D: no");
    let (code, screen) = seat.leaves();
    assert!(code == 1 && screen.contains("the user denied `Bash`"), "{screen}");
    assert!(fixture.base.join("ws/one.txt").exists());
}

#[test]
fn an_ordinary_question_is_not_marked() {
    let fixture = two_files();
    let mut seat = Seat::take(&fixture, &WRITE, &[]);
    seat.sees("> ");
    let shown = seat.shown();
    let session = shown.split(['(', ')']).nth(1).unwrap().to_owned();
    assert_eq!(
        shown.replace(&session, "SESSION"),
        "\nWrite wants to run (SESSION)\nbecause it changes `new.txt`\n--- /dev/null\n+++ new.txt\n\
         @@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n\
         [y] once  [s] for the session  [p] for the project  [u] everywhere  [r] another rule  [e] edit\n\
         [v] all of it  [x] explain  [n] no\nalways means Write(./new.txt)\n>"
    );
    seat.types("y");
    assert_eq!(seat.ends(), 0);
}

#[test]
fn a_question_breaks_between_words_on_a_narrow_screen() {
    let fixture = two_files();
    let mut seat = Seat::with_columns(
        &fixture,
        &["--session", "mine", "call", "Bash", "command=mkdir a && cargo build"],
        &[],
        40,
    );
    seat.sees("> ");
    assert_eq!(
        seat.rows(40),
        [
            "",
            "Bash wants to run (mine)",
            "because it changes `a`; what `cargo`",
            "changes or reaches is not known",
            "  command: mkdir a && cargo build",
            "[y] once  [s] for the session",
            "[p] for the project  [u] everywhere",
            "[r] another rule",
            "[w] once, with the network  [t] try it",
            "[e] edit  [v] all of it  [x] explain",
            "[n] no",
            "always means Bash(mkdir:*),",
            "Bash(cargo build:*)",
            ">",
        ]
    );
    seat.types("\u{4}");
    assert_eq!(seat.ends(), 1);
}

/// The machine's loopback interface is in the command's network namespace only if the network was allowed.
#[test]
fn a_command_reaches_the_network_only_if_that_was_allowed() {
    let fixture = Fixture::new(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("command=touch x; exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
    for (key, code) in [("y", 1), ("w", 0)] {
        let mut seat = Seat::take(&fixture, &["call", "Bash", &command], &[]);
        seat.sees("[w]").sees("> ").types(key);
        let (ended, screen) = seat.leaves();
        assert_eq!(ended, code, "{screen}");
        assert_eq!(screen.contains("reached"), code == 0, "{screen}");
    }
    let audit = fixture.run(&["--json", "audit"]).stdout;
    assert!(audit.contains("once, with the network"), "{audit}");
}

#[test]
fn ctrl_d_ends_a_question_of_a_tool() {
    let fixture = two_files();
    let option = |label: &str| json!({"label": label, "description": "why"});
    let question = json!({"question": "Which?", "header": "One", "options": [option("a"), option("b")]});
    let input = json!({"questions": [question]}).to_string();
    let mut seat = Seat::take(&fixture, &["call", "AskUserQuestion", &input], &[]);
    seat.sees("> ").types("\u{4}");
    let (code, screen) = seat.leaves();
    assert!(code == 1 && screen.contains("the user gave no answer"), "{screen}");
}
