//! Committing what was approved of a trial, and recovering a commit of a process that died. A record of all steps is on disk
//! before the first is made, so that the next process can finish them; a commit that fails is taken back the same way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::AtFlags;

use super::super::guards;
use super::super::recorder::{Effect, Effects, New, Old, OldContent};
use super::entry;
use super::list::{Change, ChangeKind, Listing, Side};
use super::place::{Layer, Left, Place};
use super::step::{Position, Step, StepKind, Trees, decoded, encoded};
use crate::change::Durability;

/// Name of the record of a commit that is under way.
const COMMIT: &str = "commit";
/// Name of the record of a commit that is being taken back.
const ABORT: &str = "abort";

/// Why a commit was not made. The workspace is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Other programs changed the same files.
    #[error("{} of the files changed meanwhile, so nothing was committed", .0.len())]
    Conflicts(Vec<(PathBuf, &'static str)>),
    /// A step failed.
    #[error("`{}` could not be changed, so nothing was committed: {source}", .path.display())]
    Failed {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A step failed, and another one could not be taken back. The next start of haft tries again.
    #[error("`{}` could not be changed ({source}), and what was changed before it is not all taken back: {then}", .path.display())]
    HalfDone {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// What prevented taking it back.
        then: io::Error,
    },
    /// Reading or writing failed before anything was changed.
    #[error("nothing was committed: {0}")]
    Io(#[from] io::Error),
}

/// What was committed. The old sides lie in the trial's directory, which stays until [`release`] or the journal removes it.
#[derive(Debug)]
pub struct Committed {
    /// The changes that were made.
    pub effects: Effects,
    /// Holds the lock on the directory.
    place: Arc<Place>,
}

impl Committed {
    /// The trial's directory.
    pub fn store(&self) -> &Path {
        &self.place.store
    }
}

/// What became of the trial of a process that died.
#[derive(Debug)]
pub enum Recovered {
    /// The directory is none of a trial.
    NotATrial,
    /// The process that made it lives.
    InUse,
    /// Nothing of it was committed, and it is gone.
    Discarded,
    /// Its commit was finished.
    Committed(Committed),
}

/// Finishes the commit of a process that died, or removes what its trial left.
pub fn recover(store: &Path) -> io::Result<Recovered> {
    let place = match Place::left(store)? {
        Left::NotATrial => return Ok(Recovered::NotATrial),
        Left::InUse => return Ok(Recovered::InUse),
        Left::Behind(place) => place,
    };
    if let Some(steps) = record(store, ABORT)? {
        let mut trees = Trees::open(&place.layers)?;
        revert(&steps, &mut trees)?;
        trees.sync()?;
        // Removed first: without it, and without the record of a commit, the rest is rubbish.
        fs::remove_file(store.join(ABORT))?;
    } else if let Some(steps) = record(store, COMMIT)? {
        let mut trees = Trees::open(&place.layers)?;
        let mut made = Vec::with_capacity(steps.len());
        for step in steps {
            // A path that another program has taken meanwhile stays as it is.
            match step.position(&mut trees)? {
                Position::After => made.push(step),
                Position::Before if step.apply(&mut trees).is_ok() => made.push(step),
                Position::Before | Position::Neither => {}
            }
        }
        trees.sync()?;
        place.is_handed_over.store(true, Ordering::Release);
        let effects = effects(&made, &place.layers, &mut trees);
        return Ok(Recovered::Committed(Committed { effects, place: Arc::new(place) }));
    }
    place.remove()?;
    place.is_handed_over.store(true, Ordering::Release);
    Ok(Recovered::Discarded)
}

fn record(store: &Path, name: &str) -> io::Result<Option<Vec<Step>>> {
    match fs::read(store.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => decoded(&bytes?).map(Some),
    }
}

pub(super) fn commit(
    place: &Arc<Place>,
    listing: &Listing,
    chosen: &[usize],
    durability: Durability,
) -> Result<Committed, CommitError> {
    let chosen: Vec<&Change> = chosen.iter().filter_map(|number| listing.changes.get(*number)).collect();
    let mut trees = Trees::open(&place.layers)?;
    let conflicts = conflicts(&chosen, place, &mut trees)?;
    if !conflicts.is_empty() {
        return Err(CommitError::Conflicts(conflicts));
    }
    let steps = planned(&chosen, listing, &mut trees)?;
    restore_modes(&steps, listing, &mut trees)?;
    write_record(&place.store, &encoded(&steps), durability)?;
    if durability == Durability::Full {
        trees.sync()?;
    }
    let before: BTreeMap<(usize, &Path), &Change> =
        chosen.iter().map(|change| ((change.layer, change.below.as_path()), *change)).collect();
    for (number, step) in steps.iter().enumerate() {
        let path =
            || place.layers.get(step.layer).map_or(PathBuf::new(), |layer| layer.root.join(&step.below));
        guards::made_by_haft(&path());
        let made =
            step.apply(&mut trees).and_then(|()| match before.get(&(step.layer, step.below.as_path())) {
                Some(change) => is_expected(step, change, &mut trees),
                None => Ok(true),
            });
        let error = match made {
            Ok(true) => continue,
            Ok(false) => CommitError::Conflicts(vec![(path(), "it was changed meanwhile")]),
            Err(source) => CommitError::Failed { path: path(), source },
        };
        // From here on, a process that finds the record takes the steps back.
        let taken_back = fs::rename(place.store.join(COMMIT), place.store.join(ABORT))
            .and_then(|()| revert(&steps[..=number], &mut trees))
            .and_then(|()| fs::remove_file(place.store.join(ABORT)));
        return Err(match (taken_back, error) {
            (Ok(()), error) => error,
            (Err(then), error) => {
                place.is_handed_over.store(true, Ordering::Release);
                let source = io::Error::other(error.to_string());
                CommitError::HalfDone { path: path(), source, then }
            }
        });
    }
    if durability == Durability::Full {
        trees.sync()?;
    }
    place.is_handed_over.store(true, Ordering::Release);
    let effects = effects(&steps, &place.layers, &mut trees);
    Ok(Committed { effects, place: place.clone() })
}

fn write_record(store: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let new = store.join("commit.new");
    let mut file = fs::File::create(&new)?;
    file.write_all(bytes)?;
    if durability == Durability::Full {
        file.sync_all()?;
    }
    fs::rename(new, store.join(COMMIT))
}

/// The chosen changes that other programs have interfered with.
fn conflicts(
    chosen: &[&Change],
    place: &Place,
    trees: &mut Trees,
) -> io::Result<Vec<(PathBuf, &'static str)>> {
    let mut found = Vec::new();
    for change in chosen {
        let conflict = match change.conflict {
            Some(why) => Some(why),
            None => interference(change, place, trees)?,
        };
        found.extend(conflict.map(|why| (change.path.clone(), why)));
    }
    Ok(found)
}

fn interference(change: &Change, place: &Place, trees: &mut Trees) -> io::Result<Option<&'static str>> {
    let (lower, _) = trees.at(change.layer)?;
    let below = change.top.as_deref().unwrap_or(&change.below);
    let (dir, name) = match lower.parent(below) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("its directory was deleted or renamed meanwhile"));
        }
        Err(_) => return Ok(Some("its directory was replaced meanwhile")),
        found => found?,
    };
    Ok(match (change.before, entry::side(dir, name)?) {
        (None, None) => None,
        (None, Some(_)) => Some("another program made it meanwhile"),
        (Some(_), None) => Some("it was deleted or renamed meanwhile"),
        (Some(before), Some(now)) if before.id != now.id => Some("it was replaced meanwhile"),
        // A directory that stays one may get other files meanwhile.
        (Some(before), Some(now)) if before.is_dir() && change.after.is_some_and(|after| after.is_dir()) => {
            ((before.mode, before.owner) != (now.mode, now.owner)).then_some("it was changed meanwhile")
        }
        (Some(before), Some(now)) if before != now => Some("it was changed meanwhile"),
        (Some(before), Some(_)) if before.is_dir() => {
            let dir = match entry::open_dir(dir, name) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
                dir => dir?,
            };
            has_newer(&dir, place)?.then_some("something in it was changed meanwhile")
        }
        (Some(_), Some(_)) => None,
    })
}

fn has_newer(dir: &impl std::os::fd::AsFd, place: &Place) -> io::Result<bool> {
    for name in entry::names(dir)? {
        let Some(found) = entry::side(dir, &name)? else { continue };
        if found.is_newer(place.since) {
            return Ok(true);
        }
        if found.is_dir()
            && let Ok(inner) = entry::open_dir(dir, &name)
            && has_newer(&inner, place)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The steps of the chosen changes. What was not chosen of a new directory is removed from it before.
fn planned(chosen: &[&Change], listing: &Listing, trees: &mut Trees) -> io::Result<Vec<Step>> {
    let mut steps = Vec::with_capacity(chosen.len());
    let mut tops: BTreeMap<(usize, &Path), HashSet<&Path>> = BTreeMap::new();
    for change in chosen {
        let Change { layer, below, before, after, kind, .. } = change;
        if let Some(top) = &change.top {
            tops.entry((*layer, top)).or_default().insert(below);
            continue;
        }
        let (lower, upper) = trees.at(*layer)?;
        let kind = match (kind, before, after) {
            (ChangeKind::Deleted, ..) => StepKind::Delete,
            (ChangeKind::Created, ..) => StepKind::Create,
            (ChangeKind::Changed, ..) => StepKind::Exchange,
            (ChangeKind::Attributes | ChangeKind::Touched, Some(before), Some(after)) => {
                let (dir, name) = lower.parent(below)?;
                let before = entry::attributes(dir, name, before);
                let (dir, name) = upper.parent(below)?;
                StepKind::Attributes { before, after: entry::attributes(dir, name, after) }
            }
            (ChangeKind::Attributes | ChangeKind::Touched, ..) => continue,
        };
        if matches!(kind, StepKind::Create | StepKind::Exchange) {
            let (dir, name) = upper.parent(below)?;
            cleaned(dir, name)?;
        }
        let mut step = Step::new(*layer, below.clone(), kind, *after, *before);
        if let Some(before) = before.filter(|_| matches!(step.kind, StepKind::Exchange | StepKind::Delete)) {
            let (dir, name) = lower.parent(below)?;
            modes_of(dir, name, &before, PathBuf::new(), &mut step.modes)?;
        }
        steps.push(step);
    }
    for ((layer, top), kept) in tops {
        let (_, upper) = trees.at(layer)?;
        let all = listing
            .changes
            .iter()
            .filter(|change| change.layer == layer && change.top.as_deref() == Some(top));
        let has_refused = listing.refused.iter().any(|path| {
            listing.layers.get(layer).is_some_and(|layer| path.starts_with(layer.root.join(top)))
        });
        let (dir, name) = upper.parent(top)?;
        if has_refused || all.count() != kept.len() {
            pruned(dir, name, top, &kept)?;
        }
        cleaned(dir, name)?;
        let side = entry::side(dir, name)?;
        steps.push(Step::new(layer, top.to_owned(), StepKind::Create, side, None));
    }
    // A directory gets rights that other steps need before them, and loses rights after them.
    steps.sort_by_key(|step| match &step.kind {
        StepKind::Attributes { after, .. } if after.mode & 0o300 == 0o300 => 0,
        StepKind::Attributes { .. } => 2,
        _ => 1,
    });
    trees.forget();
    Ok(steps)
}

/// The modes of an entry of the workspace and of all below it.
fn modes_of(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    side: &Side,
    below: PathBuf,
    modes: &mut Vec<(PathBuf, u32)>,
) -> io::Result<()> {
    modes.push((below.clone(), side.mode));
    if !side.is_dir() {
        return Ok(());
    }
    let inner = match entry::open_dir(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        inner => inner?,
    };
    for name in entry::names(&inner)? {
        if let Some(side) = entry::side(&inner, &name)? {
            modes_of(inner.as_fd(), &name, &side, below.join(&name), modes)?;
        }
    }
    Ok(())
}

/// Removes everything of a new directory but what is kept. Returns whether something is left.
fn pruned(dir: BorrowedFd<'_>, name: &OsStr, below: &Path, kept: &HashSet<&Path>) -> io::Result<bool> {
    let is_dir = entry::side(dir, name)?.is_some_and(|side| side.is_dir());
    if !is_dir {
        let is_kept = kept.contains(below);
        if !is_kept {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
        }
        return Ok(is_kept);
    }
    let inner = entry::open_dir(dir, name)?;
    let mut is_used = kept.contains(below);
    for name in entry::names(&inner)? {
        is_used |= pruned(inner.as_fd(), &name, &below.join(&name), kept)?;
    }
    if !is_used {
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
    }
    Ok(is_used)
}

/// Removes from an entry of an upper layer, and all below it, what only an overlay mount needs.
fn cleaned(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let Some(side) = entry::side(dir, name)? else { return Ok(()) };
    if side.is_file() || side.is_dir() {
        entry::strip(dir, name)?;
    }
    if side.is_dir() {
        let inner = entry::open_dir(dir, name)?;
        for name in entry::names(&inner)? {
            match entry::side(&inner, &name)? {
                Some(side) if side.is_whiteout() => rustix::fs::unlinkat(&inner, &name, AtFlags::empty())?,
                _ => cleaned(inner.as_fd(), &name)?,
            }
        }
    }
    Ok(())
}

/// Gives entries that go to the workspace their modes back, where they were changed to look at them: the deepest first.
fn restore_modes(steps: &[Step], listing: &Listing, trees: &mut Trees) -> io::Result<()> {
    let goes = |layer: usize, below: &Path| {
        steps.iter().any(|step| {
            step.layer == layer
                && matches!(step.kind, StepKind::Create | StepKind::Exchange)
                && below.starts_with(&step.below)
        })
    };
    let mut opened: Vec<_> = listing.opened.iter().filter(|(layer, below, _)| goes(*layer, below)).collect();
    opened.sort_by_key(|(_, below, _)| std::cmp::Reverse(below.components().count()));
    for (layer, below, mode) in opened {
        let (_, upper) = trees.at(*layer)?;
        let (dir, name) = upper.parent(below)?;
        if entry::side(dir, name)?.is_some() {
            entry::set_mode(dir, name, *mode)?;
        }
    }
    trees.forget();
    Ok(())
}

/// Whether what a step took out of the workspace is what was listed.
fn is_expected(step: &Step, change: &Change, trees: &mut Trees) -> io::Result<bool> {
    let Some(before) = change.before.filter(|_| matches!(step.kind, StepKind::Exchange | StepKind::Delete))
    else {
        return Ok(true);
    };
    let (_, upper) = trees.at(step.layer)?;
    let (dir, name) = upper.parent(&step.below)?;
    let found = entry::side(dir, name)?;
    Ok(found.is_some_and(|found| {
        (found.id, found.mode, found.size, found.modified)
            == (before.id, before.mode, before.size, before.modified)
    }))
}

/// Takes steps back, the last one first, as far as they are made.
fn revert(steps: &[Step], trees: &mut Trees) -> io::Result<()> {
    trees.forget();
    for step in steps.iter().rev() {
        let is_partial = matches!(step.kind, StepKind::Attributes { .. });
        match step.position(trees)? {
            Position::After => step.revert(trees)?,
            Position::Before if is_partial => step.revert(trees)?,
            Position::Before | Position::Neither => {}
        }
    }
    Ok(())
}

/// What the steps did, with the old sides where the upper layers have them now.
fn effects(steps: &[Step], layers: &[Layer], trees: &mut Trees) -> Effects {
    trees.forget();
    let mut effects = Effects::default();
    for step in steps {
        let Some(layer) = layers.get(step.layer) else { continue };
        let path = layer.root.join(&step.below);
        let after = || New::At { path: path.clone(), except: Vec::new() };
        let mut old = || old(&layer.upper, step, trees);
        let effect = match &step.kind {
            StepKind::Create => Ok(Effect::Set { path: path.clone(), before: Old::Missing, after: after() }),
            StepKind::Exchange => {
                old().map(|before| Effect::Set { path: path.clone(), before, after: after() })
            }
            StepKind::Delete => {
                old().map(|before| Effect::Set { path: path.clone(), before, after: New::Missing })
            }
            StepKind::Attributes { before, after: wanted } => {
                attributes_effect(&path, before, wanted, trees, step, after())
            }
        };
        match effect {
            Ok(effect) => effects.list.push(effect),
            Err(error) => effects.not_kept.push((path, error.to_string())),
        }
    }
    effects
}

fn attributes_effect(
    path: &Path,
    before: &crate::change::Attributes,
    wanted: &crate::change::Attributes,
    trees: &mut Trees,
    step: &Step,
    after: New,
) -> io::Result<Effect> {
    let (lower, _) = trees.at(step.layer)?;
    let (dir, name) = lower.parent(&step.below)?;
    let Some(found) = entry::side(dir, name)? else { return Err(io::ErrorKind::NotFound.into()) };
    let has_same_rest = (before.uid, before.gid, before.modified, &before.xattrs)
        == (wanted.uid, wanted.gid, wanted.modified, &wanted.xattrs);
    if found.is_dir() || has_same_rest {
        let (path, at) = (path.to_owned(), path.to_owned());
        return Ok(Effect::Mode { path, at, before: before.mode, after: wanted.mode });
    }
    let old = match found.is_link() {
        true => Old::Link { target: entry::link_target(dir, name)?, attributes: before.clone() },
        false => Old::File {
            content: OldContent::Current(path.to_owned()),
            size: found.size,
            attributes: before.clone(),
            linked: None,
        },
    };
    Ok(Effect::Set { path: path.to_owned(), before: old, after })
}

/// The old side of a path, which an upper layer has now.
fn old(upper: &Path, step: &Step, trees: &mut Trees) -> io::Result<Old> {
    let (_, beneath) = trees.at(step.layer)?;
    let (dir, name) = beneath.parent(&step.below)?;
    let modes: HashMap<&Path, u32> =
        step.modes.iter().map(|(below, mode)| (below.as_path(), *mode)).collect();
    let mut entries = Vec::new();
    old_tree(dir, name, (upper.join(&step.below), PathBuf::new()), &modes, &mut entries)?;
    match entries.pop() {
        None => Err(io::Error::other("it was a special file")),
        Some((_, only)) if entries.is_empty() && !matches!(only, Old::Directory { .. }) => Ok(only),
        Some(last) => {
            entries.push(last);
            Ok(Old::Tree(entries))
        }
    }
}

fn old_tree(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    (kept, below): (PathBuf, PathBuf),
    modes: &HashMap<&Path, u32>,
    entries: &mut Vec<(PathBuf, Old)>,
) -> io::Result<()> {
    let Some(side) = entry::side(dir, name)? else { return Err(io::ErrorKind::NotFound.into()) };
    let mut attributes = entry::attributes(dir, name, &side);
    attributes.mode = modes.get(below.as_path()).copied().unwrap_or(attributes.mode);
    let old = match &side {
        side if side.is_file() => {
            Old::File { content: OldContent::Kept(kept.clone()), size: side.size, attributes, linked: None }
        }
        side if side.is_link() => Old::Link { target: entry::link_target(dir, name)?, attributes },
        side if side.is_dir() => Old::Directory { attributes },
        // Special files are not kept.
        _ => return Ok(()),
    };
    entries.push((below.clone(), old));
    if !side.is_dir() {
        return Ok(());
    }
    // It is kept for undo alone.
    if side.mode & 0o700 != 0o700 {
        entry::set_mode(dir, name, side.mode | 0o700)?;
    }
    let inner = entry::open_dir(dir, name)?;
    for name in entry::names(&inner)? {
        old_tree(inner.as_fd(), &name, (kept.join(&name), below.join(&name)), modes, entries)?;
    }
    Ok(())
}
