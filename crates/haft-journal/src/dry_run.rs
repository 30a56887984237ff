//! Dry runs of undo and redo: whether they would succeed, and the error if not. Earlier dry runs count as done, so several
//! changes of one path can be simulated in sequence. No file is written.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use haft_sandbox::{AbsPath, Hash, State, TreeEntry, Workspace};

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
    /// The steps that name each path, in order.
    by_path: HashMap<PathBuf, Vec<usize>>,
}

impl Simulated {
    fn set(&mut self, path: AbsPath, snapshot: Snapshot) {
        self.by_path.entry(path_of(&path)).or_default().push(self.steps.len());
        self.steps.push(SimulatedStep::Set(path, snapshot));
    }

    fn rename(&mut self, from: AbsPath, to: AbsPath) {
        for path in [&from, &to] {
            self.by_path.entry(path_of(path)).or_default().push(self.steps.len());
        }
        self.steps.push(SimulatedStep::Move { from, to });
    }

    fn truncate(&mut self, length: usize) {
        self.steps.truncate(length);
        self.by_path.values_mut().for_each(|steps| steps.retain(|step| *step < length));
    }

    /// The last step before `end` that names a path or one above it.
    fn last_about(&self, place: &AbsPath, end: usize) -> Option<usize> {
        let above = place.as_path().ancestors().filter_map(|path| self.by_path.get(path));
        above.filter_map(|steps| steps[..steps.partition_point(|step| *step < end)].last().copied()).max()
    }

    /// Adds the inverse of a step.
    pub(super) fn undo(&mut self, step: &Step) {
        match step {
            Step::Set { path, before, .. } => self.set(path.to_path(), before.clone()),
            Step::Move { from, to, .. } => self.rename(to.to_path(), from.to_path()),
            Step::Mode { path, what, before, .. } => {
                self.set_mode(path.to_path(), what, *before);
            }
        }
    }

    fn set_mode(&mut self, path: AbsPath, what: &Snapshot, mode: u32) {
        // The content of a directory stays, so it is not replaced by its own snapshot.
        if !matches!(what, Snapshot::Directory { .. } | Snapshot::Tree(_)) {
            self.set(path, with_mode(what.clone(), mode));
        }
    }
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
            Err(_) => self.simulated.truncate(steps_before),
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
                let snapshot =
                    Snapshot::File { hash, size, storage, mode: None, attributes: None, linked: None };
                self.simulated.set(path.to_path(), snapshot);
                continue;
            }
            view.require_as_left(log, number, entry.segment, step)?;
            match step {
                Step::Set { path, before, after, .. } => {
                    self.workspace.require_writable(&path.to_path())?;
                    if before.delta_to(after).is_none() {
                        view.require_stored(log, entry.segment, &path.to_path(), before)?;
                    }
                }
                Step::Move { from, .. } => self.workspace.require_writable(&from.to_path())?,
                Step::Mode { path, .. } => self.workspace.require_writable(&path.to_path())?,
            }
            self.simulated.undo(step);
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
            KnownState::OnDisk(disk) => match snapshot {
                Snapshot::Tree(entries) => self.holds_tree(&path.to_path(), &disk, entries),
                _ => recover::holds(self.workspace, &Text::path(&disk), snapshot),
            },
            KnownState::Simulated(found) => Ok(found.is_compatible_with(snapshot)),
        }
    }

    /// Whether a directory on disk would have exactly this content.
    fn holds_tree(&self, place: &AbsPath, disk: &AbsPath, entries: &[(Text, Snapshot)]) -> Result<bool> {
        if !matches!(self.workspace.state(disk)?, State::Directory { .. }) {
            return Ok(false);
        }
        Ok(recover::matches_tree(entries, &self.tree(place, disk)?))
    }

    /// The content of a directory on disk, without what the simulated steps took out of it.
    pub(super) fn tree(&self, place: &AbsPath, disk: &AbsPath) -> Result<Vec<TreeEntry>> {
        let mut tree = self.workspace.tree(disk)?;
        let gone: Vec<&AbsPath> = self
            .simulated
            .steps
            .iter()
            .filter_map(|step| match step {
                SimulatedStep::Set(path, Snapshot::Missing) => Some(path),
                SimulatedStep::Move { from, .. } => Some(from),
                SimulatedStep::Set(..) => None,
            })
            .filter(|path| path.is_within(place) && *path != place)
            .collect();
        if !gone.is_empty() {
            tree.retain(|entry| {
                let path = AbsPath::lexical(&place.as_path().join(&entry.below));
                !gone.iter().any(|gone| path.is_within(gone))
            });
        }
        Ok(tree)
    }

    /// Where on disk the state of a path is found now; `None` if only simulated steps tell it.
    pub(super) fn on_disk(&self, place: &AbsPath) -> Option<AbsPath> {
        match self.find(place.clone()) {
            KnownState::OnDisk(disk) => Some(disk),
            KnownState::Simulated(_) => None,
        }
    }

    /// Follows the simulated steps backwards to the one that decides the state of a path.
    fn find(&self, mut place: AbsPath) -> KnownState {
        let mut end = self.simulated.steps.len();
        while let Some(last) = self.simulated.last_about(&place, end) {
            match &self.simulated.steps[last] {
                SimulatedStep::Set(path, snapshot) => {
                    let below = place.as_path().strip_prefix(path.as_path()).unwrap_or(place.as_path());
                    return KnownState::Simulated(snapshot.below(below));
                }
                SimulatedStep::Move { from, to } => match place.as_path().strip_prefix(to.as_path()) {
                    Ok(below) => place = AbsPath::lexical(&from.as_path().join(below)),
                    Err(_) => return KnownState::Simulated(Snapshot::Missing),
                },
            }
            end = last;
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
