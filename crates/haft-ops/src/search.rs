//! Searching: files by their names ([`Glob`]), and what is in them ([`Grep`]). Both walk beneath open handles
//! on several threads, stop as soon as a page is full, and tell when they have not seen everything.

mod glob;
mod grep;
mod lines;
mod ordered;
mod pages;
mod pattern;
mod replace;
mod rules;
mod signal;
mod walk;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haft_core::events::Progress;
use haft_core::{Context, Fault, FaultKind};

pub use glob::{Beginning, Glob, Globbed, Globs, Hit, Miss};
pub use grep::{FileFound, Grep, GrepResult, Page, Sorting, Stopped};
pub use lines::{Line, LineMode};
pub use pattern::{Bounds, Case, Pattern, Span, Syntax};
pub use replace::{Replaced, Substitution, Sweep, Swept};
pub use rules::{Filter, Hidden, Ignored};
pub use walk::Unreadable;

use signal::{Signal, Why};

/// How often it is told how far a search has come.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// How a session searches: what can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searching {
    /// After this long a search gives what it has found.
    pub time: Duration,
    /// What becomes of names that begin with a dot, whatever the dialect says.
    pub hidden: Option<Hidden>,
    /// What becomes of what ignore files name, whatever the dialect says.
    pub ignored: Option<Ignored>,
}

impl Default for Searching {
    fn default() -> Self {
        Self { time: Duration::from_secs(20), hidden: None, ignored: None }
    }
}

impl Searching {
    /// A dialect's filter with what the session sets.
    fn filter(&self, filter: &Filter) -> Filter {
        Filter {
            hidden: self.hidden.unwrap_or(filter.hidden),
            ignored: self.ignored.unwrap_or(filter.ignored),
            ..filter.clone()
        }
    }
}

/// Stops the search when nobody waits for it any more.
struct StopWhenDropped(Arc<Signal>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop(Why::Cancelled);
    }
}

/// Searches on threads that may block, tells how far it has come, and stops it when it is cancelled or its
/// time is up.
async fn drive<T: Send + 'static>(
    cx: &Context,
    time: Duration,
    search: impl FnOnce(&Signal) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let signal = Arc::new(Signal::default());
    let guard = StopWhenDropped(signal.clone());
    if time.is_zero() {
        signal.stop(Why::Time);
    }
    let mut searching = tokio::task::spawn_blocking({
        let signal = signal.clone();
        move || search(&signal)
    });
    let deadline = tokio::time::sleep(time);
    tokio::pin!(deadline);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TOLD_EVERY, TOLD_EVERY);
    let done = loop {
        tokio::select! {
            done = &mut searching => break done,
            () = &mut deadline, if !signal.is_stopped() => signal.stop(Why::Time),
            () = cx.cancelled(), if !signal.is_stopped() => signal.stop(Why::Cancelled),
            _ = ticks.tick() => {
                let files = signal.files.load(Ordering::Relaxed);
                cx.progress(Progress { done: files, total: None, message: format!("{files} files searched") });
            }
        }
    };
    drop(guard);
    if cx.is_cancelled() {
        return Err(cx.cancelled_fault());
    }
    done.map_err(|error| Fault::new(FaultKind::Internal, format!("the search crashed: {error}")))?
}
