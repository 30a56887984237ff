//! `edit`: replaces several texts in one file, atomically.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Edited, Success, edited};
use haft_ops::{Change, Changed, Occurrences, Replace, To};

/// Replaces texts in a file.
pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// File path
    #[schemars(example = &"src/main.py")]
    file_path: String,
    /// Array of edit operations, applied one after another
    #[schemars(length(min = 1, max = 1000), example = example())]
    edits: Vec<OneEdit>,
}

fn example() -> serde_json::Value {
    serde_json::json!([{"old_string": "def hello():", "new_string": "def hello_world():"}])
}

/// One replacement.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneEdit {
    /// Text to replace
    old_string: String,
    /// Replacement text
    new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("edit.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Success<Edited>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let replace = |edit: &OneEdit| Replace {
            old: edit.old_string.clone(),
            new: edit.new_string.clone(),
            occurrences: if edit.replace_all { Occurrences::All } else { Occurrences::Only },
        };
        Change::edit(&input.file_path, To::Edits(input.edits.iter().map(replace).collect()), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(edited(input.edits.len(), output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
