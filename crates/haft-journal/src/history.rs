//! Looking back: what was changed, by whom, and what it was before.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use haft_sandbox::Workspace;

use super::log::{Known, Log};
use super::record::{Outcome, Shape, Step};
use super::{Journal, JournalError, Result, keep, path_of};

/// One number of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number.
    pub number: u64,
    /// When it was made.
    pub time: SystemTime,
    /// The tool that made it.
    pub tool: String,
    /// The session that made it.
    pub session: String,
    /// The change that this one undid.
    pub undoes: Option<u64>,
    /// What became of it.
    pub state: EntryState,
    /// The places that it concerns.
    pub touched: Vec<Touched>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It was made and stands.
    Done,
    /// It was made and then undone, by this number.
    Undone(u64),
    /// It failed or was interrupted, and nothing of it is left.
    NotApplied,
    /// It was interrupted and somebody else has changed its files since; it is unknown how far it came.
    External,
    /// It was interrupted and concerns a folder that has not been opened since.
    Open,
}

/// One place that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The place.
    pub path: PathBuf,
    /// What was there before, in words.
    pub before: String,
    /// What was there after, in words.
    pub after: String,
    /// Bytes of content before.
    pub size_before: u64,
    /// Bytes of content after.
    pub size_after: u64,
}

/// One side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before it.
    Before,
    /// After it.
    After,
}

impl Journal {
    /// The latest changes, the newest first.
    pub fn history(&self, limit: usize) -> Result<Vec<Entry>> {
        let mut held = self.hold_as_is()?;
        while held.log.known.len() < limit && held.log.read_older()? {}
        let latest = held.log.known.values().rev().take(limit);
        Ok(latest.map(|known| entry(&held.log, known)).collect())
    }

    /// One number of the journal.
    pub fn entry(&self, number: u64) -> Result<Entry> {
        let mut held = self.hold_as_is()?;
        held.log.reach(number)?;
        match held.log.known.get(&number) {
            Some(known) => Ok(entry(&held.log, known)),
            None => Err(JournalError::Unknown(number, held.log.oldest())),
        }
    }

    /// The latest changes that stand and are themselves no undo, the newest first: what "undo the last
    /// changes" means. With a session, only its changes count.
    pub fn latest(&self, count: usize, session: Option<&str>) -> Result<Vec<u64>> {
        let mut held = self.hold_as_is()?;
        loop {
            let log = &held.log;
            let stands = |known: &&Known| {
                known.outcome == Some(Outcome::Done)
                    && known.intent.undoes.is_none()
                    && session.is_none_or(|session| known.intent.session == session)
                    && log.active_undo(known.intent.number).is_none()
            };
            let latest = log.known.values().rev().filter(stands).take(count);
            let latest: Vec<u64> = latest.map(|known| known.intent.number).collect();
            if latest.len() == count || !held.log.read_older()? {
                return Ok(latest);
            }
        }
    }

    /// The latest changes that are undone, in the order in which they were undone, the last one first. With
    /// a session, only what it undid itself counts.
    pub fn undone(&self, count: usize, session: Option<&str>) -> Result<Vec<u64>> {
        let mut held = self.hold_as_is()?;
        loop {
            let log = &held.log;
            let undoing = log.known.values().rev().filter(|known| {
                let is_active = |undone| log.active_undo(undone) == Some(known.intent.number);
                known.intent.undoes.is_some_and(is_active)
                    && session.is_none_or(|session| known.intent.session == session)
            });
            let (mut changes, mut missed) = (Vec::new(), false);
            for number in undoing.filter_map(|known| known.intent.undoes) {
                match log.known.get(&number) {
                    Some(known) if known.intent.undoes.is_none() => changes.push(number),
                    Some(_) => {}
                    // What is not read may be an undo itself.
                    None => missed |= number >= log.oldest(),
                }
                if changes.len() == count {
                    break;
                }
            }
            if (changes.len() == count && !missed) || !held.log.read_older()? {
                return Ok(changes);
            }
        }
    }

    /// The content of each file that a change concerns, on one side of it, to show what it did. There is
    /// none where there was no file, or where the content was not kept and is no longer there.
    pub fn content(
        &self,
        workspace: &Workspace,
        number: u64,
        side: Side,
    ) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
        let mut held = self.hold_as_is()?;
        held.log.reach(number)?;
        let contents = contents(&held.log, workspace, number, side)?;
        match contents.iter().any(|(_, content)| content.is_none()) && held.log.read_all()? {
            true => self::contents(&held.log, workspace, number, side),
            false => Ok(contents),
        }
    }
}

fn contents(
    log: &Log,
    workspace: &Workspace,
    number: u64,
    side: Side,
) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
    let Some(known) = log.known.get(&number) else {
        return Err(JournalError::Unknown(number, log.oldest()));
    };
    let mut contents = Vec::new();
    for step in &known.intent.steps {
        let (path, shape) = match (step, side) {
            (Step::Set { path, before, .. }, Side::Before) => (path, before),
            (Step::Set { path, after, .. }, Side::After) => (path, after),
            (Step::Move { from, what, .. }, Side::Before) => (from, what),
            (Step::Move { to, what, .. }, Side::After) => (to, what),
            (Step::Mode { path, what, .. }, _) => (path, what),
        };
        gather(log, known, workspace, &path.place(), shape, &mut contents)?;
    }
    Ok(contents)
}

fn gather(
    log: &Log,
    known: &Known,
    workspace: &Workspace,
    place: &haft_sandbox::AbsPath,
    shape: &Shape,
    contents: &mut Vec<(PathBuf, Option<Vec<u8>>)>,
) -> Result<()> {
    match shape {
        Shape::File { hash: Some(hash), kept, size, .. } => {
            let mut content = None;
            if *size <= keep::SHOWN {
                content = log.content(known.segment, kept, &hash.0)?;
                if content.is_none() {
                    content = log.rebuilt(&hash.0, keep::in_place(workspace, place).as_ref())?;
                }
            }
            contents.push((path_of(place), content));
        }
        Shape::Tree(entries) => {
            for (below, shape) in entries {
                let place = haft_sandbox::AbsPath::lexical(&place.as_path().join(below.as_os()));
                if matches!(shape, Shape::File { .. }) {
                    gather(log, known, workspace, &place, shape, contents)?;
                }
            }
        }
        _ => contents.push((path_of(place), None)),
    }
    Ok(())
}

fn entry(log: &Log, known: &Known) -> Entry {
    let intent = &known.intent;
    let state = match known.outcome {
        None => EntryState::Open,
        Some(Outcome::NotApplied) => EntryState::NotApplied,
        Some(Outcome::External) => EntryState::External,
        Some(Outcome::Done) => match log.active_undo(intent.number) {
            Some(by) => EntryState::Undone(by),
            None => EntryState::Done,
        },
    };
    Entry {
        number: intent.number,
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(intent.time),
        tool: intent.tool.clone(),
        session: intent.session.clone(),
        undoes: intent.undoes,
        state,
        touched: intent.steps.iter().flat_map(touched).collect(),
    }
}

fn touched(step: &Step) -> Vec<Touched> {
    let one = |path: &super::record::Text, before: &Shape, after: &Shape| Touched {
        path: path_of(&path.place()),
        before: describe(before),
        after: describe(after),
        size_before: before.size(),
        size_after: after.size(),
    };
    match step {
        Step::Set { path, before, after, .. } => vec![one(path, before, after)],
        Step::Move { from, to, what } => {
            vec![one(from, what, &Shape::Missing), one(to, &Shape::Missing, what)]
        }
        Step::Mode { path, what, before, after } => {
            let mut touched = one(path, what, what);
            touched.before = format!("{} (mode {before:o})", touched.before);
            touched.after = format!("{} (mode {after:o})", touched.after);
            vec![touched]
        }
    }
}

fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Tree(entries) => format!("a directory with {} entries", entries.len().saturating_sub(1)),
        other => other.state().describe(),
    }
}
