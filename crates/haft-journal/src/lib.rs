//! The durable, numbered record of every change, from which undo and redo work. A write-ahead record with the replaced
//! content is on disk before a change happens; if the process dies in between, the next one to use the journal finds out how
//! far the change came and finishes it or rolls it back. It knows files by path, content and attributes, and nothing of
//! tools but their names. What commands change is adopted from a recording; changes by other programs are not in it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft_journal::{Change, Journal, Label, Limits};
//! use haft_sandbox::{Durability, Expect, Store, Workspace};
//!
//! let workspace = Workspace::open(".".as_ref())?;
//! let journal = Journal::open(Store::at(std::env::temp_dir().join("journal")), &workspace, Limits::default())?;
//! let path = workspace.resolve(workspace.root(), "notes.txt")?.path;
//! let label = Label { tool: "write", session: "1", durability: Durability::Full };
//! let write = Change::Write { path, content: b"text".to_vec().into(), expect: Expect::Missing, replaced: None };
//! let recorded = journal.change(&workspace, write, label)?;
//! journal.undo(&workspace, &[recorded.number], label)?;
//! # Ok(())
//! # }
//! ```

#[cfg(target_os = "linux")]
mod adopt;
mod archive;
mod content;
mod dry_run;
mod error;
mod history;
mod log;
mod patched_file;
mod perform;
mod plan;
mod record;
mod recover;
mod undo;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use haft_sandbox::{AbsPath, Durability, Expect, Stamp, Store, StoreLock, Workspace};

#[cfg(target_os = "linux")]
pub use adopt::Command;
pub use content::Content;
pub use dry_run::DryRun;
pub use error::{Conflict, JournalError};
pub use history::{Entry, EntryState, Side, Touched};
use log::Log;
use parking_lot::{Mutex, MutexGuard};
use plan::Plan;
use record::{Intent, Outcome, Record};
pub use undo::Merged;

type Result<T> = std::result::Result<T, JournalError>;

/// Name of the lock that is held while a change is made.
const LOCK: &str = "lock";
/// Byte in the lock's file while a change is being made. It stays there if the process dies.
const UNFINISHED: u8 = b'1';
/// Byte in the lock's file when every change has a recorded outcome.
const SETTLED: u8 = b'0';

/// How long to wait for another process's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// Writes a file; makes it, and missing parent directories, if it does not exist.
    Write {
        /// The file.
        path: AbsPath,
        /// Its whole new content.
        content: Content,
        /// The state that the path must have.
        expect: Expect,
        /// The replaced content, if the caller has it, so that it need not be read again. It is verified when the new
        /// content replaces the file.
        replaced: Option<Replaced>,
    },
    /// Deletes a file, link or directory.
    Delete {
        /// The path to delete.
        path: AbsPath,
        /// The state that the path must have.
        expect: Expect,
        /// What to do with the content of a directory.
        depth: Depth,
    },
    /// Renames a file, link or directory. A directory moves with the content that it has by then.
    Move {
        /// Its path.
        from: AbsPath,
        /// Its new path.
        to: AbsPath,
        /// What to do with a file that is at the new path.
        overwrite: Overwrite,
    },
    /// Renames a file to a path that must not exist and writes new content; its attributes stay.
    Rewrite {
        /// Its path.
        from: AbsPath,
        /// Its new path.
        to: AbsPath,
        /// Its whole new content.
        content: Content,
        /// The state that the path must have.
        expect: Expect,
    },
    /// Sets permission bits of a file or directory: the nine for reading, writing and executing. Set-user-ID, set-group-ID
    /// and sticky bits stay as they are.
    Mode {
        /// The file or directory.
        path: AbsPath,
        /// The permission bits.
        mode: u32,
    },
    /// Makes a directory, and missing parents.
    MakeDirectory {
        /// The directory.
        path: AbsPath,
    },
}

/// The replaced content, and the stamp of its file when it was read.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The whole content.
    pub content: Bytes,
    /// The file's stamp before it was read.
    pub stamp: Stamp,
    /// Whether the stamp was old enough by then that every later change shows in it.
    pub settled: bool,
}

/// What to do with the content of a directory that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Fail unless the directory is empty.
    Empty,
    /// Delete it as well.
    Tree,
}

/// What to do with a file at the target of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Keep it and fail.
    Refuse,
    /// Replace it, if its state is the expected one. Directories are never replaced.
    Replace(Expect),
}

/// Origin of a change, and how durable it must be.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The session.
    pub session: &'a str,
    /// How durable the change and its record must be when it is reported as done.
    pub durability: Durability,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: u64,
    /// Notes for the user: content that was too large to be kept, a broken hard link, old changes that were evicted.
    pub notes: Vec<String>,
}

/// Limits of the journal. It evicts the oldest changes first, a segment at a time, and reports that in notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Total size in bytes.
    pub bytes: u64,
    /// Number of changes.
    pub entries: u64,
    /// Age after which a change is evicted.
    pub age: Duration,
    /// Largest file, in bytes, whose content is kept.
    pub file: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { bytes: 1 << 30, entries: 50_000, age: 90 * day, file: 64 << 20 }
    }
}

/// The journal of one workspace. Several processes may use it concurrently; a lock serialises their changes.
#[derive(Debug)]
pub struct Journal {
    store: Store,
    log: Mutex<Log>,
}

/// The journal while this thread holds its lock.
struct LockedJournal<'a> {
    // Dropped before the guard: two threads share the file lock's handle, so releasing it after another thread has entered
    // would release that thread's lock.
    lock: StoreLock,
    log: MutexGuard<'a, Log>,
}

impl Journal {
    /// Opens the journal in a private folder and recovers from dead processes: a change that is complete counts as done, an
    /// incomplete one is rolled back, and where another program has changed the file since, nothing is touched.
    pub fn open(store: Store, workspace: &Workspace, limits: Limits) -> Result<Self> {
        let journal = Self::at(store, limits);
        journal.lock(workspace)?;
        Ok(journal)
    }

    /// The journal in a private folder, which is read, and recovers from dead processes, on first use.
    /// [`Journal::is_unfinished`] says whether there is something to recover.
    pub fn at(store: Store, limits: Limits) -> Self {
        let log = Mutex::new(Log::new(store.clone(), limits));
        Self { log, store }
    }

    /// Whether a process is making a change right now, or has died while making one.
    pub fn is_unfinished(&self) -> bool {
        self.store.read(LOCK).is_ok_and(|mark| mark.is_some_and(|mark| mark.first() == Some(&UNFINISHED)))
    }

    /// Recovers from dead processes. Does nothing, and does not wait, while a live process uses the journal: that one has
    /// recovered already.
    pub fn recover(&self, workspace: &Workspace) -> Result<()> {
        match self.store.try_lock(LOCK)? {
            None => Ok(()),
            Some(lock) => {
                drop(lock);
                self.lock(workspace).map(drop)
            }
        }
    }

    /// Records a change and makes it.
    pub fn change(&self, workspace: &Workspace, change: Change, label: Label<'_>) -> Result<Recorded> {
        self.make(workspace, &[change], label, &mut || {})
    }

    /// Records a change and makes it, and calls `meanwhile` once writes are on their way to the disk, to overlap with them. It
    /// is not called if the change fails before that.
    pub fn change_while(
        &self,
        workspace: &Workspace,
        change: Change,
        label: Label<'_>,
        meanwhile: impl FnOnce(),
    ) -> Result<Recorded> {
        let mut meanwhile = Some(meanwhile);
        self.make(workspace, &[change], label, &mut || {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile();
            }
        })
    }

    /// Records several changes under one number and makes all of them, or none. Their paths must be different, none inside
    /// another.
    pub fn change_all(
        &self,
        workspace: &Workspace,
        changes: Vec<Change>,
        label: Label<'_>,
    ) -> Result<Recorded> {
        self.make(workspace, &changes, label, &mut || {})
    }

    fn make(
        &self,
        workspace: &Workspace,
        changes: &[Change],
        label: Label<'_>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Recorded> {
        plan::require_disjoint(changes)?;
        let mut locked = self.lock(workspace)?;
        let mut attempt = |method| locked.attempt(workspace, changes, label, method, meanwhile);
        match attempt(plan::MoveMethod::Rename) {
            Err(error) if crosses_file_systems(&error) => attempt(plan::MoveMethod::Copy),
            done => done,
        }
    }

    /// Takes the notes for the user that no change has reported: truncated damage, changes of dead processes that were rolled
    /// back, old changes that were evicted.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock_log().notes)
    }

    fn lock_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Takes the lock, reads what other processes have recorded, and recovers from dead ones.
    fn lock(&self, workspace: &Workspace) -> Result<LockedJournal<'_>> {
        let mut locked = self.lock_without_recovery()?;
        locked.recover_unfinished(&workspace.without_focus())?;
        Ok(locked)
    }

    fn lock_without_recovery(&self) -> Result<LockedJournal<'_>> {
        let mut log = self.lock_log();
        let start = Instant::now();
        let lock = loop {
            match log.lock.try_lock()? {
                Some(lock) => break lock,
                None if start.elapsed() > LOCK_TIMEOUT => return Err(JournalError::Busy),
                None => std::thread::sleep(Duration::from_micros(500)),
            }
        };
        log.catch_up()?;
        Ok(LockedJournal { lock, log })
    }
}

impl LockedJournal<'_> {
    fn attempt(
        &mut self,
        workspace: &Workspace,
        changes: &[Change],
        label: Label<'_>,
        method: plan::MoveMethod,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Recorded> {
        self.log.make_room()?;
        let plan = plan::plan(&mut self.log, workspace, changes, method)?;
        self.execute(workspace, plan, label, None, meanwhile)
    }

    /// Writes the record of a plan and performs it; on any failure, rolls all of it back.
    fn execute(
        &mut self,
        workspace: &Workspace,
        plan: Plan,
        label: Label<'_>,
        undoes: Option<u64>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Recorded> {
        let number = self.log.next();
        let intent = Intent {
            number,
            time: now(),
            tool: label.tool.to_owned(),
            session: label.session.to_owned(),
            undoes,
            steps: plan.steps,
            parents: plan.parents,
            ordered: plan.ordered,
            recording: None,
        };
        self.lock.mark(UNFINISHED)?;
        self.log.append(Record::Intent(intent.clone()), &plan.content)?;
        let mut notes = plan.notes;
        let progress = perform::Progress { lock: &self.lock, number };
        if intent.ordered {
            progress.note(0, label.durability)?;
        }
        let done = perform::perform(
            &self.log,
            workspace,
            &intent,
            plan.in_memory,
            label.durability,
            &progress,
            meanwhile,
        );
        match done {
            Ok(more) => notes.extend(more),
            Err(failed) => return Err(self.roll_back(workspace, &intent, failed)),
        }
        if let Err(error) = self.finish(workspace, &intent, Outcome::Done) {
            // The change was made, and recovery can find that out from the record.
            notes.push(format!("the change was made, but its end could not be recorded yet: {error}"));
        }
        notes.append(&mut self.log.notes);
        Ok(Recorded { number, notes })
    }
}

fn crosses_file_systems(error: &JournalError) -> bool {
    match error {
        JournalError::Change(error) => {
            matches!(error.kind, haft_sandbox::ChangeErrorKind::CrossesFileSystems)
        }
        _ => false,
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn path_of(path: &AbsPath) -> PathBuf {
    path.as_path().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_the_log_holds_the_file_lock() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::at(Store::at(folder.path().join("state")), Limits::default());
        let others = Store::at(folder.path().join("state"));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let locked = journal.lock_without_recovery().unwrap();
                        assert!(others.try_lock(LOCK).unwrap().is_none());
                        drop(locked);
                    }
                });
            }
        });
    }
}
