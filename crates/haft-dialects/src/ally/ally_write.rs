//! `ally_write`: replaces the notes about the project.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::write::Output;
use super::{Success, with_file};
use haft_ops::{self as ops, Change, ChangeRequest, Changed, Terms, To};

/// The file of the notes, in the root of the workspace.
const NOTES: &str = "ALLY.md";

/// Writes the notes.
pub(crate) struct AllyWrite;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// All of the notes, in Markdown
    #[schemars(example = &"# Notes\n\nTests run with `make test`.\n", length(min = 1))]
    content: String,
}

impl Tool for AllyWrite {
    const NAME: &'static str = "ally_write";
    const DESCRIPTION: &'static str = include_str!("ally_write.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let path = ops::writable(NOTES, cx.workspace().root(), cx)?;
        let to = To::Text(input.content.clone());
        Ok(Change::new(ChangeRequest { path, named: NOTES.to_owned(), to, terms: Terms::default() }))
    }

    fn render(_input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        let bytes_written = output.size;
        Ok(with_file(output, cx, |file| Output { bytes_written, file }))
    }

    fn preview_use(_input: &Input) -> Option<String> {
        Some(NOTES.to_owned())
    }
}
