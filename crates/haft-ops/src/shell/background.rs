//! Background commands: starting, listing, reading their output, ending them. They end with the session at the latest. Knows
//! nothing of how a dialect names its tools for this.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_core::{Claims, Context, Fault, FaultKind, Operation, Resource, suggest};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Output, RunEvent};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::run::Started;
use super::{Command, Printed, begin, in_words, recorded};

/// Name of the background commands in claims.
const TASKS: &str = "background commands";
/// Largest number of commands that run in the background at once.
const MAX_RUNNING: usize = 32;
/// Number of ended commands whose output is kept.
const MAX_ENDED: usize = 64;

/// Reads the new output of a background command, or lists all of them.
#[derive(Clone, Debug)]
pub struct Look {
    /// Id of the command. Default: list all.
    pub id: Option<String>,
    /// Longest time to wait for the command's end. Default: do not wait.
    pub wait: Option<Duration>,
}

/// Result of [`Look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// State of one command.
    At {
        /// Output since the last call.
        text: String,
        /// Whether the command still runs.
        state: TaskState,
    },
    /// All commands, the latest last.
    All(Vec<TaskListed>),
}

/// State of a background command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The command runs.
    Running,
    /// The command ended by itself.
    Ended(Exit),
    /// The command was killed by a call or at the end of the session.
    Killed,
}

/// Kills a background command.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Id of the command.
    pub id: String,
}

/// Entry in the list of background commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskListed {
    /// Id of the command.
    pub id: String,
    /// Text of the command.
    pub command: String,
    /// Whether the command still runs.
    pub state: TaskState,
    /// Bytes of output that no call has read.
    pub unread: u64,
}

/// The background commands of a session.
#[derive(Default)]
pub struct Tasks(Mutex<TaskTable>);

#[derive(Default)]
struct TaskTable {
    count: u64,
    tasks: BTreeMap<u64, Arc<BackgroundTask>>,
}

struct BackgroundTask {
    command: String,
    /// Whether a reply has reported the end to the model.
    reported: AtomicBool,
    /// The output, and the position up to which calls have read it.
    printed: Mutex<(Printed, u64)>,
    state: watch::Receiver<TaskState>,
    kill: watch::Sender<bool>,
    work: tokio::task::AbortHandle,
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        // Dropping the future drops the sandbox, which ends all processes in it.
        self.work.abort();
    }
}

impl Tasks {
    fn table(&self) -> MutexGuard<'_, TaskTable> {
        self.0.lock()
    }

    /// Lists all commands, the latest last.
    pub fn list(&self) -> Vec<TaskListed> {
        let table = self.table();
        let list = table.tasks.iter().map(|(number, task)| {
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

    /// Notes about commands that have ended by themselves since the last reply; marks them as reported.
    pub(super) fn unreported_ends(&self) -> Vec<String> {
        let table = self.table();
        let notes = table.tasks.iter().filter_map(|(number, task)| {
            let TaskState::Ended(exit) = *task.state.borrow() else { return None };
            let is_new = !task.reported.swap(true, Ordering::Relaxed);
            is_new.then(|| format!("`bash_{number}` in the background has ended: {}", ended_in_words(exit)))
        });
        notes.collect()
    }

    fn find(&self, id: &str) -> Result<Arc<BackgroundTask>, Fault> {
        let table = self.table();
        let number = id.strip_prefix("bash_").and_then(|number| number.parse().ok());
        if let Some(task) = number.and_then(|number: u64| table.tasks.get(&number)) {
            return Ok(task.clone());
        }
        let all: Vec<String> = table.tasks.keys().map(|number| format!("bash_{number}")).collect();
        let fault = Fault::new(FaultKind::NotFound, format!("there is no command `{id}` in the background"))
            .with("id", id);
        let listed: Vec<&str> = all.iter().rev().take(10).map(String::as_str).collect();
        match listed.is_empty() {
            true => Err(fault.hint("none was started in this session")),
            false => Err(fault.hint(format!("there is {}", suggest::or_list(&listed)))),
        }
    }
}

/// Starts a command in the background and returns its id.
pub(super) async fn start(command: &Command, cx: &Context) -> Result<String, Fault> {
    let tasks = cx.session().extension::<Tasks>();
    let is_running = |task: &Arc<BackgroundTask>| *task.state.borrow() == TaskState::Running;
    let running = tasks.table().tasks.values().filter(|task| is_running(task)).count();
    if running >= MAX_RUNNING {
        return Err(Fault::failed(format!("{running} commands run in the background already"))
            .hint("end one of them first"));
    }
    let Started { mut running, recording, notes, .. } = begin(command, Output::Joined, cx).await?;
    let (state_sender, state) = watch::channel(TaskState::Running);
    let (kill, mut killed) = watch::channel(false);
    // The task's entry holds the abort handle of its future, and the future writes into the entry: the channel closes the
    // circle, and the weak reference lets the entry end the future when it is dropped.
    let (entry_sender, entry) = tokio::sync::oneshot::channel::<std::sync::Weak<BackgroundTask>>();
    let number = {
        let mut table = tasks.table();
        table.count += 1;
        table.count
    };
    let id = format!("bash_{number}");
    let (inside, name, text) = (cx.after_the_call(), id.clone(), command.text.clone());
    let work = tokio::spawn(async move {
        let mut session_end = std::pin::pin!(inside.cancelled());
        let Ok(task) = entry.await else { return };
        let mut is_killed = false;
        let state = loop {
            let event = tokio::select! {
                event = running.next() => event.map(|event| match event {
                    RunEvent::Output(_, bytes) => Some(bytes.to_vec()),
                    RunEvent::Ended(_) => None,
                }),
                _ = killed.changed(), if !is_killed => {
                    is_killed = true;
                    running.kill();
                    continue;
                }
                // No command outlives its session.
                () = &mut session_end, if !is_killed => {
                    is_killed = true;
                    running.kill();
                    continue;
                }
            };
            match event {
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
        let mut notes = Vec::new();
        if let Some(mut ended) = running.ended().cloned() {
            notes = super::set_aside_notes(&ended, &inside);
            let (changes, more) = recorded::adopt(&mut ended, recording, &text, &inside).await;
            notes.extend(more);
            if let Some(number) = changes.number {
                notes.push(format!("what it changed is change {number}"));
            }
        }
        if let (Some(task), false) = (task.upgrade(), notes.is_empty()) {
            let text = format!("\nnote: {}\n", notes.join("\nnote: "));
            task.printed.lock().0.add(text.as_bytes(), || None);
        }
        state_sender.send_replace(state);
        inside.finished(
            &name,
            &match state {
                TaskState::Ended(exit) => ended_in_words(exit),
                _ => "it was ended".to_owned(),
            },
        );
    });
    let mut printed = Printed::background();
    for note in notes {
        printed.add(format!("note: {note}\n").as_bytes(), || None);
    }
    let task = Arc::new(BackgroundTask {
        command: command.text.clone(),
        reported: AtomicBool::new(false),
        printed: Mutex::new((printed, 0)),
        state,
        kill,
        work: work.abort_handle(),
    });
    let _ = entry_sender.send(Arc::downgrade(&task));
    let mut table = tasks.table();
    table.tasks.insert(number, task);
    let ended: Vec<u64> = table.tasks.iter().filter(|(_, task)| !is_running(task)).map(|(n, _)| *n).collect();
    for old in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
        table.tasks.remove(old);
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
            task.reported.store(true, Ordering::Relaxed);
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
