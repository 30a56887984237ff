//! Panics as values: a crash in a tool, a hook or a judge is an outcome of that call, and goes no further.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::Poll;

/// What the work comes to, or what its panic says.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// Polls a future to its end, or to the panic in it.
pub(crate) async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|task| match catch_panic(|| work.as_mut().poll(task)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
