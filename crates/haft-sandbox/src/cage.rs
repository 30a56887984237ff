//! Running programs in a cage: nothing they start outlives them, and they touch only what they may. The
//! program of haft itself, started once more as a *keeper*, goes into the cage first: it gives up what the
//! policy does not allow, tells which walls stand, and then runs the command. A keeper can be made ready
//! before it is needed, so that a command does not wait for its cage.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

mod keeper;
mod policy;
#[cfg(target_os = "linux")]
mod walls;
mod wire;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

pub use policy::{Limits, Network, Policy, Report, Wall, Walls};

use crate::process::Exit;
use wire::{Build, Frame, Parts};

/// The name under which the program is started as a keeper.
const KEEPER: &str = "haft-keeper";
/// How a keeper asks for the users of its namespace.
const MAP: &str = "map";
/// How much is read at once.
const CHUNK: usize = 256 << 10;
/// So many cages are kept ready.
const MAX_READY: usize = 4;
/// How long the last output is waited for once everything has ended.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(2);

static ARMED: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main`, before any thread is started: in a process that was started as a keeper it
/// does not return. Without it no cage can be had.
pub fn arm() {
    if std::env::args_os().next().is_some_and(|name| name == KEEPER) {
        keeper::main();
    }
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
}

impl Cage {
    /// Makes a cage ready. Walls that cannot be had here are missing from its report.
    pub async fn new(policy: &Policy, output: Output) -> io::Result<Self> {
        match Self::attempt(policy, output).await {
            Err(error) if policy.walls == Walls::All => {
                let few = Policy { walls: Walls::Few, ..policy.clone() };
                let mut cage = Self::attempt(&few, output).await?;
                let network = (policy.network == Network::Off).then_some(Wall::Network);
                let missing = [Wall::Processes, Wall::View].into_iter().chain(network);
                cage.report.missing.extend(missing.map(|wall| (wall, error.to_string())));
                Ok(cage)
            }
            made => made,
        }
    }

    async fn attempt(policy: &Policy, output: Output) -> io::Result<Self> {
        if !is_armed() {
            return Err(io::Error::other("no cage can be had: `haft_sandbox::cage::arm` was not called"));
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
        let policy = policy.frame();
        let pid = child.id().unwrap_or(0);
        let report = async {
            control.write_all(&[joined.encoded(), policy.encoded()].concat()).await?;
            if receive(&mut control).await? == Frame::of([MAP]) {
                map_all_users(pid)?;
            }
            control.write_all(&policy.encoded()).await?;
            Report::parse(receive(&mut control).await?)
        };
        match report.await {
            Ok(report) => Ok(Self { child, control, out, err, report }),
            Err(error) => {
                let mut why = Vec::new();
                if let Some(mut err) = err {
                    let _ = tokio::time::timeout(DRAIN, err.read_to_end(&mut why)).await;
                }
                let why = String::from_utf8_lossy(&why);
                Err(io::Error::new(error.kind(), format!("the cage could not be made: {error}{why}")))
            }
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
        let frame = Build::default()
            .bytes(bytes(task.program))
            .list(task.args.into_iter().map(bytes))
            .bytes(bytes(task.dir.into_os_string()))
            .list(env)
            .number(task.tells_dir.into())
            .frame();
        self.control.write_all(&frame.encoded()).await?;
        let Self { child, control, out, err, report } = self;
        Ok(Running {
            child,
            control: Some(control),
            head: Vec::new(),
            out: Some(out),
            err,
            report,
            ended: None,
            chunk: vec![0; CHUNK],
        })
    }
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
pub struct Ready(Mutex<HashMap<(Policy, Output), Cage>>);

impl Ready {
    /// A cage: the one that is ready, or a new one.
    pub async fn take(&self, policy: &Policy, output: Output) -> io::Result<Cage> {
        let ready = self.cages().remove(&(policy.clone(), output));
        if let Some(mut cage) = ready
            && cage.is_alive()
        {
            return Ok(cage);
        }
        Cage::new(policy, output).await
    }

    /// Makes a cage ready for the next command. Best called when a command has ended: a cage is made of what is
    /// there, and the command may have made something that the next one must not touch.
    pub async fn prepare(&self, policy: &Policy, output: Output) {
        if let Ok(cage) = Cage::new(policy, output).await {
            let mut cages = self.cages();
            if cages.len() >= MAX_READY {
                cages.clear();
            }
            cages.insert((policy.clone(), output), cage);
        }
    }

    fn cages(&self) -> MutexGuard<'_, HashMap<(Policy, Output), Cage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn receive(control: &mut UnixStream) -> io::Result<Frame> {
    let mut head = [0; 4];
    control.read_exact(&mut head).await?;
    let mut bytes = vec![0; Frame::length(head)?];
    control.read_exact(&mut bytes).await?;
    Frame::decoded(&bytes)
}

/// A command that runs in its cage. When it is dropped, everything in the cage ends.
#[derive(Debug)]
pub struct Running {
    child: Child,
    control: Option<UnixStream>,
    head: Vec<u8>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    report: Report,
    ended: Option<Ended>,
    chunk: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub exit: Exit,
    /// What it had started and was still running then, and was ended with it.
    pub left: Vec<String>,
    /// The folder it was in, where it told that.
    pub dir: Option<PathBuf>,
}

/// What happens to a command.
#[derive(Debug)]
pub enum Happened<'a> {
    /// It printed something.
    Output(Stream, &'a [u8]),
    /// It has ended, and so has everything that it started.
    Ended(Ended),
}

impl Running {
    /// Which walls stand.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.ended.as_ref().map(|ended| ended.exit)
    }

    /// Asks the command and what it started to end.
    pub async fn ask_to_end(&mut self) {
        if let Some(control) = &mut self.control {
            let _ = control.write_all(&Frame::of(["end"]).encoded()).await;
        }
    }

    /// Ends everything in the cage at once. What was printed until then can still be read.
    pub fn kill(&mut self) {
        self.control = None;
    }

    /// What happens next. May be dropped and asked again without losing anything.
    pub async fn next(&mut self) -> io::Result<Happened<'_>> {
        enum Came {
            Out(usize),
            Err(usize),
            Control(io::Result<Ended>),
            Late,
        }
        loop {
            let Self { control, head, out, err, chunk, ended, .. } = &mut *self;
            let open = out.is_some() || err.is_some();
            if control.is_none() && !open {
                let lost = Ended { exit: Exit::Signal(9), left: Vec::new(), dir: None };
                let _ = self.child.wait().await;
                return Ok(Happened::Ended(self.ended.clone().unwrap_or(lost)));
            }
            // Two streams need two places, as both may be read at once.
            let (first, second) = chunk.split_at_mut(CHUNK / 2);
            let is_over = control.is_none();
            let came = tokio::select! {
                biased;
                read = read_some(out, first) => Came::Out(read),
                read = read_some(err, second) => Came::Err(read),
                told = told_end(control, head) => Came::Control(told),
                () = tokio::time::sleep(DRAIN), if is_over => Came::Late,
            };
            match came {
                Came::Out(0) => self.out = None,
                Came::Err(0) => self.err = None,
                Came::Out(read) => return Ok(Happened::Output(Stream::Out, &self.chunk[..read])),
                Came::Err(read) => {
                    return Ok(Happened::Output(Stream::Err, &self.chunk[CHUNK / 2..CHUNK / 2 + read]));
                }
                Came::Control(told) => {
                    *ended = told.ok();
                    // The keeper ends with its control, and with it everything in the cage.
                    self.control = None;
                }
                Came::Late => (self.out, self.err) = (None, None),
            }
        }
    }
}

async fn read_some(pipe: &mut Option<impl tokio::io::AsyncRead + Unpin>, chunk: &mut [u8]) -> usize {
    match pipe {
        // A pipe that cannot be read has nothing more to give.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Waits until the keeper tells that the command has ended. What has arrived of that is kept in `head`.
async fn told_end(control: &mut Option<UnixStream>, head: &mut Vec<u8>) -> io::Result<Ended> {
    let Some(control) = control else { return std::future::pending().await };
    loop {
        if let Some((length, rest)) = head.split_first_chunk::<4>() {
            let length = Frame::length(*length)?;
            if rest.len() >= length {
                let mut parts = Parts::of(Frame::decoded(&rest[..length])?);
                let (kind, value) = (parts.bytes()?, parts.number()?);
                let value = i32::try_from(value).unwrap_or(-1);
                let exit = if kind == b"signal" { Exit::Signal(value) } else { Exit::Code(value) };
                let left =
                    parts.list()?.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                let dir = Some(parts.bytes()?)
                    .filter(|dir| !dir.is_empty())
                    .map(|dir| OsString::from_vec(dir).into());
                return Ok(Ended { exit, left, dir });
            }
        }
        let mut more = [0; 512];
        match control.read(&mut more).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&more[..read]),
        }
    }
}

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
