//! What is still to be done when a cage is over and nobody waits for it: its group is removed, and what it guarded is
//! looked after, once everything in it has ended.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::groups::{Group, is_removed, kill_all};
use super::guards::Guards;

/// How long everything has to end, in tries every few milliseconds; then it is killed, and then it is given up.
const PATIENCE: usize = 200;

/// How many cages are over whose guards still have to be looked after.
static GUARDING: AtomicUsize = AtomicUsize::new(0);

/// Waits until what cages guarded is as it was, for those that nobody waited for; for so long at most.
pub fn settle(patience: Duration) {
    let end = Instant::now() + patience;
    while GUARDING.load(Ordering::Acquire) > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a cage leaves.
#[derive(Default)]
pub(super) struct Leaving {
    /// Its keeper, if nobody has waited for that.
    pub(super) keeper: Option<u32>,
    /// The folders of its group.
    pub(super) folders: Vec<PathBuf>,
    /// The group that its own one was in, which is removed after it.
    pub(super) above: Option<Arc<Group>>,
    /// What it guarded.
    pub(super) guards: Option<Guards>,
    pub(super) tries: usize,
}

impl Leaving {
    /// Sees to it later, on a thread for that.
    pub(super) fn later(self) {
        static SENDER: OnceLock<Option<Mutex<mpsc::Sender<Leaving>>>> = OnceLock::new();
        let sender = SENDER.get_or_init(|| {
            let (sender, receiver) = mpsc::channel();
            let thread = std::thread::Builder::new().name("leaving".to_owned());
            thread.spawn(move || see_to_all(&receiver)).ok().map(|_| Mutex::new(sender))
        });
        if self.guards.is_some() {
            GUARDING.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(sender) = sender {
            let _ = sender.lock().send(self);
        }
    }

    /// Whether there is nothing more to do.
    fn is_done(&mut self) -> bool {
        self.tries += 1;
        self.folders.retain(|folder| !is_removed(folder));
        let is_over = self.folders.is_empty() && self.keeper.is_none_or(is_gone);
        if self.tries == PATIENCE {
            self.folders.iter().for_each(|folder| kill_all(folder));
        }
        if !is_over && self.tries < 2 * PATIENCE {
            return false;
        }
        if let Some(guards) = self.guards.take() {
            guards.after();
            GUARDING.fetch_sub(1, Ordering::AcqRel);
        }
        drop(self.above.take());
        true
    }
}

fn see_to_all(arriving: &mpsc::Receiver<Leaving>) {
    let mut waiting: Vec<Leaving> = Vec::new();
    loop {
        let next = match waiting.is_empty() {
            true => arriving.recv().ok(),
            false => arriving.recv_timeout(Duration::from_millis(5)).ok(),
        };
        waiting.extend(next.into_iter().chain(arriving.try_iter()));
        waiting.retain_mut(|leaving| !leaving.is_done());
    }
}

/// Whether a child has ended, whether or not somebody has waited for it.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}
