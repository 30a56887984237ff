//! `git_status`: lists changed and staged files.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::git::{self, MAX_RESULT_CHARS, StatusInfo};
use super::{Done, ok};
use haft_ops::{GitStatus as Op, WorkingTree};

/// Tells how the files of a repository stand.
pub(crate) struct GitStatus;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
}

impl Tool for GitStatus {
    const NAME: &'static str = "git_status";
    const DESCRIPTION: &'static str = include_str!("git_status.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Git)
            .read_only()
            .max_result(MAX_RESULT_CHARS, Cut::Start)
            .output::<Done<StatusInfo>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        git::repository(input.repository.as_deref(), cx).map(Op)
    }

    fn render(_input: &Input, output: WorkingTree, _cx: &Context) -> Result<Reply, Fault> {
        Ok(ok(StatusInfo::from(output)))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.repository.clone().unwrap_or_else(|| ".".to_owned()))
    }
}
