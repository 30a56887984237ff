//! Running programs in a cage: nothing they start outlives them, and they touch only what they may. The
//! program of haft itself, started once more as a *keeper*, goes into the cage first: it gives up what the
//! policy does not allow, tells which walls stand, and then runs the command. A keeper can be made ready
//! before it is needed, so that a command does not wait for its cage.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

mod groups;
mod guards;
mod keeper;
mod layer;
mod leaving;
mod policy;
mod running;
#[cfg(target_os = "linux")]
mod walls;
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

pub use groups::Quota;
pub use guards::{Shared, shared_repository};
pub use leaving::settle;
pub use policy::{Hit, Layer, Layers, Limits, Network, Policy, Report, Sees};
pub use running::{Ended, Happened, Running};
pub use worker::{Worked, Worker, filter, has_worker, work};

use groups::{Group, Session};
use guards::Guards;
use layer::LayerError;
use wire::{Build, Frame};

/// The name under which the program is started as a keeper.
const KEEPER: &str = "haft-keeper";
/// How a keeper asks for the users of its namespace.
const MAP: &str = "map";
/// What a keeper is told last.
const BYE: &str = "bye";
/// How much is read at once.
const CHUNK: usize = 256 << 10;
/// So many cages are kept ready.
const MAX_READY: usize = 4;
/// How long the last output is waited for once everything has ended.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Why a layer is missing that the policy does not want.
const LEFT_OUT: &str = "it was left out";

static ARMED: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main`, before any thread is started: in a process that was started as a keeper it
/// does not return. Without it no cage can be had.
pub fn arm() {
    arm_with(&[]);
}

/// Does what [`arm`] does, for a program that also has [workers](Worker).
pub fn arm_with(workers: &'static [Worker]) {
    if std::env::args_os().next().is_some_and(|name| name == KEEPER) {
        keeper::main();
    }
    worker::arm(workers);
    // Nobody without rights looks into the memory of haft, which may hold secrets, or has it written to disk.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    ARMED.store(true, Ordering::Release);
}

/// Whether cages can be had: [`arm`] was called.
pub fn is_armed() -> bool {
    ARMED.load(Ordering::Acquire)
}

/// A command to run in a cage.
#[derive(Clone, Debug)]
pub struct Task {
    /// The program: a path, or a name to be found in the `PATH` of its environment.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// All of its environment.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads on its standard input.
    pub input: Vec<u8>,
    /// Whether the program is a bash that tells where it is when it ends.
    pub tells_dir: bool,
}

/// How the output comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Both streams as one, as they came.
    Joined,
    /// Each by itself.
    Apart,
}

/// Where output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The output, or both where they are joined.
    Out,
    /// The error output.
    Err,
}

/// A keeper that has taken its place and waits for a command.
#[derive(Debug)]
pub struct Cage {
    child: Child,
    control: UnixStream,
    out: ChildStdout,
    err: Option<ChildStderr>,
    report: Report,
    policy: Policy,
    /// What was guarded when it was made, and which files those were.
    guarded: Vec<Option<(u64, u64)>>,
    group: Option<Group>,
    session: Arc<Session>,
}

impl Cage {
    /// Makes a cage ready. Walls that cannot be had here are missing from its report.
    pub async fn new(policy: &Policy, output: Output) -> io::Result<Self> {
        Self::within(&Arc::default(), policy, output).await
    }

    async fn within(session: &Arc<Session>, policy: &Policy, output: Output) -> io::Result<Self> {
        let policy = &Policy { guarded: guards::resolved(policy), ..policy.clone() };
        // Both are made of the same namespaces.
        let is_without = [Layer::Processes, Layer::View].iter().any(|wall| policy.without.contains(wall));
        let made = match policy.walls == Layers::All && is_without {
            true => Err(LayerError::Unsupported(LEFT_OUT.to_owned())),
            false => Self::attempt(session, policy, output).await,
        };
        match made {
            // Only what the kernel lacks may take these layers away; any other failure could be provoked.
            Err(LayerError::Unsupported(why)) if policy.walls == Layers::All => {
                let few = Policy { walls: Layers::Few, ..policy.clone() };
                let mut cage = Self::attempt(session, &few, output).await?;
                let network = (policy.network == Network::Off).then_some(Layer::Network);
                let missing = [Layer::Processes, Layer::View].into_iter().chain(network);
                cage.report.missing.extend(missing.map(|wall| (wall, why.clone())));
                Ok(cage)
            }
            made => Ok(made?),
        }
    }

    async fn attempt(session: &Arc<Session>, policy: &Policy, output: Output) -> Result<Self, LayerError> {
        if !is_armed() {
            let told = "no cage can be had: `haft_sandbox::cage::arm` was not called";
            return Err(io::Error::other(told).into());
        }
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(KEEPER).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        command.stdout(Stdio::piped());
        command.stderr(if output == Output::Apart { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn()?;
        drop(command);
        ours.set_nonblocking(true)?;
        let mut control = UnixStream::from_std(ours)?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("the keeper has no output"))?;
        let err = child.stderr.take();
        // Room for what a program prints before anybody looks.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, 1 << 20);
        let joined = Frame::of([if output == Output::Joined { "joined" } else { "apart" }]);
        let pid = child.id().unwrap_or(0);
        let limits = policy.limits;
        let grouped = match policy.without.contains(&Layer::Quota) {
            true => Err(io::Error::other(LEFT_OUT)),
            false => grouped(session.clone(), limits, pid).await,
        };
        // Where there is a group, it sees to the number of processes.
        let processes = limits.processes.filter(|_| grouped.is_err());
        let frame = Policy { limits: Limits { processes, ..limits }, ..policy.clone() }.frame();
        let guarded = policy.guarded.iter().map(|path| guards::identity(path)).collect();
        let report = async {
            control.write_all(&[joined.encoded(), frame.encoded()].concat()).await?;
            let mut told = LayerError::parse(receive(&mut control).await?)?;
            if told == Frame::of([MAP]) {
                map_all_users(pid).map_err(|error| LayerError::probed("a user namespace", error))?;
                control.write_all(&told.encoded()).await?;
                told = LayerError::parse(receive(&mut control).await?)?;
            }
            Ok(Report::parse(told)?)
        };
        match report.await {
            Ok(mut report) => {
                let (group, counted) = match grouped {
                    Ok(group) => (Some(group), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Whether there are control groups to be had depends on the machine's set-up alone.
                report.note(
                    Layer::Quota,
                    counted.map_err(|error| LayerError::Unsupported(error.to_string())),
                )?;
                let (policy, session) = (policy.clone(), session.clone());
                Ok(Self { child, control, out, err, report, policy, guarded, group, session })
            }
            Err(LayerError::Failed(error)) => {
                let mut why = Vec::new();
                if let Some(mut err) = err {
                    let _ = tokio::time::timeout(DRAIN, err.read_to_end(&mut why)).await;
                }
                let why = String::from_utf8_lossy(&why);
                let told = format!("the sandbox could not be made, so nothing was run: {error}{why}");
                Err(io::Error::new(error.kind(), told).into())
            }
            Err(unsupported) => Err(unsupported),
        }
    }

    /// Which walls stand.
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
        // A cage that was ready may be older than what it is to guard: who saves a file often makes a new one.
        let known = self.policy.guarded.iter().zip(&self.guarded);
        let new = known.filter(|(path, known)| {
            let now = guards::identity(path);
            now.is_some() && now != **known
        });
        let guarded = new.map(|(path, _)| path).chain(&guards.masked).cloned();
        let guarded: Vec<Vec<u8>> = guarded.map(|path| bytes(path.into_os_string())).collect();
        let frame = Build::default()
            .list(guarded.into_iter())
            .bytes(bytes(task.program))
            .list(task.args.into_iter().map(bytes))
            .bytes(bytes(task.dir.into_os_string()))
            .list(env)
            .number(task.tells_dir.into())
            .bytes(task.input)
            .frame();
        self.control.write_all(&frame.encoded()).await?;
        Ok(Running::new(self, guards))
    }
}

/// Puts a keeper into a group of its own, before it does anything. That can take some milliseconds.
async fn grouped(session: Arc<Session>, limits: Limits, keeper: u32) -> io::Result<Group> {
    let make = move || {
        let group = session.leaf(limits.amounts())?;
        group.enter(keeper).map(|()| group)
    };
    tokio::task::spawn_blocking(make).await.map_err(io::Error::other)?
}

/// Lets root in the cage be root of all users' files, as far as the other walls let it: a root that is alone could
/// not touch the files of anybody else. Only a process outside of the cage can do that.
fn map_all_users(keeper: u32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{keeper}/{map}"), "0 0 4294967295")?;
    }
    Ok(())
}

/// Cages that are made before they are needed, so that a command does not wait for its own.
#[derive(Debug, Default)]
pub struct Ready {
    cages: Mutex<HashMap<(Policy, Output), Cage>>,
    session: Arc<Session>,
}

impl Ready {
    /// Cages that may use only so much, all that are ever taken from here together.
    pub fn new(amounts: Quota) -> Self {
        Self { cages: Mutex::default(), session: Arc::new(Session::new(amounts)) }
    }

    /// A cage: the one that is ready, or a new one. None if all time for commands is used up.
    pub async fn take(&self, policy: &Policy, output: Output) -> io::Result<Cage> {
        self.session.has_time()?;
        let ready = self.cages().remove(&(policy.clone(), output));
        if let Some(mut cage) = ready
            && cage.is_alive()
        {
            return Ok(cage);
        }
        Cage::within(&self.session, policy, output).await
    }

    /// Makes a cage ready for the next command. Best called when a command has ended: a cage is made of what is
    /// there, and the command may have made something that the next one must not touch.
    pub async fn prepare(&self, policy: &Policy, output: Output) {
        if let Ok(cage) = Cage::within(&self.session, policy, output).await {
            let mut cages = self.cages();
            if cages.len() >= MAX_READY {
                cages.clear();
            }
            cages.insert((policy.clone(), output), cage);
        }
    }

    fn cages(&self) -> MutexGuard<'_, HashMap<(Policy, Output), Cage>> {
        self.cages.lock()
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
