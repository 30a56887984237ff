//! What is known beforehand to prevent a view, without making one.

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs};

/// Why a command cannot be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// A file system is mounted inside the workspace.
    #[error("`{}` is a mount point, and a view of the workspace would not have what is mounted there", .0.display())]
    MountBelow(PathBuf),
    /// The workspace belongs to another user or group.
    #[error("`{}` belongs to another user or group, whose files a view cannot change", .0.display())]
    ForeignOwner(PathBuf),
    /// The sandbox has no mount namespace.
    #[error("it needs a mount namespace of its own, which the sandbox does not have here")]
    NoView,
}

/// What prevents a view of these directories, as far as it can be told without making one.
pub fn obstacle(roots: &[PathBuf]) -> Option<Obstacle> {
    let is_root = rustix::process::geteuid().is_root();
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    for root in roots {
        let is_own = fs::metadata(root).is_ok_and(|found| (found.uid(), found.gid()) == own);
        // All users are mapped into root's sandbox.
        if !is_root && !is_own {
            return Some(Obstacle::ForeignOwner(root.clone()));
        }
    }
    mount_below(roots).map(Obstacle::MountBelow)
}

fn mount_below(roots: &[PathBuf]) -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let points =
        mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut points = points.map(unescaped);
    points.find(|point| roots.iter().any(|root| is_below(point, root)))
}

fn is_below(path: &Path, root: &Path) -> bool {
    path != root && path.starts_with(root)
}

/// A path of the list of mounts, in which blanks and backslashes are written as three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_blanks_are_read() {
        assert_eq!(unescaped(br"/a\040b\134c"), PathBuf::from("/a b\\c"));
    }
}
