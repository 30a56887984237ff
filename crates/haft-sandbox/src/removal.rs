//! Removing directories on a background thread: on some file systems a removed directory takes as long as a whole command. What
//! is not removed when the process ends has to be found and removed by a later one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many removals are to be made.
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// What removes something. It fails silently: what cannot be removed is left for a later process.
type Removal = Box<dyn FnOnce() + Send>;

/// Removes something soon.
pub(crate) fn remove_later(removal: impl FnOnce() + Send + 'static) {
    static SENDER: OnceLock<Option<Mutex<mpsc::Sender<Removal>>>> = OnceLock::new();
    let sender = SENDER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("haft-removal".to_owned());
        thread.spawn(move || run_queue(&receiver)).ok().map(|_| Mutex::new(sender))
    });
    PENDING.fetch_add(1, Ordering::AcqRel);
    let removal: Removal = Box::new(removal);
    let unsent = match sender {
        Some(sender) => sender.lock().send(removal).err().map(|error| error.0),
        None => Some(removal),
    };
    if let Some(removal) = unsent {
        remove(removal);
    }
}

fn run_queue(queue: &mpsc::Receiver<Removal>) {
    queue.iter().for_each(remove);
}

fn remove(removal: Removal) {
    removal();
    PENDING.fetch_sub(1, Ordering::AcqRel);
}

/// Waits until everything is removed, at most until then.
pub(crate) fn wait_until(end: Instant) {
    while PENDING.load(Ordering::Acquire) > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}
