//! Committing what was approved of a trial, and recovering a commit of a process that died. A record of all steps is on disk
//! before the first is made, so that the next process can finish them; a commit that fails is taken back the same way.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::recorder::Effects;
use super::entry;
use super::listing::{Change, Listing};
use super::old::effects;
use super::place::{Left, Place};
use super::plan::{planned, restore_modes};
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

/// What was committed. The old sides lie in the trial's directory, which stays until [`release`](super::release) or the journal removes it.
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
