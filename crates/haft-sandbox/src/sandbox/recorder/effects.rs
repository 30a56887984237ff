//! The effects of a command: what is different now, and where the old side is kept. In forward order: taken back one by one
//! from the last to the first, they restore the workspace.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::change::Attributes;

/// What a command changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The changes that can be undone, in the order in which they can be made.
    pub list: Vec<Effect>,
    /// What was changed and cannot be brought back, each with the reason.
    pub not_kept: Vec<(PathBuf, String)>,
    /// Files that changed while the command ran, by a call that was not recorded or by another program.
    pub unrecorded: Vec<PathBuf>,
    /// Build folders that were written to, each with the number of calls. Their content is not kept.
    pub build_folders: Vec<(PathBuf, u64)>,
    /// Keeps other processes from taking the recording for one whose process died.
    pub(super) held: Held,
}

/// The lock of a recording. It is no part of what the effects are.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(
    #[expect(dead_code, reason = "holds the lock until it is dropped")] pub(super) Option<Arc<OwnedFd>>,
);

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A path changed from one state to another.
    Set {
        /// The path.
        path: PathBuf,
        /// What was there.
        before: Old,
        /// What is there now.
        after: New,
    },
    /// A file, link or directory was renamed; nothing was at the new path.
    Move {
        /// Its old path.
        from: PathBuf,
        /// Its new path.
        to: PathBuf,
    },
    /// Permission bits changed.
    Mode {
        /// The path.
        path: PathBuf,
        /// Where the file is when all effects are made.
        at: PathBuf,
        /// The bits before.
        before: u32,
        /// The bits now.
        after: u32,
    },
}

/// The old side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Old {
    /// Nothing was there.
    Missing,
    /// A regular file.
    File {
        /// Where its content is.
        content: OldContent,
        /// Its size in bytes.
        size: u64,
        /// Its attributes.
        attributes: Attributes,
        /// Another path that was a hard link of the same file.
        linked: Option<PathBuf>,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: OsString,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A directory and all that was in it: relative paths, parents first, the directory itself as the empty path.
    Tree(Vec<(PathBuf, Old)>),
    /// A directory, as an entry of a tree.
    Directory {
        /// Its attributes.
        attributes: Attributes,
    },
}

/// Where old content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldContent {
    /// In this file of the recorder's store.
    Kept(PathBuf),
    /// Still at this path: only attributes changed.
    Current(PathBuf),
}

/// The new side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// Nothing is there.
    Missing,
    /// What is at a path when all effects are made.
    At {
        /// The path.
        path: PathBuf,
        /// Paths below it that another effect moves there later.
        except: Vec<PathBuf>,
    },
}

impl Effect {
    /// The path that it is about; the new one of a move.
    pub fn path(&self) -> &Path {
        match self {
            Self::Set { path, .. } | Self::Mode { path, .. } => path,
            Self::Move { to, .. } => to,
        }
    }
}

impl Old {
    /// Calls `each` with every file of the store that it needs.
    pub fn for_each_kept<'a>(&'a self, each: &mut dyn FnMut(&'a Path)) {
        match self {
            Self::File { content: OldContent::Kept(path), .. } => each(path),
            Self::Tree(entries) => entries.iter().for_each(|(_, old)| old.for_each_kept(each)),
            _ => {}
        }
    }
}

impl Effects {
    /// Whether the command changed nothing that counts.
    pub fn is_empty(&self) -> bool {
        let Self { list, not_kept, unrecorded, build_folders, held: _ } = self;
        list.is_empty() && not_kept.is_empty() && unrecorded.is_empty() && build_folders.is_empty()
    }
}
