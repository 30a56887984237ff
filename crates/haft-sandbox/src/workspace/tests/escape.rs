//! No path leads out: random trees full of links, random texts, every reading and changing method, and a
//! thread that swaps links in meanwhile. The outside is compared down to modes and times.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::change::{Attributes, Durability, Expect, Hash, State, TempName};

const FAST: Durability = Durability::Fast;

/// A name that no text here holds, so a listing that has it is one of the outside.
const ONLY_OUTSIDE: &str = "only-outside";

const NAMES: [&str; 6] = ["a", "b", "c", "d", "caf\u{e9}", "cafe\u{301}"];

/// Where links lead; `{}` is the folder that holds the workspace and its neighbours.
const TARGETS: [&str; 27] = [
    "a",
    "b",
    "./c",
    "a/b",
    "b/../c",
    "..",
    "../a",
    "../b/c",
    "../../d",
    ".",
    "missing",
    "a/missing/x",
    "{}/ws",
    "{}/ws/a",
    "{}/ws/b/c",
    "{}/given/a",
    "{}/out",
    "{}/out",
    "{}/out/canary.txt",
    "{}/out/sub",
    "{}/out/new",
    "{}/out/back",
    "../out",
    "../../out/canary.txt",
    "../../../out/sub/",
    "{}/ws-evil",
    "/proc/self/root{}/out",
];

const STARTS: [&str; 10] =
    ["", "", "", "./", "{}/ws/", "{}//ws/./", "{}/ws/../ws/", "{}/given/", "{}/out/", "{}/ws-evil/../"];

const PARTS: [&str; 14] =
    ["a", "b", "c", "d", "caf\u{e9}", "..", "..", ".", "", "new", "canary.txt", "sub", "back", "out"];

#[derive(Clone, Debug)]
struct Grown {
    folder: usize,
    name: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Folder,
    File,
    Link(usize),
}

#[derive(Clone, Debug)]
struct Attempt {
    text: (usize, Vec<usize>),
    other: (usize, Vec<usize>),
    change: usize,
}

fn grown() -> impl Strategy<Value = Grown> {
    let what = prop_oneof![
        2 => Just(What::Folder),
        1 => Just(What::File),
        4 => (0..TARGETS.len()).prop_map(What::Link),
    ];
    (0..8_usize, 0..NAMES.len(), what).prop_map(|(folder, name, what)| Grown { folder, name, what })
}

fn text() -> impl Strategy<Value = (usize, Vec<usize>)> {
    (0..STARTS.len(), prop::collection::vec(0..PARTS.len(), 0..6))
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (text(), text(), 0..8_usize).prop_map(|(text, other, change)| Attempt { text, other, change })
}

/// Everything at and below a place: kind, mode, owner, times, content.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        let what = if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if meta.is_symlink() {
            format!("{:?}", fs::read_link(&path).unwrap())
        } else {
            fs::read_to_string(&path).unwrap()
        };
        let about = (meta.mode(), meta.uid(), meta.gid(), meta.nlink(), times);
        found.insert(path, format!("{about:?} {what}"));
    }
    found
}

/// What must stay as it is: the neighbours, with links of their own, and which there are.
fn surroundings(at: &Fixture) -> (Vec<BTreeMap<PathBuf, String>>, Vec<PathBuf>) {
    let mut beside: Vec<_> = fs::read_dir(at.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    beside.sort();
    (["out", "ws-evil", "given"].map(|name| snapshot(&at.path(name))).into(), beside)
}

fn outside() -> Fixture {
    let at = Fixture::new();
    fs::create_dir(at.path("out/sub")).unwrap();
    fs::write(at.path("out/sub/canary.txt"), CANARY).unwrap();
    fs::write(at.path("out/a"), CANARY).unwrap();
    for folder in ["out", "out/sub", "ws-evil"] {
        fs::write(at.path(folder).join(ONLY_OUTSIDE), CANARY).unwrap();
    }
    at.link(at.path("ws"), "given");
    at.link(at.path("ws"), "out/back");
    at
}

fn grow(at: &Fixture, tree: &[Grown]) {
    let mut folders = vec![at.path("ws"), at.path("ws/sub"), at.path("ws/sub/deep")];
    for Grown { folder, name, what } in tree {
        let path = folders[folder % folders.len()].join(NAMES[*name]);
        // A name that is taken stays as it is.
        let made = match what {
            What::Folder => fs::create_dir(&path),
            What::File if path.symlink_metadata().is_err() => fs::write(&path, "inside"),
            What::File => Ok(()),
            What::Link(target) => symlink(spell(at, TARGETS[*target]), &path),
        };
        if made.is_ok() && matches!(what, What::Folder) {
            folders.push(path);
        }
    }
}

fn spell(at: &Fixture, text: &str) -> String {
    text.replace("{}", at.text("").trim_end_matches('/'))
}

fn written(at: &Fixture, (start, parts): &(usize, Vec<usize>)) -> String {
    let parts: Vec<_> = parts.iter().map(|part| PARTS[*part]).collect();
    format!("{}{}", spell(at, STARTS[*start]), parts.join("/"))
}

/// The paths of a text: the resolved one, and forged ones.
fn places(at: &Fixture, text: &str) -> Result<Vec<AbsPath>, TestCaseError> {
    let root = at.workspace.root();
    let resolved = [at.resolve(text), at.workspace.resolve_entry(root, text)];
    let mut places = Vec::new();
    for place in resolved.into_iter().flatten() {
        prop_assert!(place.path.is_within(root), "{text} led to {}", place.path);
        places.push(place.path);
    }
    places.push(AbsPath::lexical(&root.as_path().join(text)));
    places.push(AbsPath::canonical(root.as_path().join(text)));
    Ok(places)
}

fn look_everywhere(at: &Fixture, path: &AbsPath) -> Result<(), TestCaseError> {
    if let Ok(content) = at.read_place(path) {
        prop_assert!(!content.contains(CANARY), "{path} was read");
    }
    let _ = at.workspace.stat(path);
    let _ = at.workspace.missing_parents(path);
    let is_canary = |state: &State| matches!(state, State::File { hash, .. } if *hash == Some(Hash::of(CANARY.as_bytes())));
    if let Ok(state) = at.workspace.state(path) {
        prop_assert!(!is_canary(&state), "{path} was hashed");
    }
    for entry in at.workspace.tree(path).unwrap_or_default() {
        prop_assert!(!is_canary(&entry.state), "{path} was hashed below");
    }
    for entry in at.workspace.list(path).unwrap_or_default() {
        prop_assert!(entry.name != ONLY_OUTSIDE, "{path} was listed");
    }
    for name in at.workspace.names(path).unwrap_or_default() {
        prop_assert!(name.name != ONLY_OUTSIDE, "{path} was listed");
    }
    Ok(())
}

/// Tries one of the changes. Whether it happens depends on the tree; what must not happen shows outside.
fn change(at: &Fixture, index: usize, path: &AbsPath, other: &AbsPath) -> bool {
    let workspace = &at.workspace;
    let temp = TempName::new("1").unwrap();
    let mine = Attributes { mode: 0o777, uid: 0, gid: 0, modified: (0, 0), xattrs: Vec::new() };
    let before = || workspace.state(path);
    let draft = || workspace.draft(path, before()?, &temp, FAST);
    let done = match index {
        0 | 1 => workspace.write(path, b"mine", &Expect::Anything, &temp, FAST).map(drop),
        2 => before().and_then(|before| workspace.remove(path, &before, &temp, FAST)),
        3 => workspace.remove_tree(path, &|_| true, &temp, FAST).map(drop),
        4 => before().and_then(|before| workspace.rename(path, other, &before, FAST)),
        5 => before().and_then(|before| workspace.set_mode(path, &before, 0o700, FAST)),
        6 => draft().and_then(|mut draft| {
            draft.link(at.path("out").as_ref(), &mine)?;
            draft.publish().map(drop)
        }),
        _ => {
            workspace.remove_if_empty(path);
            draft().and_then(|mut draft| {
                draft.directory(None)?;
                draft.publish().map(drop)
            })
        }
    };
    let _ = workspace.discard(path, &temp);
    done.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_path_leads_out_of_any_tree(
        tree in prop::collection::vec(grown(), 4..24),
        attempts in prop::collection::vec(attempt(), 8..24),
        steps in any::<bool>(),
    ) {
        let at = if steps { outside().stepwise() } else { outside() };
        grow(&at, &tree);
        let before = surroundings(&at);
        for Attempt { text, other, change: index } in &attempts {
            let (text, other) = (written(&at, text), written(&at, other));
            let others = places(&at, &other)?;
            for (path, other) in places(&at, &text)?.iter().zip(others.iter().rev().cycle()) {
                look_everywhere(&at, path)?;
                change(&at, *index, path, other);
            }
        }
        prop_assert_eq!(surroundings(&at), before);
    }
}

/// Another thread swaps a directory for a link that leads out while everything is tried through it.
#[test]
fn a_link_swapped_in_never_leads_a_change_out() {
    both_ways(|at| {
        fs::create_dir(at.path("ws/d")).unwrap();
        for name in ["f", ONLY_OUTSIDE] {
            fs::write(at.path("out").join(name), CANARY).unwrap();
        }
        fs::create_dir(at.path("out/new")).unwrap();
        at.link(at.path("out"), "ws/e");
        let before = snapshot(&at.path("out"));
        let (here, there) = (at.path("ws/d"), at.path("ws/e"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let _stop = Stop(&done);
            let folder = AbsPath::canonical(here.clone());
            let [file, moved, new] = ["f", "g", "new"].map(|name| folder.child(name.as_ref()));
            let below = new.child("x".as_ref());
            let (mut made, mut refused) = (0, 0);
            for round in 0..2500 {
                let (index, path) = match round % 8 {
                    0 | 4 => (0, &file),
                    1 => (0, &below),
                    2 => (4, &file),
                    3 => (2, &moved),
                    5 => (5, &file),
                    6 => (3, &new),
                    _ => (2, &file),
                };
                if change(at, index, path, &moved) {
                    made += 1
                } else {
                    refused += 1
                }
                look_everywhere(at, path).unwrap();
                let text = ["d/f", "d/new/x", "d/../d/f", "e/../d/f"][round % 4];
                for path in places(at, text).unwrap() {
                    let content = at.read_place(&path).unwrap_or_default();
                    assert!(!content.contains(CANARY), "{path}");
                }
            }
            assert!(made > 0 && refused > 0, "{made} made, {refused} refused: nothing was tried");
        });
        assert_eq!(snapshot(&at.path("out")), before);
    });
}
