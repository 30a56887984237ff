//! `git_push`: pushes a branch to a remote.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, CommitInfo, MAX_RESULT_CHARS};
use super::{Done, ok, with_notes};
use haft_ops::{Force, GitPush as Op, PushStatus, Pushed};

/// Pushes.
pub(crate) struct GitPush;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// The name of the remote; the one that the branch follows if nothing is said
    #[schemars(example = &"origin", length(min = 1))]
    remote: Option<String>,
    /// The branch; the one that is checked out if nothing is said
    #[schemars(length(min = 1))]
    branch: Option<String>,
    /// Let the branch follow that of the remote from now on
    #[serde(default)]
    set_upstream: bool,
    /// Replace commits of the remote that the branch here lacks; they are lost
    #[serde(default)]
    force: bool,
}

/// The value of `git_push`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The name of the remote
    remote: String,
    /// Its addresses
    urls: Vec<String>,
    /// The branch, here and there
    branch: String,
    /// What became of the branch of the remote
    status: Status,
    /// The commits that the remote was not known to have, the latest first
    commits: Vec<CommitInfo>,
    /// Whether there were more commits than listed
    more_commits: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Updated,
    Created,
    Forced,
    UpToDate,
}

impl Tool for GitPush {
    const NAME: &'static str = "git_push";
    const DESCRIPTION: &'static str = include_str!("git_push.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Git).sensitivity(Sensitivity::Extreme);
        spec.max_result(MAX_RESULT_CHARS, Cut::Start).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        let repository = git::repository(input.repository.as_deref(), cx)?;
        let force = if input.force { Force::Yes } else { Force::No };
        Op::new(repository, input.remote.as_deref(), input.branch.as_deref(), force, input.set_upstream)
    }

    fn approval(_input: &Input, op: &Op, _cx: &Context) -> Approval {
        let what = op.plan().map_or_else(|| "a branch would be pushed".to_owned(), |plan| plan.in_words());
        Approval::NeededRegardless(what)
    }

    fn render(_input: &Input, output: Pushed, _cx: &Context) -> Result<Reply, Fault> {
        let Pushed { plan, status, notes } = output;
        let status = match status {
            PushStatus::Updated => Status::Updated,
            PushStatus::Created => Status::Created,
            PushStatus::Forced => Status::Forced,
            PushStatus::UpToDate => Status::UpToDate,
        };
        let output = Output {
            remote: plan.remote,
            urls: plan.urls,
            branch: plan.branch,
            status,
            commits: plan.commits.into_iter().map(CommitInfo::from).collect(),
            more_commits: plan.more,
        };
        Ok(with_notes(ok(output), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        let names = [input.remote.as_deref(), input.branch.as_deref()];
        Some(names.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}
