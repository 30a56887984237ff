//! A command that runs in its cage: what it prints, and how it ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::groups::{Group, Session};
use super::guards::Guards;
use super::leaving::Leaving;
use super::policy::{Hit, Limits, Report};
use super::wire::{Frame, Parts};
use super::{BYE, CHUNK, Cage, DRAIN, Stream};
use crate::process::Exit;

/// What a keeper is told by. It is told when haft lets go of it, so that it knows when haft is gone instead.
#[derive(Debug)]
struct Control(UnixStream);

impl Drop for Control {
    fn drop(&mut self) {
        use rustix::net::{SendFlags, send};
        let _ = send(&self.0, &Frame::of([BYE]).encoded(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// A command that runs in its cage. When it is dropped, everything in the cage ends.
#[derive(Debug)]
pub struct Running {
    child: Child,
    control: Option<Control>,
    head: Vec<u8>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    report: Report,
    limits: Limits,
    group: Option<Group>,
    guards: Option<Guards>,
    /// Who is told of the time that it took, and when it began.
    session: Option<(Arc<Session>, Instant)>,
    ended: Option<Ended>,
    chunk: Vec<u8>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((session, start)) = self.session.take() {
            session.spend(start.elapsed());
        }
        if let Some(guards) = self.guards.take() {
            Leaving { keeper: self.child.id(), guards: Some(guards), ..Leaving::default() }.later();
        }
    }
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
    /// The processor time that it took, where it ended by itself.
    pub cpu: Option<Duration>,
    /// Which of its limits it met, as far as that can be told.
    pub hit: Option<Hit>,
    /// What it, or somebody else meanwhile, had made under guarded names, by the names it was given instead.
    pub set_aside: Vec<PathBuf>,
}

impl Ended {
    /// In this way, and there is nothing more to say.
    pub fn of(exit: Exit) -> Self {
        Self { exit, left: Vec::new(), dir: None, cpu: None, hit: None, set_aside: Vec::new() }
    }
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
    pub(super) fn new(cage: Cage, guards: Guards) -> Self {
        let Cage { child, control, out, err, report, policy, group, session, .. } = cage;
        Self {
            child,
            control: Some(Control(control)),
            head: Vec::new(),
            out: Some(out),
            err,
            report,
            limits: policy.limits,
            group,
            guards: Some(guards),
            session: Some((session, Instant::now())),
            ended: None,
            chunk: vec![0; CHUNK],
        }
    }

    /// Which walls stand.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.ended.as_ref().map(|ended| ended.exit)
    }

    /// All there is to know of how it ended, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Asks the command and what it started to end.
    pub async fn ask_to_end(&mut self) {
        if let Some(control) = &mut self.control {
            let _ = control.0.write_all(&Frame::of(["end"]).encoded()).await;
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
                let _ = self.child.wait().await;
                let lost = || Ended::of(Exit::Signal(9));
                let ended = self.ended.get_or_insert_with(lost);
                if let Some(group) = self.group.take() {
                    ended.hit = group.hit();
                }
                if let Some((session, start)) = self.session.take() {
                    session.spend(ended.cpu.unwrap_or_else(|| start.elapsed()));
                }
                if let Some(guards) = self.guards.take() {
                    ended.set_aside = guards.after();
                }
                ended.hit = ended.hit.or_else(|| Hit::told_by(ended.exit, &self.limits));
                return Ok(Happened::Ended(ended.clone()));
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
async fn told_end(control: &mut Option<Control>, head: &mut Vec<u8>) -> io::Result<Ended> {
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
                let cpu = Some(Duration::from_millis(parts.number()?));
                return Ok(Ended { left, dir, cpu, ..Ended::of(exit) });
            }
        }
        let mut more = [0; 512];
        match control.0.read(&mut more).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&more[..read]),
        }
    }
}
