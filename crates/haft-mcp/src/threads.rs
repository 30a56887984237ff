//! Threads for the calls of a client that is served on one. As long as it makes one call after the other, that thread is
//! all it takes; calls that are under way together are shared with others.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Duration;

use haft_core::{BoxFuture, Fault, FaultKind, Reply, text_fault};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// More threads than this have nothing to do: the one that reads and writes has its share of each call.
const MOST: usize = 3;
/// While so many calls wait for each of the threads, the next one is carried out where it was read.
const WAITING: usize = 4;
/// So long what was let go may take to clean up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The other threads, once they are needed.
#[derive(Default)]
pub(crate) struct Threads {
    runtime: OnceLock<Option<Runtime>>,
    shared: TaskTracker,
}

impl Threads {
    /// Has a call carried out by another thread if one is likely to come to it sooner. It stops if it is let go.
    pub(crate) fn share(&self, work: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply> {
        if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
            return work;
        }
        let Some(runtime) = self.runtime.get_or_init(start) else { return work };
        let metrics = runtime.metrics();
        if metrics.global_queue_depth() >= WAITING * metrics.num_workers() {
            return work;
        }
        let shared = AbortOnDropHandle::new(self.shared.spawn_on(work, runtime.handle()));
        let lost =
            |error| text_fault(&Fault::new(FaultKind::Internal, format!("the call was lost: {error}")));
        Box::pin(async move { shared.await.unwrap_or_else(lost) })
    }

    /// Waits a moment for the calls that were stopped or let go.
    pub(crate) async fn settle(&self) {
        self.shared.close();
        // Whoever takes longer is not waited for, as anywhere else.
        let _ = timeout(PATIENCE, self.shared.wait()).await;
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
        if let Some(runtime) = self.runtime.take().flatten() {
            runtime.shutdown_background();
        }
    }
}
