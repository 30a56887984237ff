//! Settling what is unfinished: of a process that died, or of a change that failed half way. What is there
//! tells how far it came.

use std::collections::HashMap;
use std::io::Read as _;

use haft_sandbox::{AbsPath, ChangeErrorKind, Hash, PathErrorKind, State, Workspace};

use super::perform::{self, Contents, Failed, temp_name};
use super::record::{Intent, Outcome, Shape, Step, Text};
use super::{Held, JournalError, Result, SETTLED};

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Before,
    After,
    /// Somebody else has changed the place.
    Neither,
}

impl Held<'_> {
    /// Settles what dead processes left.
    pub(super) fn settle_open(&mut self, workspace: &Workspace) -> Result<()> {
        let is_reread = std::mem::take(&mut self.log.is_reread);
        if self.log.open.is_empty() && !is_reread {
            return Ok(());
        }
        if !self.log.open.is_empty() {
            self.log.read_all()?;
        }
        let open = self.log.open.iter().filter_map(|number| self.log.known.get(number));
        let open: Vec<Intent> = open.map(|known| known.intent.clone()).collect();
        for intent in open {
            match self.settle_one(workspace, &intent) {
                // Its folder is not in this workspace; another one will see to it.
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
        if self.log.open.is_empty() {
            self.lock.mark(SETTLED)?;
        }
        Ok(())
    }

    fn settle_one(&mut self, workspace: &Workspace, intent: &Intent) -> Result<()> {
        let mut positions = Vec::with_capacity(intent.steps.len());
        for step in &intent.steps {
            positions.push(tidy_temp(workspace, step, position(workspace, step)?)?);
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

    /// Takes a change back that failed. Gives the error to report.
    pub(super) fn take_back(
        &mut self,
        workspace: &Workspace,
        intent: &Intent,
        failed: Failed,
    ) -> JournalError {
        let Failed { step: last, error } = failed;
        self.log.distrust_after(&error);
        let is_conflict = matches!(
            &error,
            JournalError::Change(error) if matches!(error.kind, ChangeErrorKind::Conflict(_) | ChangeErrorKind::Exists)
        );
        let mut outcome = Outcome::NotApplied;
        let mut then = None;
        for (number, step) in intent.steps.iter().enumerate().take(last + 1).rev() {
            // What is there after a conflict is somebody else's, whatever it looks like.
            if number == last && is_conflict {
                continue;
            }
            let reverted = position(workspace, step).and_then(|position| match position {
                Position::After => {
                    tidy_temp(workspace, step, position)?;
                    self.revert(workspace, intent, step)
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
                then = Some(error);
            }
        }
        let finished = self.finish(workspace, intent, outcome);
        match then.or(finished.err()) {
            None => error,
            Some(then) => JournalError::HalfDone { cause: Box::new(error), then: Box::new(then) },
        }
    }

    fn revert(&self, workspace: &Workspace, intent: &Intent, step: &Step) -> Result<()> {
        let segment = self.log.known.get(&intent.number).map_or(0, |known| known.segment);
        let fresh = HashMap::new();
        perform::revert(&Contents { log: &self.log, segment, workspace, fresh: &fresh }, step)
    }

    /// Records what became of an intent, and removes the directories that nobody needs any more. That
    /// record need not wait for the disk: without it the same is found out again.
    pub(super) fn finish(&mut self, workspace: &Workspace, intent: &Intent, outcome: Outcome) -> Result<()> {
        let undone = intent.undoes.and_then(|number| self.log.known.get(&number));
        let parents: &[Text] = match outcome {
            Outcome::Done => undone.map_or(&[], |known| &known.intent.parents),
            Outcome::NotApplied => &intent.parents,
            Outcome::External => &[],
        };
        for parent in parents.iter().rev() {
            workspace.remove_if_empty(&parent.place());
        }
        self.log.settle(intent.number, outcome)?;
        if self.log.open.is_empty() {
            self.lock.mark(SETTLED)?;
        }
        Ok(())
    }
}

/// How far a step has come.
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
            let look = |place: &Text| workspace.state_like(&place.place(), &what.state());
            let (source, target) = (look(from)?, look(to)?);
            let after = source == State::Missing && what.fits(&target);
            choose(after, what.fits(&source) && target == State::Missing)
        }
        Step::Mode { path, what, before, after } => {
            let found = workspace.state_like(&path.place(), &what.state())?;
            let mode = found.attributes().map(|attributes| attributes.mode);
            let same = found.same_content(&what.state());
            choose(same && mode == Some(*after), same && mode == Some(*before))
        }
    })
}

/// Whether a place holds exactly this, all of a tree included.
pub(super) fn holds(workspace: &Workspace, path: &Text, shape: &Shape) -> Result<bool> {
    let place = path.place();
    let found = workspace.state_like(&place, &shape.state())?;
    let Shape::Tree(entries) = shape else {
        return Ok(shape.fits(&found));
    };
    if !matches!(found, State::Directory { .. }) {
        return Ok(false);
    }
    Ok(fits_tree(entries, &workspace.tree(&place)?))
}

/// Whether a tree is exactly what was recorded.
pub(super) fn fits_tree(entries: &[(Text, Shape)], tree: &[haft_sandbox::TreeEntry]) -> bool {
    let same = |(entry, (below, shape)): (&haft_sandbox::TreeEntry, &(Text, Shape))| {
        entry.below.as_os_str() == below.as_os() && shape.fits(&entry.state)
    };
    tree.len() == entries.len() && tree.iter().zip(entries).all(same)
}

/// Removes what an interrupted step left under its temporary name. If that turns out to be somebody
/// else's content, which the step took out of its place without having looked at it, it goes back.
fn tidy_temp(workspace: &Workspace, step: &Step, position: Position) -> Result<Position> {
    let Step::Set { path, temp, before, after } = step else {
        return Ok(position);
    };
    let (place, temp) = (path.place(), temp_name(temp)?);
    let left = workspace.temp_state(&place, &temp)?;
    if left == State::Missing {
        return Ok(position);
    }
    let looked_at = matches!(before, Shape::File { .. } | Shape::Link { .. });
    let theirs = looked_at && !left.same_content(&before.state());
    if position == Position::After && theirs && !is_draft(workspace, &place, after, &left) {
        workspace.put_back(&place, &temp)?;
        workspace.discard(&place, &temp)?;
        return Ok(Position::Before);
    }
    workspace.discard(&place, &temp)?;
    Ok(position)
}

/// Whether what was left under a temporary name is the beginning of what is at the place: then it was
/// being written, and the place had that content for another reason.
fn is_draft(workspace: &Workspace, place: &AbsPath, after: &Shape, left: &State) -> bool {
    match (after, left) {
        (Shape::File { .. }, State::File { hash: Some(hash), size, .. }) => {
            let beginning = workspace.open_file(place).map(|open| Hash::of_reader(open.file.take(*size)));
            beginning.is_ok_and(|found| found.is_ok_and(|found| found == *hash))
        }
        (Shape::File { .. }, State::File { hash: None, .. }) => true,
        (Shape::Link { .. }, left) => left.same_content(&after.state()),
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
