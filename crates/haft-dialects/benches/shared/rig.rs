//! A session in a folder of its own, for benches that change files.

use std::path::PathBuf;
use std::sync::Arc;

use haft_core::{Call, Durability, Engine, Mode, Reply, Session, Store, Workspace};
use haft_dialects::Claude;
use haft_journal::{Journal, Limits};
use haft_ops::{EditOptions, Editing};
use haft_text::check::Checkers;
use serde_json::{Value, json};

/// A session whose changes are recorded. It runs on one thread, as it does for a client over lines.
pub(crate) struct Rig {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    session: Session,
}

impl Rig {
    /// A session that changes files so durably, and checks them so.
    pub(crate) fn new(durability: Durability, checkers: Checkers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("ws");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        let store = Store::at(folder.path().join("journal"));
        let journal = Arc::new(Journal::open(store, &workspace, Limits::default()).unwrap());
        let session = Engine::default().session(workspace).dialect(Arc::new(Claude)).mode(Mode::Bypass);
        let session = session.extension(Editing { options: EditOptions::default(), checkers });
        let session = session.journal(journal, durability).start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { folder, runtime, session }
    }

    /// Where a file of the workspace is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ws").join(name)
    }

    /// Makes a call.
    pub(crate) fn call(&self, tool: &str, input: Value) -> Reply {
        self.runtime.block_on(self.session.call(Call::new("1", tool, input)))
    }

    /// Replaces a text in a file.
    pub(crate) fn edit(&self, name: &str, old: &str, new: &str) -> Reply {
        self.call("Edit", json!({"file_path": name, "old_string": old, "new_string": new}))
    }

    /// Puts a file there and has it read.
    pub(crate) fn seen(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
        assert!(!self.call("Read", json!({"file_path": name, "limit": 10})).is_error);
    }
}
