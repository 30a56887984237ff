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
async fn interruptible<T>(session: &Session, work: impl Future<Output = T>) -> Result<T, Interrupted> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = stop_signal() => session.cancel(),
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), work).await;
    Err(Interrupted)
}

#[cfg(unix)]
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn stop_signal() {
    let _ = tokio::signal::ctrl_c().await;
}
