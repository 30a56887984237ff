//! The scheduler: a reader-writer lock over a tree of resources, granted in call order. Two calls conflict when their
//! claims overlap and one of them writes; a call waits for the earlier calls it conflicts with, and for nothing else.
//! Knows claims and their order, and nothing of tools, permissions or what a call does once it may run.
//!
//! No deadlock: a call waits only for calls with lower keys or for calls that run, and a running call does not wait.

mod calls;
mod index;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::claim::{Access, Claims, Resource};
use calls::{Calls, Readiness};
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

/// A call's position in the order. Dropping it, at any point, releases the call's claims and wakes the calls that waited
/// for it.
pub(crate) struct Ticket {
    schedule: Schedule,
    slot: usize,
    state: State,
}

/// Where in the order a call enters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The number of the turn.
    pub(crate) turn: u64,
    /// The order of calls within the turn.
    pub(crate) policy: Policy,
    /// Whether the call changes anything. Its claims may write more than that, only to keep an order.
    pub(crate) access: Access,
}

/// What later calls wait for until this one has finished.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    /// Calls that conflict with its claims.
    Conflicting,
    /// All calls, since its real claims are not known yet.
    All,
}

/// The call and the resource that another call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// The call that must finish first.
    pub(crate) call: Arc<str>,
    /// The resource that the waiting call claims and the other one holds.
    pub(crate) resource: Resource,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Calls::new())))
    }

    /// Appends a call to the order. The order of these calls is the order of the schedule.
    ///
    /// Under [`Policy::SafeFirst`] a call that changes something does not run before its turn is sealed.
    pub(crate) fn enter(&self, call: &Arc<str>, position: Position, claims: &Claims) -> Ticket {
        self.append(call, position, claims, Blocks::Conflicting)
    }

    /// Appends a call whose real claims are not known yet: it waits for calls that conflict with `claims`, and until
    /// [`Ticket::reclaim`] all later calls wait for it.
    pub(crate) fn enter_unknown(&self, call: &Arc<str>, position: Position, claims: &Claims) -> Ticket {
        self.append(call, position, claims, Blocks::All)
    }

    fn append(&self, call: &Arc<str>, position: Position, claims: &Claims, blocks: Blocks) -> Ticket {
        let mut calls = self.lock();
        let turn = match position.policy {
            Policy::Claims => None,
            Policy::SafeFirst => {
                calls.open_turn(position.turn);
                Some(position.turn)
            }
        };
        let slot = calls.add(Some(call.clone()), turn);
        let state = calls.claim(slot, claims, position.access, blocks);
        drop(calls);
        Ticket { schedule: self.clone(), slot, state }
    }

    /// Whether all calls have finished.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// Declares that no more calls will be submitted in this turn. A call that comes nevertheless is not held back.
    pub(crate) fn seal(&self, turn: u64) {
        let freed = self.lock().seal(turn);
        freed.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock()
    }
}

impl Ticket {
    /// Waits until the call may run. Calls `on_wait` for each call that it waits for, when it starts to wait for that one.
    /// Cancel-safe: the future may be dropped and `ready` called again.
    pub(crate) async fn ready(&mut self, mut on_wait: impl FnMut(&Blocker)) {
        if self.state == State::Running {
            return;
        }
        poll_fn(|cx| {
            // The old waker is dropped outside of the lock: it may own a task whose ticket locks the schedule on drop.
            let (readiness, _old) = self.schedule.lock().poll_ready(self.slot, cx);
            match readiness {
                Readiness::Ready => return Poll::Ready(()),
                Readiness::Blocked(Some(blocker)) => on_wait(&blocker),
                Readiness::Blocked(None) => {}
            }
            Poll::Pending
        })
        .await;
        self.state = State::Running;
    }

    /// Replaces the call's claims at the same position in the order, after its input was rewritten. `ready` must be
    /// awaited again: a later call that already runs may now conflict.
    pub(crate) fn reclaim(&mut self, claims: &Claims, access: Access) {
        let mut calls = self.schedule.lock();
        let freed = calls.unclaim(self.slot);
        self.state = calls.claim(self.slot, claims, access, Blocks::Conflicting);
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
