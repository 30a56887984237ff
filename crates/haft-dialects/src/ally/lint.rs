//! `lint`: runs the project's linter.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, spelt_below_root, success, with_notes};
use crate::projects::{self, ProblemInfo};
use haft_ops::{self as ops, Severity, Verified, Verify, Work};

/// How long a linter may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Checks code.
pub(crate) struct Lint;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Files and folders to check
    #[serde(default)]
    #[schemars(example = &["src/main.py"])]
    paths: Vec<String>,
    /// Mend what can be mended
    #[serde(default)]
    fix: bool,
}

/// The fields of `lint`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// Whether nothing was found
    clean: bool,
    /// What was found, in a line
    summary: String,
    /// What was found, errors first
    issues: Vec<ProblemInfo>,
    /// How many of them are errors
    error_count: usize,
    /// How many of them are warnings
    warning_count: usize,
    /// What was run
    command: String,
    /// Its return code
    return_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// Everything that was printed
    output: String,
}

impl Tool for Lint {
    const NAME: &'static str = "lint";
    const DESCRIPTION: &'static str = include_str!("lint.md");
    type Input = Input;
    type Op = Verify;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Project).sensitivity(Sensitivity::Sensitive);
        spec.max_result(50_000, Cut::Both).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Verify, Fault> {
        let paths =
            ops::existing_all(&input.paths, &cx.cwd(), cx).into_iter().collect::<Result<Vec<_>, _>>()?;
        let work = if input.fix { Work::Mend } else { Work::Lint };
        Verify::new(&cx.cwd(), paths, work, TIMEOUT, cx)
    }

    fn approval(input: &Input, op: &Verify, cx: &Context) -> Approval {
        // Fixes change files without the journal.
        if op.is_confined(cx) && !input.fix { Approval::NotNeeded } else { Approval::BySensitivity }
    }

    fn render(_input: &Input, output: Verified, cx: &Context) -> Result<Reply, Fault> {
        let Verified { command, mut problems, elsewhere, exit, took, log, notes, .. } = output;
        for problem in &mut problems {
            problem.file = problem.file.as_deref().map(|file| spelt_below_root(file, cx));
        }
        let (return_code, duration) = projects::end(exit, took);
        let summary = match problems.is_empty() && elsewhere > 0 {
            true => "no problems in these".to_owned(),
            false => projects::problem_summary(&problems, exit),
        };
        if exit == Exit::TimedOut {
            return Err(Fault::new(
                FaultKind::Timeout,
                format!("`{command}` was ended after {} s", TIMEOUT.as_secs()),
            )
            .hint("name fewer paths")
            .with("output", log));
        }
        if problems.is_empty() && elsewhere == 0 && exit != Exit::Code(0) {
            return Err(projects::with_output(
                Fault::failed(format!("`{command}` could not check anything: return code {return_code}"))
                    .hint("what it printed is in `output`"),
                "output",
                log,
                notes,
            ));
        }
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        let fields = Output {
            clean: problems.is_empty(),
            summary,
            error_count: errors,
            warning_count: problems.len() - errors,
            issues: problems.into_iter().map(ProblemInfo::from).collect(),
            command,
            return_code,
            duration,
            output: log,
        };
        Ok(with_notes(success(fields), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(if input.paths.is_empty() { ".".to_owned() } else { input.paths.join(", ") })
    }
}
