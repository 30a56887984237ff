//! A command that runs in its sandbox: its output, how it ends, and the accounting and checks after that.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::cgroups::Account;
use super::cleanup::Cleanup;
use super::guards::Guards;
use super::policy::{LimitHit, Limits, Report};
use super::recorder::{self, Effects, Recorder};
use super::slot::{SlotProcess, Supervisor};
use super::wire::{Frame, Parts};
use super::{CHUNK, DRAIN_TIMEOUT, KILL, Slot, Stream, TERMINATE};
use crate::names;
use crate::process::Exit;

/// A command that runs in its sandbox. Dropping it ends every process that it has started.
#[derive(Debug)]
pub struct Running {
    supervisor: Arc<Supervisor>,
    slot: Option<SlotProcess>,
    /// Whether the slot does not answer any more.
    is_lost: bool,
    out: Option<pipe::Receiver>,
    err: Option<pipe::Receiver>,
    report: Report,
    limits: Limits,
    guards: Option<Guards>,
    recording: Recording,
    /// The account that its processor time is charged to, and when it started.
    account: Option<(Arc<Account>, Instant)>,
    ended: Option<CommandEnd>,
    /// When to stop waiting for the slot, or for output.
    deadline: Option<tokio::time::Instant>,
    chunk: Vec<u8>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((account, start)) = self.account.take() {
            account.spend(start.elapsed());
        }
        let process = self.slot.take().and_then(|slot| slot.process.try_clone().ok());
        if let Some(guards) = self.guards.take() {
            Cleanup { slot: process, guards: Some(guards), ..Cleanup::default() }.enqueue();
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit code or signal.
    pub exit: Exit,
    /// Command lines of processes that it left running, which were ended with it.
    pub left: Vec<String>,
    /// Its last working directory, if it reported that.
    pub dir: Option<PathBuf>,
    /// The processor time that it took, if it ended by itself.
    pub cpu: Option<Duration>,
    /// Which of its limits it ran into, as far as haft can tell.
    pub hit: Option<LimitHit>,
    /// New names of files that the command, or another program meanwhile, made under guarded names.
    pub set_aside: Vec<PathBuf>,
    /// What it changed, if that was recorded.
    pub effects: Option<Effects>,
    /// Why its changes could not be recorded, although they should have been.
    pub not_recorded: Option<String>,
}

impl CommandEnd {
    /// An end of which nothing but the exit is known.
    pub fn of(exit: Exit) -> Self {
        Self {
            exit,
            left: Vec::new(),
            dir: None,
            cpu: None,
            hit: None,
            set_aside: Vec::new(),
            effects: None,
            not_recorded: None,
        }
    }
}

/// An event of a running command.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// It printed something.
    Output(Stream, &'a [u8]),
    /// It has ended, and so has every process that it started.
    Ended(Box<CommandEnd>),
}

impl Running {
    pub(super) fn new(
        slot: Slot,
        guards: Guards,
        recording: Recording,
        out: pipe::Receiver,
        err: Option<pipe::Receiver>,
    ) -> Self {
        let Slot { account, supervisor, process, report, policy, .. } = slot;
        Self {
            supervisor,
            slot: Some(process),
            is_lost: false,
            out: Some(out),
            err,
            report,
            limits: policy.limits,
            guards: Some(guards),
            recording,
            account: Some((account, Instant::now())),
            ended: None,
            deadline: None,
            chunk: vec![0; CHUNK],
        }
    }

    /// Which layers are in force.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.ended.as_ref().map(|ended| ended.exit)
    }

    /// The details of how it ended, if it has.
    pub fn ended(&self) -> Option<&CommandEnd> {
        self.ended.as_ref()
    }

    /// Its standard output, to be read directly and not as [events](RunEvent). `None` if it was taken already.
    pub fn take_output(&mut self) -> Option<pipe::Receiver> {
        self.out.take()
    }

    /// Sends SIGTERM to the command and every process that it started.
    pub fn terminate(&mut self) {
        self.tell(TERMINATE);
    }

    /// Kills the command and every process that it started. Output from before that can still be read.
    pub fn kill(&mut self) {
        self.tell(KILL);
        self.deadline = Some(tokio::time::Instant::now() + DRAIN_TIMEOUT);
    }

    fn tell(&self, message: &str) {
        if let Some(slot) = self.slot.as_ref().filter(|_| self.ended.is_none()) {
            slot.socket.send_now(&Frame::of([message]));
        }
    }

    /// Waits for the next event. Cancel-safe: a future that is dropped loses nothing.
    pub async fn next(&mut self) -> io::Result<RunEvent<'_>> {
        enum Event {
            Out(usize),
            Err(usize),
            Ended(Box<io::Result<CommandEnd>>),
            Deadline,
        }
        loop {
            let Self { slot, out, err, chunk, ended, deadline, .. } = &mut *self;
            if ended.is_some() && out.is_none() && err.is_none() {
                self.settle();
                let effects = self.recording.finish().await;
                let (Some(ended), guards) = (&mut self.ended, self.guards.take()) else { continue };
                match effects {
                    Ok(mut effects) => {
                        if let (Some(effects), Some(guards)) = (&mut effects, guards) {
                            ended.set_aside.extend(guards.disarm_effects(effects));
                        }
                        ended.effects = effects;
                    }
                    Err(why) => ended.not_recorded = Some(why),
                }
                return Ok(RunEvent::Ended(Box::new(ended.clone())));
            }
            // Each stream needs a buffer of its own, as both may be read at once.
            let (first, second) = chunk.split_at_mut(CHUNK / 2);
            let is_running = ended.is_none();
            let event = tokio::select! {
                biased;
                read = read_some(out, first) => Event::Out(read),
                read = read_some(err, second) => Event::Err(read),
                end = receive_end(slot), if is_running => Event::Ended(Box::new(end)),
                () = wait_until(*deadline) => Event::Deadline,
            };
            match event {
                Event::Out(0) => self.out = None,
                Event::Err(0) => self.err = None,
                Event::Out(read) => return Ok(RunEvent::Output(Stream::Out, &self.chunk[..read])),
                Event::Err(read) => {
                    return Ok(RunEvent::Output(Stream::Err, &self.chunk[CHUNK / 2..CHUNK / 2 + read]));
                }
                Event::Ended(end) => {
                    // A slot that says nothing more was killed; the supervisor ends what was in it.
                    self.is_lost = end.is_err();
                    self.ended = Some(end.unwrap_or_else(|_| CommandEnd::of(Exit::Signal(9))));
                    self.deadline = Some(tokio::time::Instant::now() + DRAIN_TIMEOUT);
                }
                Event::Deadline if is_running => {
                    if let Some(slot) = &self.slot {
                        slot.kill();
                    }
                    self.is_lost = true;
                    self.ended = Some(CommandEnd::of(Exit::Signal(9)));
                    self.deadline = Some(tokio::time::Instant::now() + DRAIN_TIMEOUT);
                }
                Event::Deadline => (self.out, self.err) = (None, None),
            }
        }
    }

    /// Settles accounts once every process of the command has ended, and gives the slot back. The second time it does nothing.
    fn settle(&mut self) {
        let Some(ended) = &mut self.ended else { return };
        if let Some(mut slot) = self.slot.take() {
            ended.hit = ended.hit.or_else(|| slot.cgroup.as_mut().and_then(|cgroup| cgroup.hit()));
            if !self.is_lost {
                self.supervisor.put_back(slot);
            }
        }
        if let Some((account, start)) = self.account.take() {
            account.spend(ended.cpu.unwrap_or_else(|| start.elapsed()));
        }
        if let Some(guards) = &mut self.guards {
            ended.set_aside.extend(guards.restore());
        }
        ended.hit = ended.hit.or_else(|| LimitHit::from_exit(ended.exit, &self.limits));
    }
}

/// The recording of a command's changes.
#[derive(Debug)]
pub(super) enum Recording {
    /// There is none.
    None,
    /// It should have been made and could not, for this reason.
    Impossible(String),
    /// The recorder keeps the old side of what changes.
    Running(Recorder),
    /// The recorder compares what was with what is.
    Ending(tokio::task::JoinHandle<io::Result<Effects>>),
}

impl Recording {
    pub(super) async fn start(listener: OwnedFd, options: recorder::Options) -> Self {
        let start = move || Recorder::start(listener, options);
        match tokio::task::spawn_blocking(start).await.map_err(io::Error::other).and_then(|started| started) {
            Ok(recorder) => Self::Running(recorder),
            Err(error) => Self::Impossible(error.to_string()),
        }
    }

    /// The effects, once the command has ended. Cancel-safe.
    async fn finish(&mut self) -> Result<Option<Effects>, String> {
        if let Self::Running(_) = self
            && let Self::Running(recorder) = std::mem::replace(self, Self::None)
        {
            *self = Self::Ending(tokio::task::spawn_blocking(move || recorder.finish()));
        }
        match self {
            Self::None | Self::Running(_) => Ok(None),
            Self::Impossible(why) => Err(std::mem::take(why)),
            Self::Ending(ending) => {
                let ended = ending.await.map_err(io::Error::other).and_then(|ended| ended);
                *self = Self::None;
                ended.map(Some).map_err(|error| error.to_string())
            }
        }
    }
}

async fn read_some(pipe: &mut Option<pipe::Receiver>, chunk: &mut [u8]) -> usize {
    match pipe {
        // A read error is treated as the end.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn wait_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits for the slot's report that the command has ended, and every process with it.
async fn receive_end(slot: &mut Option<SlotProcess>) -> io::Result<CommandEnd> {
    let Some(slot) = slot else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let mut parts = Parts::of(slot.socket.receive().await?.0);
    let (kind, value) = (parts.bytes()?, parts.number()?);
    let value = i32::try_from(value).unwrap_or(-1);
    let exit = if kind == b"signal" { Exit::Signal(value) } else { Exit::Code(value) };
    let left = parts.list()?.iter().map(|name| names::show_on_a_line(OsStr::from_bytes(name))).collect();
    let dir = Some(parts.bytes()?).filter(|dir| !dir.is_empty()).map(|dir| OsString::from_vec(dir).into());
    let cpu = Some(Duration::from_millis(parts.number()?));
    let hit = (parts.number()? == 1).then_some(LimitHit::Memory);
    Ok(CommandEnd { left, dir, cpu, hit, ..CommandEnd::of(exit) })
}
