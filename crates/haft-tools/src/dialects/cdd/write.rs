//! `write`: a whole file.

use haft::{Context, Cut, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed;
use crate::ops::{self, Asked, Change, Changed, Same, Terms, To};

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
        spec.category("file").sensitivity(Sensitivity::Sensitive).max_result(30_000, Cut::Both)
    }

    fn enabled(cx: &Context) -> bool {
        cx.session().journal().is_some()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        Ok(Change::new(Asked {
            path: ops::writable(&input.file_path, &cx.cwd(), cx)?,
            named: input.file_path.clone(),
            to: To::Text(input.content.clone()),
            terms: Terms { same: Same::Refuse, ..Terms::default() },
        }))
    }

    fn render(input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        Ok(changed(&input.file_path, output, cx))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}
