//! Who waits for whom. Two calls conflict when their claims overlap and one of them writes; a call waits
//! for the earlier calls it conflicts with, and for nothing else. Knows claims and their order, and
//! nothing of tools, permissions or what a call does once it may run.
//!
//! Waits lead only to lower keys or to calls that run, and a running call does not wait: no deadlock.

mod calls;
mod index;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::claim::{Access, Claims, Resource};
use calls::{Calls, Look};
use index::State;
use parking_lot::{Mutex, MutexGuard};

/// In which order the calls of a turn may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// A call waits for the earlier calls it conflicts with; everything else runs at once.
    #[default]
    Claims,
    /// The calls of a turn that change nothing run first and at once, then the others one by one in the
    /// order of the calls.
    SafeFirst,
}

/// The unfinished calls of a session, in order.
#[derive(Clone)]
pub(crate) struct Schedule(Arc<Mutex<Calls>>);

/// A call's place in the order. Dropping it, at any point, gives up the call's claims and wakes those who
/// waited for it.
pub(crate) struct Ticket {
    schedule: Schedule,
    slot: usize,
    state: State,
}

/// Where in the order a call stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its turn.
    pub(crate) turn: u64,
    /// Who waits for whom in that turn.
    pub(crate) policy: Policy,
    /// Whether it changes anything, whatever it claims for the sake of order.
    pub(crate) access: Access,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// The call that must finish first.
    pub(crate) call: Arc<str>,
    /// What the waiting call claims and the other one holds.
    pub(crate) resource: Resource,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Calls::new())))
    }

    /// Takes the next place in the order. The order of these calls is the order of the schedule.
    ///
    /// Under [`Policy::SafeFirst`] a call that changes something does not run before its turn is sealed.
    pub(crate) fn enter(&self, call: &Arc<str>, place: Place, claims: &Claims) -> Ticket {
        self.take_place(call, place, claims, false)
    }

    /// Takes the next place for a call that does not know yet what it will touch: it waits for what is in the way of
    /// `claims`, and until it has claimed again later calls wait for it as if it touched everything.
    pub(crate) fn enter_blind(&self, call: &Arc<str>, place: Place, claims: &Claims) -> Ticket {
        self.take_place(call, place, claims, true)
    }

    fn take_place(&self, call: &Arc<str>, place: Place, claims: &Claims, blind: bool) -> Ticket {
        let mut calls = self.lock();
        let turn = match place.policy {
            Policy::Claims => None,
            Policy::SafeFirst => {
                calls.open_turn(place.turn);
                Some(place.turn)
            }
        };
        let slot = calls.add(Some(call.clone()), turn);
        let state = calls.claim(slot, claims, place.access, blind);
        drop(calls);
        Ticket { schedule: self.clone(), slot, state }
    }

    /// Whether no call is unfinished.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// No more calls will be submitted in this turn. A call that comes nevertheless is not held back.
    pub(crate) fn seal(&self, turn: u64) {
        let freed = self.lock().seal(turn);
        freed.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock()
    }
}

impl Ticket {
    /// Returns once the call may run. Calls `on_wait` once for each call it has to wait for, when it
    /// begins to wait for that one. The future may be dropped and `ready` called again.
    pub(crate) async fn ready(&mut self, mut on_wait: impl FnMut(&Blocker)) {
        if self.state == State::Running {
            return;
        }
        poll_fn(|cx| {
            // The old waker is dropped only here, without the lock: it may own a task, and that a ticket.
            let (look, _old) = self.schedule.lock().look(self.slot, cx);
            match look {
                Look::Start => return Poll::Ready(()),
                Look::Wait(Some(blocker)) => on_wait(&blocker),
                Look::Wait(None) => {}
            }
            Poll::Pending
        })
        .await;
        self.state = State::Running;
    }

    /// The call was rewritten and claims something else now, at the same place in the order. `ready` must
    /// be awaited again: a later call that already runs may now be in the way.
    pub(crate) fn reclaim(&mut self, claims: &Claims, access: Access) {
        let mut calls = self.schedule.lock();
        let freed = calls.unclaim(self.slot);
        self.state = calls.claim(self.slot, claims, access, false);
        drop(calls);
        freed.wake();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let freed = self.schedule.lock().finish(self.slot);
        freed.wake();
    }
}
