//! Applying a patch to several files atomically: all of it or nothing. A patch is either between `*** Begin Patch` and
//! `*** End Patch`, or a unified diff; `haft-text` parses both. Other operations that change several files commit their
//! plans here, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use haft_core::sessions::ShownLines;
use haft_core::{
    AbsPath, Claims, Context, Effect, Fault, FaultKind, KnownContent, Operation, Preview, Resource,
};
use haft_journal::{self as journal, Content, Depth, JournalError};
use haft_sandbox::{ChangeErrorKind, Expect, FolderAccess};

use super::Editing;
use super::change::{Current, Knowledge, checked, lines_after, seen, style};
use haft_text::check::Checked;
use haft_text::{
    self, Diff, DiffLimits, Outcome, PatchProblem, Side, Source, patch_paths, plan_patch, unified,
};

/// Applies a patch to one or more files.
pub struct Patch {
    text: Arc<str>,
    /// The files of the patch, by their names in it.
    places: Arc<BTreeMap<String, AbsPath>>,
    knowledge: Knowledge,
    /// The planned changes, once the patch was checked.
    plan: Option<Vec<Planned>>,
}

/// Result of a patch.
#[derive(Debug)]
pub struct Patched {
    /// Number of the change in the journal; none in a dry run.
    pub number: Option<u64>,
    /// The files of the patch.
    pub files: Vec<PatchedFile>,
    /// Deviations from the patch as written, and other notes.
    pub notes: Vec<String>,
}

/// A file that a patch changed.
#[derive(Clone, Debug)]
pub struct PatchedFile {
    /// Its path before the patch; of a new file, its new path.
    pub path: AbsPath,
    /// Kind of change.
    pub fate: PatchFate,
    /// Diff of its content.
    pub diff: Diff,
    /// Result of the syntax check, if its language has a checker.
    pub checked: Option<Checked>,
}

/// Kind of change that a patch makes to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchFate {
    /// The file was created.
    Added,
    /// Its content was changed.
    Updated,
    /// The file was moved to this path, and possibly changed.
    Moved(AbsPath),
    /// The file was deleted.
    Deleted,
}

/// A planned change of one file.
pub(super) struct Planned {
    pub(super) file: PatchedFile,
    /// Its content before; none for a new file.
    before: Option<Current>,
    /// Its content afterwards; none if it is deleted.
    after: Option<Content>,
    notes: Vec<String>,
}

impl Patch {
    /// A patch that is not checked yet. Its paths are relative to `base`.
    pub fn new(text: &str, base: &AbsPath, knowledge: Knowledge, cx: &Context) -> Result<Self, Fault> {
        let names = patch_paths(text).map_err(|problem| fault(&problem))?;
        let mut places = BTreeMap::new();
        for name in names {
            let place = cx.reach(base, &name, FolderAccess::Write)?;
            cx.workspace().require_writable(&place.path)?;
            places.insert(name, place.path);
        }
        Ok(Self { text: text.into(), places: Arc::new(places), knowledge, plan: None })
    }

    /// The plan of [`check`](Operation::check), or a new one.
    fn planned(&mut self, cx: &Context) -> Result<Vec<Planned>, Fault> {
        if let Some(plan) = self.plan.take() {
            return Ok(plan);
        }
        let editing = cx.session().extension::<Editing>();
        let mut found: BTreeMap<String, Current> = BTreeMap::new();
        let mut lookup = |name: &str| {
            let Some(path) = self.places.get(name) else {
                return Err(Fault::new(FaultKind::Internal, format!("`{name}` was not looked up")));
            };
            let Some(current) = Current::read(path, name, cx)? else { return Ok(None) };
            current.require_known(path, name, self.knowledge, cx)?;
            let source = Source::new(current.bytes.to_vec()).map_err(|_| {
                Fault::new(
                    FaultKind::WrongKind,
                    format!("`{name}` is a binary file; only text can be patched"),
                )
                .at(name)
            })?;
            found.insert(name.to_owned(), current);
            Ok(Some(source))
        };
        let patched =
            plan_patch(&self.text, editing.options, &mut lookup).map_err(|problem| match problem {
                PatchProblem::Lookup { error, .. } => error,
                problem => fault(&problem),
            })?;
        let place = |name: &str| self.places.get(name).cloned().unwrap_or_else(|| cx.cwd());
        let mut plan = Vec::with_capacity(patched.len());
        for haft_text::Patched { path: name, outcome } in patched {
            let (path, before) = (place(&name), found.remove(&name));
            let (fate, after, notes) = match outcome {
                Outcome::Create { text } => {
                    let (bytes, note) = style(&path, cx).bytes(&text).map_err(|error| {
                        Fault::new(FaultKind::Encoding, format!("`{name}`: {error}")).hint(error.hint())
                    })?;
                    let notes = note.iter().map(|note| format!("`{name}`: {note}")).collect();
                    (PatchFate::Added, Some(Content::from(bytes)), notes)
                }
                Outcome::Update { source, planned, to } => {
                    let content = planned.splices.content(&Bytes::from(source.into_bytes()));
                    let notes = planned.notes.iter().map(|note| format!("`{name}`: {note}")).collect();
                    let fate = to.as_deref().map_or(PatchFate::Updated, |to| PatchFate::Moved(place(to)));
                    (fate, Some(content), notes)
                }
                Outcome::Delete => (PatchFate::Deleted, None, Vec::new()),
            };
            let diff = difference(&name, &fate, before.as_ref(), after.as_ref(), cx);
            plan.push(Planned {
                file: PatchedFile { path, fate, diff, checked: None },
                before,
                after,
                notes,
            });
        }
        Ok(plan)
    }
}

/// The diff of one file, or a `rename` line if it was only moved.
fn difference(
    name: &str,
    fate: &PatchFate,
    before: Option<&Current>,
    after: Option<&Content>,
    cx: &Context,
) -> Diff {
    let nothing = "/dev/null";
    let to = match fate {
        PatchFate::Moved(to) => cx.workspace().display(to),
        _ => name.to_owned(),
    };
    let after_bytes = after.map(Content::whole).unwrap_or_default();
    let mut diff = unified(
        Side {
            name: if before.is_some() { name } else { nothing },
            bytes: before.map_or(&[], |before| &before.bytes),
        },
        Side { name: if after.is_some() { &to } else { nothing }, bytes: &after_bytes },
        DiffLimits::default(),
    );
    if let (PatchFate::Moved(_), true) = (fate, diff.text.is_empty()) {
        diff.text = format!("rename from {name}\nrename to {to}\n");
    }
    diff
}

/// The fault for a patch that does not apply.
fn fault<E: std::fmt::Display>(problem: &PatchProblem<E>) -> Fault {
    let kind = match problem {
        PatchProblem::Nothing | PatchProblem::Syntax { .. } | PatchProblem::Twice { .. } => {
            FaultKind::InvalidInput
        }
        PatchProblem::Missing { .. } => FaultKind::NotFound,
        PatchProblem::Exists { .. } => FaultKind::Exists,
        _ => FaultKind::NoMatch,
    };
    let fault = Fault::new(kind, problem.message());
    match problem.hint() {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

impl Planned {
    /// A planned change of a file's content.
    pub(super) fn new(
        path: AbsPath,
        name: &str,
        fate: PatchFate,
        before: Current,
        after: Content,
        cx: &Context,
    ) -> Self {
        let diff = difference(name, &fate, Some(&before), Some(&after), cx);
        let file = PatchedFile { path, fate, diff, checked: None };
        Self { file, before: Some(before), after: Some(after), notes: Vec::new() }
    }

    /// The unified diff of the planned change.
    #[cfg(feature = "commands")]
    pub(super) fn diff(&self) -> &str {
        &self.file.diff.text
    }

    /// The change for the journal, which fails if the file changed since it was planned.
    fn change(&self) -> journal::Change {
        let path = self.file.path.clone();
        let expect = self.before.as_ref().map_or(Expect::Missing, |before| Expect::Content(before.hash));
        match (&self.file.fate, &self.after) {
            (PatchFate::Moved(to), Some(content)) => {
                journal::Change::Rewrite { from: path, to: to.clone(), content: content.clone(), expect }
            }
            (_, Some(content)) => journal::Change::Write {
                path,
                content: content.clone(),
                expect,
                replaced: self.before.as_ref().map(Current::replaced),
            },
            (_, None) => journal::Change::Delete { path, expect, depth: Depth::Empty },
        }
    }

    /// The path of the file after the change.
    fn final_path(&self) -> &AbsPath {
        match &self.file.fate {
            PatchFate::Moved(to) => to,
            _ => &self.file.path,
        }
    }

    /// Records in the session that the model knows the new content.
    fn record_effects(&self, cx: &Context) {
        if matches!(self.file.fate, PatchFate::Moved(_)) {
            cx.effect(Effect::Changed { path: self.file.path.clone(), now: KnownContent::Gone });
        }
        let seen = self.after.as_ref().and_then(|after| {
            let lines = match &self.before {
                Some(before) => lines_after(&self.file.path, before, after, 0, cx),
                None => ShownLines::all(),
            };
            Some(seen(self.final_path(), after, cx)?.only(lines))
        });
        cx.effect(Effect::Changed {
            path: self.final_path().clone(),
            now: seen.map_or(KnownContent::Gone, KnownContent::Seen),
        });
    }
}

impl Operation for Patch {
    type Output = Patched;

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        self.places.values().fold(Claims::none(), |claims, path| claims.write(Resource::Path(path.clone())))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let plan = self.planned(cx)?;
        let diff: String = plan.iter().map(|planned| planned.file.diff.text.as_str()).collect();
        self.plan = Some(plan);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(mut self, cx: &Context) -> Result<Patched, Fault> {
        let plan = self.planned(cx)?;
        commit(plan, cx).await
    }
}

/// The result of a dry run.
pub(super) fn shown(plan: Vec<Planned>) -> Patched {
    let files = plan.into_iter().map(|planned| planned.file).collect();
    Patched { number: None, files, notes: Vec::new() }
}

/// Commits all planned changes atomically, as one entry of the journal.
pub(super) async fn commit(plan: Vec<Planned>, cx: &Context) -> Result<Patched, Fault> {
    let editing = cx.session().extension::<Editing>();
    let inside = cx.clone();
    cx.commit(move |journal, label| {
        let changes = plan.iter().map(Planned::change).collect();
        let recorded = journal
            .change_all(inside.workspace(), changes, label)
            .map_err(|error| commit_fault(error, &plan, &inside))?;
        let mut notes = recorded.notes;
        let mut files = Vec::with_capacity(plan.len());
        for planned in plan {
            planned.record_effects(&inside);
            let mut file = planned.file.clone();
            if let Some(after) = &planned.after {
                let before = planned.before.as_ref().map(|before| before.bytes.clone());
                file.checked = checked(&editing.checkers, planned.final_path(), before, after);
            }
            notes.extend(planned.notes);
            files.push(file);
        }
        Ok(Patched { number: Some(recorded.number), files, notes })
    })
    .await
}

/// The fault for changes that the journal could not commit. On a conflict, it shows what another process changed.
fn commit_fault(error: JournalError, plan: &[Planned], cx: &Context) -> Fault {
    if let JournalError::Change(change) = &error
        && matches!(change.kind, ChangeErrorKind::Conflict(_))
    {
        for planned in plan {
            let name = cx.workspace().display(&planned.file.path);
            if let (Some(before), Ok(Some(now))) =
                (&planned.before, Current::read(&planned.file.path, &name, cx))
                && before.hash != now.hash
            {
                return now.changed_since(&planned.file.path, &name, Some(before.bytes.clone()), cx);
            }
        }
    }
    error.into()
}
