//! `line_edit`: replaces lines by number, atomically.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Edited, Success, edited};
use haft_ops::{Change, Changed, LineContent, LineEdit as Lines, To};

/// Replaces lines of a file.
pub(crate) struct LineEdit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// File path
    #[schemars(example = &"src/main.py")]
    file_path: String,
    /// Array of line edits, applied one after another
    #[schemars(length(min = 1, max = 1000), example = example())]
    edits: Vec<OneEdit>,
}

fn example() -> serde_json::Value {
    serde_json::json!([{"start_line": 10, "end_line": 10, "new_content": "    return True"}])
}

/// Lines and what takes their place.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneEdit {
    /// First line to replace, counted from 1
    #[schemars(range(min = 1))]
    start_line: usize,
    /// Last line to replace, counted from 1
    #[schemars(range(min = 1))]
    end_line: usize,
    /// The lines that take their place: a string, or an array of lines; empty to delete
    new_content: NewContent,
}

/// New lines, in either form.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum NewContent {
    /// One text
    Text(String),
    /// A list of lines
    Lines(Vec<String>),
}

impl Tool for LineEdit {
    const NAME: &'static str = "line_edit";
    const DESCRIPTION: &'static str = include_str!("line_edit.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Success<Edited>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let lines = |edit: &OneEdit| Lines {
            start: edit.start_line,
            end: edit.end_line,
            content: match &edit.new_content {
                NewContent::Text(text) => LineContent::Text(text.clone()),
                NewContent::Lines(lines) => LineContent::Lines(lines.clone()),
            },
        };
        Change::edit(&input.file_path, To::Lines(input.edits.iter().map(lines).collect()), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(edited(input.edits.len(), output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
