//! `format_code`: runs the project's formatter.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use crate::projects::{self, ProblemInfo};
use haft_ops::{self as ops, Format, Formatted, Formatting};

/// Formats files.
pub(crate) struct FormatCode;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Files and folders to format, relative to the workspace root
    #[serde(default)]
    #[schemars(example = &["src/main.py"])]
    paths: Vec<String>,
    /// Only tell which files are not formatted
    #[serde(default)]
    check: bool,
}

/// The value of `format_code`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// Whether all files are formatted now
    formatted: bool,
    /// The files that were formatted, or with `check` those that are not; null where that cannot be told
    files: Option<Vec<String>>,
    /// What kept files from being formatted
    problems: Vec<ProblemInfo>,
    /// What the project is made with: `cargo`, `node`, `python`, `go` or `make`
    project: &'static str,
    /// What was run
    command: String,
    /// Its exit code
    exit_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// Everything that was printed
    log: String,
}

impl Tool for FormatCode {
    const NAME: &'static str = "format_code";
    const DESCRIPTION: &'static str = include_str!("format_code.md");
    type Input = Input;
    type Op = Format;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Project).sensitivity(Sensitivity::Sensitive);
        spec.max_result(50_000, Cut::Both).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Format, Fault> {
        let root = cx.workspace().root();
        let paths = ops::existing_all(&input.paths, root, cx).into_iter().collect::<Result<Vec<_>, _>>()?;
        Format::new(root, paths, if input.check { Formatting::Check } else { Formatting::Write }, cx)
    }

    fn approval(_input: &Input, op: &Format, cx: &Context) -> Approval {
        if op.is_harmless(cx) { Approval::NotNeeded } else { Approval::BySensitivity }
    }

    fn render(input: &Input, output: Formatted, _cx: &Context) -> Result<Reply, Fault> {
        let Formatted { project, command, files, problems, exit, took, log, notes } = output;
        let (exit_code, duration) = projects::end(exit, took);
        let is_formatted = match input.check {
            true => exit == Exit::Code(0) && files.as_ref().is_some_and(Vec::is_empty),
            false => exit == Exit::Code(0),
        };
        let value = Output {
            formatted: is_formatted,
            files,
            problems: problems.into_iter().map(ProblemInfo::from).collect(),
            project,
            command,
            exit_code,
            duration,
            log,
        };
        Ok(with_notes(ok(value), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(if input.paths.is_empty() { ".".to_owned() } else { input.paths.join(", ") })
    }
}
