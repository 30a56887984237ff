//! What is under a name in an open directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Result, attributes};
use crate::change::{Hash, State};
use crate::stat::{Kind, Stamp, Stat};
use crate::workspace::read_whole;

/// Larger files are recognised by size and time instead of their content.
const HASHED_UP_TO: u64 = 256 << 20;

/// A smaller file is read at once.
const IN_ONE: u64 = 64 << 10;

/// How closely a file is looked at.
#[derive(Clone, Copy)]
pub(super) enum Depth {
    /// Its content is hashed, unless it is large.
    Hash,
    /// Its content is hashed, however large it is.
    Whole,
    /// Its content is taken to have this hash if it has this stamp.
    Take(Hash, Stamp),
}

/// Looks at a name without following a link.
pub(super) fn look(dir: impl AsFd, name: &OsStr) -> Result<State> {
    look_to(dir, name, Depth::Hash)
}

/// Looks as closely as it takes to compare what is there with another state.
pub(super) fn look_like(dir: impl AsFd, name: &OsStr, other: &State) -> Result<State> {
    look_to(dir, name, Depth::like(other))
}

impl Depth {
    /// A large file is hashed only where there is a hash to compare it with.
    pub(super) fn like(other: &State) -> Self {
        match other {
            State::File { hash: Some(_), size, .. } if *size > HASHED_UP_TO => Self::Whole,
            _ => Self::Hash,
        }
    }
}

pub(super) fn look_to(dir: impl AsFd, name: &OsStr, depth: Depth) -> Result<State> {
    look_into(dir, name, depth).map(|(state, _)| state)
}

/// The same, and a regular file comes with it, open.
pub(super) fn look_into(dir: impl AsFd, name: &OsStr, depth: Depth) -> Result<(State, Option<File>)> {
    let dir = dir.as_fd();
    let raw = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok((State::Missing, None)),
        raw => raw?,
    };
    if Stat::from(&raw).kind == Kind::File {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        return match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(fd) => {
                let open = File::from(fd);
                Ok((file(&open, depth)?, Some(open)))
            }
            Err(Errno::NOENT) => Ok((State::Missing, None)),
            Err(errno) => Err(errno.into()),
        };
    }
    other(dir, name, &raw).map(|state| (state, None))
}

/// What is under a name that is no regular file.
fn other(dir: BorrowedFd<'_>, name: &OsStr, raw: &rustix::fs::Stat) -> Result<State> {
    match Stat::from(raw).kind {
        Kind::Directory => {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let attributes = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
                Ok(fd) => attributes::of(&fd)?,
                Err(Errno::ACCESS) => attributes::plain(raw),
                Err(errno) => return Err(errno.into()),
            };
            Ok(State::Directory { attributes })
        }
        Kind::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            let target = OsString::from_vec(target.into_bytes());
            Ok(State::Link { target, attributes: attributes::plain(raw) })
        }
        special => Ok(State::Special(special)),
    }
}

fn file(open: &File, depth: Depth) -> Result<State> {
    let raw = rustix::fs::fstat(open)?;
    let stat = Stat::from(&raw);
    if stat.kind != Kind::File {
        return Ok(State::Special(stat.kind));
    }
    let attributes = attributes::with_extended(&raw, open)?;
    let hash = match depth {
        Depth::Take(hash, stamp) if stamp == stat.stamp => Some(hash),
        Depth::Hash if stat.size > HASHED_UP_TO => None,
        _ if stat.size <= IN_ONE => Some(Hash::of(&read_whole(open, stat.size, HASHED_UP_TO)?)),
        // A file that grows meanwhile is not followed for ever.
        _ => Some(Hash::of_reader(open.take(stat.size.max(HASHED_UP_TO)))?),
    };
    // The width of this field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    let links = raw.st_nlink as u64;
    Ok(State::File { hash, size: stat.size, links, attributes })
}
