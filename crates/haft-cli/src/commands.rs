//! Dispatches to one module per command, and holds what several commands share: interrupts, server start, fault reports.

mod audit;
mod batch;
mod call;
mod completions;
mod doctor;
mod history;
mod man;
mod mcp;
mod rules;
mod servers;
mod sessions;
mod settings;
mod setup;
mod stats;
mod todos;
mod tools;
mod trust;
mod undo;
mod web;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use haft_core::events::{EventKind, EventPayload, Subscription};
use haft_core::{Reply, Session};
use haft_ops::{Clash, Direction};

pub(crate) use audit::KnownLine;

use crate::args::{Args, Command, Numbers};
use crate::live::LiveView;
use crate::logging;
use crate::style;
use haft_host::Host;

/// Runs the command of a parsed command line.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let log_file = match &args.command {
        Command::Mcp { log_file, .. } => log_file.as_deref(),
        _ => None,
    };
    logging::start(log_file)?;
    match args.command {
        Command::Tools { format } => tools::run(common, format),
        Command::Call { tool, input } => call::run(common, &tool, &input),
        Command::Batch { file } => batch::run(common, &file),
        Command::Mcp { http, command: None, .. } => mcp::run(common, http),
        Command::Mcp { command: Some(command), .. } => servers::run(common, command),
        Command::History { diff, limit, numbers } => {
            history::run(common, diff, limit, &Numbers::all(&numbers))
        }
        Command::Undo { numbers, last, any, merge, dry_run } => {
            let clash = if merge { Clash::Merge } else { Clash::Refuse };
            undo::run(
                common,
                Direction::Undo,
                &undo::UndoArgs { numbers: Numbers::all(&numbers), last, any, clash, dry_run },
            )
        }
        Command::Redo { numbers, last, any, dry_run } => undo::run(
            common,
            Direction::Redo,
            &undo::UndoArgs { numbers: Numbers::all(&numbers), last, any, clash: Clash::Refuse, dry_run },
        ),
        Command::Trust { yes } => trust::run(common, yes),
        Command::Audit { limit, contains } => audit::run(common, limit, contains.as_ref()),
        Command::Rules { command } => rules::run(common, command),
        Command::Todos => todos::run(common),
        Command::Stats => stats::run(common),
        Command::Setup(flags) => setup::run(common, &flags),
        Command::Fetch { url } => web::fetch(common, &url),
        Command::Search { words, limit } => web::search(common, &words, limit),
        Command::Doctor => doctor::run(common),
        Command::Settings { schema: true, .. } => settings::print_schema(),
        Command::Settings { reference: true, .. } => settings::print_reference(),
        Command::Settings { .. } => settings::run(common),
        Command::Sessions { command } => sessions::run(common, command),
        Command::Man { dir } => man::run(&dir),
        Command::Completions { shell } => completions::run(shell),
    }
}

/// The exit code of an interrupted command.
const INTERRUPTED: u8 = 130;

/// Timeout for cancelled calls: longer than the grace period of a command that ignores its termination signal.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(4);

/// haft was interrupted before some work was done.
struct Interrupted;

/// How interruptible work ended.
enum Completion<T> {
    /// Without an interrupt.
    Done(T),
    /// By an interrupt, with its result unless it timed out.
    Stopped(Option<T>),
}

/// Runs some work until it is done or haft is interrupted, and shows the running calls. An interrupt cancels the session's
/// calls, so that nothing they started stays behind, and the work returns what it has. A second one ends haft at once.
async fn interruptible<T>(
    session: &Session,
    stop: &mut StopSignal,
    work: impl Future<Output = T>,
) -> Completion<T> {
    let live = LiveView::start(session);
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Completion::Done(done),
        () = stop.received() => session.cancel(),
    }
    live.stopping();
    tokio::select! {
        biased;
        done = tokio::time::timeout(CANCEL_TIMEOUT, work) => Completion::Stopped(done.ok()),
        () = stop.received() => {
            drop(live);
            // Commands end with haft, and what a change left unfinished the journal settles in the next run.
            std::process::exit(INTERRUPTED.into());
        }
    }
}

/// Starts the MCP servers that may have these tools, unless haft is interrupted.
async fn start_servers(
    host: &Host,
    tools: impl IntoIterator<Item = &str>,
    stop: &mut StopSignal,
) -> Result<(), Interrupted> {
    let servers = host.servers();
    let mut wanted: Vec<&str> = tools.into_iter().filter(|tool| servers.may_have(tool)).collect();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = servers.start_for(&wanted) => Ok(()),
        () = stop.received() => Err(Interrupted),
    }
}

/// Watches for faults that no reply contains, such as that of a hook after a call.
struct FaultWatcher(Subscription);

impl FaultWatcher {
    fn new(session: &Session) -> Self {
        Self(session.engine().activity().subscribe_to(&[EventKind::Fault]))
    }

    /// Prints the faults so far that are not in these replies.
    fn report(&mut self, replies: &[Reply]) {
        while let Some(event) = self.0.try_next() {
            let EventPayload::Fault(fault) = &event.payload else { continue };
            let is_in_reply =
                replies.iter().any(|reply| reply.id == event.call && reply.fault() == Some(fault));
            if !is_in_reply {
                style::notice(&format!("{} ({}): {fault}", event.tool, event.call));
            }
        }
    }
}

/// Listens for SIGINT and SIGTERM. While it exists, these signals do not end the process, and none is lost between two
/// waits; so it is created before the first call and kept to the end.
struct StopSignal {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

#[cfg(unix)]
impl StopSignal {
    /// Starts to listen. Must be called inside a runtime.
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    async fn received(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl StopSignal {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    async fn received(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
