//! What cannot be changed, what lies outside but can be allowed, and what is moved or removed.

use super::*;
use crate::change::{ChangeErrorKind, Durability, Expect, TempName};

fn entry(at: &Fixture, text: &str) -> Result<ResolvedPath, PathError> {
    at.workspace.resolve_entry(at.workspace.root(), text)
}

fn reach(at: &Fixture, text: &str, access: FolderAccess) -> Result<(Workspace, ResolvedPath), PathError> {
    at.workspace.reaching(at.workspace.root(), text, access)
}

/// Every kind of change at a place, none of which may happen.
#[track_caller]
fn refuses_changes(workspace: &Workspace, path: &AbsPath) {
    let temp = TempName::new("1").unwrap();
    let before = workspace.state(path).unwrap();
    let spare = workspace.root().child("spare".as_ref());
    fs::write(&spare, "spare").unwrap();
    let spare_state = workspace.state(&spare).unwrap();
    let fast = Durability::Fast;
    let refusals = [
        workspace.require_writable(path).err(),
        workspace.require_removable(path).err(),
        workspace.write(path, b"x", &Expect::Anything, &temp, fast).err(),
        workspace.remove(path, &before, &temp, fast).err(),
        workspace.remove_tree(path, &|_| true, &temp, fast).err(),
        workspace.rename(path, &spare.child("to".as_ref()), &before, fast).err(),
        workspace.rename(&spare, path, &spare_state, fast).err(),
        workspace.set_mode(path, &before, 0o777, fast).err(),
        workspace.put_back(path, &temp).err(),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        let kind = refusal.unwrap_or_else(|| panic!("change {index} of {path} was made")).kind;
        if !path.as_path().is_dir() || index != 2 {
            assert!(matches!(kind, ChangeErrorKind::Guarded), "{index}: {kind:?}");
        }
    }
    assert_eq!(workspace.state(path).unwrap(), before);
    fs::remove_file(&spare).unwrap();
}

#[test]
fn nothing_at_or_below_a_guarded_place_changes() {
    both_ways(|at| {
        let guarded = at.workspace.guarding(&at.path("ws/sub/deep"));
        for text in ["sub/deep", "sub/deep/leaf.txt", "sub/deep/new.txt", "sub/deep/new/er.txt"] {
            refuses_changes(&guarded, &at.resolve(text).unwrap().path);
        }
        assert_eq!(at.read("sub/deep/leaf.txt").unwrap(), "leaf");
        // What it lies in stays where it is, but others in there may come and go.
        let sub = at.resolve("sub").unwrap().path;
        assert!(matches!(guarded.require_removable(&sub).unwrap_err().kind, ChangeErrorKind::Protected));
        guarded.require_removable(&at.resolve("file.txt").unwrap().path).unwrap();
        guarded.require_writable(&sub.child("deeper".as_ref())).unwrap();
        at.workspace.require_writable(&sub.child("deep".as_ref())).unwrap();
    });
}

#[test]
fn what_is_spared_can_be_changed_although_it_is_guarded_and_whatever_the_focus_is() {
    both_ways(|at| {
        fs::create_dir(at.path("ws/sub/deep/plans")).unwrap();
        let guarded = at.workspace.guarding(&at.path("ws/sub/deep"));
        let spared = guarded.except(&at.path("ws/sub/deep/plans"));
        let plan = at.resolve("sub/deep/plans/a.md").unwrap().path;
        let leaf = at.resolve("sub/deep/leaf.txt").unwrap().path;
        assert!(guarded.require_writable(&plan).is_err());
        spared.require_writable(&plan).unwrap();
        assert!(spared.guards(&plan) && !spared.is_guarded(&plan));
        refuses_changes(&spared, &leaf);
        fs::create_dir(at.path("ws/narrow")).unwrap();
        let focused = spared.with_focus("narrow").unwrap();
        focused.require_writable(&plan).unwrap();
        assert_eq!(focused.access(&leaf), None);
        assert_eq!(focused.access(&plan), Some(FolderAccess::Write));
        // A folder that only begins alike is another one.
        assert!(spared.is_guarded(&at.resolve("sub/deep/plans-too").unwrap().path));
    });
}

#[test]
fn a_guarded_place_need_not_exist_and_can_be_named_through_links() {
    both_ways(|at| {
        at.link("sub", "ws/l");
        let guarded = at.workspace.guarding(&at.path("ws/l/state/haft"));
        for text in ["sub/state/haft", "l/state/haft/journal", "sub/../l/state/haft/x"] {
            refuses_changes(&guarded, &at.resolve(text).unwrap().path);
        }
        guarded.require_writable(&at.resolve("sub/state/other").unwrap().path).unwrap();
        // Its folder, once it is there, cannot be taken away either.
        fs::create_dir_all(at.path("ws/sub/state")).unwrap();
        let state = at.resolve("l/state").unwrap().path;
        assert!(matches!(guarded.require_removable(&state).unwrap_err().kind, ChangeErrorKind::Protected));
    });
}

#[test]
fn a_folder_of_settings_cannot_be_written_wherever_it_is() {
    both_ways(|at| {
        for name in [".haft", ".HAFT", ".Haft", ".haft.", ".ha\u{200c}ft"] {
            for text in [name.to_owned(), format!("{name}/settings.toml"), format!("sub/{name}/a/b")] {
                refuses_changes(&at.workspace, &at.resolve(&text).unwrap().path);
            }
        }
        fs::create_dir(at.path("ws/.haft")).unwrap();
        fs::write(at.path("ws/.haft/settings.toml"), "mode").unwrap();
        at.link(".haft", "ws/way-in");
        for text in [".haft", ".haft/settings.toml", "way-in", "way-in/settings.toml", "sub/../.haft/new"] {
            refuses_changes(&at.workspace, &at.resolve(text).unwrap().path);
        }
        assert_eq!(at.read("way-in/settings.toml").unwrap(), "mode");
        for name in ["haft", ".hafted", ".haft-notes", "x.haft"] {
            at.workspace.require_writable(&at.resolve(name).unwrap().path).unwrap();
        }
    });
}

#[test]
fn what_is_writable_follows_the_innermost_folder() {
    both_ways(|at| {
        let workspace = at.workspace.with_folder(&at.path("ws/sub"), FolderAccess::Read).unwrap();
        let writable = |text: &str| {
            let path = workspace.resolve(workspace.root(), text).unwrap().path;
            workspace.require_writable(&path).map_err(|error| error.kind)
        };
        writable("file.txt").unwrap();
        writable("new/file.txt").unwrap();
        assert!(matches!(writable("sub/new.txt").unwrap_err(), ChangeErrorKind::ReadOnlyFolder));
        let outside = AbsPath::canonical(at.path("out/canary.txt"));
        let refusal = workspace.require_writable(&outside).unwrap_err().kind;
        assert!(matches!(refusal, ChangeErrorKind::Path(PathErrorKind::Outside)));
        let narrow = at.workspace.with_focus("sub").unwrap();
        let refusal = narrow.require_writable(&at.resolve("file.txt").unwrap().path).unwrap_err().kind;
        assert!(matches!(refusal, ChangeErrorKind::Path(PathErrorKind::OutsideFocus(_))));
    });
}

#[test]
fn a_place_outside_is_reached_with_the_folder_it_lies_in() {
    both_ways(|at| {
        at.link(at.path("out"), "ws/d");
        at.link(at.path("out"), "way");
        for text in [
            at.text("out/canary.txt"),
            "../out/canary.txt".into(),
            "d/canary.txt".into(),
            at.text("way/canary.txt"),
        ] {
            let (reaching, place) = reach(at, &text, FolderAccess::Read).unwrap();
            assert_eq!(place.path.as_path(), at.path("out/canary.txt"), "{text}");
            assert!(place.stat.is_some() && reaching.open_file(&place.path).is_ok());
            assert_eq!(reaching.access(&place.path), Some(FolderAccess::Read));
            assert_eq!(reaching.root(), at.workspace.root());
            assert_eq!(reaching.folders().last().unwrap().path.as_path(), at.path("out"));
            reaching.require_writable(&place.path).unwrap_err();
            // Neither the neighbours nor the workspace it came from are opened up.
            assert!(reaching.resolve(reaching.root(), "../ws-evil/canary.txt").is_err());
            assert_refused!(at.refuses(&text), PathErrorKind::Outside);
        }
        let (reaching, place) = reach(at, "../out/new/er.txt", FolderAccess::Write).unwrap();
        assert_eq!((place.path.as_path(), place.stat), (&*at.path("out/new/er.txt"), None));
        reaching.require_writable(&place.path).unwrap();
        assert_refused!(
            reach(at, "../out/canary.txt/", FolderAccess::Read).unwrap_err().kind,
            PathErrorKind::NotADirectory
        );
        assert_refused!(
            reach(at, "../out/canary.txt/x", FolderAccess::Read).unwrap_err().kind,
            PathErrorKind::NotADirectory
        );
        let odd = at.path("out").join(OsStr::from_bytes(b"\xff"));
        fs::write(&odd, "").unwrap();
        assert_eq!(reach(at, "../out/\\xff", FolderAccess::Read).unwrap().1.path.as_path(), odd);
    });
}

#[test]
fn reaching_what_is_inside_opens_nothing_else() {
    both_ways(|at| {
        at.link(at.path("ws/file.txt"), "out/back");
        for text in ["file.txt", "new.txt", "../out/back"] {
            let (reaching, _) = reach(at, text, FolderAccess::Write).unwrap();
            assert_eq!(reaching.folders().len(), 1, "{text}");
        }
        assert_refused!(reach(at, "a\0b", FolderAccess::Read).unwrap_err().kind, PathErrorKind::NulByte);
        assert_refused!(reach(at, "", FolderAccess::Read).unwrap_err().kind, PathErrorKind::Empty);
    });
}

#[test]
fn the_kernels_own_files_and_the_top_are_never_reached() {
    both_ways(|at| {
        at.link("/proc", "ws/p");
        at.link("/dev", "out/d");
        let own = format!("/proc/{}/environ", std::process::id());
        for text in [
            "/proc/self/environ",
            "/proc/version",
            "/sys/kernel",
            "/dev/null",
            "/dev/shm/x",
            "/proc",
            "p/version",
            "/tmp/../proc/version",
            "//proc/version",
            "/./dev/zero",
            "/",
            "/..",
            "/proc/self/root",
            "/new-at-the-top",
            own.as_str(),
            "../out/d/null",
        ] {
            for access in [FolderAccess::Read, FolderAccess::Write] {
                assert_refused!(reach(at, text, access).unwrap_err().kind, PathErrorKind::Outside);
            }
        }
    });
}

#[test]
fn a_focus_is_not_reached_around_and_guards_hold_outside() {
    both_ways(|at| {
        let narrow = at.workspace.with_focus("sub").unwrap();
        for text in ["file.txt", "../out/canary.txt", "/etc/passwd"] {
            let refusal = narrow.reaching(narrow.root(), text, FolderAccess::Read).unwrap_err().kind;
            assert!(
                matches!(refusal, PathErrorKind::Outside | PathErrorKind::OutsideFocus(_)),
                "{refusal:?}"
            );
        }
        let guarded = at.workspace.guarding(&at.path("out"));
        for text in ["../out/canary.txt", "../out/new.txt", "../ws-evil/.haft/x"] {
            let (reaching, place) = guarded.reaching(guarded.root(), text, FolderAccess::Write).unwrap();
            let refusal = reaching.require_writable(&place.path).unwrap_err().kind;
            assert!(matches!(refusal, ChangeErrorKind::Guarded), "{text}: {refusal:?}");
        }
    });
}

#[test]
fn a_link_at_the_end_is_moved_or_removed_itself() {
    both_ways(|at| {
        at.link("sub", "ws/l");
        at.link(at.path("out"), "ws/d");
        at.link("nothing", "ws/sub/dangling");
        at.link("me", "ws/me");
        for (text, name) in [
            ("l", "ws/l"),
            ("./l", "ws/l"),
            ("l/", "ws/l"),
            ("d", "ws/d"),
            ("sub/../d", "ws/d"),
            ("me", "ws/me"),
            ("l/dangling", "ws/sub/dangling"),
            ("l/../l", "ws/l"),
            ("sub//dangling", "ws/sub/dangling"),
        ] {
            let place = entry(at, text).unwrap();
            assert_eq!(place.path.as_path(), at.path(name), "{text}");
            assert_eq!(place.stat.unwrap().kind, Kind::Symlink, "{text}");
        }
        assert_eq!(entry(at, &at.text("ws/d")).unwrap().path.as_path(), at.path("ws/d"));
        // Only the last name is left alone.
        assert_refused!(entry(at, "d/canary.txt").unwrap_err().kind, PathErrorKind::Outside);
        assert_refused!(entry(at, "me/x").unwrap_err().kind, PathErrorKind::Loop);
    });
}

#[test]
fn a_link_outside_is_outside_wherever_it_leads() {
    both_ways(|at| {
        at.link(at.path("ws/file.txt"), "out/back");
        at.link(at.path("ws/sub"), "alias");
        for text in ["../out/back", "../alias", &at.text("alias")] {
            assert_refused!(entry(at, text).unwrap_err().kind, PathErrorKind::Outside);
        }
        let narrow = at.workspace.with_focus("sub").unwrap();
        at.link("sub/deep/leaf.txt", "ws/in");
        let refusal = narrow.resolve_entry(narrow.root(), "in").unwrap_err().kind;
        assert_refused!(refusal, PathErrorKind::OutsideFocus(_));
        assert_eq!(narrow.resolve_entry(narrow.root(), "sub").unwrap().path.as_path(), at.path("ws/sub"));
    });
}

#[test]
fn an_entry_is_named_like_any_other_place() {
    both_ways(|at| {
        let root = at.text("ws");
        for text in [".", "./", "sub/..", "../ws", &root, &format!("{root}/"), &format!("{root}/.")] {
            assert_eq!(&entry(at, text).unwrap().path, at.workspace.root(), "{text}");
        }
        for text in ["sub/deep/..", "sub/.", "sub/", "file.txt/../sub", "./sub"] {
            match entry(at, text) {
                Ok(place) => assert_eq!(place.path.as_path(), at.path("ws/sub"), "{text}"),
                Err(error) => {
                    assert_refused!((text, error.kind), ("file.txt/../sub", PathErrorKind::NotADirectory))
                }
            }
        }
        for text in ["file.txt/", "file.txt/.", "file.txt//", "file.txt/x"] {
            assert_refused!(entry(at, text).unwrap_err().kind, PathErrorKind::NotADirectory);
        }
        for text in ["a\0b", "sub/a\0b", "a\0/b", "\0"] {
            assert_refused!(entry(at, text).unwrap_err().kind, PathErrorKind::NulByte);
        }
        let name = "n".repeat(256);
        let long = format!("{}f", "a/".repeat(3000));
        for text in [&name, &format!("sub/{name}"), &format!("new/{name}"), &format!("{name}/x"), &long] {
            assert_refused!(entry(at, text).unwrap_err().kind, PathErrorKind::TooLong);
        }
        assert_refused!(entry(at, "").unwrap_err().kind, PathErrorKind::Empty);
        for text in ["..", "/", "../new", "../out/canary.txt", "/etc", "sub/../../x"] {
            assert_refused!(entry(at, text).unwrap_err().kind, PathErrorKind::Outside);
        }
        let place = entry(at, "sub/new/er").unwrap();
        assert_eq!((place.path.as_path(), place.stat), (&*at.path("ws/sub/new/er"), None));
        assert_refused!(entry(at, "new/../x").unwrap_err().kind, PathErrorKind::NotFound);
    });
}

#[test]
fn an_entry_that_is_not_text_is_found_by_what_is_shown() {
    both_ways(|at| {
        let folder = at.path("ws").join(OsStr::from_bytes(b"\xfd"));
        fs::create_dir(&folder).unwrap();
        let link = folder.join(OsStr::from_bytes(b"a\xff"));
        symlink(at.path("out"), &link).unwrap();
        let place = entry(at, "\\xfd/a\\xff").unwrap();
        assert_eq!(place.path.as_path(), link);
        assert_eq!(place.stat.unwrap().kind, Kind::Symlink);
        assert_eq!(at.workspace.display(&place.path), "\\xfd/a\\xff");
        // A name that is spelled like that comes first.
        fs::write(at.path("ws/\\xfd"), "").unwrap();
        assert_eq!(entry(at, "\\xfd").unwrap().path.as_path(), at.path("ws/\\xfd"));
    });
}

/// Regression: a file written into a folder while it was being deleted was lost.
#[test]
fn a_folder_that_is_not_what_is_expected_goes_back() {
    let at = Fixture::new();
    let path = at.workspace.root().child("tree".as_ref());
    fs::create_dir(&path).unwrap();
    fs::write(path.as_path().join("a"), "a").unwrap();
    let temp = TempName::new("1").unwrap();
    let fast = Durability::Fast;
    // The look at what is about to go finds what was written just before.
    let late = |_: &[crate::TreeEntry]| false;
    let refused = at.workspace.remove_tree(&path, &late, &temp, fast).unwrap_err();
    assert!(matches!(refused.kind, ChangeErrorKind::Conflict(_)), "{refused}");
    assert_eq!(fs::read_to_string(path.as_path().join("a")).unwrap(), "a");
    let expected = |found: &[crate::TreeEntry]| found.len() == 2;
    assert_eq!(at.workspace.remove_tree(&path, &expected, &temp, fast).unwrap(), None);
    assert_eq!(
        fs::read_dir(at.workspace.root())
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().contains("haft")
                    || entry.as_ref().unwrap().file_name() == "tree"
            })
            .count(),
        0
    );
}
