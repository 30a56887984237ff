//! `glob`: finds files by name, optionally with their first lines.

use std::collections::BTreeMap;

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, success, with_notes};
use crate::searches;
use haft_ops::{self as ops, Beginning, Globbed, Globs};

/// The default and the largest number of files listed.
const DEFAULT_FILES: usize = 50;
const MAX_FILES: usize = 1000;
/// The default number of lines shown per file.
const DEFAULT_LINES: usize = 10;

/// Finds files.
pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Glob pattern
    #[schemars(example = &"**/*.py")]
    pattern: String,
    /// Directory to search
    #[serde(default = "current_dir")]
    #[schemars(length(min = 1))]
    path: String,
    /// How many files to list
    #[serde(default = "default_files")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// Whether to show the first lines of each file
    #[serde(default)]
    show_content: bool,
    /// How many lines of each file to show
    #[serde(default = "default_lines")]
    #[schemars(range(min = 1, max = 200))]
    content_lines: usize,
}

pub(super) fn current_dir() -> String {
    ".".to_owned()
}

fn default_files() -> usize {
    DEFAULT_FILES
}

fn default_lines() -> usize {
    DEFAULT_LINES
}

/// The reply of `glob`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The files, those changed last first; with their first lines if these are wanted
    files: Files,
    /// How many files fit
    total_matches: usize,
    /// Whether more fit than are listed
    limited: bool,
    /// Whether the files come with their first lines
    show_content: bool,
    /// What to try instead when none fits
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Files {
    Names(Vec<String>),
    Contents(#[schemars(with = "BTreeMap<String, String>")] IndexMap<String, String>),
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = include_str!("glob.md");
    type Input = Input;
    type Op = ops::Glob;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(100_000, Cut::Start).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Glob, Fault> {
        let folder = ops::existing_folder(&input.path, &cx.cwd(), cx)?.path;
        Ok(ops::Glob {
            globs: Globs::new(&input.pattern, &folder, cx)?,
            filter: super::filter(),
            limit: input.limit.min(MAX_FILES),
            preview: input.show_content.then_some(input.content_lines),
        })
    }

    fn render(input: &Input, output: Globbed, _cx: &Context) -> Result<Reply, Fault> {
        let mut notes = searches::glob_notes(&output);
        let suggestion = match output.total {
            0 if notes.is_empty() => {
                Some("no file fits; try a wider pattern, such as `**/*`, or another `path`".to_owned())
            }
            0 => Some(notes.remove(0)),
            _ => None,
        };
        let total_matches = output.total;
        let limited = total_matches > output.hits.len() || output.incomplete;
        let files = match input.show_content {
            false => Files::Names(output.hits.into_iter().map(|hit| hit.path.to_string()).collect()),
            true => Files::Contents(
                output
                    .hits
                    .into_iter()
                    .map(|hit| {
                        let text = match hit.beginning {
                            Some(Beginning::Text(text)) => text,
                            Some(Beginning::Binary) => "[Binary file]".to_owned(),
                            Some(Beginning::Directory) => "[Directory]".to_owned(),
                            Some(Beginning::Unreadable) => "[Not readable]".to_owned(),
                            None => "[Not shown: the files before it take all the room]".to_owned(),
                        };
                        (hit.path.to_string(), text)
                    })
                    .collect(),
            ),
        };
        let output = Output { files, total_matches, limited, show_content: input.show_content, suggestion };
        Ok(with_notes(success(output), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(searches::describe(&input.pattern, Some(&input.path)))
    }
}
