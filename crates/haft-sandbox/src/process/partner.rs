//! A program that is talked to for as long as somebody wants it. What it says on standard error is drained, and the end
//! of that is kept to be told when it fails. When it is no longer wanted, everything that it started ends with it.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

use std::collections::VecDeque;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::tree::Tree;
use super::{CHUNK, DRAIN, Exit, GLANCE, GRACE, exit, leader};

/// How long a program may take to end by itself once nobody talks to it any more.
const FAREWELL: Duration = Duration::from_millis(200);

/// A program to be talked to.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program: a path, or a name to be found in the `PATH` of its environment.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it works in.
    pub dir: PathBuf,
    /// Its whole environment, but for a variable that marks what it starts.
    pub env: Vec<(OsString, OsString)>,
    /// How many bytes are kept of what it says on standard error, from the end.
    pub max_said: usize,
}

/// How it is talked to. It is told to end by dropping `input`.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub input: ChildStdin,
    /// What it writes.
    pub output: ChildStdout,
}

/// A program that runs. When this is dropped, it is ended at once.
pub struct Partner {
    tree: Arc<Mutex<Tree>>,
    said: Arc<Mutex<Tail>>,
    ended: watch::Receiver<Option<Exit>>,
}

impl Partner {
    /// Starts a program. Must be called inside of a runtime, which also notices its end.
    pub fn start(start: &Start) -> io::Result<(Self, Pipes)> {
        let mark = format!("HAFT_PARTNER_{:016X}", RandomState::new().build_hasher().finish());
        let mut command = Command::new(&start.program);
        command
            .args(&start.args)
            .current_dir(&start.dir)
            .env_clear()
            .envs(start.env.iter().map(|(name, value)| (name, value)))
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
        let said = Arc::new(Mutex::new(Tail { bytes: VecDeque::new(), most: start.max_said }));
        let (tell, ended) = watch::channel(None);
        let stderr = child.stderr.take();
        tokio::spawn(look_after(child, stderr, tree.clone(), said.clone(), tell));
        Ok((Self { tree, said, ended }, Pipes { input, output }))
    }

    /// The end of what it said on standard error so far.
    pub fn said(&self) -> String {
        let tail = self.said.lock();
        let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.ended.borrow()
    }

    /// Waits until it has ended, and everything that it started.
    pub async fn ended(&self) -> Exit {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Cancelled),
            // Whoever looked after it has gone, and has ended it.
            Err(_) => Exit::Cancelled,
        }
    }

    /// Ends it: it may do so by itself first, since it has been told by the end of its input; then it is asked to, then
    /// it has to.
    pub async fn end(&self) -> Exit {
        if let Ok(exit) = timeout(FAREWELL, self.ended()).await {
            return exit;
        }
        self.tree.lock().ask_to_end();
        let politely = async {
            while self.tree.lock().is_alive() {
                sleep(GLANCE).await;
            }
        };
        let _ = timeout(GRACE, politely).await;
        self.tree.lock().kill();
        self.ended().await
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.tree.lock().kill();
    }
}

/// Drains what it says and waits for its end.
async fn look_after(
    mut child: Child,
    stderr: Option<ChildStderr>,
    tree: Arc<Mutex<Tree>>,
    said: Arc<Mutex<Tail>>,
    tell: watch::Sender<Option<Exit>>,
) {
    let draining = async {
        let Some(mut pipe) = stderr else { return };
        let mut chunk = vec![0; CHUNK];
        // A pipe that cannot be read has nothing more to give.
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            said.lock().add(&chunk[..read]);
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
        // Whoever held the pipe is gone or about to be.
        let _ = timeout(DRAIN, draining).await;
    }
    tell.send_replace(Some(status.map_or(Exit::Cancelled, exit)));
}

/// The end of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(self.most)..];
        let too_many = (self.bytes.len() + new.len()).saturating_sub(self.most);
        self.bytes.drain(..too_many);
        self.bytes.extend(new);
    }
}
