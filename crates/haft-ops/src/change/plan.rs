//! What a file will be, worked out in memory.

use haft_core::{Context, Fault, FaultKind};
use haft_journal::Content;
use haft_sandbox::OpenFile;

use super::current::Current;
use super::{ChangeRequest, Existing, Knowledge, Parents, Same, To, differences, neighbours};
use crate::{Editing, SMALL};
use haft_text::notebook::{CellEdit, CellMode, CellPlanned, plan_cell};
use haft_text::{
    Diff, DiffLimits, EditPlan, Mismatch, Problem, Side, Source, Splices, placeholder, plan_edits,
    plan_lines, unified_and_short,
};

/// What a file will be.
pub(super) struct Plan {
    pub(super) before: Option<Current>,
    pub(super) content: Content,
    pub(super) replaced: usize,
    pub(super) notes: Vec<String>,
    /// What goes of the file before and what comes, where not all of it is new.
    pub(super) splices: Option<Splices>,
    /// What changes, in both forms, once that is known.
    pub(super) shown: Option<(Diff, Diff)>,
    /// Whether it is a part of what was asked for.
    pub(super) in_part: bool,
    /// What changes in the source of a notebook's cell, which is all that a model needs to see of it.
    pub(super) cell: Option<Diff>,
}

/// Opens the file that is to be changed, if there is one.
pub(super) fn open(asked: &ChangeRequest, cx: &Context) -> Result<Option<OpenFile>, Fault> {
    cx.workspace().require_writable(&asked.path).map_err(|mut error| {
        error.path = asked.named.clone();
        Fault::from(error)
    })?;
    Current::open(&asked.path, &asked.named, cx)
}

/// Plans a change of what was opened.
pub(super) fn plan(asked: &ChangeRequest, open: Option<OpenFile>, cx: &Context) -> Result<Plan, Fault> {
    let ChangeRequest { path, named, to, terms } = asked;
    let mut before = open.map(|open| Current::of(open, named)).transpose()?;
    match &before {
        Some(_) if terms.existing == Existing::Refuse => {
            return Err(Fault::new(FaultKind::Exists, format!("`{named}` exists already"))
                .hint("name another file, or say which text in this one is to be replaced")
                .at(named));
        }
        Some(before) => before.require_known(path, named, terms.knowledge, cx)?,
        None => require_parent(asked, cx)?,
    }
    let editing = cx.session().extension::<Editing>();
    let made = match to {
        To::Text(text) => whole(asked, text, before.as_ref(), &editing, cx)?,
        To::Utf8(text) => exact(asked, text, before.as_ref(), &editing)?,
        To::Bytes(bytes) => NewContent::all(bytes.clone().into()),
        To::Edits(edits) => edited(asked, before.as_mut(), |source| {
            plan_edits(source, edits, editing.manner)
                .map(|planned| (planned, Vec::new()))
                .map_err(|mismatch| fault(named, mismatch.message(), mismatch.hint()))
        })?,
        To::Lines(edits) => edited(asked, before.as_mut(), |source| {
            plan_lines(source, edits, editing.manner)
                .map(|lines| (lines.planned, lines.warnings))
                .map_err(|mismatch| fault(named, mismatch.message(), mismatch.hint()))
        })?,
        To::Cell(edit) => cell(asked, edit, before.as_ref(), &editing)?,
    };
    if terms.same == Same::Refuse && before.as_ref().is_some_and(|before| before.hash == made.content.hash())
    {
        return Err(Fault::invalid(format!(
            "`{named}` has exactly this content already; nothing was written"
        ))
        .hint("there is nothing to do")
        .at(named));
    }
    let NewContent { content, splices, replaced, notes, cell } = made;
    let mut plan = Plan { before, content, replaced, notes, splices, shown: None, cell, in_part: false };
    // What takes long is done here, where nobody else waits for it.
    if plan.held() > SMALL {
        plan.shown(named);
    }
    Ok(plan)
}

/// A file as it will be.
struct NewContent {
    content: Content,
    /// What goes of the file before and what comes, where not all of it is new.
    splices: Option<Splices>,
    replaced: usize,
    notes: Vec<String>,
    /// What changes in the source of a cell.
    cell: Option<Diff>,
}

impl NewContent {
    fn all(content: Content) -> Self {
        Self { content, splices: None, replaced: 1, notes: Vec::new(), cell: None }
    }
}

fn require_parent(asked: &ChangeRequest, cx: &Context) -> Result<(), Fault> {
    let ChangeRequest { path, named, to, terms } = asked;
    if !matches!(to, To::Text(_) | To::Utf8(_) | To::Bytes(_)) {
        return Err(Fault::new(FaultKind::NotFound, format!("`{named}` does not exist")).at(named));
    }
    if named.ends_with('/') {
        return Err(Fault::new(FaultKind::WrongKind, format!("`{named}` names a folder, not a file"))
            .hint("add a file name to it")
            .at(named));
    }
    let parents = cx.workspace().missing_parents(path).map_err(|mut error| {
        error.path = named.clone();
        Fault::from(error)
    })?;
    match (terms.parents, parents.first()) {
        (Parents::Require(how), Some(parent)) => {
            let shown = cx.workspace().display(parent);
            Err(Fault::new(FaultKind::NotFound, format!("the folder `{shown}` of `{named}` does not exist"))
                .hint(format!("set {how} to make missing folders, or name a folder that exists"))
                .at(named))
        }
        _ => Ok(()),
    }
}

/// All of the text is new. A file that exists keeps its encoding and its line ends; a new one looks like its
/// neighbours.
fn whole(
    asked: &ChangeRequest,
    text: &str,
    before: Option<&Current>,
    editing: &Editing,
    cx: &Context,
) -> Result<NewContent, Fault> {
    let named = &asked.named;
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    require_complete(asked, source.as_ref().map_or("", |source| source.text()), text, editing)?;
    let unwritable = |hint: &str, error: haft_text::Unwritable| {
        Fault::new(FaultKind::Encoding, format!("`{named}`: {error}")).hint(hint).at(named)
    };
    let mut notes = Vec::new();
    let bytes = match (&source, before) {
        (Some(source), _) => source.rewritten(text).map_err(|error| {
            unwritable("delete the file first if it is to be written anew as UTF-8", error)
        })?,
        (None, Some(_)) if asked.terms.knowledge == Knowledge::Required => {
            return Err(Fault::new(
                FaultKind::WrongKind,
                format!("`{named}` is a binary file, which a text would destroy"),
            )
            .hint("write to another path, or remove the file first if that is meant")
            .at(named));
        }
        (None, Some(_)) => text.as_bytes().to_vec(),
        (None, None) => {
            let (bytes, note) = neighbours::style(&asked.path, cx)
                .bytes(text)
                .map_err(|error| unwritable("write it as an escape of the language the file is in", error))?;
            notes.extend(note);
            bytes
        }
    };
    if let Some(source) = source.filter(|source| source.endings().mixed())
        && text.contains('\n')
    {
        notes.push(format!("line ends were mixed; all are {} now, like most were", source.ending()));
    }
    Ok(NewContent { notes, ..NewContent::all(bytes.into()) })
}

/// All of the text is new, and written as it is given.
fn exact(
    asked: &ChangeRequest,
    text: &str,
    before: Option<&Current>,
    editing: &Editing,
) -> Result<NewContent, Fault> {
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    require_complete(asked, source.as_ref().map_or("", |source| source.text()), text, editing)?;
    Ok(NewContent::all(text.as_bytes().to_vec().into()))
}

/// Refuses a text that has a reminder of code where the code should be.
fn require_complete(asked: &ChangeRequest, old: &str, text: &str, editing: &Editing) -> Result<(), Fault> {
    let Some((line, found)) = placeholder(old, text, editing.manner) else { return Ok(()) };
    let mismatch = Mismatch { edit: 1, of: 1, problem: Problem::Placeholder { line, text: found } };
    Err(fault(&asked.named, mismatch.message(), mismatch.hint()))
}

/// Parts of the text are new.
fn edited(
    asked: &ChangeRequest,
    before: Option<&mut Current>,
    plan: impl FnOnce(&Source) -> Result<(EditPlan, Vec<String>), Fault>,
) -> Result<NewContent, Fault> {
    let named = &asked.named;
    let Some(before) = before else {
        return Err(Fault::new(FaultKind::NotFound, format!("`{named}` does not exist")).at(named));
    };
    // The bytes move into the source and back: a large file is not copied.
    let source = Source::new(std::mem::take(&mut before.bytes).into()).map_err(|_| {
        Fault::new(FaultKind::WrongKind, format!("`{named}` is a binary file; only text can be edited"))
            .hint("change binary files with a command")
            .at(named)
    })?;
    let (planned, mut notes) = plan(&source)?;
    notes.extend(planned.notes.iter().map(ToString::to_string));
    before.bytes = source.into_bytes().into();
    let content = planned.splices.content(&before.bytes);
    let splices = Some(planned.splices);
    Ok(NewContent { content, replaced: planned.replaced, notes, splices, cell: None })
}

/// A cell is new, or gone, or says something else.
fn cell(
    asked: &ChangeRequest,
    edit: &CellEdit,
    before: Option<&Current>,
    editing: &Editing,
) -> Result<NewContent, Fault> {
    let named = &asked.named;
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    let Some(source) = source else {
        return Err(Fault::new(FaultKind::WrongKind, format!("`{named}` is no notebook")).at(named));
    };
    let planned =
        plan_cell(&source, edit).map_err(|problem| fault(named, problem.message(), Some(problem.hint())))?;
    let CellPlanned { bytes, cell_id, number, was, .. } = planned;
    if edit.mode != CellMode::Delete {
        require_complete(asked, was.as_deref().unwrap_or_default(), &edit.source, editing)?;
    }
    let mut made = NewContent::all(bytes.into());
    let source = if edit.mode == CellMode::Delete { "" } else { &edit.source };
    let side = |text| Side { name: named, bytes: str::as_bytes(text) };
    let (_, mut short) =
        unified_and_short(side(was.as_deref().unwrap_or_default()), side(source), DiffLimits::default());
    if edit.mode == CellMode::Insert {
        // The model has just written all of it.
        short.text.clear();
    }
    made.cell = Some(short);
    if edit.mode == CellMode::Insert {
        let id = cell_id.map(|id| format!(" and has the id `{id}`")).unwrap_or_default();
        made.notes.push(format!("the new cell is number {number}{id}"));
    }
    Ok(made)
}

fn fault(named: &str, message: String, hint: Option<String>) -> Fault {
    let fault = Fault::new(FaultKind::NoMatch, format!("`{named}`: {message}")).at(named);
    match hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// What changes, in both forms.
pub(super) fn differing(
    named: &str,
    before: Option<&Current>,
    content: &Content,
    splices: Option<&Splices>,
) -> (Diff, Diff) {
    let old: &[u8] = before.map_or(&[], |before| &before.bytes);
    splices.and_then(|splices| differences::of_splices(named, old, splices, content.len())).unwrap_or_else(
        || {
            let missing = if before.is_some() { named } else { "/dev/null" };
            let (limits, after) = (DiffLimits::default(), content.whole());
            unified_and_short(Side { name: missing, bytes: old }, Side { name: named, bytes: &after }, limits)
        },
    )
}

impl Plan {
    /// How much of a text is held, before or after.
    pub(super) fn held(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.bytes.len() as u64).max(self.content.len())
    }

    /// What changes, in both forms.
    pub(super) fn shown(&mut self, named: &str) -> &(Diff, Diff) {
        let Self { before, content, splices, shown, .. } = self;
        shown.get_or_insert_with(|| differing(named, before.as_ref(), content, splices.as_ref()))
    }

    /// Makes it a plan for content with only so many places changed.
    pub(super) fn reduce(&mut self, content: Vec<u8>, places: usize) {
        (self.replaced, self.in_part) = (places, true);
        (self.content, self.splices, self.shown, self.cell) = (content.into(), None, None, None);
    }
}
