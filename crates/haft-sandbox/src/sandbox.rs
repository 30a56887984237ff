//! Running commands in a sandbox: nothing they start outlives them, and they touch only what the policy allows.
//!
//! A session has one sandbox: its commands share temporary files, a loopback network and each other's processes, and nothing
//! of it outlives the session. Haft starts its own program once more; what that forks for a session is a *supervisor*, which
//! makes the sandbox's namespaces and reports which layers the kernel has. In it, *slots* run the commands: each command gets a view of the files and the
//! rights that its own policy describes. This module knows nothing of tools or permissions.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

mod cgroups;
mod cleanup;
mod guards;
mod launcher;
mod layer_error;
#[cfg(target_os = "linux")]
mod layers;
mod policy;
#[cfg(target_os = "linux")]
pub mod recorder;
mod running;
mod slot;
mod supervisor;
#[cfg(target_os = "linux")]
pub mod trial;
mod wire;
mod worker;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe;

pub use cgroups::Quota;
pub use cleanup::settle;
pub(crate) use guards::made_by_haft;
pub use guards::{SharedRepository, shared_repository};
pub use policy::{Layer, Layers, LimitHit, Limits, Network, Policy, Report, Visibility};
use running::Recording;
pub use running::{CommandEnd, RunEvent, Running};
pub use worker::{Worked, Worker, filter, has_worker, work};

use cgroups::Account;
use guards::Guards;
use layer_error::LayerError;
use slot::{SlotProcess, Supervisor};
use supervisor::Base;
use wire::{Build, Parts};

/// `argv[0]` of a process that is started as a supervisor.
const SUPERVISOR: &str = "haft-supervisor";
/// Message by which a supervisor asks haft to write the user maps of its namespace.
const MAP_USERS: &str = "map";
/// Message by which haft asks a supervisor for a slot.
const SLOT: &str = "slot";
/// Message of a slot that waits for a command.
const READY: &str = "ready";
/// Message of a command that is about to start: the listener for its recorder is beside it, or why there is none.
const RECORDER: &str = "recorder";
/// Message of a slot whose command's program has started.
const STARTED: &str = "started";
/// Message by which haft asks a slot to send SIGTERM to its command and all that this has started.
const TERMINATE: &str = "terminate";
/// Message by which haft asks a slot to kill its command and all that this has started.
const KILL: &str = "kill";
/// Size of the output buffer.
const CHUNK: usize = 256 << 10;
/// How long to wait for the last output once every process of a command has ended, and for those processes once they were
/// killed.
const DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Reported reason for a layer that the policy switches off.
const LEFT_OUT: &str = "it was left out";

static ARMED: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main`, before any thread is started: in a process that was started as a supervisor it
/// does not return. Without it no sandbox can be made.
pub fn arm() {
    arm_with(&[]);
}

/// Does what [`arm`] does, for a program that also has [workers](Worker).
pub fn arm_with(workers: &'static [Worker]) {
    if std::env::args_os().next().is_some_and(|name| name == SUPERVISOR) {
        supervisor::main();
    }
    worker::arm(workers);
    // Haft's memory may hold secrets: no core dump, and no access by other processes of this user.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    ARMED.store(true, Ordering::Release);
}

/// Whether sandboxes can be made: [`arm`] was called.
pub fn is_armed() -> bool {
    ARMED.load(Ordering::Acquire)
}

/// A command to run in a sandbox.
#[derive(Clone, Debug)]
pub struct Task {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// Its whole environment; it inherits nothing.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads on its standard input.
    pub input: Vec<u8>,
    /// Whether the program is a bash that reports its working directory when it exits.
    pub reports_dir: bool,
    /// What to record of its changes. Needs a sandbox with layers.
    pub record: Option<recorder::Options>,
    /// The view to run it in, if it is tried. Needs a sandbox with a mount namespace.
    pub view: Option<trial::Mounts>,
}

/// Whether standard output and standard error are read as one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// One stream, in the order of writing.
    Joined,
    /// Two streams.
    Apart,
}

/// Which stream some output was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or both where they are joined.
    Out,
    /// Standard error.
    Err,
}

/// The sandbox of a session. What its commands need of the machine is set up when the first of them runs; dropping it ends
/// every process in it.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// A supervisor for each set of layers that commands have asked for: all of them, or none for commands that the user lets
    /// run freely. Dropped before the account, whose control group goes when no process is left in it.
    supervisors: tokio::sync::Mutex<HashMap<Base, Arc<Supervisor>>>,
    account: Arc<Account>,
}

impl Sandbox {
    /// A sandbox whose commands, all that ever run in it together, share this quota.
    pub fn new(quota: Quota) -> Self {
        Self { account: Arc::new(Account::new(quota)), supervisors: tokio::sync::Mutex::default() }
    }

    /// A slot for a command with this policy. Fails once the session's processor time is used up.
    pub async fn slot(&self, policy: &Policy, output: Output) -> io::Result<Slot> {
        self.account.require_time()?;
        let base = Base { layers: policy.layers, without: policy.without.clone() };
        let (mut supervisor, mut is_renewed) = self.supervisor(&base).await?;
        let process = match supervisor.slot(&self.account, policy).await {
            // It may have died since it was looked at.
            Err(_) if !supervisor.is_alive() => {
                (supervisor, is_renewed) = self.supervisor(&base).await?;
                supervisor.slot(&self.account, policy).await?
            }
            process => process?,
        };
        let report = supervisor.report(policy, &process);
        let layers = supervisor.layers();
        let policy = Policy { guarded: guards::resolved(policy), layers, ..policy.clone() };
        Ok(Slot { account: self.account.clone(), supervisor, process, report, policy, output, is_renewed })
    }

    /// The supervisor for commands with these layers, and whether it took the place of one that died.
    async fn supervisor(&self, base: &Base) -> io::Result<(Arc<Supervisor>, bool)> {
        let mut supervisors = self.supervisors.lock().await;
        let known = supervisors.get(base);
        if let Some(supervisor) = known.filter(|supervisor| supervisor.is_alive()) {
            return Ok((supervisor.clone(), false));
        }
        let is_renewed = known.is_some();
        let supervisor = Arc::new(Supervisor::start(base).await?);
        supervisors.insert(base.clone(), supervisor.clone());
        Ok((supervisor, is_renewed))
    }
}

/// A place in a sandbox for one command.
#[derive(Debug)]
pub struct Slot {
    account: Arc<Account>,
    supervisor: Arc<Supervisor>,
    process: SlotProcess,
    report: Report,
    policy: Policy,
    output: Output,
    is_renewed: bool,
}

impl Slot {
    /// Which layers are in force.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Whether the sandbox was lost and made anew: what commands had in their temporary folders, and those that ran in the
    /// background, are gone.
    pub fn is_renewed(&self) -> bool {
        self.is_renewed
    }

    /// Runs a command. Fails if its sandbox could not be set up; the command has not run then.
    pub async fn run(self, task: Task) -> io::Result<Running> {
        let input = input_file(&task.input)?;
        self.start(task, input).await
    }

    /// Runs a command whose standard input is a pipe.
    pub async fn talk(self, task: Task) -> io::Result<(Running, pipe::Sender)> {
        let (input, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((self.start(task, input).await?, pipe::Sender::from_owned_fd(ours)?))
    }

    async fn start(mut self, task: Task, input: OwnedFd) -> io::Result<Running> {
        let bytes = |text: OsString| text.into_vec();
        let env =
            task.env.into_iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let guards = Guards::before(&self.policy);
        let (out, out_end) = output_pipe()?;
        let (err, err_end) = match self.output {
            Output::Joined => (None, out_end.try_clone()?),
            Output::Apart => output_pipe().map(|(err, end)| (Some(err), end))?,
        };
        // A control group limits the number of processes better than a resource limit, which counts all of a user's.
        let processes = self.policy.limits.processes.filter(|_| self.process.cgroup.is_none());
        let memory = self.policy.limits.total_memory.filter(|_| self.process.cgroup.is_none());
        let limits = Limits { processes, ..self.policy.limits };
        let frame = Policy { limits, ..self.policy.clone() }
            .build(Build::default())
            .bytes(bytes(task.program))
            .list(task.args.into_iter().map(bytes))
            .bytes(bytes(task.dir.into_os_string()))
            .list(env)
            .number(task.reports_dir.into())
            .number(task.record.is_some().into())
            .number(memory.unwrap_or(u64::MAX));
        let frame = task.view.unwrap_or_default().build(frame).frame();
        let files = [input.as_fd(), out_end.as_fd(), err_end.as_fd()];
        let socket = &mut self.process.socket;
        socket.send(&frame, &files).await?;
        drop((input, out_end, err_end));
        let mut recording = Recording::None;
        loop {
            let (frame, mut files) = match socket.receive().await {
                // A command can kill its slot before that tells of its start: it ran, and `Running` tells how it ended.
                Err(error) if is_closed(&error) => {
                    return Ok(Running::new(self, guards, recording, out, err));
                }
                received => received?,
            };
            let frame = LayerError::parse(frame).map_err(|error| {
                let error = io::Error::from(error);
                io::Error::new(error.kind(), format!("nothing was run: {error}"))
            })?;
            let mut parts = Parts::of(frame);
            if parts.bytes()? != RECORDER.as_bytes() {
                return Ok(Running::new(self, guards, recording, out, err));
            }
            recording = match (files.pop(), &task.record) {
                (Some(listener), Some(options)) => {
                    let deny: recorder::Deny = guards.deny();
                    Recording::start(listener, recorder::Options { deny: Some(deny), ..options.clone() })
                        .await
                }
                _ => Recording::Impossible(String::from_utf8_lossy(&parts.bytes()?).into_owned()),
            };
        }
    }
}

/// Whether an error says that the other end of a socket is gone.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// A pipe for output, large enough for a program to print a lot before haft reads.
fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let _ = rustix::pipe::fcntl_setpipe_size(&ours, 1 << 20);
    Ok((pipe::Receiver::from_owned_fd(ours)?, theirs))
}

/// Standard input of a command: a file in memory, or nothing.
fn input_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return Ok(std::fs::File::open("/dev/null")?.into());
    }
    let memory = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
