//! Following a path name by name, as the kernel would, to find its canonical spelling. This is the slow path, for paths with
//! links and for files that do not exist yet. It yields a path and nothing else: the folder's handle is used for all later
//! access, so a race here cannot lead out.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::Folder;
use super::spelling::Spelling;
use crate::error::PathErrorKind;
use crate::stat::{Kind, Stat};

/// Most links in a path, as on Linux.
const MAX_LINKS: usize = 40;

/// Most bytes of one name.
pub(super) const MAX_NAME: usize = 255;

/// Follows `rest` from a folder, or from the root. Names that exist get the spelling they have on disk; those that do not
/// are kept, if only names follow. Outside of `inside` every error is [`PathErrorKind::Outside`], so that a caller learns
/// nothing about files there.
pub(super) fn walk(
    folder: Option<&Folder>,
    rest: &Path,
    inside: impl Fn(&Path) -> bool,
    spelling: &Spelling,
) -> Result<PathBuf, PathErrorKind> {
    let mut here = folder.map_or(Path::new("/"), |folder| folder.path.as_path()).to_owned();
    // The device that `here` is on, once it is known: it decides whether case matters.
    let mut device = folder.map(|folder| folder.handle.device());
    let mut steps = VecDeque::new();
    push_front(&mut steps, rest);
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        let name = match step {
            Step::Root => {
                here = PathBuf::from("/");
                device = None;
                continue;
            }
            Step::Up => {
                here.pop();
                device = None;
                continue;
            }
            Step::Name(name) => name,
        };
        let mut next = here.join(&name);
        let fail = |kind| {
            if inside(&here) { kind } else { PathErrorKind::Outside }
        };
        let found = match rustix::fs::lstat(&next) {
            Ok(raw) => Stat::from(&raw),
            Err(Errno::NOENT) => match spelling.of_missing(&here, &name) {
                Some(spelled) => {
                    // Counted like a link: files that are renamed back and forth must not keep the walk going.
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(fail(PathErrorKind::Loop));
                    }
                    steps.push_front(Step::Name(spelled));
                    continue;
                }
                None => return missing(next, steps).map_err(fail),
            },
            Err(errno) => return Err(fail(errno.into())),
        };
        if device.is_none() {
            device = rustix::fs::lstat(&here).ok().map(|raw| Stat::from(&raw).stamp.device());
        }
        if let Some(name) = device.and_then(|device| spelling.of_found(&here, &name, device)) {
            next.set_file_name(name);
        }
        match found.kind {
            Kind::Symlink => {
                // Links in /proc lead into other processes, and their text is not their target.
                if here.starts_with("/proc") {
                    return Err(PathErrorKind::Outside);
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(fail(PathErrorKind::Loop));
                }
                let target = rustix::fs::readlink(&next, Vec::new()).map_err(|errno| fail(errno.into()))?;
                push_front(&mut steps, Path::new(&os_string(target.into_bytes())));
            }
            Kind::Directory => {
                here = next;
                device = Some(found.stamp.device());
            }
            _ if steps.is_empty() => here = next,
            _ => return Err(fail(PathErrorKind::NotADirectory)),
        }
    }
    Ok(here)
}

enum Step {
    Root,
    Up,
    Name(OsString),
}

fn push_front(steps: &mut VecDeque<Step>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => steps.push_front(Step::Name(name.to_owned())),
            Component::ParentDir => steps.push_front(Step::Up),
            Component::RootDir => steps.push_front(Step::Root),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// The path of a missing file, with its missing directories. `..` cannot be followed through a directory that does not
/// exist.
fn missing(mut path: PathBuf, steps: VecDeque<Step>) -> Result<PathBuf, PathErrorKind> {
    for step in steps {
        match step {
            Step::Name(name) if name.len() > MAX_NAME => return Err(PathErrorKind::TooLong),
            Step::Name(name) => path.push(name),
            Step::Up | Step::Root => return Err(PathErrorKind::NotFound),
        }
    }
    Ok(path)
}

fn os_string(bytes: Vec<u8>) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(bytes)
}
