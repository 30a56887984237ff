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
        .reaching(at.workspace.root(), &at.text(&format!("{COMPOSED}/ws/f")), FolderAccess::Read)
        .unwrap();
    assert_eq!(place.path.as_path(), folder.join("f"));
}

/// Names a folder on a file system to which upper and lower case are one, for those who have one at hand.
const AT_HAND: &str = "HAFT_TEST_FOLDING";

/// A file system to which upper and lower case are one, where this machine has one to offer.
struct Folding {
    dir: tempfile::TempDir,
    mounted: bool,
}

impl Folding {
    fn new() -> Result<Self, String> {
        if let Some(folder) = std::env::var_os(AT_HAND) {
            let dir = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
            return Ok(Self { dir, mounted: false });
        }
        let mut here = Self { dir: tempfile::tempdir().unwrap(), mounted: false };
        let (image, ws) = (here.dir.path().join("image"), here.ws());
        let (image, ws) = (image.as_path(), ws.as_path());
        let tmpfs = || run(Command::new("mount").args(["-t", "tmpfs", "-o", "casefold", "none"]).arg(ws));
        let on_image = |make: &mut Command| {
            let size = |file: fs::File| file.set_len(16 << 20);
            fs::File::create(image).and_then(size).map_err(|error| error.to_string())?;
            run(make.arg(image))?;
            run(Command::new("mount").args(["-o", "loop"]).args([image, ws]))
        };
        let ext4 = || on_image(Command::new("mkfs.ext4").args(["-q", "-O", "casefold"]));
        let vfat = || on_image(&mut Command::new("mkfs.vfat"));
        // Folders say for themselves on the first two.
        let says = || run(Command::new("chattr").arg("+F").arg(ws));
        let mut why = Vec::new();
        for mount in [&tmpfs as &dyn Fn() -> _, &ext4, &vfat] {
            match mount() {
                Ok(()) => {
                    here.mounted = true;
                    let _ = says();
                    return Ok(here);
                }
                Err(reason) => why.push(reason),
            }
        }
        Err(why.join("; "))
    }

    /// A new folder there.
    fn ws(&self) -> PathBuf {
        let ws = self.dir.path().join("Ws");
        fs::create_dir_all(&ws).unwrap();
        ws
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(self.ws()).status();
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("no reason").to_owned())
        }
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}

#[test]
fn upper_and_lower_case_are_one_place_where_they_are_one_to_the_file_system() {
    let folding = match Folding::new() {
        Ok(folding) => folding,
        Err(why) => return haft_testing::missing(haft_testing::Need::CaseFolding, why),
    };
    let ws = folding.ws().canonicalize().unwrap();
    fs::create_dir(ws.join("Src")).unwrap();
    fs::write(ws.join("Src/Main.rs"), "main").unwrap();
    fs::write(ws.join("Src/\u{c9}t\u{e9}"), "").unwrap();
    let has_links = symlink("Src/Main.rs", ws.join("Link")).is_ok();
    let whole = Workspace::open(&ws).unwrap();
    for workspace in [stepwise(&whole), whole] {
        let same = |text: &str, name: &str| {
            let root = workspace.root();
            for place in [workspace.resolve(root, text), workspace.resolve_entry(root, text)] {
                let place = place.unwrap();
                assert_eq!(place.path.as_path(), ws.join(name), "{text}");
                assert!(place.stat.is_some());
            }
        };
        // A second time, when something is known of this file system.
        for _ in 0..2 {
            for text in ["src/main.rs", "SRC/MAIN.RS", "Src/Main.rs", "src/../sRc/main.RS"] {
                same(text, "Src/Main.rs");
            }
            same("src", "Src");
            same(ws.join("SRC/main.rs").to_str().unwrap(), "Src/Main.rs");
            same("src/E\u{301}te\u{301}", "Src/\u{c9}t\u{e9}");
        }
        if has_links {
            let link = workspace.resolve_entry(workspace.root(), "lINK").unwrap().path;
            assert_eq!(link.as_path(), ws.join("Link"));
            let target = workspace.resolve(workspace.root(), "lINK").unwrap().path;
            assert_eq!(target.as_path(), ws.join("Src/Main.rs"));
        }
        let new = workspace.resolve(workspace.root(), "SRC/New.rs").unwrap();
        assert_eq!((new.path.as_path(), new.stat), (&*ws.join("Src/New.rs"), None));
        fs::create_dir_all(ws.join(".haft")).unwrap();
        let own = workspace.resolve(workspace.root(), ".HAFT").unwrap().path;
        assert_eq!(own.as_path(), ws.join(".haft"));
        workspace.require_writable(&own).unwrap_err();
        let guarded = workspace.guarding(&ws.join("SRC/main.rs"));
        let main = guarded.resolve(guarded.root(), "src/MAIN.rs").unwrap().path;
        guarded.require_writable(&main).unwrap_err();
    }
    // The workspace itself, by whatever case it is opened and asked for.
    let other = ws.with_file_name("wS");
    let workspace = Workspace::open(&other).unwrap_or_else(|_| Workspace::open(&ws).unwrap());
    assert_eq!(workspace.root().as_path(), ws);
    if other.exists() {
        let text = ws.with_file_name("WS").join("SRC/main.rs");
        let place = workspace.resolve(workspace.root(), text.to_str().unwrap()).unwrap();
        assert_eq!(place.path.as_path(), ws.join("Src/Main.rs"));
    }
}
