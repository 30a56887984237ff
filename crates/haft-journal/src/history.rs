//! The history: entries of the journal and the content before and after them. It changes nothing.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use haft_sandbox::Workspace;

use super::log::{Log, LogEntry};
use super::record::{Outcome, Snapshot, Step};
use super::{Journal, JournalError, Result, archive, path_of};

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// When it was made.
    pub time: SystemTime,
    /// The tool that made it.
    pub tool: String,
    /// The session that made it.
    pub session: String,
    /// The command that made it, if it is what a command did.
    pub command: Option<String>,
    /// The change that this one undid.
    pub undoes: Option<u64>,
    /// Its state.
    pub state: EntryState,
    /// The paths that it changed.
    pub touched: Vec<Touched>,
}

/// The state of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It was made and is in force.
    Done,
    /// It was undone by this number.
    Undone(u64),
    /// It failed or was interrupted, and was rolled back.
    NotApplied,
    /// It was interrupted and another program has changed its files since; how far it came is unknown.
    External,
    /// It was interrupted, and its folder has not been opened since.
    Open,
}

/// One path of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The path.
    pub path: PathBuf,
    /// Its state before, in words.
    pub before: String,
    /// Its state after, in words.
    pub after: String,
    /// Size before, in bytes.
    pub size_before: u64,
    /// Size after, in bytes.
    pub size_after: u64,
}

/// One side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The state before it.
    Before,
    /// The state after it.
    After,
}

impl Journal {
    /// The latest changes, the newest first.
    pub fn history(&self, limit: usize) -> Result<Vec<Entry>> {
        let mut locked = self.lock_without_recovery()?;
        while locked.log.entries.len() < limit && locked.log.read_older()? {}
        let latest = locked.log.entries.values().rev().take(limit);
        Ok(latest.map(|logged| entry(&locked.log, logged)).collect())
    }

    /// The entry of a number.
    pub fn entry(&self, number: u64) -> Result<Entry> {
        let mut locked = self.lock_without_recovery()?;
        locked.log.read_back_to(number)?;
        match locked.log.entries.get(&number) {
            Some(logged) => Ok(entry(&locked.log, logged)),
            None => Err(JournalError::Unknown(number, locked.log.oldest())),
        }
    }

    /// The latest changes in force that are not undos themselves, the newest first: those that "undo the last changes"
    /// means. With a session, only changes of that session.
    pub fn latest(&self, count: usize, session: Option<&str>) -> Result<Vec<u64>> {
        let mut locked = self.lock_without_recovery()?;
        loop {
            let log = &locked.log;
            let is_in_force = |entry: &&LogEntry| {
                entry.outcome == Some(Outcome::Done)
                    && entry.intent.undoes.is_none()
                    && session.is_none_or(|session| entry.intent.session == session)
                    && log.active_undo(entry.intent.number).is_none()
            };
            let latest = log.entries.values().rev().filter(is_in_force).take(count);
            let latest: Vec<u64> = latest.map(|entry| entry.intent.number).collect();
            if latest.len() == count || !locked.log.read_older()? {
                return Ok(latest);
            }
        }
    }

    /// The latest undone changes, those undone last first. With a session, only changes that this session undid.
    pub fn undone(&self, count: usize, session: Option<&str>) -> Result<Vec<u64>> {
        let mut locked = self.lock_without_recovery()?;
        loop {
            let log = &locked.log;
            let undos = log.entries.values().rev().filter(|entry| {
                let is_active = |undone| log.active_undo(undone) == Some(entry.intent.number);
                entry.intent.undoes.is_some_and(is_active)
                    && session.is_none_or(|session| entry.intent.session == session)
            });
            let (mut changes, mut is_incomplete) = (Vec::new(), false);
            for number in undos.filter_map(|entry| entry.intent.undoes) {
                match log.entries.get(&number) {
                    Some(entry) if entry.intent.undoes.is_none() => changes.push(number),
                    Some(_) => {}
                    // An entry that is not indexed yet may be an undo itself.
                    None => is_incomplete |= number >= log.oldest(),
                }
                if changes.len() == count {
                    break;
                }
            }
            if (changes.len() == count && !is_incomplete) || !locked.log.read_older()? {
                return Ok(changes);
            }
        }
    }

    /// The content of each file of a change, before or after it. `None` where there was no file, or where the content was not
    /// stored and the file has changed since.
    pub fn content(
        &self,
        workspace: &Workspace,
        number: u64,
        side: Side,
    ) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
        let mut locked = self.lock_without_recovery()?;
        locked.log.read_back_to(number)?;
        let contents = contents(&locked.log, workspace, number, side)?;
        match contents.iter().any(|(_, content)| content.is_none()) && locked.log.read_all()? {
            true => self::contents(&locked.log, workspace, number, side),
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
    let Some(entry) = log.entries.get(&number) else {
        return Err(JournalError::Unknown(number, log.oldest()));
    };
    let mut contents = Vec::new();
    for step in &entry.intent.steps {
        let (path, snapshot) = match (step, side) {
            (Step::Set { path, before, .. }, Side::Before) => (path, before),
            (Step::Set { path, after, .. }, Side::After) => (path, after),
            (Step::Move { from, what, .. }, Side::Before) => (from, what),
            (Step::Move { to, what, .. }, Side::After) => (to, what),
            (Step::Mode { path, what, .. }, _) => (path, what),
        };
        collect(log, entry, workspace, &path.to_path(), snapshot, &mut contents)?;
    }
    Ok(contents)
}

fn collect(
    log: &Log,
    entry: &LogEntry,
    workspace: &Workspace,
    place: &haft_sandbox::AbsPath,
    snapshot: &Snapshot,
    contents: &mut Vec<(PathBuf, Option<Vec<u8>>)>,
) -> Result<()> {
    match snapshot {
        Snapshot::File { hash: Some(hash), storage, size, .. } => {
            let mut content = None;
            if *size <= archive::MAX_SHOWN {
                content = log.content(entry.segment, storage, &hash.0)?;
                if content.is_none() {
                    content = log.rebuild(&hash.0, archive::read_current(workspace, place).as_ref())?;
                }
            }
            contents.push((path_of(place), content));
        }
        Snapshot::Tree(entries) => {
            for (below, snapshot) in entries {
                let place = haft_sandbox::AbsPath::lexical(&place.as_path().join(below.as_os()));
                if matches!(snapshot, Snapshot::File { .. }) {
                    collect(log, entry, workspace, &place, snapshot, contents)?;
                }
            }
        }
        _ => contents.push((path_of(place), None)),
    }
    Ok(())
}

fn entry(log: &Log, logged: &LogEntry) -> Entry {
    let intent = &logged.intent;
    let state = match logged.outcome {
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
        command: intent.recording.as_ref().map(|recording| recording.command.clone()),
        undoes: intent.undoes,
        state,
        touched: intent
            .steps
            .iter()
            .flat_map(touched)
            .filter(|touched| !is_temporary(&touched.path))
            .collect(),
    }
}

fn touched(step: &Step) -> Vec<Touched> {
    let one = |path: &super::record::Text, before: &Snapshot, after: &Snapshot| Touched {
        path: path_of(&path.to_path()),
        before: describe(before),
        after: describe(after),
        size_before: before.size(),
        size_after: after.size(),
    };
    match step {
        Step::Set { path, before, after, .. } => vec![one(path, before, after)],
        Step::Move { from, to, what } => {
            vec![one(from, what, &Snapshot::Missing), one(to, &Snapshot::Missing, what)]
        }
        Step::Mode { path, what, before, after } => {
            let mut touched = one(path, what, what);
            touched.before = format!("{} (mode {before:o})", touched.before);
            touched.after = format!("{} (mode {after:o})", touched.after);
            vec![touched]
        }
    }
}

/// Whether something was only set aside there, on the way to another path.
pub(super) fn is_temporary(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| haft_sandbox::TempName::parse(name).is_some())
}

fn describe(snapshot: &Snapshot) -> String {
    match snapshot {
        Snapshot::Tree(entries) => format!("a directory with {} entries", entries.len().saturating_sub(1)),
        other => other.state().describe(),
    }
}
