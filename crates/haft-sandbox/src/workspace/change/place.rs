//! One name in one open directory: where a change happens. It knows nothing of content.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::look::look;
use super::{Result, Workspace, conflict};
use crate::change::{ChangeErrorKind, Durability, State, TempName};
use crate::error::PathErrorKind;
use crate::path::AbsPath;
use crate::stat::Stat;
use crate::workspace::Folder;

/// A name in an open directory.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
}

/// The parent directories that a change has made, outermost first.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<Spot>);

impl Made {
    /// Removes those that are still empty.
    pub(super) fn remove_empty(&self) {
        for spot in self.0.iter().rev() {
            let _ = rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR);
        }
    }
}

impl Workspace {
    pub(super) fn spot_to_read(&self, path: &AbsPath) -> Result<Spot> {
        spot(self.admit(path.as_path())?, path)
    }

    pub(super) fn spot_to_change(&self, path: &AbsPath) -> Result<Spot> {
        spot(self.writable(path)?, path)
    }

    /// Where to remove or move something; a folder of the workspace is refused.
    pub(super) fn spot_to_empty(&self, path: &AbsPath) -> Result<Spot> {
        let folder = self.writable(path)?;
        match self.is_protected(path) {
            true => Err(ChangeErrorKind::Protected),
            false => spot(folder, path),
        }
    }

    /// Where to create or replace something; makes missing parent directories.
    pub(super) fn spot_to_fill(&self, path: &AbsPath, durability: Durability) -> Result<(Spot, Made)> {
        let folder = self.writable(path)?;
        let (parent, name) = split(folder, path)?;
        crate::sandbox::made_by_haft(path.as_path());
        let mut made = Made::default();
        match make_parents(folder, parent, durability, &mut made) {
            Ok(dir) => Ok((Spot { dir, name: name.to_owned() }, made)),
            Err(kind) => {
                made.remove_empty();
                Err(kind)
            }
        }
    }
}

fn split<'a>(folder: &Folder, path: &'a AbsPath) -> Result<(&'a Path, &'a OsStr)> {
    let below = path.as_path().strip_prefix(&folder.path).map_err(|_| PathErrorKind::Outside)?;
    match (below.parent(), below.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(ChangeErrorKind::Protected),
    }
}

fn spot(folder: &Folder, path: &AbsPath) -> Result<Spot> {
    let (parent, name) = split(folder, path)?;
    Ok(Spot { dir: folder.handle.open_changing(parent)?, name: name.to_owned() })
}

fn make_parents(folder: &Folder, below: &Path, durability: Durability, made: &mut Made) -> Result<OwnedFd> {
    match folder.handle.open_changing(below) {
        Err(PathErrorKind::NotFound) => {}
        opened => return Ok(opened?),
    }
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(PathErrorKind::NotFound.into());
    };
    let spot = Spot { dir: make_parents(folder, parent, durability, made)?, name: name.to_owned() };
    match rustix::fs::mkdirat(&spot.dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => {
            spot.settle(durability)?;
            let dir = open_directory(&spot.dir, name);
            made.0.push(spot);
            Ok(dir?)
        }
        // Another program has made it meanwhile.
        Err(Errno::EXIST) => Ok(open_directory(&spot.dir, name)?),
        Err(errno) => Err(errno.into()),
    }
}

fn open_directory(dir: &OwnedFd, name: &OsStr) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

impl Spot {
    /// Syncs the directory, unless `durability` says not to.
    pub(super) fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Full => Ok(rustix::fs::fsync(&self.dir)?),
            Durability::Fast => Ok(()),
        }
    }

    /// Renames the file to a temporary name.
    pub(super) fn set_aside(&self, temp: &TempName) -> Result<Pinned> {
        match rename_to_nothing(self, &self.name, self, temp.as_str().as_ref()) {
            Err(ChangeErrorKind::Path(PathErrorKind::NotFound)) => return Err(conflict(&State::Missing)),
            done => done?,
        }
        Ok(pin(&self.dir, temp.as_str().as_ref())?)
    }

    /// Renames the file that was set aside back. If another program has used the name meanwhile, its file is newer and the
    /// old one is deleted; a directory, which may hold more than that program knew of, stays under its temporary name. A
    /// file that another program has put under the temporary name is left alone.
    pub(super) fn put_back(&self, temp: &TempName, aside: &Pinned) -> Result<()> {
        let name = OsStr::new(temp.as_str());
        let is_aside = || pin(&self.dir, name).is_ok_and(|found| found.id == aside.id);
        if !is_aside() {
            return Err(ChangeErrorKind::Conflict(format!(
                "what was set aside as `{temp}` is gone, and this"
            )));
        }
        match rename_to_nothing(self, name, self, &self.name) {
            Err(ChangeErrorKind::Exists) if !is_aside() => Ok(()),
            Err(ChangeErrorKind::Exists) => match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => Err(ChangeErrorKind::Conflict(format!(
                    "something made meanwhile (what was set aside stays as `{temp}`)"
                ))),
                done => Ok(done?),
            },
            done => done,
        }
    }

    /// A conflict that describes what is here now.
    pub(super) fn conflict(&self) -> ChangeErrorKind {
        look(&self.dir, &self.name).map_or_else(|kind| kind, |found| conflict(&found))
    }
}

/// Renames, but never over an existing file.
pub(super) fn rename_to_nothing(from: &Spot, old: &OsStr, to: &Spot, new: &OsStr) -> Result<()> {
    match rustix::fs::renameat_with(&from.dir, old, &to.dir, new, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {}
        done => return Ok(done?),
    }
    // Not atomic, for file systems without the flag. Moving a directory below itself also gives EINVAL; the plain rename
    // fails with it again.
    match rustix::fs::statat(&to.dir, new, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(rustix::fs::renameat(&from.dir, old, &to.dir, new)?),
        Ok(_) => Err(ChangeErrorKind::Exists),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether an error means that the file system does not support a rename flag.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// The identity of a file. While its handle is open the kernel does not reuse the inode number, so a new file cannot be
/// mistaken for it.
pub(super) struct Pinned {
    _fd: OwnedFd,
    pub(super) id: (u64, u64),
}

/// Flags to hold on to a file without reading it.
#[cfg(target_os = "linux")]
const PIN: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PIN: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn pin(dir: &OwnedFd, name: &OsStr) -> std::result::Result<Pinned, Errno> {
    let fd = rustix::fs::openat(dir, name, PIN, Mode::empty())?;
    let [device, number, ..] = Stat::from(&rustix::fs::fstat(&fd)?).stamp.as_words();
    Ok(Pinned { _fd: fd, id: (device, number) })
}
