//! The choice of the workspace folder, and where state is stored.

use super::*;

#[test]
fn a_wide_workspace_must_be_named() {
    let fixture = two_files();
    fixture.write("home/notes.txt", "home\n");
    let home = fixture.base.join("home");
    let read = ["call", "Read", "file_path=notes.txt"];
    RunOutput::of(fixture.haft(&read).current_dir(&home).output().unwrap()).refused("is a wide workspace");
    RunOutput::of(fixture.haft(&read).current_dir("/").output().unwrap()).refused("`/` is a wide workspace");
    let meant = ["--workspace", ".", "call", "Read", "file_path=notes.txt"];
    let output = RunOutput::of(fixture.haft(&meant).current_dir(&home).output().unwrap());
    assert_eq!(output.stdout, "     1\thome\n");
    fixture.run(&["--workspace", "/", "call", "Read"]).refused("root of the file system");
}

#[test]
fn a_link_to_the_home_is_the_home() {
    let fixture = two_files();
    std::os::unix::fs::symlink(fixture.base.join("home"), fixture.base.join("link")).unwrap();
    let read = ["call", "Read", "file_path=one.txt"];
    let output = RunOutput::of(fixture.haft(&read).current_dir(fixture.base.join("link")).output().unwrap());
    output.refused("is a wide workspace");
}

#[test]
fn commands_that_touch_no_files_work_in_every_folder() {
    let fixture = two_files();
    for command in ["tools", "stats", "settings"] {
        for folder in [std::path::Path::new("/"), &fixture.base.join("home")] {
            let output = RunOutput::of(fixture.haft(&[command]).current_dir(folder).output().unwrap());
            assert_eq!(output.code, 0, "{command} in {folder:?}: {output:?}");
        }
    }
}

#[test]
fn nothing_is_written_into_the_workspace() {
    let fixture = two_files();
    fixture.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    fixture.batch(&[], &[r#"{"name":"Read","input":{"file_path":"one.txt"}}"#]);
    fixture.run(&["doctor"]);
    let mut names: Vec<_> =
        std::fs::read_dir(fixture.base.join("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["one.txt", "two.txt"]);
}

#[test]
#[cfg(unix)]
fn state_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = two_files();
    fixture.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    let mut folders = vec![fixture.state()];
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

#[test]
fn commands_do_not_see_what_lies_outside_of_the_focus() {
    let fixture = two_files();
    fixture.write("ws/sub/inside.txt", "inside\n");
    let call = |command: &str| {
        fixture.run(&["--focus", "sub", "--mode", "bypass", "call", "Bash", &format!("command={command}")])
    };
    for command in ["cat ../one.txt", "cat ../*.txt", "cat < ../one.txt", "touch ../new.txt && echo made"] {
        let output = call(command);
        assert!(!output.stdout.contains(ONE.trim()) && !output.stdout.contains("made"), "{output:?}");
    }
    assert!(!fixture.base.join("ws/new.txt").exists());
    assert_eq!(call("cat inside.txt; echo more >> inside.txt").stdout, "inside\n");
    assert_eq!(fixture.read("sub/inside.txt"), "inside\nmore\n");
}
