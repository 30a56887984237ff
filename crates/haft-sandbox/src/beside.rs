//! A thread for small work on the disk that can be done while something else waits for the disk, too. It is
//! started once and kept: starting one for each change would take longer than what it saves.

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

/// Has work done beside this thread.
pub fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Beside<T> {
    let (done, came_of_it) = mpsc::channel();
    let work: Work = Box::new(move || drop(done.send(work())));
    let not_taken = match thread() {
        Some(thread) => {
            thread.lock().unwrap_or_else(PoisonError::into_inner).send(work).err().map(|error| error.0)
        }
        None => Some(work),
    };
    // Where there is no thread to be had, it is done here and now.
    if let Some(work) = not_taken {
        work();
    }
    Beside(came_of_it)
}

fn thread() -> Option<&'static Mutex<Sender<Work>>> {
    static THREAD: OnceLock<Option<Mutex<Sender<Work>>>> = OnceLock::new();
    THREAD
        .get_or_init(|| {
            let (sender, work) = mpsc::channel::<Work>();
            let thread = std::thread::Builder::new().name("haft-disk".to_owned());
            thread.spawn(move || work.into_iter().for_each(|work| work())).ok()?;
            Some(Mutex::new(sender))
        })
        .as_ref()
}
