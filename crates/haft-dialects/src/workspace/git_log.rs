//! `git_log`: lists commits, the latest first.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{self, CommitInfo, MAX_RESULT_CHARS};
use super::{Done, ok};
use haft_ops::{Commit, GitLog as Op, Revision};

/// The default and the largest number of commits.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;

/// Lists commits.
pub(crate) struct GitLog;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder of the repository, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    repository: Option<String>,
    /// Where to begin, or a range such as `main..feature`; what is checked out if nothing is said
    revision: Option<String>,
    /// Only commits that touch these files and folders, relative to the workspace root
    #[serde(default)]
    paths: Vec<String>,
    /// How many commits at most
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 500))]
    limit: usize,
    /// How many commits to pass over
    #[serde(default)]
    skip: usize,
    /// A text in the author's name or address
    author: Option<String>,
    /// A text in the message
    message: Option<String>,
    /// Only commits after this date
    since: Option<String>,
    /// Only commits before this date
    until: Option<String>,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// The value of `git_log`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The commits, the latest first
    commits: Vec<CommitInfo>,
    /// Whether there are older ones
    more: bool,
}

impl Tool for GitLog {
    const NAME: &'static str = "git_log";
    const DESCRIPTION: &'static str = include_str!("git_log.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Git)
            .read_only()
            .max_result(MAX_RESULT_CHARS, Cut::Start)
            .output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        for (name, value) in [("author", &input.author), ("message", &input.message)] {
            if value.as_ref().is_some_and(|value| value.contains(['\0', '\n'])) {
                return Err(Fault::invalid(format!("`{name}` must be a text of one line")));
            }
        }
        Ok(Op {
            repository: git::repository(input.repository.as_deref(), cx)?,
            revision: input.revision.as_deref().map(Revision::new).transpose()?,
            paths: git::paths(&input.paths, cx)?,
            // One more than asked for, to know whether there are more.
            limit: input.limit.min(MAX_LIMIT) + 1,
            skip: input.skip,
            author: input.author.clone(),
            message: input.message.clone(),
            since: input.since.clone(),
            until: input.until.clone(),
        })
    }

    fn render(input: &Input, mut output: Vec<Commit>, _cx: &Context) -> Result<Reply, Fault> {
        let more = output.len() > input.limit;
        output.truncate(input.limit);
        Ok(ok(Output { commits: output.into_iter().map(CommitInfo::from).collect(), more }))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.repository.clone().unwrap_or_else(|| ".".to_owned()))
    }
}
