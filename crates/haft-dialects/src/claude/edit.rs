//! `Edit`: replaces text in a file.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use haft_ops::{Change, Changed, Occurrences, Replace, To};

/// Replaces text in a file.
pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The file to change
    #[schemars(example = "src/main.rs")]
    file_path: String,
    /// The text to replace, exactly as it is in the file
    #[schemars(example = "fn old()")]
    old_string: String,
    /// The text to put in its place; must differ from `old_string`
    #[schemars(example = "fn new()")]
    new_string: String,
    /// Replace every occurrence instead of the only one
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    const NAME: &'static str = "Edit";
    const DESCRIPTION: &'static str = include_str!("edit.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let occurrences = if input.replace_all { Occurrences::All } else { Occurrences::Only };
        let replace = Replace { old: input.old_string.clone(), new: input.new_string.clone(), occurrences };
        Change::edit(&input.file_path, To::Edits(vec![replace]), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.file_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
