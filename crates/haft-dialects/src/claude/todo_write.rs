//! `TodoWrite`: replaces the list of tasks.

use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use haft_ops::{ChangeTodos, NewTodo, TodoStatus, TodosNow};
use haft_text::count_of;

/// Writes the list of tasks.
pub(crate) struct TodoWrite;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The whole list: it takes the place of the one before
    #[schemars(length(max = haft_ops::MAX_TODOS))]
    todos: Vec<Item>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
// Further fields, such as an `id`, are ignored: models know them from other lists.
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = true))]
struct Item {
    /// What is to be done, as an order
    #[schemars(example = &"Run the tests", length(min = 1))]
    content: String,
    /// How it stands; at most one task is in progress
    status: Status,
    /// The same as it is shown while the task is in progress
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"Running the tests", length(min = 1))]
    active_form: Option<String>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

impl From<Status> for TodoStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
        }
    }
}

impl Tool for TodoWrite {
    const NAME: &'static str = "TodoWrite";
    const DESCRIPTION: &'static str = include_str!("todo_write.md");
    type Input = Input;
    type Op = ChangeTodos;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Planning).sensitivity(Sensitivity::Safe).in_plan()
    }

    fn lower(input: &Input, _cx: &Context) -> Result<ChangeTodos, Fault> {
        let new = |item: &Item| NewTodo {
            task: item.content.clone(),
            status: item.status.into(),
            active: item.active_form.clone(),
        };
        Ok(ChangeTodos::Replace(input.todos.iter().map(new).collect()))
    }

    fn render(input: &Input, output: TodosNow, _cx: &Context) -> Result<Reply, Fault> {
        let count = |status| output.todos.iter().filter(|todo| todo.status == status).count() as u64;
        let all = output.todos.len() as u64;
        let mut text = match all {
            0 => "the todo list is empty now".to_owned(),
            _ => format!(
                "the todo list has {}, {} completed and {} pending",
                count_of(all, "task"),
                count(TodoStatus::Completed),
                count(TodoStatus::Pending)
            ),
        };
        if let Some(active) = output.todos.iter().find(|todo| todo.status == TodoStatus::InProgress) {
            text.push_str("; active: ");
            text.push_str(active.active.as_ref().unwrap_or(&active.task));
        }
        Ok(Reply::text(text).structured(json!({"todos": input.todos})))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(count_of(input.todos.len() as u64, "task"))
    }
}
