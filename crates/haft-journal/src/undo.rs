//! Undo and redo. Both are changes like any other, with a number of their own, so each can be taken back
//! in turn.

use std::collections::HashMap;
use std::path::PathBuf;

use haft_sandbox::{AbsPath, ChangeError, Expect, Hash, State, Workspace};

use super::perform::Contents;
use super::plan::{Plan, Planner};
use super::record::{Digest, Kept, Outcome, Part, Shape, Step, Text};
use super::recover::holds;
use super::rehearse::{Tried, View};
use super::{Conflict, Content, Held, Journal, JournalError, Label, Recorded, Result, keep, path_of};

/// Content for places that have changed since, each with the hash of what it was merged from.
pub type Merged = HashMap<PathBuf, (Hash, Content)>;

impl Journal {
    /// Undoes changes, the newest first, each under a number of its own. Every place must be as the
    /// change left it: the same kind, content and permission bits. If one is not, nothing is undone:
    /// those that were undone already are redone.
    pub fn undo(&self, workspace: &Workspace, numbers: &[u64], label: Label<'_>) -> Result<Vec<Recorded>> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers.dedup();
        self.hold(workspace)?.undo_all(workspace, &numbers, &Merged::new(), label)
    }

    /// Undoes one change although some of its files have changed since: these get the content that was
    /// merged for them, if they still are what it was merged from.
    pub fn undo_merged(
        &self,
        workspace: &Workspace,
        number: u64,
        merged: &Merged,
        label: Label<'_>,
    ) -> Result<Recorded> {
        self.hold(workspace)?.undo_one(workspace, number, merged, label)
    }

    /// Redoes changes that were undone, the oldest first, in the same way.
    pub fn redo(&self, workspace: &Workspace, numbers: &[u64], label: Label<'_>) -> Result<Vec<Recorded>> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let mut held = self.hold(workspace)?;
        let undoing = numbers.iter().map(|number| held.undone_by(*number)).collect::<Result<Vec<u64>>>()?;
        held.undo_all(workspace, &undoing, &Merged::new(), label)
    }
}

impl Held<'_> {
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
        let plan = self.knowing_all(|held| held.plan_undo(workspace, number, merged))?;
        self.carry_out(workspace, plan, label, Some(number), &mut || {})
    }

    /// Tries once more with all that was ever recorded where content was missed.
    pub(super) fn knowing_all<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        match attempt(self) {
            Err(error) if error.misses_content() && self.log.read_all()? => attempt(self),
            done => done,
        }
    }

    /// Refuses a number that was not done, or is not known.
    pub(super) fn require_done(&mut self, number: u64) -> Result<()> {
        self.log.reach(number)?;
        let nothing = |why| Err(JournalError::NothingToDo { number, why });
        match self.log.known.get(&number).map(|known| known.outcome) {
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
        let Some(known) = self.log.known.get(&number) else {
            return Err(JournalError::Unknown(number, self.log.oldest()));
        };
        let (segment, steps) = (known.segment, known.intent.steps.clone());
        let mut planner = Planner::new(&mut self.log, workspace);
        for step in steps.iter().rev() {
            match step {
                Step::Set { path, after, .. }
                    if let Some((from, content)) = merged.get(&path_of(&path.place()))
                        && !holds(workspace, path, after)? =>
                {
                    planner.write(&path.place(), content, &Expect::Content(*from), None)?;
                }
                step => planner.lead_back(number, segment, step)?,
            }
        }
        planner.finish()
    }

    pub(super) fn undone_by(&mut self, number: u64) -> Result<u64> {
        self.log.reach(number)?;
        if !self.log.known.contains_key(&number) {
            return Err(JournalError::Unknown(number, self.log.oldest()));
        }
        let why = "is not undone: there is nothing to redo";
        self.log.active_undo(number).ok_or(JournalError::NothingToDo { number, why })
    }
}

impl Planner<'_> {
    /// Adds the step that leads back, if the place is as the step left it.
    fn lead_back(&mut self, number: u64, segment: u32, step: &Step) -> Result<()> {
        let view = View { workspace: self.workspace, tried: &Tried::default() };
        view.require_as_left(self.keeper.log, number, segment, step)?;
        match step {
            Step::Set { path, before, after, .. } => {
                let place = path.place();
                let found = self.workspace.state_like(&place, &after.state())?;
                if let Some(parts) = before.differs_from(after) {
                    return self.splice_back(&place, segment, &found, [before, after], parts);
                }
                let found = match after {
                    Shape::Tree(_) if is_elsewhere(after) => after.clone(),
                    Shape::Tree(_) => {
                        let tree = self.workspace.tree(&place)?;
                        self.keeper.keep_tree(self.workspace, &place, &tree)?
                    }
                    Shape::File { kept: Kept::At(elsewhere), .. } => {
                        let mut shape = Shape::of(&found);
                        if let Shape::File { kept, .. } = &mut shape {
                            *kept = Kept::At(elsewhere.clone());
                        }
                        shape
                    }
                    _ => self.keeper.keep_found(self.workspace, &place, &found)?,
                };
                let restored = self.keep_again(&place, segment, before)?;
                self.set(&place, found, restored);
            }
            Step::Move { from, to, what } => {
                let what = Shape::of(&self.workspace.state_like(&to.place(), &what.state())?);
                self.push(Step::Move { from: to.clone(), to: from.clone(), what });
            }
            Step::Mode { path, what, before, after } => {
                let what = Shape::of(&self.workspace.state_like(&path.place(), &what.state())?);
                self.push(Step::Mode { path: path.clone(), what, before: *after, after: *before });
            }
        }
        Ok(())
    }

    /// Leads a file back that was kept as what differs from what is in place.
    fn splice_back(
        &mut self,
        place: &AbsPath,
        segment: u32,
        found: &State,
        [before, after]: [&Shape; 2],
        parts: &[Part],
    ) -> Result<()> {
        let (Shape::File { hash: Some(was), .. }, Shape::File { hash: Some(is), .. }) = (before, after)
        else {
            return Err(JournalError::NotKept { path: path_of(place), size: before.size() });
        };
        let Some(restored) = self.keeper.keep_parts(segment, *is, parts)? else {
            return Err(JournalError::NotKept { path: path_of(place), size: before.size() });
        };
        let forward = match after.differs_from(before) {
            Some(parts) => self.keeper.keep_parts(segment, *was, parts)?,
            None => None,
        };
        let found = match forward {
            Some(forward) => Shape::of(found).kept_as(forward),
            None => self.keeper.keep_found(self.workspace, place, found)?,
        };
        self.set(place, found, before.clone().kept_as(restored));
        Ok(())
    }

    /// The shape with its content kept for the new record as well.
    fn keep_again(&mut self, place: &AbsPath, segment: u32, shape: &Shape) -> Result<Shape> {
        let mut again = shape.clone();
        match &mut again {
            Shape::File { hash, size, kept, .. } => {
                *kept = self.keep_file_again(place, segment, shape, *hash, *size, kept)?;
            }
            Shape::Tree(entries) => {
                let mut brought_back = Vec::with_capacity(entries.len());
                for (below, shape) in std::mem::take(entries) {
                    let place = AbsPath::lexical(&place.as_path().join(below.as_os()));
                    match self.keep_again(&place, segment, &shape) {
                        _ if shape == Shape::Special => {}
                        Ok(shape) => brought_back.push((below, shape)),
                        // What was kept of a folder is worth having without the rest.
                        Err(JournalError::NotKept { size, .. }) => {
                            let shown = self.workspace.display(&place);
                            self.keeper.notes.push(format!(
                                "`{shown}` ({size} bytes) was too large to be kept and is not brought back"
                            ));
                        }
                        Err(error) => return Err(error),
                    }
                }
                *entries = brought_back;
            }
            _ => {}
        }
        Ok(again)
    }

    fn keep_file_again(
        &mut self,
        place: &AbsPath,
        segment: u32,
        shape: &Shape,
        hash: Option<Digest>,
        size: u64,
        kept: &Kept,
    ) -> Result<Kept> {
        let fresh = HashMap::new();
        let contents = Contents { log: self.keeper.log, segment, workspace: self.workspace, fresh: &fresh };
        if let Kept::At(elsewhere) = kept
            && contents.holds(elsewhere, shape)
        {
            return Ok(kept.clone());
        }
        let Some(Digest(hash)) = hash else {
            return Err(JournalError::NotKept { path: path_of(place), size });
        };
        let content = contents.read(place, &hash, kept, size)?;
        self.keeper.keep(&content, &hash)
    }
}

impl View<'_> {
    /// Says what is at a place instead of what was left there.
    pub(super) fn conflict(
        &self,
        log: &super::Log,
        number: u64,
        segment: u32,
        path: &Text,
        recorded: &Shape,
    ) -> JournalError {
        let place = path.place();
        let (found, at_hand) = match self.look(log, &place) {
            Ok(found) => found,
            Err(error) => return error,
        };
        let recorded_content = match recorded {
            Shape::File { hash: Some(hash), kept, size, .. } if *size <= keep::SHOWN => {
                let kept = log.content(segment, kept, &hash.0).ok().flatten();
                kept.or_else(|| log.rebuilt(&hash.0, at_hand.as_ref()).ok().flatten())
            }
            _ => None,
        };
        let found_content = at_hand.map(|(_, content)| content);
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

/// Whether the content of a tree is kept at another place.
fn is_elsewhere(shape: &Shape) -> bool {
    let Shape::Tree(entries) = shape else { return false };
    entries.iter().any(|(_, shape)| matches!(shape, Shape::File { kept: Kept::At(_), .. }))
}

impl From<haft_sandbox::PathError> for JournalError {
    fn from(error: haft_sandbox::PathError) -> Self {
        ChangeError::from(error).into()
    }
}
