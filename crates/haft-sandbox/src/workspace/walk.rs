//! Following a path name by name, as the kernel would, to learn its canonical spelling. This is the slow
//! way, for paths with links and for places that do not exist yet. It yields a name and nothing else:
//! whatever is later learned or read comes through the folder's handle.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::Folder;
use super::spelling::Spelling;
use crate::error::PathErrorKind;
use crate::stat::{Kind, Stat};

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// As many bytes as one name may have.
pub(super) const MAX_NAME: usize = 255;

/// Follows `rest` from a folder, or from the top. What exists gets the spelling it has on disk; what does
/// not is kept by name, if only names follow. Errors met where `inside` says no are all
/// [`PathErrorKind::Outside`], so that nothing can be learned about what lies there.
pub(super) fn walk(
    folder: Option<&Folder>,
    rest: &Path,
    inside: impl Fn(&Path) -> bool,
    spelling: &Spelling,
) -> Result<PathBuf, PathErrorKind> {
    let mut here = folder.map_or(Path::new("/"), |folder| folder.path.as_path()).to_owned();
    // The device that `here` is on, once it is known: whether case counts is up to it.
    let mut device = folder.map(|folder| folder.handle.device());
    let mut steps = VecDeque::new();
    push_front(&mut steps, rest);
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        let name = match step {
            Step::Top => {
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
                Some(meant) => {
                    // Counted like a link, because names can be exchanged meanwhile again and again.
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(fail(PathErrorKind::Loop));
                    }
                    steps.push_front(Step::Name(meant));
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
                // Links in /proc are doors to other processes, and their text is not where they lead.
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
    Top,
    Up,
    Name(OsString),
}

fn push_front(steps: &mut VecDeque<Step>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => steps.push_front(Step::Name(name.to_owned())),
            Component::ParentDir => steps.push_front(Step::Up),
            Component::RootDir => steps.push_front(Step::Top),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// The place that would be there if its directories were made. `..` cannot be followed through what does
/// not exist.
fn missing(mut place: PathBuf, steps: VecDeque<Step>) -> Result<PathBuf, PathErrorKind> {
    for step in steps {
        match step {
            Step::Name(name) if name.len() > MAX_NAME => return Err(PathErrorKind::TooLong),
            Step::Name(name) => place.push(name),
            Step::Up | Step::Top => return Err(PathErrorKind::NotFound),
        }
    }
    Ok(place)
}

fn os_string(bytes: Vec<u8>) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(bytes)
}
