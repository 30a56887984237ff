//! The undo and redo operations. If a file has changed since the change to undo, they fail with a diff, or merge the file
//! line by line on request. `merge` has the three-way merge, `report` the diffs and the faults. Knows nothing of how the
//! journal stores content.

mod merge;
mod report;

use haft_core::sessions::{SeenStatus, ShownLines};
use haft_core::{
    AbsPath, Claims, Context, Effect, Fault, FaultKind, KnownContent, Operation, Preview, Resource, Workspace,
};
use haft_journal::{Entry, EntryState, Journal, JournalError, Label, Merged, Recorded, Side};

use super::change::Current;
use haft_text as text;
use merge::merging;
pub use report::difference;
use report::journal_fault;

/// Sides of the diff of an undo: from the content after a change to the content before it.
const BACK: [Side; 2] = [Side::After, Side::Before];

/// Undoes or redoes changes of the journal.
#[derive(Clone)]
pub struct Undo {
    direction: Direction,
    clash: Clash,
    /// The changes, in the order of their execution.
    entries: Vec<Entry>,
}

/// Whether to undo or to redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Undo changes.
    Undo,
    /// Redo changes that were undone.
    Redo,
}

/// Selection of changes in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The changes with these numbers.
    Numbers(&'a [u64]),
    /// The latest changes, by count, of one session or of all sessions.
    Last(usize, Option<&'a str>),
}

/// Selection of changes in a tool call: by number, or the latest ones of the caller's session.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    /// Numbers of the changes; empty to select the latest ones.
    pub numbers: &'a [u64],
    /// Name of the tool's field for the numbers, for messages.
    pub field: &'static str,
    /// Count of latest changes. Default: 1.
    pub last: Option<usize>,
}

impl Chosen<'_> {
    /// Looks up the selected changes in the journal.
    pub fn find(&self, direction: Direction, clash: Clash, cx: &Context) -> Result<Undo, Fault> {
        let Some(journal) = cx.session().journal() else {
            return Err(Fault::new(FaultKind::Disabled, "this session keeps no journal"));
        };
        let session = cx.session().id().clone();
        let which = match (self.numbers, self.last) {
            ([], last) => Which::Last(last.unwrap_or(1), Some(&session)),
            (numbers, None) => Which::Numbers(numbers),
            _ => return Err(Fault::invalid(format!("give `{}` or `last`, not both", self.field))),
        };
        Undo::find(journal, cx.session_workspace(), &which, direction, clash)
    }

    /// Whether the selection depends on the time of the call, as "the last change" does.
    pub fn is_relative(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Short description of the selection.
    pub fn shown(&self) -> String {
        match self.numbers {
            [] => format!("the last {}", self.last.unwrap_or(1)),
            numbers => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// What undo does with a file that has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Undo nothing, and fail with a diff.
    Refuse,
    /// Keep the later changes if they are in other lines.
    Merge,
}

/// Result of an undo or a redo.
#[derive(Debug)]
pub struct Undone {
    /// Each change, with the number under which the journal recorded its undo or redo.
    pub changes: Vec<(Entry, u64)>,
    /// Diff of the affected files.
    pub diff: String,
    /// Remarks for the model.
    pub notes: Vec<String>,
}

impl Undo {
    /// Looks up changes in the journal.
    pub fn find(
        journal: &Journal,
        workspace: &Workspace,
        which: &Which<'_>,
        direction: Direction,
        clash: Clash,
    ) -> Result<Self, Fault> {
        // A change that a crash interrupted may be the latest one: recovery decides whether it counts.
        journal.recover(workspace)?;
        let mut numbers = match (which, direction) {
            (Which::Numbers(numbers), _) => numbers.to_vec(),
            (Which::Last(count, session), Direction::Undo) => journal.latest(*count, *session)?,
            (Which::Last(count, session), Direction::Redo) => journal.undone(*count, *session)?,
        };
        if let (Which::Last(count, _), have) = (which, numbers.len())
            && have < *count
        {
            let word = if direction == Direction::Undo { "undo" } else { "redo" };
            return Err(match have {
                0 => Fault::new(FaultKind::NotFound, format!("there is nothing to {word}")),
                have => Fault::new(
                    FaultKind::NotFound,
                    format!(
                        "there is no more than {} to {word}, not {count}",
                        text::count_of(have as u64, "change")
                    ),
                ),
            });
        }
        numbers.sort_unstable();
        numbers.dedup();
        if direction == Direction::Undo {
            numbers.reverse();
        }
        let entries = numbers.into_iter().map(|number| journal.entry(number)).collect::<Result<_, _>>()?;
        Ok(Self { direction, clash, entries })
    }

    /// The changes, in the order of their execution.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn places(&self) -> impl Iterator<Item = AbsPath> + '_ {
        self.entries
            .iter()
            .flat_map(|entry| entry.touched.iter().map(|touched| AbsPath::lexical(&touched.path)))
    }

    /// Diff of the files as the undo or redo would change them, as far as the journal kept their content. A dry run: fails
    /// with the fault of the real execution, and changes nothing.
    pub fn preview(&self, journal: &Journal, workspace: &Workspace) -> Result<String, Fault> {
        let mut dry_run = journal.dry_run(workspace);
        let mut diff = String::new();
        for entry in &self.entries {
            let number = entry.number;
            diff.push_str(&match (self.direction, self.clash) {
                (Direction::Redo, _) => {
                    dry_run.redo(number).map_err(|error| journal_fault(error, journal, workspace))?;
                    self.difference(journal, workspace, entry)?
                }
                (Direction::Undo, Clash::Refuse) => {
                    dry_run
                        .undo(number, &Merged::new())
                        .map_err(|error| journal_fault(error, journal, workspace))?;
                    self.difference(journal, workspace, entry)?
                }
                (Direction::Undo, Clash::Merge) => {
                    merging(journal, workspace, entry, |merged| dry_run.undo(number, merged))?.1
                }
            });
        }
        Ok(diff)
    }

    fn difference(
        &self,
        journal: &Journal,
        workspace: &Workspace,
        entry: &Entry,
    ) -> Result<String, JournalError> {
        let sides = match self.direction {
            Direction::Undo => BACK,
            Direction::Redo => [Side::Before, Side::After],
        };
        difference(journal, workspace, entry, sides)
    }

    /// Undoes or redoes the changes.
    pub fn execute(
        &self,
        journal: &Journal,
        workspace: &Workspace,
        label: Label<'_>,
    ) -> Result<Undone, Fault> {
        let (recorded, diff) = match (self.direction, self.clash) {
            (Direction::Undo, Clash::Merge) => self.undo_merging(journal, workspace, label)?,
            (direction, _) => {
                let each = self.entries.iter().map(|entry| self.difference(journal, workspace, entry));
                let diff = each.collect::<Result<String, _>>()?;
                let numbers: Vec<u64> = self.entries.iter().map(|entry| entry.number).collect();
                let recorded = match direction {
                    Direction::Undo => journal.undo(workspace, &numbers, label),
                    Direction::Redo => journal.redo(workspace, &numbers, label),
                };
                (recorded.map_err(|error| journal_fault(error, journal, workspace))?, diff)
            }
        };
        let notes = recorded.iter().flat_map(|recorded| recorded.notes.clone()).collect();
        let by = recorded.iter().map(|recorded| recorded.number);
        Ok(Undone { changes: self.entries.iter().cloned().zip(by).collect(), diff, notes })
    }

    /// Undoes the changes one by one and merges where necessary. If one fails, rolls back those before it: all or nothing.
    fn undo_merging(
        &self,
        journal: &Journal,
        workspace: &Workspace,
        label: Label<'_>,
    ) -> Result<(Vec<Recorded>, String), Fault> {
        let mut done: Vec<Recorded> = Vec::new();
        let mut diff = String::new();
        for entry in &self.entries {
            let attempt = |merged: &Merged| journal.undo_merged(workspace, entry.number, merged, label);
            match merging(journal, workspace, entry, attempt) {
                Ok((recorded, change_diff)) => {
                    done.push(recorded);
                    diff.push_str(&change_diff);
                }
                Err(fault) => {
                    let back: Vec<u64> = done.iter().map(|recorded| recorded.number).collect();
                    if !back.is_empty() {
                        journal.undo(workspace, &back, label)?;
                    }
                    return Err(fault);
                }
            }
        }
        Ok((done, diff))
    }
}

/// What the model knows of a file before an undo changes it.
enum KnownBefore {
    /// Nothing, or another version.
    No,
    /// That it does not exist. The reply of the undo tells that it is back, but not what is in it.
    Missing,
    /// All of it.
    Whole,
    /// Some lines of this content.
    Part(Current),
}

impl KnownBefore {
    fn of(path: &AbsPath, cx: &Context) -> Self {
        match Current::read(path, "", cx) {
            Ok(Some(now)) if cx.session().standing(path, &now.seen()) == SeenStatus::Current => {
                match cx.session().shown_lines(path).is_all() {
                    true => Self::Whole,
                    false => Self::Part(now),
                }
            }
            Ok(None) => Self::Missing,
            _ => Self::No,
        }
    }

    /// What the model knows after the undo.
    fn after(&self, path: &AbsPath, cx: &Context) -> KnownContent {
        let Some(now) = Current::read(path, "", cx).ok().flatten() else { return KnownContent::Gone };
        let lines = match self {
            Self::No => return KnownContent::AsBefore,
            Self::Missing => ShownLines::none(),
            Self::Whole => ShownLines::all(),
            Self::Part(before) => cx.session().shown_lines(path).after_change(&before.bytes, &now.bytes),
        };
        KnownContent::Seen(now.seen().only(lines))
    }
}

impl Operation for Undo {
    type Output = Undone;

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        self.places().fold(Claims::none(), |claims, path| claims.write(Resource::Path(path)))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let Some(journal) = cx.session().journal() else { return Ok(None) };
        for entry in &self.entries {
            let number = entry.number;
            match (self.direction, entry.state) {
                (Direction::Undo, EntryState::Undone(_)) => {
                    return Err(Fault::invalid(format!("change {number} is undone already")));
                }
                (Direction::Redo, EntryState::Done) => {
                    return Err(Fault::invalid(format!(
                        "change {number} is not undone: there is nothing to redo"
                    )));
                }
                _ => {}
            }
        }
        let (journal, cx, this) = (journal.clone(), cx.clone(), self.clone());
        haft_core::blocking(move || Ok(Some(Preview::new(this.preview(&journal, cx.workspace())?)))).await
    }

    async fn run(self, cx: &Context) -> Result<Undone, Fault> {
        let inside = cx.clone();
        cx.commit(move |journal, label| {
            // The model can derive the new content from the diff only if it knew the old one.
            let known: Vec<(AbsPath, KnownBefore)> =
                self.places().map(|path| (path.clone(), KnownBefore::of(&path, &inside))).collect();
            let undone = self.execute(journal, inside.workspace(), label)?;
            for (path, known) in known {
                let now = known.after(&path, &inside);
                inside.effect(Effect::Changed { path, now });
            }
            Ok(undone)
        })
        .await
    }
}
