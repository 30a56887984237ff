//! Why the journal did not do what it was asked.

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
    /// Another process has held the journal for too long.
    #[error("the journal is held by another process")]
    Busy,
    /// Several changes of one group concern the same place, or one inside the other.
    #[error("`{}` is named more than once in one group of changes", names::show(.0))]
    SamePlace(PathBuf),
    /// A place is not as it was left.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// There is no such number, or it was evicted.
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
    /// The content that is needed was too large to be kept, or is gone.
    #[error("the content of `{}` ({size} bytes) was not kept, so it cannot be brought back", names::show(.path))]
    NotKept {
        /// The place.
        path: PathBuf,
        /// How large it was.
        size: u64,
    },
    /// The change failed, and taking back the part of it that was already made failed as well.
    #[error("{cause}; taking back what was already done failed too: {then}")]
    HalfDone {
        /// What went wrong first.
        cause: Box<JournalError>,
        /// What went wrong while taking it back.
        then: Box<JournalError>,
    },
}

/// A place that is not as a change left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The change that was to be undone or redone.
    pub number: u64,
    /// The place.
    pub path: PathBuf,
    /// What was recorded, in words.
    pub recorded: String,
    /// What is there, in words.
    pub found: String,
    /// The content that was recorded, if it was kept.
    pub recorded_content: Option<Vec<u8>>,
    /// The content that is there, if it is a file that is not too large.
    pub found_content: Option<Vec<u8>>,
}

impl JournalError {
    /// Whether content was sought that was not found.
    pub(super) fn misses_content(&self) -> bool {
        match self {
            Self::NotKept { .. } => true,
            Self::Conflict(conflict) => conflict.recorded_content.is_none(),
            _ => false,
        }
    }
}

/// Where the journal begins is told to whoever asks for what came before.
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
