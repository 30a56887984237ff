//! Threads for small work that can be done while something else is. Each is started once and kept: starting one for each
//! piece of work would take longer than what it saves.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// A thread that is started when there is something to do for it. It takes one thing after the other.
pub struct Side {
    name: &'static str,
    stack: usize,
    thread: OnceLock<Option<Mutex<Sender<Work>>>>,
}

impl Side {
    /// One of this name, with so much stack.
    pub const fn new(name: &'static str, stack: usize) -> Self {
        Self { name, stack, thread: OnceLock::new() }
    }

    /// Has work done, or gives it back where there is no thread to be had.
    pub fn take<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
        &'static self,
        work: W,
    ) -> Result<Beside<T>, W> {
        let Some(thread) = self.thread.get_or_init(|| self.start()) else { return Err(work) };
        let (done, came_of_it) = mpsc::channel();
        let work: Work = Box::new(move || drop(done.send(work())));
        // Where the thread has ended, nobody has the other end of what is waited for either.
        let _ = thread.lock().unwrap_or_else(PoisonError::into_inner).send(work);
        Ok(Beside(came_of_it))
    }

    fn start(&self) -> Option<Mutex<Sender<Work>>> {
        let (sender, work) = mpsc::channel::<Work>();
        let thread = std::thread::Builder::new().name(self.name.to_owned()).stack_size(self.stack);
        thread.spawn(move || work.into_iter().for_each(|work| work())).ok()?;
        Some(Mutex::new(sender))
    }
}

/// Has work on the disk done beside this thread; where there is no thread to be had, here and now.
pub fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Beside<T> {
    static DISK: Side = Side::new("haft-disk", 2 << 20);
    DISK.take(work).unwrap_or_else(|work| {
        let (done, came_of_it) = mpsc::channel();
        let _ = done.send(work());
        Beside(came_of_it)
    })
}
