//! `format`: runs the project's formatter.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, spelt_below_root, success, with_notes};
use crate::projects;
use haft_ops::{self as ops, Format as Op, Formatted, Formatting};

/// Formats files.
pub(crate) struct Format;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Files and folders to format
    #[serde(default)]
    #[schemars(example = &["src/main.py"])]
    paths: Vec<String>,
    /// Only tell which files are not formatted
    #[serde(default)]
    check: bool,
}

/// The fields of `format`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// Whether all files are formatted now
    formatted: bool,
    /// The files that were formatted, or with `check` those that are not; null where that cannot be told
    files: Option<Vec<String>>,
    /// What was run
    command: String,
    /// Its return code
    return_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// Everything that was printed
    output: String,
}

impl Tool for Format {
    const NAME: &'static str = "format";
    const DESCRIPTION: &'static str = include_str!("format.md");
    type Input = Input;
    type Op = Op;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Project).sensitivity(Sensitivity::Sensitive);
        spec.max_result(50_000, Cut::Both).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Op, Fault> {
        let paths =
            ops::existing_all(&input.paths, &cx.cwd(), cx).into_iter().collect::<Result<Vec<_>, _>>()?;
        Op::new(&cx.cwd(), paths, if input.check { Formatting::Check } else { Formatting::Write }, cx)
    }

    fn approval(_input: &Input, op: &Op, cx: &Context) -> Approval {
        if op.is_harmless(cx) { Approval::NotNeeded } else { Approval::BySensitivity }
    }

    fn render(input: &Input, output: Formatted, cx: &Context) -> Result<Reply, Fault> {
        let Formatted { command, files, exit, took, log, notes, .. } = output;
        let files: Option<Vec<String>> =
            files.map(|files| files.iter().map(|file| spelt_below_root(file, cx)).collect());
        let (return_code, duration) = projects::end(exit, took);
        let none = files.as_ref().is_none_or(Vec::is_empty);
        if exit != Exit::Code(0) && (none || !input.check) {
            return Err(projects::with_output(
                Fault::failed(format!("`{command}` could not format: return code {return_code}"))
                    .hint("mend what it names in `output` first"),
                "output",
                log,
                notes,
            ));
        }
        let formatted = none || !input.check;
        let fields = Output { formatted, files, command, return_code, duration, output: log };
        Ok(with_notes(success(fields), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(if input.paths.is_empty() { ".".to_owned() } else { input.paths.join(", ") })
    }
}
