//! Two spellings of one file are one place.

use std::process::Command;

use super::*;
use crate::change::{Durability, Expect, State, TempName};

/// `café`, its accent composed and not.
const COMPOSED: &str = "caf\u{e9}";
const APART: &str = "cafe\u{301}";

fn put(at: &Fixture, text: &str, content: &str) {
    let place = at.resolve(text).unwrap();
    let temp = TempName::new("1").unwrap();
    let write = |expect| {
        at.workspace.write(&place.path, content.as_bytes(), expect, &temp, Durability::Fast).unwrap()
    };
    write(&Expect::Anything);
}

fn listed(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_name_is_found_however_its_accents_are_composed() {
    both_ways(|at| {
        for (there, asked) in [(COMPOSED, APART), (APART, COMPOSED)] {
            let folder = at.path(&format!("ws/{there}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(there), "old").unwrap();
            let canonical = folder.join(there);
            for text in [
                format!("{asked}/{asked}"),
                format!("{there}/{asked}"),
                format!("{asked}/../{asked}/{there}"),
            ] {
                for place in [at.resolve(&text), at.workspace.resolve_entry(at.workspace.root(), &text)] {
                    let place = place.unwrap();
                    assert_eq!(place.path.as_path(), canonical, "{text}");
                    assert!(place.stat.is_some());
                }
            }
            assert_eq!(at.read(&at.text(&format!("ws/{asked}/{asked}"))).unwrap(), "old");
            put(at, &format!("{asked}/{asked}"), "new");
            assert_eq!(listed(&folder), [there], "no twin was made");
            assert_eq!(at.read(&format!("{there}/{there}")).unwrap(), "new");
            // What is new keeps its own spelling, in the folder that is meant.
            let place = at.resolve(&format!("{asked}/new/{asked}")).unwrap();
            assert_eq!((place.path.as_path(), place.stat), (&*folder.join("new").join(asked), None));
            let place = at.workspace.resolve_entry(at.workspace.root(), &format!("{asked}/n\u{e9}")).unwrap();
            assert_eq!((place.path.as_path(), place.stat), (&*folder.join("n\u{e9}"), None));
            let state = at.workspace.state(&AbsPath::canonical(canonical)).unwrap();
            assert!(matches!(state, State::File { .. }));
            fs::remove_dir_all(&folder).unwrap();
        }
    });
}

#[test]
fn twins_are_told_apart_by_their_exact_names() {
    both_ways(|at| {
        for name in [COMPOSED, APART] {
            fs::write(at.path(&format!("ws/{name}")), name).unwrap();
        }
        assert_eq!(at.read(COMPOSED).unwrap(), COMPOSED);
        assert_eq!(at.read(APART).unwrap(), APART);
        // The sign of the unit is a third spelling of this letter: neither of the two is meant.
        for name in ["\u{c5}", "A\u{30a}"] {
            fs::write(at.path(&format!("ws/{name}")), name).unwrap();
        }
        let place = at.resolve("\u{212b}").unwrap();
        assert_eq!((place.path.as_path(), place.stat), (&*at.path("ws/\u{212b}"), None));
    });
}

#[test]
fn a_link_by_another_spelling_is_still_a_link() {
    both_ways(|at| {
        at.link(at.path("out"), &format!("ws/{APART}"));
        assert_refused!(at.refuses(&format!("{COMPOSED}/canary.txt")), PathErrorKind::Outside);
        assert_refused!(at.refuses(COMPOSED), PathErrorKind::Outside);
        let entry = at.workspace.resolve_entry(at.workspace.root(), COMPOSED).unwrap();
        assert_eq!(entry.path.as_path(), at.path(&format!("ws/{APART}")));
        assert_eq!(entry.stat.unwrap().kind, Kind::Symlink);
        // Names outside cannot be guessed by their spelling.
        fs::write(at.path(&format!("out/{APART}")), CANARY).unwrap();
        for name in [COMPOSED, "nothing-é"] {
            assert_refused!(at.refuses(&format!("../out/{name}")), PathErrorKind::Outside);
            assert_refused!(at.refuses(&format!("{COMPOSED}/{name}")), PathErrorKind::Outside);
        }
    });
}

#[test]
fn a_folder_of_the_workspace_is_found_by_either_spelling() {
    let at = Fixture::new();
    let folder = at.path(&format!("{APART}/ws"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("f"), "f").unwrap();
    let workspace = Workspace::open(&folder).unwrap();
    for text in [at.text(&format!("{COMPOSED}/ws/f")), at.text(&format!("{APART}/ws/f"))] {
        let place = workspace.resolve(workspace.root(), &text).unwrap();
        assert_eq!(place.path.as_path(), folder.join("f"));
    }
    let (_, place) = at
        .workspace
        .reaching(at.workspace.root(), &at.text(&format!("{COMPOSED}/ws/f")), Access::Read)
        .unwrap();
    assert_eq!(place.path.as_path(), folder.join("f"));
}

/// A file system to which upper and lower case are one, where this machine has one to offer.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let at = dir.path().join("at");
        fs::create_dir(&at).unwrap();
        let run = |program: &str, args: &[&OsStr]| match Command::new(program).args(args).output() {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim())),
            Err(error) => Err(format!("{program}: {error}")),
        };
        let word = OsStr::new;
        let tmpfs = || {
            run(
                "mount",
                &[word("-t"), word("tmpfs"), word("-o"), word("casefold"), word("none"), at.as_ref()],
            )
        };
        let on_image = |make: &str, options: &[&OsStr]| {
            let file = fs::File::create(&image).map_err(|error| error.to_string())?;
            file.set_len(16 << 20).map_err(|error| error.to_string())?;
            run(make, &[options, &[image.as_ref()]].concat())?;
            run("mount", &[word("-o"), word("loop"), image.as_ref(), at.as_ref()])
        };
        let ext4 = || on_image("mkfs.ext4", &[word("-q"), word("-O"), word("casefold")]);
        let why = match tmpfs().or_else(|one| ext4().map_err(|other| format!("{one}; {other}"))) {
            // There, folders say for themselves.
            Ok(()) => {
                let mounted = Self(dir);
                return run("chattr", &[word("+F"), mounted.ws().as_ref()]).map(|()| mounted);
            }
            Err(why) => why,
        };
        on_image("mkfs.vfat", &[]).map(|()| Self(dir)).map_err(|last| format!("{why}; {last}"))
    }

    fn ws(&self) -> PathBuf {
        let ws = self.0.path().join("at/Ws");
        fs::create_dir_all(&ws).unwrap();
        ws
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path().join("at")).status();
    }
}

#[test]
fn upper_and_lower_case_are_one_place_where_they_are_one_to_the_file_system() {
    let mounted = match Mounted::new() {
        Ok(mounted) => mounted,
        Err(why) => {
            #[allow(clippy::print_stderr)] // a test that was not run says so
            {
                eprintln!("skipped, no file system to try this on: {why}");
            }
            return;
        }
    };
    let ws = mounted.ws().canonicalize().unwrap();
    fs::create_dir(ws.join("Src")).unwrap();
    fs::write(ws.join("Src/Main.rs"), "main").unwrap();
    let whole = Workspace::open(&ws).unwrap();
    for workspace in [by_steps(&whole), whole] {
        for text in ["src/main.rs", "SRC/MAIN.RS", "Src/Main.rs", "src/../sRc/main.RS"] {
            for place in
                [workspace.resolve(workspace.root(), text), workspace.resolve_entry(workspace.root(), text)]
            {
                assert_eq!(place.unwrap().path.as_path(), ws.join("Src/Main.rs"), "{text}");
            }
        }
        let new = workspace.resolve(workspace.root(), "SRC/New.rs").unwrap();
        assert_eq!((new.path.as_path(), new.stat), (&*ws.join("Src/New.rs"), None));
        fs::create_dir_all(ws.join(".haft")).unwrap();
        let own = workspace.resolve(workspace.root(), ".HAFT").unwrap().path;
        assert_eq!(own.as_path(), ws.join(".haft"));
        workspace.require_writable(&own).unwrap_err();
    }
}
