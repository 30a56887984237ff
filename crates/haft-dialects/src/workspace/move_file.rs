//! `move_file`: moves or renames a file or directory.

use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use haft_ops::{Entry, Rename, Renamed, Replacing};

/// Moves or renames a file.
pub(crate) struct MoveFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path of what is moved, relative to the workspace root
    #[schemars(example = "a.txt")]
    from: String,
    /// Its new path, relative to the workspace root
    #[schemars(example = "docs/a.txt")]
    to: String,
    /// Replace a file that is there
    #[serde(default)]
    overwrite: bool,
}

/// The value of `move_file`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The path before, relative to the workspace root
    from: String,
    /// The path now, relative to the workspace root
    to: String,
}

impl Tool for MoveFile {
    const NAME: &'static str = "move_file";
    const DESCRIPTION: &'static str = include_str!("move_file.md");
    type Input = Input;
    type Op = Rename;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Rename, Fault> {
        let root = cx.workspace().root();
        let replace = if input.overwrite { Replacing::Allow } else { Replacing::Refuse("`overwrite`") };
        Ok(Rename::new(Entry::find(&input.from, root, cx)?, Entry::find(&input.to, root, cx)?, replace))
    }

    fn approval(input: &Input, op: &Rename, _cx: &Context) -> Approval {
        match op.replaces() {
            true => Approval::Needed(format!("`{}` would be overwritten", input.to)),
            false => Approval::NotNeeded,
        }
    }

    fn render(input: &Input, output: Renamed, cx: &Context) -> Result<Reply, Fault> {
        let shown = |path: &str| {
            let entry = Entry::find(path, cx.workspace().root(), cx);
            entry.map_or_else(|_| path.to_owned(), |entry| cx.workspace().display(&entry.path))
        };
        Ok(with_notes(ok(Output { from: shown(&input.from), to: shown(&input.to) }), output.notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(format!("{} → {}", input.from, input.to))
    }
}
