//! The to-do list of a session. All tools of a session share one list, and the list is saved with the session. Knows
//! nothing of how a dialect formats tasks.

use std::time::{SystemTime, UNIX_EPOCH};

use haft_core::sessions::SavedState;
use haft_core::{Claims, Context, Fault, FaultKind, Operation, Resource, Session};
use haft_sandbox::random_id;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// Name of the list in claims and in the saved session.
const TODOS: &str = "todos";
/// Largest number of tasks in a list.
pub const MAX_TODOS: usize = 500;

/// The to-do list of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Todos(Mutex<Vec<Todo>>);

impl SavedState for Todos {
    const NAME: &'static str = TODOS;
}

impl Todos {
    /// Copies the current tasks of a session.
    pub fn of(session: &Session) -> Vec<Todo> {
        session.lasting::<Self>().all().clone()
    }

    /// Converts the list to its tasks, in order.
    pub fn into_vec(self) -> Vec<Todo> {
        self.0.into_inner()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Todo>> {
        self.0.lock()
    }
}

/// A task of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Unique id.
    pub id: String,
    /// Description of the task.
    pub task: String,
    /// Status of the task.
    pub status: TodoStatus,
    /// Text to display while the task is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
}

/// A task of a new list, still without id and time of creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTodo {
    /// Description of the task.
    pub task: String,
    /// Status of the task.
    pub status: TodoStatus,
    /// Text to display while the task is in progress.
    pub active: Option<String>,
}

/// Changes the to-do list of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeTodos {
    /// Replaces the whole list. At most one task may be in progress.
    Replace(Vec<NewTodo>),
    /// Adds tasks at the end.
    Add(Vec<String>),
    /// Marks the task at this index, counted from 0, as completed.
    Complete(usize),
    /// Removes all tasks.
    Clear,
}

/// Result of a change of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodosNow {
    /// The tasks after the change.
    pub todos: Vec<Todo>,
    /// Number of tasks that the change was about.
    pub changed: usize,
}

impl TodosNow {
    /// The first task that is not completed.
    pub fn next(&self) -> Option<&Todo> {
        self.todos.iter().find(|todo| todo.status != TodoStatus::Completed)
    }
}

impl ChangeTodos {
    /// Computes the changed list. Changes nothing, so that `check` can use it as well.
    fn apply(&self, todos: &[Todo]) -> Result<TodosNow, Fault> {
        let mut now = todos.to_vec();
        let changed = match self {
            Self::Replace(new) => {
                one_at_a_time(new)?;
                now = replaced(todos, new);
                new.len()
            }
            Self::Add(tasks) => {
                now.extend(tasks.iter().map(|task| fresh(task.clone(), TodoStatus::Pending, None)));
                tasks.len()
            }
            Self::Complete(index) => {
                complete(&mut now, *index)?;
                1
            }
            Self::Clear => {
                now.clear();
                todos.len()
            }
        };
        if let Some(at) = now.iter().position(|todo| todo.task.trim().is_empty()) {
            return Err(
                Fault::invalid(format!("the task at {at} says nothing")).hint("say what is to be done")
            );
        }
        if now.len() > MAX_TODOS {
            return Err(Fault::invalid(format!("{} tasks are more than {MAX_TODOS}", now.len()))
                .hint("leave out what is done, or say several tasks as one"));
        }
        Ok(TodosNow { todos: now, changed })
    }
}

/// Fails if several tasks are in progress.
fn one_at_a_time(new: &[NewTodo]) -> Result<(), Fault> {
    let mut active = new.iter().filter(|todo| todo.status == TodoStatus::InProgress);
    match (active.next(), active.next()) {
        (Some(one), Some(other)) => {
            Err(Fault::invalid(format!("`{}` and `{}` are both in progress", one.task, other.task))
                .hint("work at one task at a time; the others are pending or completed"))
        }
        _ => Ok(()),
    }
}

/// Builds the new list. A task with a known description keeps its id and time of creation.
fn replaced(before: &[Todo], new: &[NewTodo]) -> Vec<Todo> {
    let mut before: Vec<&Todo> = before.iter().collect();
    let mut made = Vec::with_capacity(new.len());
    for NewTodo { task, status, active } in new {
        let known = before.iter().position(|todo| todo.task == *task).map(|at| before.remove(at));
        made.push(match known {
            Some(known) => Todo { status: *status, active: active.clone(), ..known.clone() },
            None => fresh(task.clone(), *status, active.clone()),
        });
    }
    made
}

fn complete(todos: &mut [Todo], index: usize) -> Result<(), Fault> {
    let count = todos.len();
    let Some(todo) = todos.get_mut(index) else {
        let hint = match count {
            0 => "the list is empty".to_owned(),
            1 => "there is one task, at 0".to_owned(),
            _ => format!("there are {count} tasks, from 0 to {}", count - 1),
        };
        return Err(Fault::new(FaultKind::NotFound, format!("there is no task at {index}")).hint(hint));
    };
    if todo.status == TodoStatus::Completed {
        return Err(Fault::new(FaultKind::Conflict, format!("`{}` is completed already", todo.task))
            .hint("complete another task"));
    }
    todo.status = TodoStatus::Completed;
    Ok(())
}

fn fresh(task: String, status: TodoStatus, active: Option<String>) -> Todo {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Todo { id: fresh_id(), task, status, active, created }
}

/// A random UUID.
fn fresh_id() -> String {
    let bits = u128::from_str_radix(&random_id(), 16).unwrap_or_default();
    // The bits of version 4 and variant 1 (RFC 9562).
    let bits = bits & !(0xf << 76) | 0x4 << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl Operation for ChangeTodos {
    type Output = TodosNow;

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::State(TODOS.into()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<haft_core::Preview>, Fault> {
        self.apply(&Todos::of(cx.session())).map(|_| None)
    }

    async fn run(self, cx: &Context) -> Result<TodosNow, Fault> {
        let list = cx.session().lasting::<Todos>();
        let mut todos = list.all();
        let now = self.apply(&todos)?;
        todos.clone_from(&now.todos);
        Ok(now)
    }
}
