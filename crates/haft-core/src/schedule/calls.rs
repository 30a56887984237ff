//! The state behind the schedule. Each waiting entry is registered with exactly one entry that blocks it, and checks
//! again when that one has finished, so memory stays proportional to the number of calls however many of them conflict.
//! Does not wake tasks itself: the caller does, after unlocking.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::index::{Class, Index, Key, Mark, NodeId, State};
use super::{Blocker, Blocks};
use crate::claim::{Access, Claims, Resource};

/// Freed entries are reused. Once no call is left, an arena larger than this is deallocated.
const KEPT_WHEN_EMPTY: usize = 1024;

/// The unfinished calls, and which of them wait for which.
pub(super) struct Calls {
    pub(super) index: Index,
    pub(super) entries: Vec<Entry>,
    pub(super) free: Vec<usize>,
    /// The turns under `SafeFirst` that are unsealed or have unfinished calls.
    pub(super) turns: HashMap<u64, Turn>,
    next_seq: u64,
    /// A turn up to this one that is not in `turns` counts as sealed, so that a late call cannot hang.
    last_sealed: Option<u64>,
}

/// A turn under `SafeFirst`. It is a resource of its own, which safe calls read and the others write. Until the turn is
/// sealed, a gate reads it too: an entry without a call that holds the writers back.
pub(super) struct Turn {
    start: u64,
    node: NodeId,
    gate: Option<usize>,
}

/// An unfinished call.
pub(super) struct Entry {
    /// `None` for a gate.
    call: Option<Arc<str>>,
    turn: Option<u64>,
    key: Key,
    state: State,
    /// One per claim, then one for the turn, then one on everything if the real claims are not known yet. That last one
    /// blocks later calls, but the call itself does not wait for it.
    marks: Vec<Mark>,
    /// How many of the marks, from the first on, the call itself waits for.
    own_marks: usize,
    /// The claims, kept only while the call waits.
    claims: Claims,
    /// The entries that wait for this one.
    waiters: Vec<usize>,
    /// The entry that this one waits for, and its index among that one's waiters.
    blocker: Option<(usize, usize)>,
    waker: Option<Waker>,
    /// The sequence number of the blocker that was last reported, so that each is reported once.
    reported: Option<u64>,
}

impl Entry {
    fn replace_waker(&mut self, cx: &Context<'_>) -> Option<Waker> {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => self.waker.replace(cx.waker().clone()),
        }
    }
}

/// The wakers to wake once the lock is released.
#[derive(Default)]
pub(super) struct Freed {
    waiters: Vec<Waker>,
    /// The waker of the freed call itself; only dropped, but outside of the lock like the others.
    _own: Option<Waker>,
}

impl Freed {
    pub(super) fn wake(self) {
        self.waiters.into_iter().for_each(Waker::wake);
    }
}

/// Whether an entry may run.
pub(super) enum Readiness {
    Ready,
    /// With the blocker, if it was not reported yet.
    Blocked(Option<Blocker>),
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            index: Index::new(),
            entries: Vec::new(),
            free: Vec::new(),
            turns: HashMap::new(),
            next_seq: 0,
            last_sealed: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    pub(super) fn add(&mut self, call: Option<Arc<str>>, turn: Option<u64>) -> usize {
        let slot = self.free.pop().unwrap_or(self.entries.len());
        let seq = self.next_seq;
        self.next_seq += 1;
        let key = Key { group: seq, class: Class::First, seq, slot };
        if let Some(entry) = self.entries.get_mut(slot) {
            // Everything else was cleared when the slot became free.
            (entry.call, entry.turn, entry.key) = (call, turn, key);
            return slot;
        }
        self.entries.push(Entry {
            call,
            turn,
            key,
            state: State::Waiting,
            marks: Vec::new(),
            own_marks: 0,
            claims: Claims::none(),
            waiters: Vec::new(),
            blocker: None,
            waker: None,
            reported: None,
        });
        slot
    }

    pub(super) fn open_turn(&mut self, turn: u64) {
        if self.turns.contains_key(&turn) {
            return;
        }
        let node = self.index.add_root();
        let mut opened = Turn { start: self.next_seq, node, gate: None };
        if self.last_sealed.is_none_or(|last| turn > last) {
            let gate = self.add(None, None);
            let mark = Mark { node, access: Access::Read };
            self.index.insert(mark, self.entries[gate].key, State::Running);
            self.entries[gate].marks.push(mark);
            self.entries[gate].state = State::Running;
            opened.gate = Some(gate);
        }
        self.turns.insert(turn, opened);
    }

    pub(super) fn seal(&mut self, turn: u64) -> Freed {
        self.last_sealed = self.last_sealed.max(Some(turn));
        let gate = self.turns.get_mut(&turn).and_then(|turn| turn.gate.take());
        let freed = gate.map(|gate| self.finish(gate)).unwrap_or_default();
        self.close_turn(turn);
        freed
    }

    /// Removes a turn that neither a call nor the gate holds any more.
    fn close_turn(&mut self, turn: u64) {
        if let Some(over) = self.turns.get(&turn)
            && self.index.is_unmarked(over.node)
        {
            self.index.remove_root(over.node);
            self.turns.remove(&turn);
        }
    }

    /// Marks the claims of an entry that has none. It starts at once if nothing blocks it, so that only calls that wait pay
    /// for waiting.
    pub(super) fn claim(&mut self, slot: usize, claims: &Claims, access: Access, blocks: Blocks) -> State {
        let mut marks = mem::take(&mut self.entries[slot].marks);
        marks
            .extend(claims.iter().map(|(access, resource)| Mark { node: self.index.node(resource), access }));
        let mut key = self.entries[slot].key;
        if let Some(turn) = self.entries[slot].turn.and_then(|turn| self.turns.get(&turn)) {
            key.group = turn.start;
            key.class = match access {
                Access::Read => Class::First,
                Access::Write => Class::Second,
            };
            marks.push(Mark { node: turn.node, access });
        }
        let state = match self.conflict(&marks, key) {
            None => State::Running,
            Some(_) => State::Waiting,
        };
        let own_marks = marks.len();
        if blocks == Blocks::All {
            marks.push(Mark { node: self.index.node(&Resource::Everything), access });
        }
        for mark in &marks {
            self.index.insert(*mark, key, state);
        }
        let entry = &mut self.entries[slot];
        if state == State::Waiting {
            entry.claims = claims.clone();
        }
        (entry.marks, entry.own_marks, entry.key, entry.state) = (marks, own_marks, key, state);
        state
    }

    /// Releases all claims of an entry. The entries that wait for it have to check again.
    pub(super) fn unclaim(&mut self, slot: usize) -> Freed {
        self.stop_waiting(slot);
        let entry = &mut self.entries[slot];
        let (key, state) = (entry.key, entry.state);
        let mut freed = Freed { waiters: Vec::new(), _own: entry.waker.take() };
        entry.claims = Claims::none();
        for mark in entry.marks.drain(..) {
            self.index.remove(mark, key, state);
        }
        for waiter in mem::take(&mut entry.waiters) {
            let waiter = &mut self.entries[waiter];
            waiter.blocker = None;
            freed.waiters.extend(waiter.waker.take());
        }
        freed
    }

    pub(super) fn finish(&mut self, slot: usize) -> Freed {
        let freed = self.unclaim(slot);
        let entry = &mut self.entries[slot];
        entry.call = None;
        entry.reported = None;
        entry.state = State::Waiting;
        if let Some(turn) = entry.turn.take() {
            self.close_turn(turn);
        }
        self.free.push(slot);
        if self.is_idle() && self.entries.capacity() > KEPT_WHEN_EMPTY {
            self.entries = Vec::new();
            self.free = Vec::new();
        }
        freed
    }

    pub(super) fn poll_ready(&mut self, slot: usize, cx: &Context<'_>) -> (Readiness, Option<Waker>) {
        let entry = &mut self.entries[slot];
        if entry.state == State::Running {
            return (Readiness::Ready, None);
        }
        if entry.blocker.is_some() {
            return (Readiness::Blocked(None), entry.replace_waker(cx));
        }
        let (key, own_marks) = (entry.key, entry.own_marks);
        let marks = mem::take(&mut entry.marks);
        let conflict = self.conflict(&marks[..own_marks], key);
        if conflict.is_none() {
            for mark in &marks {
                self.index.start(*mark, key);
            }
        }
        let entry = &mut self.entries[slot];
        entry.marks = marks;
        let Some((blocker, claim)) = conflict else {
            entry.state = State::Running;
            entry.claims = Claims::none();
            return (Readiness::Ready, entry.waker.take());
        };
        let old = entry.replace_waker(cx);
        (Readiness::Blocked(self.wait_for(slot, blocker, claim)), old)
    }

    /// The latest conflicting entry, and the index of the mark that it conflicts with. Waiting for the latest, each of a
    /// chain of conflicting calls waits for its neighbour and is woken once, instead of all being woken by the first.
    fn conflict(&self, marks: &[Mark], key: Key) -> Option<(Key, usize)> {
        let mut found: Option<(Key, usize)> = None;
        for (claim, mark) in marks.iter().enumerate() {
            if let Some(blocker) = self.index.conflict(*mark, key)
                && found.is_none_or(|(latest, _)| blocker > latest)
            {
                found = Some((blocker, claim));
            }
        }
        found
    }

    fn wait_for(&mut self, slot: usize, blocker: Key, claim: usize) -> Option<Blocker> {
        let holder = &mut self.entries[blocker.slot];
        let index = holder.waiters.len();
        holder.waiters.push(slot);
        // A gate stands for the calls that may still be submitted.
        let call = holder.call.clone().unwrap_or_else(|| "the rest of the turn".into());
        let entry = &mut self.entries[slot];
        entry.blocker = Some((blocker.slot, index));
        if entry.reported.replace(blocker.seq) == Some(blocker.seq) {
            return None;
        }
        // The mark after the claims is that of the turn.
        let resource = match entry.claims.iter().nth(claim) {
            Some((_, resource)) => resource.clone(),
            None => Resource::State(Cow::Borrowed("turn")),
        };
        Some(Blocker { call, resource })
    }

    fn stop_waiting(&mut self, slot: usize) {
        let Some((blocker, index)) = self.entries[slot].blocker.take() else {
            return;
        };
        let waiters = &mut self.entries[blocker].waiters;
        waiters.swap_remove(index);
        if let Some(&moved) = waiters.get(index) {
            self.entries[moved].blocker = Some((blocker, index));
        }
    }
}
