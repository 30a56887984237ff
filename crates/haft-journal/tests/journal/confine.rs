//! What a change must never touch.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_journal::{Change, Depth};
use haft_sandbox::{Expect, FolderAccess};
use rustix::fs::{CWD, RenameFlags};

use crate::common::{FAST, Fixture, leftovers, snapshot};

#[test]
fn a_link_on_the_way_is_never_followed() {
    let fix = Fixture::new();
    symlink(fix.out(), fix.on_disk("d")).unwrap();
    let before = snapshot(&fix.out());
    for name in ["d/new.txt", "d/sub/new.txt", "d/canary.txt"] {
        fix.make(fix.write_change(name, "x")).unwrap_err();
        fix.make(fix.delete_change(name)).unwrap_err();
    }
    assert_eq!(snapshot(&fix.out()), before);
}

#[test]
fn a_directory_swapped_for_a_link_at_full_speed_leads_nowhere() {
    let fix = Fixture::new();
    std::fs::create_dir(fix.on_disk("d")).unwrap();
    symlink(fix.out(), fix.on_disk("swap")).unwrap();
    let before = snapshot(&fix.out());
    let stop = AtomicBool::new(false);
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (fix.on_disk("d"), fix.on_disk("swap"));
                rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for round in 0..3000 {
            let change = match round % 4 {
                0..3 => fix.write_change("d/f.txt", &round.to_string()),
                _ => fix.delete_change("d/f.txt"),
            };
            match fix.make(change) {
                Ok(_) => done += 1,
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(snapshot(&fix.out()), before);
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused: nothing was tried");
    // The last change may have been cut off by a swap; the next use of the journal cleans up.
    let _ = fix.reopen();
    assert_eq!(leftovers(&fix.on_disk("")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_hard_link_outside_keeps_its_content() {
    let fix = Fixture::new();
    std::fs::hard_link(fix.out().join("canary.txt"), fix.on_disk("hl")).unwrap();
    let recorded = fix.make(fix.write_change("hl", "mine")).unwrap();
    assert!(recorded.notes.iter().any(|note| note.contains("hard link")), "{:?}", recorded.notes);
    assert_eq!(std::fs::read_to_string(fix.out().join("canary.txt")).unwrap(), "canary");
    fix.undo(recorded.number).unwrap();
    assert_eq!(fix.text("hl").unwrap(), "canary");
}

#[test]
fn the_workspace_and_what_contains_its_folders_cannot_be_removed() {
    let fix = Fixture::new();
    fix.put("sub/added/f", "x");
    let workspace = fix.workspace.with_folder(&fix.on_disk("sub/added"), FolderAccess::Write).unwrap();
    let workspace = workspace.with_folder(&fix.out(), FolderAccess::Read).unwrap();
    let before = fix.snapshot();
    for name in ["", ".", "sub", "sub/added", "..", "/", "sub/.."] {
        let path = fix.place(name);
        for depth in [Depth::Tree, Depth::Empty] {
            let change = Change::Delete { path: path.clone(), expect: Expect::Anything, depth };
            fix.journal.change(&workspace, change, FAST).unwrap_err();
        }
    }
    let canary =
        workspace.resolve(workspace.root(), fix.out().join("canary.txt").to_str().unwrap()).unwrap().path;
    let write = Change::Write {
        path: canary,
        content: b"x".to_vec().into(),
        expect: Expect::Anything,
        replaced: None,
    };
    let error = fix.journal.change(&workspace, write, FAST).unwrap_err();
    assert!(error.to_string().contains("reading only"), "{error}");
    assert_eq!(fix.snapshot(), before);
}

#[test]
fn somebody_elses_write_is_never_lost() {
    // Another program replaces the file again and again, several times in a row. Its latest version stays
    // until it replaces it itself, or until a change that expected just this version does.
    let fix = Fixture::new();
    fix.put("f", "theirs 0");
    let stop = AtomicBool::new(false);
    let (mut won, mut lost) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let burst: Vec<_> = (0..4).map(|part| fix.on_disk(&format!("theirs-{part}"))).collect();
                for path in &burst {
                    version += 1;
                    std::fs::write(path, format!("theirs {version}")).unwrap();
                }
                burst.iter().for_each(|path| std::fs::rename(path, fix.on_disk("f")).unwrap());
                // While a change finds out that it was late, something older may show for a moment.
                let latest = format!("theirs {version}");
                let stands = |text: String| text == latest || text.ends_with(&format!(" over {latest}"));
                let start = std::time::Instant::now();
                while !fix.text("f").is_some_and(stands) {
                    let found = fix.text("f");
                    let waited = start.elapsed();
                    assert!(waited < std::time::Duration::from_secs(5), "{latest} was lost: {found:?}");
                }
            }
        });
        for round in 0..3000 {
            let seen = fix.text("f").unwrap();
            let base = seen.split_once(" over ").map_or(seen.as_str(), |(_, base)| base);
            let change = Change::Write {
                path: fix.place("f"),
                content: format!("mine {round} over {base}").into_bytes().into(),
                expect: Expect::Content(haft_sandbox::Hash::of(seen.as_bytes())),
                replaced: None,
            };
            match fix.make(change) {
                Ok(_) => won += 1,
                Err(_) => lost += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(won > 0 && lost > 0, "{won} won, {lost} lost");
    assert!(leftovers(&fix.on_disk("")).is_empty());
}

/// A tree with a pipe or a socket in it was deleted, and came back without it.
#[test]
fn a_tree_with_what_cannot_be_brought_back_is_not_removed() {
    let fix = Fixture::new();
    fix.put("t/a", "a");
    fix.put("t/sub/z", "z");
    let socket = std::os::unix::net::UnixListener::bind(fix.on_disk("t/sub/sock")).unwrap();
    let names = |dir: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(fix.on_disk(dir)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let error = fix.make(fix.delete_change("t")).unwrap_err().to_string();
    assert_eq!(error, "`t/sub/sock` is a socket, which undo could not bring back; nothing was changed");
    assert_eq!(
        (names("t"), names("t/sub")),
        (vec!["a".into(), "sub".into()], vec!["sock".into(), "z".into()])
    );
    assert!(fix.journal.history(1).unwrap().is_empty(), "it was refused before it was begun");
    drop(socket);
    std::fs::remove_file(fix.on_disk("t/sub/sock")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(fix.on_disk("t/pipe")).status();
    assert!(pipe.unwrap().success());
    let error = fix.make(fix.delete_change("t")).unwrap_err().to_string();
    assert!(error.contains("`t/pipe` is a fifo"), "{error}");
    // Under another name it stays what it is.
    let number = fix.make(fix.move_change("t", "u", haft_journal::Overwrite::Refuse)).unwrap().number;
    assert_eq!(names("u"), ["a", "pipe", "sub"]);
    fix.undo(number).unwrap();
    assert_eq!(names("t"), ["a", "pipe", "sub"]);
}

/// Tools could not write to a `.haft`, but take it away with the folder around it.
#[test]
fn haft_s_own_folder_does_not_go_with_the_folder_around_it() {
    let fix = Fixture::new();
    fix.put("d/sub/.haft/config.toml", "mode = \"ask\"");
    fix.put("d/a", "a");
    let before = fix.snapshot();
    let refused = [
        fix.make(fix.delete_change("d")),
        fix.make(fix.delete_change("d/sub")),
        fix.make(fix.move_change("d", "e", haft_journal::Overwrite::Refuse)),
        fix.make(fix.move_change("d/sub", "n/e/w", haft_journal::Overwrite::Refuse)),
    ];
    for result in refused {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("`d/sub/.haft` is one of haft's own"), "{error}");
    }
    assert_eq!(fix.snapshot(), before);
    assert!(fix.journal.history(1).unwrap().is_empty(), "nothing was begun");
    // Nor when a move is taken back.
    std::fs::rename(fix.on_disk("d/sub/.haft"), fix.on_disk("kept")).unwrap();
    let number = fix.make(fix.move_change("d", "e", haft_journal::Overwrite::Refuse)).unwrap().number;
    std::fs::rename(fix.on_disk("kept"), fix.on_disk("e/sub/.haft")).unwrap();
    assert!(fix.undo(number).unwrap_err().to_string().contains("`e/sub/.haft`"));
    assert!(fix.on_disk("e/sub/.haft/config.toml").exists());
}
