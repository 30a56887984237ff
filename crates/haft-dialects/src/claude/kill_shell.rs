//! `KillShell`: kills a background command.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{Kill, TaskState};

/// Ends a command in the background.
pub(crate) struct KillShell;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Which, as it was told when it was started
    #[schemars(example = &"bash_1")]
    shell_id: String,
}

impl Tool for KillShell {
    const NAME: &'static str = "KillShell";
    const DESCRIPTION: &'static str = include_str!("kill_shell.md");
    type Input = Input;
    type Op = Kill;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Shell).sensitivity(Sensitivity::Safe)
    }

    fn lower(input: &Input, _cx: &Context) -> Result<Kill, Fault> {
        Ok(Kill { id: input.shell_id.clone() })
    }

    fn render(input: &Input, before: TaskState, _cx: &Context) -> Result<Reply, Fault> {
        let id = &input.shell_id;
        let killed = before == TaskState::Running;
        let text = if killed { format!("`{id}` was ended") } else { format!("`{id}` had ended already") };
        Ok(Reply::text(text).structured(json!({"shell_id": id, "killed": killed})))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.shell_id.clone())
    }
}
