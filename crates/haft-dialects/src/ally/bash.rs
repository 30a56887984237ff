//! `bash`: runs a command, with stdout and stderr apart.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::Output;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{habits, with_notes};
use crate::commands;
use haft_ops::{self as ops, Command, Outcome, Shell};

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 60_000;
/// The default timeout and the longest one, in seconds.
const DEFAULT_TIMEOUT: u64 = 5;
const MAX_TIMEOUT: u64 = 60;
/// The default timeout, in seconds, of a command that may wait for input.
const INTERACTIVE_TIMEOUT: u64 = 15;

/// Runs a command.
pub(crate) struct Bash;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Shell command
    #[schemars(example = &"ls -la")]
    command: String,
    /// What it does, in five to ten words
    description: Option<String>,
    /// Seconds that it may take; 5 if nothing is said
    #[schemars(range(min = 1, max = 60))]
    timeout: Option<u64>,
    /// Directory to run it in; the current one if empty
    #[serde(default)]
    working_dir: String,
}

/// The reply of `bash`.
#[derive(Serialize, JsonSchema)]
struct Done {
    /// Whether it ended with the return code 0
    success: bool,
    /// What it printed
    output: String,
    /// What it printed as errors, or how it ended
    error: String,
    /// Its return code; null where it was ended
    return_code: Option<i32>,
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");
    type Input = Input;
    type Op = Shell;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::Shell).sensitivity(Sensitivity::Sensitive);
        spec.max_result(MAX_RESULT_CHARS, Cut::Both).output::<Done>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Shell, Fault> {
        let folder = if input.working_dir.is_empty() { "." } else { &input.working_dir };
        let dir = ops::existing_folder(folder, &cx.cwd(), cx)?.path;
        let command = Command::new(&input.command, dir, false, cx)?;
        let usual = if command.waits().is_some() { INTERACTIVE_TIMEOUT } else { DEFAULT_TIMEOUT };
        let timeout = Duration::from_secs(input.timeout.unwrap_or(usual).min(MAX_TIMEOUT));
        Ok(Shell::new(command, Some(timeout), Output::Apart, false))
    }

    fn approval(_input: &Input, op: &Shell, cx: &Context) -> Approval {
        commands::approval(&op.command, cx)
    }

    fn render(input: &Input, output: Outcome, cx: &Context) -> Result<Reply, Fault> {
        let ran = commands::finished(output)?;
        let mut error = ran.err.text();
        let was_ended = matches!(ran.exit, Exit::TimedOut | Exit::Cancelled);
        if let Some(words) = ran.in_words().filter(|_| error.trim().is_empty() || was_ended) {
            error = format!("{error}{words}");
        }
        let return_code = if let Exit::Code(code) = ran.exit { Some(code) } else { None };
        let success = ran.succeeded();
        let reply = Reply::object(json!(Done { success, output: ran.out.text(), error, return_code }));
        let mut notes = commands::notes(&ran, commands::ASK, cx);
        if let Some(waits) = commands::waits_for_input(&input.command).filter(|_| !success) {
            notes.push(format!(
                "`{}` waits for somebody to type, and nobody can: {}",
                waits.what, waits.instead
            ));
        }
        notes.extend(habits::of_command(&input.command, cx).filter(|_| success));
        let reply = if success { reply } else { reply.failed() };
        Ok(with_notes(reply, notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(commands::describe(&input.command, input.description.as_deref()))
    }
}
