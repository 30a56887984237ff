//! `todo_complete`: marks a task of the list as done.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Success;
use super::todos::{self, TodoList};
use haft_ops::{ChangeTodos, TodosNow};

/// Completes a task.
pub(crate) struct TodoComplete;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Which task, counted from 0
    #[schemars(example = 0)]
    index: usize,
}

impl Tool for TodoComplete {
    const NAME: &'static str = "todo_complete";
    const DESCRIPTION: &'static str = include_str!("todo_complete.md");
    type Input = Input;
    type Op = ChangeTodos;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning)
            .sensitivity(Sensitivity::Safe)
            .in_plan()
            .output::<Success<TodoList>>()
    }

    fn lower(input: &Input, _cx: &Context) -> Result<ChangeTodos, Fault> {
        Ok(ChangeTodos::Complete(input.index))
    }

    fn render(input: &Input, output: TodosNow, _cx: &Context) -> Result<Reply, Fault> {
        let task = output.todos.get(input.index).map(|todo| todo.task.as_str()).unwrap_or_default();
        let message = format!("`{task}` is completed");
        Ok(todos::reply(output, message))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(format!("task {}", input.index))
    }
}
