//! Mode, owner, times and extended attributes of open files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawMode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::Result;
use crate::change::{Attributes, ChangeErrorKind};
use crate::stat::Kind;

const ACCESS_LIST: &str = "system.posix_acl_access";

/// Extended attributes that give a program rights or certify its content: new content must not inherit them.
const TIED_TO_CONTENT: [&str; 3] = ["security.capability", "security.ima", "security.evm"];

/// Set-user-ID and set-group-ID.
const SET_ID_BITS: u32 = 0o6000;

/// The attributes of an open file or directory.
pub(super) fn of(fd: impl AsFd) -> Result<Attributes> {
    with_extended(&rustix::fs::fstat(&fd)?, fd)
}

/// The attributes of an open file or directory whose metadata is known.
pub(super) fn with_extended(raw: &rustix::fs::Stat, fd: impl AsFd) -> Result<Attributes> {
    Ok(Attributes { xattrs: xattrs(fd)?, ..plain(raw) })
}

/// The attributes without the extended ones.
// The widths and signs of these fields differ between platforms.
#[allow(clippy::unnecessary_cast)]
pub(super) fn plain(raw: &rustix::fs::Stat) -> Attributes {
    Attributes {
        mode: raw.st_mode as u32 & 0o7777,
        uid: raw.st_uid,
        gid: raw.st_gid,
        modified: (raw.st_mtime as i64, raw.st_mtime_nsec as u32),
        xattrs: Vec::new(),
    }
}

/// The attributes of a file that its new content inherits.
pub(super) fn for_new_content(attributes: &Attributes) -> Attributes {
    let mut kept = attributes.clone();
    kept.mode &= !SET_ID_BITS;
    kept.xattrs.retain(|(name, _)| !TIED_TO_CONTENT.iter().any(|tied| name == tied));
    kept
}

/// Sets these attributes on an open file or directory, all but the time. Where this user cannot set the owner or the group,
/// the mode is reduced so that no other user gains rights.
pub(super) fn apply(fd: impl AsFd, wanted: &Attributes) -> Result<()> {
    let fd = fd.as_fd();
    let found = of(fd)?;
    let mut mode = wanted.mode;
    // Setting the owner or an access list may change the mode.
    let mut is_mode_known = true;
    if (found.uid, found.gid) != (wanted.uid, wanted.gid) {
        is_mode_known = false;
        let (uid, gid) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
        if rustix::fs::fchown(fd, Some(uid), Some(gid)).is_err() {
            mode &= !SET_ID_BITS;
            if found.gid != wanted.gid && rustix::fs::fchown(fd, None, Some(gid)).is_err() {
                // The group is a different one, so it gets only the rights of others.
                mode = mode & !0o070 | (mode & 0o007) << 3;
            }
        }
    }
    for (name, value) in &wanted.xattrs {
        if found.xattrs.iter().any(|(other, found)| other == name && found == value) {
            continue;
        }
        is_mode_known = false;
        match rustix::fs::fsetxattr(fd, name.as_os_str(), value, XattrFlags::empty()) {
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) if name != ACCESS_LIST => {}
            done => done?,
        }
    }
    let inherited = found.xattrs.iter().any(|(name, _)| name == ACCESS_LIST);
    if inherited && !wanted.xattrs.iter().any(|(name, _)| name == ACCESS_LIST) {
        is_mode_known = false;
        rustix::fs::fremovexattr(fd, ACCESS_LIST)?;
    }
    let now = if is_mode_known { found.mode } else { of_mode(fd)? };
    if mode != now {
        rustix::fs::fchmod(fd, Mode::from_raw_mode(mode as RawMode))?;
    }
    Ok(())
}

/// Sets the modification time.
pub(super) fn set_modified(fd: impl AsFd, modified: (i64, u32)) -> Result<()> {
    Ok(rustix::fs::futimens(fd, &timestamps(modified))?)
}

/// Sets the owner and time of a link, as far as this user can.
pub(super) fn apply_to_link(dir: impl AsFd, name: &OsStr, wanted: &Attributes) {
    let (uid, gid) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
    let dir = dir.as_fd();
    let _ = rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
    let _ = rustix::fs::utimensat(dir, name, &timestamps(wanted.modified), AtFlags::SYMLINK_NOFOLLOW);
}

/// Sets the permission bits of a file or directory, even of one that this user cannot read.
pub(super) fn set_mode(dir: impl AsFd, name: &OsStr, mode: u32) -> Result<()> {
    let mode = Mode::from_raw_mode(mode as RawMode);
    let dir = dir.as_fd();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => {
            require_plain(&fd)?;
            Ok(rustix::fs::fchmod(fd, mode)?)
        }
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS) => {
            let fd = rustix::fs::openat(dir, name, flags | OFlags::PATH, Mode::empty())?;
            require_plain(&fd)?;
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn require_plain(fd: impl AsFd) -> Result<()> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        other => Err(ChangeErrorKind::WrongKind(Kind::from(other))),
    }
}

#[allow(clippy::unnecessary_cast)]
fn of_mode(fd: impl AsFd) -> Result<u32> {
    Ok(rustix::fs::fstat(fd)?.st_mode as u32 & 0o7777)
}

fn timestamps((seconds, nanos): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos.into() },
    }
}

fn xattrs(fd: impl AsFd) -> Result<Vec<(OsString, Vec<u8>)>> {
    let fd = fd.as_fd();
    let mut names = vec![0; 256];
    let length = loop {
        match rustix::fs::flistxattr(fd, &mut names[..]) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < 1 << 17 => names.resize(names.len() * 4, 0),
            // The file system has no extended attributes.
            Err(Errno::OPNOTSUPP) => break 0,
            Err(errno) => return Err(errno.into()),
        }
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsString::from_vec(name.to_vec());
        let mut value = vec![0; 256];
        let length = loop {
            match rustix::fs::fgetxattr(fd, name.as_os_str(), &mut value[..]) {
                Ok(length) => break Some(length),
                Err(Errno::RANGE) if value.len() < 1 << 17 => value.resize(value.len() * 4, 0),
                // Removed meanwhile, or not readable for this user.
                Err(_) => break None,
            }
        };
        if let Some(length) = length {
            value.truncate(length);
            found.push((name, value));
        }
    }
    found.sort_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
    Ok(found)
}
