//! Why a path could not be used. The text of the path is kept as it was written, so that the answer
//! speaks of what was asked for and not of what it turned into.

use std::io;

use rustix::io::Errno;

use crate::stat::Kind;

/// A path that could not be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(path, kind, obstacle.as_ref()))]
pub struct PathError {
    /// The path as it was written; the beginning of one that is longer than any path can be.
    pub path: String,
    /// What is wrong with it.
    pub kind: PathErrorKind,
    /// What is in the way, where it is not the path itself.
    pub obstacle: Option<Obstacle>,
}

/// Something on the way of a path that the path cannot lead through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The beginning of the path that leads to it, as it was written.
    pub part: String,
    /// What is there; nothing is, if this is `None`.
    pub kind: Option<Kind>,
}

impl PathError {
    pub(crate) fn new(path: impl Into<String>, kind: impl Into<PathErrorKind>) -> Self {
        let mut path = path.into();
        if let Some((end, _)) = path.char_indices().nth(MAX_SHOWN) {
            path.truncate(end);
            path.push('…');
        }
        Self { path, kind: kind.into(), obstacle: None }
    }
}

/// As many characters of a path are shown as a path can have bytes.
const MAX_SHOWN: usize = 4096;

/// What can be wrong with a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// There is no text.
    Empty,
    /// The text contains a NUL byte, which no file name can.
    NulByte,
    /// The path, or one name in it, is longer than the system allows.
    TooLong,
    /// The place lies in none of the workspace's folders.
    Outside,
    /// The place lies in the workspace but not in the focus, which is named.
    OutsideFocus(String),
    /// Nothing is there.
    NotFound,
    /// The place, or something on the way to it, should be a directory and is not.
    NotADirectory,
    /// A regular file was needed; this was found.
    NotAFile(Kind),
    /// The system does not let this user in.
    AccessDenied,
    /// Links turn in a circle, or there are too many.
    Loop,
    /// A link has taken the place of something that was not one when the path was resolved.
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

/// How much of a path an error repeats: enough to recognise it.
const SHOWN: usize = 300;

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
    match path.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &path[..cut]),
        None => path.to_owned(),
    }
}
