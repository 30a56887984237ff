//! Catches panics, so that a bug in a tool, a hook or a judge fails one call and not the whole process.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::Poll;

/// The result of the work, or the message of its panic.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// The output of a future, or the message of its panic.
pub(crate) async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|task| match catch_panic(|| work.as_mut().poll(task)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
