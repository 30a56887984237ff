//! Applying a patch to several files: all of it or nothing. A patch is written between `*** Begin Patch` and
//! `*** End Patch`, or is a unified diff.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use haft::journal::{self, Content, Depth, JournalError};
use haft::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Now, Operation, Preview, Resource, Weight};
use haft_sandbox::{Access, ChangeErrorKind, Expect};

use super::Editing;
use super::change::{Current, Knowledge, checked, seen, style};
use crate::check::Checked;
use crate::text::{
    self, Diff, DiffLimits, Outcome, PatchProblem, Side, Source, patch_paths, plan_patch, unified,
};

/// Applies a patch.
pub struct Patch {
    text: Arc<str>,
    /// The files that the patch names, by their names in it.
    places: Arc<BTreeMap<String, AbsPath>>,
    knowledge: Knowledge,
    plan: Option<Vec<Planned>>,
}

/// What was patched.
#[derive(Debug)]
pub struct Patched {
    /// The number in the journal; none where it is only shown what would change.
    pub number: Option<u64>,
    /// What happened to each file.
    pub files: Vec<PatchedFile>,
    /// What was done otherwise than asked, and what else there is to know.
    pub notes: Vec<String>,
}

/// What happened to one file.
#[derive(Clone, Debug)]
pub struct PatchedFile {
    /// The file, under the name it had before; a new one under its own.
    pub path: AbsPath,
    /// What became of it.
    pub fate: PatchFate,
    /// What changed in it.
    pub diff: Diff,
    /// What that did to its syntax, where that can be told.
    pub checked: Option<Checked>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchFate {
    /// It is new.
    Added,
    /// It was changed.
    Updated,
    /// It was given another name, and perhaps changed.
    Moved(AbsPath),
    /// It is gone.
    Deleted,
}

/// What is going to happen to one file.
pub(super) struct Planned {
    pub(super) file: PatchedFile,
    before: Option<Current>,
    /// What it will be; nothing if it goes.
    after: Option<Content>,
    notes: Vec<String>,
}

impl Patch {
    /// A patch that is still to be checked. Its paths start from `base`.
    pub fn new(text: &str, base: &AbsPath, knowledge: Knowledge, cx: &Context) -> Result<Self, Fault> {
        let names = patch_paths(text).map_err(|problem| fault(&problem))?;
        let mut places = BTreeMap::new();
        for name in names {
            let place = cx.reach(base, &name, Access::Write)?;
            cx.workspace().require_writable(&place.path)?;
            places.insert(name, place.path);
        }
        Ok(Self { text: text.into(), places: Arc::new(places), knowledge, plan: None })
    }

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
                .with("path", name)
            })?;
            found.insert(name.to_owned(), current);
            Ok(Some(source))
        };
        let patched =
            plan_patch(&self.text, editing.manner, &mut lookup).map_err(|problem| match problem {
                PatchProblem::Lookup { error, .. } => error,
                problem => fault(&problem),
            })?;
        let place = |name: &str| self.places.get(name).cloned().unwrap_or_else(|| cx.cwd());
        let mut plan = Vec::with_capacity(patched.len());
        for text::Patched { path: name, outcome } in patched {
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
    /// A file that gets other content.
    pub(super) fn new(
        path: AbsPath,
        named: &str,
        fate: PatchFate,
        before: Current,
        after: Content,
        cx: &Context,
    ) -> Self {
        let diff = difference(named, &fate, Some(&before), Some(&after), cx);
        let file = PatchedFile { path, fate, diff, checked: None };
        Self { file, before: Some(before), after: Some(after), notes: Vec::new() }
    }

    /// What would change.
    pub(super) fn diff(&self) -> &str {
        &self.file.diff.text
    }

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

    /// Where the file is afterwards.
    fn now_at(&self) -> &AbsPath {
        match &self.file.fate {
            PatchFate::Moved(to) => to,
            _ => &self.file.path,
        }
    }

    fn tell(&self, cx: &Context) {
        if matches!(self.file.fate, PatchFate::Moved(_)) {
            cx.effect(Effect::Changed { path: self.file.path.clone(), now: Now::Gone });
        }
        let seen = self.after.as_ref().and_then(|after| seen(self.now_at(), after, cx));
        cx.effect(Effect::Changed { path: self.now_at().clone(), now: seen.map_or(Now::Gone, Now::Seen) });
    }
}

impl Operation for Patch {
    type Output = Patched;

    fn possible(cx: &Context) -> bool {
        cx.session().journal().is_some()
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

/// What would be changed, where it is only shown.
pub(super) fn shown(plan: Vec<Planned>) -> Patched {
    let files = plan.into_iter().map(|planned| planned.file).collect();
    Patched { number: None, files, notes: Vec::new() }
}

/// Makes all changes, or none.
pub(super) async fn commit(plan: Vec<Planned>, cx: &Context) -> Result<Patched, Fault> {
    let editing = cx.session().extension::<Editing>();
    let inside = cx.clone();
    cx.commit(Weight::Heavy, move |journal, label| {
        let changes = plan.iter().map(Planned::change).collect();
        let recorded = journal
            .change_all(inside.workspace(), changes, label)
            .map_err(|error| meanwhile(error, &plan, &inside))?;
        let mut notes = recorded.notes;
        let mut files = Vec::with_capacity(plan.len());
        for planned in plan {
            planned.tell(&inside);
            let mut file = planned.file.clone();
            if let Some(after) = &planned.after {
                let before = planned.before.as_ref().map(|before| before.bytes.clone());
                file.checked = checked(&editing.checkers, planned.now_at(), before, after);
            }
            notes.extend(planned.notes);
            files.push(file);
        }
        Ok(Patched { number: Some(recorded.number), files, notes })
    })
    .await
}

/// What to say of a patch that the journal could not make. Where somebody was faster, what they changed.
fn meanwhile(error: JournalError, plan: &[Planned], cx: &Context) -> Fault {
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
