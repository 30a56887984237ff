//! `sed -i` as an edit: haft computes the result itself, shows the diff before the approval and commits it through the
//! journal, so that it can be undone. Scripts that it does not understand run as ordinary commands.

use bytes::Bytes;
use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_journal::Content;

use crate::change::Current;
use crate::patch::{self, PatchFate, Planned};
use haft_shell::InPlace;

/// The edit of one file by a `sed -i` command.
#[derive(Clone, Debug)]
pub(super) struct SedEdit {
    sed: std::sync::Arc<InPlace>,
    path: AbsPath,
}

/// Result of an editing command that a host has predicted and shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// Path of the file.
    pub file: String,
    /// Complete content after the command.
    pub content: String,
}

impl SedEdit {
    /// The edit, if haft can make it: the file is in the workspace, the session has a journal, and sed keeps no backup.
    pub(super) fn of(sed: InPlace, dir: &AbsPath, cx: &Context) -> Option<Self> {
        if sed.backup.is_some() || cx.session().journal().is_none() {
            return None;
        }
        let place = cx.workspace().resolve(dir, &sed.file).ok()?;
        place.stat?;
        Some(Self { sed: sed.into(), path: place.path })
    }

    /// Plans the edit; `None` to leave it to sed itself. An empty plan means that nothing matched.
    pub(super) fn plan(&self, cx: &Context) -> Result<Option<Vec<Planned>>, Fault> {
        let named = &self.sed.file;
        cx.workspace().require_writable(&self.path)?;
        let Some(current) = Current::read(&self.path, named, cx)? else { return Ok(None) };
        let Ok(before) = std::str::from_utf8(&current.bytes) else { return Ok(None) };
        let Some(after) = self.sed.apply(before) else { return Ok(None) };
        if after == before {
            return Ok(Some(Vec::new()));
        }
        let content = Content::of([Bytes::from(after)]);
        Ok(Some(vec![Planned::new(self.path.clone(), named, PatchFate::Updated, current, content, cx)]))
    }

    /// Fails unless the command produces the predicted content.
    pub(super) fn require_foreseen(
        &self,
        foreseen: &Foreseen,
        dir: &AbsPath,
        cx: &Context,
    ) -> Result<(), Fault> {
        let place = cx.workspace().resolve(dir, &foreseen.file)?;
        let named = &self.sed.file;
        let current = Current::read(&self.path, named, cx)?;
        let after = current.and_then(|now| self.sed.apply(std::str::from_utf8(&now.bytes).ok()?));
        if place.path == self.path && after.as_deref() == Some(foreseen.content.as_str()) {
            return Ok(());
        }
        Err(not_foreseen(&foreseen.file))
    }
}

/// Fault about a command that does not produce the predicted content.
pub(super) fn not_foreseen(file: &str) -> Fault {
    Fault::new(FaultKind::Conflict, format!("the command does not make of `{file}` what was foreseen"))
        .hint(
            "leave `_simulated_sed_edit` away: what the command does is worked out and shown before it runs",
        )
        .at(file)
}

/// Commits the planned edit and returns notes about it.
pub(super) async fn make(plan: Vec<Planned>, cx: &Context) -> Result<Vec<String>, Fault> {
    if plan.is_empty() {
        return Ok(vec!["nothing in the file matched, and nothing was changed".to_owned()]);
    }
    let patched = patch::commit(plan, cx).await?;
    let mut notes = patched.notes;
    if let Some(number) = patched.number {
        notes.push(format!("made as change {number} of the journal, so it can be undone"));
    }
    Ok(notes)
}
