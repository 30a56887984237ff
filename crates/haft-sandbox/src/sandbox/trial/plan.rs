//! The steps of a commit: which entries are exchanged, moved or changed, and what has to be cleaned of them before.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;

use super::entry;
use super::listing::{Change, ChangeKind, Listing, Side};
use super::step::{Step, StepKind, Trees};

/// The steps of the chosen changes. What was not chosen of a new directory is removed from it before.
pub(super) fn planned(chosen: &[&Change], listing: &Listing, trees: &mut Trees) -> io::Result<Vec<Step>> {
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
pub(super) fn restore_modes(steps: &[Step], listing: &Listing, trees: &mut Trees) -> io::Result<()> {
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
