//! Trying what undoing would do without doing it: whether it would succeed, and the same error if not. What
//! was tried before counts as done, so several changes of one place can be tried one after another.

use std::collections::{HashMap, HashSet};

use haft_sandbox::{AbsPath, Hash, State, Workspace};

use super::log::{Known, Log};
use super::perform::with_mode;
use super::record::{Digest, Kept, Shape, Step, Text};
use super::undo::Merged;
use super::{Content, Held, Journal, JournalError, Result, keep, path_of, recover};

/// Tries undo and redo. Nothing is changed by it, but what a dead process left unfinished is settled.
#[derive(Debug)]
pub struct Rehearsal<'a> {
    journal: &'a Journal,
    workspace: &'a Workspace,
    tried: Tried,
    undone: HashSet<u64>,
}

/// What was tried, in this order, and content that it would have written.
#[derive(Debug, Default)]
pub(super) struct Tried {
    steps: Vec<TriedStep>,
    contents: HashMap<Hash, Content>,
}

#[derive(Debug)]
enum TriedStep {
    Set(AbsPath, Shape),
    Move { from: AbsPath, to: AbsPath },
}

/// Where to find what would be at a place.
enum Found {
    /// On disk, at this place.
    OnDisk(AbsPath),
    Tried(Shape),
}

/// The workspace as it would be after what was tried.
pub(super) struct View<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) tried: &'a Tried,
}

impl Journal {
    /// Begins to try what undoing would do.
    pub fn rehearse<'a>(&'a self, workspace: &'a Workspace) -> Rehearsal<'a> {
        Rehearsal { journal: self, workspace, tried: Tried::default(), undone: HashSet::new() }
    }
}

impl Rehearsal<'_> {
    /// Tries to undo a change as [`Journal::undo_merged`] would.
    pub fn undo(&mut self, number: u64, merged: &Merged) -> Result<()> {
        let mut held = self.journal.hold(self.workspace)?;
        held.require_done(number)?;
        let undone_by = held.log.active_undo(number);
        if self.undone.contains(&number) || undone_by.is_some_and(|by| !self.undone.contains(&by)) {
            return Err(JournalError::NothingToDo { number, why: "is undone already" });
        }
        held.knowing_all(|held| self.lead_back(held, number, merged))
    }

    /// Tries to redo a change.
    pub fn redo(&mut self, number: u64) -> Result<()> {
        let mut held = self.journal.hold(self.workspace)?;
        let undoing = held.undone_by(number)?;
        held.knowing_all(|held| self.lead_back(held, undoing, &Merged::new()))
    }

    fn lead_back(&mut self, held: &Held<'_>, number: u64, merged: &Merged) -> Result<()> {
        let Some(known) = held.log.known.get(&number) else {
            return Err(JournalError::Unknown(number, held.log.oldest()));
        };
        let tried = self.tried.steps.len();
        let led = self.lead_steps_back(&held.log, known, merged);
        match &led {
            Ok(()) => drop(self.undone.insert(number)),
            Err(_) => self.tried.steps.truncate(tried),
        }
        led
    }

    fn lead_steps_back(&mut self, log: &Log, known: &Known, merged: &Merged) -> Result<()> {
        let number = known.intent.number;
        for step in known.intent.steps.iter().rev() {
            let view = View { workspace: self.workspace, tried: &self.tried };
            if let Step::Set { path, after, .. } = step
                && let Some((_, content)) = merged.get(&path_of(&path.place()))
                && !view.holds(path, after)?
            {
                let (hash, size) = (content.hash(), content.len());
                self.tried.contents.insert(hash, content.clone());
                let (hash, kept) = (Some(Digest(hash)), Kept::No);
                let shape = Shape::File { hash, size, kept, mode: None, attributes: None };
                self.tried.steps.push(TriedStep::Set(path.place(), shape));
                continue;
            }
            view.require_as_left(log, number, known.segment, step)?;
            match step {
                Step::Set { path, before, after, .. } => {
                    self.workspace.require_writable(&path.place())?;
                    if before.differs_from(after).is_none() {
                        view.require_kept(log, known.segment, &path.place(), before)?;
                    }
                    self.tried.steps.push(TriedStep::Set(path.place(), before.clone()));
                }
                Step::Move { from, to, .. } => {
                    self.workspace.require_writable(&from.place())?;
                    self.tried.steps.push(TriedStep::Move { from: to.place(), to: from.place() });
                }
                Step::Mode { path, what, before, .. } => {
                    self.workspace.require_writable(&path.place())?;
                    let shape = with_mode(what.clone(), *before);
                    self.tried.steps.push(TriedStep::Set(path.place(), shape));
                }
            }
        }
        Ok(())
    }
}

impl View<'_> {
    /// Refuses to lead a step back whose places are not as it left them.
    pub(super) fn require_as_left(&self, log: &Log, number: u64, segment: u32, step: &Step) -> Result<()> {
        let (path, shape) = match step {
            Step::Set { path, after, .. } => (path, after.clone()),
            Step::Move { to, what, .. } => (to, what.clone()),
            Step::Mode { path, what, after, .. } => (path, with_mode(what.clone(), *after)),
        };
        if !self.holds(path, &shape)? {
            return Err(self.conflict(log, number, segment, path, &shape));
        }
        match step {
            Step::Move { from, .. } if !self.holds(from, &Shape::Missing)? => {
                Err(self.conflict(log, number, segment, from, &Shape::Missing))
            }
            Step::Move { to, what: Shape::Directory { .. }, .. } => match self.find(to.place()) {
                Found::OnDisk(place) => Ok(self.workspace.require_none_guarded_below(&place)?),
                Found::Tried(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether a place would hold exactly this.
    pub(super) fn holds(&self, path: &Text, shape: &Shape) -> Result<bool> {
        match self.find(path.place()) {
            Found::OnDisk(place) => recover::holds(self.workspace, &Text::path(&place), shape),
            Found::Tried(found) => Ok(found.is_like(shape)),
        }
    }

    fn find(&self, mut place: AbsPath) -> Found {
        for step in self.tried.steps.iter().rev() {
            match step {
                TriedStep::Set(path, shape) if place.is_within(path) => {
                    let below = place.as_path().strip_prefix(path.as_path()).unwrap_or(place.as_path());
                    return Found::Tried(shape.below(below));
                }
                TriedStep::Move { from, to } => {
                    if let Ok(below) = place.as_path().strip_prefix(to.as_path()) {
                        place = AbsPath::lexical(&from.as_path().join(below));
                    } else if place.is_within(from) {
                        return Found::Tried(Shape::Missing);
                    }
                }
                TriedStep::Set(..) => {}
            }
        }
        Found::OnDisk(place)
    }

    /// What a place would hold, and its content if that is a file that can be shown.
    pub(super) fn look(&self, log: &Log, place: &AbsPath) -> Result<(State, Option<keep::AtHand>)> {
        match self.find(place.clone()) {
            Found::OnDisk(place) => {
                Ok((self.workspace.state(&place)?, keep::in_place(self.workspace, &place)))
            }
            Found::Tried(shape) => {
                let content = match &shape {
                    Shape::File { hash: Some(Digest(hash)), size, .. } if *size <= keep::SHOWN => {
                        let tried = self.tried.contents.get(hash).map(|content| content.whole().into());
                        let kept = tried.or_else(|| {
                            log.rebuilt(hash, keep::in_place(self.workspace, place).as_ref()).ok().flatten()
                        });
                        kept.map(|content| (*hash, content))
                    }
                    _ => None,
                };
                Ok((shape.state(), content))
            }
        }
    }

    /// Refuses what cannot be brought back because its content was not kept.
    fn require_kept(&self, log: &Log, segment: u32, place: &AbsPath, shape: &Shape) -> Result<()> {
        match shape {
            Shape::File { hash, kept, size, .. } => {
                let is_elsewhere = match kept {
                    Kept::At(elsewhere) => self.holds(elsewhere, shape)?,
                    _ => false,
                };
                let is_kept = || match hash {
                    Some(hash) => log.content(segment, kept, &hash.0).map(|content| content.is_some()),
                    None => Ok(false),
                };
                match is_elsewhere || is_kept()? {
                    true => Ok(()),
                    false => Err(JournalError::NotKept { path: path_of(place), size: *size }),
                }
            }
            // Of a folder, what was kept is brought back.
            _ => Ok(()),
        }
    }
}
