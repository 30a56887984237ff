//! `git_branch`: lists, creates, switches and deletes branches.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, MAX_RESULT_CHARS};
use super::{Done, ok};
use haft_ops::{Branch, BranchAction, Force, GitBranch as Op, Revision};

/// Lists and changes branches.
pub(crate) struct GitBranch;

/// What can be done.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    List,
    Create,
    Switch,
    Delete,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// What to do
    #[serde(default)]
    action: Action,
    /// The branch to create, switch to or delete
    name: Option<String>,
    /// The commit, branch or tag to create it at; what is checked out if nothing is said
    from: Option<String>,
    /// Delete it although it is not merged
    #[serde(default)]
    force: bool,
}

/// The value of `git_branch`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// All branches
    branches: Vec<BranchInfo>,
}

/// A branch.
#[derive(Serialize, JsonSchema)]
struct BranchInfo {
    /// Its name
    name: String,
    /// Whether it is checked out
    current: bool,
    /// The hash of its last commit
    commit: String,
    /// When that was made, as an ISO 8601 timestamp
    date: String,
    /// The first line of its message
    subject: String,
    /// The branch that it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

impl Tool for GitBranch {
    const NAME: &'static str = "git_branch";
    const DESCRIPTION: &'static str = include_str!("git_branch.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Git).sensitivity(Sensitivity::Sensitive);
        spec.max_result(MAX_RESULT_CHARS, Cut::Start).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        let name = || match &input.name {
            Some(name) => Revision::new(name),
            None => Err(Fault::invalid("`name` is missing: it says which branch is meant")),
        };
        let action = match input.action {
            Action::List => BranchAction::List,
            Action::Create => {
                BranchAction::Create(name()?, input.from.as_deref().map(Revision::new).transpose()?)
            }
            Action::Switch => BranchAction::Switch(name()?),
            Action::Delete => BranchAction::Delete(name()?, if input.force { Force::Yes } else { Force::No }),
        };
        Ok(Op { repository: git::repository(input.repository.as_deref(), cx)?, action })
    }

    fn approval(_input: &Input, op: &Op, _cx: &Context) -> Approval {
        match &op.action {
            BranchAction::List => Approval::NotNeeded,
            BranchAction::Delete(_, Force::Yes) => {
                Approval::NeededAlways("a branch would be deleted with what only it has".to_owned())
            }
            _ => Approval::BySensitivity,
        }
    }

    fn render(_input: &Input, output: Vec<Branch>, _cx: &Context) -> Result<Reply, Fault> {
        let info = |Branch { name, current, commit, upstream, date, subject }| BranchInfo {
            name,
            current,
            commit,
            date,
            subject,
            upstream,
        };
        Ok(ok(Output { branches: output.into_iter().map(info).collect() }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.name.clone().unwrap_or_else(|| "all".to_owned()))
    }
}
