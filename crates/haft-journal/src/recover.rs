//! Recovery: finishing or rolling back a change of a process that died, and rolling back one that failed half way. The state
//! of the files shows how far it came.

use std::collections::HashMap;
use std::io::Read as _;

use haft_sandbox::{AbsPath, ChangeErrorKind, Durability, Hash, PathErrorKind, State, Workspace};

use super::perform::{self, ContentSource, FailedStep, temp_name};
use super::record::{Intent, Outcome, Snapshot, Step, Text};
use super::{JournalError, LockedJournal, Result, SETTLED};

/// How far a step has come, by the state of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Before,
    After,
    /// Another program has changed the path.
    Neither,
}

impl LockedJournal<'_> {
    /// Recovers the unfinished changes of dead processes.
    pub(super) fn recover_unfinished(&mut self, workspace: &Workspace) -> Result<()> {
        let was_reloaded = std::mem::take(&mut self.log.was_reloaded);
        if self.log.unfinished.is_empty() && !was_reloaded {
            return Ok(());
        }
        if !self.log.unfinished.is_empty() {
            self.log.read_all()?;
        }
        let unfinished = self.log.unfinished.iter().filter_map(|number| self.log.entries.get(number));
        let unfinished: Vec<Intent> = unfinished.map(|entry| entry.intent.clone()).collect();
        for intent in unfinished {
            match self.recover_one(workspace, &intent) {
                // Its folder is not in this workspace; one that has it will recover it.
                Err(JournalError::Change(error)) if is_elsewhere(&error.kind) => {}
                Err(error) => {
                    let number = intent.number;
                    self.log
                        .notes
                        .push(format!("change {number} was interrupted and is left as it is: {error}"));
                    self.finish(workspace, &intent, Outcome::External)?;
                }
                Ok(()) => {}
            }
        }
        if self.log.unfinished.is_empty() {
            self.lock.mark(SETTLED)?;
        }
        Ok(())
    }

    fn recover_one(&mut self, workspace: &Workspace, intent: &Intent) -> Result<()> {
        if intent.recording.is_some() {
            // It tells of what has happened.
            return self.finish(workspace, intent, Outcome::Done);
        }
        if intent.ordered {
            return self.recover_in_order(workspace, intent);
        }
        let mut positions = Vec::with_capacity(intent.steps.len());
        for step in &intent.steps {
            positions.push(clean_up_temp(workspace, step, position(workspace, step)?)?);
        }
        let number = intent.number;
        if positions.iter().all(|position| *position == Position::After) {
            return self.finish(workspace, intent, Outcome::Done);
        }
        if positions.contains(&Position::Neither) {
            self.log.notes.push(format!(
                "change {number} was interrupted, and its files have been changed since: they are left as they are"
            ));
            return self.finish(workspace, intent, Outcome::External);
        }
        for (step, position) in intent.steps.iter().zip(&positions).rev() {
            if *position == Position::After {
                self.revert(workspace, intent, step)?;
            }
        }
        self.log.notes.push(format!("change {number} was interrupted and has been taken back"));
        self.finish(workspace, intent, Outcome::NotApplied)
    }

    /// Recovers a change whose steps build on each other: those up to one are made, and the state of the files shows which.
    fn recover_in_order(&mut self, workspace: &Workspace, intent: &Intent) -> Result<()> {
        let number = intent.number;
        let steps = &intent.steps;
        let mut made = self.progress(number).made().min(steps.len());
        // It may have died between a step, or taking one back, and the note of that.
        if let Some(step) = steps.get(made)
            && clean_up_temp(workspace, step, position(workspace, step)?)? == Position::After
        {
            made += 1;
        } else if made > 0 && position(workspace, &steps[made - 1])? == Position::Before {
            made -= 1;
            clean_up_temp(workspace, &steps[made], Position::Before)?;
        }
        if made == steps.len() {
            return self.finish(workspace, intent, Outcome::Done);
        }
        while made > 0 {
            let step = &steps[made - 1];
            if position(workspace, step)? != Position::After {
                self.log.notes.push(format!(
                    "change {number} was interrupted, and its files have been changed since: they are left as they are"
                ));
                return self.finish(workspace, intent, Outcome::External);
            }
            self.revert(workspace, intent, step)?;
            made -= 1;
            self.progress(number).note(made, Durability::Full)?;
        }
        self.log.notes.push(format!("change {number} was interrupted and has been taken back"));
        self.finish(workspace, intent, Outcome::NotApplied)
    }

    /// Rolls a failed change back. Returns the error to report.
    pub(super) fn roll_back(
        &mut self,
        workspace: &Workspace,
        intent: &Intent,
        failed: FailedStep,
    ) -> JournalError {
        let FailedStep { step: last, error } = failed;
        self.log.distrust_after(&error);
        let is_conflict = matches!(
            &error,
            JournalError::Change(error) if matches!(error.kind, ChangeErrorKind::Conflict(_) | ChangeErrorKind::Exists)
        );
        let mut outcome = Outcome::NotApplied;
        let mut rollback_error = None;
        for (number, step) in intent.steps.iter().enumerate().take(last + 1).rev() {
            // After a conflict the file is another program's, even if it looks like the result of the step.
            if number == last && is_conflict {
                continue;
            }
            let reverted = position(workspace, step).and_then(|position| match position {
                Position::After => {
                    clean_up_temp(workspace, step, position)?;
                    self.revert(workspace, intent, step)?;
                    match intent.ordered {
                        true => Ok(self.progress(intent.number).note(number, Durability::Full)?),
                        false => Ok(()),
                    }
                }
                Position::Before => Ok(()),
                Position::Neither => {
                    if number < last {
                        outcome = Outcome::External;
                    }
                    Ok(())
                }
            });
            if let Err(error) = reverted {
                outcome = Outcome::External;
                rollback_error = Some(error);
            }
        }
        let finished = self.finish(workspace, intent, outcome);
        match rollback_error.or(finished.err()) {
            None => error,
            Some(then) => JournalError::HalfDone { cause: Box::new(error), then: Box::new(then) },
        }
    }

    fn progress(&self, number: u64) -> perform::Progress<'_> {
        perform::Progress { lock: &self.lock, number }
    }

    fn revert(&self, workspace: &Workspace, intent: &Intent, step: &Step) -> Result<()> {
        let segment = self.log.entries.get(&intent.number).map_or(0, |entry| entry.segment);
        let new_contents = HashMap::new();
        perform::revert(
            &ContentSource { log: &self.log, segment, workspace, new_contents: &new_contents },
            step,
        )
    }

    /// Records the outcome of an intent, and removes parent directories that are no longer needed. The record needs no sync:
    /// if it is lost, recovery finds the same outcome again.
    pub(super) fn finish(&mut self, workspace: &Workspace, intent: &Intent, outcome: Outcome) -> Result<()> {
        let undone = intent.undoes.and_then(|number| self.log.entries.get(&number));
        let parents: &[Text] = match outcome {
            Outcome::Done => undone.map_or(&[], |entry| &entry.intent.parents),
            Outcome::NotApplied => &intent.parents,
            Outcome::External => &[],
        };
        for parent in parents.iter().rev() {
            workspace.remove_if_empty(&parent.to_path());
        }
        self.log.record_outcome(intent.number, outcome)?;
        if self.log.unfinished.is_empty() {
            self.lock.mark(SETTLED)?;
        }
        Ok(())
    }
}

/// Compares the state of a step's paths with its snapshots.
pub(super) fn position(workspace: &Workspace, step: &Step) -> Result<Position> {
    let choose = |after: bool, before: bool| match (after, before) {
        (true, _) => Position::After,
        (false, true) => Position::Before,
        (false, false) => Position::Neither,
    };
    Ok(match step {
        Step::Set { path, before, after, .. } => {
            choose(holds(workspace, path, after)?, holds(workspace, path, before)?)
        }
        Step::Move { from, to, what } => {
            let state = |place: &Text| workspace.state_like(&place.to_path(), &what.state());
            let (source, target) = (state(from)?, state(to)?);
            let after = source == State::Missing && what.matches(&target);
            choose(after, what.matches(&source) && target == State::Missing)
        }
        Step::Mode { path, what, before, after } => {
            let found = workspace.state_like(&path.to_path(), &what.state())?;
            let mode = found.attributes().map(|attributes| attributes.mode);
            let same = found.same_content(&what.state());
            choose(same && mode == Some(*after), same && mode == Some(*before))
        }
    })
}

/// Whether a path is exactly as in a snapshot, all of a tree included.
pub(super) fn holds(workspace: &Workspace, path: &Text, snapshot: &Snapshot) -> Result<bool> {
    let place = path.to_path();
    let found = workspace.state_like(&place, &snapshot.state())?;
    let Snapshot::Tree(entries) = snapshot else {
        return Ok(snapshot.matches(&found));
    };
    if !matches!(found, State::Directory { .. }) {
        return Ok(false);
    }
    Ok(matches_tree(entries, &workspace.tree(&place)?))
}

/// Whether a tree is exactly as recorded.
pub(super) fn matches_tree(entries: &[(Text, Snapshot)], tree: &[haft_sandbox::TreeEntry]) -> bool {
    let same = |(entry, (below, snapshot)): (&haft_sandbox::TreeEntry, &(Text, Snapshot))| {
        entry.below.as_os_str() == below.as_os() && snapshot.matches(&entry.state)
    };
    tree.len() == entries.len() && tree.iter().zip(entries).all(same)
}

/// Removes the temporary file of an interrupted step. If that is another program's file, which the step exchanged for its own
/// and had no time to compare, it is put back.
fn clean_up_temp(workspace: &Workspace, step: &Step, position: Position) -> Result<Position> {
    let Step::Set { path, temp, before, after } = step else {
        return Ok(position);
    };
    let (place, temp) = (path.to_path(), temp_name(temp)?);
    let leftover = workspace.temp_state(&place, &temp)?;
    if leftover == State::Missing {
        return Ok(position);
    }
    let is_compared = matches!(before, Snapshot::File { .. } | Snapshot::Link { .. });
    let is_foreign = is_compared && !leftover.same_content(&before.state());
    if position == Position::After && is_foreign && !is_draft(workspace, &place, after, &leftover) {
        workspace.put_back(&place, &temp)?;
        workspace.discard(&place, &temp)?;
        return Ok(Position::Before);
    }
    workspace.discard(&place, &temp)?;
    Ok(position)
}

/// Whether a leftover temporary file is a prefix of the file at the path: then it was still being written, and the path has
/// that content for another reason.
fn is_draft(workspace: &Workspace, place: &AbsPath, after: &Snapshot, leftover: &State) -> bool {
    match (after, leftover) {
        (Snapshot::File { .. }, State::File { hash: Some(hash), size, .. }) => {
            let prefix = workspace.open_file(place).map(|open| Hash::of_reader(open.file.take(*size)));
            prefix.is_ok_and(|found| found.is_ok_and(|found| found == *hash))
        }
        (Snapshot::File { .. }, State::File { hash: None, .. }) => true,
        (Snapshot::Link { .. }, leftover) => leftover.same_content(&after.state()),
        _ => false,
    }
}

fn is_elsewhere(kind: &ChangeErrorKind) -> bool {
    matches!(
        kind,
        ChangeErrorKind::Path(PathErrorKind::Outside | PathErrorKind::OutsideFocus(_))
            | ChangeErrorKind::ReadOnlyFolder
    )
}
