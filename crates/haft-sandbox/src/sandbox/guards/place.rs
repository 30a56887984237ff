//! A name in an open directory: what haft looks at, renames and makes after a command, whatever has become of the path.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};

use super::super::policy::Policy;
use super::super::recorder;
use crate::stat::Kind;
use crate::workspace::beneath::Beneath;

/// Beginning of the extension of files that were set aside.
pub(super) const ASIDE: &str = "set-aside";

/// The writable folders of a policy, open.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots(Vec<(PathBuf, Arc<Beneath>)>);

impl Roots {
    /// Opens the folders that are still those of the session.
    pub(super) fn open(policy: &Policy) -> Self {
        let open = |path: &PathBuf| {
            let root = Beneath::open(path).ok()?;
            policy.require_opened(path, root.as_fd()).ok()?;
            Some((path.clone(), Arc::new(root)))
        };
        Self(policy.write.iter().filter_map(open).collect())
    }

    /// One folder, open if it can be opened.
    pub(super) fn one(path: &Path) -> Self {
        Self(Beneath::open(path).ok().map(|root| (path.to_owned(), Arc::new(root))).into_iter().collect())
    }

    /// The place of a path, if the directory that it is in can be opened without following a link.
    pub(super) fn find(&self, path: &Path) -> Option<Place> {
        let inside = self.0.iter().filter(|(root, _)| path.starts_with(root));
        let (root, handle) = inside.max_by_key(|(root, _)| root.as_os_str().len())?;
        let below = path.strip_prefix(root).ok()?.to_owned();
        let name = below.file_name()?.to_owned();
        let dir = handle.open_directory(below.parent().unwrap_or(Path::new(""))).ok()?;
        Some(Place { dir, name, below, root: handle.clone(), path: path.to_owned() })
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub(super) struct Place {
    dir: OwnedFd,
    name: OsString,
    below: PathBuf,
    root: Arc<Beneath>,
    path: PathBuf,
}

impl Place {
    fn kind(&self) -> Option<FileType> {
        let found = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    pub(super) fn exists(&self) -> bool {
        self.kind().is_some()
    }

    pub(super) fn is_folder(&self) -> bool {
        self.kind() == Some(FileType::Directory)
    }

    /// Whether a link or a regular file is there.
    pub(super) fn is_pointer(&self) -> bool {
        matches!(self.kind(), Some(FileType::Symlink | FileType::RegularFile))
    }

    /// The target of the link that is there.
    pub(super) fn link(&self) -> Option<PathBuf> {
        let target = rustix::fs::readlinkat(&self.dir, &self.name, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()).into())
    }

    /// The paths in the folder that is there.
    pub(super) fn entries(&self) -> Vec<PathBuf> {
        self.inside(|_| true)
    }

    /// The folders in the folder that is there.
    pub(super) fn folders_inside(&self) -> Vec<PathBuf> {
        self.inside(|kind| kind == Kind::Directory)
    }

    fn inside(&self, wanted: impl Fn(Kind) -> bool) -> Vec<PathBuf> {
        let names = self.root.names(&self.below).unwrap_or_default();
        names.iter().filter(|entry| wanted(entry.kind)).map(|entry| self.path.join(&entry.name)).collect()
    }

    /// The text of the regular file that is there; `None` if it is another kind of file, larger or not text.
    pub(super) fn text(&self, max: u64) -> Option<String> {
        let (file, _) = self.root.open_file(&self.below).ok()?;
        let mut text = String::new();
        file.take(max + 1).read_to_string(&mut text).ok()?;
        (text.len() as u64 <= max).then_some(text)
    }

    /// Renames what is there. It is not deleted, because another program may have made it.
    pub(super) fn set_aside(&self) -> Option<PathBuf> {
        (0..100).find_map(|count| {
            let mut other = self.name.clone();
            other.push(if count == 0 { format!(".{ASIDE}") } else { format!(".{ASIDE}-{count}") });
            let flags = RenameFlags::NOREPLACE;
            let renamed = rustix::fs::renameat_with(&self.dir, &self.name, &self.dir, &other, flags);
            renamed.is_ok().then(|| self.path.with_file_name(other))
        })
    }

    /// Makes a link where nothing is.
    pub(super) fn make_link(&self, target: &Path) {
        let _ = rustix::fs::symlinkat(target, &self.dir, &self.name);
    }

    /// Makes a file where nothing is.
    pub(super) fn write_new(&self, content: &mut dyn io::Read, mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        io::copy(content, &mut file)?;
        file.flush()?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?)
    }

    /// Makes a file where nothing is, from one of a recorder's store. False if that fails.
    pub(super) fn copy_from(&self, kept: &Path, mode: u32) -> bool {
        recorder::open_kept(kept).and_then(|mut kept| self.write_new(&mut kept, mode)).is_ok()
    }

    /// Sets the permission bits of the regular file that is there.
    pub(super) fn set_mode(&self, mode: u32) {
        if let Ok((file, _)) = self.root.open_file(&self.below) {
            let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777));
        }
    }
}
