//! `git_commit`: commits the staged files.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, CommitInfo, FileInfo, MAX_RESULT_CHARS};
use super::{Done, ok};
use haft_ops::{Commit, FileCount, GitCommit as Op};

/// The longest message: it is passed as an argument, whose size the kernel limits.
const MAX_MESSAGE_BYTES: usize = 100_000;

/// Commits.
pub(crate) struct GitCommit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// The message: a line that says what is done, and if there is more to say an empty line and that
    #[schemars(example = "Count lines from one")]
    message: String,
    /// Stage changes of files that git knows first
    #[serde(default)]
    all: bool,
    /// Replace the last commit
    #[serde(default)]
    amend: bool,
}

/// The value of `git_commit`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The commit that was made
    commit: CommitInfo,
    /// The files that it changed
    files: Vec<FileInfo>,
}

impl Tool for GitCommit {
    const NAME: &'static str = "git_commit";
    const DESCRIPTION: &'static str = include_str!("git_commit.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Git).sensitivity(Sensitivity::Sensitive);
        spec.max_result(MAX_RESULT_CHARS, Cut::Start).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        let wrong = if input.message.trim().is_empty() {
            "is empty"
        } else if input.message.contains('\0') {
            "contains a NUL character"
        } else if input.message.len() > MAX_MESSAGE_BYTES {
            "is too long"
        } else {
            return Ok(Op {
                repository: git::repository(input.repository.as_deref(), cx)?,
                message: input.message.clone(),
                all: input.all,
                amend: input.amend,
            });
        };
        Err(Fault::invalid(format!("`message` {wrong}")).hint("say in one line what the commit does"))
    }

    fn approval(_input: &Input, op: &Op, _cx: &Context) -> Approval {
        match op.amend {
            true => Approval::NeededAlways("the last commit would be replaced".to_owned()),
            false => Approval::BySensitivity,
        }
    }

    fn render(_input: &Input, output: (Commit, Vec<FileCount>), _cx: &Context) -> Result<Reply, Fault> {
        let (commit, files) = output;
        Ok(ok(Output { commit: commit.into(), files: files.into_iter().map(FileInfo::from).collect() }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        input.message.lines().next().map(str::to_owned)
    }
}
