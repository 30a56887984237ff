//! `sed -i` as an edit: what it makes of a file is known before it runs, so it is shown to whoever is asked, made
//! through the journal, and can be undone.

use bytes::Bytes;
use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_journal::Content;

use crate::change::Current;
use crate::patch::{self, PatchFate, Planned};
use haft_shell::InPlace;

/// A file that is edited by a command.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    sed: std::sync::Arc<InPlace>,
    path: AbsPath,
}

/// What a host says will come of a command that edits a file, because it has shown that to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// The file.
    pub file: String,
    /// All of its content afterwards.
    pub content: String,
}

impl Edit {
    /// The edit that a command is, if its file is one of the workspace.
    pub(super) fn of(sed: InPlace, dir: &AbsPath, cx: &Context) -> Option<Self> {
        if sed.backup.is_some() || cx.session().journal().is_none() {
            return None;
        }
        let place = cx.workspace().resolve(dir, &sed.file).ok()?;
        place.stat?;
        Some(Self { sed: sed.into(), path: place.path })
    }

    /// The change, or nothing if it is better left to sed itself.
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

    /// Checks that what was foreseen is what the command does.
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

/// Says that a command does something else than was foreseen.
pub(super) fn not_foreseen(file: &str) -> Fault {
    Fault::new(FaultKind::Conflict, format!("the command does not make of `{file}` what was foreseen"))
        .hint(
            "leave `_simulated_sed_edit` away: what the command does is worked out and shown before it runs",
        )
        .at(file)
}

/// Makes the change, and says so.
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
