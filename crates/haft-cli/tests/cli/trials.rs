//! Commands that are tried, at a terminal: the key, the question about their effects, and what follows.

use super::seat::Seat;
use super::*;

const ASK: &str = "[sandbox]\neffects = \"ask\"\n";

fn read(fixture: &Fixture, name: &str) -> Option<String> {
    std::fs::read_to_string(fixture.base.join("ws").join(name)).ok()
}

/// Nothing that a trial needs is left in the state folder.
fn assert_nothing_left(fixture: &Fixture) {
    let mut folders = vec![fixture.base.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with("upper-") && !name.starts_with("work-"), "{}", entry.path().display());
            folders.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
        }
    }
}

#[test]
fn a_command_is_tried_by_a_key_and_all_of_it_is_kept_and_undone() {
    let fixture = two_files();
    let command = "command=rm one.txt; chmod 700 two.txt; echo three > three.txt";
    let mut seat = Seat::take(&fixture, &["call", "Bash", command], &[]);
    seat.sees("try it").sees("> ").types("t");
    seat.sees("keep what it changed?").sees("keep nothing").sees("\n> ");
    let shown = seat.shown();
    let shown = shown.split_once("was tried").unwrap().1;
    assert!(shown.contains("[h] parts") && shown.contains("[n] keep nothing"), "{shown}");
    assert!(!shown.contains("[e] edit") && !shown.contains("[w]"), "{shown}");
    let of = |text: &str| shown.find(text).unwrap_or_else(|| panic!("`{text}` in {shown}"));
    assert!(of("deleted one.txt") < of("mode two.txt 644 → 700"), "{shown}");
    assert!(of("mode two.txt") < of("+three"), "{shown}");
    assert!(read(&fixture, "one.txt").is_some(), "nothing counts yet");
    seat.types("y");
    let (code, screen) = seat.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!((read(&fixture, "one.txt"), read(&fixture, "three.txt").as_deref()), (None, Some("three\n")));
    assert_nothing_left(&fixture);
    let history = fixture.run(&["history"]).stdout;
    assert!(history.contains("rm one.txt"), "{history}");
    let undone = fixture.run(&["undo", "1"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert!(read(&fixture, "one.txt").is_some() && read(&fixture, "three.txt").is_none());
    let mode = std::fs::metadata(fixture.base.join("ws/two.txt")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o644);
}

#[test]
fn deletions_are_shown_however_many_other_changes_there_are() {
    let fixture = two_files();
    fixture.settings(ASK);
    let command = "command=for n in $(seq 300); do echo $n > new$n.txt; done; rm one.txt";
    let mut seat = Seat::take(&fixture, &["call", "Bash", command], &[]);
    seat.sees("keep nothing").sees("\n> ");
    let shown = seat.shown();
    assert!(shown.contains("deleted one.txt") && shown.contains("more lines: press v"), "{shown}");
    seat.types("n").sees("what to do instead").types("\r");
    let (code, screen) = seat.leaves();
    assert_eq!(code, 1, "{screen}");
    assert!(read(&fixture, "one.txt").is_some() && read(&fixture, "new1.txt").is_none());
    assert_nothing_left(&fixture);
}

#[test]
fn some_files_of_a_trial_are_kept() {
    let fixture = two_files();
    fixture.settings(ASK);
    let mut seat = Seat::take(
        &fixture,
        &["call", "Bash", "command=rm one.txt; echo 2 > two.txt; echo 3 > three.txt"],
        &[],
    );
    seat.sees("keep nothing").sees("\n> ").types("h");
    for (part, key) in [("part 1 of 3", "n"), ("part 2 of 3", "y"), ("part 3 of 3", "n")] {
        seat.sees(part).sees("? ").types(key);
    }
    let (code, screen) = seat.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(read(&fixture, "two.txt").as_deref(), Some("2\n"));
    assert!(read(&fixture, "one.txt").is_some() && read(&fixture, "three.txt").is_none());
}

#[test]
fn a_change_by_another_program_while_somebody_is_asked_is_not_overwritten() {
    let fixture = two_files();
    fixture.settings(ASK);
    let mut seat =
        Seat::take(&fixture, &["call", "Bash", "command=echo mine > one.txt; echo 3 > three.txt"], &[]);
    seat.sees("keep nothing").sees("\n> ");
    std::fs::write(fixture.base.join("ws/one.txt"), "theirs").unwrap();
    seat.types("y");
    let (code, screen) = seat.leaves();
    assert!(code == 1 && screen.contains("it was changed meanwhile"), "{screen}");
    assert_eq!(read(&fixture, "one.txt").as_deref(), Some("theirs"));
    assert_eq!(read(&fixture, "three.txt"), None);
}

#[test]
fn what_a_view_cannot_do_runs_directly_and_is_kept_or_undone() {
    if !haft_testing::require(haft_testing::Need::Python) {
        return;
    }
    for (key, stays) in [("y", true), ("n", false)] {
        let fixture = two_files();
        fixture.settings(ASK);
        std::fs::create_dir(fixture.base.join("ws/d")).unwrap();
        std::fs::write(fixture.base.join("ws/d/a"), "a").unwrap();
        let mut seat = Seat::take(
            &fixture,
            &["call", "Bash", "command=python3 -c 'import os; os.rename(\"d\", \"e\")'"],
            &[],
        );
        seat.sees("cannot be tried: run it directly?").sees("> ");
        let shown = seat.shown();
        assert!(shown.contains("whether to keep or undo"), "{shown}");
        seat.types("y").sees("has run: keep what it changed?").sees(" undo").sees("> ").types(key);
        if !stays {
            seat.sees("what to do instead").types("\r");
        }
        let (code, screen) = seat.leaves();
        assert_eq!(code, i32::from(!stays), "{screen}");
        assert_eq!(
            (read(&fixture, "e/a").is_some(), read(&fixture, "d/a").is_some()),
            (stays, !stays),
            "{screen}"
        );
    }
}

#[test]
fn haft_that_is_killed_at_the_question_leaves_nothing() {
    let fixture = two_files();
    fixture.settings(ASK);
    let mut seat = Seat::take(&fixture, &["call", "Bash", "command=rm one.txt; mkdir -m 000 d"], &[]);
    seat.sees("keep nothing").sees("\n> ").kill();
    assert!(read(&fixture, "one.txt").is_some());
    // The next start of haft removes it.
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert_nothing_left(&fixture);
    assert!(read(&fixture, "one.txt").is_some());
}
