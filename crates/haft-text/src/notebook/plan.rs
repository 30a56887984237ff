//! Plans the edit of one cell as changes to the text of the notebook; the rest of the file is not touched.

use std::ops::Range;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::write::JsonStyle;
use super::{CellKind, Notebook, id_of, joined, numbered};
use crate::Source;
use crate::mismatch::listed;

/// Most ids suggested for an unknown one.
const MAX_SUGGESTIONS: usize = 3;
/// Nesting depth of a cell in the file.
const CELL_DEPTH: usize = 2;

/// The kind of edit of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellMode {
    /// Replaces its source.
    Replace,
    /// Inserts a new cell after the named one, or as the first one.
    Insert,
    /// Deletes it.
    Delete,
}

/// An edit of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellEdit {
    /// The cell: an id, or a number from 0 as `3` or `cell-3`.
    pub cell: Option<String>,
    /// New type; required for a new cell.
    pub kind: Option<CellKind>,
    /// New source.
    pub source: String,
    /// The kind of edit.
    pub mode: CellMode,
}

/// A planned edit of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellPlanned {
    /// The file after the edit.
    pub bytes: Vec<u8>,
    /// Id of the cell, if the notebook has ids.
    pub cell_id: Option<String>,
    /// Number of the cell, from 0.
    pub number: usize,
    /// Type of the cell after the edit.
    pub kind: CellKind,
    /// Source of the cell before the edit.
    pub was: Option<String>,
}

/// Why a cell cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellProblem {
    #[error("it is no notebook: {0}")]
    NoNotebook(String),
    #[error("it is a notebook of format {0}, and only format 4 can be changed")]
    OldFormat(u64),
    #[error("no cell is named")]
    NoCell,
    #[error("it has no cell `{cell}`")]
    UnknownCell { cell: String, near: Vec<String>, cells: usize },
    #[error("cells {} have the id `{cell}`", listed(&numbers.iter().map(String::as_str).collect::<Vec<_>>()))]
    SeveralCells { cell: String, numbers: Vec<String> },
    #[error("the kind of the new cell is not given")]
    NoKind,
    #[error("{0}")]
    Unwritable(String),
}

impl CellProblem {
    /// One-line error message.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Advice on how to correct the edit.
    pub fn hint(&self) -> String {
        match self {
            Self::NoNotebook(_) => "change it as text".to_owned(),
            Self::OldFormat(_) => "convert it with `jupyter nbconvert --to notebook` first".to_owned(),
            Self::NoCell => "name it by its id or its number, as a read shows them".to_owned(),
            Self::UnknownCell { cells: 0, .. } => {
                "the notebook is empty; insert without naming a cell".to_owned()
            }
            Self::UnknownCell { near, cells, .. } => {
                let near: Vec<&str> = near.iter().map(String::as_str).collect();
                let count = if *cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
                format!("it has {count}; did you mean {}?", haft_core::suggest::or_list(&near))
            }
            Self::SeveralCells { .. } => "name the one that is meant by its number".to_owned(),
            Self::NoKind => "say whether it is code or markdown".to_owned(),
            Self::Unwritable(_) => "write it with other characters".to_owned(),
        }
    }
}

/// Plans the edit of one cell.
pub fn plan_cell(source: &Source, edit: &CellEdit) -> Result<CellPlanned, CellProblem> {
    let text = source.text();
    let notebook = Notebook::parse(text).map_err(CellProblem::NoNotebook)?;
    let Some(array) = notebook.cells else {
        return Err(CellProblem::OldFormat(notebook.nbformat.unwrap_or(3)));
    };
    let raw = notebook.cells().map_err(CellProblem::NoNotebook)?;
    let cells: Result<Vec<Value>, _> = raw.iter().map(|cell| serde_json::from_str(cell.get())).collect();
    let cells = cells.map_err(|error| CellProblem::NoNotebook(error.to_string()))?;
    let at = edit.cell.as_ref().map(|cell| find(cell, &cells)).transpose()?;
    let file = NotebookText {
        text,
        style: JsonStyle::detect(text),
        array: span(text, array),
        cells: raw.iter().map(|cell| span(text, cell)).collect(),
        has_ids: notebook.has_ids(),
    };
    let (splices, planned) = match edit.mode {
        CellMode::Insert => file.insert(at, edit, &cells)?,
        CellMode::Replace => file.replace(at.ok_or(CellProblem::NoCell)?, edit, &cells, raw)?,
        CellMode::Delete => file.delete(at.ok_or(CellProblem::NoCell)?, &cells),
    };
    let mut bytes = Vec::with_capacity(source.bytes().len() + edit.source.len());
    let mut done = 0;
    for (range, new) in splices {
        let place = |at| {
            source.byte_at(at).ok_or_else(|| CellProblem::NoNotebook("its characters overlap".to_owned()))
        };
        let new = source.encode(&new).map_err(|error| CellProblem::Unwritable(error.to_string()))?;
        bytes.extend_from_slice(&source.bytes()[done..place(range.start)?]);
        bytes.extend_from_slice(&new);
        done = place(range.end)?;
    }
    bytes.extend_from_slice(&source.bytes()[done..]);
    Ok(CellPlanned { bytes, ..planned })
}

/// Index of the named cell. Looks for ids first, because an id may look like a number.
fn find(cell: &str, cells: &[Value]) -> Result<usize, CellProblem> {
    let known = cells.iter().enumerate().filter(|(_, known)| id_of(known) == Some(cell));
    match known.map(|(at, _)| at).collect::<Vec<_>>()[..] {
        [] => {}
        [at] => return Ok(at),
        ref several => {
            let numbers = several.iter().map(usize::to_string).collect();
            return Err(CellProblem::SeveralCells { cell: cell.to_owned(), numbers });
        }
    }
    let number = cell.strip_prefix("cell-").unwrap_or(cell).parse::<usize>().ok();
    if let Some(number) = number.filter(|number| *number < cells.len()) {
        return Ok(number);
    }
    let names: Vec<String> = cells
        .iter()
        .enumerate()
        .map(|(number, known)| id_of(known).map_or_else(|| numbered(number), str::to_owned))
        .collect();
    let mut near: Vec<String> =
        haft_core::suggest::nearest(cell, names.iter().map(String::as_str), MAX_SUGGESTIONS)
            .into_iter()
            .map(str::to_owned)
            .collect();
    if near.is_empty() {
        near = names.into_iter().take(MAX_SUGGESTIONS).collect();
    }
    Err(CellProblem::UnknownCell { cell: cell.to_owned(), near, cells: cells.len() })
}

/// Range of a parsed part within its text.
fn span(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.get().len()
}

/// Ranges of the text and their replacements, in order.
type Changes = Vec<(Range<usize>, String)>;

/// The text of a notebook, with the positions of its cells.
struct NotebookText<'a> {
    text: &'a str,
    style: JsonStyle,
    array: Range<usize>,
    cells: Vec<Range<usize>>,
    has_ids: bool,
}

impl NotebookText<'_> {
    fn insert(
        &self,
        after: Option<usize>,
        edit: &CellEdit,
        cells: &[Value],
    ) -> Result<(Changes, CellPlanned), CellProblem> {
        let kind = edit.kind.ok_or(CellProblem::NoKind)?;
        let number = after.map_or(0, |after| after + 1);
        let id = self.has_ids.then(|| new_id(&edit.source, number, cells));
        let cell = self.style.write(&new_cell(kind, &edit.source, id.as_deref()), CELL_DEPTH);
        let between = self.style.between(CELL_DEPTH);
        let change = match (after, self.cells.first()) {
            (Some(after), _) => {
                let end = self.cells[after].end;
                (end..end, format!("{between}{cell}"))
            }
            (None, Some(first)) => (first.start..first.start, format!("{cell}{between}")),
            (None, None) => {
                let (before, end) = (self.style.before(CELL_DEPTH), self.style.before(CELL_DEPTH - 1));
                (self.array.clone(), format!("[{before}{cell}{end}]"))
            }
        };
        let planned = CellPlanned { bytes: Vec::new(), cell_id: id, number, kind, was: None };
        Ok((vec![change], planned))
    }

    fn delete(&self, number: usize, cells: &[Value]) -> (Changes, CellPlanned) {
        let this = &self.cells[number];
        let range = match (self.cells.get(number + 1), number.checked_sub(1)) {
            (Some(next), _) => this.start..next.start,
            (None, Some(before)) => self.cells[before].end..this.end,
            (None, None) => self.array.clone(),
        };
        let new = if self.cells.len() == 1 { "[]".to_owned() } else { String::new() };
        let cell = &cells[number];
        (vec![(range, new)], self.planned(number, cell, kind_of(cell)))
    }

    fn replace(
        &self,
        number: usize,
        edit: &CellEdit,
        cells: &[Value],
        raw: Vec<&RawValue>,
    ) -> Result<(Changes, CellPlanned), CellProblem> {
        let cell = &cells[number];
        let was = kind_of(cell);
        let kind = edit.kind.unwrap_or(was);
        let planned = self.planned(number, cell, kind);
        let fields: Map<String, Value> = cell.as_object().cloned().unwrap_or_default();
        let complete = fields.contains_key("source")
            && (kind != CellKind::Code
                || (fields.contains_key("outputs") && fields.contains_key("execution_count")));
        if kind != was || !complete {
            let new_cell = rewritten(fields, kind, &edit.source);
            return Ok((
                vec![(self.cells[number].clone(), self.style.write(&new_cell, CELL_DEPTH))],
                planned,
            ));
        }
        let known: indexed::Fields<'_> = serde_json::from_str(raw[number].get())
            .map_err(|error| CellProblem::NoNotebook(error.to_string()))?;
        let mut changes = vec![(known.source, source_lines(&edit.source))];
        if kind == CellKind::Code {
            changes.push((known.outputs, json!([])));
            changes.push((known.execution_count, Value::Null));
        }
        let mut changes: Changes = changes
            .into_iter()
            .filter_map(|(place, value)| {
                Some((span(self.text, place?), self.style.write(&value, CELL_DEPTH + 1)))
            })
            .collect();
        changes.sort_by_key(|(range, _)| range.start);
        Ok((changes, planned))
    }

    fn planned(&self, number: usize, cell: &Value, kind: CellKind) -> CellPlanned {
        let cell_id = id_of(cell).map(str::to_owned);
        CellPlanned { bytes: Vec::new(), cell_id, number, kind, was: Some(joined(cell.get("source"))) }
    }
}

/// Positions of the fields of a cell that are changed one by one.
mod indexed {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    #[derive(Deserialize)]
    pub(super) struct Fields<'a> {
        #[serde(borrow)]
        pub(super) source: Option<&'a RawValue>,
        #[serde(borrow)]
        pub(super) outputs: Option<&'a RawValue>,
        #[serde(borrow)]
        pub(super) execution_count: Option<&'a RawValue>,
    }
}

fn kind_of(cell: &Value) -> CellKind {
    match cell.get("cell_type").and_then(Value::as_str) {
        Some("markdown") => CellKind::Markdown,
        Some("raw") => CellKind::Raw,
        _ => CellKind::Code,
    }
}

/// A source in Jupyter's form: a list of lines with their line ends.
fn source_lines(source: &str) -> Value {
    Value::from(source.split_inclusive('\n').collect::<Vec<_>>())
}

fn new_cell(kind: CellKind, source: &str, id: Option<&str>) -> Value {
    let mut cell = Map::new();
    cell.insert("cell_type".into(), json!(kind.name()));
    if kind == CellKind::Code {
        cell.insert("execution_count".into(), Value::Null);
    }
    if let Some(id) = id {
        cell.insert("id".into(), json!(id));
    }
    cell.insert("metadata".into(), json!({}));
    if kind == CellKind::Code {
        cell.insert("outputs".into(), json!([]));
    }
    cell.insert("source".into(), source_lines(source));
    Value::Object(cell)
}

/// The cell with another type or with missing fields added. Keeps all fields that both types have.
fn rewritten(old: Map<String, Value>, kind: CellKind, source: &str) -> Value {
    let Value::Object(mut cell) = new_cell(kind, source, None) else { return Value::Null };
    let only_code = |name: &str| matches!(name, "outputs" | "execution_count");
    for (name, value) in old {
        if !only_code(&name) && !matches!(name.as_str(), "cell_type" | "source") {
            cell.insert(name, value);
        }
    }
    cell.sort_keys();
    Value::Object(cell)
}

/// A deterministic id for a new cell, derived from its source and number, that no other cell has.
fn new_id(source: &str, number: usize, cells: &[Value]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("{:08x}", (hash >> 32) as u32 ^ hash as u32)
    };
    mix(&number.to_le_bytes());
    let mut id = mix(source.as_bytes());
    while cells.iter().any(|cell| id_of(cell) == Some(id.as_str())) {
        id = mix(b"again");
    }
    id
}
