//! Running commands in a sandbox: nothing they start outlives them, and they touch only what the policy allows.
//! Haft starts its own program once more as a *supervisor*, which enters the sandbox first: it drops every right that the
//! policy does not grant, reports which layers it could set up, and then runs the command. A supervisor can be started
//! ahead of time, so that a command does not wait for its sandbox. This module knows nothing of tools or permissions.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

mod cgroups;
mod cleanup;
mod guards;
mod layer_error;
#[cfg(target_os = "linux")]
mod layers;
mod policy;
mod running;
mod supervisor;
mod wire;
mod worker;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

pub use cgroups::Quota;
pub use cleanup::settle;
pub use guards::{SharedRepository, shared_repository};
pub use policy::{Layer, Layers, LimitHit, Limits, Network, Policy, Report, Visibility};
pub use running::{CommandEnd, RunEvent, Running};
pub use worker::{Worked, Worker, filter, has_worker, work};

use cgroups::{Cgroup, Session};
use guards::Guards;
use layer_error::LayerError;
use wire::{Build, Frame};

/// `argv[0]` of a process that is started as a supervisor.
const SUPERVISOR: &str = "haft-supervisor";
/// Message by which a supervisor asks haft to write the user maps of its namespace.
const MAP_USERS: &str = "map";
/// Last message to a supervisor. Without it, the end of the socket means that haft died.
const BYE: &str = "bye";
/// Size of the output buffer.
const CHUNK: usize = 256 << 10;
/// Most sandboxes that are kept prepared.
const MAX_READY: usize = 4;
/// How long to wait for the last output once every process in the sandbox has ended.
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

/// A sandbox whose supervisor is set up and waits for a command.
#[derive(Debug)]
pub struct Sandbox {
    child: Child,
    control: UnixStream,
    out: ChildStdout,
    err: Option<ChildStderr>,
    report: Report,
    policy: Policy,
    /// Device and inode of each guarded path when the sandbox was made, to notice a file that was replaced since.
    guarded: Vec<Option<(u64, u64)>>,
    cgroup: Option<Cgroup>,
    session: Arc<Session>,
}

impl Sandbox {
    /// Sets up a sandbox. Its report lists the layers that this machine does not support.
    pub async fn new(policy: &Policy, output: Output) -> io::Result<Self> {
        Self::in_session(&Arc::default(), policy, output).await
    }

    async fn in_session(session: &Arc<Session>, policy: &Policy, output: Output) -> io::Result<Self> {
        let policy = &Policy { guarded: guards::resolved(policy), ..policy.clone() };
        // One call makes both namespaces, so a policy without one of these layers gets neither.
        let is_without = [Layer::Processes, Layer::View].iter().any(|layer| policy.without.contains(layer));
        let attempt = match policy.layers == Layers::All && is_without {
            true => Err(LayerError::Unsupported(LEFT_OUT.to_owned())),
            false => Self::set_up(session, policy, output).await,
        };
        match attempt {
            // Fall back only where the kernel lacks the feature: a command or a project could provoke any other failure.
            Err(LayerError::Unsupported(why)) if policy.layers == Layers::All => {
                let few = Policy { layers: Layers::Few, ..policy.clone() };
                let mut sandbox = Self::set_up(session, &few, output).await?;
                let network = (policy.network == Network::Off).then_some(Layer::Network);
                let missing = [Layer::Processes, Layer::View].into_iter().chain(network);
                sandbox.report.missing.extend(missing.map(|layer| (layer, why.clone())));
                Ok(sandbox)
            }
            attempt => Ok(attempt?),
        }
    }

    async fn set_up(session: &Arc<Session>, policy: &Policy, output: Output) -> Result<Self, LayerError> {
        if !is_armed() {
            let message = "no sandbox can be had: `haft_sandbox::sandbox::arm` was not called";
            return Err(io::Error::other(message).into());
        }
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(SUPERVISOR).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        command.stdout(Stdio::piped());
        command.stderr(if output == Output::Apart { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn()?;
        drop(command);
        ours.set_nonblocking(true)?;
        let mut control = UnixStream::from_std(ours)?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("the supervisor has no output"))?;
        let err = child.stderr.take();
        // A large pipe lets a program print a lot before haft reads.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, 1 << 20);
        let output_mode = Frame::of([if output == Output::Joined { "joined" } else { "apart" }]);
        let pid = child.id().unwrap_or(0);
        let limits = policy.limits;
        let joined_cgroup = match policy.without.contains(&Layer::Quota) {
            true => Err(io::Error::other(LEFT_OUT)),
            false => join_cgroup(session.clone(), limits, pid).await,
        };
        // A control group limits the number of processes better than a resource limit, which counts all of a user's.
        let processes = limits.processes.filter(|_| joined_cgroup.is_err());
        let frame = Policy { limits: Limits { processes, ..limits }, ..policy.clone() }.frame();
        let guarded = policy.guarded.iter().map(|path| guards::identity(path)).collect();
        let report = async {
            control.write_all(&[output_mode.encoded(), frame.encoded()].concat()).await?;
            let mut message = LayerError::parse(receive(&mut control).await?)?;
            if message == Frame::of([MAP_USERS]) {
                map_all_users(pid).map_err(|error| LayerError::probed("a user namespace", error))?;
                control.write_all(&message.encoded()).await?;
                message = LayerError::parse(receive(&mut control).await?)?;
            }
            Ok(Report::parse(message)?)
        };
        match report.await {
            Ok(mut report) => {
                let (cgroup, outcome) = match joined_cgroup {
                    Ok(cgroup) => (Some(cgroup), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Whether control groups can be made depends on the machine alone, so no command can provoke this failure.
                report.note(
                    Layer::Quota,
                    outcome.map_err(|error| LayerError::Unsupported(error.to_string())),
                )?;
                let (policy, session) = (policy.clone(), session.clone());
                Ok(Self { child, control, out, err, report, policy, guarded, cgroup, session })
            }
            Err(LayerError::Failed(error)) => {
                let mut why = Vec::new();
                if let Some(mut err) = err {
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, err.read_to_end(&mut why)).await;
                }
                let why = String::from_utf8_lossy(&why);
                // The supervisor usually reports the same error on both ways.
                let more = if why.contains(&error.to_string()) { "" } else { why.trim_end() };
                let message = format!("the sandbox could not be made, so nothing was run: {error}{more}");
                Err(io::Error::new(error.kind(), message).into())
            }
            Err(unsupported) => Err(unsupported),
        }
    }

    /// Which layers are in force.
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Runs a command.
    pub async fn run(mut self, task: Task) -> io::Result<Running> {
        let bytes = |text: OsString| text.into_vec();
        let env =
            task.env.into_iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let guards = Guards::before(&self.policy, self.report.has(Layer::View));
        // A sandbox that was prepared may predate a guarded file: editors often save by replacing the file.
        let known = self.policy.guarded.iter().zip(&self.guarded);
        let new = known.filter(|(path, known)| {
            let now = guards::identity(path);
            now.is_some() && now != **known
        });
        let guarded = new.map(|(path, _)| path).chain(&guards.reserved).cloned();
        let guarded: Vec<Vec<u8>> = guarded.map(|path| bytes(path.into_os_string())).collect();
        let frame = Build::default()
            .list(guarded.into_iter())
            .bytes(bytes(task.program))
            .list(task.args.into_iter().map(bytes))
            .bytes(bytes(task.dir.into_os_string()))
            .list(env)
            .number(task.reports_dir.into())
            .bytes(task.input)
            .frame();
        self.control.write_all(&frame.encoded()).await?;
        Ok(Running::new(self, guards))
    }
}

/// Moves a supervisor into a control group of its own, before it does anything. Blocks for some milliseconds, so it runs on
/// the blocking pool.
async fn join_cgroup(session: Arc<Session>, limits: Limits, supervisor: u32) -> io::Result<Cgroup> {
    let make = move || {
        let cgroup = session.leaf(limits.quota())?;
        cgroup.enter(supervisor).map(|()| cgroup)
    };
    tokio::task::spawn_blocking(make).await.map_err(io::Error::other)?
}

/// Maps all users into the supervisor's user namespace, so that root there owns the files of every user as far as the other
/// layers let it: with only itself mapped, it could not touch another user's files. Only a process outside of the
/// namespace may write these maps.
fn map_all_users(supervisor: u32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{supervisor}/{map}"), "0 0 4294967295")?;
    }
    Ok(())
}

/// A pool of sandboxes that are prepared before they are needed, so that a command does not wait for its own.
#[derive(Debug, Default)]
pub struct SandboxPool {
    sandboxes: Mutex<HashMap<(Policy, Output), Sandbox>>,
    session: Arc<Session>,
}

impl SandboxPool {
    /// A pool whose sandboxes, all that are ever taken from it together, share this quota.
    pub fn new(quota: Quota) -> Self {
        Self { sandboxes: Mutex::default(), session: Arc::new(Session::new(quota)) }
    }

    /// Takes the sandbox that is prepared for this policy, or makes one. Fails once the session's processor time is used up.
    pub async fn take(&self, policy: &Policy, output: Output) -> io::Result<Sandbox> {
        self.session.require_time()?;
        let ready = self.sandboxes().remove(&(policy.clone(), output));
        if let Some(mut sandbox) = ready
            && sandbox.is_alive()
        {
            return Ok(sandbox);
        }
        Sandbox::in_session(&self.session, policy, output).await
    }

    /// Prepares a sandbox for the next command. Best called after a command has ended: a sandbox protects the files that
    /// exist when it is made, and the command may have made some that the next one must not touch.
    pub async fn prepare(&self, policy: &Policy, output: Output) {
        if let Ok(sandbox) = Sandbox::in_session(&self.session, policy, output).await {
            let mut sandboxes = self.sandboxes();
            if sandboxes.len() >= MAX_READY {
                sandboxes.clear();
            }
            sandboxes.insert((policy.clone(), output), sandbox);
        }
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<(Policy, Output), Sandbox>> {
        self.sandboxes.lock()
    }
}

async fn receive(control: &mut UnixStream) -> io::Result<Frame> {
    let mut head = [0; 4];
    control.read_exact(&mut head).await?;
    let mut bytes = vec![0; Frame::length(head)?];
    control.read_exact(&mut bytes).await?;
    Frame::decoded(&bytes)
}

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
