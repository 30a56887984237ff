//! A thread for small work that can be done while something else is. It is started once and kept: starting one for each
//! piece of work would take longer than what it saves. Even waking it costs something, so work that can wait for other
//! work does not wake it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// So much stack there is for the work; it is reserved, not taken.
pub const BESIDE_STACK: usize = 128 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// Work that is being done.
#[derive(Debug)]
pub struct Beside<T>(Receiver<T>);

/// When work is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// As soon as the thread comes to it.
    Now,
    /// When there is more to do, or when somebody waits for it.
    WithMore,
}

impl<T> Beside<T> {
    /// Waits for what came of it.
    pub fn wait(self) -> io::Result<T> {
        if let Ok(done) = self.0.try_recv() {
            return Ok(done);
        }
        SIDE.more.notify_one();
        self.0.recv().map_err(|_| io::Error::other("the work beside was not done"))
    }
}

static SIDE: Side =
    Side { work: Mutex::new(VecDeque::new()), more: Condvar::new(), is_there: OnceLock::new() };

/// The thread, and what it has to do, one thing after the other.
struct Side {
    work: Mutex<VecDeque<Work>>,
    more: Condvar,
    is_there: OnceLock<bool>,
}

impl Side {
    fn start() -> bool {
        let thread = std::thread::Builder::new().name("haft-beside".to_owned()).stack_size(BESIDE_STACK);
        thread.spawn(|| SIDE.do_all()).is_ok()
    }

    fn do_all(&self) {
        loop {
            let next = self.more.wait_while(self.work(), |work| work.is_empty());
            let next = next.unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(work) = next {
                // Whoever waits for it is told.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, VecDeque<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has work done beside this thread, or gives it back where there is no thread to be had.
pub fn try_beside<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    begin: Begin,
    work: W,
) -> Result<Beside<T>, W> {
    if !SIDE.is_there.get_or_init(Side::start) {
        return Err(work);
    }
    let (done, came_of_it) = mpsc::sync_channel(1);
    SIDE.work().push_back(Box::new(move || drop(done.send(work()))));
    if begin == Begin::Now {
        SIDE.more.notify_one();
    }
    Ok(Beside(came_of_it))
}

/// Has work done beside this thread; where there is no thread to be had, here and now.
pub fn beside<T: Send + 'static>(begin: Begin, work: impl FnOnce() -> T + Send + 'static) -> Beside<T> {
    try_beside(begin, work).unwrap_or_else(|work| {
        let (done, came_of_it) = mpsc::sync_channel(1);
        let _ = done.send(work());
        Beside(came_of_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_waits_for_more_is_done_when_it_is_waited_for() {
        let first = beside(Begin::WithMore, || 1);
        let second = beside(Begin::WithMore, || 2);
        assert_eq!((second.wait().unwrap(), first.wait().unwrap()), (2, 1));
    }

    #[test]
    fn work_that_fails_is_not_waited_for_and_stops_no_other() {
        let failing = beside(Begin::Now, || panic!("on purpose"));
        assert!(failing.wait().is_err());
        assert_eq!(beside(Begin::Now, || 3).wait().unwrap(), 3);
    }
}
