//! `Bash`: runs a command, in the foreground or in the background.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use haft_sandbox::sandbox::Output;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::commands;
use haft_ops::{Command, Foreseen, Outcome, Ran, Shell, TrialWish};

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 30_000;
/// The default timeout and the longest one, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;

/// The hint for a command that needs more than the sandbox allows.
const MORE: &str = "`dangerously_disable_sandbox` asks the user to run it without the sandbox";

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
    /// Whether it is tried first: it runs on a copy of the workspace's files, and the user decides which of its changes are kept
    #[serde(default, rename = "try")]
    tried: bool,
    /// What `sed -i` is going to make of a file, where the user was shown that already. For hosts; leave it away
    #[serde(rename = "_simulated_sed_edit")]
    #[schemars(extend("x-host-only" = true))]
    simulated_sed_edit: Option<SimulatedSedEdit>,
}

/// What an edit was foreseen to make of a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulatedSedEdit {
    /// The file
    file_path: String,
    /// All of its content afterwards
    new_content: String,
}

impl Tool for Bash {
    const NAME: &'static str = "Bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");
    type Input = Input;
    type Op = Shell;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Shell)
            .sensitivity(Sensitivity::Sensitive)
            .max_result(MAX_RESULT_CHARS, Cut::Both)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Shell, Fault> {
        let timeout = input.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT);
        let free = input.dangerously_disable_sandbox;
        let command = Command::new(&input.command, cx.cwd(), free, cx)?;
        let command = match input.run_in_background {
            true => command.require_unattended_in_background()?,
            false => command.require_unattended()?,
        };
        if let Some(SimulatedSedEdit { file_path, new_content }) = &input.simulated_sed_edit {
            let foreseen = Foreseen { file: file_path.clone(), content: new_content.clone() };
            command.require_foreseen(&foreseen, cx)?;
        }
        let timeout = (!input.run_in_background).then(|| Duration::from_millis(timeout));
        let wish = if input.tried { TrialWish::Try } else { TrialWish::None };
        Ok(Shell::new(command, timeout, Output::Joined, true).wishing(wish))
    }

    fn approval(_input: &Input, op: &Shell, cx: &Context) -> Approval {
        commands::approval(&op.command, cx)
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
        Some(commands::describe(&input.command, input.description.as_deref()))
    }
}

fn shown(ran: Ran, cx: &Context) -> Reply {
    let mut text = ran.out.text().trim_end().to_owned();
    let words = ran.in_words();
    if let Some(words) = &words {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(words);
    } else if text.is_empty() {
        text.push_str("(it printed nothing)");
    }
    let reply = Reply::text(text).structured(commands::structured(&ran));
    let reply = if ran.succeeded() { reply } else { reply.failed() };
    let notes = commands::notes(&ran, MORE, cx);
    notes.into_iter().fold(reply, |reply, note| reply.internal(format!("note: {note}")))
}
