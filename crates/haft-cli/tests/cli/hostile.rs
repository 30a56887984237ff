//! Hostile files and concurrent changes, with the real binary, and as an unprivileged user where that matters.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, XattrFlags, getxattr, renameat_with, setxattr};

use super::changes::{EDITS, edit};
use super::*;

/// The unprivileged user `nobody`.
const NOBODY: u32 = 65534;
/// The ids of an unused user and group.
const STRANGER: u32 = 54321;

impl Fixture {
    /// The command as a user who is not root; `None`, and the test is skipped, where that cannot be.
    pub(super) fn haft_without_rights(&self, args: &[&str]) -> Option<Command> {
        let haft = self.haft(args);
        if !rustix::process::geteuid().is_root() {
            return Some(haft);
        }
        let owner = format!("{NOBODY}:{NOBODY}");
        let given = Command::new("chown").arg("-R").arg(owner).arg(&self.base).status();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
        let probe = |program: &std::ffi::OsStr| {
            let mut probe = Command::new("setpriv");
            probe.args(command.get_args()).arg(program).arg("--version");
            probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        if !given.is_ok_and(|status| status.success()) || !probe(haft.get_program()) {
            missing(Need::Setpriv, "haft cannot be started as another user than root");
            return None;
        }
        command.arg(haft.get_program()).args(haft.get_args()).current_dir(self.base.join("ws")).env_clear();
        command.envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Some(command)
    }

    /// Runs a batch command and returns its replies.
    pub(super) fn answers(&self, command: &mut Command, calls: &[Value]) -> Vec<Value> {
        let lines: String = calls.iter().map(|call| format!("{call}\n")).collect();
        let path = self.base.join("calls");
        std::fs::write(&path, lines).unwrap();
        let output = RunOutput::of(command.stdin(std::fs::File::open(path).unwrap()).output().unwrap());
        assert_eq!(output.stdout.lines().count(), calls.len(), "{output:?}");
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn forbid(&self, names: &[&str], mode: u32) {
        for name in names {
            let path = self.base.join("ws").join(name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    /// A running batch, for inspection.
    pub(super) fn talk(&self, args: &[&str]) -> Talk {
        let mut command = self.haft(&[args, &["batch"]].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap()).lines();
        Talk { child, stdin, replies }
    }
}

pub(super) struct Talk {
    child: std::process::Child,
    stdin: std::process::ChildStdin,
    replies: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Talk {
    pub(super) fn ask(&mut self, call: &Value) -> Value {
        writeln!(self.stdin, "{call}").unwrap();
        serde_json::from_str(&self.replies.next().unwrap().unwrap()).unwrap()
    }

    /// Its peak memory so far, in kB.
    pub(super) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(super) fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A folder and a link that leads out are exchanged continuously.
#[test]
fn thousands_of_calls_through_a_folder_swapped_for_a_link_stay_inside() {
    const TURNS: usize = 50;
    const CALLS: usize = 100;
    let fixture = Fixture::new(&[("d/f.txt", "inside\n")]);
    let out = fixture.base.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("f.txt"), "canary\n").unwrap();
    let (folder, link) = (fixture.base.join("ws/d"), fixture.base.join("ws/l"));
    symlink(&out, &link).unwrap();
    let turn = |turn: usize| {
        let calls = (0..CALLS).flat_map(|n| {
            let name = format!("d/{}.txt", (turn * CALLS + n) % 500);
            [
                json!({"name": "Write", "input": {"file_path": name, "content": format!("{turn}\n")}}),
                json!({"name": "Read", "input": {"file_path": "d/f.txt"}}),
            ]
        });
        Value::from(calls.collect::<Vec<_>>()).to_string() + "\n"
    };
    let lines: String = (0..TURNS).map(turn).collect();
    let stop = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let output = fixture.run_with(&["--mode", "accept-edits", "batch"], &lines);
        stop.store(true, Ordering::Relaxed);
        output
    });
    assert_eq!((output.code, output.stdout.lines().count()), (0, TURNS * CALLS * 2), "{}", output.stderr);
    assert!(!output.stdout.contains("canary"));
    assert!(
        output.stdout.contains("created `d/") && output.stdout.contains("\"is_error\":true"),
        "nothing was tried"
    );
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(out.join("f.txt")).unwrap(), "canary\n");
}

#[test]
fn a_line_of_200_megabytes_is_read_in_little_memory() {
    const SIZE: u64 = 200 << 20;
    let fixture = two_files();
    let mut file = std::fs::File::create(fixture.base.join("ws/long.txt")).unwrap();
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..SIZE >> 20 {
        file.write_all(&megabyte).unwrap();
    }
    let sparse = std::fs::File::create(fixture.base.join("ws/sparse")).unwrap().set_len(1 << 40);
    if let Err(error) = sparse {
        missing(Need::SparseFiles, error);
    }
    let mut talk = fixture.talk(&EDITS);
    assert_eq!(text(&talk.ask(&json!({"name": "Read", "input": {"file_path": "one.txt"}}))), ONE);
    let before = talk.peak();
    for file in ["long.txt", "sparse"] {
        let calls = [
            json!({"name": "Read", "input": {"file_path": file, "limit": 10}}),
            json!({"dialect": "ally", "name": "read", "input": {"file_paths": [file], "limit": 10}}),
            json!({"dialect": "cdd", "name": "read", "input": {"file_path": file, "limit": 10}}),
            json!({"dialect": "workspace", "name": "read_file", "input": {"path": file}}),
        ];
        for call in calls {
            let reply = talk.ask(&call);
            assert!(reply.to_string().len() < 300_000, "{call}");
            assert!(talk.peak() < before + 64 * 1024, "{call}: {} kB after {before} kB", talk.peak());
        }
    }
    let reply = talk.ask(&json!({"name": "Edit", "input": {
        "file_path": "long.txt", "old_string": "xy", "new_string": "z"}}));
    assert_eq!(reply["is_error"], true, "{reply}");
    assert!(talk.peak() < before + 3 * (SIZE >> 10), "{} kB", talk.peak());
    talk.end();
}

#[test]
fn an_unreadable_file_is_reported_by_name() {
    let fixture = Fixture::new(&[("open.txt", "one\n"), ("shut.txt", "no\n"), ("shut/in.txt", "no\n")]);
    let Some(mut command) = fixture.haft_without_rights(&["--mode", "bypass", "batch"]) else { return };
    let calls = [
        json!({"name": "Read", "input": {"file_path": "shut.txt"}}),
        json!({"name": "Edit", "input": {"file_path": "shut.txt", "old_string": "no", "new_string": "yes"}}),
        json!({"name": "Write", "input": {"file_path": "shut.txt", "content": "yes\n"}}),
        json!({"name": "Read", "input": {"file_path": "shut/in.txt"}}),
        json!({"name": "Write", "input": {"file_path": "shut/new.txt", "content": "yes\n"}}),
        json!({"dialect": "workspace", "name": "list_directory", "input": {"path": "shut"}}),
        json!({"dialect": "ally", "name": "read", "input": {"file_paths": ["shut.txt", "open.txt"]}}),
        json!({"dialect": "workspace", "name": "list_directory", "input": {"path": "."}}),
    ];
    fixture.forbid(&["shut.txt", "shut"], 0o000);
    let replies = fixture.answers(&mut command, &calls);
    fixture.forbid(&["shut.txt", "shut"], 0o755);
    for (call, reply) in calls.iter().zip(&replies).take(6) {
        let told = reply.to_string();
        assert!(
            reply["is_error"] == true && told.contains("no permission") && told.contains("shut"),
            "{call}: {told}"
        );
    }
    let both = replies[6].to_string();
    assert!(both.contains("no permission") && both.contains("one"), "{both}");
    assert!(replies[7].to_string().contains("open.txt"), "{}", replies[7]);
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/shut.txt")).unwrap(), "no\n");
}

#[test]
fn an_unwritable_folder_is_reported() {
    let fixture = Fixture::new(&[("ro/a.txt", "one\n"), ("ro/sub/b.txt", "b\n")]);
    let Some(mut command) = fixture.haft_without_rights(&["--mode", "bypass", "batch"]) else { return };
    let calls = [
        json!({"name": "Read", "input": {"file_path": "ro/a.txt"}}),
        json!({"name": "Edit", "input": edit("ro/a.txt", "one", "two")}),
        json!({"name": "Write", "input": {"file_path": "ro/new.txt", "content": "x"}}),
        json!({"dialect": "workspace", "name": "delete_file", "input": {"path": "ro/a.txt"}}),
        json!({"dialect": "workspace", "name": "move_file", "input": {"from": "ro/a.txt", "to": "a.txt"}}),
    ];
    fixture.forbid(&["ro"], 0o555);
    let replies = fixture.answers(&mut command, &calls);
    fixture.forbid(&["ro"], 0o755);
    for reply in &replies[1..] {
        assert!(reply["is_error"] == true && text(reply).contains("ro"), "{reply}");
    }
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/ro/a.txt")).unwrap(), "one\n");
}

/// Encodes an access control list. Entries are tag, permissions and id.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let version = 2_u32.to_le_bytes();
    let entries = entries.iter().flat_map(|(tag, rights, whose)| {
        [tag.to_le_bytes().as_slice(), &rights.to_le_bytes(), &whose.to_le_bytes()].concat()
    });
    version.into_iter().chain(entries).collect()
}

#[test]
fn an_edit_keeps_the_group_and_the_access_list() {
    const LIST: &str = "system.posix_acl_access";
    let fixture = Fixture::new(&[("shared/run.sh", "echo one\n")]);
    let (folder, path) = (fixture.base.join("ws/shared"), fixture.base.join("ws/shared/run.sh"));
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&folder, None, Some(STRANGER)).unwrap();
        std::os::unix::fs::chown(&path, None, Some(STRANGER)).unwrap();
    } else {
        missing(Need::Root, "only root may give a file to a group that nobody is in");
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o2775)).unwrap();
    // Owner, another user, group, mask, others.
    let everybody = u32::MAX;
    let list = access_list(&[
        (1, 7, everybody),
        (2, 5, STRANGER),
        (4, 5, everybody),
        (16, 5, everybody),
        (32, 0, everybody),
    ]);
    if let Err(error) = setxattr(&path, LIST, &list, XattrFlags::empty()) {
        return missing(Need::AccessLists, error);
    }
    let kept = || {
        let mut value = [0; 256];
        let length = getxattr(&path, LIST, &mut value).unwrap_or(0);
        let stat = std::fs::metadata(&path).unwrap();
        (stat.mode(), stat.uid(), stat.gid(), value[..length].to_vec())
    };
    let before = kept();
    assert_eq!(before.3, list);
    let write = json!({"name": "Write", "input": {"file_path": "shared/new.txt", "content": "x\n"}});
    let edit = edit("shared/run.sh", "one", "two");
    let read = r#"{"name":"Read","input":{"file_path":"shared/run.sh"}}"#;
    fixture.batch(&EDITS, &[read, &json!({"name": "Edit", "input": edit}).to_string(), &write.to_string()]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "echo two\n");
    assert_eq!(kept(), before);
    let (folder, new) =
        (std::fs::metadata(&folder).unwrap(), std::fs::metadata(folder.join("new.txt")).unwrap());
    assert_eq!((folder.mode() & 0o7777, new.gid()), (0o2775, folder.gid()));
    assert_eq!(fixture.run(&["undo", "--any", "--last", "2"]).code, 0);
    assert_eq!((kept(), std::fs::read_to_string(&path).unwrap().as_str()), (before, "echo one\n"));
}
