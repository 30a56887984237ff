//! A background thread for small work that nothing waits for, such as to free the space of a file that was replaced. It is
//! started when it is first needed, and kept: to start one for each piece of work would take longer than the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};

type Work = Box<dyn FnOnce() + Send>;

/// Has work done in the background. Where there is no thread for it, it is dropped.
pub(crate) fn offload(work: impl FnOnce() + Send + 'static) {
    static THREAD: OnceLock<Option<Mutex<Sender<Work>>>> = OnceLock::new();
    if let Some(thread) = THREAD.get_or_init(start) {
        // The thread does not end, so this cannot fail.
        let _ = thread.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(work));
    }
}

fn start() -> Option<Mutex<Sender<Work>>> {
    let (sender, all) = mpsc::channel::<Work>();
    let do_all = move || {
        for work in all {
            // What fails must not keep the rest from being done.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    };
    std::thread::Builder::new().name("haft-offload".to_owned()).spawn(do_all).ok()?;
    Some(Mutex::new(sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_fails_stops_no_other() {
        let (sender, done) = mpsc::channel();
        offload(|| panic!("on purpose"));
        offload(move || sender.send(3).unwrap());
        assert_eq!(done.recv(), Ok(3));
    }
}
