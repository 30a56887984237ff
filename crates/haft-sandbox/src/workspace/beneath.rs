//! An open directory, and opening what lies beneath it without ever following a link. A link that is
//! swapped in after a path was resolved therefore leads nowhere. Linux does it in one call; elsewhere, and
//! where a container forbids that call, each directory on the way is opened in turn.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::PathErrorKind;
use crate::stat::{Entry, Kind, Name, Stat};

/// Enough to stand on a directory and look up names in it, without the right to read it where possible.
#[cfg(target_os = "linux")]
const STAND: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const STAND: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// For reading; never waits for the other end of a fifo and never takes a terminal.
pub(super) const READ: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open directory of the workspace.
#[derive(Debug)]
pub(super) struct Beneath {
    fd: OwnedFd,
    way: Way,
    device: u64,
    made_by_kernel: bool,
}

/// How names below the directory are opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// One `openat2` call that refuses links.
    #[cfg(target_os = "linux")]
    Whole,
    /// One `openat` call for each name.
    Steps,
}

impl Beneath {
    /// Opens a directory by its canonical path.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let fd = rustix::fs::openat(CWD, path, STAND | OFlags::NOFOLLOW, Mode::empty())?;
        let device = Stat::from(&rustix::fs::fstat(&fd)?).stamp.device();
        let made_by_kernel = is_proc(fd.as_fd());
        Ok(Self { way: Way::of(fd.as_fd()), fd, device, made_by_kernel })
    }

    /// The device that the directory is on.
    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn confinement(&self) -> &'static str {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Whole => "by the kernel (openat2)",
            Way::Steps => "name by name (openat)",
        }
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn by_steps(self) -> Self {
        Self { way: Way::Steps, ..self }
    }

    /// Looks at `below` if the way there is free of links. Unlike everywhere else here, `below` may
    /// contain `..`. Gives nothing when this has to be found out in another way.
    pub(super) fn glance(&self, below: &Path) -> Option<Stat> {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Whole => {
                let fd = whole(self.fd.as_fd(), below, OFlags::PATH).ok()?;
                Some(Stat::from(&rustix::fs::fstat(fd).ok()?))
            }
            Way::Steps => None,
        }
    }

    /// Looks at `below` itself, even if it is a link by now.
    pub(super) fn stat(&self, below: &Path) -> Result<Stat, PathErrorKind> {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Whole => {
                let fd = whole(self.fd.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW);
                let fd = fd.map_err(link_appeared)?;
                Ok(Stat::from(&rustix::fs::fstat(fd)?))
            }
            Way::Steps => {
                let (parent, name) = self.parent(below)?;
                let raw = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Stat::from(&raw))
            }
        }
    }

    /// Opens a regular file for reading. Anything else is refused before it is opened, because opening a
    /// device can already do something.
    pub(super) fn open_file(&self, below: &Path) -> Result<(File, Stat), PathErrorKind> {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Whole => {
                let fd = whole(self.fd.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW);
                let fd = fd.map_err(link_appeared)?;
                let stat = Stat::from(&rustix::fs::fstat(&fd)?);
                self.require_file(&stat, fd.as_fd())?;
                match reopen(fd.as_fd()) {
                    Ok(file) => Ok((file.into(), stat)),
                    // Without /proc there is no way from the handle to the file.
                    Err(Errno::NOENT) => self.open_by_steps(below),
                    Err(errno) => Err(errno.into()),
                }
            }
            Way::Steps => self.open_by_steps(below),
        }
    }

    /// Reads one directory, in no order. What vanishes meanwhile is left out.
    pub(super) fn list(&self, below: &Path) -> Result<Vec<Entry>, PathErrorKind> {
        read(self.open_directory(below)?, |directory, entry| {
            let stat = look(directory, entry.file_name())?;
            Ok(stat.map(|stat| Entry { name: owned(entry.file_name()), stat }))
        })
    }

    /// Reads one directory like [`Beneath::list`], but looks only at what the directory itself does not tell.
    pub(super) fn names(&self, below: &Path) -> Result<Vec<Name>, PathErrorKind> {
        read(self.open_directory(below)?, |directory, entry| {
            let kind = match entry.file_type() {
                FileType::Unknown => look(directory, entry.file_name())?.map(|stat| stat.kind),
                known => Some(known.into()),
            };
            Ok(kind.map(|kind| Name { name: owned(entry.file_name()), kind }))
        })
    }

    /// Opens a directory in which something is going to change. What the kernel makes up is no place for that.
    pub(super) fn open_changing(&self, below: &Path) -> Result<OwnedFd, PathErrorKind> {
        let fd = self.open_directory(below)?;
        match self.made_by_kernel || is_proc(fd.as_fd()) {
            true => Err(PathErrorKind::NotAFile(Kind::Special("kernel directory"))),
            false => Ok(fd),
        }
    }

    pub(super) fn open_directory(&self, below: &Path) -> Result<OwnedFd, PathErrorKind> {
        let flags = READ | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Whole => whole(self.fd.as_fd(), below, flags).map_err(link_appeared),
            Way::Steps => {
                let (parent, name) = self.parent(below)?;
                rustix::fs::openat(&parent, name, flags, Mode::empty()).map_err(link_appeared)
            }
        }
    }

    fn open_by_steps(&self, below: &Path) -> Result<(File, Stat), PathErrorKind> {
        let (parent, name) = self.parent(below)?;
        let before = Stat::from(&rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?);
        self.require_file(&before, parent.as_fd())?;
        let fd = rustix::fs::openat(&parent, name, READ | OFlags::NOFOLLOW, Mode::empty())
            .map_err(link_appeared)?;
        let stat = Stat::from(&rustix::fs::fstat(&fd)?);
        self.require_file(&stat, fd.as_fd())?;
        Ok((fd.into(), stat))
    }

    /// Refuses all but regular files, and the files of /proc, which look regular but can block, consume
    /// what they show or hold the memory of a process. Those can only lie on another device than the
    /// folder, or below a folder that is itself in /proc, so ordinary files cost no further call.
    fn require_file(&self, stat: &Stat, fd: BorrowedFd<'_>) -> Result<(), PathErrorKind> {
        if stat.kind != Kind::File {
            return Err(PathErrorKind::NotAFile(stat.kind));
        }
        if self.made_by_kernel || (stat.stamp.device() != self.device && is_proc(fd)) {
            return Err(PathErrorKind::NotAFile(Kind::Special("kernel file")));
        }
        Ok(())
    }

    /// Opens each directory on the way to `below`, so that no link is followed.
    fn parent<'a>(&self, below: &'a Path) -> Result<(OwnedFd, &'a OsStr), PathErrorKind> {
        let mut fd = self.fd.try_clone()?;
        let mut names = below.components().peekable();
        let mut last = OsStr::new(".");
        while let Some(component) = names.next() {
            let Component::Normal(name) = component else {
                // Resolved paths hold only names, so this path was made up.
                return Err(PathErrorKind::Outside);
            };
            if names.peek().is_none() {
                last = name;
            } else {
                fd = rustix::fs::openat(&fd, name, STAND | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(link_appeared)?;
            }
        }
        Ok((fd, last))
    }
}

impl Way {
    #[cfg(target_os = "linux")]
    fn of(fd: BorrowedFd<'_>) -> Self {
        // Old kernels answer ENOSYS, the filters of old container engines EPERM.
        match whole(fd, Path::new("."), OFlags::PATH) {
            Ok(_) => Self::Whole,
            Err(_) => Self::Steps,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: BorrowedFd<'_>) -> Self {
        Self::Steps
    }
}

#[cfg(target_os = "linux")]
fn whole(fd: BorrowedFd<'_>, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(fd, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Opens for reading exactly what the handle stands on, whatever has happened to its name.
#[cfg(target_os = "linux")]
fn reopen(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, READ, Mode::empty())
}

#[cfg(target_os = "linux")]
pub(super) fn is_proc(fd: BorrowedFd<'_>) -> bool {
    // A failing answer counts as yes: what cannot be told is not read.
    rustix::fs::fstatfs(fd).map_or(true, |system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_proc(_: BorrowedFd<'_>) -> bool {
    false
}

/// The paths given here were free of links when they were resolved.
pub(super) fn link_appeared(errno: Errno) -> PathErrorKind {
    match errno {
        Errno::LOOP => PathErrorKind::LinkAppeared,
        other => other.into(),
    }
}

/// Reads a directory and keeps what `keep` makes of each entry.
fn read<T>(
    fd: OwnedFd,
    keep: impl Fn(BorrowedFd<'_>, &DirEntry) -> Result<Option<T>, Errno>,
) -> Result<Vec<T>, PathErrorKind> {
    let mut directory = Dir::new(fd)?;
    let mut kept = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            kept.extend(keep(directory.fd()?, &entry)?);
        }
    }
    Ok(kept)
}

/// Looks at one entry; nothing if it has vanished.
fn look(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(raw) => Ok(Some(Stat::from(&raw))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn owned(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}
