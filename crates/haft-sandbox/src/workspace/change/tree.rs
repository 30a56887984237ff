//! Reading and removing directory trees, from open directory to open directory: follows no link and crosses no mount.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::Result;
use super::look::{Depth, look_to};
use crate::change::{ChangeErrorKind, State, TreeEntry};
use crate::stat::Kind;

/// Most levels of a tree: each of them is an open directory and a place on the stack.
const MAX_LEVELS: usize = 256;

/// Refuses a directory at a level that is too deep.
fn require_level(level: usize) -> Result<()> {
    if level < MAX_LEVELS { Ok(()) } else { Err(ChangeErrorKind::TooDeep(MAX_LEVELS)) }
}

/// The states of a name and everything below it, directories before their content.
pub(super) fn read(dir: impl AsFd, name: &OsStr) -> Result<Vec<TreeEntry>> {
    let mut entries = Vec::new();
    collect(dir.as_fd(), name, PathBuf::new(), Depth::Hash, &mut entries, 0)?;
    Ok(entries)
}

/// Like [`read`], but without reading the content of files.
pub(super) fn outline(dir: impl AsFd, name: &OsStr) -> Result<Vec<TreeEntry>> {
    let mut entries = Vec::new();
    collect(dir.as_fd(), name, PathBuf::new(), Depth::Times, &mut entries, 0)?;
    Ok(entries)
}

fn collect(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    below: PathBuf,
    depth: Depth,
    entries: &mut Vec<TreeEntry>,
    level: usize,
) -> Result<()> {
    require_level(level)?;
    let state = look_to(dir, name, depth)?;
    let is_directory = matches!(state, State::Directory { .. });
    entries.push(TreeEntry { below: below.clone(), state });
    if is_directory {
        let inner = open_here(dir, name)?;
        for name in names(&inner)? {
            collect(inner.as_fd(), &name, below.join(&name), depth, entries, level + 1)?;
        }
    }
    Ok(())
}

/// Refuses a directory that is a mount point or has one below.
pub(super) fn require_no_mounts(dir: impl AsFd, name: &OsStr) -> Result<()> {
    require_no_mounts_at(dir.as_fd(), name, 0)
}

fn require_no_mounts_at(dir: BorrowedFd<'_>, name: &OsStr, level: usize) -> Result<()> {
    require_level(level)?;
    let inner = match open_here(dir, name) {
        Err(ChangeErrorKind::Path(crate::error::PathErrorKind::NotADirectory)) => {
            return Err(ChangeErrorKind::WrongKind(Kind::File));
        }
        opened => opened?,
    };
    for name in names(&inner)? {
        let raw = rustix::fs::statat(&inner, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if rustix::fs::FileType::from_raw_mode(raw.st_mode).is_dir() {
            require_no_mounts_at(inner.as_fd(), &name, level + 1)?;
        }
    }
    Ok(())
}

/// The first path below a directory with a matching name. Directories that cannot be opened, mounts, and what is too deep are
/// skipped: they can be neither removed nor moved.
pub(super) fn find(dir: impl AsFd, name: &OsStr, is_match: &dyn Fn(&OsStr) -> bool) -> Option<PathBuf> {
    find_at(dir.as_fd(), name, is_match, 0)
}

fn find_at(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    is_match: &dyn Fn(&OsStr) -> bool,
    level: usize,
) -> Option<PathBuf> {
    require_level(level).ok()?;
    let inner = open_here(dir, name).ok()?;
    names(&inner).ok()?.into_iter().find_map(|name| match is_match(&name) {
        true => Some(PathBuf::from(name)),
        false => find_at(inner.as_fd(), &name, is_match, level + 1).map(|below| Path::new(&name).join(below)),
    })
}

/// Removes a name, with its content if it is a directory. A missing one is no error.
pub(super) fn remove(dir: impl AsFd, name: &OsStr) -> Result<()> {
    remove_at(dir.as_fd(), name, 0)
}

fn remove_at(dir: BorrowedFd<'_>, name: &OsStr, level: usize) -> Result<()> {
    require_level(level)?;
    // For a directory, systems differ between these two; for a file, EPERM is a refusal.
    let refusal = match unlink(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(errno @ (Errno::ISDIR | Errno::PERM)) => errno,
        Err(errno) => return Err(errno.into()),
    };
    let inner = match open_here(dir, name) {
        Err(ChangeErrorKind::Path(_)) => return Err(refusal.into()),
        Err(ChangeErrorKind::Denied(error)) => match super::attributes::set_mode(dir, name, 0o700) {
            Ok(()) => open_here(dir, name)?,
            Err(_) => return Err(ChangeErrorKind::Denied(error)),
        },
        opened => opened?,
    };
    for name in names(&inner)? {
        remove_at(inner.as_fd(), &name, level + 1)?;
    }
    match unlink(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Unlinks a name, also from a directory that is read-only for its owner.
fn unlink(dir: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> std::result::Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name, flags) {
        // Where the mode cannot be changed either, report the failure of the unlink.
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(rustix::fs::fstat(dir)?.st_mode);
            rustix::fs::fchmod(dir, Mode::from_raw_mode(0o700)).map_err(|_| Errno::ACCESS)?;
            let unlinked = rustix::fs::unlinkat(dir, name, flags);
            rustix::fs::fchmod(dir, mode)?;
            unlinked
        }
        done => done,
    }
}

/// Opens a directory below, one name at a time.
pub(super) fn descend(dir: impl AsFd, below: Option<&Path>) -> Result<OwnedFd> {
    let mut fd = dir.as_fd().try_clone_to_owned()?;
    for component in below.unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = component else {
            return Err(crate::error::PathErrorKind::Outside.into());
        };
        fd = open_here(fd.as_fd(), name)?;
    }
    Ok(fd)
}

/// Opens a directory that is not a mount point.
fn open_here(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve) {
            // Old kernels answer ENOSYS, the filters of old container engines EPERM.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(Errno::XDEV) => return Err(ChangeErrorKind::Mount),
            opened => return Ok(opened?),
        }
    }
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    match rustix::fs::fstat(&fd)?.st_dev == rustix::fs::fstat(dir)?.st_dev {
        true => Ok(fd),
        false => Err(ChangeErrorKind::Mount),
    }
}

/// The names in a directory, sorted.
fn names(dir: impl AsFd) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}
