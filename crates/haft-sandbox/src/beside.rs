//! A thread for small work that can be done while something else is. It is started once and kept: starting one for each
//! piece of work would take longer than what it saves. Whoever must not wait for the work of others has it done elsewhere.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};

/// So much stack there is for the work; it is reserved, not taken.
pub const BESIDE_STACK: usize = 128 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// Work that is being done.
#[derive(Debug)]
pub struct Beside<T>(Receiver<T>);

impl<T> Beside<T> {
    /// Waits for what came of it.
    pub fn wait(self) -> io::Result<T> {
        self.0.recv().map_err(|_| io::Error::other("the work beside was not done"))
    }
}

/// Has work done beside this thread, or gives it back where there is no thread to be had.
pub fn beside<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(work: W) -> Result<Beside<T>, W> {
    static THREAD: OnceLock<Option<Mutex<Sender<Work>>>> = OnceLock::new();
    let Some(thread) = THREAD.get_or_init(start) else { return Err(work) };
    let (done, came_of_it) = mpsc::sync_channel(1);
    let work: Work = Box::new(move || drop(done.send(work())));
    // Where the thread has ended, nobody has the other end of what is waited for either.
    let _ = thread.lock().unwrap_or_else(PoisonError::into_inner).send(work);
    Ok(Beside(came_of_it))
}

fn start() -> Option<Mutex<Sender<Work>>> {
    let (sender, all) = mpsc::channel::<Work>();
    let thread = std::thread::Builder::new().name("haft-beside".to_owned()).stack_size(BESIDE_STACK);
    let do_all = move || {
        for work in all {
            // Whoever waits for it is told.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    };
    thread.spawn(do_all).ok()?;
    Some(Mutex::new(sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_fails_is_not_waited_for_and_stops_no_other() {
        let failing = beside(|| panic!("on purpose")).ok().unwrap();
        assert!(failing.wait().is_err());
        assert_eq!(beside(|| 3).ok().unwrap().wait().unwrap(), 3);
    }
}
