//! [`AbsPath`]: a path that the workspace has resolved. Links were followed and confinement was checked when it was made; the
//! file may not exist any more.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names;

/// An absolute path without links, `.` or `..`. It is a name, not a permission: every method that opens it checks again that
/// it lies inside and that no link has appeared on the way.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbsPath(Arc<Path>);

impl AbsPath {
    /// Wraps a path that is known to be canonical.
    pub(crate) fn canonical(path: PathBuf) -> Self {
        debug_assert!(path.is_absolute());
        Self(path.into())
    }

    /// A path that is normalised in the text alone (`.` and `..`), without file system access: for tests, and for claims on
    /// files that do not exist.
    pub fn lexical(path: &Path) -> Self {
        let mut clean = PathBuf::from("/");
        for component in path.components() {
            match component {
                std::path::Component::Normal(name) => clean.push(name),
                std::path::Component::ParentDir => {
                    clean.pop();
                }
                _ => {}
            }
        }
        Self(clean.into())
    }

    /// The path itself.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The last component.
    pub fn file_name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// The parent directory; `None` for `/`.
    pub fn parent(&self) -> Option<AbsPath> {
        self.0.parent().map(|parent| Self(parent.into()))
    }

    /// The path of an entry of this directory. The name is not looked up: that it is missing, or a link, shows when it is
    /// opened.
    pub fn child(&self, name: &OsStr) -> AbsPath {
        Self::lexical(&self.0.join(name))
    }

    /// Whether this path is `other` or lies below it.
    pub fn is_within(&self, other: &AbsPath) -> bool {
        lies_within(&self.0, other)
    }
}

/// Whether a path is `other` or lies below it. Compares bytes, which is enough for paths without `.`, `..` and empty
/// components.
pub(crate) fn lies_within(path: &Path, other: &AbsPath) -> bool {
    let other = other.0.as_os_str().as_bytes();
    let rest = path.as_os_str().as_bytes().strip_prefix(other);
    // `/ws-evil` is not in `/ws`.
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || other.ends_with(b"/"))
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&names::show(&*self.0))
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_prefix_of_names_is_not_within() {
        let within = |path: &str, other: &str| {
            AbsPath::lexical(path.as_ref()).is_within(&AbsPath::lexical(other.as_ref()))
        };
        for (path, other) in [("/ws", "/ws"), ("/ws/a", "/ws"), ("/ws/a/b", "/ws/a"), ("/a", "/"), ("/", "/")]
        {
            assert!(within(path, other), "{path} {other}");
            assert!(Path::new(path).starts_with(other));
        }
        for (path, other) in
            [("/ws-evil", "/ws"), ("/w", "/ws"), ("/", "/ws"), ("/b/ws", "/ws"), ("/ws", "/ws/a")]
        {
            assert!(!within(path, other), "{path} {other}");
            assert!(!Path::new(path).starts_with(other));
        }
    }
}
