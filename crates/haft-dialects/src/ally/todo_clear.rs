//! `todo_clear`: removes all tasks from the list.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Success;
use super::todos::{self, TodoList};
use haft_ops::{ChangeTodos, TodosNow};
use haft_text::count_of;

/// Clears the list.
pub(crate) struct TodoClear;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {}

impl Tool for TodoClear {
    const NAME: &'static str = "todo_clear";
    const DESCRIPTION: &'static str = include_str!("todo_clear.md");
    type Input = Input;
    type Op = ChangeTodos;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning)
            .sensitivity(Sensitivity::Safe)
            .in_plan()
            .output::<Success<TodoList>>()
    }

    fn lower(_input: &Input, _cx: &Context) -> Result<ChangeTodos, Fault> {
        Ok(ChangeTodos::Clear)
    }

    fn render(_input: &Input, output: TodosNow, _cx: &Context) -> Result<Reply, Fault> {
        let message = match output.changed {
            0 => "the list was empty already".to_owned(),
            count => format!("{} removed", count_of(count as u64, "task")),
        };
        Ok(todos::reply(output, message))
    }

    fn preview_use(_input: &Input) -> Option<String> {
        Some("the whole list".to_owned())
    }
}
