//! Entries of directories by handle and name: paths may be longer than the kernel takes at once, and a link that takes the
//! place of a directory is not followed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, XattrFlags};
use rustix::io::Errno;

use super::listing::Side;
use super::place::Time;
use crate::change::Attributes;

/// Start of the names of extended attributes that overlay mounts keep for themselves.
const OVERLAY: &[u8] = b"user.overlay.";
/// What they put before such a name that the command itself has set.
const ESCAPED: &[u8] = b"user.overlay.overlay.";

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a directory, to list it.
pub(super) fn open_dir(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, name, LIST, Mode::empty())?)
}

/// Opens a file to read it, without ever waiting for one that took its place.
pub(super) fn open_file(dir: impl AsFd, name: &OsStr) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?.into())
}

/// The names in a directory, sorted.
pub(super) fn names(dir: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

// The widths and signs of these fields differ between platforms.
#[allow(clippy::unnecessary_cast)]
pub(super) fn side(dir: impl AsFd, name: &OsStr) -> io::Result<Option<Side>> {
    let found = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found?,
    };
    Ok(Some(Side {
        id: (found.st_dev as u64, found.st_ino as u64),
        kind: FileType::from_raw_mode(found.st_mode),
        mode: found.st_mode as u32 & 0o7777,
        owner: (found.st_uid, found.st_gid),
        size: u64::try_from(found.st_size).unwrap_or(0),
        modified: (found.st_mtime as i64, found.st_mtime_nsec as u32),
        changed: (found.st_ctime as i64, found.st_ctime_nsec as u32),
        links: found.st_nlink as u64,
        device: found.st_rdev as u64,
    }))
}

pub(super) fn link_target(dir: impl AsFd, name: &OsStr) -> io::Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes()))
}

/// A path to an entry through the handle of its directory, for calls that take no handle.
pub(super) fn by_handle(dir: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

/// Most bytes of the names, or of one value, of extended attributes.
const MAX_XATTR: usize = 1 << 16;

/// The names of the extended attributes of an entry.
fn xattr_names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut buffer = vec![0; 1 << 10];
    let length = loop {
        match rustix::fs::llistxattr(path, &mut buffer) {
            Err(Errno::RANGE) if buffer.len() < MAX_XATTR => buffer.resize(MAX_XATTR, 0),
            Err(Errno::OPNOTSUPP) => break 0,
            length => break length?,
        }
    };
    buffer.truncate(length);
    Ok(buffer.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn xattr(path: &Path, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; 256];
    loop {
        match rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut buffer) {
            Err(Errno::RANGE) if buffer.len() < MAX_XATTR => buffer.resize(MAX_XATTR, 0),
            Err(Errno::NODATA) => return Ok(None),
            Err(errno) => return Err(errno.into()),
            Ok(length) => {
                buffer.truncate(length);
                return Ok(Some(buffer));
            }
        }
    }
}

/// Whether a directory of an upper layer hides all of the directory that it replaces.
pub(super) fn is_opaque(dir: impl AsFd) -> bool {
    let mut value = [0_u8; 4];
    let read = rustix::fs::fgetxattr(dir, "user.overlay.opaque", &mut value);
    read.is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Whether an entry of an upper layer is a copy of one that was in the workspace.
pub(super) fn is_copy(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    xattr(&by_handle(dir, name), b"user.overlay.origin").is_ok_and(|origin| origin.is_some())
}

/// The extended attributes of an entry, without those of overlay mounts and those that the system sets by itself.
pub(super) fn xattrs(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<(OsString, Vec<u8>)>> {
    let path = by_handle(dir, name);
    let mut found = Vec::new();
    for name in xattr_names(&path)? {
        if name.starts_with(OVERLAY) && !name.starts_with(ESCAPED) || name == b"security.selinux" {
            continue;
        }
        let Some(value) = xattr(&path, &name)? else { continue };
        found.push((OsString::from_vec(unescaped(name)), value));
    }
    found.sort();
    Ok(found)
}

fn unescaped(name: Vec<u8>) -> Vec<u8> {
    match name.strip_prefix(ESCAPED) {
        Some(own) => [OVERLAY, own].concat(),
        None => name,
    }
}

/// Removes the extended attributes of overlay mounts from an entry, and gives those back their names that the command set.
pub(super) fn strip(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let path = by_handle(dir, name);
    for found in xattr_names(&path)? {
        if !found.starts_with(OVERLAY) {
            continue;
        }
        let value = if found.starts_with(ESCAPED) { xattr(&path, &found)? } else { None };
        rustix::fs::lremovexattr(&path, OsStr::from_bytes(&found))?;
        if let Some(value) = value {
            rustix::fs::lsetxattr(&path, OsString::from_vec(unescaped(found)), &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

pub(super) fn attributes(dir: BorrowedFd<'_>, name: &OsStr, side: &Side) -> Attributes {
    let xattrs = match side.kind {
        FileType::Symlink => Vec::new(),
        _ => xattrs(dir, name).unwrap_or_default(),
    };
    Attributes { mode: side.mode, uid: side.owner.0, gid: side.owner.1, modified: side.modified, xattrs }
}

pub(super) fn set_mode(dir: impl AsFd, name: &OsStr, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmodat(dir, name, Mode::from_raw_mode(mode as RawMode), AtFlags::empty())?)
}

/// Gives an entry these attributes: owner, extended ones, mode and time.
pub(super) fn set_attributes(dir: BorrowedFd<'_>, name: &OsStr, wanted: &Attributes) -> io::Result<()> {
    let Some(found) = side(dir, name)? else { return Err(io::ErrorKind::NotFound.into()) };
    if found.owner != (wanted.uid, wanted.gid) {
        let (uid, gid) = (rustix::fs::Uid::from_raw(wanted.uid), rustix::fs::Gid::from_raw(wanted.gid));
        rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let path = by_handle(dir, name);
    if found.kind != FileType::Symlink {
        let current = xattrs(dir, name)?;
        for (name, _) in
            current.iter().filter(|(name, _)| !wanted.xattrs.iter().any(|(other, _)| other == name))
        {
            rustix::fs::lremovexattr(&path, name.as_os_str())?;
        }
        for (name, value) in wanted.xattrs.iter().filter(|wanted| !current.contains(wanted)) {
            rustix::fs::lsetxattr(&path, name.as_os_str(), value, XattrFlags::empty())?;
        }
        if side(dir, name)?.is_some_and(|found| found.mode != wanted.mode) {
            set_mode(dir, name, wanted.mode)?;
        }
    }
    if found.kind != FileType::Directory && found.modified != wanted.modified {
        set_modified(dir, name, wanted.modified)?;
    }
    Ok(())
}

fn set_modified(dir: BorrowedFd<'_>, name: &OsStr, modified: Time) -> io::Result<()> {
    let omitted = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = rustix::fs::Timespec { tv_sec: modified.0, tv_nsec: modified.1.into() };
    let times = rustix::fs::Timestamps { last_access: omitted, last_modification: modified };
    Ok(rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Opens directories beneath a root by their paths, and keeps the last one open: neighbours are looked at one after the other.
pub(super) struct Beneath {
    root: OwnedFd,
    last: Option<(PathBuf, OwnedFd)>,
}

impl Beneath {
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        Ok(Self { root: open_root(root)?, last: None })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The directory that a path is in, and its name there.
    pub(super) fn parent<'a>(&mut self, below: &'a Path) -> io::Result<(BorrowedFd<'_>, &'a OsStr)> {
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if parent.as_os_str().is_empty() {
            return Ok((self.root.as_fd(), name));
        }
        if self.last.as_ref().is_none_or(|(path, _)| path != parent) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut dir = None;
            for part in parent {
                let above = dir.as_ref().map_or(self.root.as_fd(), OwnedFd::as_fd);
                dir = Some(rustix::fs::openat(above, part, flags, Mode::empty())?);
            }
            self.last = dir.map(|dir| (parent.to_owned(), dir));
        }
        match &self.last {
            Some((_, dir)) => Ok((dir.as_fd(), name)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Forgets what is open: directories have been renamed.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}
