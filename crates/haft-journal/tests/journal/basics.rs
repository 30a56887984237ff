//! Changes, undo and redo.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use haft_journal::{Change, Depth, EntryState, JournalError, Limits, Overwrite, Side};
use haft_sandbox::{Expect, Hash};
use haft_testing::{Need, missing};

use crate::common::{FAST, FULL, Fixture, leftovers};

fn set_mode(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_undone_edit_leaves_bytes_mode_owner_time_and_attributes_as_they_were() {
    let fix = Fixture::new();
    fix.put("run.sh", "old\r\n\u{feff}");
    set_mode(&fix.on_disk("run.sh"), 0o755);
    let file = std::fs::File::open(fix.on_disk("run.sh")).unwrap();
    let attribute = ("user.haft", b"kept".as_slice());
    let set = rustix::fs::fsetxattr(&file, attribute.0, attribute.1, rustix::fs::XattrFlags::empty());
    let has_xattrs = set.is_ok();
    if let Err(error) = set {
        missing(Need::Attributes, error);
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(fix.on_disk("run.sh"), Some(1234), Some(4321)).unwrap();
    } else {
        missing(Need::Root, "only root may give a file to another user");
    }
    let before = fix.snapshot();
    let xattr = || {
        let mut value = [0; 16];
        let file = std::fs::File::open(fix.on_disk("run.sh")).unwrap();
        let length = rustix::fs::fgetxattr(&file, attribute.0, &mut value[..]).unwrap();
        value[..length].to_vec()
    };
    let number = fix.journal.change(&fix.workspace, fix.write_change("run.sh", "new"), FULL).unwrap().number;
    assert_eq!(fix.text("run.sh").unwrap(), "new");
    let after = std::fs::metadata(fix.on_disk("run.sh")).unwrap();
    assert_eq!(after.permissions().mode() & 0o7777, 0o755);
    if rustix::process::geteuid().is_root() {
        assert_eq!((after.uid(), after.gid()), (1234, 4321));
    }
    if has_xattrs {
        assert_eq!(xattr(), attribute.1);
    }
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
    if has_xattrs {
        assert_eq!(xattr(), attribute.1);
    }
    fix.redo(number).unwrap();
    assert_eq!(fix.text("run.sh").unwrap(), "new");
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_of_what_was_replaced_is_held() {
    let fix = Fixture::new();
    fix.put("a", "0");
    for label in [FAST, FULL] {
        for change in 0..100 {
            fix.journal.change(&fix.workspace, fix.write_change("a", &change.to_string()), label).unwrap();
        }
        let place = fix.on_disk("").to_string_lossy().trim_end_matches('/').to_owned();
        let held = || {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let paths = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            paths.filter(|path| path.to_string_lossy().starts_with(&place)).count()
        };
        let begun = std::time::Instant::now();
        while held() > 5 {
            assert!(begun.elapsed().as_secs() < 10, "{} files are held", held());
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_new_file_follows_the_umask_and_set_user_id_does_not_outlast_a_write() {
    let fix = Fixture::new();
    std::fs::write(fix.on_disk("plain"), "x").unwrap();
    fix.write("new", "x");
    let mode = |name| std::fs::metadata(fix.on_disk(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("new"), mode("plain"));
    set_mode(&fix.on_disk("plain"), 0o4755);
    fix.write("plain", "y");
    assert_eq!(mode("plain"), 0o755);
}

#[test]
fn undoing_a_new_file_removes_only_directories_that_were_made_and_are_empty() {
    let fix = Fixture::new();
    std::fs::create_dir(fix.on_disk("n")).unwrap();
    let before = fix.snapshot();
    let number = fix.write("n/e/w/f", "x");
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
    fix.redo(number).unwrap();
    assert_eq!(fix.text("n/e/w/f").unwrap(), "x");
    fix.put("n/e/other", "theirs");
    fix.undo(number).unwrap();
    assert!(!fix.on_disk("n/e/w").exists());
    assert_eq!(fix.text("n/e/other").unwrap(), "theirs");
}

#[test]
fn a_deleted_tree_comes_back_whole() {
    let fix = Fixture::new();
    fix.put("t/run", "#!");
    set_mode(&fix.on_disk("t/run"), 0o755);
    fix.put("t/empty-file", "");
    fix.put("t/large", vec![7; 100_000]);
    fix.put("t/sparse", "");
    std::fs::OpenOptions::new().write(true).open(fix.on_disk("t/sparse")).unwrap().set_len(200_000).unwrap();
    std::fs::create_dir_all(fix.on_disk("t/empty/dir")).unwrap();
    set_mode(&fix.on_disk("t/empty"), 0o711);
    symlink("run", fix.on_disk("t/inside")).unwrap();
    symlink(fix.out(), fix.on_disk("t/outside")).unwrap();
    symlink("nowhere", fix.on_disk("t/dangling")).unwrap();
    let before = fix.snapshot();
    let number = fix.make(fix.delete_change("t")).unwrap().number;
    assert!(!fix.on_disk("t").exists());
    assert!(fix.out().join("canary.txt").exists());
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
    fix.redo(number).unwrap();
    assert!(!fix.on_disk("t").exists());
    assert!(fix.out().join("canary.txt").exists());
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
}

#[test]
fn a_directory_that_is_not_empty_needs_to_be_asked_for() {
    let fix = Fixture::new();
    fix.put("d/f", "x");
    let change = Change::Delete { path: fix.place("d"), expect: Expect::Anything, depth: Depth::Empty };
    fix.make(change.clone()).unwrap_err();
    std::fs::remove_file(fix.on_disk("d/f")).unwrap();
    let number = fix.make(change).unwrap().number;
    assert!(!fix.on_disk("d").exists());
    fix.undo(number).unwrap();
    assert!(fix.on_disk("d").is_dir());
}

#[test]
fn moves_with_and_without_overwriting_are_undone() {
    let fix = Fixture::new();
    fix.put("a", "A");
    fix.put("b", "B");
    fix.put("d/in", "in");
    let before = fix.snapshot();
    fix.make(fix.move_change("a", "b", Overwrite::Refuse)).unwrap_err();
    assert_eq!(fix.snapshot(), before);
    let wrong = Overwrite::Replace(Expect::Content(Hash::of(b"other")));
    fix.make(fix.move_change("a", "b", wrong)).unwrap_err();
    assert_eq!(fix.snapshot(), before);
    let right = Overwrite::Replace(Expect::Content(Hash::of(b"B")));
    let one = fix.make(fix.move_change("a", "b", right)).unwrap().number;
    assert_eq!((fix.text("a"), fix.text("b").unwrap().as_str()), (None, "A"));
    let two = fix.make(fix.move_change("d", "x/y/d", Overwrite::Refuse)).unwrap().number;
    assert_eq!(fix.text("x/y/d/in").unwrap(), "in");
    fix.journal.undo(&fix.workspace, &[one, two], FAST).unwrap();
    assert_eq!(fix.snapshot(), before);
    fix.journal.redo(&fix.workspace, &[one, two], FAST).unwrap();
    assert_eq!((fix.text("a"), fix.text("b").unwrap().as_str()), (None, "A"));
    assert_eq!(fix.text("x/y/d/in").unwrap(), "in");
}

#[test]
fn a_mode_is_changed_and_undone() {
    let fix = Fixture::new();
    fix.put("f", "x");
    set_mode(&fix.on_disk("f"), 0o640);
    let before = fix.snapshot();
    let number = fix.make(Change::Mode { path: fix.place("f"), mode: 0o4755 }).unwrap().number;
    assert_eq!(std::fs::metadata(fix.on_disk("f")).unwrap().permissions().mode() & 0o7777, 0o755);
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
}

#[test]
fn undo_refuses_what_changed_since_and_shows_both_contents() {
    let fix = Fixture::new();
    fix.put("f", "one");
    let first = fix.write("f", "two");
    let other = fix.write("g", "g");
    fix.put("f", "theirs");
    let JournalError::Conflict(conflict) =
        fix.journal.undo(&fix.workspace, &[first, other], FAST).unwrap_err()
    else {
        panic!("not a conflict");
    };
    assert_eq!(conflict.recorded_content.as_deref(), Some(b"two".as_slice()));
    assert_eq!(conflict.found_content.as_deref(), Some(b"theirs".as_slice()));
    assert_eq!(fix.text("f").unwrap(), "theirs");
    assert_eq!(fix.text("g").unwrap(), "g", "all or nothing");
    fix.put("f", "two");
    set_mode(&fix.on_disk("f"), 0o700);
    assert!(matches!(fix.undo(first), Err(JournalError::Conflict(_))), "the mode counts");
}

#[test]
fn undo_of_an_undo_is_a_redo_and_each_is_done_once() {
    let fix = Fixture::new();
    let number = fix.write("f", "x");
    let undo = fix.undo(number).unwrap()[0].number;
    assert!(matches!(fix.undo(number), Err(JournalError::NothingToDo { .. })));
    fix.undo(undo).unwrap();
    assert_eq!(fix.text("f").unwrap(), "x");
    assert!(matches!(fix.redo(number), Err(JournalError::NothingToDo { .. })));
    fix.undo(number).unwrap();
    assert_eq!(fix.text("f"), None);
    assert!(matches!(fix.undo(99), Err(JournalError::Unknown(99, 1))));
}

#[test]
fn history_tells_who_did_what_and_both_sides() {
    let fix = Fixture::new();
    fix.put("f", "old");
    let number = fix.write("f", "newer");
    fix.put("f", "else");
    let entry = fix.reopen().history(1).unwrap().remove(0);
    assert_eq!((entry.number, entry.tool.as_str(), entry.state), (number, "test", EntryState::Done));
    assert_eq!((entry.touched[0].size_before, entry.touched[0].size_after), (3, 5));
    let side = |side| fix.journal.content(&fix.workspace, number, side).unwrap().remove(0).1.unwrap();
    assert_eq!(side(Side::Before), b"old");
    assert_eq!(side(Side::After), b"newer");
    assert_eq!(fix.journal.latest(1, Some("s")).unwrap(), [number]);
    assert_eq!(fix.journal.latest(1, Some("other")).unwrap(), [0; 0]);
}

#[test]
fn a_group_is_all_or_nothing() {
    let fix = Fixture::new();
    fix.put("a", "a");
    fix.put("b", "b");
    std::fs::create_dir(fix.on_disk("dir")).unwrap();
    fix.put("dir/full", "x");
    let before = fix.snapshot();
    let bad = Change::Delete { path: fix.place("dir"), expect: Expect::Anything, depth: Depth::Empty };
    let group = vec![fix.write_change("a", "A"), fix.write_change("n/c", "C"), fix.delete_change("b"), bad];
    fix.journal.change_all(&fix.workspace, group, FULL).unwrap_err();
    assert_eq!(fix.snapshot(), before);
    assert_eq!(fix.journal.history(1).unwrap()[0].state, EntryState::NotApplied);
    let group = vec![
        fix.write_change("a", "A"),
        fix.write_change("n/c", "C"),
        fix.delete_change("b"),
        fix.move_change("dir", "moved", Overwrite::Refuse),
    ];
    let number = fix.journal.change_all(&fix.workspace, group, FULL).unwrap().number;
    let after = fix.snapshot();
    fix.undo(number).unwrap();
    assert_eq!(fix.snapshot(), before);
    fix.redo(number).unwrap();
    assert_eq!(fix.snapshot(), after);
    let twice = vec![fix.write_change("a", "1"), fix.delete_change("a")];
    let error = fix.journal.change_all(&fix.workspace, twice, FAST).unwrap_err();
    assert!(matches!(error, JournalError::SamePlace(_)));
}

#[test]
fn a_change_of_what_was_not_expected_is_refused() {
    let fix = Fixture::new();
    fix.put("f", "theirs");
    let write = |expect| Change::Write {
        path: fix.place("f"),
        content: b"mine".to_vec().into(),
        expect,
        replaced: None,
    };
    fix.make(write(Expect::Missing)).unwrap_err();
    fix.make(write(Expect::Content(Hash::of(b"read before")))).unwrap_err();
    assert_eq!(fix.text("f").unwrap(), "theirs");
    fix.make(write(Expect::Content(Hash::of(b"theirs")))).unwrap();
    assert_eq!(fix.text("f").unwrap(), "mine");
}

#[test]
fn what_is_too_large_is_changed_but_said_not_to_be_kept() {
    let limits = Limits { file: 50_000, ..Limits::default() };
    let fix = Fixture::with(limits);
    fix.put("big", vec![1; 60_000]);
    let recorded = fix.make(fix.write_change("big", "small")).unwrap();
    assert!(recorded.notes.iter().any(|note| note.contains("too large")), "{:?}", recorded.notes);
    assert!(matches!(fix.undo(recorded.number), Err(JournalError::NotKept { size: 60_000, .. })));
    assert_eq!(fix.text("big").unwrap(), "small");
}

#[test]
fn the_journal_stays_within_its_limits_and_says_what_went() {
    // Small content lies in the records, large content in files of its own.
    for (repeat, bytes) in [(20_000, 2_000_000), (100_000, 8_000_000)] {
        let limits = Limits { bytes, ..Limits::default() };
        let fix = Fixture::with(limits);
        let mut evicted = false;
        let mut last = 0;
        for round in 0..150_u32 {
            let recorded = fix.make(fix.write_change("f", &format!("{round}-").repeat(repeat))).unwrap();
            evicted |= recorded.notes.iter().any(|note| note.contains("no longer be undone"));
            last = recorded.number;
        }
        assert!(evicted);
        let size = |dir: &str| -> u64 {
            let Ok(dir) = std::fs::read_dir(fix.base.path().join(dir)) else { return 0 };
            let files = dir.map(|entry| entry.unwrap().metadata().unwrap()).filter(|meta| meta.is_file());
            files.map(|meta| meta.len()).sum()
        };
        let used = size("state") + size("state/blobs");
        assert!(used < bytes * 3 / 2, "{used} of {bytes}");
        assert!(matches!(fix.undo(1), Err(JournalError::Unknown(1, _))));
        let kept = fix.reopen_with(limits);
        let entries = kept.history(1000).unwrap();
        assert_eq!(entries[0].number, last);
        for entry in &entries {
            let before = kept.content(&fix.workspace, entry.number, Side::Before).unwrap();
            assert!(before.iter().all(|(_, content)| content.is_some()), "{} of {last}", entry.number);
        }
        fix.undo(last).unwrap();
        assert!(fix.text("f").unwrap().starts_with("148-"));
    }
}

#[test]
fn nothing_is_changed_when_the_journal_cannot_be_written() {
    let fix = Fixture::new();
    fix.put("f", "old");
    std::fs::remove_dir_all(fix.base.path().join("state")).unwrap();
    std::fs::write(fix.base.path().join("state"), "in the way").unwrap();
    assert!(matches!(fix.make(fix.write_change("f", "new")), Err(JournalError::Unusable(_))));
    assert_eq!(fix.text("f").unwrap(), "old");
    assert!(leftovers(&fix.on_disk("")).is_empty());
}

#[test]
fn threads_and_processes_get_numbers_of_their_own() {
    let fix = Fixture::new();
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let fix = &fix;
                scope.spawn(move || {
                    let journal = fix.reopen();
                    let write =
                        |round: u32| fix.write_change(&format!("{worker}-{}", round % 3), &round.to_string());
                    let make = |round| journal.change(&fix.workspace, write(round), FAST).unwrap().number;
                    (0..25).map(make).collect::<Vec<u64>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<u64>>());
    assert_eq!(fix.journal.history(1000).unwrap().len(), 100);
}

/// Small edits of a larger file are kept as what differs, and can be shown and undone all the same.
#[test]
fn what_differs_little_is_kept_as_what_differs() {
    use haft_journal::Content;
    let fix = Fixture::new();
    let mut text: Vec<u8> = (0..20_000).map(|n| b'a' + (n % 26) as u8).collect();
    fix.put("f", &text);
    let mut states = vec![text.clone()];
    for round in 0..60_usize {
        let before = bytes::Bytes::from(text.clone());
        let at = round * 300;
        let word = format!("<{round}>");
        let content = Content::spliced(&before, vec![(at..at + round % 5, word.into_bytes().into())]);
        text = content.whole().to_vec();
        let change = Change::Write {
            path: fix.place("f"),
            content,
            expect: Expect::Content(haft_sandbox::Hash::of(&before)),
            replaced: Some(haft_journal::Replaced {
                content: before,
                stamp: fix.workspace.stat(&fix.place("f")).unwrap().stamp,
                settled: false,
            }),
        };
        fix.make(change).unwrap();
        states.push(text.clone());
    }
    let size: u64 = std::fs::read_dir(fix.base.path().join("state"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 700_000, "{size} bytes for 60 small edits");
    let journal = fix.reopen();
    for number in 1..=60_u64 {
        let sides = [(Side::Before, number - 1), (Side::After, number)];
        for (side, state) in sides {
            let kept = journal.content(&fix.workspace, number, side).unwrap();
            assert_eq!(kept[0].1.as_deref(), Some(&states[state as usize][..]), "{number} {side:?}");
        }
    }
    for number in (1..=60_u64).rev() {
        journal.undo(&fix.workspace, &[number], FULL).unwrap();
        assert_eq!(std::fs::read(fix.on_disk("f")).unwrap(), states[number as usize - 1]);
    }
}

/// A long journal is read only as far as needed, with equal results.
#[test]
fn a_long_journal_is_the_same_however_much_of_it_is_read() {
    let limits = Limits { entries: 160, ..Limits::default() };
    let fix = Fixture::with(limits);
    for round in 0..130_u32 {
        fix.write(&format!("f{}", round % 7), &format!("text {round}"));
        if round % 10 == 9 {
            let undo =
                fix.undo(u64::from(round / 2)).or_else(|_| fix.undo(fix.journal.latest(1, None).unwrap()[0]));
            // Some undos are undone in turn.
            let number = undo.unwrap()[0].number;
            if round % 20 == 9 {
                fix.undo(number).unwrap();
            }
        }
    }
    let count = fix.journal.history(usize::MAX).unwrap().len();
    assert!(
        std::fs::read_dir(fix.base.path().join("state")).unwrap().count() > 5,
        "there are several segments"
    );
    let (whole, oldest) = (&fix.journal, fix.journal.history(usize::MAX).unwrap().last().unwrap().number);
    for limit in [1, 3, 30, count] {
        assert_eq!(fix.reopen_with(limits).history(limit).unwrap(), whole.history(limit).unwrap());
        assert_eq!(fix.reopen_with(limits).latest(limit, None).unwrap(), whole.latest(limit, None).unwrap());
        assert_eq!(fix.reopen_with(limits).undone(limit, None).unwrap(), whole.undone(limit, None).unwrap());
    }
    for number in [oldest, oldest + 50, oldest + 100] {
        let journal = fix.reopen_with(limits);
        assert_eq!(journal.entry(number).unwrap(), whole.entry(number).unwrap());
        for side in [Side::Before, Side::After] {
            let content =
                |journal: &haft_journal::Journal| journal.content(&fix.workspace, number, side).unwrap();
            assert_eq!(content(&fix.reopen_with(limits)), content(whole), "{side:?} {number}");
        }
    }
    assert!(matches!(fix.reopen_with(limits).entry(count as u64 + 99), Err(JournalError::Unknown(..))));
    // All that stands is undone and redone by processes that begin with the end of it.
    let texts = || (0..7).map(|n| fix.text(&format!("f{n}"))).collect::<Vec<_>>();
    let before = texts();
    let standing = whole.latest(usize::MAX, None).unwrap();
    let standing = &standing[..20];
    fix.reopen_with(limits).undo(&fix.workspace, standing, FAST).unwrap();
    let journal = fix.reopen_with(limits);
    let undone = journal.undone(20, None).unwrap();
    journal.redo(&fix.workspace, &undone, FAST).unwrap();
    let after = texts();
    assert_eq!(after, before);
}

/// Whether a change stands was once found out by recursion: undos of undos could end the program.
#[test]
fn undos_of_undos_can_be_told_however_deep() {
    let fix = Fixture::new();
    let mut last = fix.write("f", "x");
    for _ in 0..301 {
        last = fix.undo(last).unwrap()[0].number;
    }
    assert_eq!(fix.text("f"), None);
    assert_eq!(fix.journal.undone(9, None).unwrap(), [1]);
    let states: Vec<EntryState> =
        fix.reopen().history(3).unwrap().into_iter().map(|entry| entry.state).collect();
    assert_eq!(states, [EntryState::Done, EntryState::Undone(last), EntryState::Done]);
}
