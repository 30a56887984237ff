//! `write`: writes a whole file.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use haft_ops::{Change, Changed, Same, Terms};

/// Writes a file.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path of the file
    #[schemars(length(min = 1), example = &"main.go")]
    file_path: String,
    /// Content to write
    #[schemars(example = &"package main\n")]
    content: String,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let terms = Terms { same: Same::Refuse, ..Terms::default() };
        Change::write(&input.file_path, &input.content, terms, cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.file_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
