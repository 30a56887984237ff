//! `TaskOutput`: what a command in the background has printed.

use std::time::Duration;

use haft::{Context, Cut, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::ops::{Look, Looked, TaskState, in_words};

/// The longest reply.
const MAX_RESULT_CHARS: usize = 30_000;

/// Looks at a command in the background.
pub(crate) struct TaskOutput;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Which, as it was told when it was started
    #[schemars(example = &"bash_1")]
    task_id: String,
    /// Whether to wait until it ends
    #[serde(default = "yes")]
    block: bool,
    /// How many milliseconds to wait at most
    #[serde(default = "default_wait")]
    #[schemars(range(min = 0, max = 600_000))]
    timeout: u64,
}

fn yes() -> bool {
    true
}

fn default_wait() -> u64 {
    30_000
}

impl Tool for TaskOutput {
    const NAME: &'static str = "TaskOutput";
    const DESCRIPTION: &'static str = include_str!("task_output.md");
    type Input = Input;
    type Op = Look;

    fn spec(spec: Spec) -> Spec {
        spec.category("shell").read_only().max_result(MAX_RESULT_CHARS, Cut::Both)
    }

    fn lower(input: &Input, _cx: &Context) -> Result<Look, Fault> {
        let wait = input.block.then(|| Duration::from_millis(input.timeout));
        Ok(Look { id: input.task_id.clone(), wait })
    }

    fn render(input: &Input, output: Looked, _cx: &Context) -> Result<Reply, Fault> {
        let (status, words) = match output.state {
            TaskState::Running if input.block => ("timeout", "it still runs".to_owned()),
            TaskState::Running => ("not_ready", "it still runs".to_owned()),
            TaskState::Ended(exit) => (
                "success",
                in_words(exit)
                    .map_or_else(|| "it has ended".to_owned(), |words| format!("it has ended: {words}")),
            ),
            TaskState::Killed => ("success", "it was ended".to_owned()),
        };
        let is_completed = output.state != TaskState::Running;
        let text = output.text.trim_end();
        let told = if text.is_empty() {
            format!("(nothing new was printed; {words})")
        } else {
            format!("{text}\n({words})")
        };
        Ok(Reply::text(told).structured(json!({
            "retrieval_status": status,
            "task": {"output": output.text, "is_completed": is_completed},
        })))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.task_id.clone())
    }
}
