//! An open folder to walk from: what is in it is opened by name beneath its own handle, and no link is
//! followed, so nothing that is exchanged on the way leads out.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::beneath::{READ, is_proc, link_appeared};
use super::{OpenFile, Workspace};
use crate::error::{PathError, PathErrorKind};
use crate::path::AbsPath;
use crate::stat::{Kind, Name, Stat};

/// As much of a directory is read at a time.
const CHUNK: usize = 32 << 10;

/// A folder, open for reading.
#[derive(Debug)]
pub struct OpenFolder {
    fd: OwnedFd,
    device: u64,
}

impl Workspace {
    /// Opens a folder to walk from.
    pub fn open_folder(&self, path: &AbsPath) -> Result<OpenFolder, PathError> {
        self.beneath(path, |beneath, below| OpenFolder::new(beneath.open_directory(below)?, None))
    }
}

impl OpenFolder {
    fn new(fd: OwnedFd, within: Option<u64>) -> Result<Self, PathErrorKind> {
        let device = Stat::from(&rustix::fs::fstat(&fd)?).stamp.device();
        // What the kernel makes up has no end, and reading it can do something.
        if within != Some(device) && is_proc(fd.as_fd()) {
            return Err(PathErrorKind::NotAFile(Kind::Special("kernel directory")));
        }
        Ok(Self { fd, device })
    }

    /// What is in it, in no order. What vanishes meanwhile is left out.
    pub fn names(&self) -> Result<Vec<Name>, PathErrorKind> {
        let mut buffer = [const { MaybeUninit::uninit() }; CHUNK];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name: OsString = OsStr::from_bytes(name).to_owned();
            let kind = match entry.file_type() {
                FileType::Unknown => match self.stat(&name) {
                    Ok(stat) => stat.kind,
                    Err(PathErrorKind::NotFound) => continue,
                    Err(kind) => return Err(kind),
                },
                known => known.into(),
            };
            names.push(Name { name, kind });
        }
        Ok(names)
    }

    /// Looks at one name in it.
    pub fn stat(&self, name: &OsStr) -> Result<Stat, PathErrorKind> {
        Ok(Stat::from(&rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Opens a folder in it.
    pub fn folder(&self, name: &OsStr) -> Result<Self, PathErrorKind> {
        Self::new(self.open(name, OFlags::DIRECTORY).map_err(link_appeared)?, Some(self.device))
    }

    /// Opens a regular file in it, which is known to be one. That it still is, is found out before it is read.
    pub fn file(&self, name: &OsStr) -> Result<OpenFile, PathErrorKind> {
        let fd = self.open(name, OFlags::empty()).map_err(link_appeared)?;
        let stat = Stat::from(&rustix::fs::fstat(&fd)?);
        match stat.kind {
            Kind::File => Ok(OpenFile { file: fd.into(), stat }),
            other => Err(PathErrorKind::NotAFile(other)),
        }
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.fd, name, READ | OFlags::NOFOLLOW | flags, Mode::empty())
    }
}
