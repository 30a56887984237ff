//! The state of a name in an open directory: its kind, attributes and hash.

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

/// Larger files are compared by size and time instead of their hash.
const MAX_HASHED: u64 = 256 << 20;

/// Files up to this size are read in one call.
const MAX_ONE_READ: u64 = 64 << 10;

/// How to find the hash of a file.
#[derive(Clone, Copy)]
pub(super) enum Depth {
    /// Hash its content, unless it is large.
    Hash,
    /// Hash its content, however large it is.
    Whole,
    /// Assume this hash if it has this stamp; otherwise hash its content.
    Take(Hash, Stamp),
    /// Do not read it.
    Times,
}

/// The state of a name, without following a link.
pub(super) fn look(dir: impl AsFd, name: &OsStr) -> Result<State> {
    look_to(dir, name, Depth::Hash)
}

/// The state of a name, with a hash wherever that is needed to compare it with another state.
pub(super) fn look_like(dir: impl AsFd, name: &OsStr, other: &State) -> Result<State> {
    look_to(dir, name, Depth::like(other))
}

impl Depth {
    /// The depth for a comparison: a large file is hashed only if the other state has a hash.
    pub(super) fn like(other: &State) -> Self {
        match other {
            State::File { hash: Some(_), size, .. } if *size > MAX_HASHED => Self::Whole,
            _ => Self::Hash,
        }
    }
}

pub(super) fn look_to(dir: impl AsFd, name: &OsStr, depth: Depth) -> Result<State> {
    look_into(dir, name, depth).map(|(state, _)| state)
}

/// The state of a name, and the open file if it is a regular one.
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

/// The state of a name that is not a regular file.
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
        Depth::Times => None,
        Depth::Hash if stat.size > MAX_HASHED => None,
        _ if stat.size <= MAX_ONE_READ => Some(Hash::of(&read_whole(open, stat.size, MAX_HASHED)?)),
        // Bounded, since the file may be growing.
        _ => Some(Hash::of_reader(open.take(stat.size.max(MAX_HASHED)))?),
    };
    // The width of this field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    let links = raw.st_nlink as u64;
    Ok(State::File { hash, size: stat.size, links, attributes })
}
