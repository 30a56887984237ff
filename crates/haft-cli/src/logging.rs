//! The log: what haft and its libraries do, for finding out why something does not work. Off unless `HAFT_LOG` says what
//! is logged. It goes to standard error, or to a file, since the clients of `haft mcp` hide standard error.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use haft_core::Engine;
use haft_core::events::{Event, EventKind, EventPayload};
use haft_sandbox::user;
use tracing_subscriber::EnvFilter;

use crate::style;

/// The environment variable with the levels, such as `info` or `haft=debug,rmcp=trace`.
const LEVELS: &str = "HAFT_LOG";

/// Starts the log. With a file and without levels, it logs at the level `info`.
pub(crate) fn start(file: Option<&Path>) -> anyhow::Result<()> {
    let levels = std::env::var(LEVELS).ok().filter(|levels| !levels.is_empty());
    let levels = match (&levels, file) {
        (Some(levels), _) => levels.as_str(),
        (None, Some(_)) => "info",
        (None, None) => return Ok(()),
    };
    let filter = EnvFilter::try_new(levels).with_context(|| {
        format!("{LEVELS} is `{levels}`: it must be a level such as `debug`, or `haft=debug`")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    let started = match file {
        Some(file) => log.with_writer(Mutex::new(user::append(file)?)).try_init(),
        None => log.with_writer(std::io::stderr).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// How often the log is written.
const INTERVAL: Duration = Duration::from_millis(50);

/// Logs the calls of all sessions until it is dropped, when everything so far is written. A thread of its own does so, so
/// that no call waits for the log.
pub(crate) struct CallLog {
    is_over: Arc<AtomicBool>,
    writing: Option<JoinHandle<()>>,
}

impl CallLog {
    /// Starts, unless nothing of it would be logged.
    pub(crate) fn start(engine: &Engine) -> Option<Self> {
        if !tracing::enabled!(target: "haft", tracing::Level::WARN) {
            return None;
        }
        let kinds = [
            EventKind::Started,
            EventKind::Waiting,
            EventKind::Asked,
            EventKind::Answered,
            EventKind::Fault,
            EventKind::Ended,
        ];
        let mut events = engine.activity().subscribe_to(&kinds);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let writing = std::thread::spawn(move || {
            loop {
                // Read before the events, so that those before the end are logged.
                let is_last = over.load(Ordering::Acquire);
                while let Some(event) = events.try_next() {
                    write(&event);
                }
                if is_last {
                    return;
                }
                std::thread::park_timeout(INTERVAL);
            }
        });
        Some(Self { is_over, writing: Some(writing) })
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(writing) = self.writing.take() {
            writing.thread().unpark();
            // A panic there costs lines of the log only.
            let _ = writing.join();
        }
    }
}

fn write(event: &Event) {
    let (session, call, tool) = (&*event.session, &*event.call, style::one_line(&event.tool));
    match &event.payload {
        EventPayload::Started { .. } => tracing::info!(target: "haft", session, call, tool, "call started"),
        EventPayload::Waiting { on, resource } => {
            tracing::debug!(target: "haft", session, call, tool, %on, %resource, "call waits");
        }
        EventPayload::Asked { reason } => {
            tracing::info!(target: "haft", session, call, tool, reason, "a person is asked");
        }
        EventPayload::Answered { answer } => {
            tracing::info!(target: "haft", session, call, tool, answer, "the person answered");
        }
        EventPayload::Fault(fault) => {
            let fault = style::one_line(&fault.to_string());
            tracing::warn!(target: "haft", session, call, tool, fault, "call failed");
        }
        EventPayload::Ended { reply, took } => {
            tracing::info!(target: "haft", session, call, tool, is_error = reply.is_error, ?took, "call ended");
        }
        _ => {}
    }
}
