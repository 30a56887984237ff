//! `TaskOutput`: reads the output of a background command.

use std::time::Duration;

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{Look, Looked, TaskListed, TaskState, in_words};

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 30_000;

/// The id that means every command.
const ALL: &str = "all";

/// Looks at a command in the background.
pub(crate) struct TaskOutput;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Which, as it was told when it was started; `all` lists them
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
        spec.category(Category::Shell).read_only().max_result(MAX_RESULT_CHARS, Cut::Both)
    }

    fn lower(input: &Input, _cx: &Context) -> Result<Look, Fault> {
        let wait = input.block.then(|| Duration::from_millis(input.timeout));
        Ok(Look { id: (input.task_id != ALL).then(|| input.task_id.clone()), wait })
    }

    fn render(input: &Input, output: Looked, _cx: &Context) -> Result<Reply, Fault> {
        let (text, state) = match output {
            Looked::At { text, state } => (text, state),
            Looked::All(tasks) => return Ok(list(&tasks)),
        };
        let (status, words) = match state {
            TaskState::Running if input.block => ("timeout", "it still runs".to_owned()),
            TaskState::Running => ("not_ready", "it still runs".to_owned()),
            TaskState::Ended(exit) => (
                "success",
                in_words(exit)
                    .map_or_else(|| "it has ended".to_owned(), |words| format!("it has ended: {words}")),
            ),
            TaskState::Killed => ("success", "it was ended".to_owned()),
        };
        let is_completed = state != TaskState::Running;
        let shown = text.trim_end();
        let message = if shown.is_empty() {
            format!("(nothing new was printed; {words})")
        } else {
            format!("{shown}\n({words})")
        };
        Ok(Reply::text(message).structured(json!({
            "retrieval_status": status,
            "task": {"output": text, "is_completed": is_completed},
        })))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.task_id.clone())
    }
}

/// Lists commands, one per line.
fn list(tasks: &[TaskListed]) -> Reply {
    let state = |task: &TaskListed| match task.state {
        TaskState::Running => "running".to_owned(),
        TaskState::Ended(exit) => in_words(exit).unwrap_or_else(|| "exit code 0".to_owned()),
        TaskState::Killed => "ended".to_owned(),
    };
    let line = |task: &TaskListed| {
        let command = task.command.lines().next().unwrap_or_default();
        format!("{}: {} ({}; {} bytes not looked at)", task.id, command, state(task), task.unread)
    };
    let text = match tasks.is_empty() {
        true => "nothing was started in the background".to_owned(),
        false => tasks.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    let object = |task: &TaskListed| {
        json!({
            "task_id": task.id,
            "command": task.command,
            "is_completed": task.state != TaskState::Running,
            "state": state(task),
            "unread_bytes": task.unread,
        })
    };
    Reply::text(text).structured(json!({"tasks": tasks.iter().map(object).collect::<Vec<_>>()}))
}
