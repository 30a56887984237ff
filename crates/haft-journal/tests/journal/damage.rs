//! Journals damaged by a crash, a disk or another program, and full disks.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use haft_journal::{EntryState, JournalError, Merged, Overwrite};
use haft_sandbox::{ChangeErrorKind, Expect, Store, Workspace};
use haft_testing::{Need, missing};

use crate::common::{FAST, FULL, Fixture, leftovers};

type Damage = fn(Vec<u8>) -> Vec<u8>;

fn segment(fix: &Fixture) -> PathBuf {
    fix.base.path().join("state/00000001.log")
}

/// The records alone, without the zeros that follow them.
fn records(fix: &Fixture) -> Vec<u8> {
    let mut log = std::fs::read(segment(fix)).unwrap();
    let word =
        |at: usize| log.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()) as usize);
    let mut end = 0;
    while log.get(end..end + 4) == Some(b"hj1\n") {
        end += 12 + word(end + 4).unwrap() + word(end + 8).unwrap() + 16;
    }
    log.truncate(end);
    log
}

#[test]
fn a_damaged_tail_is_cut_off_and_the_rest_works() {
    let damages: [(&str, Damage); 4] = [
        ("cut in the middle of the last record", |mut log| {
            log.truncate(log.len() - 9);
            log
        }),
        ("garbage", |log| [log, vec![0xa5; 1024]].concat()),
        ("zeros", |log| [log, vec![0; 4096]].concat()),
        ("a head that promises too much", |log| {
            [log, b"hj1\n\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()].concat()
        }),
    ];
    for (what, damage) in damages {
        let fix = Fixture::new();
        let first = fix.write("f", "one");
        let second = fix.write("f", "two");
        let log = records(&fix);
        std::fs::write(segment(&fix), damage(log)).unwrap();
        let journal = fix.reopen();
        let told = journal.take_notes().iter().any(|note| note.contains("damaged"));
        // Zeros are what follows the last record anyway.
        assert_eq!(told, what != "zeros", "{what}");
        assert_eq!(journal.history(9).unwrap().len(), 2, "{what}");
        journal.undo(&fix.workspace, &[first, second], FULL).unwrap();
        assert_eq!(fix.text("f"), None, "{what}");
        assert!(fix.reopen().take_notes().is_empty(), "{what}: the damage is gone");
    }
}

#[test]
fn cut_anywhere_the_journal_opens_and_goes_on() {
    let fix = Fixture::new();
    fix.put("f", "zero");
    fix.write("f", "one");
    fix.write("g", "two");
    let log = records(&fix);
    for length in (0..log.len()).step_by(7) {
        std::fs::write(segment(&fix), &log[..length]).unwrap();
        let journal = fix.reopen();
        let number =
            journal.change(&fix.workspace, fix.write_change("h", "x"), crate::common::FAST).unwrap().number;
        journal.undo(&fix.workspace, &[number], crate::common::FAST).unwrap();
        assert_eq!((fix.text("f").unwrap().as_str(), fix.text("g").unwrap().as_str()), ("one", "two"));
    }
}

/// The journal as it is right after the intent of the last change was written.
pub(crate) fn without_last_outcome(fix: &Fixture) {
    let log = records(fix);
    let last = log.windows(4).rposition(|window| window == b"hj1\n").unwrap();
    std::fs::write(segment(fix), &log[..last]).unwrap();
}

#[test]
fn a_change_that_never_happened_is_not_undone() {
    let fix = Fixture::new();
    fix.put("f", "old");
    let number = fix.write("f", "new");
    without_last_outcome(&fix);
    fix.put("f", "old");
    let journal = fix.reopen();
    assert_eq!(journal.history(1).unwrap()[0].state, EntryState::NotApplied);
    let error = journal.undo(&fix.workspace, &[number], FULL).unwrap_err();
    assert!(matches!(error, JournalError::NothingToDo { .. }) && error.to_string().contains("never applied"));
    assert_eq!(fix.text("f").unwrap(), "old");
}

#[test]
fn what_is_on_disk_decides_what_became_of_an_open_change() {
    let fix = Fixture::new();
    fix.put("f", "old");
    fix.write("f", "new");
    without_last_outcome(&fix);
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::Done);
    without_last_outcome(&fix);
    fix.put("f", "somebody else's");
    let journal = fix.reopen();
    assert_eq!(journal.history(1).unwrap()[0].state, EntryState::External);
    assert_eq!(fix.text("f").unwrap(), "somebody else's");
    assert!(!journal.take_notes().is_empty());
}

#[test]
fn half_a_group_is_taken_back_as_a_whole() {
    let fix = Fixture::new();
    fix.put("a", "a");
    fix.put("b", "b");
    fix.put("c", "c");
    let before = fix.snapshot();
    let group = vec![fix.write_change("a", "A"), fix.delete_change("b"), fix.write_change("c", "C")];
    fix.journal.change_all(&fix.workspace, group, FULL).unwrap();
    without_last_outcome(&fix);
    // As if it had been interrupted before its last step.
    let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    fix.put("c", "c");
    std::fs::File::options().write(true).open(fix.on_disk("c")).unwrap().set_times(times).unwrap();
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::NotApplied);
    let mut after = fix.snapshot();
    let c = std::path::Path::new("c");
    after.insert(c.to_owned(), before[c].clone());
    assert_eq!(after, before);
}

/// As if the process had died before large content was kept: right after the intent was written.
fn without_large_content(fix: &Fixture) {
    without_last_outcome(fix);
    std::fs::remove_dir_all(fix.base.path().join("state/blobs")).unwrap();
}

#[test]
fn a_change_that_changes_nothing_needs_no_old_content() {
    let large = "x".repeat(300_000);
    for label in [FAST, FULL] {
        let fix = Fixture::new();
        fix.put("f", &large);
        let before = fix.snapshot();
        let number = fix.journal.change(&fix.workspace, fix.write_change("f", &large), label).unwrap().number;
        without_large_content(&fix);
        let (journal, after) = (fix.reopen(), fix.snapshot());
        // Whether it happened is unknown, and makes no difference.
        assert_eq!(journal.history(1).unwrap()[0].state, EntryState::Done);
        journal.dry_run(&fix.workspace).undo(number, &Merged::new()).unwrap();
        journal.undo(&fix.workspace, &[number], label).unwrap();
        assert_eq!(fix.snapshot(), before);
        journal.redo(&fix.workspace, &[number], label).unwrap();
        assert_eq!(fix.snapshot(), after);
        // What the undoing keeps is found in place as well.
        journal.undo(&fix.workspace, &[number], label).unwrap();
        assert_eq!(fix.snapshot(), before);
        let later = journal.change(&fix.workspace, fix.write_change("f", "new"), label).unwrap().number;
        journal.undo(&fix.workspace, &[later], label).unwrap();
        assert_eq!(fix.snapshot(), before);
    }
}

#[test]
fn a_group_that_changes_nothing_in_one_place_is_taken_back_without_old_content() {
    let large = "x".repeat(300_000);
    let fix = Fixture::new();
    fix.put("f", &large);
    let before = fix.snapshot();
    let group = vec![fix.write_change("f", &large), fix.write_change("g", "new")];
    fix.journal.change_all(&fix.workspace, group, FULL).unwrap();
    without_large_content(&fix);
    std::fs::remove_file(fix.on_disk("g")).unwrap();
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::NotApplied);
    assert_eq!(fix.snapshot(), before);
}

#[test]
fn a_move_over_the_same_content_is_undone_and_redone() {
    let large = "x".repeat(300_000);
    let fix = Fixture::new();
    fix.put("f", &large);
    fix.put("g", &large);
    std::fs::set_permissions(fix.on_disk("f"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = fix.snapshot();
    let replace = Overwrite::Replace(Expect::Anything);
    let number = fix.make(fix.move_change("f", "g", replace)).unwrap().number;
    let after = fix.snapshot();
    for _ in 0..2 {
        fix.undo(number).unwrap();
        assert_eq!(fix.snapshot(), before);
        fix.redo(number).unwrap();
        assert_eq!(fix.snapshot(), after);
    }
}

#[test]
fn a_move_over_the_same_content_is_taken_back_without_old_content() {
    let large = "x".repeat(300_000);
    let fix = Fixture::new();
    fix.put("f", &large);
    fix.put("g", &large);
    let before = fix.snapshot();
    let replace = Overwrite::Replace(Expect::Anything);
    fix.make(fix.move_change("f", "g", replace)).unwrap();
    without_large_content(&fix);
    // As if it had been interrupted before its last step.
    std::fs::copy(fix.on_disk("g"), fix.on_disk("f")).unwrap();
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::NotApplied);
    let (f, g, after) = (Path::new("f"), Path::new("g"), fix.snapshot());
    assert!(after.contains_key(f));
    assert_eq!(after[g], before[g]);
}

/// The temporary name that the last record names.
fn last_temp(fix: &Fixture) -> String {
    let log = std::fs::read(segment(fix)).unwrap();
    let text = String::from_utf8_lossy(&log).into_owned();
    let start = text.rfind(".haft-").unwrap();
    let end = start + text[start..].find(".tmp").unwrap() + 4;
    text[start..end].to_owned()
}

#[test]
fn half_a_draft_is_never_taken_for_content() {
    // The file had that content already, or another program wrote the same.
    for old in ["new content", "old"] {
        let fix = Fixture::new();
        fix.put("f", old);
        fix.write("f", "new content");
        without_last_outcome(&fix);
        fix.put(&last_temp(&fix), "new c");
        assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::Done);
        assert_eq!(fix.text("f").unwrap(), "new content");
        assert!(leftovers(&fix.on_disk("")).is_empty());
    }
}

#[test]
fn content_that_was_taken_out_unseen_goes_back() {
    // Killed between the exchange and the comparison; the file was another program's.
    let fix = Fixture::new();
    fix.put("f", "old");
    fix.write("f", "new");
    without_last_outcome(&fix);
    fix.put(&last_temp(&fix), "theirs");
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::NotApplied);
    assert_eq!(fix.text("f").unwrap(), "theirs");
    let fix = Fixture::new();
    fix.put("g", "old");
    fix.make(fix.delete_change("g")).unwrap();
    without_last_outcome(&fix);
    fix.put(&last_temp(&fix), "theirs");
    assert_eq!(fix.reopen().history(1).unwrap()[0].state, EntryState::NotApplied);
    assert_eq!(fix.text("g").unwrap(), "theirs");
    assert!(leftovers(&fix.on_disk("")).is_empty());
}

/// A small file system of its own; the test is skipped where that is not allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output();
        let mounted = status.is_ok_and(|output| output.status.success());
        if !mounted {
            missing(Need::Mounts, "this user may not mount a file system");
        }
        mounted.then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let Some(disk) = SmallDisk::mount("size=64k") else { return };
    let fix = Fixture::new();
    let workspace = Workspace::open(disk.0.path()).unwrap();
    let path = workspace.resolve(workspace.root(), "f").unwrap().path;
    std::fs::write(&path, vec![b'o'; 40_000]).unwrap();
    let change = haft_journal::Change::Write {
        path: path.clone(),
        content: vec![b'n'; 200_000].into(),
        expect: haft_sandbox::Expect::Anything,
        replaced: None,
    };
    let JournalError::Change(error) = fix.journal.change(&workspace, change, FULL).unwrap_err() else {
        panic!("not the change");
    };
    assert!(matches!(error.kind, ChangeErrorKind::NoSpace), "{error}");
    assert!(error.to_string().contains("no space"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![b'o'; 40_000]);
    assert!(leftovers(disk.0.path()).is_empty());
    assert_eq!(fix.journal.history(1).unwrap()[0].state, EntryState::NotApplied);
}

#[test]
fn a_disk_that_became_read_only_refuses_clearly() {
    let Some(disk) = SmallDisk::mount("size=1m") else { return };
    let fix = Fixture::new();
    let workspace = Workspace::open(disk.0.path()).unwrap();
    let path = workspace.resolve(workspace.root(), "f").unwrap().path;
    let write = |content: &str| haft_journal::Change::Write {
        path: path.clone(),
        content: content.as_bytes().to_vec().into(),
        expect: haft_sandbox::Expect::Anything,
        replaced: None,
    };
    let number = fix.journal.change(&workspace, write("old"), FULL).unwrap().number;
    let mut remount = std::process::Command::new("mount");
    assert!(remount.args(["-o", "remount,ro"]).arg(disk.0.path()).status().unwrap().success());
    let errors = [
        fix.journal.change(&workspace, write("new"), FULL).unwrap_err(),
        fix.journal.undo(&workspace, &[number], FULL).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("EROFS"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_full_disk_under_the_journal_stops_the_change_before_it_happens() {
    let Some(disk) = SmallDisk::mount("size=64k") else { return };
    let fix = Fixture::new();
    let store = Store::at(disk.0.path().join("state"));
    let limits = haft_journal::Limits::default();
    let journal = haft_journal::Journal::open(store, &fix.workspace, limits).unwrap();
    fix.put("f", "old");
    let mut filler = std::fs::File::create(disk.0.path().join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    let error = journal.change(&fix.workspace, fix.write_change("f", &"n".repeat(20_000)), FULL).unwrap_err();
    assert!(matches!(error, JournalError::Unusable(_)), "{error}");
    assert_eq!(fix.text("f").unwrap(), "old");
    drop(filler);
    std::fs::remove_file(disk.0.path().join("filler")).unwrap();
    journal.change(&fix.workspace, fix.write_change("f", "new"), FULL).unwrap();
    assert_eq!(fix.text("f").unwrap(), "new");
}

#[test]
fn moves_between_file_systems_and_mounts_in_trees() {
    let Some(disk) = SmallDisk::mount("size=4m") else { return };
    let fix = Fixture::new();
    let workspace = fix.workspace.with_folder(disk.0.path(), haft_sandbox::FolderAccess::Write).unwrap();
    fix.put("t/a", "a");
    fix.put("t/sub/b", vec![1; 100_000]);
    std::os::unix::fs::symlink("a", fix.on_disk("t/link")).unwrap();
    fix.put("f", "file");
    let before = fix.snapshot();
    let there = |name: &str| {
        workspace.resolve(workspace.root(), disk.0.path().join(name).to_str().unwrap()).unwrap().path
    };
    let mut numbers = Vec::new();
    for name in ["t", "f"] {
        let change = haft_journal::Change::Move {
            from: fix.place(name),
            to: there(name),
            overwrite: haft_journal::Overwrite::Refuse,
        };
        numbers.push(fix.journal.change(&workspace, change, FULL).unwrap().number);
        assert!(!fix.on_disk(name).exists());
    }
    assert_eq!(std::fs::read(disk.0.path().join("t/sub/b")).unwrap(), vec![1; 100_000]);
    fix.journal.undo(&workspace, &numbers, FULL).unwrap();
    assert_eq!(fix.snapshot(), before);
    assert!(crate::common::snapshot(disk.0.path()).is_empty());
    fix.journal.redo(&workspace, &numbers, FULL).unwrap();
    assert_eq!(std::fs::read(disk.0.path().join("f")).unwrap(), b"file");

    std::fs::create_dir_all(fix.on_disk("tree/m")).unwrap();
    let mount =
        std::process::Command::new("mount").arg("--bind").arg(fix.out()).arg(fix.on_disk("tree/m")).status();
    if mount.is_ok_and(|status| status.success()) {
        let refused = [fix.make(fix.delete_change("tree")), fix.make(fix.delete_change("tree/m"))];
        let _ = std::process::Command::new("umount").arg("-l").arg(fix.on_disk("tree/m")).status();
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        assert_eq!(std::fs::read_to_string(fix.out().join("canary.txt")).unwrap(), "canary");
    } else {
        missing(Need::Mounts, "`mount --bind` failed");
    }
}

/// One bad byte once took all that followed with it, and the numbers were given again.
#[test]
fn damage_in_the_middle_does_not_take_what_follows_with_it() {
    let fix = Fixture::new();
    for number in 1..=5 {
        fix.write(&format!("f{number}"), &format!("text {number}"));
    }
    let mut log = records(&fix);
    let at = log.windows(6).position(|window| window == b"text 2").unwrap();
    log[at] ^= 1;
    std::fs::write(segment(&fix), log).unwrap();
    let journal = fix.reopen();
    assert!(journal.take_notes().iter().any(|note| note.contains("damaged")));
    let numbers: Vec<u64> = journal.history(9).unwrap().iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [5, 4, 3, 1]);
    journal.undo(&fix.workspace, &[5], FULL).unwrap();
    assert_eq!(fix.text("f5"), None);
    assert_eq!(journal.history(1).unwrap()[0].number, 6);
}
