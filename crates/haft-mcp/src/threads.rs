//! Threads for the calls of a client that is served on one. As long as it makes one call after the other, that thread is
//! all it takes; calls that are under way together are shared with others.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use haft::{BoxFuture, Reply};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;

/// More threads than this have nothing to do: the one that reads and writes has its share of each call.
const MOST: usize = 3;
/// While so many calls wait for each of the threads, the next one is carried out where it was read.
const WAITING: usize = 4;

/// The other threads, once they are needed.
#[derive(Default)]
pub(crate) struct Threads(OnceLock<Option<Runtime>>);

impl Threads {
    /// Has a call carried out by another thread if one is likely to come to it sooner. It stops if it is let go.
    pub(crate) fn share(&self, work: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply> {
        if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
            return work;
        }
        let Some(threads) = self.0.get_or_init(start) else { return work };
        let metrics = threads.metrics();
        if metrics.global_queue_depth() >= WAITING * metrics.num_workers() {
            return work;
        }
        let shared = AbortOnDropHandle::new(threads.spawn(work));
        let undone = |error| Reply::error(format!("the call was not carried out: {error}"));
        Box::pin(async move { shared.await.unwrap_or_else(undone) })
    }
}

/// Threads, where there are processors for them.
fn start() -> Option<Runtime> {
    let others = available_parallelism().map_or(1, NonZero::get) - 1;
    if others == 0 {
        return None;
    }
    Builder::new_multi_thread().worker_threads(others.min(MOST)).enable_all().build().ok()
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Not waited for: calls have been stopped before.
        if let Some(threads) = self.0.take().flatten() {
            threads.shutdown_background();
        }
    }
}
