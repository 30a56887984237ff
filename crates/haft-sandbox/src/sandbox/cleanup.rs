//! Clean-up after a slot that no caller waits for, on a background thread: once its processes have ended, remove its control
//! group and check the paths that its command was kept from.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::cgroups::{Cgroup, kill_all, remove_if_empty};
use super::guards::Guards;

/// Number of tries, one every few milliseconds, until the processes are killed, and again until the clean-up gives up.
const MAX_TRIES: usize = 200;
/// Pause between tries.
const INTERVAL: Duration = Duration::from_millis(5);

/// Number of ended slots whose guarded paths are still to be checked.
static PENDING_GUARDS: AtomicUsize = AtomicUsize::new(0);

/// Waits until the guarded paths of all ended commands have been checked and restored, and what commands left in haft's own
/// folders is removed, at most for this long.
pub fn settle(timeout: Duration) {
    let end = Instant::now() + timeout;
    while PENDING_GUARDS.load(Ordering::Acquire) > 0 && Instant::now() < end {
        std::thread::sleep(INTERVAL);
    }
    crate::removal::wait_until(end);
}

/// What is left to do after a slot.
#[derive(Default)]
pub(super) struct Cleanup {
    /// The slot's process, if it may still run.
    pub(super) slot: Option<OwnedFd>,
    /// The folders of its control group.
    pub(super) folders: Vec<PathBuf>,
    /// The session's control group, which has to be removed after that.
    pub(super) parent: Option<Arc<Cgroup>>,
    /// The paths that it guarded.
    pub(super) guards: Option<Guards>,
    pub(super) tries: usize,
}

impl Cleanup {
    /// Hands it to the clean-up thread.
    pub(super) fn enqueue(self) {
        static SENDER: OnceLock<Option<Mutex<mpsc::Sender<Cleanup>>>> = OnceLock::new();
        let sender = SENDER.get_or_init(|| {
            let (sender, receiver) = mpsc::channel();
            let thread = std::thread::Builder::new().name("haft-cleanup".to_owned());
            thread.spawn(move || run_queue(&receiver)).ok().map(|_| Mutex::new(sender))
        });
        if self.guards.is_some() {
            PENDING_GUARDS.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(sender) = sender {
            let _ = sender.lock().send(self);
        }
    }

    /// Tries to finish. False if it has to be tried again.
    fn try_finish(&mut self) -> bool {
        self.tries += 1;
        self.folders.retain(|folder| !remove_if_empty(folder));
        let has_ended = self.folders.is_empty() && self.slot.as_ref().is_none_or(has_exited);
        if self.tries == MAX_TRIES {
            self.folders.iter().for_each(|folder| kill_all(folder));
        }
        if !has_ended && self.tries < 2 * MAX_TRIES {
            return false;
        }
        if let Some(mut guards) = self.guards.take() {
            guards.restore();
            PENDING_GUARDS.fetch_sub(1, Ordering::AcqRel);
        }
        drop(self.parent.take());
        true
    }
}

fn run_queue(queue: &mpsc::Receiver<Cleanup>) {
    let mut pending: Vec<Cleanup> = Vec::new();
    loop {
        let next = match pending.is_empty() {
            true => queue.recv().ok(),
            false => queue.recv_timeout(INTERVAL).ok(),
        };
        pending.extend(next.into_iter().chain(queue.try_iter()));
        pending.retain_mut(|cleanup| !cleanup.try_finish());
    }
}

/// Whether the process that a descriptor stands for has exited.
pub(super) fn has_exited(process: &OwnedFd) -> bool {
    let mut end = [PollFd::new(process, PollFlags::IN)];
    poll(&mut end, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
