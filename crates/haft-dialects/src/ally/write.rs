//! `write`: creates or overwrites a file.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChangedFile, Success, with_file};
use haft_ops::{Change, Changed, Terms};

/// Writes a file.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// File path
    #[schemars(example = &"output.txt")]
    file_path: String,
    /// Content to write
    #[schemars(example = &"Hello world")]
    content: String,
}

/// The reply of what writes a whole file.
#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    /// How many bytes the file has now
    pub(super) bytes_written: u64,
    #[serde(flatten)]
    pub(super) file: ChangedFile,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        Change::write(&input.file_path, &input.content, Terms::default(), cx)
    }

    fn render(_input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        let bytes_written = output.size;
        Ok(with_file(output, cx, |file| Output { bytes_written, file }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
