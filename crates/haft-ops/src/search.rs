//! Searching: files by name ([`Glob`]), file contents ([`Grep`]), and search-and-replace ([`Sweep`]). All of them walk
//! beneath open folder handles on several threads, stop as soon as a page is full, and report when the search did
//! not cover everything. Knows no tool names and no reply formats.

mod glob;
mod globs;
mod grep;
mod lines;
mod ordered;
mod page_builder;
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

pub use glob::{Beginning, Glob, Globbed, Hit, Miss};
pub use globs::Globs;
pub use grep::{FileFound, Grep, GrepResult, Page, Sorting, Stopped};
pub use lines::{Line, LineMode};
pub use pattern::{Bounds, Case, Pattern, Span, Syntax};
pub use replace::{Replaced, Substitution, Sweep, Swept};
pub use rules::{Filter, Hidden, Ignored};
pub use walk::Unreadable;

use signal::{Signal, StopReason};

/// Interval between two progress events of a search.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Search settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searching {
    /// Timeout of a search; when it expires, the search returns its partial results.
    pub time: Duration,
    /// Overrides the dialect's treatment of names that begin with a dot.
    pub hidden: Option<Hidden>,
    /// Overrides the dialect's treatment of files that ignore files name.
    pub ignored: Option<Ignored>,
}

impl Default for Searching {
    fn default() -> Self {
        Self { time: Duration::from_secs(20), hidden: None, ignored: None }
    }
}

impl Searching {
    /// A dialect's filter with the overrides of the session.
    fn filter(&self, filter: &Filter) -> Filter {
        Filter {
            hidden: self.hidden.unwrap_or(filter.hidden),
            ignored: self.ignored.unwrap_or(filter.ignored),
            ..filter.clone()
        }
    }
}

/// Stops the search when the future that waits for it is dropped.
struct StopWhenDropped(Arc<Signal>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop(StopReason::Cancelled);
    }
}

/// Runs a search on a blocking thread, reports its progress, and stops it on cancellation or after `time`.
async fn drive<T: Send + 'static>(
    cx: &Context,
    time: Duration,
    search: impl FnOnce(&Signal) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let signal = Arc::new(Signal::default());
    let guard = StopWhenDropped(signal.clone());
    // Otherwise a race with the timer decides how much a search without time finds.
    if time.is_zero() {
        signal.stop(StopReason::Time);
    }
    let mut search = tokio::task::spawn_blocking({
        let signal = signal.clone();
        move || search(&signal)
    });
    let deadline = tokio::time::sleep(time);
    tokio::pin!(deadline);
    let mut ticks =
        tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    let done = loop {
        tokio::select! {
            done = &mut search => break done,
            () = &mut deadline, if !signal.is_stopped() => signal.stop(StopReason::Time),
            () = cx.cancelled(), if !signal.is_stopped() => signal.stop(StopReason::Cancelled),
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
