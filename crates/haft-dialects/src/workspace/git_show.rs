//! `git_show`: shows one commit with its changes.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, CommitInfo, FileInfo, MAX_RESULT_CHARS};
use super::{Done, ok};
use haft_ops::{Commit, GitDiffed, GitShow as Op, Revision};

/// Shows a commit.
pub(crate) struct GitShow;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// The commit, branch or tag; what is checked out if nothing is said
    revision: Option<String>,
    /// Only these files and folders, relative to the workspace root
    #[serde(default)]
    paths: Vec<String>,
}

/// The value of `git_show`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The commit
    commit: CommitInfo,
    /// The files that it changed
    files: Vec<FileInfo>,
    /// What it changed, as a unified diff
    diff: String,
}

impl Tool for GitShow {
    const NAME: &'static str = "git_show";
    const DESCRIPTION: &'static str = include_str!("git_show.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Git)
            .read_only()
            .max_result(MAX_RESULT_CHARS, Cut::Start)
            .output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        Ok(Op {
            repository: git::repository(input.repository.as_deref(), cx)?,
            revision: Revision::new(input.revision.as_deref().unwrap_or("HEAD"))?,
            paths: git::paths(&input.paths, cx)?,
        })
    }

    fn render(_input: &Input, (commit, diff): (Commit, GitDiffed), _cx: &Context) -> Result<Reply, Fault> {
        let files = diff.files.into_iter().map(FileInfo::from).collect();
        Ok(ok(Output { commit: commit.into(), files, diff: diff.text }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.revision.clone().unwrap_or_else(|| "HEAD".to_owned()))
    }
}
