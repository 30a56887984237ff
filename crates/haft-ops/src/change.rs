//! Changing the content of one file: by all of it, by text, by line number. The change is planned in memory
//! when it is checked, so that its diff is known before anybody is asked; committed through the journal,
//! against exactly the content it was planned on; and its syntax is checked while the disk is waited for.

mod checking;
mod current;
mod differences;
mod neighbours;
mod parts;
mod plan;

use std::sync::Arc;

use haft_core::sessions::Seen;
use haft_core::{AbsPath, Claims, Context, Effect, Fault, KnownContent, Operation, Preview, Resource};
use haft_journal::{self as journal, Content};
use haft_sandbox::Expect;

use checking::Checking;
pub(super) use checking::{checked, file_name};

pub(crate) use current::Current;
pub(crate) use neighbours::style;
use plan::Plan;

use super::Editing;
use haft_text::check::Checked;
use haft_text::notebook::CellEdit;
use haft_text::{Diff, LineEdit, Replace};

/// Changes the content of one file.
pub struct Change {
    asked: Arc<ChangeRequest>,
    plan: Option<Plan>,
}

/// What is asked for.
#[derive(Debug)]
pub struct ChangeRequest {
    /// The file.
    pub path: AbsPath,
    /// The file as it was asked for, for messages.
    pub named: String,
    /// What becomes of it.
    pub to: To,
    /// On which terms.
    pub terms: Terms,
}

/// What becomes of a file.
#[derive(Clone, Debug)]
pub enum To {
    /// All of it is this text, in the file's encoding and with its line ends. A new file is written like its
    /// neighbours.
    Text(String),
    /// All of it is this text as UTF-8, whatever the encoding and the line ends were before.
    Utf8(String),
    /// All of it is this, to the byte.
    Bytes(Vec<u8>),
    /// Texts in it are replaced, one after another.
    Edits(Vec<Replace>),
    /// Lines in it are replaced, one after another.
    Lines(Vec<LineEdit>),
    /// A cell of it, which is a notebook, is changed.
    Cell(CellEdit),
}

impl To {
    /// How many bytes of it are new.
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

/// On which terms a file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the model must know of a file that exists.
    pub knowledge: Knowledge,
    /// What is made of a change that changes nothing.
    pub same: Same,
    /// What becomes of a file that exists.
    pub existing: Existing,
    /// What becomes of missing folders on the way.
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

/// What the model must know of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// It must have seen the file as it is.
    Required,
    /// It need not have seen the file, but what it has seen must still be so.
    Current,
}

/// What is made of a change that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// It succeeds, and nothing is recorded.
    Accept,
    /// It fails.
    Refuse,
}

/// What becomes of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is changed.
    Change,
    /// The change fails.
    Refuse,
}

/// What becomes of missing folders on the way to a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// They are made.
    Make,
    /// The change fails, and the message says how they would be made.
    Require(&'static str),
}

/// A file that was changed.
#[derive(Debug)]
pub struct Changed {
    /// The file.
    pub path: AbsPath,
    /// What happened to it.
    pub fate: Fate,
    /// The number in the journal; none where nothing changed.
    pub number: Option<u64>,
    /// How large the file is now.
    pub size: u64,
    /// How many places were changed.
    pub replaced: usize,
    /// Whether somebody agreed to some of the places only.
    pub in_part: bool,
    /// What changed, as a unified diff.
    pub diff: Diff,
    /// What changed, with the line numbers as they are now.
    pub short: Diff,
    /// What was done otherwise than asked, and what else there is to know.
    pub notes: Vec<String>,
    /// What the change did to the syntax, where that can be told.
    pub checked: Option<Checked>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Created,
    /// It was changed.
    Changed,
    /// It was so already.
    Same,
}

impl Change {
    /// A change that is still to be checked.
    pub fn new(asked: ChangeRequest) -> Self {
        Self { asked: Arc::new(asked), plan: None }
    }

    /// A change of a file that must be there, named from the session's folder.
    pub fn edit(named: &str, to: To, cx: &Context) -> Result<Self, Fault> {
        let path = super::changeable(named, &cx.cwd(), cx)?;
        Ok(Self::new(ChangeRequest { path, named: named.to_owned(), to, terms: Terms::default() }))
    }

    /// A whole file, named from the session's folder.
    pub fn write(named: &str, content: &str, terms: Terms, cx: &Context) -> Result<Self, Fault> {
        let path = super::writable(named, &cx.cwd(), cx)?;
        Ok(Self::new(ChangeRequest {
            path,
            named: named.to_owned(),
            to: To::Text(content.to_owned()),
            terms,
        }))
    }

    /// Whether there is a file that is replaced or edited. Known once the change was checked.
    pub fn replaces(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.before.is_some())
    }

    async fn planned(&mut self, cx: &Context) -> Result<Plan, Fault> {
        if let Some(plan) = self.plan.take() {
            return Ok(plan);
        }
        let open = plan::open(&self.asked, cx)?;
        let there = open.as_ref().map_or(0, |open| open.stat.size);
        if there.max(self.asked.to.len()) <= super::SMALL {
            return plan::plan(&self.asked, open, cx);
        }
        let (asked, cx) = (self.asked.clone(), cx.clone());
        haft_core::blocking(move || plan::plan(&asked, open, &cx)).await
    }
}

impl Operation for Change {
    type Output = Changed;

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.asked.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.plan = Some(self.planned(cx).await?);
        Ok(None)
    }

    fn preview(&mut self, _cx: &Context) -> Option<Preview> {
        let plan = self.plan.as_mut()?;
        let diff = plan.shown(&self.asked.named).0.text.clone();
        let parts = match &plan.before {
            Some(before) => parts::of(&diff, &before.bytes, &plan.content.whole()),
            None => Vec::new(),
        };
        Some(Preview::new(diff).parts(parts))
    }

    fn keep_parts(&mut self, chosen: &[usize], _cx: &Context) -> Result<String, Fault> {
        let whole = || Fault::failed("this change is made as a whole or not at all");
        let plan = self.plan.as_mut().ok_or_else(whole)?;
        let diff = plan.shown(&self.asked.named).0.text.clone();
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
        let ChangeRequest { path, .. } = &*self.asked;
        let Plan { before, content, replaced, mut notes, splices, mut shown, cell, in_part } = plan;
        let fate = match &before {
            None => Fate::Created,
            Some(before) if before.hash == content.hash() => Fate::Same,
            Some(_) => Fate::Changed,
        };
        let size = content.len();
        if fate == Fate::Same {
            let path = path.clone();
            let shown =
                shown.unwrap_or_else(|| plan::differing(&self.asked.named, before.as_ref(), &content, None));
            let (diff, short) = shown;
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
        let (asked, inside) = (self.asked.clone(), cx.clone());
        let (recorded, checking, (diff, short)) = cx
            .commit(move |journal, label| {
                let expect = before.as_ref().map_or(Expect::Missing, |before| Expect::Content(before.hash));
                let change = journal::Change::Write {
                    path: asked.path.clone(),
                    content: content.clone(),
                    expect,
                    replaced: before.as_ref().map(Current::replaced),
                };
                let differing = || plan::differing(&asked.named, before.as_ref(), &content, splices.as_ref());
                let mut checking = None;
                // The check and what is shown of the change use the time that the disk takes.
                let meanwhile = || {
                    let before = before.as_ref().map(|before| before.bytes.clone());
                    checking = Some(Checking::start(&editing.checkers, &asked.path, before, &content));
                    shown.get_or_insert_with(differing);
                };
                let recorded = journal.change_while(inside.workspace(), change, label, meanwhile);
                let recorded =
                    recorded.map_err(|error| current::conflict(error, &asked, before.as_ref(), &inside))?;
                let now = seen(&asked.path, &content, &inside).map_or(KnownContent::Gone, KnownContent::Seen);
                inside.effect(Effect::Changed { path: asked.path.clone(), now });
                Ok((recorded, checking, shown.unwrap_or_else(differing)))
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

/// What the model knows of a file that it has just written.
pub(super) fn seen(path: &AbsPath, content: &Content, cx: &Context) -> Option<Seen> {
    let stamp = cx.workspace().stat(path).ok()?.stamp;
    Some(match content.len() <= super::SMALL {
        true => Seen::content(stamp, content.whole()),
        false => Seen::hash(stamp, content.hash()),
    })
}
