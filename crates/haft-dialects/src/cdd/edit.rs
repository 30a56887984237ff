//! `edit`: creates a file, deletes text or replaces text, depending on which of the two texts is empty.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use haft_ops::{Change, Changed, Existing, Occurrences, Replace, Terms, To};

/// Edits a file.
pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path of the file
    #[schemars(length(min = 1), example = &"main.go")]
    file_path: String,
    /// Text to find; empty to make a new file
    #[serde(default)]
    old_string: String,
    /// Text to put in its place; empty to delete what was found
    #[serde(default)]
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
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let Input { file_path, old_string, new_string, .. } = input;
        if old_string.is_empty() {
            let terms = Terms { existing: Existing::Refuse, ..Terms::default() };
            return Change::write(file_path, new_string, terms, cx);
        }
        let occurrences = if input.replace_all { Occurrences::All } else { Occurrences::Only };
        let replace = Replace { old: old_string.clone(), new: new_string.clone(), occurrences };
        Change::edit(file_path, To::Edits(vec![replace]), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.file_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
