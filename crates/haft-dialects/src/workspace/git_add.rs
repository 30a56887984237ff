//! `git_add`: stages files for the next commit.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::git::{self, MAX_RESULT_CHARS, StatusInfo};
use super::{Done, ok};
use haft_ops::{GitAdd as Op, WorkingTree};

/// Stages changes.
pub(crate) struct GitAdd;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// Files and folders to stage, relative to the workspace root; `.` is everything
    #[schemars(example = &["src/index.ts"])]
    paths: Vec<String>,
}

impl Tool for GitAdd {
    const NAME: &'static str = "git_add";
    const DESCRIPTION: &'static str = include_str!("git_add.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Git).sensitivity(Sensitivity::Sensitive);
        spec.max_result(MAX_RESULT_CHARS, Cut::Start).output::<Done<StatusInfo>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        if input.paths.is_empty() {
            return Err(Fault::invalid("`paths` is empty, so there is nothing to stage")
                .hint("name files or folders; `.` is everything"));
        }
        let repository = git::repository(input.repository.as_deref(), cx)?;
        Ok(Op { repository, paths: git::paths(&input.paths, cx)? })
    }

    fn render(_input: &Input, output: WorkingTree, _cx: &Context) -> Result<Reply, Fault> {
        Ok(ok(StatusInfo::from(output)))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.paths.join(", "))
    }
}
