//! Errors of the journal.

use std::io;
use std::path::PathBuf;

use haft_sandbox::{ChangeError, names};

/// Why a change was not made, undone or redone. Nothing was changed unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The change itself failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The journal cannot be read or written; without a record nothing is changed.
    #[error("the journal cannot be used, so nothing was changed: {0}")]
    Unusable(#[from] io::Error),
    /// Another process has held the journal's lock for too long.
    #[error("the journal is held by another process")]
    Busy,
    /// Two changes of one group have the same path, or one inside the other.
    #[error("`{}` is named more than once in one group of changes", names::show(.0))]
    SamePlace(PathBuf),
    /// A path is not as the change left it.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// The journal has no such number, or has evicted it; the second is the oldest number.
    #[error("{}", unknown(*.0, *.1))]
    Unknown(u64, u64),
    /// There is nothing to undo or redo.
    #[error("change {number} {why}")]
    NothingToDo {
        /// The number.
        number: u64,
        /// Why there is nothing to do.
        why: &'static str,
    },
    /// The content was too large to be stored, or is gone.
    #[error("the content of `{}` ({size} bytes) was not kept, so it cannot be brought back", names::show(.path))]
    NotKept {
        /// The path.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The change failed, and rolling back its completed steps failed as well.
    #[error("{cause}; taking back what was already done failed too: {then}")]
    HalfDone {
        /// The first failure.
        cause: Box<JournalError>,
        /// The failure of the roll-back.
        then: Box<JournalError>,
    },
}

/// A path that is not as a change left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The change that was to be undone or redone.
    pub number: u64,
    /// The path.
    pub path: PathBuf,
    /// The recorded state, in words.
    pub recorded: String,
    /// The actual state, in words.
    pub found: String,
    /// The recorded content, if it was stored.
    pub recorded_content: Option<Vec<u8>>,
    /// The actual content, if it is a file and not too large.
    pub found_content: Option<Vec<u8>>,
}

impl JournalError {
    /// Whether content was not found.
    pub(super) fn is_missing_content(&self) -> bool {
        match self {
            Self::NotKept { .. } => true,
            Self::Conflict(conflict) => conflict.recorded_content.is_none(),
            _ => false,
        }
    }
}

/// The message for an unknown number; names the oldest one if the number is older.
fn unknown(number: u64, oldest: u64) -> String {
    let since =
        if number < oldest { format!("; the oldest it still has is {oldest}") } else { String::new() };
    format!("the journal has no change {number}{since}")
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, path, recorded, found, .. } = self;
        let path = names::show(path);
        write!(f, "`{path}` has changed since change {number}: it left {recorded}, now there is {found}")
    }
}
