//! Every case runs twice: with the kernel's own confined lookup, and with the one that goes step by step.

macro_rules! assert_refused {
    ($refusal:expr, $kind:pat) => {{
        let refusal = $refusal;
        assert!(matches!(refusal, $kind), "{refusal:?}");
    }};
}

mod escape;
mod guard;
mod spelling;

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags};

use super::resolve::expand_home;
use super::*;

/// A workspace `ws` with neighbours that must stay out of reach.
struct Fixture {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

const CANARY: &str = "the canary must not be seen";

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["ws/sub/deep", "ws-evil", "out"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("ws/file.txt"), "inside").unwrap();
        fs::write(dir.path().join("ws/sub/deep/leaf.txt"), "leaf").unwrap();
        fs::write(dir.path().join("ws-evil/canary.txt"), CANARY).unwrap();
        fs::write(dir.path().join("out/canary.txt"), CANARY).unwrap();
        let workspace = Workspace::open(&dir.path().join("ws")).unwrap();
        Self { dir, workspace }
    }

    fn stepwise(mut self) -> Self {
        self.workspace = stepwise(&self.workspace);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    fn resolve(&self, text: &str) -> Result<ResolvedPath, PathError> {
        self.workspace.resolve(self.workspace.root(), text)
    }

    fn read(&self, text: &str) -> Result<String, PathError> {
        let place = self.resolve(text)?;
        self.read_place(&place.path)
    }

    fn read_place(&self, path: &AbsPath) -> Result<String, PathError> {
        let mut file = self.workspace.open_file(path)?.file;
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        Ok(content)
    }

    #[track_caller]
    fn refuses(&self, text: &str) -> PathErrorKind {
        let error = self.read(text).expect_err(text);
        assert!(text.starts_with(error.path.trim_end_matches('…')));
        assert!(!error.to_string().contains(CANARY));
        error.kind
    }
}

fn stepwise(workspace: &Workspace) -> Workspace {
    let mut inside = Inside::clone(&workspace.0);
    for folder in &mut inside.folders {
        folder.handle = Arc::new(Beneath::open(folder.path.as_path()).unwrap().stepwise());
    }
    Workspace(Arc::new(inside))
}

fn both_ways(case: impl Fn(&Fixture)) {
    case(&Fixture::new());
    case(&Fixture::new().stepwise());
}

#[test]
fn reads_by_relative_and_absolute_spellings() {
    both_ways(|at| {
        for text in ["file.txt", "./file.txt", "sub/../file.txt", "sub/deep/../../file.txt"] {
            assert_eq!(at.read(text).unwrap(), "inside", "{text}");
        }
        assert_eq!(at.read(&at.text("ws/file.txt")).unwrap(), "inside");
        assert_eq!(at.read(&at.text("ws/../ws/file.txt")).unwrap(), "inside");
        assert_eq!(at.read("../ws/file.txt").unwrap(), "inside");
        let sub = at.resolve("sub/").unwrap().path;
        let leaf = at.workspace.resolve(&sub, "deep/leaf.txt").unwrap();
        assert_eq!(leaf.path.as_path(), at.path("ws/sub/deep/leaf.txt"));
        assert_eq!(at.workspace.display(&leaf.path), "sub/deep/leaf.txt");
        assert_eq!(at.workspace.display(at.workspace.root()), ".");
    });
}

#[test]
fn a_neighbour_with_the_same_prefix_is_outside() {
    both_ways(|at| {
        assert_refused!(at.refuses(&at.text("ws-evil/canary.txt")), PathErrorKind::Outside);
        assert_refused!(at.refuses("../ws-evil/canary.txt"), PathErrorKind::Outside);
        assert_refused!(at.refuses("../ws-evil/new.txt"), PathErrorKind::Outside);
    });
}

#[test]
fn links_that_lead_out_are_refused() {
    both_ways(|at| {
        at.link(at.path("out/canary.txt"), "ws/absolute");
        at.link("../out/canary.txt", "ws/relative");
        at.link("../out/not-yet", "ws/dangling");
        at.link(at.path("out"), "ws/d");
        for text in ["absolute", "relative", "dangling", "d", "d/canary.txt", "d/new.txt"] {
            assert_refused!(at.refuses(text), PathErrorKind::Outside);
        }
        assert_refused!(at.refuses("d/sub/new.txt"), PathErrorKind::Outside);
        assert_refused!(at.refuses("sub/../d/new.txt"), PathErrorKind::Outside);
    });
}

#[test]
fn nothing_can_be_learned_about_what_lies_outside() {
    both_ways(|at| {
        at.link(at.path("out"), "ws/d");
        let answers = ["d/canary.txt", "d/missing", "d/canary.txt/x", "d/missing/../x"]
            .map(|text| at.resolve(text).unwrap_err().kind);
        for answer in answers {
            assert_refused!(answer, PathErrorKind::Outside);
        }
    });
}

#[test]
fn links_that_stay_inside_are_followed() {
    both_ways(|at| {
        at.link("file.txt", "ws/l");
        at.link(at.path("ws/sub"), "ws/absolute");
        at.link("../sub/deep", "ws/sub/up");
        assert_eq!(at.read("l").unwrap(), "inside");
        assert_eq!(at.resolve("l").unwrap().path.as_path(), at.path("ws/file.txt"));
        assert_eq!(at.read("absolute/deep/leaf.txt").unwrap(), "leaf");
        // After a link, `..` is the parent of where it leads.
        assert_eq!(at.read("sub/up/../deep/leaf.txt").unwrap(), "leaf");
        at.link("sub/new.txt", "ws/dangling");
        let place = at.resolve("dangling").unwrap();
        assert_eq!((place.path.as_path(), place.stat), (&*at.path("ws/sub/new.txt"), None));
    });
}

#[test]
fn links_in_a_circle_end() {
    both_ways(|at| {
        at.link("b", "ws/a");
        at.link("a", "ws/b");
        assert_refused!(at.refuses("a"), PathErrorKind::Loop);
        assert_refused!(at.refuses("a/x"), PathErrorKind::Loop);
    });
}

#[test]
fn places_that_do_not_exist_have_a_canonical_name() {
    both_ways(|at| {
        at.link("sub", "ws/l");
        let place = at.resolve("l/./new/er.txt").unwrap();
        assert_eq!((place.path.as_path(), place.stat), (&*at.path("ws/sub/new/er.txt"), None));
        assert_refused!(at.refuses("new/../file.txt"), PathErrorKind::NotFound);
        assert_refused!(at.refuses("missing.txt"), PathErrorKind::NotFound);
    });
}

#[test]
fn a_file_is_not_a_directory() {
    both_ways(|at| {
        for text in ["file.txt/x", "file.txt/", "file.txt/.", "file.txt/.."] {
            assert_refused!(at.refuses(text), PathErrorKind::NotADirectory);
        }
        let file = at.resolve("file.txt").unwrap().path;
        assert_refused!(at.workspace.list(&file).unwrap_err().kind, PathErrorKind::NotADirectory);
        assert_refused!(at.refuses("sub"), PathErrorKind::NotAFile(Kind::Directory));
        let inside = at.resolve("sub").unwrap().path.child(OsStr::new("../file.txt/x"));
        assert_refused!(at.workspace.stat(&inside).unwrap_err().kind, PathErrorKind::NotADirectory);
    });
}

#[test]
fn the_root_itself_has_many_names_and_nothing_above_it_has_one() {
    both_ways(|at| {
        for text in [".", "./", "sub/..", "./sub/..", &at.text("ws"), &at.text("ws/")] {
            assert_eq!(&at.resolve(text).unwrap().path, at.workspace.root(), "{text}");
        }
        assert_refused!(at.refuses(""), PathErrorKind::Empty);
        for text in ["..", "/", "../..", "/..", "sub/../.."] {
            assert_refused!(at.refuses(text), PathErrorKind::Outside);
        }
    });
}

#[test]
fn doors_in_proc_stay_shut() {
    both_ways(|at| {
        let canary = at.text("out/canary.txt");
        let own = std::process::id();
        for text in [
            format!("/proc/self/root{canary}"),
            format!("/proc/self/cwd/..{canary}"),
            format!("/proc/1/root{canary}"),
            format!("/proc/{own}/environ"),
            "/dev/stdin".to_owned(),
        ] {
            assert_refused!(at.refuses(&text), PathErrorKind::Outside);
        }
        at.link("/proc/self/root", "ws/door");
        assert_refused!(at.refuses(&format!("door{canary}")), PathErrorKind::Outside);
        // Even one that leads back inside.
        assert_refused!(at.refuses(&format!("door{}", at.text("ws/file.txt"))), PathErrorKind::Outside);
    });
}

#[test]
fn a_nul_byte_is_refused_and_not_a_cut() {
    both_ways(|at| {
        assert_refused!(at.refuses("file.txt\0.sh"), PathErrorKind::NulByte);
        let error = at.resolve("a\0b").unwrap_err();
        assert_eq!(error.to_string(), "`a\\0b` contains a NUL byte");
    });
}

#[test]
fn long_paths_are_refused() {
    both_ways(|at| {
        let name = "n".repeat(256);
        let long = format!("{}f", "a/".repeat(3000));
        let slashes = format!("{}file.txt", "./".repeat(2048));
        for text in [&name, &format!("new/{name}"), &long, &slashes, &"p".repeat(4097)] {
            assert_refused!(at.refuses(text), PathErrorKind::TooLong);
        }
        assert!(at.resolve(&long).unwrap_err().to_string().len() < 500);
        assert!(at.resolve(&"n".repeat(255)).unwrap().stat.is_none());
    });
}

#[test]
fn every_spelling_of_a_linked_root_works() {
    both_ways(|at| {
        at.link(at.path("ws"), "project");
        at.link(at.path("ws"), "other");
        let mut workspace = Workspace::open(&at.path("project")).unwrap();
        if at.workspace.0.folders[0].handle.stat_without_links(Path::new("")).is_none() {
            workspace = stepwise(&workspace);
        }
        let texts = ["file.txt".into(), at.text("project/file.txt"), at.text("ws/file.txt")];
        for text in texts.iter().chain([&at.text("other/file.txt")]) {
            let place = workspace.resolve(workspace.root(), text).unwrap();
            assert_eq!(place.path.as_path(), at.path("ws/file.txt"));
            assert_eq!(workspace.display(&place.path), "file.txt");
        }
    });
}

#[test]
fn the_root_of_the_file_system_is_no_workspace() {
    assert_refused!(Workspace::open(Path::new("/")).unwrap_err().kind, PathErrorKind::RootRefused);
    assert_refused!(Workspace::open(Path::new("/usr/..")).unwrap_err().kind, PathErrorKind::RootRefused);
    assert_refused!(Workspace::open(Path::new("")).unwrap_err().kind, PathErrorKind::Empty);
    let at = Fixture::new();
    let open = |name| Workspace::open(&at.path(name)).unwrap_err().kind;
    assert_refused!(open("ws/file.txt"), PathErrorKind::NotADirectory);
    assert_refused!(open("missing"), PathErrorKind::NotFound);
}

#[test]
fn special_files_are_refused_and_never_waited_on() {
    both_ways(|at| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, at.path("ws/p"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at.path("ws/s")).unwrap();
        assert_refused!(at.refuses("p"), PathErrorKind::NotAFile(Kind::Special("fifo")));
        assert_refused!(at.refuses("s"), PathErrorKind::NotAFile(Kind::Special("socket")));
        assert_eq!(at.read("p").unwrap_err().to_string(), "`p` is a fifo, not a regular file");
    });
}

#[test]
fn devices_and_kernel_files_are_refused_even_in_a_folder_of_the_workspace() {
    both_ways(|at| {
        let steps = at.workspace.0.folders[0].handle.stat_without_links(Path::new("")).is_none();
        let add = |dir: &str| at.workspace.with_folder(Path::new(dir), FolderAccess::Read).unwrap();
        let open = |workspace: Workspace, text: &str| {
            let workspace = if steps { stepwise(&workspace) } else { workspace };
            let place = workspace.resolve(workspace.root(), text).unwrap();
            workspace.open_file(&place.path).unwrap_err().kind
        };
        for text in ["/dev/zero", "/dev/random", "/dev/tty"] {
            assert_refused!(
                open(add("/dev"), text),
                PathErrorKind::NotAFile(Kind::Special("character device"))
            );
        }
        for text in ["/proc/kmsg", "/proc/version", &format!("/proc/{}/environ", std::process::id())] {
            assert_refused!(open(add("/proc"), text), PathErrorKind::NotAFile(Kind::Special("kernel file")));
        }
    });
}

#[test]
fn what_the_user_may_not_read_is_denied_by_name() {
    without_root(|| {
        both_ways(|at| {
            fs::set_permissions(at.path("ws/file.txt"), fs::Permissions::from_mode(0o000)).unwrap();
            fs::set_permissions(at.path("ws/sub"), fs::Permissions::from_mode(0o000)).unwrap();
            let denied = [at.read("file.txt").unwrap_err(), at.read("sub/deep/leaf.txt").unwrap_err()];
            let listed = at.workspace.list(at.workspace.root()).unwrap().len();
            fs::set_permissions(at.path("ws/sub"), fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(listed, 2);
            assert_eq!(denied[0].to_string(), "no permission to use `file.txt`");
            assert_eq!(denied[1].to_string(), "no permission to use `sub/deep/leaf.txt`");
        })
    });
}

/// Runs a test as a user who may not read everything: root gives up its rights in a thread that ends with the test.
fn without_root(test: fn()) {
    let run = move || {
        if rustix::process::getuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        test();
    };
    std::thread::spawn(run).join().unwrap();
}

#[test]
fn odd_names_are_listed_and_found_again() {
    both_ways(|at| {
        let names: [&[u8]; 8] =
            [b"a\nb", b"\x1b[2J", b"-rf", b"--pre=x", b"\xff\xfe", b" lead", b"trail ", b"\\xfe"];
        fs::create_dir(at.path("ws/odd")).unwrap();
        for name in names {
            fs::write(at.path("ws/odd").join(OsStr::from_bytes(name)), name).unwrap();
        }
        let odd = at.resolve("odd").unwrap().path;
        let entries = at.workspace.list(&odd).unwrap();
        assert_eq!(entries.len(), names.len());
        for entry in entries {
            let path = odd.child(&entry.name);
            let found = at.resolve(&at.workspace.display(&path)).unwrap();
            assert_eq!(found, ResolvedPath { path, stat: Some(entry.stat) });
            let mut content = Vec::new();
            let mut file = at.workspace.open_file(&found.path).unwrap().file;
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content, entry.name.as_bytes());
        }
    });
}

#[test]
fn a_listing_does_not_follow_links() {
    both_ways(|at| {
        at.link(at.path("out"), "ws/sub/d");
        let sub = at.resolve("sub").unwrap().path;
        let mut kinds: Vec<_> =
            at.workspace.list(&sub).unwrap().into_iter().map(|entry| (entry.name, entry.stat.kind)).collect();
        kinds.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(kinds, [("d".into(), Kind::Symlink), ("deep".into(), Kind::Directory)]);
        let link = sub.child(OsStr::new("d"));
        assert_eq!(at.workspace.stat(&link).unwrap().kind, Kind::Symlink);
        assert!(at.workspace.list(&link).is_err());
        assert!(at.workspace.names(&link).is_err());
        let names = at.workspace.names(&sub).unwrap();
        assert_eq!(names.len(), kinds.len());
        assert!(names.into_iter().all(|name| kinds.contains(&(name.name, name.kind))));
        let canary = link.child(OsStr::new("canary.txt"));
        assert!(at.workspace.stat(&canary).is_err());
        assert!(at.workspace.open_file(&canary).is_err());
    });
}

#[test]
fn a_made_up_path_is_refused() {
    both_ways(|at| {
        let canary = AbsPath::canonical(at.path("out/canary.txt"));
        assert_refused!(at.workspace.open_file(&canary).unwrap_err().kind, PathErrorKind::Outside);
        let dotted = AbsPath::canonical(at.path("ws/../out/canary.txt"));
        assert!(at.workspace.open_file(&dotted).is_err());
        assert!(at.workspace.list(&AbsPath::canonical(at.path("ws/.."))).is_err());
    });
}

#[test]
fn the_focus_narrows_all_but_folders_for_reading() {
    both_ways(|at| {
        let all = at.workspace.with_folder(&at.path("out"), FolderAccess::Read).unwrap();
        let all = all.with_folder(&at.path("ws-evil"), FolderAccess::Write).unwrap();
        let narrow = all.with_focus("sub").unwrap();
        let resolve = |text: &str| narrow.resolve(narrow.root(), text);
        assert_eq!(narrow.focus().unwrap().as_path(), at.path("ws/sub"));
        assert!(resolve("sub/deep/leaf.txt").unwrap().stat.is_some());
        assert!(resolve(&at.text("out/canary.txt")).unwrap().stat.is_some());
        let refused = resolve("file.txt").unwrap_err();
        assert_eq!(refused.to_string(), "`file.txt` is outside the focus `sub`");
        assert_refused!(
            resolve(&at.text("ws-evil/canary.txt")).unwrap_err().kind,
            PathErrorKind::OutsideFocus(_)
        );
        let file = all.resolve(all.root(), "file.txt").unwrap().path;
        assert_refused!(narrow.open_file(&file).unwrap_err().kind, PathErrorKind::OutsideFocus(_));
        assert!(narrow.without_focus().open_file(&file).is_ok());
        assert!(narrow.with_focus(".").is_err());
        assert!(narrow.with_focus(&at.text("ws/sub/deep")).is_ok());
        assert_refused!(all.with_focus("file.txt").unwrap_err().kind, PathErrorKind::NotADirectory);
        assert_refused!(all.with_focus("none").unwrap_err().kind, PathErrorKind::NotFound);
    });
}

#[test]
fn access_is_that_of_the_innermost_folder() {
    let at = Fixture::new();
    let workspace = at.workspace.with_folder(&at.path("ws/sub"), FolderAccess::Read).unwrap();
    let access = |name| workspace.access(&AbsPath::canonical(at.path(name)));
    assert_eq!(access("ws/file.txt"), Some(FolderAccess::Write));
    assert_eq!(access("ws/sub/deep"), Some(FolderAccess::Read));
    assert_eq!(access("out"), None);
    assert_eq!(workspace.folders().len(), 2);
}

#[test]
fn a_stamp_tells_a_change() {
    both_ways(|at| {
        let file = at.resolve("file.txt").unwrap();
        let stat = at.workspace.stat(&file.path).unwrap();
        assert_eq!(file.stat, Some(stat));
        assert_eq!(at.workspace.open_file(&file.path).unwrap().stat, stat);
        fs::write(at.path("ws/file.txt"), "inside, changed").unwrap();
        let changed = at.workspace.stat(&file.path).unwrap().stamp;
        assert_ne!(changed, stat.stamp);
        assert!(changed.same_file(&stat.stamp));
    });
}

#[test]
fn home_is_spelled_with_a_tilde() {
    let at = Fixture::new();
    let home = std::env::home_dir().unwrap();
    assert_eq!(expand_home(Path::new("~/a")), Some(home.join("a")));
    assert_eq!(expand_home(Path::new("~a/b")), None);
    assert_eq!(expand_home(Path::new("a/~/b")), None);
    assert_refused!(at.refuses("~/.profile"), PathErrorKind::Outside);
}

/// Another thread swaps a directory for a link that leads out, as fast as it can.
#[test]
fn a_link_swapped_in_never_leads_out() {
    both_ways(|at| {
        fs::create_dir(at.path("ws/d")).unwrap();
        fs::write(at.path("ws/d/f.txt"), "inside").unwrap();
        fs::write(at.path("out/f.txt"), CANARY).unwrap();
        at.link(at.path("out"), "ws/e");
        let (here, there) = (at.path("ws/d"), at.path("ws/e"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let _stop = Stop(&done);
            let folder = AbsPath::canonical(at.path("ws/d"));
            let file = folder.child(OsStr::new("f.txt"));
            let (mut tries, mut reached, mut refused) = (0, 0, 0);
            // Both outcomes must have been met for the test to mean anything.
            while tries < 5000 || reached == 0 || refused == 0 {
                tries += 1;
                for content in [at.read("d/f.txt"), at.read_place(&file)] {
                    match content {
                        Ok(content) => {
                            assert_eq!(content, "inside");
                            reached += 1;
                        }
                        Err(_) => refused += 1,
                    }
                }
                if let Ok(stat) = at.workspace.stat(&file) {
                    assert_eq!(stat.size, 6);
                }
                for entry in at.workspace.list(&folder).unwrap_or_default() {
                    assert_eq!(entry.name, "f.txt");
                }
            }
        });
    });
}

/// Lets the other thread end even if this one panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const PARTS: [&str; 16] = [
    "..", "..", ".", "", "a", "b", "f", "missing", "in", "abs_in", "to_f", "out", "abs_out", "loop",
    "dangling", "\\xff",
];

const STARTS: [&str; 8] = ["", "", "", "/", "ws/", "given/", "out/", "ws-evil/"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The kernel is the judge: what it finds inside is found, with the same canonical name; what it finds
    /// outside is refused.
    #[test]
    fn any_text_resolves_inside_or_not_at_all(
        start in 0..STARTS.len(),
        parts in prop::collection::vec(0..PARTS.len(), 0..8),
    ) {
        thread_local!(static FIXTURES: [Fixture; 2] = {
            let (mut whole, mut steps) = (tangle(), tangle());
            whole.workspace = Workspace::open(&whole.path("given")).unwrap();
            steps.workspace = stepwise(&Workspace::open(&steps.path("given")).unwrap());
            [whole, steps]
        });
        FIXTURES.with(|fixtures| {
            fixtures.iter().try_for_each(|at| {
                let start = match STARTS[start] {
                    "" => String::new(),
                    "/" => "/".to_owned(),
                    name => at.text(name),
                };
                let parts: Vec<_> = parts.iter().map(|part| PARTS[*part]).collect();
                check(at, &format!("{start}{}", parts.join("/")))
            })
        })?;
    }
}

fn tangle() -> Fixture {
    let at = Fixture::new();
    fs::create_dir_all(at.path("ws/a/b")).unwrap();
    fs::write(at.path("ws/a/f"), "f").unwrap();
    fs::write(at.path("ws/a/b/f"), "f").unwrap();
    at.link(at.path("ws"), "given");
    for folder in ["ws", "ws/a", "ws/a/b", "out"] {
        at.link(at.path("ws/a"), &format!("{folder}/abs_in"));
        at.link(at.path("out"), &format!("{folder}/abs_out"));
        at.link("loop", &format!("{folder}/loop"));
        at.link("missing/x", &format!("{folder}/dangling"));
        at.link("f", &format!("{folder}/to_f"));
    }
    at.link("a/b", "ws/in");
    at.link("../b", "ws/a/in");
    at.link("../out", "ws/out");
    at.link("../../out", "ws/a/out");
    at
}

fn check(at: &Fixture, text: &str) -> Result<(), TestCaseError> {
    let root = at.workspace.root();
    let truth = root.as_path().join(text).canonicalize().ok();
    match at.resolve(text) {
        Ok(place) => {
            prop_assert!(place.path.is_within(root), "{text} led to {}", place.path);
            match place.stat {
                Some(_) => {
                    prop_assert_eq!(Some(place.path.as_path()), truth.as_deref(), "{}", text)
                }
                None => prop_assert!(truth.is_none(), "{text} is there"),
            }
        }
        Err(error) => {
            let inside = truth.is_some_and(|truth| truth.starts_with(root));
            prop_assert!(text.is_empty() || !inside, "{error}");
        }
    }
    Ok(())
}
