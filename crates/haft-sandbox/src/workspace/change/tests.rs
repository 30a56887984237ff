//! Single changes, without a journal.

use std::os::unix::fs::symlink;

use super::*;
use crate::change::Hash;

struct Fixture {
    dir: tempfile::TempDir,
    workspace: Workspace,
    temp: TempName,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        let workspace = Workspace::open(&dir.path().join("ws")).unwrap();
        Self { dir, workspace, temp: TempName::new("1").unwrap() }
    }

    fn place(&self, name: &str) -> AbsPath {
        AbsPath::lexical(&self.workspace.root().as_path().join(name))
    }

    fn write(&self, name: &str, text: &str, expect: &Expect) -> std::result::Result<Changed, ChangeError> {
        self.workspace.write(&self.place(name), text.as_bytes(), expect, &self.temp, Durability::Full)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.workspace.root()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn only_names_of_the_pattern_are_temporary() {
    let name = TempName::new("12-ab").unwrap();
    assert_eq!(TempName::parse(name.as_str()), Some(name));
    for id in ["", "a/b", "..", "a\0", &"x".repeat(65)] {
        assert_eq!(TempName::new(id), None, "{id:?}");
    }
    assert_eq!(TempName::parse("notes.tmp"), None);
}

#[test]
fn a_write_happens_only_to_what_was_expected() {
    let fix = Fixture::new();
    fix.write("a/b/f", "one", &Expect::Missing).unwrap();
    fix.write("a/b/f", "two", &Expect::Missing).unwrap_err();
    fix.write("a/b/f", "two", &Expect::Content(Hash::of(b"other"))).unwrap_err();
    fix.write("a/b/f", "two", &Expect::Content(Hash::of(b"one"))).unwrap();
    assert_eq!(std::fs::read(fix.place("a/b/f")).unwrap(), b"two");
    assert_eq!(fix.names(), ["a"]);
}

#[test]
fn a_concurrent_change_is_kept() {
    let fix = Fixture::new();
    let place = fix.place("f");
    std::fs::write(&place, "seen").unwrap();
    let seen = fix.workspace.state(&place).unwrap();
    let mut draft = fix.workspace.draft(&place, seen.clone(), &fix.temp, Durability::Fast).unwrap();
    draft.file(&b"mine"[..], Like::Replaced).unwrap();
    std::fs::write(&place, "theirs").unwrap();
    assert!(matches!(draft.publish().unwrap_err().kind, ChangeErrorKind::Conflict(_)));
    let error = fix.workspace.remove(&place, &seen, &fix.temp, Durability::Fast).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Conflict(_)));
    let error = fix.workspace.rename(&place, &fix.place("n/g"), &seen, Durability::Fast).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Conflict(_)));
    assert_eq!(std::fs::read(&place).unwrap(), b"theirs");
    assert_eq!(fix.names(), ["f"], "no temporary file and no directory is left");
}

/// The change of a program that restores the modification time is not overwritten.
#[test]
fn a_restored_modification_time_does_not_hide_a_change() {
    let fix = Fixture::new();
    let place = fix.place("f");
    std::fs::write(&place, "seen").unwrap();
    let modified = std::fs::metadata(&place).unwrap().modified().unwrap();
    while fix.workspace.stat(&place).unwrap().stamp.is_fresh() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let publish = |meanwhile: &dyn Fn()| {
        let seen = fix.workspace.state(&place).unwrap();
        let stamp = fix.workspace.stat(&place).unwrap().stamp;
        let mut draft = fix.workspace.draft(&place, seen, &fix.temp, Durability::Fast).unwrap();
        draft.recognise(stamp);
        draft.file(&b"mine"[..], Like::Replaced).unwrap();
        meanwhile();
        draft.publish()
    };
    let theirs = || {
        let file = std::fs::OpenOptions::new().write(true).open(&place).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"them", 0).unwrap();
        file.set_modified(modified).unwrap();
    };
    assert!(matches!(publish(&theirs).unwrap_err().kind, ChangeErrorKind::Conflict(_)));
    assert_eq!(std::fs::read(&place).unwrap(), b"them");
    publish(&|| ()).unwrap();
    assert_eq!(std::fs::read(&place).unwrap(), b"mine");
    assert_eq!(fix.names(), ["f"]);
}

#[test]
fn a_draft_that_is_dropped_leaves_nothing() {
    let fix = Fixture::new();
    let mut draft =
        fix.workspace.draft(&fix.place("x/y/f"), State::Missing, &fix.temp, Durability::Fast).unwrap();
    draft.file(&b"mine"[..], Like::Replaced).unwrap();
    drop(draft);
    assert!(fix.names().is_empty());
    // A temporary file of another program is not removed.
    std::fs::write(fix.place(fix.temp.as_str()), "theirs").unwrap();
    fix.write("f", "mine", &Expect::Anything).unwrap_err();
    assert_eq!(fix.names(), [fix.temp.as_str()]);
}

#[test]
fn a_link_is_removed_and_not_what_it_leads_to() {
    let fix = Fixture::new();
    let outside = fix.dir.path().join("canary");
    std::fs::write(&outside, "canary").unwrap();
    symlink(&outside, fix.place("link")).unwrap();
    let state = fix.workspace.state(&fix.place("link")).unwrap();
    fix.workspace.set_mode(&fix.place("link"), &state, 0o777, Durability::Fast).unwrap_err();
    fix.workspace.remove(&fix.place("link"), &state, &fix.temp, Durability::Full).unwrap();
    assert!(fix.names().is_empty());
    assert_eq!(std::fs::read(&outside).unwrap(), b"canary");
}

/// Regression: a file that another program had put under the temporary name was removed.
#[test]
fn another_programs_file_under_a_temporary_name_stays() {
    let fix = Fixture::new();
    std::fs::write(fix.place("f"), "first").unwrap();
    let spot = fix.workspace.spot_to_empty(&fix.place("f")).unwrap();
    let aside = spot.set_aside(&fix.temp).unwrap();
    std::fs::write(fix.place("f"), "second").unwrap();
    let temp = fix.place(fix.temp.as_str());
    std::fs::write(fix.place("other"), "theirs").unwrap();
    std::fs::rename(fix.place("other"), &temp).unwrap();
    let error = spot.put_back(&fix.temp, &aside).unwrap_err();
    assert!(matches!(error, ChangeErrorKind::Conflict(_)), "{error:?}");
    assert_eq!(std::fs::read(&temp).unwrap(), b"theirs");
    assert_eq!(std::fs::read(fix.place("f")).unwrap(), b"second");
    std::fs::remove_file(&temp).unwrap();
    // A directory may hold more than the program knew that took its name.
    std::fs::create_dir(fix.place("d")).unwrap();
    std::fs::write(fix.place("d/in"), "kept").unwrap();
    let spot = fix.workspace.spot_to_empty(&fix.place("d")).unwrap();
    let aside = spot.set_aside(&fix.temp).unwrap();
    std::fs::create_dir(fix.place("d")).unwrap();
    let error = spot.put_back(&fix.temp, &aside).unwrap_err();
    let message = ChangeError::new("d", error).to_string();
    assert!(message.contains("stays as `.haft-1.tmp`"), "{message}");
    assert_eq!(std::fs::read(temp.as_path().join("in")).unwrap(), b"kept");
}

/// Regression: a refused removal was reported as `NotADirectory`.
#[test]
fn a_refused_removal_is_reported_as_denied() {
    let fix = Fixture::new();
    let file = fix.place(fix.temp.as_str());
    std::fs::write(&file, "x").unwrap();
    let change = |how: &str| {
        let mut chattr = std::process::Command::new("chattr");
        chattr.arg(how).arg(file.as_path()).output().is_ok_and(|output| output.status.success())
    };
    if !change("+i") {
        return haft_testing::missing(haft_testing::Need::ImmutableFiles, "`chattr +i` failed");
    }
    let error = fix.workspace.discard(&fix.place("f"), &fix.temp).unwrap_err();
    change("-i");
    assert!(matches!(error.kind, ChangeErrorKind::Denied(_)), "{error}");
}
