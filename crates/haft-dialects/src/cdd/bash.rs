//! `bash`: runs a command, unless the dialect bans it.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::sandbox::Output;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::commands;
use haft_ops::{self as ops, Command, Outcome, Shell};

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 30_000;
/// The default timeout and the longest one, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;

/// Runs a command.
pub(crate) struct Bash;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Command to run
    #[schemars(example = &"go test ./...")]
    command: String,
    /// What it does, in a few words
    description: Option<String>,
    /// Directory to run it in; the working directory if left out
    working_dir: Option<String>,
    /// Milliseconds that it may take
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");
    type Input = Input;
    type Op = Shell;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Shell)
            .sensitivity(Sensitivity::Sensitive)
            .max_result(MAX_RESULT_CHARS, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Shell, Fault> {
        commands::require_allowed(&input.command)?;
        let dir = ops::existing_folder(input.working_dir.as_deref().unwrap_or("."), &cx.cwd(), cx)?.path;
        let command = Command::new(&input.command, dir, false, cx)?.require_unattended()?;
        let timeout = Duration::from_millis(input.timeout.min(MAX_TIMEOUT));
        Ok(Shell::new(command, Some(timeout), Output::Joined, false))
    }

    fn approval(_input: &Input, op: &Shell, cx: &Context) -> Approval {
        commands::approval(&op.command, cx)
    }

    fn render(_input: &Input, output: Outcome, cx: &Context) -> Result<Reply, Fault> {
        let ran = commands::finished(output)?;
        let text = ran.out.text();
        let text = text.trim_end();
        let words = ran.in_words().map(|words| words.replacen("exit code", "Exit code", 1));
        let body = match (text.is_empty(), &words) {
            (true, None) => "(no output)".to_owned(),
            (true, Some(words)) => words.clone(),
            (false, None) => text.to_owned(),
            (false, Some(words)) => format!("{text}\n{words}"),
        };
        let reply = Reply::text(body).structured(commands::structured(&ran));
        let reply = if ran.succeeded() { reply } else { reply.failed() };
        let notes = commands::notes(&ran, commands::ASK, cx);
        Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("({note})"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(commands::describe(&input.command, input.description.as_deref()))
    }
}
