//! Performing the steps of a record, in order, and reverting single steps.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor};
use std::path::{Path, PathBuf};

use haft_sandbox::{
    AbsPath, Attributes, ChangeError, Draft, Durability, Hash, Like, State, StoreLock, TempName, TreeEntry,
    Workspace,
};

use super::archive;
use super::log::Log;
use super::patched_file::PatchedFile;
use super::plan::InMemory;
use super::record::{Intent, Snapshot, Step, Storage, Text};
use super::recover::matches_tree;
use super::{Content, JournalError, Result, path_of};

/// Size of the buffer for copying a file.
const COPY_BUFFER: usize = 1 << 20;

/// Makes the record durable; the argument is the file that is synced next, whose flush it may share.
type SyncRecord<'a> = dyn FnMut(Option<&File>) -> io::Result<()> + 'a;

/// The step that failed, and why.
#[derive(Debug)]
pub(super) struct FailedStep {
    pub(super) step: usize,
    pub(super) error: JournalError,
}

/// Where the content of snapshots is read from.
pub(super) struct ContentSource<'a> {
    pub(super) log: &'a Log,
    pub(super) segment: u32,
    pub(super) workspace: &'a Workspace,
    pub(super) new_contents: &'a HashMap<Hash, Content>,
}

/// Performs all steps of a record and returns notes for the user. While the record is being written to the disk, the new
/// files are prepared under temporary names; the first step happens only when both are durable. One thread is enough: the
/// disk writes both at once, and the waits follow one another. `meanwhile` is called once the writes have started.
pub(super) fn perform(
    log: &Log,
    workspace: &Workspace,
    intent: &Intent,
    in_memory: InMemory,
    durability: Durability,
    progress: &Progress<'_>,
    meanwhile: &mut dyn FnMut(),
) -> std::result::Result<Vec<String>, FailedStep> {
    let segment = log.entries.get(&intent.number).map_or(0, |entry| entry.segment);
    let InMemory { contents, stamps, blobs, required_blobs } = in_memory;
    let contents = ContentSource { log, segment, workspace, new_contents: &contents };
    let unusable = |error: io::Error| FailedStep { step: 0, error: error.into() };
    // `sync_record` is called when the first file is being written, so that both can share one flush of the device.
    let prepare_all = |mut sync_record: Option<&mut SyncRecord<'_>>| {
        let mut drafts = Vec::with_capacity(intent.steps.len());
        for (number, step) in intent.steps.iter().enumerate() {
            let failed = |error| FailedStep { step: number, error };
            let mut draft = prepare(&contents, step, durability).map_err(failed)?;
            if let Some(draft) = &mut draft {
                if let Some(sync_record) = sync_record.take() {
                    sync_record(draft.unsynced()).map_err(unusable)?;
                }
                draft.sync().map_err(|error| failed(error.into()))?;
                log.next_is_synced();
                if let Some(stamp) = stamps.get(&number) {
                    draft.recognise(*stamp);
                }
            }
            drafts.push(draft);
        }
        sync_record.map_or(Ok(()), |sync_record| sync_record(None).map_err(unusable))?;
        Ok(drafts)
    };
    let store = log.blobs();
    let write_blobs = || {
        let mut contents = blobs.iter();
        contents.try_for_each(|(hash, content)| archive::write_blob(&store, hash, content, durability))?;
        match durability {
            // An earlier change may have written them without a sync.
            Durability::Full => required_blobs.iter().try_for_each(|hash| store.sync(&hash.to_string())),
            Durability::Fast => Ok(()),
        }
    };
    if intent.ordered {
        if durability == Durability::Full {
            log.start_syncing();
        }
        meanwhile();
        write_blobs().map_err(unusable)?;
        if durability == Durability::Full {
            log.sync_before(None).map_err(unusable)?;
        }
        return perform_in_order(&contents, intent, durability, progress);
    }
    let drafts: Vec<Option<Draft>> = match durability {
        Durability::Fast => {
            meanwhile();
            write_blobs().map_err(unusable)?;
            prepare_all(None)?
        }
        Durability::Full => {
            log.start_syncing();
            prepare_all(Some(&mut |next| {
                meanwhile();
                write_blobs().and_then(|()| log.sync_before(next))
            }))?
        }
    };
    let mut notes = Vec::new();
    for (number, (step, draft)) in intent.steps.iter().zip(drafts).enumerate() {
        let result = apply(workspace, step, draft, durability);
        notes.extend(result.map_err(|error| FailedStep { step: number, error })?);
    }
    Ok(notes)
}

/// How far a change has come whose steps build on each other. It is noted in the lock's file, where it outlives this process.
pub(super) struct Progress<'a> {
    pub(super) lock: &'a StoreLock,
    /// The number of the change.
    pub(super) number: u64,
}

impl Progress<'_> {
    /// Notes how many steps are made.
    pub(super) fn note(&self, made: usize, durability: Durability) -> io::Result<()> {
        let words = [self.number.to_le_bytes(), (made as u64).to_le_bytes()];
        self.lock.note(&words.concat())?;
        match durability {
            Durability::Full => self.lock.sync(),
            Durability::Fast => Ok(()),
        }
    }

    /// How many steps were made, as noted last.
    pub(super) fn made(&self) -> usize {
        let mut words = [0; 16];
        if self.lock.read_note(&mut words).is_err() || words[..8] != self.number.to_le_bytes() {
            return 0;
        }
        let made = words[8..].iter().rev().fold(0, |made: u64, byte| made << 8 | u64::from(*byte));
        usize::try_from(made).unwrap_or(0)
    }
}

/// Most ordered steps that are synced one by one. More of them share one sync at the end: until then a power cut can leave
/// some of them made, which recovery finds out and reports, but the record has both sides.
const MAX_SYNCED: usize = 24;

/// Makes steps that build on each other, one by one.
fn perform_in_order(
    contents: &ContentSource<'_>,
    intent: &Intent,
    durability: Durability,
    progress: &Progress<'_>,
) -> std::result::Result<Vec<String>, FailedStep> {
    let shares_sync = intent.steps.len() > MAX_SYNCED;
    let each = if shares_sync { Durability::Fast } else { durability };
    let mut notes = Vec::new();
    for (number, step) in intent.steps.iter().enumerate() {
        let make = || {
            let mut draft = prepare(contents, step, each)?;
            if let Some(draft) = &mut draft {
                draft.sync()?;
            }
            let note = apply(contents.workspace, step, draft, each)?;
            progress.note(number + 1, each)?;
            Ok(note)
        };
        notes.extend(make().map_err(|error| FailedStep { step: number, error })?);
    }
    if shares_sync && durability == Durability::Full {
        let last = intent.steps.len().saturating_sub(1);
        let synced = contents.workspace.sync_folders();
        synced.map_err(|error| FailedStep { step: last, error: error.into() })?;
    }
    Ok(notes)
}

/// Reverts one step that has been made.
pub(super) fn revert(contents: &ContentSource<'_>, step: &Step) -> Result<()> {
    let back = inverse(step);
    let draft = prepare(contents, &back, Durability::Full)?;
    apply(contents.workspace, &back, draft, Durability::Full).map(drop)
}

/// The step that undoes a step.
fn inverse(step: &Step) -> Step {
    match step.clone() {
        Step::Set { path, temp, before, after } => Step::Set { path, temp, before: after, after: before },
        Step::Move { from, to, what } => Step::Move { from: to, to: from, what },
        Step::Mode { path, what, before, after } => {
            Step::Mode { path, what: with_mode(what, after), before: after, after: before }
        }
    }
}

/// A snapshot with other permission bits.
pub(super) fn with_mode(snapshot: Snapshot, mode: u32) -> Snapshot {
    let mut state = snapshot.state();
    match &mut state {
        State::File { attributes, .. } | State::Directory { attributes } => attributes.mode = mode,
        _ => {}
    }
    Snapshot::of(&state)
}

/// Writes the new file of a step under its temporary name.
fn prepare(contents: &ContentSource<'_>, step: &Step, durability: Durability) -> Result<Option<Draft>> {
    let Step::Set { path, temp, before, after } = step else {
        return Ok(None);
    };
    if *after == Snapshot::Missing {
        return Ok(None);
    }
    let place = path.to_path();
    let mut draft = contents.workspace.draft(&place, before.state(), &temp_name(temp)?, durability)?;
    match after {
        Snapshot::File { linked: Some(other), .. } if contents.holds(other, after) => {
            draft.hard_link(contents.workspace, &other.to_path())?;
        }
        Snapshot::File { attributes, .. } => {
            let attributes = attributes.as_ref().map(Attributes::from);
            let like = attributes.as_ref().map_or(Like::Replaced, Like::Exactly);
            draft.file(contents.open(&place, after, before)?, like)?;
        }
        Snapshot::Link { target, attributes } => draft.link(target.as_os(), &attributes.into())?,
        Snapshot::Directory { attributes } => {
            draft.directory(attributes.as_ref().map(Attributes::from).as_ref())?;
        }
        Snapshot::Tree(entries) => {
            let snapshots: HashMap<PathBuf, &Snapshot> =
                entries.iter().map(|(below, snapshot)| (PathBuf::from(below.as_os()), snapshot)).collect();
            draft.tree(&tree_entries(entries), &mut |below: &Path| {
                let place = AbsPath::lexical(&place.as_path().join(below));
                let snapshot = snapshots.get(below).copied().unwrap_or(&Snapshot::Missing);
                contents.open(&place, snapshot, &Snapshot::Missing).map_err(io::Error::other)
            })?;
        }
        Snapshot::Missing | Snapshot::Special => {}
    }
    Ok(Some(draft))
}

/// Makes a step, whose draft is prepared. Returns a note for the user.
fn apply(
    workspace: &Workspace,
    step: &Step,
    draft: Option<Draft>,
    durability: Durability,
) -> Result<Option<String>> {
    match step {
        Step::Set { path, temp, before, .. } => {
            let place = path.to_path();
            match (draft, before) {
                (Some(draft), _) => {
                    let changed = draft.publish()?;
                    let others = changed.links.saturating_sub(1);
                    return Ok((others > 0).then(|| {
                        let shown = workspace.display(&place);
                        match others {
                            1 => format!("`{shown}` had another hard link, which keeps the old content"),
                            _ => {
                                format!("`{shown}` had {others} other hard links, which keep the old content")
                            }
                        }
                    }));
                }
                (None, Snapshot::Tree(entries)) => {
                    let is_expected = |found: &[TreeEntry]| matches_tree(entries, found);
                    let left = workspace.remove_tree(&place, &is_expected, &temp_name(temp)?, durability)?;
                    return Ok(left.map(|why| format!("not all of it could be removed for good: {why}")));
                }
                (None, _) => workspace.remove(&place, &before.state(), &temp_name(temp)?, durability)?,
            }
        }
        Step::Move { from, to, what } => {
            workspace.rename(&from.to_path(), &to.to_path(), &what.state(), durability)?;
        }
        Step::Mode { path, what, after, .. } => {
            workspace.set_mode(&path.to_path(), &what.state(), *after, durability)?;
        }
    }
    Ok(None)
}

impl ContentSource<'_> {
    /// Opens the content of a file's snapshot, while the file at `place` has the snapshot `other`.
    pub(super) fn open(
        &self,
        place: &AbsPath,
        snapshot: &Snapshot,
        other: &Snapshot,
    ) -> Result<Box<dyn BufRead>> {
        let Snapshot::File { hash, storage, size, .. } = snapshot else {
            return Ok(Box::new(io::empty()));
        };
        if let Storage::Elsewhere(elsewhere) = storage
            && self.holds(elsewhere, snapshot)
        {
            let open = self.workspace.open_file(&elsewhere.to_path()).map_err(ChangeError::from)?;
            return Ok(Box::new(BufReader::with_capacity(COPY_BUFFER, open.file)));
        }
        match hash {
            Some(hash) if let Some(content) = self.new_contents.get(&hash.0) => {
                Ok(Box::new(content.reader()))
            }
            Some(hash) if let Some(parts) = snapshot.delta_to(other) => {
                let open = self.workspace.open_file(place).map_err(ChangeError::from)?;
                let replacements = parts.iter().map(|part| self.log.part(self.segment, part));
                let Some(replacements) = replacements.collect::<io::Result<Option<Vec<_>>>>()? else {
                    return Err(JournalError::NotKept { path: path_of(place), size: *size });
                };
                let patched = PatchedFile::new(open.file, parts, replacements, hash.0);
                Ok(Box::new(BufReader::with_capacity(COPY_BUFFER, patched)))
            }
            Some(hash) => {
                self.read(place, &hash.0, storage, *size).map(|content| Box::new(Cursor::new(content)) as _)
            }
            None => Err(JournalError::NotKept { path: path_of(place), size: *size }),
        }
    }

    /// The content of that hash, from memory or from the log.
    pub(super) fn read(&self, place: &AbsPath, hash: &Hash, storage: &Storage, size: u64) -> Result<Vec<u8>> {
        if let Some(content) = self.new_contents.get(hash) {
            return Ok(content.whole().into());
        }
        let content = self.log.content(self.segment, storage, hash)?;
        content.ok_or_else(|| JournalError::NotKept { path: path_of(place), size })
    }

    /// Whether a path has the content of a snapshot now.
    pub(super) fn holds(&self, place: &Text, snapshot: &Snapshot) -> bool {
        self.workspace.state(&place.to_path()).is_ok_and(|found| found.same_content(&snapshot.state()))
    }
}

pub(super) fn temp_name(temp: &str) -> Result<TempName> {
    TempName::parse(temp).ok_or_else(|| io::Error::other("the record names no temporary file").into())
}

fn tree_entries(entries: &[(Text, Snapshot)]) -> Vec<TreeEntry> {
    let entry = |(below, snapshot): &(Text, Snapshot)| TreeEntry {
        below: PathBuf::from(below.as_os()),
        state: snapshot.state(),
    };
    entries.iter().map(entry).collect()
}
