//! Files that are too large to be kept whole: what differs is kept, and that is enough.

use bytes::Bytes;
use haft_journal::{Change, Content, EntryState, Journal, JournalError, Limits, Replaced, Side};
use haft_sandbox::{Expect, Hash, Store};
use haft_testing::{Need, missing};

use crate::common::{FAST, FULL, Fixture, leftovers};

/// Only small files are kept whole.
fn limits() -> Limits {
    Limits { file: 50_000, ..Limits::default() }
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|line| format!("line {line} of a large file\n").into_bytes()).collect()
}

/// An edit as the tools make it: some bytes of the file as it is are replaced.
fn splice(fix: &Fixture, name: &str, splices: &[(usize, usize, &str)]) -> Change {
    let before = Bytes::from(std::fs::read(fix.on_disk(name)).unwrap());
    let news = splices.iter().map(|(at, gone, new)| (*at..at + gone, Bytes::copy_from_slice(new.as_bytes())));
    let content = Content::spliced(&before, news.collect());
    let stamp = fix.workspace.stat(&fix.place(name)).unwrap().stamp;
    Change::Write {
        path: fix.place(name),
        content,
        expect: Expect::Content(Hash::of(&before)),
        replaced: Some(Replaced { content: before, stamp, settled: false }),
    }
}

/// Bytes of records, without the zeros that follow them, and of large contents.
fn used(fix: &Fixture) -> usize {
    let bytes = |dir: &str| -> usize {
        let Ok(dir) = std::fs::read_dir(fix.base.path().join(dir)) else { return 0 };
        let paths = dir.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        paths.map(|path| std::fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).unwrap_or(0)).sum()
    };
    bytes("state") + bytes("state/blobs")
}

#[test]
fn an_edit_of_a_file_over_the_limit_is_undone_and_redone() {
    let fix = Fixture::with(limits());
    let old = lines(40_000);
    fix.put("big", &old);
    let before = fix.snapshot();
    let recorded = fix
        .journal
        .change(
            &fix.workspace,
            splice(&fix, "big", &[(0, 4, "first"), (500_000, 0, "more"), (900_000, 99, "")]),
            FULL,
        )
        .unwrap();
    assert_eq!(recorded.notes, [""; 0]);
    let new = std::fs::read(fix.on_disk("big")).unwrap();
    assert_ne!(new, old);
    assert!(used(&fix) < 4096, "{} bytes for a small edit", used(&fix));
    for _ in 0..3 {
        // As another process would.
        let journal = fix.reopen_with(limits());
        journal.undo(&fix.workspace, &[recorded.number], FULL).unwrap();
        assert_eq!(fix.snapshot(), before, "bytes, mode, owner and time");
        journal.redo(&fix.workspace, &[recorded.number], FULL).unwrap();
        assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), new);
    }
    assert!(used(&fix) < 32_768, "{} bytes for a small edit, undone and redone", used(&fix));
}

#[test]
fn a_series_of_edits_of_a_large_file_is_undone_and_shown() {
    let fix = Fixture::with(limits());
    fix.put("big", lines(40_000));
    let mut states = vec![std::fs::read(fix.on_disk("big")).unwrap()];
    for round in 0..20 {
        fix.make(splice(&fix, "big", &[(round * 40_000, round, &format!("<{round}>"))])).unwrap();
        states.push(std::fs::read(fix.on_disk("big")).unwrap());
    }
    for number in [1, 10, 20] {
        for (side, state) in [(Side::Before, number - 1), (Side::After, number)] {
            let content = fix.journal.content(&fix.workspace, number as u64, side).unwrap().remove(0).1;
            assert_eq!(content.as_ref(), Some(&states[state]), "{side:?} {number}");
        }
    }
    // A refused undo tells what was recorded, rebuilt from what is there.
    let JournalError::Conflict(conflict) = fix.undo(10).unwrap_err() else { panic!("not a conflict") };
    assert_eq!(conflict.recorded_content.as_ref(), Some(&states[10]));
    assert_eq!(conflict.found_content.as_ref(), Some(&states[20]));
    fix.journal.undo(&fix.workspace, &(1..=20).collect::<Vec<u64>>(), FAST).unwrap();
    assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), states[0]);
}

#[test]
fn a_large_file_that_somebody_changed_is_left_alone() {
    let fix = Fixture::with(limits());
    fix.put("big", lines(40_000));
    let number = fix.make(splice(&fix, "big", &[(7, 7, "edited")])).unwrap().number;
    let mut theirs = std::fs::read(fix.on_disk("big")).unwrap();
    theirs[800_000] ^= 1;
    fix.put("big", &theirs);
    assert!(matches!(fix.undo(number), Err(JournalError::Conflict(_))));
    assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), theirs);
}

#[test]
fn what_changes_too_much_of_a_large_file_is_said_not_to_be_kept() {
    let fix = Fixture::with(limits());
    fix.put("big", vec![b'x'; 6 << 20]);
    let recorded = fix.make(splice(&fix, "big", &[(0, 5 << 20, "gone")])).unwrap();
    assert!(recorded.notes.iter().any(|note| note.contains("too large")), "{:?}", recorded.notes);
    let now = std::fs::read(fix.on_disk("big")).unwrap();
    assert!(matches!(fix.undo(recorded.number), Err(JournalError::NotKept { .. })));
    assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), now);
}

/// Kept bytes that went bad must not become the content of a file.
#[test]
fn damaged_parts_are_never_written_to_a_large_file() {
    let fix = Fixture::with(limits());
    fix.put("big", lines(40_000));
    let number = fix.make(splice(&fix, "big", &[(0, 6, "nothing")])).unwrap().number;
    let now = std::fs::read(fix.on_disk("big")).unwrap();
    let path = fix.base.path().join("state/00000001.log");
    let mut log = std::fs::read(&path).unwrap();
    let at = log.windows(6).position(|window| window == b"line 0").unwrap();
    log[at] = b'L';
    // This process knows the record from before; its bytes are read when they are wanted.
    std::fs::write(&path, log).unwrap();
    let error = fix.undo(number).unwrap_err();
    assert!(error.to_string().contains("does not lead back"), "{error}");
    assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), now);
    assert!(leftovers(&fix.on_disk("")).is_empty());
}

#[test]
fn half_a_group_with_a_large_file_is_taken_back() {
    let fix = Fixture::with(limits());
    let old = lines(40_000);
    fix.put("big", &old);
    fix.put("small", "old");
    let group = vec![splice(&fix, "big", &[(0, 4, "LINE")]), fix.write_change("small", "new")];
    fix.journal.change_all(&fix.workspace, group, FULL).unwrap();
    crate::damage::without_last_outcome(&fix);
    // As if it had been interrupted before its last step.
    fix.put("small", "old");
    let journal = fix.reopen_with(limits());
    assert_eq!(journal.history(1).unwrap()[0].state, EntryState::NotApplied);
    assert_eq!(std::fs::read(fix.on_disk("big")).unwrap(), old);
}

/// Each edit of a file of some size once cost as much room as the file.
#[test]
fn edits_of_a_larger_file_take_the_room_of_what_differs() {
    let fix = Fixture::new();
    let old = lines(40_000);
    fix.put("f", &old);
    for round in 0..10 {
        let label = if round % 2 == 0 { FAST } else { FULL };
        let change = splice(&fix, "f", &[(round * 90_000, 4, &format!("{round}"))]);
        fix.journal.change(&fix.workspace, change, label).unwrap();
    }
    assert!(used(&fix) < old.len() + 32_768, "{} bytes", used(&fix));
    // Both sides of each change can be shown although another program has overwritten the file.
    fix.put("f", "theirs");
    let journal = fix.reopen();
    for number in 1..=10 {
        for side in [Side::Before, Side::After] {
            assert!(
                journal.content(&fix.workspace, number, side).unwrap()[0].1.is_some(),
                "{side:?} {number}"
            );
        }
    }
    std::fs::remove_dir_all(fix.base.path().join("state/blobs")).unwrap();
    fix.put("f", &old);
    // A delta whose base is gone is not used: the content is stored again.
    let number = fix.make(splice(&fix, "f", &[(5, 1, "#")])).unwrap().number;
    fix.undo(number).unwrap();
    assert_eq!(std::fs::read(fix.on_disk("f")).unwrap(), old);
}

/// Regression: files of more than 256 MiB were compared by size and time alone.
#[test]
#[cfg(target_os = "linux")]
fn a_file_beyond_what_is_hashed_by_default_is_undone() {
    let fix = Fixture::new();
    let size = (256 << 20) + 4096;
    let file = std::fs::File::create(fix.on_disk("huge")).unwrap();
    if let Err(error) = file.set_len(size) {
        return missing(Need::SparseFiles, error);
    }
    let before = std::fs::read(fix.on_disk("huge")).unwrap();
    let hash = Hash::of(&before);
    let number = fix.make(splice(&fix, "huge", &[(1000, 3, "edited")])).unwrap().number;
    drop(before);
    let journal: Journal =
        Journal::open(Store::at(fix.base.path().join("state")), &fix.workspace, Limits::default()).unwrap();
    journal.undo(&fix.workspace, &[number], FAST).unwrap();
    assert_eq!(Hash::of_reader(std::fs::File::open(fix.on_disk("huge")).unwrap()).unwrap(), hash);
    journal.redo(&fix.workspace, &[number], FAST).unwrap();
    assert_eq!(std::fs::metadata(fix.on_disk("huge")).unwrap().len(), size + 3);
    // Equal size and time, different content.
    let file = std::fs::File::options().write(true).open(fix.on_disk("huge")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 5000).unwrap();
    file.set_modified(time).unwrap();
    assert!(matches!(journal.undo(&fix.workspace, &[number], FAST), Err(JournalError::Conflict(_))));
}
