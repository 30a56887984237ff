//! Jupyter notebooks: rendering for a model, and edits of single cells. An edit changes the text of the file, so that
//! everything outside of the cell keeps its bytes. Knows no paths.

mod plan;
mod show;
mod write;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[allow(unused_imports)] // for the tool that changes notebooks
pub use plan::{CellEdit, CellMode};
pub use plan::{CellPlanned, plan_cell};
pub use show::{Part, show};

/// The type of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// Code.
    Code,
    /// Markdown text.
    Markdown,
    /// Raw content for other programs.
    Raw,
}

impl CellKind {
    /// Name of the type in notebooks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// A notebook whose cells are not parsed yet.
#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow)]
    cells: Option<&'a RawValue>,
    /// The cells of format 3.
    #[serde(default)]
    worksheets: Vec<Worksheet<'a>>,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    nbformat: Option<u64>,
    #[serde(default)]
    nbformat_minor: Option<u64>,
}

#[derive(Deserialize)]
struct Worksheet<'a> {
    #[serde(borrow, default)]
    cells: Vec<&'a RawValue>,
}

impl<'a> Notebook<'a> {
    /// Parses a notebook.
    fn parse(text: &'a str) -> Result<Self, String> {
        let notebook: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if notebook.cells.is_none() && notebook.worksheets.is_empty() {
            return Err("it has no `cells`".to_owned());
        }
        Ok(notebook)
    }

    fn cells(&self) -> Result<Vec<&'a RawValue>, String> {
        match self.cells {
            Some(cells) => serde_json::from_str(cells.get()).map_err(|error| error.to_string()),
            None => Ok(self.worksheets.iter().flat_map(|sheet| sheet.cells.iter().copied()).collect()),
        }
    }

    /// Whether the format requires ids of cells.
    fn has_ids(&self) -> bool {
        (self.nbformat.unwrap_or(4), self.nbformat_minor.unwrap_or(0)) >= (4, 5)
    }
}

/// The id of a cell.
fn id_of(cell: &Value) -> Option<&str> {
    cell.get("id").and_then(Value::as_str)
}

/// The name for a cell without an id: its number, from 0.
fn numbered(number: usize) -> String {
    format!("cell-{number}")
}

/// A text value of a notebook: a string, or a list of strings to join.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
