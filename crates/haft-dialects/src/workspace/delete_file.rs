//! `delete_file`: deletes a file, or a directory with everything in it.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_journal::Depth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use haft_ops::{Entry, Remove, Removed};

/// Deletes a file or directory.
pub(crate) struct DeleteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path relative to the workspace root
    #[schemars(example = "old/notes.txt")]
    path: String,
    /// Delete a directory with everything in it
    #[serde(default)]
    recursive: bool,
}

/// The value of `delete_file`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// Everything that was deleted
    deleted: Vec<String>,
}

impl Tool for DeleteFile {
    const NAME: &'static str = "delete_file";
    const DESCRIPTION: &'static str = include_str!("delete_file.md");
    type Input = Input;
    type Op = Remove;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File)
            .sensitivity(Sensitivity::Extreme)
            .max_result(100_000, Cut::Start)
            .output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Remove, Fault> {
        let entry = Entry::find(&input.path, cx.workspace().root(), cx)?;
        let depth = if input.recursive { Depth::Tree } else { Depth::Empty };
        Ok(Remove::new(entry, depth, "`recursive`"))
    }

    fn approval(input: &Input, _op: &Remove, _cx: &Context) -> Approval {
        Approval::Needed(format!("`{}` would be deleted", input.path))
    }

    fn render(_input: &Input, output: Removed, cx: &Context) -> Result<Reply, Fault> {
        let deleted = output.paths.iter().map(|path| cx.workspace().display(path)).collect();
        Ok(with_notes(ok(Output { deleted }), output.notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.path.clone())
    }
}
