//! How quickly changes come to the disk. A thread that has other things to do waits for a disk that is quick, which
//! takes no longer than to have another thread wait, and for no other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A change that takes longer was not quick.
const QUICK: Duration = Duration::from_millis(2);
/// So many quick changes in a row are believed.
const SURE: u32 = 8;

/// How many changes in a row were quick, the last one included.
#[derive(Debug, Default)]
pub(super) struct Pace(AtomicU32);

impl Pace {
    /// A change took so long, and came to the disk or did not.
    pub(super) fn took(&self, time: Duration, is_done: bool) {
        let quick = match time <= QUICK {
            true => self.0.load(Ordering::Relaxed).saturating_add(is_done.into()),
            false => 0,
        };
        self.0.store(quick, Ordering::Relaxed);
    }

    pub(super) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_of_quick_changes_is_believed() {
        let pace = Pace::default();
        let take = |times: u32, time| (0..times).for_each(|_| pace.took(time, true));
        take(SURE - 1, QUICK);
        assert!(!pace.is_quick());
        take(1, QUICK);
        assert!(pace.is_quick());
        take(1, QUICK * 2);
        assert!(!pace.is_quick());
        take(SURE - 1, Duration::ZERO);
        assert!(!pace.is_quick());
        pace.took(Duration::ZERO, false);
        assert!(!pace.is_quick(), "what was not made says nothing of the disk");
        take(1, Duration::ZERO);
        assert!(pace.is_quick());
        pace.took(QUICK * 2, false);
        assert!(!pace.is_quick());
    }
}
