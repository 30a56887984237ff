//! How a search that is under way is told to stop, and how it tells how far it has come.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Why a search stopped before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// There is as much as was wanted.
    Enough = 1,
    /// The time is up.
    Time = 2,
    /// Nobody waits for it any more.
    Cancelled = 3,
}

/// Shared by those who search and those who wait.
#[derive(Debug, Default)]
pub(super) struct Signal {
    stopped: AtomicU8,
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Signal {
    /// Stops the search; the first reason counts.
    pub(super) fn stop(&self, why: Why) {
        let _ = self.stopped.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) != 0
    }

    /// Whether a file of which so much is read is given up.
    pub(super) fn stops_after(&self, read: u64) -> bool {
        match self.why() {
            Some(Why::Time) => read >= AT_LEAST,
            why => why.is_some(),
        }
    }

    pub(super) fn why(&self) -> Option<Why> {
        [Why::Enough, Why::Time, Why::Cancelled]
            .into_iter()
            .find(|why| *why as u8 == self.stopped.load(Ordering::Acquire))
    }

    pub(super) fn count(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// As much of a file is read even when the time is up, so that whoever goes on gets past it.
const AT_LEAST: u64 = 32 << 20;

/// Reads until the search is stopped.
pub(super) struct Stoppable<'a, R> {
    pub(super) inner: R,
    pub(super) signal: &'a Signal,
    pub(super) read: u64,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.signal.stops_after(self.read) {
            return Err(io::Error::other("the search was stopped"));
        }
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}
