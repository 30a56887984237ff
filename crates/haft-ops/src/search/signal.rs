//! The stop flag and the progress counters of a running search, shared by its worker threads and the task that waits
//! for them. Knows nothing of what is searched.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// StopReason a search stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The page is full.
    Enough = 1,
    /// The timeout has expired.
    Time = 2,
    /// The call was cancelled, or the task that waited for the search is gone.
    Cancelled = 3,
}

/// Stop flag and progress counters of one search.
#[derive(Debug, Default)]
pub(super) struct Signal {
    /// Zero while the search runs, otherwise a [`StopReason`].
    stopped: AtomicU8,
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Signal {
    /// Stops the search. The first reason is kept.
    pub(super) fn stop(&self, why: StopReason) {
        let _ = self.stopped.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) != 0
    }

    /// Whether the search of a file must end after `read` bytes of it. On a timeout, [`MIN_READ`] bytes are still read.
    pub(super) fn stops_after(&self, read: u64) -> bool {
        match self.why() {
            Some(StopReason::Time) => read >= MIN_READ,
            why => why.is_some(),
        }
    }

    pub(super) fn why(&self) -> Option<StopReason> {
        [StopReason::Enough, StopReason::Time, StopReason::Cancelled]
            .into_iter()
            .find(|why| *why as u8 == self.stopped.load(Ordering::Acquire))
    }

    pub(super) fn count(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a file that are read even after the timeout: without this minimum, a search that resumes at a large file
/// would never get past it.
const MIN_READ: u64 = 32 << 20;

/// A reader that fails once the search is stopped.
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
