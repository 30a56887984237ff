//! `run_tests`: runs the project's tests, and reports failures first.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use crate::projects::{self, ProblemInfo};
use haft_ops::{self as ops, Verified, Verify, Work};

/// The default timeout and the longest one, in seconds.
const DEFAULT_TIMEOUT: u64 = 300;
const MAX_TIMEOUT: u64 = 1800;

/// Runs tests.
pub(crate) struct RunTests;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A folder or test file, relative to the workspace root, which it is if nothing is said
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// A part of the names of tests to run
    filter: Option<String>,
    /// Seconds that they may take
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 1800))]
    timeout: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

/// The value of `run_tests`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// Whether everything passed
    success: bool,
    /// How they went, in a line
    summary: String,
    /// What failed, and what kept tests from being run
    failures: Vec<ProblemInfo>,
    /// How many tests passed; null where that cannot be told
    passed: Option<u64>,
    /// How many failed
    failed: Option<u64>,
    /// How many were skipped
    skipped: Option<u64>,
    /// What the project is made with: `cargo`, `node`, `python`, `go` or `make`
    project: &'static str,
    /// What was run
    command: String,
    /// The exit code; 124 where the time was up
    exit_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// Everything that was printed
    log: String,
}

impl Tool for RunTests {
    const NAME: &'static str = "run_tests";
    const DESCRIPTION: &'static str = include_str!("run_tests.md");
    type Input = Input;
    type Op = Verify;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Project).sensitivity(Sensitivity::Sensitive);
        spec.max_result(50_000, Cut::Both).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Verify, Fault> {
        let root = cx.workspace().root();
        let path = input.path.as_deref().map(|path| ops::existing(path, root, cx)).transpose()?;
        let paths = path.into_iter().map(|(place, _)| place.path).collect();
        let filter = input.filter.clone().filter(|filter| !filter.is_empty());
        let timeout = Duration::from_secs(input.timeout.min(MAX_TIMEOUT));
        Verify::new(root, paths, Work::Tests(filter), timeout, cx)
    }

    fn approval(_input: &Input, op: &Verify, cx: &Context) -> Approval {
        if op.is_confined(cx) { Approval::NotNeeded } else { Approval::BySensitivity }
    }

    fn render(_input: &Input, output: Verified, _cx: &Context) -> Result<Reply, Fault> {
        let Verified { project, command, problems, counts, exit, took, log, notes, .. } = output;
        let (exit_code, duration) = projects::end(exit, took);
        let summary = projects::test_summary(counts, &problems, exit);
        let value = Output {
            success: exit == Exit::Code(0),
            summary,
            failures: problems.into_iter().map(ProblemInfo::from).collect(),
            passed: counts.map(|counts| counts.passed),
            failed: counts.map(|counts| counts.failed),
            skipped: counts.map(|counts| counts.skipped),
            project,
            command,
            exit_code,
            duration,
            log,
        };
        Ok(with_notes(ok(value), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        let path = input.path.as_deref().unwrap_or(".");
        Some(input.filter.as_ref().map_or(path.to_owned(), |filter| format!("{path} ({filter})")))
    }
}
