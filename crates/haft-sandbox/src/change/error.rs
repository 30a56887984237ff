//! Why a change was not made. After every such error the old state is in place and no temporary file is left.

use std::io;

use rustix::io::Errno;

use crate::error::{PathError, PathErrorKind};
use crate::stat::Kind;

/// A change that was not made, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(path, kind))]
pub struct ChangeError {
    /// The path, as the workspace shows it.
    pub path: String,
    /// What is wrong.
    pub kind: ChangeErrorKind,
}

/// Why a change was not made.
#[derive(Debug)]
pub enum ChangeErrorKind {
    /// The path cannot be used.
    Path(PathErrorKind),
    /// The folder was added for reading only.
    ReadOnlyFolder,
    /// The path is a folder of the workspace itself, or contains one.
    Protected,
    /// It belongs to haft itself: its settings or its state.
    Guarded,
    /// The path is not as expected; its actual state, in words.
    Conflict(String),
    /// Something is there already.
    Exists,
    /// The directory is not empty.
    NotEmpty,
    /// This kind of thing cannot be changed in this way.
    WrongKind(Kind),
    /// A special file, which undo could not restore, so the directory that contains it is not removed.
    Unkeepable(Kind),
    /// Another file system is mounted there, or somewhere below.
    Mount,
    /// Its folders are nested deeper than so many levels.
    TooDeep(usize),
    /// Source and destination are on different file systems.
    CrossesFileSystems,
    /// The disk is full.
    NoSpace,
    /// The quota of the user is used up.
    Quota,
    /// The file system is mounted for reading only.
    ReadOnlyFileSystem,
    /// The system does not let this user do it.
    Denied(io::Error),
    /// Anything else the system reports.
    System(io::Error),
}

impl ChangeError {
    /// An error about a path, as the workspace shows it.
    pub fn new(path: impl Into<String>, kind: impl Into<ChangeErrorKind>) -> Self {
        Self { path: path.into(), kind: kind.into() }
    }

    /// The error number of the system, if there is one.
    pub fn errno(&self) -> Option<i32> {
        let errno = match &self.kind {
            ChangeErrorKind::NoSpace => Errno::NOSPC,
            ChangeErrorKind::Quota => Errno::DQUOT,
            ChangeErrorKind::ReadOnlyFileSystem => Errno::ROFS,
            ChangeErrorKind::Exists => Errno::EXIST,
            ChangeErrorKind::NotEmpty => Errno::NOTEMPTY,
            ChangeErrorKind::CrossesFileSystems => Errno::XDEV,
            ChangeErrorKind::Path(PathErrorKind::NotFound) => Errno::NOENT,
            ChangeErrorKind::Path(PathErrorKind::AccessDenied) => Errno::ACCESS,
            ChangeErrorKind::Denied(error)
            | ChangeErrorKind::System(error)
            | ChangeErrorKind::Path(PathErrorKind::Io(error)) => return error.raw_os_error(),
            _ => return None,
        };
        Some(errno.raw_os_error())
    }
}

impl From<Errno> for ChangeErrorKind {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => Self::NoSpace,
            Errno::DQUOT => Self::Quota,
            Errno::ROFS => Self::ReadOnlyFileSystem,
            Errno::ACCESS | Errno::PERM => Self::Denied(errno.into()),
            Errno::EXIST => Self::Exists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::XDEV => Self::CrossesFileSystems,
            Errno::BUSY => Self::Mount,
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Self::Path(errno.into()),
            other => Self::System(other.into()),
        }
    }
}

impl From<io::Error> for ChangeErrorKind {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::System(error),
        }
    }
}

impl From<PathErrorKind> for ChangeErrorKind {
    fn from(kind: PathErrorKind) -> Self {
        match kind {
            PathErrorKind::Io(error) => error.into(),
            other => Self::Path(other),
        }
    }
}

impl From<PathError> for ChangeError {
    fn from(error: PathError) -> Self {
        Self::new(error.path, error.kind)
    }
}

fn describe(path: &str, kind: &ChangeErrorKind) -> String {
    match kind {
        ChangeErrorKind::Path(PathErrorKind::Io(error)) | ChangeErrorKind::System(error) => {
            format!("`{path}` cannot be changed: {error}")
        }
        ChangeErrorKind::Path(PathErrorKind::NotFound) => format!("`{path}` does not exist"),
        ChangeErrorKind::Path(PathErrorKind::LinkAppeared | PathErrorKind::Loop) => {
            format!("`{path}` leads through a link that was not there before")
        }
        ChangeErrorKind::Path(PathErrorKind::NotADirectory) => {
            format!("`{path}` leads through something that is not a directory")
        }
        ChangeErrorKind::Path(PathErrorKind::OutsideFocus(focus)) => {
            format!("`{path}` is outside the focus `{focus}`")
        }
        ChangeErrorKind::Path(PathErrorKind::TooLong) => format!("`{path}` is too long, or a name in it is"),
        ChangeErrorKind::Path(PathErrorKind::NotAFile(kind)) | ChangeErrorKind::WrongKind(kind) => {
            format!("`{path}` is a {kind}, which cannot be changed this way")
        }
        ChangeErrorKind::Unkeepable(kind) => {
            format!("`{path}` is a {kind}, which undo could not bring back; nothing was changed")
        }
        ChangeErrorKind::Path(PathErrorKind::Outside) => format!("`{path}` is outside the workspace"),
        ChangeErrorKind::Path(PathErrorKind::AccessDenied) => format!("no permission to change `{path}`"),
        ChangeErrorKind::Path(_) => format!("`{path}` cannot be used"),
        ChangeErrorKind::ReadOnlyFolder => format!("`{path}` lies in a folder that is for reading only"),
        ChangeErrorKind::Protected => {
            format!("`{path}` is a folder of the workspace, or contains one, and cannot be moved or removed")
        }
        ChangeErrorKind::Guarded => {
            format!("`{path}` is one of haft's own settings or records, which tools cannot change")
        }
        ChangeErrorKind::Conflict(found) => {
            format!("`{path}` is not what was expected: {found} is there; nothing was changed")
        }
        ChangeErrorKind::Exists => format!("`{path}` exists already"),
        ChangeErrorKind::NotEmpty => format!("`{path}` is a directory that is not empty"),
        ChangeErrorKind::Mount => {
            format!("another file system is mounted at `{path}` or below it, or it is in use")
        }
        ChangeErrorKind::TooDeep(max) => {
            format!("`{path}` has folders nested over {max} deep, and was not changed; a command can do that")
        }
        ChangeErrorKind::CrossesFileSystems => {
            format!("`{path}` is on another file system than its destination")
        }
        ChangeErrorKind::NoSpace => {
            format!("`{path}` was not changed: there is no space left on the disk (ENOSPC)")
        }
        ChangeErrorKind::Quota => format!("`{path}` was not changed: the disk quota is used up (EDQUOT)"),
        ChangeErrorKind::ReadOnlyFileSystem => {
            format!("`{path}` was not changed: its file system is mounted for reading only (EROFS)")
        }
        ChangeErrorKind::Denied(error) => {
            format!("`{path}` was not changed: this user may not do that ({error})")
        }
    }
}
