//! `NotebookEdit`: edits one cell of a notebook.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use haft_ops::{CellEdit, CellKind, CellMode, Change, Changed, To};

/// Changes a cell.
pub(crate) struct NotebookEdit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The notebook to change
    #[schemars(example = "analysis.ipynb")]
    notebook_path: String,
    /// The new source of the cell; left alone when a cell is deleted
    #[schemars(example = "print(1)")]
    new_source: String,
    /// The cell: its id, or its number counted from 0. A new cell comes after it, or first without one
    cell_id: Option<String>,
    /// What kind of cell it is to be; needed for a new one
    cell_type: Option<CellType>,
    /// What to do
    #[serde(default)]
    edit_mode: EditMode,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CellType {
    Code,
    Markdown,
    Raw,
}

#[derive(Clone, Copy, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

impl Tool for NotebookEdit {
    const NAME: &'static str = "NotebookEdit";
    const DESCRIPTION: &'static str = include_str!("notebook_edit.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let edit = CellEdit {
            cell: input.cell_id.clone(),
            kind: input.cell_type.map(|kind| match kind {
                CellType::Code => CellKind::Code,
                CellType::Markdown => CellKind::Markdown,
                CellType::Raw => CellKind::Raw,
            }),
            source: input.new_source.clone(),
            mode: match input.edit_mode {
                EditMode::Replace => CellMode::Replace,
                EditMode::Insert => CellMode::Insert,
                EditMode::Delete => CellMode::Delete,
            },
        };
        Change::edit(&input.notebook_path, To::Cell(edit), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.notebook_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(match &input.cell_id {
            Some(cell) => format!("{} cell {cell}", input.notebook_path),
            None => input.notebook_path.clone(),
        })
    }
}
