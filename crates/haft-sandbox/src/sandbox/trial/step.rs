//! The steps of a commit. Each exchanges one entry of the workspace with one of the upper layer, or moves it there or back,
//! so that the inodes of both tell whether it is made; no step depends on another.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use rustix::fs::{AtFlags, RenameFlags, renameat_with};

use super::super::wire::{Build, Frame, Parts};
use super::entry::{self, Beneath};
use super::listing::Side;
use super::place::Layer;
use crate::change::Attributes;

/// Device and inode.
pub(super) type Id = (u64, u64);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) layer: usize,
    /// The path below its root, in the workspace and in the upper layer.
    pub(super) below: PathBuf,
    pub(super) kind: StepKind,
    /// The entry of the upper layer before the step.
    upper: Id,
    /// The entry of the workspace before the step.
    lower: Id,
    /// The modes of what the workspace loses, by relative path: keeping it may change them, and a later process has to know.
    pub(super) modes: Vec<(PathBuf, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// The entry of the upper layer replaces that of the workspace.
    Exchange,
    /// The entry of the upper layer is new in the workspace.
    Create,
    /// The entry of the workspace goes to the upper layer.
    Delete,
    /// The entry of the workspace gets other attributes, in place: it may have other hard links.
    Attributes { before: Attributes, after: Attributes },
}

/// On which side of a step a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Before,
    After,
    /// Another program changed the path.
    Neither,
}

/// The roots and upper layers of a trial, open.
pub(super) struct Trees(Vec<(Beneath, Beneath)>);

impl Trees {
    pub(super) fn open(layers: &[Layer]) -> io::Result<Self> {
        let open = |layer: &Layer| Ok((Beneath::new(&layer.root)?, Beneath::new(&layer.upper)?));
        Ok(Self(layers.iter().map(open).collect::<io::Result<_>>()?))
    }

    pub(super) fn at(&mut self, layer: usize) -> io::Result<&mut (Beneath, Beneath)> {
        self.0.get_mut(layer).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn forget(&mut self) {
        for (lower, upper) in &mut self.0 {
            lower.forget();
            upper.forget();
        }
    }

    /// Makes everything durable that was written to their file systems.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut synced: Vec<u64> = Vec::new();
        for (lower, upper) in &self.0 {
            for dir in [lower.root(), upper.root()] {
                let Some(found) = entry::side(dir, OsStr::new("."))? else { continue };
                if !synced.contains(&found.id.0) {
                    rustix::fs::syncfs(dir)?;
                    synced.push(found.id.0);
                }
            }
        }
        Ok(())
    }
}

impl Step {
    pub(super) fn new(
        layer: usize,
        below: PathBuf,
        kind: StepKind,
        upper: Option<Side>,
        lower: Option<Side>,
    ) -> Self {
        let id = |side: Option<Side>| side.map_or((0, 0), |side| side.id);
        Self { layer, below, kind, upper: id(upper), lower: id(lower), modes: Vec::new() }
    }

    pub(super) fn position(&self, trees: &mut Trees) -> io::Result<Position> {
        let (lower, upper) = trees.at(self.layer)?;
        let id = |tree: &mut Beneath| -> io::Result<Option<Id>> {
            match tree.parent(&self.below) {
                Ok((dir, name)) => Ok(entry::side(dir, name)?.map(|side| side.id)),
                Err(error) if is_gone(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let (now, kept) = (id(lower)?, id(upper)?);
        Ok(match &self.kind {
            StepKind::Exchange if now == Some(self.lower) && kept == Some(self.upper) => Position::Before,
            StepKind::Exchange if now == Some(self.upper) && kept == Some(self.lower) => Position::After,
            StepKind::Create if now.is_none() && kept == Some(self.upper) => Position::Before,
            StepKind::Create if now == Some(self.upper) && kept.is_none() => Position::After,
            StepKind::Delete if now == Some(self.lower) => Position::Before,
            StepKind::Delete if now.is_none() && kept == Some(self.lower) => Position::After,
            StepKind::Attributes { before, after } if now == Some(self.lower) => {
                let (dir, name) = lower.parent(&self.below)?;
                let Some(side) = entry::side(dir, name)? else { return Ok(Position::Neither) };
                let found = entry::attributes(dir, name, &side);
                let is_like = |wanted: &Attributes| {
                    let modified = if side.is_dir() { found.modified } else { wanted.modified };
                    found == Attributes { modified, ..wanted.clone() }
                };
                match (is_like(after), is_like(before)) {
                    (true, _) => Position::After,
                    // It may have died between two of them.
                    (false, _) => Position::Before,
                }
            }
            _ => Position::Neither,
        })
    }

    /// Makes the step.
    pub(super) fn apply(&self, trees: &mut Trees) -> io::Result<()> {
        let (lower, upper) = trees.at(self.layer)?;
        let (to, name) = lower.parent(&self.below)?;
        match &self.kind {
            StepKind::Attributes { after, .. } => return entry::set_attributes(to, name, after),
            StepKind::Exchange | StepKind::Create | StepKind::Delete => {}
        }
        let (from, _) = upper.parent(&self.below)?;
        match self.kind {
            StepKind::Exchange => renamed(from, to, name, RenameFlags::EXCHANGE),
            StepKind::Create => renamed(from, to, name, RenameFlags::NOREPLACE),
            _ => {
                // What stood for the deletion.
                match rustix::fs::unlinkat(from, name, AtFlags::empty()) {
                    Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                }
                renamed(to, from, name, RenameFlags::NOREPLACE)
            }
        }
    }

    /// Takes the step back.
    pub(super) fn revert(&self, trees: &mut Trees) -> io::Result<()> {
        let (lower, upper) = trees.at(self.layer)?;
        let (to, name) = lower.parent(&self.below)?;
        if let StepKind::Attributes { before, .. } = &self.kind {
            return entry::set_attributes(to, name, before);
        }
        let (from, _) = upper.parent(&self.below)?;
        match self.kind {
            StepKind::Exchange => renamed(from, to, name, RenameFlags::EXCHANGE),
            StepKind::Create => renamed(to, from, name, RenameFlags::NOREPLACE),
            _ => renamed(from, to, name, RenameFlags::NOREPLACE),
        }
    }

    pub(super) fn build(&self, frame: Build) -> Build {
        let attributes = |frame: Build, attributes: &Attributes| {
            let xattrs = attributes.xattrs.iter();
            let xattrs = xattrs.flat_map(|(name, value)| [name.as_bytes().to_vec(), value.clone()]);
            let xattrs: Vec<Vec<u8>> = xattrs.collect();
            let Attributes { mode, uid, gid, modified, .. } = attributes;
            [*mode, *uid, *gid, modified.1]
                .into_iter()
                .fold(frame.number(modified.0.cast_unsigned()), |frame, number| frame.number(number.into()))
                .list(xattrs.into_iter())
        };
        let name = match &self.kind {
            StepKind::Exchange => "exchange",
            StepKind::Create => "create",
            StepKind::Delete => "delete",
            StepKind::Attributes { .. } => "attributes",
        };
        let numbers = [self.layer as u64, self.upper.0, self.upper.1, self.lower.0, self.lower.1];
        let frame = frame.bytes(name).bytes(self.below.as_os_str().as_bytes());
        let frame = numbers.into_iter().fold(frame, Build::number).number(self.modes.len() as u64);
        let mode = |frame: Build, (below, mode): &(PathBuf, u32)| {
            frame.bytes(below.as_os_str().as_bytes()).number((*mode).into())
        };
        let frame = self.modes.iter().fold(frame, mode);
        match &self.kind {
            StepKind::Attributes { before, after } => attributes(attributes(frame, before), after),
            _ => frame,
        }
    }

    pub(super) fn parse(parts: &mut Parts) -> io::Result<Self> {
        let name = parts.bytes()?;
        let below = OsString::from_vec(parts.bytes()?).into();
        let layer = usize::try_from(parts.number()?).map_err(|_| io::ErrorKind::InvalidData)?;
        let upper = (parts.number()?, parts.number()?);
        let lower = (parts.number()?, parts.number()?);
        let mut modes = Vec::new();
        for _ in 0..parts.number()? {
            let below = OsString::from_vec(parts.bytes()?).into();
            modes.push((below, u32::try_from(parts.number()?).map_err(|_| io::ErrorKind::InvalidData)?));
        }
        let mut attributes = || -> io::Result<Attributes> {
            let seconds = parts.number()?.cast_signed();
            let mut number = || -> io::Result<u32> {
                Ok(u32::try_from(parts.number()?).map_err(|_| io::ErrorKind::InvalidData)?)
            };
            let (mode, uid, gid, nanoseconds) = (number()?, number()?, number()?, number()?);
            let xattrs = parts.list()?;
            let xattrs =
                xattrs.chunks_exact(2).map(|pair| (OsStr::from_bytes(&pair[0]).to_owned(), pair[1].clone()));
            Ok(Attributes { mode, uid, gid, modified: (seconds, nanoseconds), xattrs: xattrs.collect() })
        };
        let kind = match &*name {
            b"exchange" => StepKind::Exchange,
            b"create" => StepKind::Create,
            b"delete" => StepKind::Delete,
            b"attributes" => StepKind::Attributes { before: attributes()?, after: attributes()? },
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { layer, below, kind, upper, lower, modes })
    }
}

/// The record of a commit: its steps, with a count so that a record that was cut off is told.
pub(super) fn encoded(steps: &[Step]) -> Vec<u8> {
    let frame = Build::default().number(steps.len() as u64);
    steps.iter().fold(frame, |frame, step| step.build(frame)).frame().encoded()
}

pub(super) fn decoded(bytes: &[u8]) -> io::Result<Vec<Step>> {
    let mut parts = Parts::of(Frame::decoded(bytes.get(4..).unwrap_or_default())?);
    (0..parts.number()?).map(|_| Step::parse(&mut parts)).collect()
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Renames an entry between two directories. Moving a directory changes its link to the one above, so that its owner needs
/// the right to write in it.
fn renamed(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &OsStr, flags: RenameFlags) -> io::Result<()> {
    match renameat_with(from, name, to, name, flags) {
        Err(rustix::io::Errno::ACCESS) => {}
        done => return Ok(done?),
    }
    let mut opened = Vec::new();
    for dir in [from, to] {
        if let Some(found) = entry::side(dir, name)?.filter(|found| found.is_dir() && found.mode & 0o200 == 0)
        {
            entry::set_mode(dir, name, found.mode | 0o700)?;
            opened.push(found);
        }
    }
    let done = renameat_with(from, name, to, name, flags);
    for dir in [from, to] {
        let found = entry::side(dir, name)?;
        if let Some(was) = opened.iter().find(|was| found.is_some_and(|found| found.id == was.id)) {
            entry::set_mode(dir, name, was.mode)?;
        }
    }
    Ok(done?)
}
