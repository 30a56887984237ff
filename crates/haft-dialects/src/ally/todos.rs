//! The list of tasks as this dialect shows it.

use chrono::{DateTime, SecondsFormat};
use haft_core::Reply;
use schemars::JsonSchema;
use serde::Serialize;

use super::success;
use haft_ops::{Todo, TodoStatus, TodosNow};

/// The reply of every tool that changes the list.
#[derive(Serialize, JsonSchema)]
pub(super) struct TodoList {
    /// The list
    todos: Vec<Listed>,
    /// How many tasks there are
    total_count: usize,
    /// What happened, and which task is next
    message: String,
}

/// A task of the list.
#[derive(Serialize, JsonSchema)]
struct Listed {
    /// A name that no other task has
    id: String,
    /// What is to be done
    task: String,
    /// Whether it is done
    completed: bool,
    /// When it was added
    created_at: String,
}

impl From<&Todo> for Listed {
    fn from(todo: &Todo) -> Self {
        let created =
            i64::try_from(todo.created).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        Self {
            id: todo.id.clone(),
            task: todo.task.clone(),
            completed: todo.status == TodoStatus::Completed,
            created_at: created.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true),
        }
    }
}

pub(super) fn reply(now: TodosNow, message: String) -> Reply {
    let message = match now.next() {
        Some(next) => format!("{message}; NEXT: {}", next.task),
        None if now.todos.is_empty() => message,
        None => format!("{message}; every task is completed"),
    };
    success(TodoList {
        todos: now.todos.iter().map(Listed::from).collect(),
        total_count: now.todos.len(),
        message,
    })
}
