//! Changing files of the workspace. Every change happens in a directory that was opened beneath its folder without following
//! a link, under names in that directory alone, so a link swapped in on the way cannot lead it out. New content is written
//! to a temporary file and then renamed atomically; where the kernel can exchange two names, the old file comes out in the
//! same step and is compared with what was expected, so a change that another program made in between is noticed, put back
//! and reported as a conflict.

mod attributes;
mod draft;
mod look;
mod place;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod tree;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

pub use draft::Draft;
use look::{Depth, look, look_like, look_to};

use super::{FolderAccess, Workspace, spelling};
use crate::change::{
    ChangeError, ChangeErrorKind, Changed, Durability, Expect, Hash, Like, State, TempName, TreeEntry,
};
use crate::error::PathErrorKind;
use crate::path::AbsPath;
use crate::stat::{Kind, Stamp};

type Result<T> = std::result::Result<T, ChangeErrorKind>;

impl Workspace {
    /// The state of a path, with a hash of its content. A link on the way is refused; of a link at the path itself, the
    /// state of the link. The path may lie in a folder for reading.
    pub fn state(&self, path: &AbsPath) -> std::result::Result<State, ChangeError> {
        self.state_at_depth(path, Depth::Hash)
    }

    /// Like [`Workspace::state`], but does not read a file that has this stamp: it is assumed to have this hash. For
    /// changes that verify the content when they replace the file.
    pub fn state_assuming(
        &self,
        path: &AbsPath,
        hash: &Hash,
        stamp: &Stamp,
    ) -> std::result::Result<State, ChangeError> {
        self.state_at_depth(path, Depth::Take(*hash, *stamp))
    }

    /// Like [`Workspace::state`], for a comparison with another state: a file is hashed however large it is if the other
    /// has a hash.
    pub fn state_like(&self, path: &AbsPath, other: &State) -> std::result::Result<State, ChangeError> {
        self.state_at_depth(path, Depth::like(other))
    }

    fn state_at_depth(&self, path: &AbsPath, depth: Depth) -> std::result::Result<State, ChangeError> {
        let inspect = || match self.spot_to_read(path) {
            Ok(spot) => look_to(&spot.dir, &spot.name, depth),
            Err(ChangeErrorKind::Path(PathErrorKind::NotFound)) => Ok(State::Missing),
            Err(kind) => Err(kind),
        };
        inspect().map_err(|kind| self.change_error(path, kind))
    }

    /// The states of a path and everything below it, directories before their content, sorted by name. Links are not
    /// followed; a file system mounted below is an error.
    pub fn tree(&self, path: &AbsPath) -> std::result::Result<Vec<TreeEntry>, ChangeError> {
        let read = || {
            let spot = self.spot_to_read(path)?;
            tree::read(&spot.dir, &spot.name)
        };
        read().map_err(|kind| self.change_error(path, kind))
    }

    /// Like [`Workspace::tree`], but reads no content: files are told apart by size and time alone.
    pub fn outline(&self, path: &AbsPath) -> std::result::Result<Vec<TreeEntry>, ChangeError> {
        let read = || {
            let spot = self.spot_to_read(path)?;
            tree::outline(&spot.dir, &spot.name)
        };
        read().map_err(|kind| self.change_error(path, kind))
    }

    /// Syncs the file systems of all folders for writing.
    pub fn sync_folders(&self) -> std::io::Result<()> {
        for folder in self.folders().iter().filter(|folder| folder.access == FolderAccess::Write) {
            folder.handle.sync_file_system()?;
        }
        Ok(())
    }

    /// The missing parent directories of a path, which a write would make, outermost first.
    pub fn missing_parents(&self, path: &AbsPath) -> std::result::Result<Vec<AbsPath>, ChangeError> {
        let mut missing = Vec::new();
        let mut next = path.parent();
        while let Some(parent) = next {
            let fail = |kind| self.change_error(&parent, kind);
            if self.is_folder(&parent) || self.state(&parent)? != State::Missing {
                break;
            }
            self.writable(&parent).map_err(fail)?;
            next = parent.parent();
            missing.push(parent);
        }
        missing.reverse();
        Ok(missing)
    }

    /// Writes a whole file: makes missing parent directories, then replaces the content atomically. A file with several
    /// hard links is replaced under this name only, and the other names keep the old content; [`Changed::links`] has
    /// their number.
    pub fn write(
        &self,
        path: &AbsPath,
        content: &[u8],
        expect: &Expect,
        temp: &TempName,
        durability: Durability,
    ) -> std::result::Result<Changed, ChangeError> {
        let before = self.state(path)?;
        if !expect.allows(&before) {
            return Err(self.change_error(path, conflict(&before)));
        }
        let mut draft = self.draft(path, before, temp, durability)?;
        draft.file(content, Like::Replaced)?;
        draft.publish()
    }

    /// Begins a change that replaces `before` at a path. Makes missing parent directories. Nothing is visible at the path
    /// until [`Draft::publish`]; a draft that is dropped leaves nothing behind.
    pub fn draft(
        &self,
        path: &AbsPath,
        before: State,
        temp: &TempName,
        durability: Durability,
    ) -> std::result::Result<Draft, ChangeError> {
        let begin = || {
            match &before {
                State::Directory { .. } => return Err(ChangeErrorKind::WrongKind(Kind::Directory)),
                State::Special(kind) => return Err(ChangeErrorKind::WrongKind(*kind)),
                _ => {}
            }
            let (spot, made) = self.spot_to_fill(path, durability)?;
            Ok(Draft::new(self.display(path), spot, made, before.clone(), temp.clone(), durability))
        };
        begin().map_err(|kind| self.change_error(path, kind))
    }

    /// Checks that a path may be written: not in a folder for reading, none of haft's own files, and no file that this user
    /// may not write, even though the user could replace it.
    pub fn require_writable(&self, path: &AbsPath) -> std::result::Result<(), ChangeError> {
        let act = || {
            self.writable(path)?;
            let spot = match self.spot_to_read(path) {
                Err(ChangeErrorKind::Path(_) | ChangeErrorKind::Protected) => return Ok(()),
                spot => spot?,
            };
            match rustix::fs::accessat(&spot.dir, &spot.name, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            {
                Err(Errno::ACCESS) => Err(PathErrorKind::from(Errno::ACCESS).into()),
                _ => Ok(()),
            }
        };
        act().map_err(|kind| self.change_error(path, kind))
    }

    /// Checks that a path may be moved or removed: not a workspace folder or a directory that contains one, and not in a
    /// folder for reading.
    pub fn require_removable(&self, path: &AbsPath) -> std::result::Result<(), ChangeError> {
        self.spot_to_empty(path).map(drop).map_err(|kind| self.change_error(path, kind))
    }

    /// Checks that a directory may be moved or removed with its content: none of haft's own files may be in it. The error
    /// names the first one.
    pub fn require_none_guarded_below(&self, path: &AbsPath) -> std::result::Result<(), ChangeError> {
        let spot = self.spot_to_empty(path).map_err(|kind| self.change_error(path, kind))?;
        match tree::find(&spot.dir, &spot.name, &|name| spelling::means(name, super::OWN_FOLDER)) {
            Some(below) => {
                let place = AbsPath::lexical(&path.as_path().join(below));
                Err(self.change_error(&place, ChangeErrorKind::Guarded))
            }
            None => Ok(()),
        }
    }

    /// Removes a file, link or empty directory if it is still as `before`. A workspace folder, or a directory that contains
    /// one, is refused.
    pub fn remove(
        &self,
        path: &AbsPath,
        before: &State,
        temp: &TempName,
        durability: Durability,
    ) -> std::result::Result<(), ChangeError> {
        let act = || {
            let spot = self.spot_to_empty(path)?;
            if matches!(before, State::Directory { .. }) {
                match rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR) {
                    Err(Errno::NOTDIR | Errno::NOENT) => return Err(spot.conflict()),
                    done => done?,
                }
                return spot.settle(durability);
            }
            let aside = spot.set_aside(temp)?;
            let found = look_like(&spot.dir, temp.as_str().as_ref(), before);
            if !found.as_ref().is_ok_and(|found| found.same_content(before)) {
                spot.put_back(temp, &aside)?;
                return Err(found.map_or_else(|kind| kind, |found| conflict(&found)));
            }
            rustix::fs::unlinkat(&spot.dir, temp.as_str(), AtFlags::empty())?;
            spot.settle(durability)
        };
        act().map_err(|kind| self.change_error(path, kind))
    }

    /// Removes a directory with its content, never following a link. It is renamed away atomically; a file system mounted
    /// below is refused before that. If its content is not as expected, it is put back. Files that cannot be deleted stay
    /// under the temporary name, and the reason is returned.
    pub fn remove_tree(
        &self,
        path: &AbsPath,
        is_expected: &dyn Fn(&[TreeEntry]) -> bool,
        temp: &TempName,
        durability: Durability,
    ) -> std::result::Result<Option<String>, ChangeError> {
        let act = || {
            let spot = self.spot_to_empty(path)?;
            tree::require_no_mounts(&spot.dir, &spot.name)?;
            let aside = spot.set_aside(temp)?;
            // Out of reach by its own name, it no longer changes, so this is what will be deleted.
            let found = tree::read(&spot.dir, temp.as_str().as_ref());
            if !found.as_ref().is_ok_and(|found| is_expected(found)) {
                spot.put_back(temp, &aside)?;
                let changed =
                    || ChangeErrorKind::Conflict("a directory whose content has changed".to_owned());
                return Err(found.map_or_else(|kind| kind, |_| changed()));
            }
            spot.settle(durability)?;
            let failure = tree::remove(&spot.dir, temp.as_str().as_ref()).err();
            Ok(failure.map(|kind| self.change_error(&temp_path(path, temp), kind).to_string()))
        };
        act().map_err(|kind| self.change_error(path, kind))
    }

    /// Moves `from`, if it is still as `before`, to `to`, which must not exist. Makes missing parent directories. Between
    /// file systems it fails with [`ChangeErrorKind::CrossesFileSystems`].
    pub fn rename(
        &self,
        from: &AbsPath,
        to: &AbsPath,
        before: &State,
        durability: Durability,
    ) -> std::result::Result<(), ChangeError> {
        let source = self.spot_to_empty(from).map_err(|kind| self.change_error(from, kind))?;
        let (target, made) = self.spot_to_fill(to, durability).map_err(|kind| self.change_error(to, kind))?;
        let act = || {
            place::rename_to_nothing(&source, &source.name, &target, &target.name)?;
            let found = look_like(&target.dir, &target.name, before)?;
            if !found.same_content(before) {
                place::rename_to_nothing(&target, &target.name, &source, &source.name)?;
                return Err(conflict(&found));
            }
            target.settle(durability)?;
            source.settle(durability)
        };
        act().map_err(|kind| {
            made.remove_empty();
            let blamed = if matches!(kind, ChangeErrorKind::Exists) { to } else { from };
            self.change_error(blamed, kind)
        })
    }

    /// Sets the permission bits of a file or directory if it is still as `before`.
    pub fn set_mode(
        &self,
        path: &AbsPath,
        before: &State,
        mode: u32,
        durability: Durability,
    ) -> std::result::Result<(), ChangeError> {
        let act = || {
            let spot = self.spot_to_empty(path)?;
            let found = look_like(&spot.dir, &spot.name, before)?;
            let same_mode = match (found.attributes(), before.attributes()) {
                (Some(found), Some(before)) => found.mode == before.mode,
                _ => false,
            };
            if !(found.same_content(before) && same_mode) {
                return Err(conflict(&found));
            }
            attributes::set_mode(&spot.dir, &spot.name, mode)?;
            spot.settle(durability)
        };
        act().map_err(|kind| self.change_error(path, kind))
    }

    /// Removes a directory if it is empty and not a folder of the workspace; otherwise does nothing.
    pub fn remove_if_empty(&self, path: &AbsPath) {
        if let Ok(spot) = self.spot_to_empty(path) {
            let _ = rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR);
        }
    }

    /// The state of a temporary file beside a path.
    pub fn temp_state(&self, beside: &AbsPath, temp: &TempName) -> std::result::Result<State, ChangeError> {
        self.state(&temp_path(beside, temp))
    }

    /// Removes the temporary file or directory of an interrupted change beside a path, if it exists.
    pub fn discard(&self, beside: &AbsPath, temp: &TempName) -> std::result::Result<(), ChangeError> {
        let act = || match self.spot_to_change(beside) {
            Ok(spot) => tree::remove(&spot.dir, temp.as_str().as_ref()),
            Err(ChangeErrorKind::Path(PathErrorKind::NotFound)) => Ok(()),
            Err(kind) => Err(kind),
        };
        act().map_err(|kind| self.change_error(beside, kind))
    }

    /// Puts back a file that an interrupted change renamed away: the temporary file gets the path's name, and the file that
    /// is at the path now, if any, gets the temporary name.
    pub fn put_back(&self, path: &AbsPath, temp: &TempName) -> std::result::Result<(), ChangeError> {
        let act = || {
            let spot = self.spot_to_change(path)?;
            let flags = match look(&spot.dir, &spot.name)? {
                State::Missing => RenameFlags::NOREPLACE,
                _ => RenameFlags::EXCHANGE,
            };
            Ok(rustix::fs::renameat_with(&spot.dir, temp.as_str(), &spot.dir, &spot.name, flags)?)
        };
        act().map_err(|kind| self.change_error(path, kind))
    }

    fn change_error(&self, path: &AbsPath, kind: ChangeErrorKind) -> ChangeError {
        ChangeError::new(self.display(path), kind)
    }

    fn is_folder(&self, path: &AbsPath) -> bool {
        self.folders().iter().any(|folder| folder.path == *path)
    }

    /// Whether removing or moving a path would take away a folder of the workspace.
    fn is_protected(&self, path: &AbsPath) -> bool {
        let folders = self.folders().iter().map(|folder| &folder.path);
        folders.chain(self.focus()).chain(&self.0.guarded).any(|folder| folder.is_within(path))
    }

    fn writable(&self, path: &AbsPath) -> Result<&super::Folder> {
        let folder = self.admit(path.as_path())?;
        if self.is_guarded(path) {
            return Err(ChangeErrorKind::Guarded);
        }
        match folder.access {
            FolderAccess::Write => Ok(folder),
            FolderAccess::Read => Err(ChangeErrorKind::ReadOnlyFolder),
        }
    }

    /// Whether a path cannot be changed because it belongs to haft itself: a project's settings, or a guarded path without
    /// an exception. A change there could change what tools may do.
    pub fn is_guarded(&self, path: &AbsPath) -> bool {
        !self.is_excepted(path.as_path()) && self.guards(path)
    }

    /// Whether a path is a project's settings or guarded, regardless of exceptions.
    pub fn guards(&self, path: &AbsPath) -> bool {
        let own = |name| spelling::means(name, super::OWN_FOLDER);
        path.as_path().iter().any(own) || self.0.guarded.iter().any(|guarded| path.is_within(guarded))
    }
}

fn temp_path(path: &AbsPath, temp: &TempName) -> AbsPath {
    path.parent().unwrap_or_else(|| path.clone()).child(temp.as_str().as_ref())
}

fn conflict(found: &State) -> ChangeErrorKind {
    ChangeErrorKind::Conflict(found.describe())
}
