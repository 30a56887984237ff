//! `write`: makes or overwrites a file.

use haft::{Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FileCheck, Success, file_check, noted, recently_modified, success};
use crate::ops::{self, Asked, Change, Changed, Terms, To};

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

/// The reply of `write`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The absolute path of the file
    file_path: String,
    /// How many bytes the file has now
    bytes_written: u64,
    /// The number to undo this by; none where the file had this content already
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_number: Option<u64>,
    /// What the syntax check found, for files that can be checked
    #[serde(skip_serializing_if = "Option::is_none")]
    file_check: Option<FileCheck>,
    /// Files that were modified last
    recently_modified: Vec<String>,
    /// What changed
    #[serde(skip_serializing_if = "String::is_empty")]
    diff: String,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category("file").sensitivity(Sensitivity::Sensitive).output::<Success<Output>>()
    }

    fn enabled(cx: &Context) -> bool {
        cx.session().journal().is_some()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        Ok(Change::new(Asked {
            path: ops::writable(&input.file_path, &cx.cwd(), cx)?,
            named: input.file_path.clone(),
            to: To::Text(input.content.clone()),
            terms: Terms::default(),
        }))
    }

    fn render(_input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        let Changed { path, number, size, diff, notes, checked, .. } = output;
        let told = Output {
            file_path: path.to_string(),
            bytes_written: size,
            patch_number: number,
            file_check: checked.map(file_check),
            recently_modified: recently_modified(number.and(Some(&path)), cx),
            diff: diff.text,
        };
        Ok(noted(success(told), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
