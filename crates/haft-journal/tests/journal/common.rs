//! What the tests of the journal share.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use haft_journal::{Change, Depth, Journal, JournalError, Label, Limits, Overwrite, Recorded};
use haft_sandbox::{AbsPath, Durability, Expect, Store, Workspace};

pub(crate) const FAST: Label<'static> = Label { tool: "test", session: "s", durability: Durability::Fast };
pub(crate) const FULL: Label<'static> = Label { tool: "test", session: "s", durability: Durability::Full };

/// A workspace, its journal and a folder outside.
pub(crate) struct Fixture {
    pub(crate) base: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) journal: Journal,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let base = tempfile::tempdir().unwrap();
        for dir in ["ws", "out"] {
            std::fs::create_dir(base.path().join(dir)).unwrap();
        }
        std::fs::write(base.path().join("out/canary.txt"), "canary").unwrap();
        let workspace = Workspace::open(&base.path().join("ws")).unwrap();
        let journal = Journal::open(Store::at(base.path().join("state")), &workspace, limits).unwrap();
        Self { base, workspace, journal }
    }

    /// As another process, or this one after a crash, would open it.
    pub(crate) fn reopen(&self) -> Journal {
        self.reopen_with(Limits::default())
    }

    pub(crate) fn reopen_with(&self, limits: Limits) -> Journal {
        Journal::open(Store::at(self.base.path().join("state")), &self.workspace, limits).unwrap()
    }

    pub(crate) fn on_disk(&self, name: &str) -> PathBuf {
        self.base.path().join("ws").join(name)
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.base.path().join("out")
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.on_disk(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.on_disk(name)).ok()
    }

    pub(crate) fn place(&self, name: &str) -> AbsPath {
        AbsPath::lexical(&self.workspace.root().as_path().join(name))
    }

    pub(crate) fn write_change(&self, name: &str, content: &str) -> Change {
        Change::Write {
            path: self.place(name),
            content: content.as_bytes().to_vec().into(),
            expect: Expect::Anything,
            replaced: None,
        }
    }

    pub(crate) fn delete_change(&self, name: &str) -> Change {
        Change::Delete { path: self.place(name), expect: Expect::Anything, depth: Depth::Tree }
    }

    pub(crate) fn move_change(&self, from: &str, to: &str, overwrite: Overwrite) -> Change {
        Change::Move { from: self.place(from), to: self.place(to), overwrite }
    }

    pub(crate) fn make(&self, change: Change) -> Result<Recorded, JournalError> {
        self.journal.change(&self.workspace, change, FAST)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> u64 {
        self.make(self.write_change(name, content)).unwrap().number
    }

    pub(crate) fn undo(&self, number: u64) -> Result<Vec<Recorded>, JournalError> {
        self.journal.undo(&self.workspace, &[number], FAST)
    }

    pub(crate) fn redo(&self, number: u64) -> Result<Vec<Recorded>, JournalError> {
        self.journal.redo(&self.workspace, &[number], FAST)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        snapshot(&self.base.path().join("ws"))
    }
}

pub(crate) type Snapshot = BTreeMap<PathBuf, String>;

/// Everything below a folder: kind, mode, owner, content or target, and the times of files.
pub(crate) fn snapshot(root: &Path) -> Snapshot {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let owner = (meta.uid(), meta.gid());
            let what = if meta.is_dir() {
                open.push(path.clone());
                format!("dir {:o} {owner:?}", meta.permissions().mode())
            } else if meta.is_symlink() {
                format!("link {:?} {owner:?}", std::fs::read_link(&path).unwrap())
            } else {
                let content = std::fs::read(&path).unwrap();
                let times = (meta.mtime(), meta.mtime_nsec());
                let mode = meta.permissions().mode();
                format!("file {mode:o} {owner:?} {times:?} {:?}", content.escape_ascii().to_string())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    found
}

/// Temporary files that were left anywhere below.
pub(crate) fn leftovers(root: &Path) -> Vec<PathBuf> {
    let is_temp = |path: &PathBuf| {
        let name = path.file_name().unwrap().as_bytes();
        name.starts_with(b".haft-") && name.ends_with(b".tmp")
    };
    snapshot(root).into_keys().filter(is_temp).collect()
}
