//! A command that runs in its sandbox: its output, how it ends, and the accounting and checks after that.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::cgroups::{Cgroup, Session};
use super::cleanup::Cleanup;
use super::guards::Guards;
use super::policy::{LimitHit, Limits, Report};
use super::wire::{Frame, Parts};
use super::{BYE, CHUNK, DRAIN_TIMEOUT, Sandbox, Stream};
use crate::process::Exit;

/// The control socket to a supervisor. Sends [`BYE`] before it closes, so that a close without it means that haft died.
#[derive(Debug)]
struct Control(UnixStream);

impl Drop for Control {
    fn drop(&mut self) {
        use rustix::net::{SendFlags, send};
        let _ = send(&self.0, &Frame::of([BYE]).encoded(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// A command that runs in its sandbox. Dropping it ends every process in the sandbox.
#[derive(Debug)]
pub struct Running {
    child: Child,
    control: Option<Control>,
    /// Bytes received of the supervisor's next message.
    received: Vec<u8>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    report: Report,
    limits: Limits,
    cgroup: Option<Cgroup>,
    guards: Option<Guards>,
    /// The session that its processor time is charged to, and when it started.
    session: Option<(Arc<Session>, Instant)>,
    ended: Option<CommandEnd>,
    chunk: Vec<u8>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((session, start)) = self.session.take() {
            session.spend(start.elapsed());
        }
        if let Some(guards) = self.guards.take() {
            Cleanup { supervisor: self.child.id(), guards: Some(guards), ..Cleanup::default() }.enqueue();
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
}

impl CommandEnd {
    /// An end of which nothing but the exit is known.
    pub fn of(exit: Exit) -> Self {
        Self { exit, left: Vec::new(), dir: None, cpu: None, hit: None, set_aside: Vec::new() }
    }
}

/// An event of a running command.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// It printed something.
    Output(Stream, &'a [u8]),
    /// It has ended, and so has every process that it started.
    Ended(CommandEnd),
}

impl Running {
    pub(super) fn new(sandbox: Sandbox, guards: Guards) -> Self {
        let Sandbox { child, control, out, err, report, policy, cgroup, session, .. } = sandbox;
        Self {
            child,
            control: Some(Control(control)),
            received: Vec::new(),
            out: Some(out),
            err,
            report,
            limits: policy.limits,
            cgroup,
            guards: Some(guards),
            session: Some((session, Instant::now())),
            ended: None,
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

    /// Sends SIGTERM to the command and every process that it started.
    pub async fn terminate(&mut self) {
        if let Some(control) = &mut self.control {
            let _ = control.0.write_all(&Frame::of(["end"]).encoded()).await;
        }
    }

    /// Kills every process in the sandbox. Output from before that can still be read.
    pub fn kill(&mut self) {
        self.control = None;
    }

    /// Waits for the next event. Cancel-safe: a future that is dropped loses nothing.
    pub async fn next(&mut self) -> io::Result<RunEvent<'_>> {
        enum Event {
            Out(usize),
            Err(usize),
            Control(io::Result<CommandEnd>),
            DrainTimeout,
        }
        loop {
            let Self { control, received, out, err, chunk, ended, .. } = &mut *self;
            let open = out.is_some() || err.is_some();
            if control.is_none() && !open {
                let _ = self.child.wait().await;
                let lost = || CommandEnd::of(Exit::Signal(9));
                let ended = self.ended.get_or_insert_with(lost);
                if let Some(cgroup) = self.cgroup.take() {
                    ended.hit = cgroup.hit();
                }
                if let Some((session, start)) = self.session.take() {
                    session.spend(ended.cpu.unwrap_or_else(|| start.elapsed()));
                }
                if let Some(guards) = self.guards.take() {
                    ended.set_aside = guards.restore();
                }
                ended.hit = ended.hit.or_else(|| LimitHit::from_exit(ended.exit, &self.limits));
                return Ok(RunEvent::Ended(ended.clone()));
            }
            // Each stream needs a buffer of its own, as both may be read at once.
            let (first, second) = chunk.split_at_mut(CHUNK / 2);
            let has_ended = control.is_none();
            let event = tokio::select! {
                biased;
                read = read_some(out, first) => Event::Out(read),
                read = read_some(err, second) => Event::Err(read),
                end = receive_end(control, received) => Event::Control(end),
                () = tokio::time::sleep(DRAIN_TIMEOUT), if has_ended => Event::DrainTimeout,
            };
            match event {
                Event::Out(0) => self.out = None,
                Event::Err(0) => self.err = None,
                Event::Out(read) => return Ok(RunEvent::Output(Stream::Out, &self.chunk[..read])),
                Event::Err(read) => {
                    return Ok(RunEvent::Output(Stream::Err, &self.chunk[CHUNK / 2..CHUNK / 2 + read]));
                }
                Event::Control(end) => {
                    *ended = end.ok();
                    // Closing the control socket ends the supervisor, and with it every process in the sandbox.
                    self.control = None;
                }
                Event::DrainTimeout => (self.out, self.err) = (None, None),
            }
        }
    }
}

async fn read_some(pipe: &mut Option<impl tokio::io::AsyncRead + Unpin>, chunk: &mut [u8]) -> usize {
    match pipe {
        // A read error is treated as the end.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Waits for the supervisor's report that the command has ended. A part of the message stays in `received` if the future is
/// dropped.
async fn receive_end(control: &mut Option<Control>, received: &mut Vec<u8>) -> io::Result<CommandEnd> {
    let Some(control) = control else { return std::future::pending().await };
    loop {
        if let Some((length, rest)) = received.split_first_chunk::<4>() {
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
                let cpu = Some(Duration::from_millis(parts.number()?));
                return Ok(CommandEnd { left, dir, cpu, ..CommandEnd::of(exit) });
            }
        }
        let mut more = [0; 512];
        match control.0.read(&mut more).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => received.extend_from_slice(&more[..read]),
        }
    }
}
