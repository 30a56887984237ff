//! Why a path could not be used. Errors keep the path as the caller wrote it, not what it resolved to, so that the message
//! matches the request.

use std::io;

use rustix::io::Errno;

use crate::stat::Kind;

/// A path that could not be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(path, kind, obstacle.as_ref()))]
pub struct PathError {
    /// The path as written; truncated if it is longer than any path can be.
    pub path: String,
    /// What is wrong with it.
    pub kind: PathErrorKind,
    /// The component that is in the way, if it is not the path itself.
    pub obstacle: Option<Obstacle>,
}

/// A component of a path that is missing or not a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The path up to it, as written.
    pub part: String,
    /// Its kind; `None` if it is missing.
    pub kind: Option<Kind>,
}

impl PathError {
    pub(crate) fn new(path: impl Into<String>, kind: impl Into<PathErrorKind>) -> Self {
        let mut path = path.into();
        if let Some((end, _)) = path.char_indices().nth(MAX_KEPT) {
            path.truncate(end);
            path.push('…');
        }
        Self { path, kind: kind.into(), obstacle: None }
    }
}

/// Longest path that an error keeps, in characters: as many as a path can have bytes.
const MAX_KEPT: usize = 4096;

/// What can be wrong with a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// The path is empty.
    Empty,
    /// The path contains a NUL byte, which no file name can.
    NulByte,
    /// The path, or one name in it, is longer than the system allows.
    TooLong,
    /// The path lies in none of the workspace's folders.
    Outside,
    /// The path lies in the workspace but outside of its focus, which is named.
    OutsideFocus(String),
    /// The path does not exist.
    NotFound,
    /// The path, or a component of it, should be a directory and is not.
    NotADirectory,
    /// The path is of this kind instead of a regular file.
    NotAFile(Kind),
    /// The system denies this user access.
    AccessDenied,
    /// Too many links, or a cycle of them.
    Loop,
    /// A link has appeared on the path since it was resolved.
    LinkAppeared,
    /// The root of the whole file system cannot be a workspace folder.
    RootRefused,
    /// Anything else the system reports.
    Io(io::Error),
}

impl From<Errno> for PathErrorKind {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ACCESS | Errno::PERM => Self::AccessDenied,
            Errno::LOOP => Self::Loop,
            Errno::NAMETOOLONG => Self::TooLong,
            Errno::XDEV => Self::Outside,
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for PathErrorKind {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::Io(error),
        }
    }
}

/// Longest path that a message shows, in characters.
const MAX_SHOWN: usize = 300;

fn describe(path: &str, kind: &PathErrorKind, obstacle: Option<&Obstacle>) -> String {
    let path = shorten(&path.replace('\0', "\\0"));
    if let Some(Obstacle { part, kind }) = obstacle {
        let what = match kind {
            Some(kind) => format!("is a {kind}, not a folder"),
            None => "does not exist".to_owned(),
        };
        return match path.trim_end_matches(['/', '.']) == part {
            true => format!("`{part}` {what}"),
            false => format!("`{}` {what}, so `{path}` leads nowhere", shorten(part)),
        };
    }
    match kind {
        PathErrorKind::Empty => "the path is empty".to_owned(),
        PathErrorKind::NulByte => format!("`{path}` contains a NUL byte"),
        PathErrorKind::TooLong => format!("`{path}` is too long for a path, or a name in it is"),
        PathErrorKind::Outside => format!("`{path}` is outside the workspace"),
        PathErrorKind::OutsideFocus(focus) => format!("`{path}` is outside the focus `{focus}`"),
        PathErrorKind::NotFound => format!("`{path}` does not exist"),
        PathErrorKind::NotADirectory => {
            format!("`{path}` is not a directory, or leads through something that is not")
        }
        PathErrorKind::NotAFile(kind) => format!("`{path}` is a {kind}, not a regular file"),
        PathErrorKind::AccessDenied => format!("no permission to use `{path}`"),
        PathErrorKind::Loop => format!("`{path}` leads through too many links"),
        PathErrorKind::LinkAppeared => {
            format!("`{path}` was replaced by a link while it was being used")
        }
        PathErrorKind::RootRefused => {
            format!("`{path}` is the root of the file system and cannot be a workspace folder")
        }
        PathErrorKind::Io(error) => format!("`{path}` cannot be used: {error}"),
    }
}

fn shorten(path: &str) -> String {
    match path.char_indices().nth(MAX_SHOWN) {
        Some((cut, _)) => format!("{}…", &path[..cut]),
        None => path.to_owned(),
    }
}
