//! `Write`: writes a whole file.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use haft_ops::{Change, Changed, Terms};

/// Writes a file.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The file to write
    #[schemars(example = "src/lib.rs")]
    file_path: String,
    /// All that the file is to contain
    #[schemars(example = "mod parser;\n")]
    content: String,
}

impl Tool for Write {
    const NAME: &'static str = "Write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        Change::write(&input.file_path, &input.content, Terms::default(), cx)
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.file_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
