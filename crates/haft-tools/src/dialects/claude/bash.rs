//! `Bash`: a command, in the foreground or in the background.

use std::time::Duration;

use haft::{Approval, Context, Cut, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::cage::Output;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::dialects::commands;
use crate::ops::{Command, Outcome, Ran, Shell, in_words};

/// The longest reply.
const MAX_RESULT_CHARS: usize = 30_000;
/// In milliseconds, what a command gets when nothing is said, and the most that it gets.
const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;

/// Runs a command.
pub(crate) struct Bash;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The command to run
    #[schemars(example = "cargo test --workspace")]
    command: String,
    /// What it does, in a few words
    description: Option<String>,
    /// How many milliseconds it may take, at most 600000
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// Whether it runs on while you do other things
    #[serde(default)]
    run_in_background: bool,
    /// Whether it runs without the sandbox; the user is asked every time
    #[serde(default)]
    dangerously_disable_sandbox: bool,
}

impl Tool for Bash {
    const NAME: &'static str = "Bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");
    type Input = Input;
    type Op = Shell;

    fn spec(spec: Spec) -> Spec {
        spec.category("shell").sensitivity(Sensitivity::Sensitive).max_result(MAX_RESULT_CHARS, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Shell, Fault> {
        let timeout = input.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT);
        Ok(Shell {
            command: Command::new(&input.command, cx.cwd(), input.dangerously_disable_sandbox)?,
            timeout: (!input.run_in_background).then(|| Duration::from_millis(timeout)),
            output: Output::Joined,
            moves: true,
        })
    }

    fn approval(_input: &Input, op: &Shell, _cx: &Context) -> Approval {
        commands::approval(&op.command)
    }

    fn render(_input: &Input, output: Outcome, cx: &Context) -> Result<Reply, Fault> {
        match output {
            Outcome::Ran(ran) => Ok(shown(*ran, cx)),
            Outcome::Started(id) => {
                let text = format!("started in the background as `{id}`");
                Ok(Reply::text(text).structured(serde_json::json!({"task_id": id})))
            }
        }
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(commands::described(&input.command, input.description.as_deref()))
    }
}

fn shown(ran: Ran, cx: &Context) -> Reply {
    let mut text = ran.out.text().trim_end().to_owned();
    let words = in_words(ran.exit);
    if let Some(words) = &words {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(words);
    } else if text.is_empty() {
        text.push_str("(it printed nothing)");
    }
    let reply = Reply::text(text).structured(commands::structured(&ran));
    let reply = if words.is_some() { reply.failed() } else { reply };
    let notes = commands::notes(&ran, cx);
    notes.into_iter().fold(reply, |reply, note| reply.internal(format!("note: {note}")))
}
