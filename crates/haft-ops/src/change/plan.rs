//! Plans a change: computes the new content of a file in memory and checks the request against the current one. Writes
//! nothing.

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

/// A planned change: the content before and after it.
pub(super) struct ChangePlan {
    pub(super) before: Option<Current>,
    pub(super) content: Content,
    /// Number of places that change.
    pub(super) replaced: usize,
    pub(super) notes: Vec<String>,
    /// Replaced ranges and their new bytes; none if the whole content is new.
    pub(super) splices: Option<Splices>,
    /// Cache of the unified and the short diff.
    pub(super) diffs: Option<(Diff, Diff)>,
    /// Whether the user approved only a part of the request.
    pub(super) in_part: bool,
    /// The diff of the source of a notebook's cell, which is all that a model needs to see.
    pub(super) cell: Option<Diff>,
}

/// Opens the file to change; `None` if it does not exist.
pub(super) fn open(request: &ChangeRequest, cx: &Context) -> Result<Option<OpenFile>, Fault> {
    cx.workspace().require_writable(&request.path).map_err(|mut error| {
        error.path = request.named.clone();
        Fault::from(error)
    })?;
    Current::open(&request.path, &request.named, cx)
}

/// Plans the change of an open file, or of a new one.
pub(super) fn plan(
    request: &ChangeRequest,
    open: Option<OpenFile>,
    cx: &Context,
) -> Result<ChangePlan, Fault> {
    let ChangeRequest { path, named, to, terms } = request;
    let mut before = open.map(|open| Current::of(open, named)).transpose()?;
    match &before {
        Some(_) if terms.existing == Existing::Refuse => {
            return Err(Fault::new(FaultKind::Exists, format!("`{named}` exists already"))
                .hint("name another file, or say which text in this one is to be replaced")
                .at(named));
        }
        Some(before) => {
            before.require_known(path, named, terms.knowledge, cx)?;
            if to.is_whole() && terms.knowledge == Knowledge::Required {
                before.require_all_shown(path, named, cx)?;
            }
        }
        None => require_parent(request, cx)?,
    }
    let editing = cx.session().extension::<Editing>();
    let made = match to {
        To::Text(text) => whole(request, text, before.as_ref(), &editing, cx)?,
        To::Utf8(text) => exact(request, text, before.as_ref(), &editing)?,
        To::Bytes(bytes) => NewContent::all(bytes.clone().into()),
        To::Edits(edits) => edited(request, before.as_mut(), |source| {
            plan_edits(source, edits, editing.options)
                .map(|planned| (planned, Vec::new()))
                .map_err(|mismatch| fault(named, mismatch.message(), mismatch.hint()))
        })?,
        To::Lines(edits) => edited(request, before.as_mut(), |source| {
            plan_lines(source, edits, editing.options)
                .map(|lines| (lines.planned, lines.warnings))
                .map_err(|mismatch| fault(named, mismatch.message(), mismatch.hint()))
        })?,
        To::Cell(edit) => cell(request, edit, before.as_ref(), &editing)?,
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
    let mut plan =
        ChangePlan { before, content, replaced, notes, splices, diffs: None, cell, in_part: false };
    // The diff of a large file takes long: computing it here, on a blocking thread, does not hold up the runtime.
    if plan.size() > SMALL {
        plan.diffs(named);
    }
    Ok(plan)
}

/// New content of a file.
struct NewContent {
    content: Content,
    /// Replaced ranges and their new bytes; none if the whole content is new.
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

/// Checks that a new file can be created at the path.
fn require_parent(request: &ChangeRequest, cx: &Context) -> Result<(), Fault> {
    let ChangeRequest { path, named, to, terms } = request;
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

/// Plans a change of the whole text. A file that exists keeps its encoding and its line ends; a new one takes both from
/// its neighbours.
fn whole(
    request: &ChangeRequest,
    text: &str,
    before: Option<&Current>,
    editing: &Editing,
    cx: &Context,
) -> Result<NewContent, Fault> {
    let named = &request.named;
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    require_complete(request, source.as_ref().map_or("", |source| source.text()), text, editing)?;
    let unwritable = |hint: &str, error: haft_text::Unwritable| {
        Fault::new(FaultKind::Encoding, format!("`{named}`: {error}")).hint(hint).at(named)
    };
    let mut notes = Vec::new();
    let bytes = match (&source, before) {
        (Some(source), _) => source.rewritten(text).map_err(|error| {
            unwritable("delete the file first if it is to be written anew as UTF-8", error)
        })?,
        (None, Some(_)) if request.terms.knowledge == Knowledge::Required => {
            return Err(Fault::new(
                FaultKind::WrongKind,
                format!("`{named}` is a binary file, which a text would destroy"),
            )
            .hint("write to another path, or remove the file first if that is meant")
            .at(named));
        }
        (None, Some(_)) => text.as_bytes().to_vec(),
        (None, None) => {
            let (bytes, note) = neighbours::style(&request.path, cx)
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

/// Plans new content that is written exactly as given.
fn exact(
    request: &ChangeRequest,
    text: &str,
    before: Option<&Current>,
    editing: &Editing,
) -> Result<NewContent, Fault> {
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    require_complete(request, source.as_ref().map_or("", |source| source.text()), text, editing)?;
    Ok(NewContent::all(text.as_bytes().to_vec().into()))
}

/// Fails if the text has a placeholder line where code should be.
fn require_complete(request: &ChangeRequest, old: &str, text: &str, editing: &Editing) -> Result<(), Fault> {
    let Some((line, found)) = placeholder(old, text, editing.options) else { return Ok(()) };
    let mismatch = Mismatch { edit: 1, of: 1, problem: Problem::Placeholder { line, text: found } };
    Err(fault(&request.named, mismatch.message(), mismatch.hint()))
}

/// Plans edits of parts of the text.
fn edited(
    request: &ChangeRequest,
    before: Option<&mut Current>,
    plan: impl FnOnce(&Source) -> Result<(EditPlan, Vec<String>), Fault>,
) -> Result<NewContent, Fault> {
    let named = &request.named;
    let Some(before) = before else {
        return Err(Fault::new(FaultKind::NotFound, format!("`{named}` does not exist")).at(named));
    };
    // The bytes move into the source and back, to avoid a copy of a large file.
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

/// Plans the insertion, replacement or deletion of a notebook cell.
fn cell(
    request: &ChangeRequest,
    edit: &CellEdit,
    before: Option<&Current>,
    editing: &Editing,
) -> Result<NewContent, Fault> {
    let named = &request.named;
    let source = before.and_then(|before| Source::new(before.bytes.to_vec()).ok());
    let Some(source) = source else {
        return Err(Fault::new(FaultKind::WrongKind, format!("`{named}` is no notebook")).at(named));
    };
    let planned =
        plan_cell(&source, edit).map_err(|problem| fault(named, problem.message(), Some(problem.hint())))?;
    let CellPlanned { bytes, cell_id, number, was, .. } = planned;
    if edit.mode != CellMode::Delete {
        require_complete(request, was.as_deref().unwrap_or_default(), &edit.source, editing)?;
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

/// Unified and short diff of a change.
pub(super) fn diffs_of(
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

impl ChangePlan {
    /// Size in bytes of the larger version, before or after the change.
    pub(super) fn size(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.bytes.len() as u64).max(self.content.len())
    }

    /// Unified and short diff of the change, computed once.
    pub(super) fn diffs(&mut self, named: &str) -> &(Diff, Diff) {
        let Self { before, content, splices, diffs, .. } = self;
        diffs.get_or_insert_with(|| diffs_of(named, before.as_ref(), content, splices.as_ref()))
    }

    /// Reduces the plan to content with this number of places changed, after the user chose some parts of the change.
    pub(super) fn reduce(&mut self, content: Vec<u8>, places: usize) {
        (self.replaced, self.in_part) = (places, true);
        (self.content, self.splices, self.diffs, self.cell) = (content.into(), None, None, None);
    }
}
