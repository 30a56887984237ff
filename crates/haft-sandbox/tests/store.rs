//! haft's own folders and files that people name.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a test looks from outside

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_sandbox::{Store, user};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn nothing_is_made_before_something_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path().join("state")).folder("journal");
    assert_eq!(store.read("a").unwrap(), None);
    assert_eq!(store.entries().unwrap(), []);
    store.remove("a").unwrap();
    assert!(!dir.path().join("state").exists());
}

#[test]
fn what_is_written_is_private_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path().join("state")).folder("journal");
    store.write("a", b"one").unwrap();
    store.write("a", b"two").unwrap();
    store.open_log("log").unwrap().write_all(b"xz").unwrap();
    store.open_log("log").unwrap().write_all_at(b"y", 1).unwrap();
    store.sync("log").unwrap();
    assert_eq!(store.read("a").unwrap().unwrap(), b"two");
    assert_eq!(store.read("log").unwrap().unwrap(), b"xy");
    assert_eq!(mode(store.dir()), 0o700);
    assert_eq!(mode(&dir.path().join("state")), 0o700);
    assert_eq!(mode(&store.path("a")), 0o600);
    assert_eq!(mode(&store.path("log")), 0o600);
    let mut entries: Vec<_> =
        store.entries().unwrap().into_iter().map(|entry| (entry.name, entry.size)).collect();
    entries.sort();
    assert_eq!(entries, [("a".to_owned(), 3), ("log".to_owned(), 2)]);
    store.remove("a").unwrap();
    assert_eq!(store.read("a").unwrap(), None);
}

#[test]
fn only_plain_names_are_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path().join("state"));
    for name in ["", ".", "..", "a/b", "/etc/passwd", "../x", "a\0b", "a\\b"] {
        let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::InvalidInput);
        refused(store.read(name).unwrap_err());
        refused(store.write(name, b"").unwrap_err());
        refused(store.open_log(name).unwrap_err());
        refused(store.remove(name).unwrap_err());
        refused(store.lock(name).unwrap_err());
        refused(store.folder(name).write("plain", b"").unwrap_err());
        refused(store.folder(name).folder("plain").entries().unwrap_err());
        assert!(store.path(name).starts_with(store.dir()));
        assert!(!store.path(name).ends_with(".."));
    }
    assert!(!store.dir().exists());
}

#[test]
fn a_reader_sees_the_old_or_the_new() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    let contents = [vec![b'a'; 100_000], vec![b'b'; 50_000]];
    store.write("f", &contents[0]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..50 {
                store.write("f", &contents[turn % 2]).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            assert!(contents.contains(&store.read("f").unwrap().unwrap()));
            assert!(store.entries().unwrap().iter().all(|entry| entry.name == "f"));
        }
    });
}

#[test]
fn a_lock_lets_one_in_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    store.write("count", b"0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let _lock = store.lock("lock").unwrap();
                    let count = store.read("count").unwrap().unwrap();
                    let count: u32 = String::from_utf8(count).unwrap().parse().unwrap();
                    store.write("count", (count + 1).to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(store.read("count").unwrap().unwrap(), b"40");
}

#[test]
fn a_file_that_a_person_named_is_read_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    fs::write(&file, "12345").unwrap();
    assert_eq!(user::read(&file, 5).unwrap(), b"12345");
    let missing = dir.path().join("missing");
    for (error, path) in [
        (user::read(&file, 4).unwrap_err(), &*file),
        (user::read(&missing, 4).unwrap_err(), &missing),
        (user::read(dir.path(), 4).unwrap_err(), dir.path()),
        (user::canonical(&missing).unwrap_err(), &missing),
    ] {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    assert!(user::exists(&file) && !user::exists(&missing));
    assert!(user::current_dir().unwrap().is_absolute());
}
