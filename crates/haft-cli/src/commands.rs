//! One module a command.

mod batch;
mod call;
mod completions;
mod doctor;
mod settings;
mod stats;
mod tools;

use std::future::Future;
use std::process::ExitCode;

use haft::Session;

use crate::args::{Args, Command};

/// Does what was typed.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    match args.command {
        Command::Tools { format } => tools::run(common, format),
        Command::Call { tool, input } => call::run(common, &tool, &input),
        Command::Batch { file } => batch::run(common, &file),
        Command::Stats => stats::run(common),
        Command::Doctor => doctor::run(common),
        Command::Settings => settings::run(),
        Command::Completions { shell } => completions::run(shell),
    }
}

/// What stopped some work before its end.
struct Interrupted;

/// Does some work unless haft is told to stop; then the session's calls are stopped first, so that nothing
/// they started stays behind.
async fn interruptible<T>(
    session: &Session,
    stop: &mut Stop,
    work: impl Future<Output = T>,
) -> Result<T, Interrupted> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = stop.asked() => session.cancel(),
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), work).await;
    Err(Interrupted)
}

/// Hears that haft is to stop. Once it listens, a signal no longer ends the process by itself, and none is
/// missed between two questions; so one is made before the first call and kept to the end.
struct Stop {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

#[cfg(unix)]
impl Stop {
    /// Listens from now on. Must be called inside of a runtime.
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    async fn asked(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Stop {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    async fn asked(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
