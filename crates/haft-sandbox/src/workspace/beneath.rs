//! An open directory, and opening files beneath it without ever following a link, so that a link swapped in after a path was
//! resolved leads nowhere. Linux does it in one call (`openat2`); elsewhere, and where a container forbids that call, each
//! directory on the way is opened in turn.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::PathErrorKind;
use crate::stat::{Entry, Kind, Name, Stat};

/// Flags to open a directory for looking up names in it, without needing the right to read it where possible.
#[cfg(target_os = "linux")]
const LOOKUP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const LOOKUP: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Flags for reading: never blocks on a fifo, never acquires a controlling terminal.
pub(crate) const READ: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open directory of the workspace.
#[derive(Debug)]
pub(crate) struct Beneath {
    fd: OwnedFd,
    lookup: Lookup,
    device: u64,
    is_proc: bool,
}

/// How names below the directory are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    /// One `openat2` call that refuses links.
    #[cfg(target_os = "linux")]
    Openat2,
    /// One `openat` call for each name.
    Stepwise,
}

impl Beneath {
    /// Opens a directory by its canonical path.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let fd = rustix::fs::openat(CWD, path, LOOKUP | OFlags::NOFOLLOW, Mode::empty())?;
        let device = Stat::from(&rustix::fs::fstat(&fd)?).stamp.device();
        let is_proc = is_proc(fd.as_fd());
        Ok(Self { lookup: Lookup::of(fd.as_fd()), fd, device, is_proc })
    }

    /// The directory itself.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The device of the directory.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    pub(crate) fn confinement(&self) -> &'static str {
        match self.lookup {
            #[cfg(target_os = "linux")]
            Lookup::Openat2 => "by the kernel (openat2)",
            Lookup::Stepwise => "name by name (openat)",
        }
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn stepwise(self) -> Self {
        Self { lookup: Lookup::Stepwise, ..self }
    }

    /// Metadata of `below` if no link is on the way. Unlike in all other methods, `below` may contain `..`. `None` means
    /// that the path has to be walked.
    pub(crate) fn stat_without_links(&self, below: &Path) -> Option<Stat> {
        match self.lookup {
            #[cfg(target_os = "linux")]
            Lookup::Openat2 => {
                let fd = openat2(self.fd.as_fd(), below, OFlags::PATH).ok()?;
                Some(Stat::from(&rustix::fs::fstat(fd).ok()?))
            }
            Lookup::Stepwise => None,
        }
    }

    /// Metadata of `below`; of the link itself, if it is one by now.
    pub(crate) fn stat(&self, below: &Path) -> Result<Stat, PathErrorKind> {
        match self.lookup {
            #[cfg(target_os = "linux")]
            Lookup::Openat2 => {
                let fd = openat2(self.fd.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW);
                let fd = fd.map_err(link_appeared)?;
                Ok(Stat::from(&rustix::fs::fstat(fd)?))
            }
            Lookup::Stepwise => {
                let (parent, name) = self.parent(below)?;
                let raw = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Stat::from(&raw))
            }
        }
    }

    /// Opens a regular file for reading. Anything else is refused before it is opened, because opening a device can have
    /// side effects.
    pub(crate) fn open_file(&self, below: &Path) -> Result<(File, Stat), PathErrorKind> {
        match self.lookup {
            #[cfg(target_os = "linux")]
            Lookup::Openat2 => {
                let fd = openat2(self.fd.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW);
                let fd = fd.map_err(link_appeared)?;
                let stat = Stat::from(&rustix::fs::fstat(&fd)?);
                self.require_file(&stat, fd.as_fd())?;
                match reopen(fd.as_fd()) {
                    Ok(file) => Ok((file.into(), stat)),
                    // Without /proc a path handle cannot be reopened for reading.
                    Err(Errno::NOENT) => self.open_stepwise(below),
                    Err(errno) => Err(errno.into()),
                }
            }
            Lookup::Stepwise => self.open_stepwise(below),
        }
    }

    /// Lists one directory with metadata, in no order. Entries that vanish meanwhile are left out.
    pub(crate) fn list(&self, below: &Path) -> Result<Vec<Entry>, PathErrorKind> {
        read(self.open_directory(below)?, |directory, entry| {
            let stat = stat_entry(directory, entry.file_name())?;
            Ok(stat.map(|stat| Entry { name: owned(entry.file_name()), stat }))
        })
    }

    /// Lists one directory in no order, with metadata only where the directory does not hold the file type.
    pub(crate) fn names(&self, below: &Path) -> Result<Vec<Name>, PathErrorKind> {
        read(self.open_directory(below)?, |directory, entry| {
            let kind = match entry.file_type() {
                FileType::Unknown => stat_entry(directory, entry.file_name())?.map(|stat| stat.kind),
                known => Some(known.into()),
            };
            Ok(kind.map(|kind| Name { name: owned(entry.file_name()), kind }))
        })
    }

    /// Syncs the file system that the folder is on.
    pub(crate) fn sync_file_system(&self) -> std::io::Result<()> {
        // The handle itself may be one that only names the folder.
        let dir = rustix::fs::openat(&self.fd, ".", READ | OFlags::DIRECTORY, Mode::empty())?;
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::syncfs(dir)?);
        #[cfg(not(target_os = "linux"))]
        Ok(rustix::fs::fsync(dir)?)
    }

    /// Opens a directory to change something in it. Directories in /proc are refused.
    pub(crate) fn open_changing(&self, below: &Path) -> Result<OwnedFd, PathErrorKind> {
        let fd = self.open_directory(below)?;
        match self.is_proc || is_proc(fd.as_fd()) {
            true => Err(PathErrorKind::NotAFile(Kind::Special("kernel directory"))),
            false => Ok(fd),
        }
    }

    pub(crate) fn open_directory(&self, below: &Path) -> Result<OwnedFd, PathErrorKind> {
        let flags = READ | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        match self.lookup {
            #[cfg(target_os = "linux")]
            Lookup::Openat2 => openat2(self.fd.as_fd(), below, flags).map_err(link_appeared),
            Lookup::Stepwise => {
                let (parent, name) = self.parent(below)?;
                rustix::fs::openat(&parent, name, flags, Mode::empty()).map_err(link_appeared)
            }
        }
    }

    fn open_stepwise(&self, below: &Path) -> Result<(File, Stat), PathErrorKind> {
        let (parent, name) = self.parent(below)?;
        let before = Stat::from(&rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?);
        self.require_file(&before, parent.as_fd())?;
        let fd = rustix::fs::openat(&parent, name, READ | OFlags::NOFOLLOW, Mode::empty())
            .map_err(link_appeared)?;
        let stat = Stat::from(&rustix::fs::fstat(&fd)?);
        self.require_file(&stat, fd.as_fd())?;
        Ok((fd.into(), stat))
    }

    /// Refuses all but regular files, and the files of /proc, which look regular but can block, be consumed by reading or
    /// hold the memory of a process. Those can only lie on another device than the folder, or below a folder that is
    /// itself in /proc, so ordinary files cost no further call.
    fn require_file(&self, stat: &Stat, fd: BorrowedFd<'_>) -> Result<(), PathErrorKind> {
        if stat.kind != Kind::File {
            return Err(PathErrorKind::NotAFile(stat.kind));
        }
        if self.is_proc || (stat.stamp.device() != self.device && is_proc(fd)) {
            return Err(PathErrorKind::NotAFile(Kind::Special("kernel file")));
        }
        Ok(())
    }

    /// Opens the parent directory of `below`, one name at a time, so that no link is followed.
    fn parent<'a>(&self, below: &'a Path) -> Result<(OwnedFd, &'a OsStr), PathErrorKind> {
        let mut fd = self.fd.try_clone()?;
        let mut names = below.components().peekable();
        let mut last = OsStr::new(".");
        while let Some(component) = names.next() {
            let Component::Normal(name) = component else {
                // Resolved paths hold only names, so this path was forged.
                return Err(PathErrorKind::Outside);
            };
            if names.peek().is_none() {
                last = name;
            } else {
                fd = rustix::fs::openat(&fd, name, LOOKUP | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(link_appeared)?;
            }
        }
        Ok((fd, last))
    }
}

impl Lookup {
    #[cfg(target_os = "linux")]
    fn of(fd: BorrowedFd<'_>) -> Self {
        // Old kernels answer ENOSYS, the filters of old container engines EPERM.
        match openat2(fd, Path::new("."), OFlags::PATH) {
            Ok(_) => Self::Openat2,
            Err(_) => Self::Stepwise,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: BorrowedFd<'_>) -> Self {
        Self::Stepwise
    }
}

#[cfg(target_os = "linux")]
fn openat2(fd: BorrowedFd<'_>, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(fd, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Opens the file of a path handle for reading, whatever has happened to its name.
#[cfg(target_os = "linux")]
fn reopen(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, READ, Mode::empty())
}

#[cfg(target_os = "linux")]
pub(crate) fn is_proc(fd: BorrowedFd<'_>) -> bool {
    // An unknown file system counts as /proc: fail closed.
    rustix::fs::fstatfs(fd).map_or(true, |system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_proc(_: BorrowedFd<'_>) -> bool {
    false
}

/// Maps an error of opening: resolved paths have no links, so `ELOOP` means that one has appeared.
pub(crate) fn link_appeared(errno: Errno) -> PathErrorKind {
    match errno {
        Errno::LOOP => PathErrorKind::LinkAppeared,
        other => other.into(),
    }
}

/// Reads a directory and collects what `convert` makes of each entry.
fn read<T>(
    fd: OwnedFd,
    convert: impl Fn(BorrowedFd<'_>, &DirEntry) -> Result<Option<T>, Errno>,
) -> Result<Vec<T>, PathErrorKind> {
    let mut directory = Dir::new(fd)?;
    let mut entries = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            entries.extend(convert(directory.fd()?, &entry)?);
        }
    }
    Ok(entries)
}

/// Metadata of one entry; `None` if it has vanished.
fn stat_entry(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(raw) => Ok(Some(Stat::from(&raw))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn owned(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}
