//! Statistics per tool: number of calls, successes, failures and denials, and percentiles of their duration. Several processes can
//! add to one saved file. Knows tools by name only, and nothing of calls or replies.

mod histogram;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use haft_sandbox::{Store, StoreLock};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use histogram::{Buckets, Histogram};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The call succeeded.
    Success,
    /// The call failed.
    Failure,
    /// The call was denied, so it never ran.
    Denial,
}

/// The statistics of all tools in this process.
#[derive(Debug, Default)]
pub struct Stats {
    tools: Mutex<HashMap<Arc<str>, Counters>>,
    /// Statistics that are in no file yet. Locked during a save, so that saves do not interleave.
    unsaved: Mutex<BTreeMap<String, ToolStats>>,
}

/// The statistics of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolStats {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that succeeded.
    pub successes: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The number of calls that were denied.
    #[serde(default)]
    pub denials: u64,
    /// The total duration of all calls, in nanoseconds.
    pub total_ns: u64,
    /// The shortest duration, in nanoseconds; 0 before the first call.
    pub min_ns: u64,
    /// The longest duration, in nanoseconds.
    pub max_ns: u64,
    histogram: Histogram,
}

#[derive(Debug, Default)]
struct Counters {
    /// Everything except `recent`.
    base: ToolStats,
    /// Recorded since the last save. Its histogram stays empty: `buckets` takes its place.
    recent: ToolStats,
    buckets: Buckets,
}

impl Stats {
    /// Statistics without any calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one call. Allocates only when a tool is first seen.
    pub fn record(&self, tool: &Arc<str>, took: Duration, outcome: Outcome) {
        let mut tools = self.tools.lock();
        match tools.get_mut(tool) {
            Some(counters) => counters.record(took, outcome),
            None => tools.entry(tool.clone()).or_default().record(took, outcome),
        }
    }

    /// The statistics of every tool called so far.
    pub fn snapshot(&self) -> BTreeMap<String, ToolStats> {
        let tools = self.tools.lock();
        let sum = |counters: &Counters| {
            let mut stats = counters.base.clone();
            stats.merge(&counters.recent());
            stats
        };
        tools.iter().map(|(name, counters)| (name.to_string(), sum(counters))).collect()
    }

    /// Adds statistics that are already saved elsewhere: the snapshot includes them, [`Stats::save`] does not write them.
    pub fn merge(&self, saved: &BTreeMap<String, ToolStats>) {
        let mut tools = self.tools.lock();
        for (name, stats) in saved {
            tools.entry(name.as_str().into()).or_default().base.merge(stats);
        }
    }

    /// Adds what was recorded since the last save to the file `name` of the store, under a lock between processes. A
    /// damaged file is copied to `<name>.damaged` first and then replaced.
    pub fn save(&self, store: &Store, name: &str) -> io::Result<()> {
        self.save_under(store, name, || store.lock(&lock_name(name)))
    }

    /// Like [`Stats::save`], but fails with [`ErrorKind::TimedOut`] when another process holds the lock for longer than the
    /// timeout. The next save includes what this one did not write.
    pub fn save_within(&self, store: &Store, name: &str, timeout: Duration) -> io::Result<()> {
        self.save_under(store, name, || store.lock_within(&lock_name(name), timeout))
    }

    fn save_under(
        &self,
        store: &Store,
        name: &str,
        take_lock: impl FnOnce() -> io::Result<StoreLock>,
    ) -> io::Result<()> {
        let mut unsaved = self.unsaved.lock();
        for (tool, counters) in self.tools.lock().iter_mut() {
            if counters.recent.calls > 0 {
                let recent = counters.take_recent();
                counters.base.merge(&recent);
                unsaved.entry(tool.to_string()).or_default().merge(&recent);
            }
        }
        if unsaved.is_empty() {
            return Ok(());
        }
        let _lock = take_lock()?;
        let mut all = match Self::load(store, name) {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                set_aside(store, name)?;
                BTreeMap::new()
            }
            loaded => loaded?,
        };
        for (tool, stats) in unsaved.iter() {
            all.entry(tool.clone()).or_default().merge(stats);
        }
        store.write(name, &serde_json::to_vec(&all)?)?;
        unsaved.clear();
        Ok(())
    }

    /// Loads saved statistics; empty if nothing was saved yet. A damaged file is an error of the kind
    /// [`ErrorKind::InvalidData`].
    pub fn load(store: &Store, name: &str) -> io::Result<BTreeMap<String, ToolStats>> {
        let Some(bytes) = store.read(name)? else {
            return Ok(BTreeMap::new());
        };
        let damaged = |reason: String| {
            let path = store.path(name);
            io::Error::new(ErrorKind::InvalidData, format!("`{}` is damaged: {reason}", path.display()))
        };
        let all: BTreeMap<String, ToolStats> =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match all.iter().find(|(_, stats)| !stats.is_sound()) {
            Some((tool, _)) => Err(damaged(format!("the figures of `{tool}` contradict each other"))),
            None => Ok(all),
        }
    }
}

impl ToolStats {
    /// The average duration of a call.
    pub fn average(&self) -> Option<Duration> {
        self.total_ns.checked_div(self.calls).map(Duration::from_nanos)
    }

    /// The median duration, to within 3.2 %.
    pub fn p50(&self) -> Option<Duration> {
        self.percentile(50)
    }

    /// The 95th percentile of the duration, to within 3.2 %.
    pub fn p95(&self) -> Option<Duration> {
        self.percentile(95)
    }

    /// The fraction of the calls that ran which succeeded, from 0 to 1.
    pub fn success_rate(&self) -> Option<f64> {
        let ran = self.calls.saturating_sub(self.denials);
        (ran > 0).then(|| self.successes as f64 / ran as f64)
    }

    /// Adds the statistics of other calls.
    pub fn merge(&mut self, other: &ToolStats) {
        if other.calls == 0 {
            return;
        }
        self.min_ns = if self.calls == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.successes = self.successes.saturating_add(other.successes);
        self.failures = self.failures.saturating_add(other.failures);
        self.denials = self.denials.saturating_add(other.denials);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.histogram.merge(&other.histogram);
    }

    fn percentile(&self, percent: u64) -> Option<Duration> {
        if self.calls == 0 {
            return None;
        }
        let rank = (u128::from(self.calls) * u128::from(percent)).div_ceil(100);
        let rank = u64::try_from(rank).unwrap_or(u64::MAX).max(1);
        // Minimum and maximum are exact, which makes the percentiles of few calls right.
        let ns = match rank {
            1 => self.min_ns,
            _ if rank == self.calls => self.max_ns,
            _ => self.histogram.value_at(rank).clamp(self.min_ns, self.max_ns),
        };
        Some(Duration::from_nanos(ns))
    }

    fn is_sound(&self) -> bool {
        self.min_ns <= self.max_ns
            && self.successes.checked_add(self.failures).and_then(|ran| ran.checked_add(self.denials))
                == Some(self.calls)
            && self.histogram.is_sound(self.calls)
    }
}

impl Counters {
    fn record(&mut self, took: Duration, outcome: Outcome) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let recent = &mut self.recent;
        recent.min_ns = if recent.calls == 0 { ns } else { recent.min_ns.min(ns) };
        recent.max_ns = recent.max_ns.max(ns);
        recent.total_ns = recent.total_ns.saturating_add(ns);
        recent.calls += 1;
        match outcome {
            Outcome::Success => recent.successes += 1,
            Outcome::Failure => recent.failures += 1,
            Outcome::Denial => recent.denials += 1,
        }
        self.buckets.add(ns);
    }

    fn recent(&self) -> ToolStats {
        ToolStats { histogram: self.buckets.histogram(), ..self.recent.clone() }
    }

    fn take_recent(&mut self) -> ToolStats {
        let recent = self.recent();
        self.recent = ToolStats::default();
        self.buckets.clear();
        recent
    }
}

fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

/// Copies a damaged file to an unused name; the caller then replaces the file itself.
fn set_aside(store: &Store, name: &str) -> io::Result<()> {
    let Some(bytes) = store.read(name)? else {
        return Ok(());
    };
    let mut copy = format!("{name}.damaged");
    let mut number = 1;
    while store.read(&copy)?.is_some() {
        number += 1;
        copy = format!("{name}.damaged-{number}");
    }
    store.write(&copy, &bytes)
}
