//! `git_diff`: differences, as counts and as text.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, FileInfo, MAX_RESULT_CHARS};
use super::{Done, ok};
use haft_ops::{Between, GitDiff as Op, GitDiffed, Revision};

/// The default number of context lines.
const CONTEXT_LINES: u32 = 3;

/// Tells what differs.
pub(crate) struct GitDiff;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// Compare what is staged with the last commit
    #[serde(default)]
    staged: bool,
    /// Compare the files with this commit, branch or tag
    from: Option<String>,
    /// Compare this commit, branch or tag with the one in `from`
    to: Option<String>,
    /// Only these files and folders, relative to the workspace root
    #[serde(default)]
    paths: Vec<String>,
    /// How many lines around a change are shown
    #[serde(default = "context_lines")]
    #[schemars(range(min = 0, max = 1000))]
    context_lines: u32,
}

fn context_lines() -> u32 {
    CONTEXT_LINES
}

/// The value of `git_diff`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The files that differ
    files: Vec<FileInfo>,
    /// What differs in them, as a unified diff
    diff: String,
}

impl Tool for GitDiff {
    const NAME: &'static str = "git_diff";
    const DESCRIPTION: &'static str = include_str!("git_diff.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Git)
            .read_only()
            .max_result(MAX_RESULT_CHARS, Cut::Start)
            .output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        let between = match (input.staged, &input.from, &input.to) {
            (false, None, None) => Between::Unstaged,
            (true, None, None) => Between::Staged,
            (false, Some(from), None) => Between::Since(Revision::new(from)?),
            (false, Some(from), Some(to)) => Between::Commits(Revision::new(from)?, Revision::new(to)?),
            (true, ..) => {
                return Err(Fault::invalid("`staged` goes neither with `from` nor with `to`")
                    .hint("leave out `staged` to compare commits"));
            }
            (false, None, Some(_)) => {
                return Err(Fault::invalid("`to` needs a `from` to be compared with"));
            }
        };
        Ok(Op {
            repository: git::repository(input.repository.as_deref(), cx)?,
            between,
            paths: git::paths(&input.paths, cx)?,
            around: input.context_lines,
        })
    }

    fn render(_input: &Input, output: GitDiffed, _cx: &Context) -> Result<Reply, Fault> {
        Ok(ok(Output { files: output.files.into_iter().map(FileInfo::from).collect(), diff: output.text }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.repository.clone().unwrap_or_else(|| ".".to_owned()))
    }
}
