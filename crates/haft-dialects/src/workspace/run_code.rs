//! `run_code`: runs Python or bash in the sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, ok, with_notes};
use crate::commands;
use haft_ops::{Code, CodeRan, Language, Limit};

/// The default timeout and the longest one, in seconds.
const DEFAULT_TIMEOUT: u64 = 60;
const MAX_TIMEOUT: u64 = 600;

/// Runs code.
pub(crate) struct RunCode;

/// A language.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Written {
    Python,
    Bash,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// What the code is written in
    #[schemars(example = &"bash")]
    language: Written,
    /// The code, run as it is
    #[schemars(example = &"echo \"hello $1\"")]
    code: String,
    /// Command-line arguments of the code
    #[serde(default)]
    args: Vec<String>,
    /// Environment variables of the code, by name
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Seconds that it may take
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600))]
    timeout: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

/// The value of `run_code`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// What it printed
    stdout: String,
    /// What it printed as errors
    stderr: String,
    /// Its exit code; 128 and the signal where it was ended by one
    exit_code: i32,
    /// How many milliseconds it took
    duration: u64,
    /// The limit that it ran into: `memory`, `cpu time`, `file size` or `processes`
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
}

impl Tool for RunCode {
    const NAME: &'static str = "run_code";
    const DESCRIPTION: &'static str = include_str!("run_code.md");
    type Input = Input;
    type Op = Code;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Code).sensitivity(Sensitivity::Sensitive);
        spec.max_result(100_000, Cut::Both).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Code, Fault> {
        let language = match input.language {
            Written::Python => Language::Python,
            Written::Bash => Language::Bash,
        };
        let env: Vec<(String, String)> = input.env.clone().into_iter().collect();
        let dir = cx.workspace().focus().unwrap_or(cx.workspace().root()).clone();
        let timeout = Duration::from_secs(input.timeout.min(MAX_TIMEOUT));
        Code::new(language, &input.code, &input.args, &env, dir, timeout, cx)
    }

    fn approval(_input: &Input, _op: &Code, _cx: &Context) -> Approval {
        // Refused where the sandbox is unavailable.
        Approval::NotNeeded
    }

    fn render(input: &Input, output: CodeRan, cx: &Context) -> Result<Reply, Fault> {
        let CodeRan { ran, limit } = output;
        let notes = commands::notes(&ran, commands::ASK, cx);
        let value = Output {
            stdout: ran.out.text(),
            stderr: ran.err.text(),
            exit_code: commands::exit_code(ran.exit),
            duration: commands::milliseconds(ran.took),
            limit: limit.map(Limit::name),
        };
        if ran.exit == Exit::TimedOut {
            let seconds = input.timeout;
            let fault = Fault::new(FaultKind::Timeout, format!("the code was ended after {seconds} s"))
                .hint(format!("do less at once, or give it more time with `timeout`, at most {MAX_TIMEOUT}"));
            return Err(fault
                .with("stdout", value.stdout)
                .with("stderr", value.stderr)
                .with("exitCode", value.exit_code)
                .with("duration", value.duration)
                .with("limit", value.limit));
        }
        Ok(with_notes(ok(value), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        input.code.lines().find(|line| !line.trim().is_empty()).map(str::to_owned)
    }
}
