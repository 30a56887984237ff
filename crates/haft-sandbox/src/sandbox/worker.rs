//! Workers: functions of the program itself that run in a process of their own in the sandbox, for input that a parser may
//! crash, hang or be taken over by. A worker sees the system's programs and nothing else, reads standard input, writes
//! standard output, and has no network. haft's own program is started in the sandbox with the worker's name.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{CommandEnd, Layer, Limits, Output, Policy, RunEvent, Sandbox, Stream, Task, Visibility};

/// The argument by which the program is told to be a worker; the worker's name follows.
const MARK: &str = "--haft-worker";

/// A function that runs in a process of its own in the sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// What it is called.
    pub name: &'static str,
    /// Reads standard input and writes standard output. It gets the arguments that it was started with.
    pub run: fn(Vec<OsString>) -> io::Result<()>,
}

static WORKERS: OnceLock<&'static [Worker]> = OnceLock::new();

/// Becomes a worker if the program was started as one; otherwise remembers which there are.
pub(super) fn arm(workers: &'static [Worker]) {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|mark| mark == MARK) {
        let name = args.next().unwrap_or_default();
        let Some(worker) = workers.iter().find(|worker| name == worker.name) else { std::process::exit(2) };
        match (worker.run)(args.collect()) {
            Ok(()) => std::process::exit(0),
            Err(error) => {
                let _ = writeln!(io::stderr(), "{error}");
                std::process::exit(1)
            }
        }
    }
    // Only the first call counts: the program is set up once.
    let _ = WORKERS.set(workers);
}

/// Whether this program can be the worker of a name.
pub fn has_worker(name: &str) -> bool {
    WORKERS.get().is_some_and(|workers| workers.iter().any(|worker| worker.name == name))
}

/// What a program in the sandbox printed, and how it ended.
#[derive(Debug)]
pub struct Worked {
    /// Standard output, at most as much as was asked for.
    pub output: Vec<u8>,
    /// The end of standard error.
    pub error: String,
    /// How it ended.
    pub ended: CommandEnd,
}

/// How much of standard error is kept.
const MAX_ERROR: usize = 4096;

/// Runs a worker on an input. Everything ends when the future is dropped.
pub async fn work(
    name: &str,
    args: Vec<OsString>,
    input: Vec<u8>,
    limits: Limits,
    max_output: usize,
) -> io::Result<Worked> {
    let own = std::env::current_exe()?;
    let args = [OsString::from(MARK), name.into()].into_iter().chain(args).collect();
    filter(&own, args, input, limits, max_output).await
}

/// Runs a program that sees nothing but the system and its own file, from an input to an output.
pub async fn filter(
    program: &Path,
    args: Vec<OsString>,
    input: Vec<u8>,
    limits: Limits,
    max_output: usize,
) -> io::Result<Worked> {
    let policy =
        Policy { sees: Visibility::Listed, read: vec![program.to_owned()], limits, ..Policy::default() };
    let slot = Sandbox::default().slot(&policy, Output::Apart).await?;
    if !slot.report().has(Layer::View) && !slot.report().has(Layer::Paths) {
        let missing: Vec<String> =
            slot.report().missing.iter().map(|(layer, why)| format!("{} ({why})", layer.made_of())).collect();
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the sandbox lacks {}", missing.join(", ")),
        ));
    }
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
    let task = Task {
        program: program.into(),
        args,
        dir: PathBuf::from("/"),
        env: env.map(|(name, value)| (name.into(), value.into())).into(),
        input,
        reports_dir: false,
        record: None,
        view: None,
    };
    let mut running = slot.run(task).await?;
    let (mut output, mut error) = (Vec::new(), Vec::new());
    let ended = loop {
        match running.next().await? {
            RunEvent::Output(Stream::Out, bytes) => {
                if output.len() + bytes.len() > max_output {
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it printed too much"));
                }
                output.extend_from_slice(bytes);
            }
            RunEvent::Output(Stream::Err, bytes) => {
                error.extend_from_slice(bytes);
                error.drain(..error.len().saturating_sub(MAX_ERROR));
            }
            RunEvent::Ended(ended) => break *ended,
        }
    };
    Ok(Worked { output, error: String::from_utf8_lossy(&error).into_owned(), ended })
}
