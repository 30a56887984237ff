//! Runs blocking work on tokio's pool of blocking threads, away from the threads that drive other calls.

use crate::crash::catch_panic;
use crate::{Fault, FaultKind};

/// Runs work that blocks its thread, such as waiting for a disk, on tokio's pool of blocking threads, and waits for it.
///
/// It works in every kind of tokio runtime. `tokio::task::block_in_place` would save the switch to another thread, but it
/// panics in a current-thread runtime and in a `LocalSet`, where a program that embeds haft may run it, and an edit takes
/// the same time with either. A panic in the work becomes a fault. Dropping the future does not stop work that has started.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let internal = |why: String| Err(Fault::new(FaultKind::Internal, why));
    match tokio::task::spawn_blocking(move || catch_panic(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => internal(format!("the work crashed: {panic}")),
        Err(error) => internal(format!("the work was not done: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::LocalSet;

    use super::*;

    fn runtimes() -> [Runtime; 2] {
        [Builder::new_current_thread(), Builder::new_multi_thread()]
            .map(|mut builder| builder.build().unwrap())
    }

    #[test]
    fn it_works_in_every_runtime() {
        for runtime in runtimes() {
            assert_eq!(runtime.block_on(blocking(|| Ok(1))).unwrap(), 1);
            let spawned = async { tokio::spawn(blocking(|| Ok(2))).await.unwrap() };
            assert_eq!(runtime.block_on(spawned).unwrap(), 2);
            let local = LocalSet::new();
            assert_eq!(local.block_on(&runtime, blocking(|| Ok(3))).unwrap(), 3);
        }
    }

    #[test]
    fn other_tasks_go_on_meanwhile() {
        for runtime in runtimes() {
            let (sender, receiver) = std::sync::mpsc::channel();
            let waiting = blocking(move || Ok(receiver.recv().is_ok()));
            let sending = async { sender.send(()).is_ok() };
            let (received, sent) = runtime.block_on(async { tokio::join!(waiting, sending) });
            assert!(received.unwrap() && sent);
        }
    }

    #[test]
    fn a_panic_is_a_fault() {
        for runtime in runtimes() {
            let fault = runtime.block_on(blocking(|| -> Result<(), Fault> { panic!("glass") })).unwrap_err();
            assert_eq!((fault.kind(), fault.message()), (FaultKind::Internal, "the work crashed: glass"));
        }
    }
}
