//! Lists of tasks, plans and questions, over several runs.

use super::*;

const ADD: &str = r#"{"dialect": "ally", "name": "todo_add", "arguments": {"tasks": ["Run the tests"]}}"#;
const WRITE: &str = r#"{"name": "TodoWrite", "arguments": {"todos": [
    {"content": "Read it", "status": "completed"},
    {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"}]}}"#;

#[test]
fn a_task_list_is_shared_by_all_dialects_and_saved_with_the_session() {
    let fixture = two_files();
    let write = WRITE.replace('\n', "");
    let replies = fixture.batch(&["--session", "s"], &[&write, ADD]);
    assert!(text(&replies[1]).contains(r#""total_count":3"#), "{replies:?}");
    let todos = fixture.run(&["--session", "s", "todos"]);
    assert_eq!(todos.stdout, "[x] Read it\n[>] Fix it  Fixing it\n[ ] Run the tests\n");
    let rows = fixture.run(&["--session", "s", "--json", "todos"]).json();
    assert_eq!((&rows[1]["task"], &rows[1]["status"]), (&json!("Fix it"), &json!("in_progress")));
    // A later run continues the list, and one that does not use it keeps it.
    fixture.run(&["--session", "s", "call", "Read", "file_path=one.txt"]);
    fixture.run(&["--session", "s", "--dialect", "ally", "call", "todo_complete", "index=2"]);
    assert!(fixture.run(&["--session", "s", "todos"]).stdout.ends_with("[x] Run the tests\n"));
    assert_eq!(fixture.run(&["--session", "s", "--json", "todos"]).json()[2]["id"], rows[2]["id"]);
}

#[test]
fn a_task_list_belongs_to_its_session() {
    let fixture = two_files();
    fixture.run(&["todos"]).refused("no call was made at this terminal");
    fixture.run(&["--session", "s", "todos"]).refused("there is no session `s` here");
    fixture.run(&["--session", "s", "call", "Read", "file_path=one.txt"]);
    assert_eq!(fixture.run(&["--session", "s", "todos"]).stdout, "the session `s` has no tasks\n");
}

#[test]
fn plan_mode_is_resumed_unless_a_mode_is_given() {
    let fixture = two_files();
    let flags = ["--session", "s"];
    let run = |more: &[&str]| fixture.run(&[&flags, more].concat());
    // A hook, since plan mode is entered only where something can end it.
    fixture.write(
        "home/.config/haft/config.toml",
        "[[hooks.pre_tool_use]]\nmatcher = \"ExitPlanMode\"\ncommand = \"true\"\n",
    );
    assert_eq!(run(&["call", "EnterPlanMode", "{}"]).code, 0);
    let plan = fixture.state().join("plans/s.md");
    let into_plan = format!("file_path={}", plan.display());
    assert_eq!(run(&["call", "Write", &into_plan, "content=1. Think"]).code, 0);
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), "1. Think");
    let write = ["call", "Write", "file_path=new.txt", "content=x"];
    assert!(run(&write).stdout.contains("this session only plans"));
    assert!(run(&["call", "ExitPlanMode", "{}"]).stdout.contains("nobody to ask"));
    assert_eq!(run(&[&["--mode", "accept-edits"], &write[..]].concat()).code, 0);
    assert!(run(&write).stdout.contains("needs permission"));
}
