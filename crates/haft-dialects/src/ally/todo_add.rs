//! `todo_add`: adds tasks to the list.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Success;
use super::todos::{self, TodoList};
use haft_ops::{ChangeTodos, TodosNow};
use haft_text::count_of;

/// Adds tasks.
pub(crate) struct TodoAdd;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// What is to be done, task by task
    #[schemars(example = ["Read the parser", "Write a test"], length(min = 1, max = 100))]
    tasks: Vec<String>,
}

impl Tool for TodoAdd {
    const NAME: &'static str = "todo_add";
    const DESCRIPTION: &'static str = include_str!("todo_add.md");
    type Input = Input;
    type Op = ChangeTodos;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning)
            .sensitivity(Sensitivity::Safe)
            .in_plan()
            .output::<Success<TodoList>>()
    }

    fn lower(input: &Input, _cx: &Context) -> Result<ChangeTodos, Fault> {
        Ok(ChangeTodos::Add(input.tasks.clone()))
    }

    fn render(_input: &Input, output: TodosNow, _cx: &Context) -> Result<Reply, Fault> {
        let message = format!("{} added", count_of(output.changed as u64, "task"));
        Ok(todos::reply(output, message))
    }

    fn preview_use(input: &Input) -> Option<String> {
        input.tasks.first().cloned()
    }
}
