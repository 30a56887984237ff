//! Changes when the disk, the journal or the process fails.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use super::changes::snapshot;
use super::*;

/// Whenever the process is killed, the file is old or new, and no temporary file stays.
#[test]
fn a_write_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let fixture = Fixture::new(&[]);
    let text = |letter: &str| (letter.repeat(9999) + "\n").repeat(400);
    let (old, new) = (text("o"), text("n"));
    let path = fixture.base.join("ws/a.txt");
    let input = json!({"path": "a.txt", "content": new}).to_string();
    let start = || {
        std::fs::write(&path, &old).unwrap();
        let mut command =
            fixture.haft(&["--dialect", "workspace", "--mode", "bypass", "call", "write_file", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child
    };
    let started_at = std::time::Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = started_at.elapsed();
    let (mut olds, mut news) = (0, 0);
    for round in 0..30 {
        let mut child = start();
        if round % 3 == 0 {
            std::thread::sleep(whole * round / 30);
        } else {
            // The temporary file exists for a short time only, which is the critical one.
            while fixture.temporary().is_empty() && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 300));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = std::fs::read(&path).unwrap();
        match now == old.as_bytes() {
            true => olds += 1,
            false => news += 1,
        }
        assert!(now == old.as_bytes() || now == new.as_bytes(), "round {round}: {} bytes", now.len());
        let output = fixture.run(&["history", "-n", "1"]);
        assert_eq!(output.code, 0, "{output:?}");
    }
    println!("old {olds} times, new {news} times");
    let output = fixture.change("Write", json!({"file_path": "b.txt", "content": "b\n"}));
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(fixture.temporary(), Vec::<String>::new());
}

/// The output of a script in its own mount namespace, with `haft` as a command. `None` if namespaces are not available.
#[cfg(target_os = "linux")]
fn in_mount_namespace(fixture: &Fixture, script: &str) -> Option<String> {
    let haft = env!("CARGO_BIN_EXE_haft");
    let script =
        format!("haft() {{ {haft} --dialect workspace --mode bypass \"$@\"; echo \" code $?\"; }}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.env("HOME", fixture.base.join("home")).env("XDG_STATE_HOME", fixture.base.join("state"));
    let output = command.current_dir(fixture.base.join("ws")).output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => {
            missing(Need::Mounts, String::from_utf8_lossy(&output.stderr).trim());
            None
        }
        Err(error) => {
            missing(Need::Mounts, format_args!("`unshare`: {error}"));
            None
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_old_file() {
    let fixture = Fixture::new(&[]);
    fixture.write("input.json", &json!({"path": "a.txt", "content": "new\n".repeat(50_000)}).to_string());
    let script = "mount -t tmpfs -o size=128k none . || exit 9; cd \"$PWD\"
        head -c 40000 /dev/zero | tr '\\0' o > a.txt
        haft call write_file - < ../input.json; ls -A; wc -c < a.txt; tr -d o < a.txt | wc -c";
    let Some(told) = in_mount_namespace(&fixture, script) else { return };
    let (reply, rest) = told.split_once('\n').unwrap();
    assert!(reply.contains("\"ok\":false") && reply.contains("a.txt"), "{told}");
    assert!(reply.to_lowercase().contains("no space"), "{told}");
    let rest: Vec<&str> = rest.split_whitespace().collect();
    assert_eq!(rest, ["code", "1", "a.txt", "40000", "0"], "{told}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_workspace_is_reported() {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let script = "mount --bind . . && mount -o remount,bind,ro . || exit 9; cd \"$PWD\"
        haft call write_file '{\"path\":\"a.txt\",\"content\":\"two\"}'
        haft call write_file '{\"path\":\"b.txt\",\"content\":\"two\"}'
        haft call delete_file '{\"path\":\"a.txt\"}'
        haft call move_file '{\"from\":\"a.txt\",\"to\":\"c.txt\"}'";
    let Some(told) = in_mount_namespace(&fixture, script) else { return };
    assert_eq!(told.matches("code 1").count(), 4, "{told}");
    assert_eq!(told.matches("mounted for reading only").count(), 4, "{told}");
    assert_eq!((fixture.read("a.txt").as_str(), fixture.temporary().len()), ("one\n", 0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_deletion_does_not_reach_into_what_is_mounted() {
    let fixture = Fixture::new(&[("t/a.txt", "one\n")]);
    fixture.write("out/canary.txt", "canary\n");
    std::fs::create_dir(fixture.base.join("ws/t/m")).unwrap();
    let script = "mount --bind ../out t/m || exit 9
        haft call delete_file '{\"path\":\"t\",\"recursive\":true}'
        haft call delete_file '{\"path\":\"t/m\",\"recursive\":true}'";
    let Some(told) = in_mount_namespace(&fixture, script) else { return };
    assert_eq!(told.matches("code 1").count(), 2, "{told}");
    assert_eq!(std::fs::read_to_string(fixture.base.join("out/canary.txt")).unwrap(), "canary\n");
    assert_eq!(fixture.read("t/a.txt"), "one\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_move_to_another_file_system_moves_everything() {
    let fixture = Fixture::new(&[("t/run.sh", "#!/bin/sh\n"), ("t/deep/a.txt", "a\n"), ("one.txt", "one\n")]);
    let Ok(shm) = tempfile::tempdir_in("/dev/shm") else {
        return missing(Need::MemoryFileSystem, "there is no /dev/shm");
    };
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    if device(shm.path()) == device(&fixture.base) {
        return missing(Need::MemoryFileSystem, "/dev/shm is the file system of the tests");
    }
    let tree = fixture.base.join("ws/t");
    std::fs::set_permissions(tree.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("run.sh", tree.join("link")).unwrap();
    let before = snapshot(&tree);
    let there = shm.path().canonicalize().unwrap();
    let call = |from: &str, to: &str| {
        let input = json!({"from": from, "to": to}).to_string();
        let added = there.to_str().unwrap();
        fixture.run(&[
            "--add-dir",
            added,
            "--dialect",
            "workspace",
            "--mode",
            "bypass",
            "call",
            "move_file",
            &input,
        ])
    };
    let output = call("t", there.join("moved").to_str().unwrap());
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!tree.exists());
    assert_eq!(snapshot(&there.join("moved")), before);
    let output = call("one.txt", there.join("one.txt").to_str().unwrap());
    assert_eq!(output.code, 0, "{output:?}");
    let added = there.to_str().unwrap();
    assert_eq!(fixture.run(&["--add-dir", added, "undo", "--last", "2"]).code, 0);
    assert_eq!((snapshot(&tree), fixture.read("one.txt")), (before, "one\n".to_owned()));
    assert!(!there.join("moved").exists() && !there.join("one.txt").exists());
}

#[test]
fn a_damaged_journal_still_takes_changes() {
    let fixture = Fixture::new(&[]);
    for name in ["a.txt", "b.txt", "c.txt"] {
        fixture.change("Write", json!({"file_path": name, "content": "x\n"}));
    }
    let journal = fixture.state().join("journal");
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.is_file() && std::fs::metadata(path).unwrap().len() > 100);
    segments.sort();
    let last = segments.last().unwrap();
    let bytes = std::fs::read(last).unwrap();
    let mut cut = bytes[..bytes.len() - 20].to_vec();
    cut.extend([0xAA; 1024]);
    std::fs::write(last, cut).unwrap();
    let output = fixture.run(&["history"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("+a.txt") && output.stdout.contains("+b.txt"), "{output:?}");
    let output = fixture.change("Write", json!({"file_path": "d.txt", "content": "x\n"}));
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(fixture.run(&["undo"]).code, 0);
    assert!(!fixture.base.join("ws/d.txt").exists());
    assert_eq!(fixture.run(&["undo", "1"]).code, 0);
    assert!(!fixture.base.join("ws/a.txt").exists());
}

/// The newest segment of the journal.
fn segment(fixture: &Fixture) -> PathBuf {
    let journal = std::fs::read_dir(fixture.state().join("journal")).unwrap();
    let segments = journal.map(|entry| entry.unwrap().path());
    segments.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap()
}

/// After a power cut a file can have the right length but zeros instead of the last writes.
#[test]
fn a_journal_that_ends_in_zeros_is_read_and_goes_on() {
    for lost in [3, 60, 200] {
        let fixture = Fixture::new(&[]);
        for name in ["a.txt", "b.txt", "c.txt"] {
            fixture.change("Write", json!({"file_path": name, "content": "x\n"}));
        }
        let path = segment(&fixture);
        let mut log = std::fs::read(&path).unwrap();
        let end = log.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        log[end - lost..].fill(0);
        log.resize(end + 4096, 0);
        std::fs::write(&path, log).unwrap();
        let output = fixture.run(&["history"]);
        assert!(
            output.code == 0 && output.stdout.contains("+a.txt") && output.stdout.contains("+b.txt"),
            "{output:?}"
        );
        assert_eq!(fixture.run(&["undo", "2"]).code, 0, "{lost} bytes lost");
        assert!(!fixture.base.join("ws/b.txt").exists());
        assert_eq!(fixture.change("Write", json!({"file_path": "d.txt", "content": "x\n"})).code, 0);
        assert_eq!(fixture.run(&["undo"]).code, 0);
        assert!(fixture.base.join("ws/c.txt").exists() && !fixture.base.join("ws/d.txt").exists());
    }
}

#[test]
fn a_flipped_bit_costs_one_change_and_no_other() {
    let fixture = Fixture::new(&[]);
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        fixture.change("Write", json!({"file_path": name, "content": format!("this is {name}\n")}));
    }
    let path = segment(&fixture);
    let mut log = std::fs::read(&path).unwrap();
    let at = log.windows(13).position(|window| window == b"this is b.txt").unwrap();
    log[at] ^= 0x20;
    std::fs::write(&path, log).unwrap();
    let output = fixture.run(&["undo", "2"]);
    assert!(output.code == 1 && output.stderr.contains("change 2"), "{output:?}");
    for number in ["1", "3", "4"] {
        let output = fixture.run(&["undo", number]);
        assert_eq!(output.code, 0, "{output:?}");
    }
    let mut left: Vec<PathBuf> = snapshot(&fixture.base.join("ws")).into_keys().collect();
    left.sort();
    assert_eq!(left, [PathBuf::from("b.txt")]);
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_changes_while_its_record_cannot_be_written() {
    let fixture = Fixture::new(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    assert_eq!(fixture.change("Write", json!({"file_path": "c.txt", "content": "c\n"})).code, 0);
    let before = snapshot(&fixture.base.join("ws"));
    let script = "mount --bind ../state ../state && mount -o remount,bind,ro ../state || exit 9
        haft call write_file '{\"path\":\"new.txt\",\"content\":\"x\"}'
        haft call delete_file '{\"path\":\"b.txt\"}'
        haft call move_file '{\"from\":\"a.txt\",\"to\":\"z.txt\"}'
        haft undo 2>&1";
    let Some(told) = in_mount_namespace(&fixture, script) else { return };
    assert_eq!(told.matches("code 1").count(), 4, "{told}");
    assert_eq!(told.matches("nothing was changed").count(), 4, "{told}");
    assert_eq!(told.matches("Read-only file system").count(), 4, "{told}");
    assert_eq!(snapshot(&fixture.base.join("ws")), before);
}
