//! What a command changes in the workspace: recorded while it runs, and made one entry of the journal when it has ended, so
//! that it is undone like an edit. Knows nothing of how changes are recorded.

use std::path::{Path, PathBuf};

use haft_core::{AbsPath, Context};
use haft_journal as journal;
use haft_sandbox::sandbox::recorder::{Effect, Effects, New, Old, Options};
use haft_sandbox::sandbox::{CommandEnd, Layers, Policy};

/// Most files that a result lists.
pub(super) const MAX_LISTED: usize = 100;
/// Most files that cannot be undone and are named in notes.
const MAX_NOTES: usize = 5;
/// Most characters of a command that the journal keeps.
pub(super) const MAX_TEXT: usize = 500;
/// Name of a repository's folder: what git keeps there is listed as one.
const GIT: &str = ".git";

/// What a command changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandChanges {
    /// The number of its entry in the journal, if there is something to undo.
    pub number: Option<u64>,
    /// The files that it changed: the first ones.
    pub files: Vec<FileChange>,
    /// How many it changed.
    pub total: usize,
}

/// A file that a command changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path, as the model writes it; the new one after a move.
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Its old path after a move.
    pub from: Option<String>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is gone.
    Deleted,
    /// Its content, kind or attributes changed.
    Changed,
    /// It has another name.
    Moved,
}

impl ChangeKind {
    /// Its name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Deleted => "deleted",
            Self::Changed => "changed",
            Self::Moved => "moved",
        }
    }
}

/// How to record a command with this policy; `None` if it changes nothing, or nothing could be undone.
pub(super) fn options(policy: &Policy, cx: &Context) -> Option<Options> {
    let journal = cx.session().journal()?;
    // A command without layers may start programs with more rights than its own, which a recorded one cannot.
    let is_recorded = policy.layers != Layers::None && !policy.write.is_empty();
    is_recorded.then(|| Options::new(policy.write.clone(), journal.new_recording()))
}

/// Records in the journal what a command changed. Returns that, and notes about what cannot be undone.
pub(super) async fn adopt(
    end: &mut CommandEnd,
    recording: Option<PathBuf>,
    text: &str,
    cx: &Context,
) -> (CommandChanges, Vec<String>) {
    let mut notes = Vec::new();
    notes.extend(
        end.not_recorded
            .take()
            .map(|why| format!("what the command changed was not recorded, so it cannot be undone: {why}")),
    );
    let recording = recording.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let (Some(effects), Some(recording)) = (end.effects.take(), recording) else {
        return (CommandChanges::default(), notes);
    };
    notes.extend(not_undoable(&effects, cx));
    let mut changes = listed(&effects, cx);
    let (recording, text) = (recording.to_owned(), text.chars().take(MAX_TEXT).collect::<String>());
    let inside = cx.clone();
    let adopted = cx
        .record(move |journal, label| {
            let command = journal::Command { recording: &recording, text: &text };
            Ok(journal.adopt(inside.session_workspace(), command, &effects, label)?)
        })
        .await;
    match adopted {
        Ok(Some(recorded)) => {
            changes.number = Some(recorded.number);
            notes.extend(recorded.notes);
        }
        Ok(None) => {}
        Err(fault) => notes.push(format!("what the command changed cannot be undone: {fault}")),
    }
    (changes, notes)
}

fn shown(path: &Path, cx: &Context) -> String {
    cx.session_workspace().display(&AbsPath::lexical(path))
}

/// Notes about changes that cannot be undone.
pub(super) fn not_undoable(effects: &Effects, cx: &Context) -> Vec<String> {
    let not_kept = effects
        .not_kept
        .iter()
        .map(|(path, why)| format!("the old content of `{}` was not kept: {why}", shown(path, cx)));
    let unrecorded = effects.unrecorded.iter().map(|path| {
        format!("`{}` was changed while the command ran, and cannot be undone with it", shown(path, cx))
    });
    let all: Vec<String> = not_kept.chain(unrecorded).collect();
    let more = all.len().saturating_sub(MAX_NOTES);
    let mut notes: Vec<String> = all.into_iter().take(MAX_NOTES).collect();
    if more > 0 {
        notes.push(format!("{more} more changes cannot be undone"));
    }
    notes
}

/// The files that were changed, deletions first; a repository's own files as one.
pub(super) fn listed(effects: &Effects, cx: &Context) -> CommandChanges {
    let mut files: Vec<FileChange> = Vec::new();
    let mut total = 0;
    for effect in &effects.list {
        if let Some(git) = effect.path().ancestors().find(|above| above.ends_with(GIT)) {
            let change = FileChange { path: shown(git, cx), kind: ChangeKind::Changed, from: None };
            if !files.contains(&change) {
                total += 1;
                files.push(change);
            }
            continue;
        }
        let (kind, from) = match effect {
            Effect::Set { before: Old::Missing, .. } => (ChangeKind::Created, None),
            Effect::Set { after: New::Missing, .. } => (ChangeKind::Deleted, None),
            Effect::Set { .. } | Effect::Mode { .. } => (ChangeKind::Changed, None),
            Effect::Move { from, .. } => (ChangeKind::Moved, Some(shown(from, cx))),
        };
        total += 1;
        files.push(FileChange { path: shown(effect.path(), cx), kind, from });
    }
    files.sort_by_key(|file| file.kind != ChangeKind::Deleted);
    files.truncate(MAX_LISTED);
    CommandChanges { number: None, files, total }
}
