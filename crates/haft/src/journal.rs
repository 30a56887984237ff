//! The durable, numbered record of every change, from which undo and redo work. What is about to happen is
//! on disk before it happens, together with what it replaces; a process that dies in between leaves enough
//! to tell whether it happened, and the next one to use the journal finishes or takes back the rest. It
//! knows files by path, content and attributes, and nothing of tools but their names. Changes that other
//! programs make, such as those a shell runs, are not in it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::journal::{Change, Journal, Label, Limits};
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

mod content;
mod error;
mod history;
mod keep;
mod log;
mod perform;
mod plan;
mod record;
mod recover;
mod rehearse;
mod splice;
mod undo;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use haft_sandbox::{AbsPath, Durability, Expect, Stamp, Store, StoreLock, Workspace};

pub use content::Content;
pub use error::{Conflict, JournalError};
pub use history::{Entry, EntryState, Side, Touched};
use log::Log;
use parking_lot::{Mutex, MutexGuard};
use plan::Plan;
use record::{Intent, Outcome, Record};
pub use rehearse::Rehearsal;
pub use undo::Merged;

type Result<T> = std::result::Result<T, JournalError>;

/// The lock that is held while a change is made, and what is marked in it.
const LOCK: &str = "lock";
const UNFINISHED: u8 = b'1';
const SETTLED: u8 = b'0';

/// How long to wait for another process before giving up.
const PATIENCE: Duration = Duration::from_secs(30);

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// A file gets this content; it is made where it is missing, with the directories on the way.
    Write {
        /// The file.
        path: AbsPath,
        /// All of its new content.
        content: Content,
        /// What must be there.
        expect: Expect,
        /// The content that is replaced, where it is at hand: then it need not be read again. It is
        /// compared with what comes out when the new content takes its place.
        replaced: Option<Replaced>,
    },
    /// A file, link or directory goes.
    Delete {
        /// What goes.
        path: AbsPath,
        /// What must be there.
        expect: Expect,
        /// What becomes of the content of a directory.
        depth: Depth,
    },
    /// A file, link or directory gets another name. A directory takes along whatever is in it by then.
    Move {
        /// Its name.
        from: AbsPath,
        /// Its new name.
        to: AbsPath,
        /// What becomes of a file that has this name.
        overwrite: Overwrite,
    },
    /// A file gets another name, where nothing may be, and this content; its attributes stay.
    Rewrite {
        /// Its name.
        from: AbsPath,
        /// Its new name.
        to: AbsPath,
        /// All of its new content.
        content: Content,
        /// What must be there.
        expect: Expect,
    },
    /// A file or directory gets other permission bits. Only the nine bits for reading, writing and
    /// executing are set; set-user-ID and its like stay as they are.
    Mode {
        /// The file or directory.
        path: AbsPath,
        /// The permission bits.
        mode: u32,
    },
    /// A directory is made, with those on the way.
    MakeDirectory {
        /// The directory.
        path: AbsPath,
    },
}

/// Content that is replaced, and the stamp of the file when it was read.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// All of it.
    pub content: Bytes,
    /// The stamp before it was read.
    pub stamp: Stamp,
    /// Whether the stamp was old enough by then for every change since to show in it.
    pub settled: bool,
}

/// What becomes of the content of a directory that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// There must be none.
    Empty,
    /// It goes as well.
    Tree,
}

/// What becomes of a file in the way of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays, and the move fails.
    Refuse,
    /// It is replaced, if it is what is expected. Directories are never replaced.
    Replace(Expect),
}

/// Who makes a change, and how surely it must be on disk.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The session.
    pub session: &'a str,
    /// How surely the change and its record must be on disk when it is reported as done.
    pub durability: Durability,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: u64,
    /// What the user should hear about: content that was too large to be kept, a hard link that was
    /// broken up, old changes that had to go.
    pub notes: Vec<String>,
}

/// How much the journal keeps. The oldest changes go first, some at a time, and that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes altogether.
    pub bytes: u64,
    /// Changes altogether.
    pub entries: u64,
    /// How long a change is kept at least while there is room.
    pub age: Duration,
    /// Content of a larger file is not kept.
    pub file: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { bytes: 1 << 30, entries: 50_000, age: 90 * day, file: 64 << 20 }
    }
}

/// The journal of one workspace. Several processes may use it at once; changes happen one after another.
#[derive(Debug)]
pub struct Journal {
    store: Store,
    log: Mutex<Log>,
}

/// The journal while nobody else uses it.
struct Held<'a> {
    // Let go first: once another thread has the log, the lock that both take would be that thread's.
    lock: StoreLock,
    log: MutexGuard<'a, Log>,
}

impl Journal {
    /// Opens the journal in a private folder. What a dead process left unfinished is settled: a change
    /// that is complete counts as done, one that is not is taken back, and where somebody else has changed
    /// the file since, nothing is touched.
    pub fn open(store: Store, workspace: &Workspace, limits: Limits) -> Result<Self> {
        let journal = Self::at(store, limits);
        journal.hold(workspace)?;
        Ok(journal)
    }

    /// The journal in a private folder, of which nothing is read until it is used. What a dead process left
    /// unfinished is settled then; [`Journal::is_unfinished`] tells whether that should be now.
    pub fn at(store: Store, limits: Limits) -> Self {
        let log = Mutex::new(Log::new(store.clone(), limits));
        Self { log, store }
    }

    /// Whether somebody is making a change right now, or has died while making one.
    pub fn is_unfinished(&self) -> bool {
        self.store.read(LOCK).is_ok_and(|mark| mark.is_some_and(|mark| mark.first() == Some(&UNFINISHED)))
    }

    /// Settles what a dead process left unfinished. While somebody alive uses the journal, there is nothing
    /// to settle, and nobody is waited for.
    pub fn recover(&self, workspace: &Workspace) -> Result<()> {
        match self.store.try_lock(LOCK)? {
            None => Ok(()),
            Some(lock) => {
                drop(lock);
                self.hold(workspace).map(drop)
            }
        }
    }

    /// Records a change and makes it.
    pub fn change(&self, workspace: &Workspace, change: Change, label: Label<'_>) -> Result<Recorded> {
        self.make(workspace, &[change], label, &mut || {})
    }

    /// The same, and `meanwhile` is done when the disk has been given something to do, if it comes to that.
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

    /// Records several changes under one number and makes all of them, or none. They must concern
    /// different places, none inside another.
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
        plan::require_apart(changes)?;
        let mut held = self.hold(workspace)?;
        let mut attempt = |moves| held.attempt(workspace, changes, label, moves, meanwhile);
        match attempt(plan::Moves::ByName) {
            Err(error) if crosses_file_systems(&error) => attempt(plan::Moves::ByCopy),
            done => done,
        }
    }

    /// What happened that the user should hear about and that no change has reported: damage that was cut
    /// off, changes of a dead process that were taken back, old changes that had to go.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock_here().notes)
    }

    fn lock_here(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Waits for other processes, learns what they did, and settles what dead ones left.
    fn hold(&self, workspace: &Workspace) -> Result<Held<'_>> {
        let mut held = self.hold_as_is()?;
        held.settle_open(&workspace.without_focus())?;
        Ok(held)
    }

    fn hold_as_is(&self) -> Result<Held<'_>> {
        let mut log = self.lock_here();
        let start = Instant::now();
        let lock = loop {
            match log.lock.try_lock()? {
                Some(lock) => break lock,
                None if start.elapsed() > PATIENCE => return Err(JournalError::Busy),
                None => std::thread::sleep(Duration::from_micros(500)),
            }
        };
        log.catch_up()?;
        Ok(Held { lock, log })
    }
}

impl Held<'_> {
    fn attempt(
        &mut self,
        workspace: &Workspace,
        changes: &[Change],
        label: Label<'_>,
        moves: plan::Moves,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Recorded> {
        self.log.make_room()?;
        let plan = plan::plan(&mut self.log, workspace, changes, moves)?;
        self.carry_out(workspace, plan, label, None, meanwhile)
    }

    /// Records a plan and performs it; whatever fails, all of it is taken back.
    fn carry_out(
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
        };
        self.lock.mark(UNFINISHED)?;
        self.log.append(Record::Intent(intent.clone()), &plan.kept)?;
        let mut notes = plan.notes;
        match perform::perform(&self.log, workspace, &intent, plan.at_hand, label.durability, meanwhile) {
            Ok(more) => notes.extend(more),
            Err(failed) => return Err(self.take_back(workspace, &intent, failed)),
        }
        if let Err(error) = self.finish(workspace, &intent, Outcome::Done) {
            // It has happened, and what is on record is enough to find that out.
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

fn path_of(place: &AbsPath) -> PathBuf {
    place.as_path().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_log_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::at(Store::at(folder.path().join("state")), Limits::default());
        let others = Store::at(folder.path().join("state"));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let held = journal.hold_as_is().unwrap();
                        assert!(others.try_lock(LOCK).unwrap().is_none());
                        drop(held);
                    }
                });
            }
        });
    }
}
