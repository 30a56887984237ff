//! Lists of tasks, plans and questions, over several runs.

use super::*;

const ADD: &str = r#"{"dialect": "ally", "name": "todo_add", "arguments": {"tasks": ["Run the tests"]}}"#;
const WRITE: &str = r#"{"name": "TodoWrite", "arguments": {"todos": [
    {"content": "Read it", "status": "completed"},
    {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"}]}}"#;

#[test]
fn a_list_is_one_list_in_every_dialect_and_is_kept_with_the_session() {
    let lab = two_files();
    let write = WRITE.replace('\n', "");
    let replies = lab.batch(&["--session", "s"], &[&write, ADD]);
    assert!(text(&replies[1]).contains(r#""total_count":3"#), "{replies:?}");
    let todos = lab.run(&["--session", "s", "todos"]);
    assert_eq!(todos.stdout, "[x] Read it\n[>] Fix it  Fixing it\n[ ] Run the tests\n");
    let rows = lab.run(&["--session", "s", "--json", "todos"]).json();
    assert_eq!((&rows[1]["task"], &rows[1]["status"]), (&json!("Fix it"), &json!("in_progress")));
    // A later run goes on with it, and one that does not touch it leaves it as it is.
    lab.run(&["--session", "s", "call", "Read", "file_path=one.txt"]);
    lab.run(&["--session", "s", "--dialect", "ally", "call", "todo_complete", "index=2"]);
    assert!(lab.run(&["--session", "s", "todos"]).stdout.ends_with("[x] Run the tests\n"));
    assert_eq!(lab.run(&["--session", "s", "--json", "todos"]).json()[2]["id"], rows[2]["id"]);
}

#[test]
fn a_list_is_that_of_a_session() {
    let lab = two_files();
    lab.run(&["todos"]).refused("name the session with --session");
    lab.run(&["--session", "s", "todos"]).refused("there is no session `s` here");
    lab.run(&["--session", "s", "call", "Read", "file_path=one.txt"]);
    assert_eq!(lab.run(&["--session", "s", "todos"]).stdout, "the session `s` has no tasks\n");
}

#[test]
fn planning_goes_on_in_the_next_run_until_another_mode_is_typed() {
    let lab = two_files();
    let flags = ["--session", "s"];
    let run = |more: &[&str]| lab.run(&[&flags, more].concat());
    assert_eq!(run(&["call", "EnterPlanMode", "{}"]).code, 0);
    let plan = lab.state().join("plans/s.md");
    let into_plan = format!("file_path={}", plan.display());
    assert_eq!(run(&["call", "Write", &into_plan, "content=1. Think"]).code, 0);
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), "1. Think");
    let write = ["call", "Write", "file_path=new.txt", "content=x"];
    assert!(run(&write).stdout.contains("this session only plans"));
    assert!(run(&["call", "ExitPlanMode", "{}"]).stdout.contains("nobody to ask"));
    assert_eq!(run(&[&["--mode", "accept-edits"], &write[..]].concat()).code, 0);
    assert!(run(&write).stdout.contains("needs permission"));
}
