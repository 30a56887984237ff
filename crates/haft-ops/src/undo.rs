//! Taking changes back, and making them again. A file that has changed since is refused with a diff, or
//! merged where that is asked for and its lines do not clash.

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use haft_core::sessions::SeenStatus;
use haft_core::{
    AbsPath, Claims, Context, Effect, Fault, FaultKind, Hash, KnownContent, Operation, Preview, Resource,
    Workspace,
};
use haft_journal::{
    Conflict, Content, Entry, EntryState, Journal, JournalError, Label, Merged, Recorded, Side,
};

use super::change::Current;
use haft_text::{self as text, Diff, DiffLimits, unified};

/// From what a change left to what was before it.
const BACK: [Side; 2] = [Side::After, Side::Before];

/// Longer parts of files are not merged: it could take very long.
const MAX_MERGED_LINES: usize = 5000;
/// What changes in larger files is not shown.
const MAX_COMPARED: usize = 32 << 20;
/// So many files of one change are shown.
const MAX_SHOWN: usize = 200;

/// Takes changes back, or makes them again.
#[derive(Clone)]
pub struct Undo {
    direction: Direction,
    clash: Clash,
    /// In the order in which they are taken back or made again.
    entries: Vec<Entry>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Changes are taken back.
    Undo,
    /// Changes that were taken back are made again.
    Redo,
}

/// Which changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// These.
    Numbers(&'a [u64]),
    /// So many of the latest, of one session or of all.
    Last(usize, Option<&'a str>),
}

/// Changes as a model asks for them: by their numbers, or so many of the last of its session.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    /// The numbers; empty where the last ones are meant.
    pub numbers: &'a [u64],
    /// What the field with the numbers is called.
    pub field: &'static str,
    /// How many of the last ones.
    pub last: Option<usize>,
}

impl Chosen<'_> {
    /// Looks up the changes.
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

    /// Whether which changes are meant depends on when it is asked.
    pub fn is_relative(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Which they are, in a few words.
    pub fn shown(&self) -> String {
        match self.numbers {
            [] => format!("the last {}", self.last.unwrap_or(1)),
            numbers => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// What becomes of a file that has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Nothing is taken back.
    Refuse,
    /// What changed since is kept, if it is in other lines.
    Merge,
}

/// What was taken back or made again.
#[derive(Debug)]
pub struct Undone {
    /// Each change, and the number under which it was taken back or made again.
    pub changes: Vec<(Entry, u64)>,
    /// What happened to the files.
    pub diff: String,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Undo {
    /// Looks up the changes.
    pub fn find(
        journal: &Journal,
        workspace: &Workspace,
        which: &Which<'_>,
        direction: Direction,
        clash: Clash,
    ) -> Result<Self, Fault> {
        // A change whose end was not recorded may well be the last one.
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

    /// The changes, in the order in which they are taken back or made again.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn places(&self) -> impl Iterator<Item = AbsPath> + '_ {
        self.entries
            .iter()
            .flat_map(|entry| entry.touched.iter().map(|touched| AbsPath::lexical(&touched.path)))
    }

    /// What would happen to the files, as far as their content was kept; or why nothing would, as it would be
    /// told. Nothing is changed.
    pub fn preview(&self, journal: &Journal, workspace: &Workspace) -> Result<String, Fault> {
        let mut rehearsal = journal.dry_run(workspace);
        let mut diff = String::new();
        for entry in &self.entries {
            let number = entry.number;
            diff.push_str(&match (self.direction, self.clash) {
                (Direction::Redo, _) => {
                    rehearsal.redo(number).map_err(|error| told(error, journal, workspace))?;
                    self.difference(journal, workspace, entry)?
                }
                (Direction::Undo, Clash::Refuse) => {
                    rehearsal
                        .undo(number, &Merged::new())
                        .map_err(|error| told(error, journal, workspace))?;
                    self.difference(journal, workspace, entry)?
                }
                (Direction::Undo, Clash::Merge) => {
                    merging(journal, workspace, entry, |merged| rehearsal.undo(number, merged))?.1
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

    /// Does it.
    pub fn execute(
        &self,
        journal: &Journal,
        workspace: &Workspace,
        label: Label<'_>,
    ) -> Result<Undone, Fault> {
        let (recorded, diff) = match (self.direction, self.clash) {
            (Direction::Undo, Clash::Merge) => self.merge(journal, workspace, label)?,
            (direction, _) => {
                let each = self.entries.iter().map(|entry| self.difference(journal, workspace, entry));
                let diff = each.collect::<Result<String, _>>()?;
                let numbers: Vec<u64> = self.entries.iter().map(|entry| entry.number).collect();
                let recorded = match direction {
                    Direction::Undo => journal.undo(workspace, &numbers, label),
                    Direction::Redo => journal.redo(workspace, &numbers, label),
                };
                (recorded.map_err(|error| told(error, journal, workspace))?, diff)
            }
        };
        let notes = recorded.iter().flat_map(|recorded| recorded.notes.clone()).collect();
        let by = recorded.iter().map(|recorded| recorded.number);
        Ok(Undone { changes: self.entries.iter().cloned().zip(by).collect(), diff, notes })
    }

    /// Takes the changes back one by one; if one cannot be, those before it are made again.
    fn merge(
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
                Ok((recorded, made)) => {
                    done.push(recorded);
                    diff.push_str(&made);
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

/// Whether the model knows a file as it is; that there is none, it knows once it is told.
fn is_known(path: &AbsPath, cx: &Context) -> bool {
    match Current::read(path, "", cx) {
        Ok(Some(now)) => cx.session().standing(path, &now.seen()) == SeenStatus::Current,
        Ok(None) => true,
        Err(_) => false,
    }
}

/// What a change did to files, from one side of it to the other.
pub fn difference(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    sides: [Side; 2],
) -> Result<String, JournalError> {
    differences(journal, workspace, entry, sides, &HashMap::new())
}

/// The same, but of some files it is known already.
fn differences(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    [from, to]: [Side; 2],
    known: &HashMap<PathBuf, String>,
) -> Result<String, JournalError> {
    let (old, new) =
        (journal.content(workspace, entry.number, from)?, journal.content(workspace, entry.number, to)?);
    let mut paths: Vec<&PathBuf> = old.iter().chain(&new).map(|(path, _)| path).collect();
    paths.sort();
    paths.dedup();
    let [old, new] = [&old, &new]
        .map(|side| side.iter().map(|(path, content)| (path, content.as_deref())).collect::<HashMap<_, _>>());
    let mut told = String::new();
    for path in paths.iter().take(MAX_SHOWN) {
        if let Some(known) = known.get(*path) {
            told.push_str(known);
            continue;
        }
        let shown = workspace.display(&AbsPath::lexical(path));
        let [old, new] = [&old, &new].map(|side| side.get(path).copied().flatten());
        let name = |content: Option<&[u8]>| if content.is_some() { &*shown } else { "/dev/null" };
        let size = |content: Option<&[u8]>| content.map_or(0, <[u8]>::len);
        if size(old).max(size(new)) > MAX_COMPARED {
            told.push_str(&format!("`{shown}` is too large to show what changes in it\n"));
            continue;
        }
        let diff: Diff = unified(
            text::Side { name: name(old), bytes: old.unwrap_or_default() },
            text::Side { name: name(new), bytes: new.unwrap_or_default() },
            DiffLimits::default(),
        );
        told.push_str(&diff.text);
    }
    if paths.len() > MAX_SHOWN {
        told.push_str(&format!("and {} more files\n", paths.len() - MAX_SHOWN));
    }
    if told.is_empty() && known.is_empty() {
        for touched in &entry.touched {
            let shown = workspace.display(&AbsPath::lexical(&touched.path));
            let (before, after) = match from {
                Side::Before => (&touched.before, &touched.after),
                Side::After => (&touched.after, &touched.before),
            };
            told.push_str(&format!("{shown}: {before} → {after}\n"));
        }
    }
    Ok(told)
}

/// Has one change undone by `attempt`, with files that have changed since merged. Tells what is made of them.
fn merging<T>(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    mut attempt: impl FnMut(&Merged) -> Result<T, JournalError>,
) -> Result<(T, String), Fault> {
    let mut merged = Merged::new();
    let mut diffs = HashMap::new();
    loop {
        let conflict = match attempt(&merged) {
            Ok(done) => return Ok((done, differences(journal, workspace, entry, BACK, &diffs)?)),
            Err(JournalError::Conflict(conflict)) if !merged.contains_key(&conflict.path) => conflict,
            Err(error) => return Err(told(error, journal, workspace)),
        };
        let before = kept_before(journal, workspace, &conflict)?;
        let (Some(base), Some(now), Some(before)) =
            (&conflict.recorded_content, &conflict.found_content, before)
        else {
            return Err(clash(&conflict, workspace).hint("only files whose content was kept can be merged"));
        };
        let made = merge_lines(base, now, &before)
            .map_err(|unmerged| clash(&conflict, workspace).hint(unmerged.to_string()))?;
        let shown = workspace.display(&AbsPath::lexical(&conflict.path));
        let side = |bytes| text::Side { name: &shown, bytes };
        diffs.insert(conflict.path.clone(), unified(side(now), side(&made), DiffLimits::default()).text);
        merged.insert(conflict.path.clone(), (Hash::of(now), spliced(now, &made)));
    }
}

/// Why contents are not merged.
#[derive(Debug, thiserror::Error)]
enum Unmerged {
    #[error(
        "changes that are more than {MAX_MERGED_LINES} lines apart are not merged; edit the file instead"
    )]
    TooLong,
    #[error("the same lines were changed since, so this cannot be merged; edit the file instead")]
    SameLines,
}

/// Makes of `base`, which became `now`, what it is with `other` taken into account. Lines that all three
/// begin and end with are not compared, so a large file costs what differs in it.
fn merge_lines(base: &[u8], now: &[u8], other: &[u8]) -> Result<Vec<u8>, Unmerged> {
    let all = [base, now, other];
    let head = common(now, base).min(common(now, other));
    let head = memchr::memrchr(b'\n', &now[..head]).map_or(0, |at| at + 1);
    let [base, now_rest, other] = all.map(|content| &content[head..]);
    let tail = common_end(now_rest, base).min(common_end(now_rest, other));
    let end = &now_rest[now_rest.len() - tail..];
    // The end begins after a line that is whole in each of them.
    let tail = memchr::memchr(b'\n', end).map_or(0, |at| tail - at - 1);
    let [base, now_rest, other] = [base, now_rest, other].map(|content| &content[..content.len() - tail]);
    let lines = |content: &[u8]| memchr::memchr_iter(b'\n', content).count();
    if [base, now_rest, other].into_iter().any(|content| lines(content) > MAX_MERGED_LINES) {
        return Err(Unmerged::TooLong);
    }
    let middle = diffy::merge_bytes(base, now_rest, other).map_err(|_| Unmerged::SameLines)?;
    Ok([&now[..head], &middle, &now[now.len() - tail..]].concat())
}

/// How many bytes two contents begin with together.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

fn common_end(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// Content as what differs from what is there now.
fn spliced(now: &[u8], made: &[u8]) -> Content {
    let head = common(now, made);
    let tail = common_end(&now[head..], &made[head..]);
    let new = Bytes::copy_from_slice(&made[head..made.len() - tail]);
    Content::spliced(&Bytes::copy_from_slice(now), vec![(head..now.len() - tail, new)])
}

/// A failure, with a diff where a file has changed since.
fn told(error: JournalError, journal: &Journal, workspace: &Workspace) -> Fault {
    match error {
        JournalError::Conflict(conflict) => {
            let mergeable = conflict.recorded_content.is_some()
                && conflict.found_content.is_some()
                && kept_before(journal, workspace, &conflict).is_ok_and(|before| before.is_some());
            clash(&conflict, workspace).hint(match mergeable {
                true => "nothing was undone; undo the later changes too, or keep them with `merge`",
                false => "nothing was undone; undo what was done to it since, or make the change by hand",
            })
        }
        error => error.into(),
    }
}

/// What a file was before the change that is to be undone, if it was kept.
fn kept_before(
    journal: &Journal,
    workspace: &Workspace,
    conflict: &Conflict,
) -> Result<Option<Vec<u8>>, JournalError> {
    let before = journal.content(workspace, conflict.number, Side::Before)?;
    Ok(before.into_iter().find(|(path, _)| *path == conflict.path).and_then(|(_, content)| content))
}

fn clash(conflict: &Conflict, workspace: &Workspace) -> Fault {
    let shown = workspace.display(&AbsPath::lexical(&conflict.path));
    let fault = |message| Fault::new(FaultKind::Conflict, message).at(&shown).with("change", conflict.number);
    let (Some(was), Some(is)) = (&conflict.recorded_content, &conflict.found_content) else {
        let Conflict { number, recorded, found, .. } = conflict;
        return fault(format!(
            "`{shown}` has changed since change {number}: it left {recorded}, now there is {found}"
        ));
    };
    if was == is {
        let Conflict { number, recorded, found, .. } = conflict;
        return fault(format!(
            "`{shown}` has the content that change {number} left, but not its attributes: it left {recorded}, now there is {found}"
        ));
    }
    let side = |bytes| text::Side { name: &shown, bytes };
    let diff = unified(side(was), side(is), DiffLimits::default());
    let message = format!(
        "`{shown}` has changed since change {}; what changed:\n{}",
        conflict.number,
        diff.text.trim_end()
    );
    fault(message).with("diff", diff.text)
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
            // What the model knew of a file it knows afterwards, too; what it did not know it does not.
            let known: Vec<(AbsPath, bool)> =
                self.places().map(|path| (path.clone(), is_known(&path, &inside))).collect();
            let undone = self.execute(journal, inside.workspace(), label)?;
            for (path, known) in known {
                let now = match Current::read(&path, "", &inside).ok().flatten() {
                    None => KnownContent::Gone,
                    Some(now) if known => KnownContent::Seen(now.seen()),
                    Some(_) => KnownContent::AsBefore,
                };
                inside.effect(Effect::Changed { path, now });
            }
            Ok(undone)
        })
        .await
    }
}
