//! Commands that run while others go on. They end with the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_core::{Claims, Context, Fault, FaultKind, Operation, Resource, suggest};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Output, RunEvent};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::{Command, Printed, begin, in_words};

/// What the commands in the background are to others.
const TASKS: &str = "background commands";
/// So many commands run in the background at once.
const MAX_RUNNING: usize = 32;
/// Of so many that have ended the output is kept.
const MAX_ENDED: usize = 64;

/// Looks at a command in the background, or at all of them.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which; all if none is named.
    pub id: Option<String>,
    /// How long it is waited for at most, if at all.
    pub wait: Option<Duration>,
}

/// What became of a command so far, or which there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// One of them.
    At {
        /// What it printed since it was last looked at.
        text: String,
        /// Whether it still runs.
        state: TaskState,
    },
    /// All of them, the latest last.
    All(Vec<TaskListed>),
}

/// Whether a command still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It does.
    Running,
    /// It has ended.
    Ended(Exit),
    /// It was ended because somebody wanted that.
    Killed,
}

/// Ends a command in the background.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Which.
    pub id: String,
}

/// A command in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskListed {
    /// By what it is asked for.
    pub id: String,
    /// What was run.
    pub command: String,
    /// Whether it still runs.
    pub state: TaskState,
    /// How many bytes it printed that nobody has looked at.
    pub unread: u64,
}

/// The commands that a session has in the background.
#[derive(Default)]
pub struct Tasks(Mutex<TaskTable>);

#[derive(Default)]
struct TaskTable {
    count: u64,
    tasks: BTreeMap<u64, Arc<OneTask>>,
}

struct OneTask {
    command: String,
    /// Whether the model knows that it has ended.
    told: AtomicBool,
    printed: Mutex<(Printed, u64)>,
    state: watch::Receiver<TaskState>,
    kill: watch::Sender<bool>,
    work: tokio::task::AbortHandle,
}

impl Drop for OneTask {
    fn drop(&mut self) {
        // What it runs in ends with it.
        self.work.abort();
    }
}

impl Tasks {
    fn known(&self) -> MutexGuard<'_, TaskTable> {
        self.0.lock()
    }

    /// All of them, the latest last.
    pub fn list(&self) -> Vec<TaskListed> {
        let known = self.known();
        let list = known.tasks.iter().map(|(number, task)| {
            let printed = task.printed.lock();
            TaskListed {
                id: format!("bash_{number}"),
                command: task.command.clone(),
                state: *task.state.borrow(),
                unread: printed.0.total - printed.1,
            }
        });
        list.collect()
    }

    /// What the model does not know yet: which of them have ended by themselves.
    pub(super) fn news(&self) -> Vec<String> {
        let known = self.known();
        let news = known.tasks.iter().filter_map(|(number, task)| {
            let TaskState::Ended(exit) = *task.state.borrow() else { return None };
            let is_new = !task.told.swap(true, Ordering::Relaxed);
            is_new.then(|| format!("`bash_{number}` in the background has ended: {}", ended_in_words(exit)))
        });
        news.collect()
    }

    fn find(&self, id: &str) -> Result<Arc<OneTask>, Fault> {
        let known = self.known();
        let number = id.strip_prefix("bash_").and_then(|number| number.parse().ok());
        if let Some(task) = number.and_then(|number: u64| known.tasks.get(&number)) {
            return Ok(task.clone());
        }
        let all: Vec<String> = known.tasks.keys().map(|number| format!("bash_{number}")).collect();
        let fault = Fault::new(FaultKind::NotFound, format!("there is no command `{id}` in the background"))
            .with("id", id);
        let listed: Vec<&str> = all.iter().rev().take(10).map(String::as_str).collect();
        match listed.is_empty() {
            true => Err(fault.hint("none was started in this session")),
            false => Err(fault.hint(format!("there is {}", suggest::or_list(&listed)))),
        }
    }
}

/// Starts a command and does not wait for it. Gives what it is asked for by.
pub(super) async fn start(command: &Command, cx: &Context) -> Result<String, Fault> {
    let tasks = cx.session().extension::<Tasks>();
    let is_running = |task: &Arc<OneTask>| *task.state.borrow() == TaskState::Running;
    let running = tasks.known().tasks.values().filter(|task| is_running(task)).count();
    if running >= MAX_RUNNING {
        return Err(Fault::failed(format!("{running} commands run in the background already"))
            .hint("end one of them first"));
    }
    let (mut running, _) = begin(command, Output::Joined, cx).await?;
    let (tell_state, state) = watch::channel(TaskState::Running);
    let (kill, mut killed) = watch::channel(false);
    let (hand_over, handed) = tokio::sync::oneshot::channel::<std::sync::Weak<OneTask>>();
    let number = {
        let mut known = tasks.known();
        known.count += 1;
        known.count
    };
    let id = format!("bash_{number}");
    let (inside, name) = (cx.after_the_call(), id.clone());
    let work = tokio::spawn(async move {
        let mut over = std::pin::pin!(inside.cancelled());
        let Ok(task) = handed.await else { return };
        let mut is_killed = false;
        let state = loop {
            let happened = tokio::select! {
                happened = running.next() => happened.map(|happened| match happened {
                    RunEvent::Output(_, bytes) => Some(bytes.to_vec()),
                    RunEvent::Ended(_) => None,
                }),
                _ = killed.changed(), if !is_killed => {
                    is_killed = true;
                    running.kill();
                    continue;
                }
                // What a session started does not outlast it.
                () = &mut over, if !is_killed => {
                    is_killed = true;
                    running.kill();
                    continue;
                }
            };
            match happened {
                Ok(Some(bytes)) => {
                    inside.output(&String::from_utf8_lossy(&bytes));
                    let Some(task) = task.upgrade() else { return };
                    task.printed.lock().0.add(&bytes, || inside.keep_output());
                }
                Ok(None) if is_killed => break TaskState::Killed,
                Ok(None) => break TaskState::Ended(running.exit().unwrap_or(Exit::Code(-1))),
                Err(_) => break TaskState::Killed,
            }
        };
        let notes = running.ended().map(|ended| super::set_aside(ended, &inside)).unwrap_or_default();
        if let (Some(task), false) = (task.upgrade(), notes.is_empty()) {
            let told = format!("\nnote: {}\n", notes.join("\nnote: "));
            task.printed.lock().0.add(told.as_bytes(), || None);
        }
        tell_state.send_replace(state);
        inside.finished(
            &name,
            &match state {
                TaskState::Ended(exit) => ended_in_words(exit),
                _ => "it was ended".to_owned(),
            },
        );
    });
    let task = Arc::new(OneTask {
        command: command.text.clone(),
        told: AtomicBool::new(false),
        printed: Mutex::new((Printed::behind(), 0)),
        state,
        kill,
        work: work.abort_handle(),
    });
    let _ = hand_over.send(Arc::downgrade(&task));
    let mut known = tasks.known();
    known.tasks.insert(number, task);
    let ended: Vec<u64> = known.tasks.iter().filter(|(_, task)| !is_running(task)).map(|(n, _)| *n).collect();
    for old in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
        known.tasks.remove(old);
    }
    Ok(id)
}

impl Operation for Look {
    type Output = Looked;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::State(TASKS.into()))
    }

    async fn run(self, cx: &Context) -> Result<Looked, Fault> {
        let tasks = cx.session().extension::<Tasks>();
        let Some(id) = &self.id else { return Ok(Looked::All(tasks.list())) };
        let task = tasks.find(id)?;
        let mut state = task.state.clone();
        if let Some(wait) = self.wait {
            let ended = state.wait_for(|state| *state != TaskState::Running);
            tokio::select! {
                _ = ended => {}
                () = tokio::time::sleep(wait) => {}
                () = cx.cancelled() => return Err(cx.cancelled_fault()),
            }
        }
        let state = *task.state.borrow();
        if state != TaskState::Running {
            task.told.store(true, Ordering::Relaxed);
        }
        let mut printed = task.printed.lock();
        let (text, end) = printed.0.since(printed.1);
        printed.1 = end;
        Ok(Looked::At { text, state })
    }
}

impl Operation for Kill {
    type Output = TaskState;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::State(TASKS.into()))
    }

    async fn run(self, cx: &Context) -> Result<TaskState, Fault> {
        let task = cx.session().extension::<Tasks>().find(&self.id)?;
        let before = *task.state.borrow();
        if before != TaskState::Running {
            return Ok(before);
        }
        task.kill.send_replace(true);
        let mut state = task.state.clone();
        let _ = state.wait_for(|state| *state != TaskState::Running).await;
        Ok(TaskState::Running)
    }
}

fn ended_in_words(exit: Exit) -> String {
    in_words(exit).unwrap_or_else(|| "exit code 0".to_owned())
}
