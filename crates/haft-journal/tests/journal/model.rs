//! Random changes against what they should have done: undo after a change is as if nothing had happened.

use haft_journal::{Change, Depth, Overwrite};
use haft_sandbox::Expect;
use proptest::prelude::*;

use crate::common::{FAST, Fixture, Snapshot, leftovers};

const NAMES: [&str; 7] = ["a", "b", "d", "d/c", "d/e/f", "g/h", "g"];

#[derive(Clone, Debug)]
enum Act {
    Write(usize, String),
    Delete(usize),
    Move(usize, usize, bool),
    Mode(usize, u32),
    Make(usize),
    Group(Vec<Act>),
    Undo(usize),
    Redo(usize),
}

fn single() -> impl Strategy<Value = Act> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), "[a-z]{0,8}").prop_map(|(name, text)| Act::Write(name, text)),
        1 => (name(), 33_000..70_000_usize).prop_map(|(name, size)| Act::Write(name, "x".repeat(size))),
        2 => name().prop_map(Act::Delete),
        2 => (name(), name(), any::<bool>()).prop_map(|(from, to, over)| Act::Move(from, to, over)),
        1 => (name(), 0o400..0o777_u32).prop_map(|(name, mode)| Act::Mode(name, mode | 0o400)),
        1 => name().prop_map(Act::Make),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => single(),
        2 => proptest::collection::vec(single(), 2..4).prop_map(Act::Group),
        2 => (0..4_usize).prop_map(Act::Undo),
        1 => (0..4_usize).prop_map(Act::Redo),
    ]
}

fn change(fix: &Fixture, act: &Act) -> Vec<Change> {
    vec![match act {
        Act::Write(name, text) => fix.write_change(NAMES[*name], text),
        Act::Delete(name) => {
            Change::Delete { path: fix.place(NAMES[*name]), expect: Expect::Anything, depth: Depth::Tree }
        }
        Act::Move(from, to, over) => {
            let overwrite = if *over { Overwrite::Replace(Expect::Anything) } else { Overwrite::Refuse };
            fix.move_change(NAMES[*from], NAMES[*to], overwrite)
        }
        Act::Mode(name, mode) => Change::Mode { path: fix.place(NAMES[*name]), mode: *mode },
        Act::Make(name) => Change::MakeDirectory { path: fix.place(NAMES[*name]) },
        Act::Group(acts) => return acts.iter().flat_map(|act| change(fix, act)).collect(),
        Act::Undo(_) | Act::Redo(_) => return Vec::new(),
    }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn undo_after_a_change_is_as_if_nothing_had_happened(acts in proptest::collection::vec(act(), 1..25)) {
        let fix = Fixture::new();
        // What the folder looked like before each change that stands, and which were undone.
        let mut done: Vec<(u64, Snapshot)> = Vec::new();
        let mut undone: Vec<(u64, Snapshot, Snapshot)> = Vec::new();
        for act in &acts {
            let before = fix.snapshot();
            match act {
                Act::Undo(count) => {
                    for _ in 0..=*count {
                        let Some((number, earlier)) = done.pop() else { break };
                        let later = fix.snapshot();
                        fix.undo(number).unwrap();
                        prop_assert_eq!(&fix.snapshot(), &earlier);
                        undone.push((number, earlier, later));
                    }
                }
                Act::Redo(count) => {
                    for _ in 0..=*count {
                        let Some((number, earlier, later)) = undone.pop() else { break };
                        fix.redo(number).unwrap();
                        prop_assert_eq!(&fix.snapshot(), &later);
                        done.push((number, earlier));
                    }
                }
                act => match fix.journal.change_all(&fix.workspace, change(&fix, act), FAST) {
                    Ok(recorded) => {
                        let after = fix.snapshot();
                        fix.undo(recorded.number).unwrap();
                        prop_assert_eq!(&fix.snapshot(), &before, "undo of {:?}", act);
                        fix.redo(recorded.number).unwrap();
                        prop_assert_eq!(&fix.snapshot(), &after, "redo of {:?}", act);
                        done.push((recorded.number, before));
                        undone.clear();
                    }
                    Err(_) => prop_assert_eq!(&fix.snapshot(), &before, "{:?} failed", act),
                },
            }
        }
        prop_assert!(leftovers(&fix.on_disk("")).is_empty());
        let journal = fix.reopen();
        prop_assert!(journal.take_notes().is_empty());
        for (number, earlier) in done.into_iter().rev() {
            journal.undo(&fix.workspace, &[number], FAST).unwrap();
            prop_assert_eq!(&fix.snapshot(), &earlier);
        }
    }
}
