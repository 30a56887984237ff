//! Something new under a temporary name, until it takes its place.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::look::{Depth, look_into, look_like};
use super::place::{self, Made, Pinned, Spot, is_unsupported, pin};
use super::{Result, attributes, conflict, tree};
use crate::change::{
    Attributes, ChangeError, ChangeErrorKind, Changed, Durability, Like, State, TempName, TreeEntry,
};
use crate::offload::offload;
use crate::path::AbsPath;
use crate::start_writing;
use crate::stat::{Stamp, Stat};
use crate::workspace::Workspace;

const NEW: OFlags =
    OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::WRONLY);

/// Something that is going to take a place, begun with [`Workspace::draft`](crate::Workspace::draft).
#[derive(Debug)]
pub struct Draft {
    shown: String,
    spot: Spot,
    made: Made,
    before: State,
    temp: TempName,
    durability: Durability,
    /// The stamp by which what was there before is recognised, if that can be.
    stamp: Option<Stamp>,
    /// The file, until it is on disk.
    unsynced: Option<File>,
    /// Whether the temporary name is in use.
    begun: bool,
    published: bool,
}

impl Draft {
    pub(super) fn new(
        shown: String,
        spot: Spot,
        made: Made,
        before: State,
        temp: TempName,
        durability: Durability,
    ) -> Self {
        Self {
            shown,
            spot,
            made,
            before,
            temp,
            durability,
            stamp: None,
            unsynced: None,
            begun: false,
            published: false,
        }
    }

    /// Has what was there before recognised by its stamp, where a change since would show in that. Without
    /// it the content is read again when this takes its place.
    pub fn recognise(&mut self, stamp: Stamp) {
        self.stamp = Some(stamp);
    }

    /// Makes it a file with everything that can be read from `content`. That is on its way to the disk then, and there
    /// after [`Draft::sync`].
    pub fn file(
        &mut self,
        mut content: impl BufRead,
        like: Like<'_>,
    ) -> std::result::Result<(), ChangeError> {
        let mut write = |draft: &Self| {
            let replaced = draft.before.attributes().map(attributes::for_new_content);
            let replaced = replaced.filter(|_| matches!(draft.before, State::File { .. }));
            let wanted = match like {
                Like::Replaced => replaced.as_ref(),
                Like::Exactly(attributes) => Some(attributes),
            };
            let dir = draft.spot.dir.as_fd();
            let file = new_file(dir, draft.temp.as_str().as_ref(), &mut content, wanted)?;
            if let Like::Exactly(wanted) = like {
                attributes::set_modified(&file, wanted.modified)?;
            }
            Ok(file)
        };
        let written = write(self).map(|file| {
            if self.durability == Durability::Full {
                start_writing(&file);
                self.unsynced = Some(file);
            }
        });
        self.begin(written)
    }

    /// The file that [`Draft::sync`] would bring to the disk, if there is one.
    pub fn unsynced(&self) -> Option<&File> {
        self.unsynced.as_ref()
    }

    /// Waits until all of it is on disk, if that is to be waited for.
    pub fn sync(&mut self) -> std::result::Result<(), ChangeError> {
        match self.unsynced.take() {
            Some(file) => file.sync_all().map_err(|error| self.fail(error.into())),
            None => Ok(()),
        }
    }

    /// Makes it a symbolic link.
    pub fn link(&mut self, target: &OsStr, wanted: &Attributes) -> std::result::Result<(), ChangeError> {
        let temp = OsStr::new(self.temp.as_str());
        let made = new_link(self.spot.dir.as_fd(), temp, target, wanted);
        self.begin(made)
    }

    /// Makes it a hard link of another file of the workspace.
    pub fn hard_link(
        &mut self,
        workspace: &Workspace,
        other: &AbsPath,
    ) -> std::result::Result<(), ChangeError> {
        let link = |draft: &Self| {
            let spot = workspace.spot_to_read(other)?;
            let temp = draft.temp.as_str();
            Ok(rustix::fs::linkat(&spot.dir, &spot.name, &draft.spot.dir, temp, AtFlags::empty())?)
        };
        let linked = link(self);
        self.begin(linked)
    }

    /// Makes it an empty directory; without attributes it gets what the umask says.
    pub fn directory(&mut self, wanted: Option<&Attributes>) -> std::result::Result<(), ChangeError> {
        let make = |draft: &Self| {
            let temp = draft.temp.as_str();
            let mode = if wanted.is_some() { 0o700 } else { 0o777 };
            rustix::fs::mkdirat(&draft.spot.dir, temp, Mode::from_raw_mode(mode))?;
            if let Some(wanted) = wanted {
                finish_directory(&draft.open_temp()?, wanted, draft.durability)?;
            }
            Ok(())
        };
        let made = make(self);
        self.begin(made)
    }

    /// Makes it a whole tree as [`Workspace::tree`](crate::Workspace::tree) gave it; `content` opens the
    /// content of the file that is named. Special files are left out.
    pub fn tree(
        &mut self,
        entries: &[TreeEntry],
        content: &mut dyn FnMut(&Path) -> io::Result<Box<dyn BufRead>>,
    ) -> std::result::Result<(), ChangeError> {
        let mut build = |draft: &Self| {
            rustix::fs::mkdirat(&draft.spot.dir, draft.temp.as_str(), Mode::from_raw_mode(0o700))?;
            let root = draft.open_temp()?;
            for entry in entries {
                let Some(name) = entry.below.file_name() else { continue };
                let dir = tree::descend(&root, entry.below.parent())?;
                match &entry.state {
                    State::Directory { .. } => {
                        rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o700))?;
                    }
                    State::File { attributes: wanted, .. } => {
                        let mut content = content(&entry.below)?;
                        let file = new_file(dir.as_fd(), name, &mut content, Some(wanted))?;
                        attributes::set_modified(&file, wanted.modified)?;
                        sync(&file, draft.durability)?;
                    }
                    State::Link { target, attributes } => new_link(dir.as_fd(), name, target, attributes)?,
                    State::Missing | State::Special(_) => {}
                }
            }
            for entry in entries.iter().rev() {
                if let State::Directory { attributes } = &entry.state {
                    finish_directory(
                        &tree::descend(&root, Some(&entry.below))?,
                        attributes,
                        draft.durability,
                    )?;
                }
            }
            Ok(())
        };
        let built = build(self);
        self.begin(built)
    }

    /// Gives it its place in one step, if what was there before still is. If something else turns out to
    /// be there, that stays and this is a conflict.
    pub fn publish(mut self) -> std::result::Result<Changed, ChangeError> {
        self.sync()?;
        self.take_place().map_err(|kind| self.fail(kind))
    }

    fn take_place(&mut self) -> Result<Changed> {
        let Spot { dir, name } = &self.spot;
        let temp = OsStr::new(self.temp.as_str());
        if self.before == State::Missing {
            match place::rename_to_nothing(&self.spot, temp, &self.spot, name) {
                Err(ChangeErrorKind::Exists) => return Err(self.spot.conflict()),
                done => done?,
            }
            self.published = true;
            self.spot.settle(self.durability)?;
            return Ok(Changed::default());
        }
        let draft = pin(dir, temp)?;
        let settled = self.stamp.filter(|stamp| stat(dir, name).is_ok_and(|now| now.stamp == *stamp));
        let (found, gone) = match rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // Only the name has changed since, and with it only the time of the last change of all.
                let taken = settled.and_then(|stamp| self.taken_for(stat(dir, temp).ok()?.stamp, stamp));
                let found = look_into(dir, temp, taken.unwrap_or_else(|| Depth::like(&self.before)));
                if !found.as_ref().is_ok_and(|(found, _)| found.same_content(&self.before)) {
                    // Somebody was faster. Should giving it back fail, what is under the temporary name
                    // is theirs and must stay.
                    self.published = true;
                    give_back(dir, temp, name, draft)?;
                    self.published = false;
                    return Err(found.map_or_else(|kind| kind, |(found, _)| conflict(&found)));
                }
                self.published = true;
                // Its space is given back when nobody holds it any more: not before the folder is on disk, which would
                // take longer with it, and not where somebody waits.
                let (found, open) = found?;
                rustix::fs::unlinkat(dir, temp, AtFlags::empty())?;
                (found, open)
            }
            Err(errno) if is_unsupported(errno) => {
                let found = look_like(dir, name, &self.before)?;
                if !found.same_content(&self.before) {
                    return Err(conflict(&found));
                }
                rustix::fs::renameat(dir, temp, dir, name)?;
                self.published = true;
                (found, None)
            }
            Err(Errno::NOENT) => return Err(self.spot.conflict()),
            Err(errno) => return Err(errno.into()),
        };
        self.spot.settle(self.durability)?;
        if let Some(gone) = gone {
            offload(move || drop(gone));
        }
        let links = if let State::File { links, .. } = found { links } else { 0 };
        Ok(Changed { links })
    }

    /// How closely to look at a file with this stamp, if what was there before had the other one.
    fn taken_for(&self, stamp: Stamp, before: Stamp) -> Option<Depth> {
        match &self.before {
            State::File { hash: Some(hash), .. } if stamp.same_content(&before) => {
                Some(Depth::Take(*hash, stamp))
            }
            _ => None,
        }
    }

    /// Remembers that the temporary name is in use, by this draft and nobody else.
    fn begin(&mut self, done: Result<()>) -> std::result::Result<(), ChangeError> {
        self.begun |= !matches!(done, Err(ChangeErrorKind::Exists));
        done.map_err(|kind| self.fail(kind))
    }

    fn open_temp(&self) -> Result<OwnedFd> {
        tree::descend(&self.spot.dir, Some(Path::new(self.temp.as_str())))
    }

    fn fail(&self, kind: ChangeErrorKind) -> ChangeError {
        ChangeError::new(self.shown.clone(), kind)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        if self.begun {
            let _ = tree::remove(&self.spot.dir, self.temp.as_str().as_ref());
        }
        self.made.remove_empty();
    }
}

/// Exchanges back what was taken out of its place. If what comes out in turn is not what was put there,
/// somebody has replaced it once more, and theirs is newer: it goes back as well.
fn give_back(dir: &OwnedFd, temp: &OsStr, name: &OsStr, draft: Pinned) -> std::result::Result<(), Errno> {
    let mut in_place = draft;
    loop {
        let returned = pin(dir, temp)?;
        match rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE) {
            // It was removed meanwhile. They get back what they had; removing it again is up to them.
            Err(Errno::NOENT) => {
                return rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE);
            }
            done => done?,
        }
        let came_out = pin(dir, temp)?;
        if came_out.id == in_place.id {
            return Ok(());
        }
        in_place = returned;
    }
}

fn stat(dir: &OwnedFd, name: &OsStr) -> std::result::Result<Stat, Errno> {
    Ok(Stat::from(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

fn new_file(
    dir: impl AsFd,
    name: &OsStr,
    content: &mut dyn BufRead,
    wanted: Option<&Attributes>,
) -> Result<File> {
    // With nothing to copy from, the kernel applies the umask, or what the directory hands down.
    let mode = if wanted.is_some() { 0o600 } else { 0o666 };
    let mut file = File::from(rustix::fs::openat(dir, name, NEW, Mode::from_raw_mode(mode))?);
    // Written as it lies there: content that is in memory is not copied once more.
    loop {
        let piece = match content.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        if piece.is_empty() {
            break;
        }
        let length = piece.len();
        file.write_all(piece)?;
        content.consume(length);
    }
    if let Some(wanted) = wanted {
        attributes::apply(&file, wanted)?;
    }
    Ok(file)
}

fn new_link(dir: impl AsFd, name: &OsStr, target: &OsStr, wanted: &Attributes) -> Result<()> {
    rustix::fs::symlinkat(target, dir.as_fd(), name)?;
    attributes::apply_to_link(dir, name, wanted);
    Ok(())
}

fn finish_directory(dir: &OwnedFd, wanted: &Attributes, durability: Durability) -> Result<()> {
    attributes::apply(dir, wanted)?;
    attributes::set_modified(dir, wanted.modified)?;
    match durability {
        Durability::Full => Ok(rustix::fs::fsync(dir)?),
        Durability::Fast => Ok(()),
    }
}

fn sync(file: &File, durability: Durability) -> Result<()> {
    match durability {
        Durability::Full => Ok(file.sync_all()?),
        Durability::Fast => Ok(()),
    }
}
