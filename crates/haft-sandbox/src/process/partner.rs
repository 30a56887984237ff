//! A long-running program that haft talks to through pipes, such as a language server, in a sandbox or without one. Its
//! standard error is drained, and the tail is kept for error messages. When it is dropped, every process that it started ends
//! with it.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::tree::Tree;
use super::{CHUNK, DRAIN_TIMEOUT, Exit, GRACE, POLL_INTERVAL, exit, leader};
use crate::sandbox::{Output, Policy, Report, RunEvent, Running, Sandbox, Stream, Task};

/// How long a program may take to end by itself after its input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// Prefix of the environment variables that mark the processes of a partner.
const MARK_PREFIX: &str = "HAFT_PARTNER_";

/// A program to start as a partner.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// Its whole environment, besides a variable that marks its processes.
    pub env: Vec<(OsString, OsString)>,
    /// How many bytes of its standard error to keep, from the end.
    pub max_stderr: usize,
}

/// The pipes of a partner. Dropping `input` asks it to end.
#[derive(Debug)]
pub struct Pipes {
    /// Its standard input.
    pub input: pipe::Sender,
    /// Its standard output.
    pub output: pipe::Receiver,
}

/// A running program. Dropping this kills it.
pub struct Partner {
    processes: Processes,
    stderr_tail: Arc<Mutex<Tail>>,
    ended: watch::Receiver<Option<Exit>>,
}

/// The program, and every process that it has started.
enum Processes {
    Free(Arc<Mutex<Tree>>),
    /// What is asked of the task that watches the sandbox, which kills them when this is dropped.
    Sandboxed(mpsc::UnboundedSender<Ask>),
}

enum Ask {
    Terminate,
    Kill,
}

impl Partner {
    /// Starts a program outside of any sandbox. Must be called inside a tokio runtime, which watches it.
    pub fn start(start: &Start) -> io::Result<(Self, Pipes)> {
        let mark = format!("{MARK_PREFIX}{}", crate::random_id());
        // If this process is a partner itself, its own starter must be able to find these processes, too.
        let inherited =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(MARK_PREFIX));
        let mut command = Command::new(&start.program);
        command
            .args(&start.args)
            .current_dir(&start.dir)
            .env_clear()
            .envs(start.env.iter().map(|(name, value)| (name, value)))
            .envs(inherited)
            .env(&mark, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            let message = format!("`{}` cannot be started: {error}", start.program.display());
            io::Error::new(error.kind(), message)
        })?;
        let tree = Arc::new(Mutex::new(Tree::marked(leader(&child)?, mark)));
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a program that has just been started has no pipes"));
        };
        let input = pipe::Sender::from_owned_fd(input.into_owned_fd()?)?;
        let output = pipe::Receiver::from_owned_fd(output.into_owned_fd()?)?;
        let stderr_tail = Arc::new(Mutex::new(Tail { bytes: VecDeque::new(), max: start.max_stderr }));
        let (end_sender, ended) = watch::channel(None);
        let stderr = child.stderr.take();
        tokio::spawn(watch_process(child, stderr, tree.clone(), stderr_tail.clone(), end_sender));
        Ok((Self { processes: Processes::Free(tree), stderr_tail, ended }, Pipes { input, output }))
    }

    /// Starts a program in a sandbox of its own, unless `check` objects to the layers in force. Must be called inside a tokio
    /// runtime, which watches it.
    pub async fn start_in_sandbox(
        policy: &Policy,
        check: impl FnOnce(&Report) -> io::Result<()>,
        start: &Start,
    ) -> io::Result<(Self, Pipes)> {
        let sandbox = Sandbox::new(policy.limits.quota());
        let slot = sandbox.slot(policy, Output::Apart).await?;
        check(slot.report())?;
        let task = Task {
            program: start.program.clone(),
            args: start.args.clone(),
            dir: start.dir.clone(),
            env: start.env.clone(),
            input: Vec::new(),
            reports_dir: false,
            record: None,
            view: None,
        };
        let (mut running, input) = slot.talk(task).await?;
        let Some(output) = running.take_output() else {
            return Err(io::Error::other("a program that has just been started has no pipes"));
        };
        let stderr_tail = Arc::new(Mutex::new(Tail { bytes: VecDeque::new(), max: start.max_stderr }));
        let (end_sender, ended) = watch::channel(None);
        let (asks, asked) = mpsc::unbounded_channel();
        tokio::spawn(watch_sandbox(sandbox, running, asked, stderr_tail.clone(), end_sender));
        Ok((Self { processes: Processes::Sandboxed(asks), stderr_tail, ended }, Pipes { input, output }))
    }

    /// The end of its standard error so far.
    pub fn stderr_tail(&self) -> String {
        let tail = self.stderr_tail.lock();
        let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.ended.borrow()
    }

    /// Waits until it and every process that it started have ended.
    pub async fn ended(&self) -> Exit {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Cancelled),
            // The runtime has dropped the watching task, and that killed it.
            Err(_) => Exit::Cancelled,
        }
    }

    /// Ends it: first waits, since the end of its input asks it to exit, then sends SIGTERM, then SIGKILL.
    pub async fn end(&self) -> Exit {
        if let Ok(exit) = timeout(EXIT_TIMEOUT, self.ended()).await {
            return exit;
        }
        match &self.processes {
            Processes::Free(tree) => {
                tree.lock().ask_to_end();
                let graceful = async {
                    while tree.lock().is_alive() {
                        sleep(POLL_INTERVAL).await;
                    }
                };
                let _ = timeout(GRACE, graceful).await;
                tree.lock().kill();
            }
            Processes::Sandboxed(asks) => {
                // If it has ended meanwhile, nobody is asked.
                let _ = asks.send(Ask::Terminate);
                let _ = timeout(GRACE, self.ended()).await;
                let _ = asks.send(Ask::Kill);
            }
        }
        self.ended().await
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        if let Processes::Free(tree) = &self.processes {
            tree.lock().kill();
        }
    }
}

/// Drains standard error and waits for the end of a program in a sandbox, or of its partner.
async fn watch_sandbox(
    sandbox: Sandbox,
    mut running: Running,
    mut asked: mpsc::UnboundedReceiver<Ask>,
    stderr_tail: Arc<Mutex<Tail>>,
    end_sender: watch::Sender<Option<Exit>>,
) {
    let exit = loop {
        tokio::select! {
            ask = asked.recv() => match ask {
                Some(Ask::Terminate) => running.terminate(),
                Some(Ask::Kill) => running.kill(),
                None => break Exit::Cancelled,
            },
            event = running.next() => match event {
                Ok(RunEvent::Output(Stream::Err, bytes)) => stderr_tail.lock().add(bytes),
                Ok(RunEvent::Output(Stream::Out, _)) => {}
                Ok(RunEvent::Ended(ended)) => break ended.exit,
                Err(_) => break Exit::Cancelled,
            },
        }
    };
    drop((running, sandbox));
    end_sender.send_replace(Some(exit));
}

/// Drains standard error and waits for the program's end.
async fn watch_process(
    mut child: Child,
    stderr: Option<ChildStderr>,
    tree: Arc<Mutex<Tree>>,
    stderr_tail: Arc<Mutex<Tail>>,
    end_sender: watch::Sender<Option<Exit>>,
) {
    let draining = async {
        let Some(mut pipe) = stderr else { return };
        let mut chunk = vec![0; CHUNK];
        // A read error is treated as the end.
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            stderr_tail.lock().add(&chunk[..read]);
        }
    };
    let mut draining = std::pin::pin!(draining);
    let mut drained = false;
    let status = loop {
        tokio::select! {
            biased;
            () = &mut draining, if !drained => drained = true,
            status = child.wait() => break status,
        }
    };
    {
        let mut tree = tree.lock();
        tree.leader_ended();
        tree.kill();
    }
    if !drained {
        // The processes that hold the pipe were just killed.
        let _ = timeout(DRAIN_TIMEOUT, draining).await;
    }
    end_sender.send_replace(Some(status.map_or(Exit::Cancelled, exit)));
}

/// The last bytes of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    max: usize,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(self.max)..];
        let excess = (self.bytes.len() + new.len()).saturating_sub(self.max);
        self.bytes.drain(..excess);
        self.bytes.extend(new);
    }
}
