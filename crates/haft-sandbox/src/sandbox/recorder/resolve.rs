//! Following a path as the task that names it would: from its own directory, in its own view of the file system. It changes
//! nothing and knows nothing of the workspace.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::rc::Rc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::calls::Named;
use super::notify::Task;

/// Most links that are followed on one path, as in the kernel.
const MAX_LINKS: usize = 40;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Target {
    /// A name in a directory; nothing may have it yet.
    Name(Rc<OwnedFd>, OsString),
    /// A file or directory that was named without a name of its own: by a descriptor, or by `.`.
    Object(Rc<OwnedFd>),
}

/// Follows all of a path but a link at its end.
pub(super) fn resolve(task: &Task<'_>, named: &Named) -> Result<Target, Errno> {
    let start = match named.path.as_bytes().first() {
        Some(b'/') => task.open_root()?,
        _ => task.open(named.dir)?,
    };
    if named.path.is_empty() {
        return Ok(Target::Object(start));
    }
    from(task, start, &named.path)
}

/// Follows the link that a name is, once; `None` if it is no link.
pub(super) fn follow(task: &Task<'_>, dir: &Rc<OwnedFd>, name: &OsStr) -> Result<Option<Target>, Errno> {
    let target = match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Ok(target) => OsString::from_vec(target.into_bytes()),
        Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    if is_proc(dir) {
        // The target of such a link is only its description.
        return rustix::fs::openat(dir, name, HANDLE, Mode::empty())
            .map(|object| Some(Target::Object(Rc::new(object))));
    }
    let start = match target.as_bytes().first() {
        Some(b'/') => task.open_root()?,
        _ => dir.clone(),
    };
    from(task, start, &target).map(Some)
}

fn from(task: &Task<'_>, start: Rc<OwnedFd>, path: &OsStr) -> Result<Target, Errno> {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let cut = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (parent, name) = (OsStr::from_bytes(&bytes[..cut]), OsStr::from_bytes(&bytes[cut..end]));
    if matches!(name.as_bytes(), b"" | b"." | b"..") {
        return open(task, start, path).map(Target::Object);
    }
    let dir = if parent.is_empty() { start } else { open(task, start, parent)? };
    Ok(Target::Name(dir, name.to_owned()))
}

/// Opens a path, with all links followed.
fn open(task: &Task<'_>, start: Rc<OwnedFd>, path: &OsStr) -> Result<Rc<OwnedFd>, Errno> {
    // A link may begin at the task's root, which is not this process's, and `/proc/self` is a link, too.
    let below =
        path.as_bytes().iter().position(|byte| *byte != b'/').map_or(&b"."[..], |at| &path.as_bytes()[at..]);
    match rustix::fs::openat2(&start, below, HANDLE, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(found) => Ok(Rc::new(found)),
        Err(_) => walk(task, start, path),
    }
}

/// Opens a path name by name: slower, but links and `/proc/self` lead where they lead the task.
fn walk(task: &Task<'_>, start: Rc<OwnedFd>, path: &OsStr) -> Result<Rc<OwnedFd>, Errno> {
    let root = task.open_root()?;
    let mut names: VecDeque<OsString> = components(path);
    let mut current = start;
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        if name == ".." && same_file(&current, &root)? {
            continue;
        }
        if matches!(name.as_bytes(), b"self" | b"thread-self") && is_proc_root(&current) {
            let own = format!("/proc/{}", task.call.pid);
            current = Rc::new(rustix::fs::open(own, HANDLE, Mode::empty())?);
            continue;
        }
        let next = rustix::fs::openat(&current, name.as_os_str(), HANDLE | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) != FileType::Symlink {
            current = Rc::new(next);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = OsString::from_vec(target.into_bytes());
        if is_proc(&current) && !is_proc_root(&current) {
            current = Rc::new(rustix::fs::openat(&current, name.as_os_str(), HANDLE, Mode::empty())?);
            continue;
        }
        if target.as_bytes().first() == Some(&b'/') {
            current = task.open_root()?;
        }
        for name in components(&target).into_iter().rev() {
            names.push_front(name);
        }
    }
    Ok(current)
}

fn components(path: &OsStr) -> VecDeque<OsString> {
    let names = path.as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b".")).map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

fn same_file(one: impl AsFd, other: impl AsFd) -> Result<bool, Errno> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

fn is_proc(dir: &OwnedFd) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn is_proc_root(dir: &OwnedFd) -> bool {
    is_proc(dir) && rustix::fs::fstat(dir).is_ok_and(|found| found.st_ino == 1)
}
