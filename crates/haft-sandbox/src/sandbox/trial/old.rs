//! What a commit did, as the journal records it: the old sides are where the upper layers have them now.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use super::super::recorder::{Effect, Effects, New, Old, OldContent};
use super::entry;
use super::place::Layer;
use super::step::{Step, StepKind, Trees};
use crate::change::Attributes;

/// What the steps did, with the old sides where the upper layers have them now.
pub(super) fn effects(steps: &[Step], layers: &[Layer], trees: &mut Trees) -> Effects {
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
    before: &Attributes,
    wanted: &Attributes,
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
