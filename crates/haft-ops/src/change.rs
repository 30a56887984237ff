//! The change operation: replaces the content of one file as a whole, by text, by line number or by notebook cell. `check`
//! plans the change in memory, so that its diff is known before the approval; `run` commits it through the journal, which
//! compares the file with the content that the plan is based on. The syntax check runs while the disk syncs.

mod checking;
mod current;
mod differences;
mod neighbours;
mod parts;
mod plan;

use std::sync::Arc;

use haft_core::sessions::{ChangedLines, Seen, ShownLines};
use haft_core::{AbsPath, Claims, Context, Effect, Fault, KnownContent, Operation, Preview, Resource};
use haft_journal::{self as journal, Content};
use haft_sandbox::Expect;

use checking::Checking;
pub(super) use checking::{checked, file_name};

pub(crate) use current::Current;
pub(crate) use neighbours::style;
use plan::ChangePlan;

use super::Editing;
use haft_text::check::Checked;
use haft_text::notebook::CellEdit;
use haft_text::{Diff, LineEdit, Replace};

/// Changes the content of one file.
pub struct Change {
    request: Arc<ChangeRequest>,
    plan: Option<ChangePlan>,
}

/// Request to change one file.
#[derive(Debug)]
pub struct ChangeRequest {
    /// The file.
    pub path: AbsPath,
    /// The path as the caller wrote it, for messages.
    pub named: String,
    /// The new content, or the edits that lead to it.
    pub to: To,
    /// Conditions of the change.
    pub terms: Terms,
}

/// The new content of a file, or the edits that lead to it.
#[derive(Clone, Debug)]
pub enum To {
    /// Replaces the whole content with this text, in the file's encoding and with its line ends. A new file takes both
    /// from the files beside it.
    Text(String),
    /// Replaces the whole content with this text as UTF-8, whatever the encoding and the line ends were before.
    Utf8(String),
    /// Replaces the whole content with exactly these bytes.
    Bytes(Vec<u8>),
    /// Replaces texts, one after another.
    Edits(Vec<Replace>),
    /// Replaces lines, one after another.
    Lines(Vec<LineEdit>),
    /// Changes a cell of a notebook.
    Cell(CellEdit),
}

impl To {
    /// Whether the request replaces the whole content.
    fn is_whole(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Utf8(_) | Self::Bytes(_))
    }

    /// Size of the request in bytes, which decides whether planning may run on the calling thread.
    fn len(&self) -> u64 {
        let bytes = match self {
            Self::Text(text) | Self::Utf8(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Edits(edits) => edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum(),
            Self::Lines(edits) => edits.len(),
            Self::Cell(edit) => edit.source.len(),
        };
        bytes as u64
    }
}

/// Conditions of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the model must have seen of a file that exists.
    pub knowledge: Knowledge,
    /// Whether the change succeeds if the new content equals the old one.
    pub same: Same,
    /// Whether a file that exists may be changed.
    pub existing: Existing,
    /// Whether missing parent folders are created.
    pub parents: Parents,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            knowledge: Knowledge::Required,
            same: Same::Accept,
            existing: Existing::Change,
            parents: Parents::Make,
        }
    }
}

/// What the model must have seen of a file before it may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The model must have seen the current content.
    Required,
    /// The model need not have seen the file; if it has, the file must not have changed since.
    Current,
}

/// Whether a change succeeds if the new content equals the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// The change succeeds, and the journal records nothing.
    Accept,
    /// The change fails.
    Refuse,
}

/// Whether a change may touch a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The file is changed.
    Change,
    /// The change fails.
    Refuse,
}

/// Whether a change creates the missing parent folders of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// Missing folders are created.
    Make,
    /// The change fails; the text names the option of the tool that would create them.
    Require(&'static str),
}

/// Result of a change.
#[derive(Debug)]
pub struct Changed {
    /// The file.
    pub path: AbsPath,
    /// What happened to the file.
    pub fate: Fate,
    /// Number of the change in the journal; none if nothing changed.
    pub number: Option<u64>,
    /// New size of the file in bytes.
    pub size: u64,
    /// Number of places that were changed.
    pub replaced: usize,
    /// Whether the user approved only some of the places.
    pub in_part: bool,
    /// The change as a unified diff.
    pub diff: Diff,
    /// The change in the short form, with line numbers of the new content.
    pub short: Diff,
    /// Remarks for the model, such as where the result differs from the request.
    pub notes: Vec<String>,
    /// Effect of the change on the syntax, if there is a checker for the language.
    pub checked: Option<Checked>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The file is new.
    Created,
    /// The content is different.
    Changed,
    /// The file already had this content.
    Same,
}

impl Change {
    /// A change that is not planned yet.
    pub fn new(request: ChangeRequest) -> Self {
        Self { request: Arc::new(request), plan: None }
    }

    /// A change of a file that must exist. A relative path starts at the session's folder.
    pub fn edit(named: &str, to: To, cx: &Context) -> Result<Self, Fault> {
        let path = super::changeable(named, &cx.cwd(), cx)?;
        Ok(Self::new(ChangeRequest { path, named: named.to_owned(), to, terms: Terms::default() }))
    }

    /// A change of the whole content of a file, which may be new. A relative path starts at the session's folder.
    pub fn write(named: &str, content: &str, terms: Terms, cx: &Context) -> Result<Self, Fault> {
        let path = super::writable(named, &cx.cwd(), cx)?;
        Ok(Self::new(ChangeRequest {
            path,
            named: named.to_owned(),
            to: To::Text(content.to_owned()),
            terms,
        }))
    }

    /// Whether the change replaces or edits an existing file. Known after `check`.
    pub fn replaces(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.before.is_some())
    }

    /// Takes the plan that `check` made, or makes it. Large files are planned on a blocking thread.
    async fn planned(&mut self, cx: &Context) -> Result<ChangePlan, Fault> {
        if let Some(plan) = self.plan.take() {
            return Ok(plan);
        }
        let open = plan::open(&self.request, cx)?;
        let size = open.as_ref().map_or(0, |open| open.stat.size);
        if size.max(self.request.to.len()) <= super::SMALL {
            return plan::plan(&self.request, open, cx);
        }
        let (request, cx) = (self.request.clone(), cx.clone());
        haft_core::blocking(move || plan::plan(&request, open, &cx)).await
    }
}

impl Operation for Change {
    type Output = Changed;

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.request.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.plan = Some(self.planned(cx).await?);
        Ok(None)
    }

    fn preview(&mut self, _cx: &Context) -> Option<Preview> {
        let plan = self.plan.as_mut()?;
        let diff = plan.diffs(&self.request.named).0.text.clone();
        let parts = match &plan.before {
            Some(before) => parts::of(&diff, &before.bytes, &plan.content.whole()),
            None => Vec::new(),
        };
        Some(Preview::new(diff).parts(parts))
    }

    fn keep_parts(&mut self, chosen: &[usize], _cx: &Context) -> Result<String, Fault> {
        let whole = || Fault::failed("this change is made as a whole or not at all");
        let plan = self.plan.as_mut().ok_or_else(whole)?;
        let diff = plan.diffs(&self.request.named).0.text.clone();
        let before = plan.before.as_ref().ok_or_else(whole)?;
        let all = parts::of(&diff, &before.bytes, &plan.content.whole());
        let kept = parts::with(&diff, &before.bytes, chosen).ok_or_else(whole)?;
        let left_out =
            all.iter().enumerate().filter(|(part, _)| !chosen.contains(part)).map(|(_, hunk)| hunk.as_str());
        let left_out = left_out.collect();
        plan.reduce(kept, all.len().min(chosen.len()));
        Ok(left_out)
    }

    async fn run(mut self, cx: &Context) -> Result<Changed, Fault> {
        let plan = self.planned(cx).await?;
        let ChangeRequest { path, .. } = &*self.request;
        let ChangePlan { before, content, replaced, mut notes, splices, mut diffs, cell, in_part } = plan;
        let fate = match &before {
            None => Fate::Created,
            Some(before) if before.hash == content.hash() => Fate::Same,
            Some(_) => Fate::Changed,
        };
        let size = content.len();
        if fate == Fate::Same {
            let path = path.clone();
            let (diff, short) =
                diffs.unwrap_or_else(|| plan::diffs_of(&self.request.named, before.as_ref(), &content, None));
            return Ok(Changed {
                path,
                fate,
                number: None,
                size,
                replaced: 0,
                in_part,
                diff,
                short,
                notes,
                checked: None,
            });
        }
        let editing = cx.session().extension::<Editing>();
        let (request, inside) = (self.request.clone(), cx.clone());
        let (recorded, checking, (diff, short)) = cx
            .commit(move |journal, label| {
                let expect = before.as_ref().map_or(Expect::Missing, |before| Expect::Content(before.hash));
                let change = journal::Change::Write {
                    path: request.path.clone(),
                    content: content.clone(),
                    expect,
                    replaced: before.as_ref().map(Current::replaced),
                };
                let diffs_of_plan =
                    || plan::diffs_of(&request.named, before.as_ref(), &content, splices.as_ref());
                let mut checking = None;
                // Syncing takes milliseconds on most disks: the syntax check and the diff run meanwhile.
                let meanwhile = || {
                    let before = before.as_ref().map(|before| before.bytes.clone());
                    checking = Some(Checking::start(&editing.checkers, &request.path, before, &content));
                    diffs.get_or_insert_with(diffs_of_plan);
                };
                let recorded = journal.change_while(inside.workspace(), change, label, meanwhile);
                let recorded =
                    recorded.map_err(|error| current::conflict(error, &request, before.as_ref(), &inside))?;
                let lines = match (&before, request.to.is_whole() && !in_part) {
                    (Some(before), false) => {
                        let places = splices.as_ref().map_or(0, |splices| splices.iter().count());
                        lines_after(&request.path, before, &content, places, &inside)
                    }
                    _ => ShownLines::all(),
                };
                let now = seen(&request.path, &content, &inside)
                    .map_or(KnownContent::Gone, |seen| KnownContent::Seen(seen.only(lines)));
                inside.effect(Effect::Changed { path: request.path.clone(), now });
                Ok((recorded, checking, diffs.unwrap_or_else(diffs_of_plan)))
            })
            .await?;
        let checked = match checking {
            Some(checking) => checking.finish(cx).await,
            None => None,
        };
        notes.extend(recorded.notes);
        let (path, short) = (path.clone(), cell.unwrap_or(short));
        let number = Some(recorded.number);
        Ok(Changed { path, fate, number, size, replaced, in_part, diff, short, notes, checked })
    }
}

/// Lines of a file's new content that the model knows: those it was shown before, and those it has just written. If it
/// changed several places, only lines outside of them and lines that it knew count.
pub(super) fn lines_after(
    path: &AbsPath,
    before: &Current,
    content: &Content,
    places: usize,
    cx: &Context,
) -> ShownLines {
    let shown = cx.session().shown_lines(path);
    if shown.is_all() {
        return shown;
    }
    let after = content.whole();
    let lines = shown.after_change(&before.bytes, &after);
    if places != 1 {
        return lines;
    }
    let changed = ChangedLines::between(&before.bytes, &after);
    lines.with(&ShownLines::range(changed.first, changed.new_last))
}

/// Version of a file that the model knows because it has just written it.
pub(super) fn seen(path: &AbsPath, content: &Content, cx: &Context) -> Option<Seen> {
    let stamp = cx.workspace().stat(path).ok()?.stamp;
    Some(match content.len() <= super::SMALL {
        true => Seen::content(stamp, content.whole()),
        false => Seen::hash(stamp, content.hash()),
    })
}
