//! Finding what a command changed in its view, by comparing the upper layers with the workspace. Much of an upper layer is no
//! change: copies of files that were opened for writing and stayed as they were, directories on the way to a change, and
//! directories that were removed and made again.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::super::guards;
use super::entry;
use super::listing::{self, Change, ChangeKind, Listing, Side};
use super::place::{Layer, Place, Time};

/// Largest file whose content is compared; a larger one of the same size and time is taken for unchanged.
const MAX_COMPARED: u64 = 256 << 20;

/// Lists what a command changed.
pub(super) fn list(place: &Place, guarded: &[PathBuf], shared: &[PathBuf]) -> io::Result<Listing> {
    let mut listing = Listing { shared: shared.to_vec(), layers: place.layers.clone(), ..Listing::default() };
    for (number, layer) in place.layers.iter().enumerate() {
        let guarded = &disarmed(layer, guarded);
        let (upper, lower) = (entry::open_root(&layer.upper)?, entry::open_root(&layer.root)?);
        let mut walk =
            Walk { listing: &mut listing, layer: number, root: &layer.root, since: place.since, guarded };
        walk.directory(&upper, &lower, Path::new(""), Cover::Merged)?;
    }
    listing.changes.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
    listing::pair_moves(&mut listing);
    Ok(listing)
}

/// The paths that stay guarded. In a repository that the command itself made, what could run something is set aside, as it
/// is after a command that was not tried.
fn disarmed(layer: &Layer, guarded: &[PathBuf]) -> Vec<PathBuf> {
    let is_of_new_repository = |path: &Path| {
        let git = path.ancestors().find(|above| above.ends_with(".git"));
        git.is_some_and(|git| git.starts_with(&layer.root) && git.symlink_metadata().is_err())
    };
    let (new, kept): (Vec<&PathBuf>, Vec<&PathBuf>) =
        guarded.iter().partition(|path| is_of_new_repository(path));
    for below in new.iter().filter_map(|path| path.strip_prefix(&layer.root).ok()) {
        let planted = layer.upper.join(below);
        if planted.symlink_metadata().is_ok() {
            guards::disarm_in(&layer.upper, &planted);
        }
    }
    kept.into_iter().cloned().collect()
}

/// How a directory of an upper layer relates to the one below it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// Both are seen together.
    Merged,
    /// Only the upper one is seen.
    Opaque,
}

struct Walk<'a> {
    listing: &'a mut Listing,
    layer: usize,
    root: &'a Path,
    since: Time,
    guarded: &'a [PathBuf],
}

const GONE: &str = "it was deleted or renamed meanwhile";
const ALTERED: &str = "it was changed meanwhile";

impl Walk<'_> {
    fn directory(&mut self, upper: &OwnedFd, lower: &OwnedFd, below: &Path, cover: Cover) -> io::Result<()> {
        let cover = if entry::is_opaque(upper) { Cover::Opaque } else { cover };
        let names = entry::names(upper)?;
        for name in &names {
            self.entry(upper.as_fd(), lower, name, below.join(name), cover)?;
        }
        if cover == Cover::Merged {
            return Ok(());
        }
        for name in entry::names(lower)? {
            if names.binary_search(&name).is_err()
                && let Some(before) = entry::side(lower, &name)?
            {
                self.deleted(lower, &name, below.join(&name), before)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        upper: BorrowedFd<'_>,
        lower: &OwnedFd,
        name: &OsStr,
        below: PathBuf,
        cover: Cover,
    ) -> io::Result<()> {
        let Some(after) = entry::side(upper, name)? else { return Ok(()) };
        let before = entry::side(lower, name)?;
        let path = self.root.join(&below);
        let is_kept_out = self.guarded.iter().any(|guarded| path.starts_with(guarded));
        match (before, after) {
            (None, after) if after.is_whiteout() => Ok(()),
            (Some(before), after) if after.is_whiteout() => self.deleted(lower, name, below, before),
            (Some(before), after) if before.is_dir() && after.is_dir() => {
                let inner = self.open_upper(upper, name, &below, after)?;
                if before.mode != after.mode || before.owner != after.owner {
                    self.differs(ChangeKind::Attributes, below.clone(), Some(before), after);
                }
                self.directory(&inner, &entry::open_dir(lower, name)?, &below, cover)
            }
            _ if is_kept_out => {
                self.listing.refused.push(path);
                Ok(())
            }
            (None, after) if after.is_dir() => self.new_tree(upper, name, &below, after),
            (None, after) => {
                // A copy whose original is gone was renamed, by the command or by another program.
                let is_gone = after.is_file() && entry::is_copy(upper, name) && self.is_altered(lower)?;
                self.differs(ChangeKind::Created, below, None, after);
                self.last_target(upper, name);
                if let Some(change) = self.listing.changes.last_mut() {
                    change.conflict = is_gone.then_some(GONE);
                }
                Ok(())
            }
            (Some(before), after) => {
                let Some(kind) = self.compared(upper, lower, name, &below, before, after)? else {
                    return Ok(());
                };
                let files = if before.is_dir() { self.count(lower, name)? } else { (0, None) };
                if after.is_dir() {
                    drop(self.open_upper(upper, name, &below, after)?);
                }
                self.differs(kind, below, Some(before), after);
                self.last_target(upper, name);
                if let Some(change) = self.listing.changes.last_mut() {
                    change.files = files.0;
                    change.conflict = change.conflict.or(files.1);
                }
                Ok(())
            }
        }
    }

    fn differs(&mut self, kind: ChangeKind, below: PathBuf, before: Option<Side>, after: Side) {
        let is_altered = before.is_some_and(|before| before.is_newer(self.since));
        self.listing.changes.push(Change {
            path: self.root.join(&below),
            kind,
            before,
            after: Some(after),
            files: 0,
            target: None,
            moved_from: None,
            conflict: is_altered.then_some(ALTERED),
            layer: self.layer,
            below,
            top: None,
        });
    }

    fn last_target(&mut self, upper: BorrowedFd<'_>, name: &OsStr) {
        if let Some(change) = self.listing.changes.last_mut()
            && change.after.is_some_and(|after| after.is_link())
        {
            change.target = entry::link_target(upper, name).ok();
        }
    }

    fn deleted(&mut self, lower: &OwnedFd, name: &OsStr, below: PathBuf, before: Side) -> io::Result<()> {
        let path = self.root.join(&below);
        if self
            .guarded
            .iter()
            .any(|guarded| path.starts_with(guarded) || guarded.starts_with(&path) && guarded.exists())
        {
            self.listing.refused.push(path);
            return Ok(());
        }
        let (files, newer) = if before.is_dir() { self.count(lower, name)? } else { (0, None) };
        let is_altered = before.is_newer(self.since);
        self.listing.changes.push(Change {
            path,
            kind: ChangeKind::Deleted,
            before: Some(before),
            after: None,
            files,
            target: None,
            moved_from: None,
            conflict: is_altered.then_some(ALTERED).or(newer),
            layer: self.layer,
            below,
            top: None,
        });
        Ok(())
    }

    /// How many files a directory of the workspace has, and whether one of them has changed since the command started.
    fn count(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<(usize, Option<&'static str>)> {
        let dir = match entry::open_dir(dir, name) {
            // What its owner may not look at cannot be counted.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok((0, None)),
            dir => dir?,
        };
        let (mut files, mut newer) = (0, None);
        for name in entry::names(&dir)? {
            let Some(found) = entry::side(&dir, &name)? else { continue };
            if found.is_newer(self.since) {
                newer = Some("something in it was changed meanwhile");
            }
            if found.is_dir() {
                let below = self.count(&dir, &name)?;
                files += below.0;
                newer = newer.or(below.1);
            } else {
                files += 1;
            }
        }
        Ok((files, newer))
    }

    /// Lists the files of a new directory; those without files as such.
    fn new_tree(&mut self, upper: BorrowedFd<'_>, name: &OsStr, top: &Path, after: Side) -> io::Result<()> {
        let is_copy = entry::is_copy(upper, name);
        let first = self.listing.changes.len();
        self.new_directory(upper, name, top.to_owned(), after)?;
        for change in self.listing.changes.get_mut(first..).unwrap_or_default() {
            change.top = Some(top.to_owned());
            if is_copy {
                change.conflict = Some("its directory was deleted or renamed meanwhile");
            }
        }
        Ok(())
    }

    fn new_directory(
        &mut self,
        upper: BorrowedFd<'_>,
        name: &OsStr,
        below: PathBuf,
        after: Side,
    ) -> io::Result<()> {
        let dir = self.open_upper(upper, name, &below, after)?;
        let mut is_empty = true;
        for name in entry::names(&dir)? {
            let Some(found) = entry::side(&dir, &name)?.filter(|found| !found.is_whiteout()) else {
                continue;
            };
            is_empty = false;
            let inner = below.join(&name);
            if self.is_guarded(&inner) {
                self.listing.refused.push(self.root.join(&inner));
            } else if found.is_dir() {
                self.new_directory(dir.as_fd(), &name, inner, found)?;
            } else {
                self.differs(ChangeKind::Created, inner, None, found);
                self.last_target(dir.as_fd(), &name);
            }
        }
        if is_empty {
            self.differs(ChangeKind::Created, below, None, after);
        }
        Ok(())
    }

    fn is_guarded(&self, below: &Path) -> bool {
        let path = self.root.join(below);
        self.guarded.iter().any(|guarded| path.starts_with(guarded))
    }

    /// Whether another program changed a directory of the workspace since the command started.
    fn is_altered(&self, lower: &OwnedFd) -> io::Result<bool> {
        let found = entry::side(lower, OsStr::new("."))?;
        Ok(found.is_some_and(|found| found.is_newer(self.since)))
    }

    /// Opens a directory of an upper layer, and gives its owner the rights to do so.
    fn open_upper(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        below: &Path,
        side: Side,
    ) -> io::Result<OwnedFd> {
        if side.mode & 0o700 != 0o700 {
            entry::set_mode(dir, name, side.mode | 0o700)?;
            self.listing.opened.push((self.layer, below.to_owned(), side.mode));
        }
        entry::open_dir(dir, name)
    }

    /// What differs between a path in the view and in the workspace; `None` if nothing does.
    fn compared(
        &mut self,
        upper: BorrowedFd<'_>,
        lower: &OwnedFd,
        name: &OsStr,
        below: &Path,
        before: Side,
        after: Side,
    ) -> io::Result<Option<ChangeKind>> {
        if before.kind != after.kind {
            return Ok(Some(ChangeKind::Changed));
        }
        let is_same = match before.kind {
            FileType::RegularFile => self.same_content(upper, lower, name, below, before, after)?,
            FileType::Symlink => entry::link_target(upper, name)? == entry::link_target(lower, name)?,
            _ => before.device == after.device,
        };
        if !is_same {
            return Ok(Some(ChangeKind::Changed));
        }
        let is_link = before.is_link();
        let has_same_rights = before.owner == after.owner && (is_link || before.mode == after.mode);
        if !has_same_rights || !is_link && entry::xattrs(upper, name)? != entry::xattrs(lower.as_fd(), name)?
        {
            return Ok(Some(ChangeKind::Attributes));
        }
        Ok((before.modified != after.modified && !is_link).then_some(ChangeKind::Touched))
    }

    fn same_content(
        &mut self,
        upper: BorrowedFd<'_>,
        lower: &OwnedFd,
        name: &OsStr,
        below: &Path,
        before: Side,
        after: Side,
    ) -> io::Result<bool> {
        if before.size != after.size {
            return Ok(false);
        }
        if before.size > MAX_COMPARED {
            return Ok(before.modified == after.modified);
        }
        if after.mode & 0o400 == 0 {
            entry::set_mode(upper, name, after.mode | 0o400)?;
            self.listing.opened.push((self.layer, below.to_owned(), after.mode));
        }
        let one = entry::open_file(upper, name)?;
        match entry::open_file(lower, name) {
            // One that its owner may not read: the command could not have kept it either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            other => same_bytes(one, other?),
        }
    }
}

fn same_bytes(mut one: std::fs::File, mut other: std::fs::File) -> io::Result<bool> {
    const CHUNK: usize = 64 << 10;
    let (mut first, mut second) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
    loop {
        first.clear();
        second.clear();
        one.by_ref().take(CHUNK as u64).read_to_end(&mut first)?;
        other.by_ref().take(CHUNK as u64).read_to_end(&mut second)?;
        if first != second {
            return Ok(false);
        }
        if first.is_empty() {
            return Ok(true);
        }
    }
}
