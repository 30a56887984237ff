//! A workspace, a command in it with a recorder, and the comparison of trees.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haft_sandbox::sandbox::recorder::{Effect, Effects, New, Old, OldContent, Options, Recorder, install};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Longest run of one command.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A workspace with a folder for the recorder beside it.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    runs: std::cell::Cell<u32>,
}

/// A command that runs with a recorder.
pub(crate) struct Recorded {
    pub(crate) child: Child,
    pub(crate) recorder: Recorder,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(folder: tempfile::TempDir) -> Self {
        fs::create_dir(folder.path().join("ws")).unwrap();
        Self { folder, runs: std::cell::Cell::new(0) }
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("ws")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.ws().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn options(&self) -> Options {
        self.runs.set(self.runs.get() + 1);
        let store = self.folder.path().canonicalize().unwrap().join(format!("store-{}", self.runs.get()));
        Options::new(vec![self.ws()], store)
    }

    pub(crate) fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        command
    }

    /// Starts a command with a recorder.
    pub(crate) fn start(&self, command: Command) -> Recorded {
        self.start_with(command, self.options())
    }

    pub(crate) fn start_with(&self, mut command: Command, options: Options) -> Recorded {
        command.current_dir(self.ws()).stdin(Stdio::null());
        let (child, listener) = spawn(command, Namespaces::Shared).unwrap();
        Recorded { child, recorder: Recorder::start(listener, options).unwrap() }
    }

    /// Runs a script to its end and lists what it changed.
    pub(crate) fn run(&self, script: &str) -> Effects {
        self.start(self.bash(script)).finish()
    }
}

impl Recorded {
    pub(crate) fn finish(self) -> Effects {
        self.finish_with_status().1
    }

    pub(crate) fn finish_with_status(mut self) -> (std::process::ExitStatus, Effects) {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > TIMEOUT => {
                    self.child.kill().unwrap();
                    panic!("the command did not end");
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        (status, self.recorder.finish().unwrap())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespaces {
    Shared,
    Own,
}

/// Starts a command whose changing calls wait for the returned listener.
#[allow(unsafe_code)]
pub(crate) fn spawn(mut command: Command, namespaces: Namespaces) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: it only makes system calls, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if namespaces == Namespaces::Own {
                use rustix::thread::UnshareFlags;
                rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            }
            rustix::thread::set_no_new_privs(true)?;
            let listener = install().map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds = [listener.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&fds));
            rustix::net::sendmsg(&theirs, &[io::IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
            Ok(())
        });
    }
    let child = command.spawn()?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(&ours, &mut [io::IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let listener = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((child, listener.ok_or(io::ErrorKind::UnexpectedEof)?))
}

/// Starts a command in the same way, without a filter.
#[allow(unsafe_code)]
#[allow(dead_code)]
pub(crate) fn spawn_plain(mut command: Command) -> io::Result<Child> {
    // SAFETY: it only makes a system call.
    unsafe {
        command.pre_exec(|| Ok(rustix::thread::set_no_new_privs(true)?));
    }
    command.spawn()
}

/// One entry of a tree, in a form that shows differences.
pub(crate) type Tree = BTreeMap<PathBuf, String>;

/// A tree with kinds, modes, content and hard links: names of one file share the first of them.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                folders.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mode = meta.mode() & 0o7777;
        let text = if meta.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else if meta.is_dir() {
            format!("dir {mode:o}")
        } else if meta.is_file() {
            let leader = first.entry(meta.ino()).or_insert_with(|| path.clone());
            let content = fs::read(&path).unwrap();
            let names = if meta.nlink() > 1 { format!(" = {}", leader.display()) } else { String::new() };
            format!("file {mode:o} {} {:?}{names}", content.len(), String::from_utf8_lossy(&content))
        } else {
            format!("special {mode:o}")
        };
        found.insert(path, text);
    }
    found
}

/// The differences between two trees, for a failed test.
pub(crate) fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let paths: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let differ = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let short = |text: Option<&String>| text.map_or("-".to_owned(), |text| text.chars().take(120).collect());
    differ
        .map(|path| format!("{}: {} -> {}", path.display(), short(before.get(path)), short(after.get(path))))
        .collect()
}

/// Takes effects back, one by one from the last to the first.
pub(crate) fn restore(effects: &Effects) {
    for effect in effects.list.iter().rev() {
        match effect {
            Effect::Move { from, to } => {
                assert!(fs::symlink_metadata(from).is_err(), "{effect:?}: the old path is taken");
                fs::rename(to, from).unwrap_or_else(|error| panic!("{effect:?}: {error}"));
            }
            Effect::Mode { path, before, .. } => {
                fs::set_permissions(path, fs::Permissions::from_mode(*before))
                    .unwrap_or_else(|error| panic!("{effect:?}: {error}"));
            }
            Effect::Set { path, before, after } => {
                // Content that only has other attributes now is where it was.
                let content = match before {
                    Old::File { content: OldContent::Current(_), .. } => Some(fs::read(path).unwrap()),
                    _ => None,
                };
                if let New::At { .. } = after {
                    let meta =
                        fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{effect:?}: {error}"));
                    let removed =
                        if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                    removed.unwrap_or_else(|error| panic!("{effect:?}: {error}"));
                }
                put(path, before, content).unwrap_or_else(|error| panic!("{effect:?}: {error}"));
            }
        }
    }
}

fn put(path: &Path, old: &Old, content: Option<Vec<u8>>) -> io::Result<()> {
    match old {
        Old::Missing => Ok(()),
        Old::File { linked: Some(linked), .. } => fs::hard_link(linked, path),
        Old::File { content: OldContent::Kept(kept), attributes, .. } => {
            fs::write(path, content.map_or_else(|| fs::read(kept), Ok)?)?;
            fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode))
        }
        Old::File { attributes, .. } => {
            fs::write(path, content.unwrap_or_default())?;
            fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode))
        }
        Old::Link { target, .. } => symlink(target, path),
        Old::Directory { attributes } => {
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode))
        }
        Old::Tree(entries) => {
            for (below, old) in entries {
                let place =
                    if below.as_os_str().as_bytes().is_empty() { path.to_owned() } else { path.join(below) };
                match old {
                    Old::Directory { .. } => fs::create_dir(&place)?,
                    old => put(&place, old, None)?,
                }
            }
            for (below, old) in entries.iter().rev() {
                if let Old::Directory { attributes } = old {
                    let place = if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) };
                    fs::set_permissions(place, fs::Permissions::from_mode(attributes.mode))?;
                }
            }
            Ok(())
        }
    }
}

/// Runs a script, takes it back, and demands that the workspace is as before. Returns what it had changed.
pub(crate) fn undone(rig: &Rig, script: &str) -> Effects {
    let before = tree(&rig.ws());
    let effects = rig.run(script);
    restore(&effects);
    let after = tree(&rig.ws());
    let differences = differences(&before, &after);
    assert!(differences.is_empty(), "{script}\n{differences:#?}\n{effects:#?}");
    assert_eq!(effects.not_kept, [], "{script}");
    assert_eq!(effects.unrecorded, Vec::<PathBuf>::new(), "{script}");
    effects
}
