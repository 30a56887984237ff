//! Undo and redo. Both are changes like any other, with a number of their own, so each can be undone in turn.

use std::collections::HashMap;
use std::path::PathBuf;

use haft_sandbox::{AbsPath, ChangeError, Expect, Hash, State, Workspace};

use super::dry_run::{Simulated, View};
use super::perform::{ContentSource, with_mode};
use super::plan::{Plan, Planner};
use super::record::{Digest, Outcome, Part, Snapshot, Step, Storage, Text};
use super::recover::holds;
use super::{
    Conflict, Content, Journal, JournalError, Label, LockedJournal, Recorded, Result, archive, path_of,
};

/// Merged content for files that have changed since, each with the hash of the content that it was merged from.
pub type Merged = HashMap<PathBuf, (Hash, Content)>;

impl Journal {
    /// Undoes changes, the newest first, each under a number of its own. Every path must be as the change left it: the same
    /// kind, content and permission bits. If one is not, all of it fails, and the changes that were undone already are
    /// redone.
    pub fn undo(&self, workspace: &Workspace, numbers: &[u64], label: Label<'_>) -> Result<Vec<Recorded>> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers.dedup();
        self.lock(workspace)?.undo_all(workspace, &numbers, &Merged::new(), label)
    }

    /// Undoes one change although some of its files have changed since: these get their merged content, if they still have
    /// the content that it was merged from.
    pub fn undo_merged(
        &self,
        workspace: &Workspace,
        number: u64,
        merged: &Merged,
        label: Label<'_>,
    ) -> Result<Recorded> {
        self.lock(workspace)?.undo_one(workspace, number, merged, label)
    }

    /// Redoes undone changes, the oldest first, each under a number of its own. If one fails, none is redone.
    pub fn redo(&self, workspace: &Workspace, numbers: &[u64], label: Label<'_>) -> Result<Vec<Recorded>> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let mut locked = self.lock(workspace)?;
        let undoing = numbers.iter().map(|number| locked.undone_by(*number)).collect::<Result<Vec<u64>>>()?;
        locked.undo_all(workspace, &undoing, &Merged::new(), label)
    }
}

impl LockedJournal<'_> {
    fn undo_all(
        &mut self,
        workspace: &Workspace,
        numbers: &[u64],
        merged: &Merged,
        label: Label<'_>,
    ) -> Result<Vec<Recorded>> {
        let mut undone: Vec<Recorded> = Vec::new();
        for number in numbers {
            match self.undo_one(workspace, *number, merged, label) {
                Ok(recorded) => undone.push(recorded),
                Err(error) => {
                    for recorded in undone.iter().rev() {
                        if let Err(then) = self.undo_one(workspace, recorded.number, merged, label) {
                            return Err(JournalError::HalfDone {
                                cause: Box::new(error),
                                then: Box::new(then),
                            });
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(undone)
    }

    fn undo_one(
        &mut self,
        workspace: &Workspace,
        number: u64,
        merged: &Merged,
        label: Label<'_>,
    ) -> Result<Recorded> {
        self.require_done(number)?;
        if self.log.active_undo(number).is_some() {
            return Err(JournalError::NothingToDo { number, why: "is undone already" });
        }
        self.log.make_room()?;
        let plan = self.retry_with_whole_log(|locked| locked.plan_undo(workspace, number, merged))?;
        self.execute(workspace, plan, label, Some(number), &mut || {})
    }

    /// Runs `attempt`, and once more with the whole log indexed if it fails for missing content.
    pub(super) fn retry_with_whole_log<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        match attempt(self) {
            Err(error) if error.is_missing_content() && self.log.read_all()? => attempt(self),
            done => done,
        }
    }

    /// Fails unless a number is known and its change was made.
    pub(super) fn require_done(&mut self, number: u64) -> Result<()> {
        self.log.read_back_to(number)?;
        let nothing = |why| Err(JournalError::NothingToDo { number, why });
        match self.log.entries.get(&number).map(|entry| entry.outcome) {
            None => Err(JournalError::Unknown(number, self.log.oldest())),
            Some(Some(Outcome::Done)) => Ok(()),
            Some(Some(Outcome::NotApplied)) => nothing("was never applied: there is nothing to undo"),
            Some(Some(Outcome::External)) => {
                nothing("was interrupted and its files were changed by others: it cannot be undone")
            }
            Some(None) => nothing("concerns a folder that is not in this workspace"),
        }
    }

    fn plan_undo(&mut self, workspace: &Workspace, number: u64, merged: &Merged) -> Result<Plan> {
        let Some(entry) = self.log.entries.get(&number) else {
            return Err(JournalError::Unknown(number, self.log.oldest()));
        };
        let (segment, steps) = (entry.segment, entry.intent.steps.clone());
        let ordered = entry.intent.ordered;
        let mut planner = Planner::new(&mut self.log, workspace);
        if ordered {
            planner.in_order();
        }
        let mut simulated = Simulated::default();
        for step in steps.iter().rev() {
            match step {
                Step::Set { path, after, .. }
                    if let Some((from, content)) = merged.get(&path_of(&path.to_path()))
                        && !holds(workspace, path, after)? =>
                {
                    planner.write(&path.to_path(), content, &Expect::Content(*from), None)?;
                }
                step => planner.undo_step(number, segment, step, &simulated)?,
            }
            if ordered {
                simulated.undo(step);
            }
        }
        planner.finish()
    }

    /// The number of the undo that a redo of this number has to undo.
    pub(super) fn undone_by(&mut self, number: u64) -> Result<u64> {
        self.log.read_back_to(number)?;
        if !self.log.entries.contains_key(&number) {
            return Err(JournalError::Unknown(number, self.log.oldest()));
        }
        let why = "is not undone: there is nothing to redo";
        self.log.active_undo(number).ok_or(JournalError::NothingToDo { number, why })
    }
}

impl Planner<'_> {
    /// Adds the inverse of a step, if its path is as the step left it once the simulated steps are made.
    fn undo_step(&mut self, number: u64, segment: u32, step: &Step, simulated: &Simulated) -> Result<()> {
        let view = View { workspace: self.workspace, simulated };
        view.require_as_left(self.archive.log, number, segment, step)?;
        // An earlier step of this plan may leave it as it is recorded.
        let now = |path: &Text, what: &Snapshot| match view.on_disk(&path.to_path()) {
            Some(disk) => self.workspace.state_like(&disk, &what.state()).map(|state| Snapshot::of(&state)),
            None => Ok(what.clone()),
        };
        match step {
            Step::Set { path, before, after, .. } => {
                let place = path.to_path();
                let Some(disk) = view.on_disk(&place) else {
                    // An earlier step of this plan leaves it so.
                    let found = self.copy_snapshot(&place, segment, after)?;
                    let restored = self.copy_snapshot(&place, segment, before)?;
                    self.set(&place, found, restored);
                    return Ok(());
                };
                let found = self.workspace.state_like(&disk, &after.state())?;
                if let Some(parts) = before.delta_to(after) {
                    return self.undo_delta(&place, segment, &found, [before, after], parts);
                }
                let found = match after {
                    Snapshot::Tree(_) if is_elsewhere(after) => after.clone(),
                    Snapshot::Tree(_) => {
                        let tree = view.tree(&place, &disk)?;
                        self.archive.snapshot_tree(self.workspace, &disk, &tree)?
                    }
                    Snapshot::File { storage: Storage::Elsewhere(elsewhere), .. } => {
                        let mut snapshot = Snapshot::of(&found);
                        if let Snapshot::File { storage, .. } = &mut snapshot {
                            *storage = Storage::Elsewhere(elsewhere.clone());
                        }
                        snapshot
                    }
                    _ => self.archive.snapshot_file(self.workspace, &disk, &found)?,
                };
                let restored = self.copy_snapshot(&place, segment, before)?;
                self.set(&place, found, restored);
            }
            Step::Move { from, to, what } => {
                let what = match what {
                    // Its mode may be another one by then.
                    Snapshot::Directory { attributes: None } => what.clone(),
                    what => now(to, what)?,
                };
                self.push(Step::Move { from: to.clone(), to: from.clone(), what });
            }
            Step::Mode { path, what, before, after } => {
                let what = now(path, &with_mode(what.clone(), *after))?;
                self.push(Step::Mode { path: path.clone(), what, before: *after, after: *before });
            }
        }
        Ok(())
    }

    /// Adds the step that restores a file from its delta to the current content.
    fn undo_delta(
        &mut self,
        place: &AbsPath,
        segment: u32,
        found: &State,
        [before, after]: [&Snapshot; 2],
        parts: &[Part],
    ) -> Result<()> {
        let (Snapshot::File { hash: Some(was), .. }, Snapshot::File { hash: Some(is), .. }) = (before, after)
        else {
            return Err(JournalError::NotKept { path: path_of(place), size: before.size() });
        };
        let Some(restored) = self.archive.copy_parts(segment, *is, parts)? else {
            return Err(JournalError::NotKept { path: path_of(place), size: before.size() });
        };
        let forward = match after.delta_to(before) {
            Some(parts) => self.archive.copy_parts(segment, *was, parts)?,
            None => None,
        };
        let found = match forward {
            Some(forward) => Snapshot::of(found).stored_as(forward),
            None => self.archive.snapshot_file(self.workspace, place, found)?,
        };
        self.set(place, found, before.clone().stored_as(restored));
        Ok(())
    }

    /// A copy of a snapshot with its content stored for the new record, which may outlive the old one.
    fn copy_snapshot(&mut self, place: &AbsPath, segment: u32, snapshot: &Snapshot) -> Result<Snapshot> {
        let mut copy = snapshot.clone();
        match &mut copy {
            Snapshot::File { hash, size, storage, .. } => {
                *storage = self.copy_content(place, segment, snapshot, *hash, *size, storage)?;
            }
            Snapshot::Tree(entries) => {
                let mut restored = Vec::with_capacity(entries.len());
                for (below, snapshot) in std::mem::take(entries) {
                    let place = AbsPath::lexical(&place.as_path().join(below.as_os()));
                    match self.copy_snapshot(&place, segment, &snapshot) {
                        _ if snapshot == Snapshot::Special => {}
                        Ok(snapshot) => restored.push((below, snapshot)),
                        // Restore the rest of the folder without it.
                        Err(JournalError::NotKept { size, .. }) => {
                            let shown = self.workspace.display(&place);
                            self.archive.notes.push(format!(
                                "`{shown}` ({size} bytes) was too large to be kept and is not brought back"
                            ));
                        }
                        Err(error) => return Err(error),
                    }
                }
                *entries = restored;
            }
            _ => {}
        }
        Ok(copy)
    }

    fn copy_content(
        &mut self,
        place: &AbsPath,
        segment: u32,
        snapshot: &Snapshot,
        hash: Option<Digest>,
        size: u64,
        storage: &Storage,
    ) -> Result<Storage> {
        let new_contents = HashMap::new();
        let contents = ContentSource {
            log: self.archive.log,
            segment,
            workspace: self.workspace,
            new_contents: &new_contents,
        };
        if let Storage::Elsewhere(elsewhere) = storage
            && contents.holds(elsewhere, snapshot)
        {
            return Ok(storage.clone());
        }
        let Some(Digest(hash)) = hash else {
            return Err(JournalError::NotKept { path: path_of(place), size });
        };
        let content = contents.read(place, &hash, storage, size)?;
        self.archive.store(&content, &hash)
    }
}

impl View<'_> {
    /// The error for a path that is not as recorded, with both contents for a merge.
    pub(super) fn conflict(
        &self,
        log: &super::Log,
        number: u64,
        segment: u32,
        path: &Text,
        recorded: &Snapshot,
    ) -> JournalError {
        let place = path.to_path();
        let (found, current) = match self.inspect(log, &place) {
            Ok(found) => found,
            Err(error) => return error,
        };
        let recorded_content = match recorded {
            Snapshot::File { hash: Some(hash), storage, size, .. } if *size <= archive::MAX_SHOWN => {
                let content = log.content(segment, storage, &hash.0).ok().flatten();
                content.or_else(|| log.rebuild(&hash.0, current.as_ref()).ok().flatten())
            }
            _ => None,
        };
        let found_content = current.map(|(_, content)| content);
        let describe = |state: &State| match state {
            State::File { attributes, size, .. } => {
                format!("a file of {size} bytes (mode {:o})", attributes.mode)
            }
            other => other.describe(),
        };
        JournalError::Conflict(Box::new(Conflict {
            number,
            path: path_of(&place),
            recorded: recorded.state().describe(),
            found: describe(&found),
            recorded_content,
            found_content,
        }))
    }
}

/// Whether the content of a tree is stored at another path.
fn is_elsewhere(snapshot: &Snapshot) -> bool {
    let Snapshot::Tree(entries) = snapshot else { return false };
    entries
        .iter()
        .any(|(_, snapshot)| matches!(snapshot, Snapshot::File { storage: Storage::Elsewhere(_), .. }))
}

impl From<haft_sandbox::PathError> for JournalError {
    fn from(error: haft_sandbox::PathError) -> Self {
        ChangeError::from(error).into()
    }
}
