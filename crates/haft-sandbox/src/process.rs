//! Running a program to its end, outside of the sandbox. Its output is always drained and kept up to a limit; when it ends,
//! times out or is cancelled, every process in its group ends with it. `partner` is for programs that haft talks to.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

mod inherited;
mod partner;
mod tree;

pub use inherited::keep_inherited_files;
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

/// How long a process may take to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_millis(300);
/// How often to check whether a process tree has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for output after the process has ended, if another process holds the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Size of the read buffer.
const CHUNK: usize = 32 * 1024;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// Variables to add to the inherited environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its standard input; it need not read it.
    pub stdin: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
    /// How many bytes to keep of each output stream; the rest is counted.
    pub max_output: usize,
}

/// Whether a program, given as a path or a name in `PATH`, is the executable of this process.
pub fn is_this_program(program: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: PathBuf| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    // This link leads to the running file, even if another one has replaced it on disk.
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
    /// Killed after its timeout.
    TimedOut,
    /// Killed because the caller cancelled it.
    Cancelled,
}

/// The result of a process.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
    /// How many bytes of both were not kept.
    pub dropped: u64,
    /// How long it took.
    pub duration: Duration,
}

/// Runs a program until it ends, times out or `cancelled` completes. In the last two cases, and when the future is dropped,
/// every process that it started is killed, too; its output until then is kept.
pub async fn run(run: Run, cancelled: impl Future<Output = ()> + Send) -> io::Result<Finished> {
    let start = Instant::now();
    let mut child = spawn(&run)?;
    let mut tree = Tree::new(leader(&child)?);
    let mut stdout = Head::new(run.max_output);
    let mut stderr = Head::new(run.max_output);
    let exit = {
        let pipes = (child.stdout.take(), child.stderr.take());
        let mut draining = pin!(async { tokio::join!(stdout.drain(pipes.0), stderr.drain(pipes.1)) });
        let mut drained = false;
        let mut feeding = pin!(feed(child.stdin.take(), run.stdin));
        let mut fed = false;
        let mut cancelled = pin!(cancelled);
        let mut timed_out = pin!(sleep(run.timeout));
        // `biased`, in this order: all output that has arrived is read before the end is handled.
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
                () = &mut timed_out => break Exit::TimedOut,
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
            // A timeout means that another process holds the pipe. The output of the process itself has been read by then,
            // because `timeout` polls the reader before the clock.
            let _ = timeout(DRAIN_TIMEOUT, draining).await;
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

/// Ends the whole tree: SIGTERM, then SIGKILL after a grace period.
async fn end(child: &mut Child, tree: &mut Tree) -> io::Result<()> {
    tree.ask_to_end();
    let graceful = async {
        child.wait().await?;
        tree.leader_ended();
        while tree.is_alive() {
            sleep(POLL_INTERVAL).await;
        }
        io::Result::Ok(())
    };
    if let Ok(ended) = timeout(GRACE, graceful).await {
        ended?;
    }
    tree.kill();
    child.wait().await?;
    tree.leader_ended();
    Ok(())
}

/// Writes all input, or as much as the process reads before it ends or closes the pipe.
async fn feed(stdin: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&bytes).await;
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Only a process that has not been waited for has neither.
        (None, None) => Exit::Code(-1),
    }
}

/// The first bytes of a stream, and a count of the rest.
struct Head {
    bytes: Vec<u8>,
    max: usize,
    dropped: u64,
}

impl Head {
    fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, dropped: 0 }
    }

    async fn drain(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = vec![0; CHUNK];
        // A read error is treated as the end.
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            let keep = read.min(self.max - self.bytes.len());
            self.bytes.extend_from_slice(&chunk[..keep]);
            self.dropped += (read - keep) as u64;
        }
    }
}
