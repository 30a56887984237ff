//! Running a program to its end. Its output is always drained and never more is kept than was asked for;
//! when it ends, times out or is no longer wanted, nothing that it started is left in its group. `partner` is for
//! programs that are talked to.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

mod partner;
mod tree;

pub use partner::{Partner, Pipes, Start};

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};
use tree::Tree;

/// How long a process that was asked to end may take.
const GRACE: Duration = Duration::from_millis(300);
/// How often it is looked whether the tree is gone.
const GLANCE: Duration = Duration::from_millis(10);
/// How long output is waited for after the process has ended, if something else holds the pipe.
const DRAIN: Duration = Duration::from_millis(100);
/// How much is read at once.
const CHUNK: usize = 32 * 1024;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// Variables added to the environment that it inherits.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads; it need not read it.
    pub stdin: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
    /// How many bytes are kept of each output; the rest is counted.
    pub max_output: usize,
}

/// Whether a program, a path or a name to be found in `PATH`, is the one that this process runs.
pub fn is_this_program(program: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: PathBuf| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    // By this name the kernel gives the running file, even where another one was put in its place.
    let Some(own) = identity("/proc/self/exe".into()) else { return false };
    if program.contains('/') {
        return identity(program.into()) == Some(own);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&folders).filter_map(|folder| identity(folder.join(program)));
    found.next() == Some(own)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It took too long and was ended.
    TimedOut,
    /// It was no longer wanted and was ended.
    Cancelled,
}

/// What is left of a process.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// The beginning of its output.
    pub stdout: Vec<u8>,
    /// The beginning of its error output.
    pub stderr: Vec<u8>,
    /// How many bytes of both were not kept.
    pub dropped: u64,
    /// How long it took.
    pub duration: Duration,
}

/// Runs a program until it ends, its time is over or `cancelled` completes. In the last two cases, and when
/// the future is dropped, everything that it started is ended too; what it printed until then is kept.
pub async fn run(run: Run, cancelled: impl Future<Output = ()> + Send) -> io::Result<Finished> {
    let start = Instant::now();
    let mut child = spawn(&run)?;
    let mut tree = Tree::new(leader(&child)?);
    let mut stdout = Kept::new(run.max_output);
    let mut stderr = Kept::new(run.max_output);
    let exit = {
        let pipes = (child.stdout.take(), child.stderr.take());
        let mut draining = pin!(async { tokio::join!(stdout.drain(pipes.0), stderr.drain(pipes.1)) });
        let mut drained = false;
        let mut feeding = pin!(feed(child.stdin.take(), run.stdin));
        let mut fed = false;
        let mut cancelled = pin!(cancelled);
        let mut time_over = pin!(sleep(run.timeout));
        // In this order, so that all output that has arrived is taken before an end is noticed.
        let exit = loop {
            tokio::select! {
                biased;
                _ = &mut draining, if !drained => drained = true,
                () = &mut feeding, if !fed => fed = true,
                status = child.wait() => {
                    tree.leader_ended();
                    break exit(status?);
                }
                () = &mut cancelled => break Exit::Cancelled,
                () = &mut time_over => break Exit::TimedOut,
            }
        };
        if matches!(exit, Exit::Cancelled | Exit::TimedOut) {
            let mut ending = pin!(end(&mut child, &mut tree));
            loop {
                tokio::select! {
                    biased;
                    _ = &mut draining, if !drained => drained = true,
                    ended = &mut ending => break ended?,
                }
            }
        }
        if !drained {
            // Timing out means that something else holds the pipe. What the process itself wrote has been
            // read by then, because reading comes before looking at the clock.
            let _ = timeout(DRAIN, draining).await;
        }
        exit
    };
    tree.kill();
    let dropped = stdout.dropped + stderr.dropped;
    let (stdout, stderr) = (stdout.bytes, stderr.bytes);
    Ok(Finished { exit, stdout, stderr, dropped, duration: start.elapsed() })
}

fn spawn(run: &Run) -> io::Result<Child> {
    let stdin = if run.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    let mut command = Command::new(&run.program);
    command
        .args(&run.args)
        .current_dir(&run.dir)
        .envs(run.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| {
        let message = format!("`{}` cannot be started: {error}", run.program.display());
        io::Error::new(error.kind(), message)
    })
}

fn leader(child: &Child) -> io::Result<Pid> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process that has just been started has no number"))
}

/// Ends the whole tree: first politely, then not.
async fn end(child: &mut Child, tree: &mut Tree) -> io::Result<()> {
    tree.ask_to_end();
    let politely = async {
        child.wait().await?;
        tree.leader_ended();
        while tree.is_alive() {
            sleep(GLANCE).await;
        }
        io::Result::Ok(())
    };
    if let Ok(ended) = timeout(GRACE, politely).await {
        ended?;
    }
    tree.kill();
    child.wait().await?;
    tree.leader_ended();
    Ok(())
}

/// Writes everything, or as much as is wanted: a process may end or close its input without reading it.
async fn feed(stdin: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&bytes).await;
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Neither happens only for a process that was not waited for.
        (None, None) => Exit::Code(-1),
    }
}

/// The beginning of a stream, and how much more there was.
struct Kept {
    bytes: Vec<u8>,
    max: usize,
    dropped: u64,
}

impl Kept {
    fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, dropped: 0 }
    }

    async fn drain(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = vec![0; CHUNK];
        // A pipe that cannot be read has nothing more to give.
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            let keep = read.min(self.max - self.bytes.len());
            self.bytes.extend_from_slice(&chunk[..keep]);
            self.dropped += (read - keep) as u64;
        }
    }
}
