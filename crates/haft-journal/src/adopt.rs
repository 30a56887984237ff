//! Adopting what a command did: the effects that a recorder found become one entry, which is undone like any other. The old
//! sides are in the recording's folder, beside the segments, until they are part of the journal; a recording whose process
//! died is settled and adopted later. It knows nothing of how the effects were found.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haft_sandbox::sandbox::recorder::{self, Effect, Effects, IsBuildFolder, New, Old, OldContent};
use haft_sandbox::sandbox::trial::{self, Recovered};
use haft_sandbox::{AbsPath, Durability, Hash, Kind, State, Store, Workspace};

use super::archive::Archive;
use super::history::is_temporary;
use super::perform::with_mode;
use super::record::{Digest, Intent, Outcome, Record, Recording, Snapshot, Step, Storage, Text};
use super::{Journal, Label, Recorded, Result, SETTLED, UNFINISHED, now};

/// Folder of recordings.
const RECORDINGS: &str = "recordings";

/// Suffix of a recording that is part of the journal and is being deleted.
const DONE: &str = ".done";

/// Most entries of a new directory that are recorded.
const MAX_ENTRIES: usize = 50_000;

/// A command whose effects are adopted.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Name of the recording's folder: the last part of its path.
    pub recording: &'a str,
    /// The command, as a person would recognise it.
    pub text: &'a str,
}

impl Journal {
    /// A folder for the old sides of one command, to be used as the store of its recorder. It does not exist yet.
    pub fn new_recording(&self) -> PathBuf {
        self.recordings().path(&haft_sandbox::random_id())
    }

    fn recordings(&self) -> Store {
        self.store.folder(RECORDINGS)
    }

    /// Records what a command did, under one number, and removes its recording. `None` if there is nothing to undo.
    pub fn adopt(
        &self,
        workspace: &Workspace,
        command: Command<'_>,
        effects: &Effects,
        label: Label<'_>,
    ) -> Result<Option<Recorded>> {
        let workspace = &workspace.without_focus();
        let mut locked = self.lock(workspace)?;
        let is_adopted = locked.log.entries.values().rev().any(|entry| {
            entry.intent.recording.as_ref().is_some_and(|recording| recording.id == command.recording)
        });
        let mut recorded = None;
        if !is_adopted && !effects.list.is_empty() {
            locked.log.make_room()?;
            let number = locked.log.next();
            let mut adopter = Adopter {
                archive: Archive::new(&mut locked.log),
                workspace,
                blobs: HashMap::new(),
                count: 0,
            };
            let steps = adopter.steps(effects, number);
            let Adopter { archive, blobs, .. } = adopter;
            let (content, more_blobs, mut notes) = (archive.inline, archive.blobs, archive.notes);
            let intent = Intent {
                number,
                time: now(),
                tool: label.tool.to_owned(),
                session: label.session.to_owned(),
                undoes: None,
                steps,
                parents: Vec::new(),
                ordered: true,
                recording: Some(Recording {
                    id: command.recording.to_owned(),
                    command: command.text.to_owned(),
                }),
            };
            let store = locked.log.blobs();
            for (hash, path) in blobs {
                store.take_in(&hash.to_string(), &path)?;
            }
            for (hash, content) in more_blobs {
                super::archive::write_blob(&store, &hash, &content, Durability::Fast)?;
            }
            if label.durability == Durability::Full {
                store.sync_all()?;
            }
            locked.lock.mark(UNFINISHED)?;
            locked.log.append(Record::Intent(intent), &content)?;
            locked.log.record_outcome(number, Outcome::Done)?;
            if label.durability == Durability::Full {
                locked.log.sync_before(None)?;
            }
            if locked.log.unfinished.is_empty() {
                locked.lock.mark(SETTLED)?;
            }
            notes.append(&mut locked.log.notes);
            recorded = Some(Recorded { number, notes });
        }
        drop(locked);
        trial::release(&self.recordings().path(command.recording))?;
        // Renamed first: a half-deleted recording must not be taken for a whole one.
        let done = format!("{}{DONE}", command.recording);
        if self.recordings().has(command.recording)? {
            self.recordings().rename(command.recording, &done)?;
            self.recordings().folder(&done).remove_all_later()?;
        }
        Ok(recorded)
    }

    /// Adopts what commands did whose process died before their effects were recorded.
    pub fn adopt_interrupted(
        &self,
        workspace: &Workspace,
        is_build_folder: &IsBuildFolder,
        label: Label<'_>,
    ) -> Result<Vec<(Recorded, Effects)>> {
        let mut adopted = Vec::new();
        for recording in self.recordings().folders()? {
            if recording.ends_with(DONE) {
                self.recordings().folder(&recording).remove_all()?;
                continue;
            }
            let store = self.recordings().path(&recording);
            let committed = trial::recover(&store)?;
            let effects = match &committed {
                // It is held while it is adopted.
                Recovered::Committed(committed) => committed.effects.clone(),
                Recovered::InUse | Recovered::Discarded => continue,
                Recovered::NotATrial => match recorder::recover(&store, is_build_folder)? {
                    Some(effects) => effects,
                    None => continue,
                },
            };
            let command = Command { recording: &recording, text: "(interrupted)" };
            if let Some(recorded) = self.adopt(workspace, command, &effects, label)? {
                adopted.push((recorded, effects));
            }
            drop(committed);
        }
        Ok(adopted)
    }
}

/// Turns effects into steps.
struct Adopter<'a> {
    archive: Archive<'a>,
    workspace: &'a Workspace,
    /// Kept files that become blobs.
    blobs: HashMap<Hash, PathBuf>,
    count: usize,
}

fn place(path: &Path) -> AbsPath {
    AbsPath::lexical(path)
}

impl Adopter<'_> {
    fn steps(&mut self, effects: &Effects, number: u64) -> Vec<Step> {
        // Where things that are set aside on their way are in the end.
        let moves = effects.list.iter().filter_map(|effect| match effect {
            Effect::Move { from, to } if is_temporary(from) => Some((from.clone(), to.clone())),
            _ => None,
        });
        let ends: HashMap<PathBuf, PathBuf> = moves.collect();
        let id = format!("{number}-{:x}-{:x}", std::process::id(), now());
        let mut steps = Vec::with_capacity(effects.list.len());
        for effect in &effects.list {
            let path = place(effect.path());
            if self.workspace.is_guarded(&path) {
                self.note(&path, "belongs to haft: undo leaves it alone");
                continue;
            }
            match self.step(effect, &ends, &id) {
                Ok(Some(step)) => steps.push(step),
                Ok(None) => {}
                Err(why) => self.note(&path, &format!("is not undone: {why}")),
            }
        }
        steps
    }

    fn note(&mut self, path: &AbsPath, what: &str) {
        let shown = self.workspace.display(path);
        self.archive.notes.push(format!("`{shown}` {what}"));
    }

    fn step(
        &mut self,
        effect: &Effect,
        ends: &HashMap<PathBuf, PathBuf>,
        id: &str,
    ) -> std::result::Result<Option<Step>, String> {
        let state = |path: &Path| self.workspace.state(&place(path)).map_err(|error| error.to_string());
        Ok(Some(match effect {
            Effect::Set { path, before, after } => {
                let before = self.before(before)?;
                let after = match after {
                    New::Missing => Snapshot::Missing,
                    New::At { path, except } => self.after(path, except)?,
                };
                self.count += 1;
                let temp = format!(".haft-{id}-{}.tmp", self.count);
                Step::Set { path: Text::of(path), temp, before, after }
            }
            Effect::Move { from, to } => {
                let end = ends.get(to).unwrap_or(to);
                let what = match state(end)? {
                    State::Directory { .. } => Snapshot::Directory { attributes: None },
                    state => Snapshot::of(&state),
                };
                Step::Move { from: Text::of(from), to: Text::of(to), what }
            }
            Effect::Mode { path, at, before, after } => {
                let what = with_mode(Snapshot::of(&state(at)?), *before);
                Step::Mode { path: Text::of(path), what, before: *before, after: *after }
            }
        }))
    }

    fn before(&mut self, old: &Old) -> std::result::Result<Snapshot, String> {
        Ok(match old {
            Old::Missing => Snapshot::Missing,
            Old::Link { target, attributes } => {
                Snapshot::Link { target: Text::of(target), attributes: attributes.into() }
            }
            Old::Directory { attributes } => Snapshot::Directory { attributes: Some(attributes.into()) },
            Old::File { content, size, attributes, linked } => {
                let (hash, storage) = match content {
                    OldContent::Kept(kept) => self.keep(kept, *size)?,
                    OldContent::Current(path) => match self.workspace.state(&place(path)) {
                        Ok(State::File { hash: Some(hash), .. }) => (hash, Storage::None),
                        _ => return Err("its content could not be read".to_owned()),
                    },
                };
                let linked = linked.as_ref().map(Text::of);
                let attributes = Some(attributes.into());
                Snapshot::File {
                    hash: Some(Digest(hash)),
                    size: *size,
                    storage,
                    mode: None,
                    attributes,
                    linked,
                }
            }
            Old::Tree(entries) => {
                let mut snapshots = Vec::with_capacity(entries.len());
                for (below, old) in entries {
                    match self.before(old) {
                        Ok(snapshot) => snapshots.push((Text::of(below), snapshot)),
                        Err(why) => {
                            self.archive.notes.push(format!("`{}` is not undone: {why}", below.display()))
                        }
                    }
                }
                Snapshot::Tree(snapshots)
            }
        })
    }

    /// Stores kept content: in the record if it is small, as a blob otherwise.
    fn keep(&mut self, kept: &Path, size: u64) -> std::result::Result<(Hash, Storage), String> {
        let failed = |error: std::io::Error| format!("its old content could not be read: {error}");
        if size > self.archive.max_blob() {
            return Err(format!("its old content ({size} bytes) is too large for the journal"));
        }
        let file = recorder::open_kept(kept).map_err(failed)?;
        if size > super::archive::MAX_NEW_CONTENT || !self.archive.has_inline_room(size) {
            let hash = Hash::of_reader(file).map_err(failed)?;
            self.archive.spend(size);
            self.blobs.insert(hash, kept.to_owned());
            return Ok((hash, Storage::Blob));
        }
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, size.saturating_add(1)), &mut content)
            .map_err(failed)?;
        let hash = Hash::of(&content);
        let storage = self.archive.store(&content, &hash).map_err(|error| error.to_string())?;
        Ok((hash, storage))
    }

    /// The state of a path now: by its content where that is small, by size and time otherwise.
    fn after(&mut self, path: &Path, except: &[PathBuf]) -> std::result::Result<Snapshot, String> {
        let root = place(path);
        let mut tree = self.workspace.outline(&root).map_err(|error| error.to_string())?;
        if tree.len() > MAX_ENTRIES {
            return Err(format!("it has {} entries", tree.len()));
        }
        if let [only] = &*tree
            && !matches!(only.state, State::Directory { .. })
        {
            return match only.state.size() <= super::archive::MAX_NEW_CONTENT {
                true => self
                    .workspace
                    .state(&root)
                    .map(|state| Snapshot::of(&state))
                    .map_err(|error| error.to_string()),
                false => Ok(Snapshot::of(&only.state)),
            };
        }
        tree.retain(|entry| !except.iter().any(|gone| path.join(&entry.below).starts_with(gone)));
        if tree.iter().any(|entry| matches!(entry.state, State::Special(Kind::Special(_)))) {
            return Err("it contains a special file".to_owned());
        }
        Ok(Snapshot::Tree(
            tree.iter().map(|entry| (Text::of(&entry.below), Snapshot::of(&entry.state))).collect(),
        ))
    }
}
