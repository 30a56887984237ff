//! Commands that run while others go on. They end with the session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft::{Claims, Context, Fault, FaultKind, Operation, Resource, suggest};
use haft_sandbox::Exit;
use haft_sandbox::cage::{Happened, Output};
use tokio::sync::watch;

use super::{Command, Printed, begin};

/// What the commands in the background are to others.
const TASKS: &str = "background commands";
/// So many commands run in the background at once.
const MAX_RUNNING: usize = 32;
/// Of so many that have ended the output is kept.
const MAX_ENDED: usize = 64;

/// Looks at a command in the background.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which.
    pub id: String,
    /// How long it is waited for at most, if at all.
    pub wait: Option<Duration>,
}

/// What became of a command so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What it printed since it was last looked at.
    pub text: String,
    /// Whether it still runs.
    pub state: TaskState,
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

/// The commands that a session has in the background.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Known>);

#[derive(Default)]
struct Known {
    count: u64,
    tasks: BTreeMap<u64, Arc<OneTask>>,
}

struct OneTask {
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
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut running = begin(command, Output::Joined, cx).await?;
    let (tell_state, state) = watch::channel(TaskState::Running);
    let (kill, mut killed) = watch::channel(false);
    let (hand_over, handed) = tokio::sync::oneshot::channel::<std::sync::Weak<OneTask>>();
    let inside = cx.clone();
    let work = tokio::spawn(async move {
        let Ok(task) = handed.await else { return };
        let mut is_killed = false;
        let state = loop {
            let happened = tokio::select! {
                happened = running.next() => happened.map(|happened| match happened {
                    Happened::Output(_, bytes) => Some(bytes.to_vec()),
                    Happened::Ended(_) => None,
                }),
                _ = killed.changed(), if !is_killed => {
                    is_killed = true;
                    running.kill();
                    continue;
                }
            };
            match happened {
                Ok(Some(bytes)) => {
                    inside.output(&String::from_utf8_lossy(&bytes));
                    let Some(task) = task.upgrade() else { return };
                    task.printed.lock().unwrap_or_else(PoisonError::into_inner).0.add(&bytes);
                }
                Ok(None) if is_killed => break TaskState::Killed,
                Ok(None) => break TaskState::Ended(running.exit().unwrap_or(Exit::Code(-1))),
                Err(_) => break TaskState::Killed,
            }
        };
        let notes = running.ended().map(|ended| super::set_aside(ended, &inside)).unwrap_or_default();
        if let (Some(task), false) = (task.upgrade(), notes.is_empty()) {
            let told = format!("\nnote: {}\n", notes.join("\nnote: "));
            task.printed.lock().unwrap_or_else(PoisonError::into_inner).0.add(told.as_bytes());
        }
        tell_state.send_replace(state);
    });
    let task = Arc::new(OneTask { printed: Mutex::default(), state, kill, work: work.abort_handle() });
    let _ = hand_over.send(Arc::downgrade(&task));
    let mut known = tasks.known();
    known.count += 1;
    let number = known.count;
    known.tasks.insert(number, task);
    let ended: Vec<u64> = known.tasks.iter().filter(|(_, task)| !is_running(task)).map(|(n, _)| *n).collect();
    for old in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
        known.tasks.remove(old);
    }
    Ok(format!("bash_{number}"))
}

impl Operation for Look {
    type Output = Looked;

    fn possible(_cx: &Context) -> bool {
        haft_sandbox::cage::is_armed()
    }

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::State(TASKS.into()))
    }

    async fn run(self, cx: &Context) -> Result<Looked, Fault> {
        let task = cx.session().extension::<Tasks>().find(&self.id)?;
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
        let mut printed = task.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let (text, end) = printed.0.since(printed.1);
        printed.1 = end;
        Ok(Looked { text, state })
    }
}

impl Operation for Kill {
    type Output = TaskState;

    fn possible(_cx: &Context) -> bool {
        haft_sandbox::cage::is_armed()
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
