//! Dry runs of undo and redo: whether they would succeed, and the error if not. Earlier dry runs count as done, so several
//! changes of one path can be simulated in sequence. No file is written.

use std::collections::{HashMap, HashSet};

use haft_sandbox::{AbsPath, Hash, State, Workspace};

use super::log::{Log, LogEntry};
use super::perform::with_mode;
use super::record::{Digest, Snapshot, Step, Storage, Text};
use super::undo::Merged;
use super::{Content, Journal, JournalError, LockedJournal, Result, archive, path_of, recover};

/// A dry run of undo and redo. It changes nothing, except that it recovers from dead processes first.
#[derive(Debug)]
pub struct DryRun<'a> {
    journal: &'a Journal,
    workspace: &'a Workspace,
    simulated: Simulated,
    undone: HashSet<u64>,
}

/// Simulated steps, in order, and the content that they would have written.
#[derive(Debug, Default)]
pub(super) struct Simulated {
    steps: Vec<SimulatedStep>,
    contents: HashMap<Hash, Content>,
}

#[derive(Debug)]
enum SimulatedStep {
    Set(AbsPath, Snapshot),
    Move { from: AbsPath, to: AbsPath },
}

/// Where to find the simulated state of a path.
enum KnownState {
    /// On disk, at this path.
    OnDisk(AbsPath),
    /// The result of a simulated step.
    Simulated(Snapshot),
}

/// The workspace as it would be after the simulated steps.
pub(super) struct View<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) simulated: &'a Simulated,
}

impl Journal {
    /// Starts a dry run.
    pub fn dry_run<'a>(&'a self, workspace: &'a Workspace) -> DryRun<'a> {
        DryRun { journal: self, workspace, simulated: Simulated::default(), undone: HashSet::new() }
    }
}

impl DryRun<'_> {
    /// Simulates [`Journal::undo_merged`].
    pub fn undo(&mut self, number: u64, merged: &Merged) -> Result<()> {
        let mut locked = self.journal.lock(self.workspace)?;
        locked.require_done(number)?;
        let undone_by = locked.log.active_undo(number);
        if self.undone.contains(&number) || undone_by.is_some_and(|by| !self.undone.contains(&by)) {
            return Err(JournalError::NothingToDo { number, why: "is undone already" });
        }
        locked.retry_with_whole_log(|locked| self.simulate_undo(locked, number, merged))
    }

    /// Simulates [`Journal::redo`] of one change.
    pub fn redo(&mut self, number: u64) -> Result<()> {
        let mut locked = self.journal.lock(self.workspace)?;
        let undoing = locked.undone_by(number)?;
        locked.retry_with_whole_log(|locked| self.simulate_undo(locked, undoing, &Merged::new()))
    }

    fn simulate_undo(&mut self, locked: &LockedJournal<'_>, number: u64, merged: &Merged) -> Result<()> {
        let Some(entry) = locked.log.entries.get(&number) else {
            return Err(JournalError::Unknown(number, locked.log.oldest()));
        };
        let steps_before = self.simulated.steps.len();
        let result = self.simulate_steps(&locked.log, entry, merged);
        match &result {
            Ok(()) => drop(self.undone.insert(number)),
            Err(_) => self.simulated.steps.truncate(steps_before),
        }
        result
    }

    fn simulate_steps(&mut self, log: &Log, entry: &LogEntry, merged: &Merged) -> Result<()> {
        let number = entry.intent.number;
        for step in entry.intent.steps.iter().rev() {
            let view = View { workspace: self.workspace, simulated: &self.simulated };
            if let Step::Set { path, after, .. } = step
                && let Some((_, content)) = merged.get(&path_of(&path.to_path()))
                && !view.holds(path, after)?
            {
                let (hash, size) = (content.hash(), content.len());
                self.simulated.contents.insert(hash, content.clone());
                let (hash, storage) = (Some(Digest(hash)), Storage::None);
                let snapshot = Snapshot::File { hash, size, storage, mode: None, attributes: None };
                self.simulated.steps.push(SimulatedStep::Set(path.to_path(), snapshot));
                continue;
            }
            view.require_as_left(log, number, entry.segment, step)?;
            match step {
                Step::Set { path, before, after, .. } => {
                    self.workspace.require_writable(&path.to_path())?;
                    if before.delta_to(after).is_none() {
                        view.require_stored(log, entry.segment, &path.to_path(), before)?;
                    }
                    self.simulated.steps.push(SimulatedStep::Set(path.to_path(), before.clone()));
                }
                Step::Move { from, to, .. } => {
                    self.workspace.require_writable(&from.to_path())?;
                    self.simulated.steps.push(SimulatedStep::Move { from: to.to_path(), to: from.to_path() });
                }
                Step::Mode { path, what, before, .. } => {
                    self.workspace.require_writable(&path.to_path())?;
                    let snapshot = with_mode(what.clone(), *before);
                    self.simulated.steps.push(SimulatedStep::Set(path.to_path(), snapshot));
                }
            }
        }
        Ok(())
    }
}

impl View<'_> {
    /// Fails unless the paths of a step are as the step left them.
    pub(super) fn require_as_left(&self, log: &Log, number: u64, segment: u32, step: &Step) -> Result<()> {
        let (path, snapshot) = match step {
            Step::Set { path, after, .. } => (path, after.clone()),
            Step::Move { to, what, .. } => (to, what.clone()),
            Step::Mode { path, what, after, .. } => (path, with_mode(what.clone(), *after)),
        };
        if !self.holds(path, &snapshot)? {
            return Err(self.conflict(log, number, segment, path, &snapshot));
        }
        match step {
            Step::Move { from, .. } if !self.holds(from, &Snapshot::Missing)? => {
                Err(self.conflict(log, number, segment, from, &Snapshot::Missing))
            }
            Step::Move { to, what: Snapshot::Directory { .. }, .. } => match self.find(to.to_path()) {
                KnownState::OnDisk(place) => Ok(self.workspace.require_none_guarded_below(&place)?),
                KnownState::Simulated(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether a path would be exactly as in a snapshot.
    pub(super) fn holds(&self, path: &Text, snapshot: &Snapshot) -> Result<bool> {
        match self.find(path.to_path()) {
            KnownState::OnDisk(place) => recover::holds(self.workspace, &Text::path(&place), snapshot),
            KnownState::Simulated(found) => Ok(found.is_compatible_with(snapshot)),
        }
    }

    /// Follows the simulated steps backwards to the one that decides the state of a path.
    fn find(&self, mut place: AbsPath) -> KnownState {
        for step in self.simulated.steps.iter().rev() {
            match step {
                SimulatedStep::Set(path, snapshot) if place.is_within(path) => {
                    let below = place.as_path().strip_prefix(path.as_path()).unwrap_or(place.as_path());
                    return KnownState::Simulated(snapshot.below(below));
                }
                SimulatedStep::Move { from, to } => {
                    if let Ok(below) = place.as_path().strip_prefix(to.as_path()) {
                        place = AbsPath::lexical(&from.as_path().join(below));
                    } else if place.is_within(from) {
                        return KnownState::Simulated(Snapshot::Missing);
                    }
                }
                SimulatedStep::Set(..) => {}
            }
        }
        KnownState::OnDisk(place)
    }

    /// The simulated state of a path, and its content if that is a file that is not too large to be shown.
    pub(super) fn inspect(
        &self,
        log: &Log,
        place: &AbsPath,
    ) -> Result<(State, Option<archive::HashedContent>)> {
        match self.find(place.clone()) {
            KnownState::OnDisk(place) => {
                Ok((self.workspace.state(&place)?, archive::read_current(self.workspace, &place)))
            }
            KnownState::Simulated(snapshot) => {
                let content = match &snapshot {
                    Snapshot::File { hash: Some(Digest(hash)), size, .. } if *size <= archive::MAX_SHOWN => {
                        let simulated =
                            self.simulated.contents.get(hash).map(|content| content.whole().into());
                        let content = simulated.or_else(|| {
                            log.rebuild(hash, archive::read_current(self.workspace, place).as_ref())
                                .ok()
                                .flatten()
                        });
                        content.map(|content| (*hash, content))
                    }
                    _ => None,
                };
                Ok((snapshot.state(), content))
            }
        }
    }

    /// Fails if the content of a file was not stored, so that it cannot be restored.
    fn require_stored(&self, log: &Log, segment: u32, place: &AbsPath, snapshot: &Snapshot) -> Result<()> {
        match snapshot {
            Snapshot::File { hash, storage, size, .. } => {
                let is_elsewhere = match storage {
                    Storage::Elsewhere(elsewhere) => self.holds(elsewhere, snapshot)?,
                    _ => false,
                };
                let is_stored = || match hash {
                    Some(hash) => log.content(segment, storage, &hash.0).map(|content| content.is_some()),
                    None => Ok(false),
                };
                match is_elsewhere || is_stored()? {
                    true => Ok(()),
                    false => Err(JournalError::NotKept { path: path_of(place), size: *size }),
                }
            }
            // A folder is restored as far as its content was stored.
            _ => Ok(()),
        }
    }
}
