//! Performing the steps of a record, one by one, and taking single steps back.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor};
use std::path::{Path, PathBuf};

use haft_sandbox::{
    AbsPath, Attributes, ChangeError, Draft, Durability, Hash, Like, State, TempName, TreeEntry, Workspace,
};

use super::keep;
use super::log::Log;
use super::plan::AtHand;
use super::record::{Intent, Kept, Shape, Step, Text};
use super::recover::fits_tree;
use super::splice::Spliced;
use super::{Content, JournalError, Result, path_of};

/// How much of a file is copied at a time.
const COPIED: usize = 1 << 20;

/// What is waited for before a file is, if there is one that is synced next.
type Wait<'a> = dyn FnMut(Option<&File>) -> io::Result<()> + 'a;

/// Which step failed, and why.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) step: usize,
    pub(super) error: JournalError,
}

/// Where content comes from.
pub(super) struct Contents<'a> {
    pub(super) log: &'a Log,
    pub(super) segment: u32,
    pub(super) workspace: &'a Workspace,
    pub(super) fresh: &'a HashMap<Hash, Content>,
}

/// Performs everything that was recorded. While the record is on its way to the disk, what is new is
/// prepared; only when both are there does the first step happen. They are waited for one after the other: the disk
/// does both at once, and another thread would be there no sooner. Once it has begun, `meanwhile` is done. Gives what
/// the user should hear about.
pub(super) fn perform(
    log: &Log,
    workspace: &Workspace,
    intent: &Intent,
    at_hand: AtHand,
    durability: Durability,
    meanwhile: &mut dyn FnMut(),
) -> std::result::Result<Vec<String>, Failed> {
    let segment = log.known.get(&intent.number).map_or(0, |known| known.segment);
    let AtHand { contents, stamps, blobs, relied } = at_hand;
    let contents = Contents { log, segment, workspace, fresh: &contents };
    let unusable = |error: io::Error| Failed { step: 0, error: error.into() };
    // What is to be waited for is done when the first file is on its way to the disk, and before it is there.
    let prepare_all = |mut waited: Option<&mut Wait<'_>>| {
        let mut drafts = Vec::with_capacity(intent.steps.len());
        for (number, step) in intent.steps.iter().enumerate() {
            let failed = |error| Failed { step: number, error };
            let mut draft = prepare(&contents, step, durability).map_err(failed)?;
            if let Some(draft) = &mut draft {
                if let Some(wait) = waited.take() {
                    wait(draft.unsynced()).map_err(unusable)?;
                }
                draft.sync().map_err(|error| failed(error.into()))?;
                log.next_is_synced();
                if let Some(stamp) = stamps.get(&number) {
                    draft.recognise(*stamp);
                }
            }
            drafts.push(draft);
        }
        waited.map_or(Ok(()), |wait| wait(None).map_err(unusable))?;
        Ok(drafts)
    };
    let store = log.blobs();
    let keep_all = || {
        let mut contents = blobs.iter();
        contents.try_for_each(|(hash, content)| keep::write_blob(&store, hash, content, durability))?;
        match durability {
            // What was written without waiting for the disk is waited for now.
            Durability::Full => relied.iter().try_for_each(|hash| store.sync(&hash.to_string())),
            Durability::Fast => Ok(()),
        }
    };
    let drafts: Vec<Option<Draft>> = match durability {
        Durability::Fast => {
            meanwhile();
            keep_all().map_err(unusable)?;
            prepare_all(None)?
        }
        Durability::Full => {
            log.start_syncing();
            prepare_all(Some(&mut |next| {
                meanwhile();
                keep_all().and_then(|()| log.sync_before(next))
            }))?
        }
    };
    let mut notes = Vec::new();
    for (number, (step, draft)) in intent.steps.iter().zip(drafts).enumerate() {
        let done = complete(workspace, step, draft, durability);
        notes.extend(done.map_err(|error| Failed { step: number, error })?);
    }
    Ok(notes)
}

/// Takes one step back that has been made.
pub(super) fn revert(contents: &Contents<'_>, step: &Step) -> Result<()> {
    let back = inverse(step);
    let draft = prepare(contents, &back, Durability::Full)?;
    complete(contents.workspace, &back, draft, Durability::Full).map(drop)
}

/// The step that leads back.
fn inverse(step: &Step) -> Step {
    match step.clone() {
        Step::Set { path, temp, before, after } => Step::Set { path, temp, before: after, after: before },
        Step::Move { from, to, what } => Step::Move { from: to, to: from, what },
        Step::Mode { path, what, before, after } => {
            Step::Mode { path, what: with_mode(what, after), before: after, after: before }
        }
    }
}

/// The shape with other permission bits.
pub(super) fn with_mode(shape: Shape, mode: u32) -> Shape {
    let mut state = shape.state();
    match &mut state {
        State::File { attributes, .. } | State::Directory { attributes } => attributes.mode = mode,
        _ => {}
    }
    Shape::of(&state)
}

/// Prepares what a step puts in place.
fn prepare(contents: &Contents<'_>, step: &Step, durability: Durability) -> Result<Option<Draft>> {
    let Step::Set { path, temp, before, after } = step else {
        return Ok(None);
    };
    if *after == Shape::Missing {
        return Ok(None);
    }
    let place = path.place();
    let mut draft = contents.workspace.draft(&place, before.state(), &temp_name(temp)?, durability)?;
    match after {
        Shape::File { attributes, .. } => {
            let attributes = attributes.as_ref().map(Attributes::from);
            let like = attributes.as_ref().map_or(Like::Replaced, Like::Exactly);
            draft.file(contents.open(&place, after, before)?, like)?;
        }
        Shape::Link { target, attributes } => draft.link(target.as_os(), &attributes.into())?,
        Shape::Directory { attributes } => {
            draft.directory(attributes.as_ref().map(Attributes::from).as_ref())?;
        }
        Shape::Tree(entries) => {
            let shapes: HashMap<PathBuf, &Shape> =
                entries.iter().map(|(below, shape)| (PathBuf::from(below.as_os()), shape)).collect();
            draft.tree(&tree_entries(entries), &mut |below: &Path| {
                let place = AbsPath::lexical(&place.as_path().join(below));
                let shape = shapes.get(below).copied().unwrap_or(&Shape::Missing);
                contents.open(&place, shape, &Shape::Missing).map_err(io::Error::other)
            })?;
        }
        Shape::Missing | Shape::Special => {}
    }
    Ok(Some(draft))
}

/// Makes a step whose draft is ready.
fn complete(
    workspace: &Workspace,
    step: &Step,
    draft: Option<Draft>,
    durability: Durability,
) -> Result<Option<String>> {
    match step {
        Step::Set { path, temp, before, .. } => {
            let place = path.place();
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
                (None, Shape::Tree(entries)) => {
                    let is_expected = |found: &[TreeEntry]| fits_tree(entries, found);
                    let left = workspace.remove_tree(&place, &is_expected, &temp_name(temp)?, durability)?;
                    return Ok(left.map(|why| format!("not all of it could be removed for good: {why}")));
                }
                (None, _) => workspace.remove(&place, &before.state(), &temp_name(temp)?, durability)?,
            }
        }
        Step::Move { from, to, what } => {
            workspace.rename(&from.place(), &to.place(), &what.state(), durability)?;
        }
        Step::Mode { path, what, after, .. } => {
            workspace.set_mode(&path.place(), &what.state(), *after, durability)?;
        }
    }
    Ok(None)
}

impl Contents<'_> {
    /// Opens the content of a file's shape, where another is in place.
    pub(super) fn open(&self, place: &AbsPath, shape: &Shape, other: &Shape) -> Result<Box<dyn BufRead>> {
        let Shape::File { hash, kept, size, .. } = shape else {
            return Ok(Box::new(io::empty()));
        };
        if let Kept::At(elsewhere) = kept
            && self.holds(elsewhere, shape)
        {
            let open = self.workspace.open_file(&elsewhere.place()).map_err(ChangeError::from)?;
            return Ok(Box::new(BufReader::with_capacity(COPIED, open.file)));
        }
        match hash {
            Some(hash) if let Some(fresh) = self.fresh.get(&hash.0) => Ok(Box::new(fresh.reader())),
            Some(hash) if let Some(parts) = shape.differs_from(other) => {
                let open = self.workspace.open_file(place).map_err(ChangeError::from)?;
                let news = parts.iter().map(|part| self.log.part(self.segment, part));
                let Some(news) = news.collect::<io::Result<Option<Vec<_>>>>()? else {
                    return Err(JournalError::NotKept { path: path_of(place), size: *size });
                };
                let spliced = Spliced::new(open.file, parts, news, hash.0);
                Ok(Box::new(BufReader::with_capacity(COPIED, spliced)))
            }
            Some(hash) => {
                self.read(place, &hash.0, kept, *size).map(|content| Box::new(Cursor::new(content)) as _)
            }
            None => Err(JournalError::NotKept { path: path_of(place), size: *size }),
        }
    }

    /// The content of that hash.
    pub(super) fn read(&self, place: &AbsPath, hash: &Hash, kept: &Kept, size: u64) -> Result<Vec<u8>> {
        if let Some(content) = self.fresh.get(hash) {
            return Ok(content.whole().into());
        }
        let kept = self.log.content(self.segment, kept, hash)?;
        kept.ok_or_else(|| JournalError::NotKept { path: path_of(place), size })
    }

    /// Whether a place holds the content of a shape now.
    pub(super) fn holds(&self, place: &Text, shape: &Shape) -> bool {
        self.workspace.state(&place.place()).is_ok_and(|found| found.same_content(&shape.state()))
    }
}

pub(super) fn temp_name(temp: &str) -> Result<TempName> {
    TempName::parse(temp).ok_or_else(|| io::Error::other("the record names no temporary file").into())
}

fn tree_entries(entries: &[(Text, Shape)]) -> Vec<TreeEntry> {
    let entry = |(below, shape): &(Text, Shape)| TreeEntry {
        below: PathBuf::from(below.as_os()),
        state: shape.state(),
    };
    entries.iter().map(entry).collect()
}
