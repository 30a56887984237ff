//! What a command changed in its view: the vocabulary of changes, and their content.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;

use rustix::fs::FileType;

use super::entry::{self, Beneath};
use super::place::{Layer, Time};

/// Largest file that is looked for among the deleted ones.
const MAX_PAIRED: u64 = 1 << 20;

/// A file, link or directory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Device and inode.
    pub(super) id: (u64, u64),
    pub(super) kind: FileType,
    /// The permission bits.
    pub mode: u32,
    pub(super) owner: (u32, u32),
    /// Size in bytes.
    pub size: u64,
    pub(super) modified: Time,
    pub(super) changed: Time,
    /// Number of hard links.
    pub links: u64,
    pub(super) device: u64,
}

impl Side {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Whether it changed at this time or later.
    pub(super) fn is_newer(&self, since: Time) -> bool {
        self.changed >= since
    }

    /// Whether it stands for something that was deleted.
    pub(super) fn is_whiteout(&self) -> bool {
        self.kind == FileType::CharacterDevice && self.device == 0
    }
}

/// What happened to a path. The order is the one in which changes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is gone.
    Deleted,
    /// Only its mode, owner or extended attributes changed.
    Attributes,
    /// Its content or kind changed.
    Changed,
    /// It is new.
    Created,
    /// Only its modification time changed.
    Touched,
}

/// A change that the command made in its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: PathBuf,
    /// What happened.
    pub kind: ChangeKind,
    /// What is there in the workspace.
    pub before: Option<Side>,
    /// What is there in the view.
    pub after: Option<Side>,
    /// How many files a deleted or replaced directory has.
    pub files: usize,
    /// Where a new or changed link leads.
    pub target: Option<OsString>,
    /// The deleted file whose content a new one has.
    pub moved_from: Option<PathBuf>,
    /// Why it cannot be committed: what else happened to the path since the command started.
    pub conflict: Option<&'static str>,
    pub(super) layer: usize,
    /// The path below its root.
    pub(super) below: PathBuf,
    /// The new directory, below its root, that it is part of.
    pub(super) top: Option<PathBuf>,
}

/// All that a command changed in its view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The changes, deletions first.
    pub changes: Vec<Change>,
    /// Guarded paths that the command made or changed: these changes are never committed.
    pub refused: Vec<PathBuf>,
    /// Build folders that the view shared with the workspace: what changed there counts already.
    pub shared: Vec<PathBuf>,
    pub(super) layers: Vec<Layer>,
    /// Entries of upper layers that had no right to be read, and their modes.
    pub(super) opened: Vec<(usize, PathBuf, u32)>,
}

impl Listing {
    /// Content in the workspace of a changed or deleted file, if it is not longer than this.
    pub fn before(&self, change: &Change, max: u64) -> io::Result<Option<Vec<u8>>> {
        self.content(change, change.before, |layer| &layer.root, max)
    }

    /// Content in the view of a changed or new file, if it is not longer than this.
    pub fn after(&self, change: &Change, max: u64) -> io::Result<Option<Vec<u8>>> {
        self.content(change, change.after, |layer| &layer.upper, max)
    }

    fn content(
        &self,
        change: &Change,
        side: Option<Side>,
        of: impl Fn(&Layer) -> &PathBuf,
        max: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(layer) = self.layers.get(change.layer) else { return Ok(None) };
        if !side.is_some_and(|side| side.is_file() && side.size <= max) {
            return Ok(None);
        }
        let mut beneath = Beneath::new(of(layer))?;
        let (dir, name) = beneath.parent(&change.below)?;
        let mut content = Vec::new();
        entry::open_file(dir, name)?.take(max.saturating_add(1)).read_to_end(&mut content)?;
        Ok(Some(content).filter(|content| content.len() as u64 <= max))
    }
}

/// Notes which new files have the content and time of a deleted one: they were renamed.
pub(super) fn pair_moves(listing: &mut Listing) {
    let is_paired = |side: &Side| side.is_file() && (1..=MAX_PAIRED).contains(&side.size);
    let deleted: Vec<(usize, Side)> = listing
        .changes
        .iter()
        .enumerate()
        .filter(|(_, change)| change.kind == ChangeKind::Deleted)
        .filter_map(|(number, change)| Some((number, change.before.filter(is_paired)?)))
        .collect();
    if deleted.is_empty() {
        return;
    }
    let mut pairs = Vec::new();
    let mut taken = vec![false; listing.changes.len()];
    for (number, change) in listing.changes.iter().enumerate() {
        let Some(after) = change.after.filter(|after| change.kind == ChangeKind::Created && is_paired(after))
        else {
            continue;
        };
        let origin = deleted.iter().find(|(origin, before)| {
            !taken[*origin]
                && (before.size, before.modified) == (after.size, after.modified)
                && listing.before(&listing.changes[*origin], MAX_PAIRED).ok().flatten()
                    == listing.after(change, MAX_PAIRED).ok().flatten()
        });
        if let Some((origin, _)) = origin {
            taken[*origin] = true;
            pairs.push((number, listing.changes[*origin].path.clone()));
        }
    }
    for (number, path) in pairs {
        listing.changes[number].moved_from = Some(path);
        listing.changes[number].conflict = None;
    }
}
