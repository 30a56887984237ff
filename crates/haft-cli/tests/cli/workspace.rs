//! Which folder haft works in, and what it leaves there.

use super::*;

#[test]
fn a_wide_workspace_must_be_meant() {
    let lab = two_files();
    lab.write("home/notes.txt", "home\n");
    let home = lab.base.join("home");
    let read = ["call", "Read", "file_path=notes.txt"];
    Ran::of(lab.haft(&read).current_dir(&home).output().unwrap()).refused("is a wide workspace");
    Ran::of(lab.haft(&read).current_dir("/").output().unwrap()).refused("`/` is a wide workspace");
    let meant = ["--workspace", ".", "call", "Read", "file_path=notes.txt"];
    let ran = Ran::of(lab.haft(&meant).current_dir(&home).output().unwrap());
    assert_eq!(ran.stdout, "     1\thome\n");
    lab.run(&["--workspace", "/", "call", "Read"]).refused("root of the file system");
}

#[test]
fn a_link_to_the_home_is_the_home() {
    let lab = two_files();
    std::os::unix::fs::symlink(lab.base.join("home"), lab.base.join("link")).unwrap();
    let read = ["call", "Read", "file_path=one.txt"];
    let ran = Ran::of(lab.haft(&read).current_dir(lab.base.join("link")).output().unwrap());
    ran.refused("is a wide workspace");
}

#[test]
fn what_touches_nothing_may_be_asked_anywhere() {
    let lab = two_files();
    for command in ["tools", "stats", "settings"] {
        for folder in [std::path::Path::new("/"), &lab.base.join("home")] {
            let ran = Ran::of(lab.haft(&[command]).current_dir(folder).output().unwrap());
            assert_eq!(ran.code, 0, "{command} in {folder:?}: {ran:?}");
        }
    }
}

#[test]
fn nothing_is_written_into_the_workspace() {
    let lab = two_files();
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    lab.batch(&[], &[r#"{"name":"Read","input":{"file_path":"one.txt"}}"#]);
    lab.run(&["doctor"]);
    let mut names: Vec<_> =
        std::fs::read_dir(lab.base.join("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["one.txt", "two.txt"]);
}

#[test]
#[cfg(unix)]
fn what_is_kept_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let lab = two_files();
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    let mut folders = vec![lab.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
}
