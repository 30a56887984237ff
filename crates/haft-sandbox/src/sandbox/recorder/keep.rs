//! The folder in which old sides are kept: hard links and copies under numbered names, and the model's log. It knows files by
//! directory and name, and nothing of calls.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};

use super::model::{Id, Meta};
use super::{KeepLimits, LOG};

/// Where old sides are kept. The folder is made when the first one is.
#[derive(Debug)]
pub(super) struct Keep {
    path: PathBuf,
    /// The folder, locked so that other processes can tell whether this one lives.
    dir: Option<OwnedFd>,
    limits: KeepLimits,
    /// Bytes that were copied to files.
    copied: u64,
    /// Bytes that were read into memory.
    in_memory: u64,
    count: u64,
}

/// Content that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// In a file of the folder.
    File(String),
    /// In memory, and in the log: making a file takes longer than a small content.
    InMemory(Vec<u8>),
}

/// Largest content that is kept in memory, and all of it together.
const MAX_IN_MEMORY: u64 = 16 << 10;
const MAX_ALL_IN_MEMORY: u64 = 32 << 20;

/// Flags to read a file without ever waiting: for a lease, or for a fifo that took its name.
const READ: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Locks the folder of a recorder whose process died. `None` if there is no such folder, or that process lives.
pub(super) fn lock_left(path: &Path) -> io::Result<Option<OwnedFd>> {
    let Some(dir) = open(path)? else { return Ok(None) };
    match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        locked => Ok(locked.map(|()| Some(dir))?),
    }
}

fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(None),
        dir => Ok(Some(dir?)),
    }
}

impl Keep {
    pub(super) fn new(path: &Path, limits: KeepLimits) -> Self {
        Self { path: path.to_owned(), dir: None, limits, copied: 0, in_memory: 0, count: 0 }
    }

    /// Makes the folder if it is missing, and locks it.
    fn dir(&mut self) -> io::Result<&OwnedFd> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => loop {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                let Some(dir) = open(&self.path)? else { continue };
                rustix::fs::flock(&dir, FlockOperation::LockExclusive)?;
                // Another process may have taken the empty folder for one that was left behind.
                if rustix::fs::fstat(&dir)?.st_nlink > 0 {
                    break dir;
                }
            },
        };
        Ok(self.dir.insert(dir))
    }

    /// Makes the model's log.
    pub(super) fn make_log(&mut self) -> io::Result<File> {
        self.dir()?;
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create_new(true).mode(0o600).open(self.path.join(LOG))
    }

    /// Gives away the lock on the folder, if there is a folder.
    pub(super) fn into_lock(self) -> Option<OwnedFd> {
        self.dir
    }

    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}", self.count)
    }

    /// Gives a file a hard link in the folder.
    pub(super) fn link(&mut self, dir: impl AsFd, name: &OsStr) -> io::Result<String> {
        let to = self.next_name();
        rustix::fs::linkat(dir, name, self.dir()?, to.as_str(), AtFlags::empty())?;
        Ok(to)
    }

    /// Copies the content of a file, sharing its blocks where the file system can. The error says why it cannot be kept.
    pub(super) fn copy(&mut self, dir: impl AsFd, name: &OsStr, id: &Id) -> Result<Copy, String> {
        let failed = |error: &dyn std::fmt::Display| format!("it could not be read: {error}");
        let file = rustix::fs::openat(dir, name, READ, Mode::empty()).map_err(|error| failed(&error))?;
        let meta = Meta::of(&file, OsStr::new("")).map_err(|error| failed(&error))?;
        let Some(meta) = meta.filter(|meta| meta.id == *id) else {
            return Err("another file took its name".to_owned());
        };
        let mut file = File::from(file);
        let limits = self.limits;
        let fits = || {
            if meta.size > limits.file {
                return Err(format!("it is larger than {} bytes", limits.file));
            }
            match self.copied.saturating_add(meta.size) > limits.total {
                true => Err(format!("more than {} bytes would have been copied", limits.total)),
                false => Ok(()),
            }
        };
        if meta.size <= MAX_IN_MEMORY && self.in_memory + meta.size <= MAX_ALL_IN_MEMORY {
            fits()?;
            let mut content = Vec::with_capacity(usize::try_from(meta.size + 1).unwrap_or(0));
            let read = (&mut file).take(MAX_IN_MEMORY + 1).read_to_end(&mut content);
            read.map_err(|error| failed(&error))?;
            self.copied += meta.size;
            self.in_memory += meta.size;
            return Ok(Copy::InMemory(content));
        }
        let fits = fits();
        let to = self.next_name();
        let unkept = |error: &dyn std::fmt::Display| format!("it could not be kept: {error}");
        let dir = self.dir().map_err(|error| unkept(&error))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(dir, to.as_str(), flags, Mode::from_raw_mode(0o600));
        let mut made = File::from(made.map_err(|error| unkept(&error))?);
        if rustix::fs::ioctl_ficlone(&made, &file).is_ok() {
            return Ok(Copy::File(to));
        }
        let copied = fits.and_then(|()| {
            io::copy(&mut (&mut file).take(limits.file), &mut made).map_err(|error| unkept(&error))
        });
        match copied {
            Ok(_) => {
                self.copied += meta.size;
                Ok(Copy::File(to))
            }
            Err(why) => {
                if let Ok(dir) = self.dir() {
                    let _ = rustix::fs::unlinkat(dir, to.as_str(), AtFlags::empty());
                }
                Err(why)
            }
        }
    }

    /// Copies the content of a file that has a hard link in the folder.
    pub(super) fn copy_linked(&mut self, link: &str, id: &Id) -> Result<Copy, String> {
        let dir = self.dir().and_then(OwnedFd::try_clone).map_err(|error| error.to_string())?;
        self.copy(dir, OsStr::new(link), id)
    }
}

/// The extended attributes of a name.
pub(super) fn xattrs(dir: impl AsFd, name: &OsStr) -> Vec<(OsString, Vec<u8>)> {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()));
    path.push(name);
    xattrs_at(&path)
}

/// The extended attributes of a path, of a link itself.
pub(super) fn xattrs_at(path: &Path) -> Vec<(OsString, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut names = vec![0; 512];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        Err(rustix::io::Errno::RANGE) => {
            names.resize(64 << 10, 0);
            rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0)
        }
        length => length.unwrap_or(0),
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        if let Ok(length) = rustix::fs::lgetxattr(path, name, &mut value[..]) {
            value.truncate(length);
            found.push((OsStr::from_bytes(name).to_owned(), value));
        }
    }
    found.sort();
    found
}
