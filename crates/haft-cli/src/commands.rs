//! One module a command.

mod audit;
mod batch;
mod call;
mod completions;
mod doctor;
mod history;
mod mcp;
mod rules;
mod servers;
mod settings;
mod stats;
mod todos;
mod tools;
mod trust;
mod undo;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use haft_core::events::{EventKind, EventPayload, Subscription};
use haft_core::{Reply, Session};
use haft_ops::{Clash, Direction};

use crate::args::{Args, Command, Numbers};
use crate::style;
use haft_host::Host;

/// Does what was typed.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    match args.command {
        Command::Tools { format } => tools::run(common, format),
        Command::Call { tool, input } => call::run(common, &tool, &input),
        Command::Batch { file } => batch::run(common, &file),
        Command::Mcp { http, command: None } => mcp::run(common, http),
        Command::Mcp { command: Some(command), .. } => servers::run(common, command),
        Command::History { diff, limit, numbers } => {
            history::run(common, diff, limit, &Numbers::all(&numbers))
        }
        Command::Undo { numbers, last, merge, dry_run } => {
            let clash = if merge { Clash::Merge } else { Clash::Refuse };
            undo::run(
                common,
                Direction::Undo,
                &undo::Wanted { numbers: Numbers::all(&numbers), last, clash, dry_run },
            )
        }
        Command::Redo { numbers, last, dry_run } => undo::run(
            common,
            Direction::Redo,
            &undo::Wanted { numbers: Numbers::all(&numbers), last, clash: Clash::Refuse, dry_run },
        ),
        Command::Trust { yes } => trust::run(common, yes),
        Command::Audit { limit } => audit::run(common, limit),
        Command::Rules { command } => rules::run(common, command),
        Command::Todos => todos::run(common),
        Command::Stats => stats::run(common),
        Command::Doctor => doctor::run(common),
        Command::Settings => settings::run(),
        Command::Completions { shell } => completions::run(shell),
    }
}

/// The exit code of a command that was told to stop.
const INTERRUPTED: u8 = 130;

/// How long calls that were told to stop may take to do so: longer than a command that does not want to end has.
const LAST_WORDS: Duration = Duration::from_secs(4);

/// What stopped some work before its end.
struct Interrupted;

/// How some work ended.
enum Worked<T> {
    /// By itself.
    Done(T),
    /// Because haft was told to stop; with what came of it even so, unless it would not end.
    Stopped(Option<T>),
}

/// Does some work unless haft is told to stop; then the session's calls are stopped first, so that nothing
/// they started stays behind, and the work may end with what it has.
async fn interruptible<T>(session: &Session, stop: &mut Stop, work: impl Future<Output = T>) -> Worked<T> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Worked::Done(done),
        () = stop.asked() => session.cancel(),
    }
    Worked::Stopped(tokio::time::timeout(LAST_WORDS, work).await.ok())
}

/// Starts the servers that the tools of these names may be of, unless haft is told to stop.
async fn ready(
    host: &Host,
    tools: impl IntoIterator<Item = &str>,
    stop: &mut Stop,
) -> Result<(), Interrupted> {
    let servers = host.servers();
    let mut asked: Vec<&str> = tools.into_iter().filter(|tool| servers.may_have(tool)).collect();
    asked.dedup();
    if asked.is_empty() {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = servers.start_for(&asked) => Ok(()),
        () = stop.asked() => Err(Interrupted),
    }
}

/// Hears what goes wrong beside a call, such as a hook that comes after it: no reply tells of that.
struct Beside(Subscription);

impl Beside {
    fn of(session: &Session) -> Self {
        Self(session.engine().activity().subscribe_to(&[EventKind::Fault]))
    }

    /// Tells a person of everything so far that the replies do not tell themselves.
    fn tell(&mut self, replies: &[Reply]) {
        while let Some(event) = self.0.try_next() {
            let EventPayload::Fault(fault) = &event.what else { continue };
            let own = replies.iter().any(|reply| reply.id == event.call && reply.fault() == Some(fault));
            if !own {
                style::notice(&format!("{} ({}): {fault}", event.tool, event.call));
            }
        }
    }
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
