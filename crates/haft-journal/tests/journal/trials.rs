//! Trials that are committed through the journal. The test itself fills the upper layer, as a command in a view would.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use haft_journal::{Command, EntryState, Journal, Limits, Recorded};
use haft_sandbox::sandbox::recorder::{self, IsBuildFolder};
use haft_sandbox::sandbox::trial::{Options, Trial};
use haft_sandbox::{Store, Workspace};
use haft_testing::{Need, require};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::{FULL, leftovers};
use crate::recorded::{Rig, differences, tree};

fn is_build() -> IsBuildFolder {
    Arc::new(recorder::is_build_folder)
}

fn open(base: &Path) -> (Workspace, Journal) {
    let workspace = Workspace::open(&base.join("ws")).unwrap();
    let journal = Journal::open(Store::at(base.join("state")), &workspace, Limits::default()).unwrap();
    (workspace, journal)
}

fn usual() -> Rig {
    let rig = Rig::new();
    for (name, content) in
        [("a", "one\n"), ("b", "two\n"), ("d/x", "in d\n"), ("d/e/y", "deep\n"), ("m", "mode")]
    {
        rig.write(name, content);
    }
    fs::write(rig.ws().join("large"), vec![7; 400_000]).unwrap();
    // What changes at the moment a trial begins counts as changed by another program.
    std::thread::sleep(std::time::Duration::from_millis(10));
    rig
}

/// What a command would have done: a file changed, one deleted, a directory deleted, one made, a mode changed, and a large
/// file replaced.
fn fill(upper: &Path) {
    let write = |name: &str, content: &[u8]| {
        let path = upper.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("a", b"one and more\n");
    for gone in ["b", "d"] {
        mknodat(CWD, upper.join(gone), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }
    write("n/f", b"new\n");
    write("n/g/h", b"newer\n");
    write("m", b"mode");
    fs::set_permissions(upper.join("m"), fs::Permissions::from_mode(0o700)).unwrap();
    write("large", &[8; 300_000]);
}

fn commit(base: &Path, workspace: &Workspace, journal: &Journal) -> Recorded {
    let root = base.canonicalize().unwrap().join("ws");
    let options = Options {
        roots: vec![root.clone()],
        dir: root,
        store: journal.new_recording(),
        is_build_folder: is_build(),
        guarded: Vec::new(),
    };
    let trial = Trial::new(&options).unwrap();
    fill(&options.store.join("upper-0"));
    let listing = trial.list().unwrap();
    let all: Vec<usize> = (0..listing.changes.len()).collect();
    println!("listed");
    let committed = trial.commit(&listing, &all, FULL.durability).unwrap();
    let id = committed.store().file_name().unwrap().to_str().unwrap().to_owned();
    let command = Command { recording: &id, text: "a command" };
    journal.adopt(workspace, command, &committed.effects, FULL).unwrap().unwrap()
}

fn require_clean(base: &Path) {
    haft_sandbox::sandbox::settle(std::time::Duration::from_secs(10));
    let left: Vec<_> = fs::read_dir(base.join("state/recordings")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(leftovers(&base.join("ws")).is_empty());
}

#[test]
fn a_committed_trial_is_undone_and_redone_like_any_change() {
    let rig = usual();
    let base = rig.folder.path();
    let (workspace, journal) = open(base);
    let before = tree(&rig.ws());
    let recorded = commit(base, &workspace, &journal);
    let after = tree(&rig.ws());
    assert_eq!(fs::read_to_string(rig.ws().join("n/g/h")).unwrap(), "newer\n");
    assert!(!rig.ws().join("d").exists() && !rig.ws().join("b").exists());
    require_clean(base);
    journal.undo(&workspace, &[recorded.number], FULL).unwrap();
    assert_eq!(differences(&before, &tree(&rig.ws())), Vec::<String>::new());
    journal.redo(&workspace, &[recorded.number], FULL).unwrap();
    assert_eq!(differences(&after, &tree(&rig.ws())), Vec::<String>::new());
}

const BASE: &str = "HAFT_TEST_TRIAL_BASE";

/// What the process does that is killed at each system call in turn.
fn commit_undo(base: &Path) {
    let (workspace, journal) = open(base);
    let recorded = commit(base, &workspace, &journal);
    println!("committed");
    journal.undo(&workspace, &[recorded.number], FULL).unwrap();
    println!("finished");
}

#[test]
fn killed_at_each_call_a_trial_is_committed_once_and_whole_or_not_at_all() {
    const NAME: &str = "trials::killed_at_each_call_a_trial_is_committed_once_and_whole_or_not_at_all";
    if let Some(base) = std::env::var_os(BASE) {
        return commit_undo(Path::new(&base));
    }
    if !require(Need::Strace) {
        return;
    }
    let each = std::env::var_os("HAFT_TEST_EACH_CALL").is_some();
    let after = {
        let rig = usual();
        let (workspace, journal) = open(rig.folder.path());
        commit(rig.folder.path(), &workspace, &journal);
        relative(&rig)
    };
    let mut seen = [0; 3];
    for (call, step) in [
        ("renameat2", 1),
        ("rename", 1),
        ("unlinkat", 2),
        ("unlink", 1),
        ("pwrite64", 4),
        ("write", 3),
        ("fdatasync", 1),
        ("fsync", 1),
        ("syncfs", 1),
    ] {
        for when in (1..300).step_by(if each { 1 } else { step }) {
            let rig = usual();
            let before = relative(&rig);
            let base = rig.folder.path();
            let inject = format!("inject={call}:signal=KILL:when={when}");
            let output = std::process::Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture", "-q"])
                .env(BASE, base)
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let context = format!("{inject}: {output}");
            let (workspace, journal) = open(base);
            journal.adopt_interrupted(&workspace, &is_build(), FULL).unwrap();
            let entries = journal.history(20).unwrap();
            let entries: Vec<_> = entries.iter().filter(|entry| entry.command.is_some()).collect();
            assert!(entries.len() <= 1, "{context}");
            let (expected, which) = match entries.first().map(|entry| entry.state) {
                None => (&before, 0),
                Some(EntryState::Done) => (&after, 1),
                Some(EntryState::Undone(_)) => (&before, 2),
                Some(state) => panic!("{context}: {state:?}"),
            };
            assert_eq!(differences(expected, &relative(&rig)), Vec::<String>::new(), "{context}");
            require_clean(base);
            seen[which] += 1;
            if let (1, Some(entry)) = (which, entries.first()) {
                journal.undo(&workspace, &[entry.number], FULL).unwrap();
                assert_eq!(differences(&before, &relative(&rig)), Vec::<String>::new(), "{context}");
            }
            if output.contains("finished") {
                break;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}

/// The tree of a workspace, without the name of its temporary folder.
fn relative(rig: &Rig) -> crate::recorded::Tree {
    let root = rig.ws();
    tree(&root).into_iter().map(|(path, text)| (path.strip_prefix(&root).unwrap().to_owned(), text)).collect()
}
