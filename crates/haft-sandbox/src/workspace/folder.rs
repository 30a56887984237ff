//! An open folder to walk from: its entries are opened by name relative to its handle without following links, so a link
//! swapped in on the way cannot lead out.

use std::ffi::{CStr, OsStr, OsString};
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

#[cfg(target_os = "linux")]
use rustix::fs::RawDir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{READ, is_proc, link_appeared};
use super::{OpenFile, Workspace};
use crate::error::{PathError, PathErrorKind};
use crate::path::AbsPath;
use crate::stat::{Kind, Name, Stat};

/// Size of the buffer for directory entries.
#[cfg(target_os = "linux")]
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
        // Trees in /proc are endless, and reading them can have side effects.
        if within != Some(device) && is_proc(fd.as_fd()) {
            return Err(PathErrorKind::NotAFile(Kind::Special("kernel directory")));
        }
        Ok(Self { fd, device })
    }

    /// Its entries, in no order. Entries that vanish meanwhile are left out.
    #[cfg(target_os = "linux")]
    pub fn names(&self) -> Result<Vec<Name>, PathErrorKind> {
        let mut buffer = [const { MaybeUninit::uninit() }; CHUNK];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            names.extend(self.name(entry.file_name(), entry.file_type())?);
        }
        Ok(names)
    }

    /// Its entries, in no order. Entries that vanish meanwhile are left out.
    #[cfg(not(target_os = "linux"))]
    pub fn names(&self) -> Result<Vec<Name>, PathErrorKind> {
        self.names_by_libc()
    }

    /// Its entries, read through the C library, for systems other than Linux.
    #[cfg(any(not(target_os = "linux"), test))]
    fn names_by_libc(&self) -> Result<Vec<Name>, PathErrorKind> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            names.extend(self.name(entry.file_name(), entry.file_type())?);
        }
        Ok(names)
    }

    fn name(&self, name: &CStr, kind: FileType) -> Result<Option<Name>, PathErrorKind> {
        let name = name.to_bytes();
        if matches!(name, b"." | b"..") {
            return Ok(None);
        }
        let name: OsString = OsStr::from_bytes(name).to_owned();
        let kind = match kind {
            FileType::Unknown => match self.stat(&name) {
                Ok(stat) => stat.kind,
                Err(PathErrorKind::NotFound) => return Ok(None),
                Err(kind) => return Err(kind),
            },
            known => known.into(),
        };
        Ok(Some(Name { name, kind }))
    }

    /// Metadata of one entry; a link is not followed.
    pub fn stat(&self, name: &OsStr) -> Result<Stat, PathErrorKind> {
        Ok(Stat::from(&rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Opens a folder in it.
    pub fn folder(&self, name: &OsStr) -> Result<Self, PathErrorKind> {
        Self::new(self.open(name, OFlags::DIRECTORY).map_err(link_appeared)?, Some(self.device))
    }

    /// Opens an entry that is known to be a regular file. Fails if it is none by now, before anything is read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // creates the files to list
    fn both_ways_to_list_a_folder_agree() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..3000 {
            std::fs::write(dir.path().join(format!("file {name}")), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let folder = workspace.open_folder(workspace.root()).unwrap();
        let sorted = |mut names: Vec<Name>| {
            names.sort_by(|one, other| one.name.cmp(&other.name));
            names.into_iter().map(|name| (name.name, name.kind)).collect::<Vec<_>>()
        };
        let known = sorted(folder.names().unwrap());
        assert_eq!(known.len(), 3002);
        assert_eq!(sorted(folder.names_by_libc().unwrap()), known);
        // A second listing starts at the beginning.
        assert_eq!(sorted(folder.names_by_libc().unwrap()).len(), 3002);
    }
}
