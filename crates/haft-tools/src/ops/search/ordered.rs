//! Work shared out among threads whose results come in order. Each piece of work has a place in the order
//! and may bring up more work further on. What is found is handed on once nothing before it is left to do,
//! so the first page of a long search is known, and the rest given up, as soon as it is complete.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::signal::Signal;

/// More threads do not make a disk faster.
const MAX_THREADS: usize = 12;
/// When so much is found that cannot be handed on yet, only those work on who are behind.
const MAX_HELD: usize = 16 << 20;
/// So much work is worth another thread.
const WORTH_A_THREAD: usize = 2;

/// What is found, and how much memory it takes.
pub(super) trait Found: Send {
    fn weight(&self) -> usize;
}

/// A piece of work in its place.
struct Piece<K, I> {
    place: K,
    item: I,
}

impl<K: Ord, I> PartialEq for Piece<K, I> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<K: Ord, I> Eq for Piece<K, I> {}

impl<K: Ord, I> PartialOrd for Piece<K, I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, I> Ord for Piece<K, I> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

struct State<K, I, F, C> {
    pending: BinaryHeap<Reverse<Piece<K, I>>>,
    /// Where each thread is working.
    under_way: Vec<Option<K>>,
    found: BTreeMap<K, Vec<F>>,
    held: usize,
    consume: C,
}

impl<K: Ord, I, F: Found, C> State<K, I, F, C> {
    /// The place before which everything is done.
    fn frontier(&self) -> Option<&K> {
        let next = self.pending.peek().map(|Reverse(piece)| &piece.place);
        self.under_way.iter().flatten().chain(next).min()
    }

    fn is_behind(&self, place: &K) -> bool {
        self.frontier().is_none_or(|frontier| place <= frontier)
    }
}

/// Work that has come up, for others to take.
pub(super) struct Publish<'a, K, I>(&'a dyn Fn(Vec<(K, I)>));

impl<K, I> Publish<'_, K, I> {
    pub(super) fn all(&self, items: Vec<(K, I)>) {
        (self.0)(items);
    }
}

struct Shared<'a, K, I, F, C> {
    state: Mutex<State<K, I, F, C>>,
    changed: Condvar,
    signal: &'a Signal,
}

/// What is left of work that was stopped.
pub(super) struct Left<K, F> {
    /// The place before which everything is done.
    pub(super) from: Option<K>,
    /// What was found further on.
    pub(super) found: Vec<F>,
}

/// Does all work, beginning with `first`, and hands on what is found, in order, until there is no more or
/// `consume` has enough. `worker` makes what one thread does with one piece of work.
pub(super) fn ordered<K, I, F, W>(
    first: Vec<(K, I)>,
    signal: &Signal,
    worker: impl Fn() -> W + Sync,
    consume: impl FnMut(Vec<F>) -> ControlFlow<()> + Send,
) -> Left<K, F>
where
    K: Ord + Clone + Send,
    I: Send,
    F: Found,
    W: FnMut(I, &Publish<'_, K, I>) -> Vec<F>,
{
    let pending = first.into_iter().map(|(place, item)| Reverse(Piece { place, item })).collect();
    let state = State { pending, under_way: Vec::new(), found: BTreeMap::new(), held: 0, consume };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), signal };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    std::thread::scope(|scope| {
        let start_more = |shared: &Shared<'_, K, I, F, _>| {
            let state = shared.lock();
            threads.min(state.pending.len() / WORTH_A_THREAD + 1)
        };
        let shared = &shared;
        let worker = &worker;
        // Other threads start when there is something for them to do: most searches are small.
        let mut started = 1;
        shared.work(worker(), &mut |work_left| {
            if work_left && started < threads {
                let wanted = start_more(shared);
                while started < wanted {
                    started += 1;
                    scope.spawn(move || shared.work(worker(), &mut |_| ()));
                }
            }
        });
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let from = state.frontier().cloned();
    Left { from, found: state.found.into_values().flatten().collect() }
}

impl<K, I, F, C> Shared<'_, K, I, F, C>
where
    K: Ord + Clone,
    F: Found,
    C: FnMut(Vec<F>) -> ControlFlow<()>,
{
    fn lock(&self) -> MutexGuard<'_, State<K, I, F, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<W: FnMut(I, &Publish<'_, K, I>) -> Vec<F>>(&self, mut work: W, come_up: &mut dyn FnMut(bool)) {
        let slot = {
            let mut state = self.lock();
            state.under_way.push(None);
            state.under_way.len() - 1
        };
        let publish = |items: Vec<(K, I)>| {
            let count = items.len();
            let mut state = self.lock();
            state.pending.extend(items.into_iter().map(|(place, item)| Reverse(Piece { place, item })));
            drop(state);
            if count > 0 {
                self.changed.notify_all();
            }
        };
        while let Some(piece) = self.next(slot) {
            let found = work(piece.item, &Publish(&publish));
            let more = self.done(slot, piece.place, found);
            come_up(more);
        }
        self.changed.notify_all();
    }

    /// The first piece of work that nobody does yet.
    fn next(&self, slot: usize) -> Option<Piece<K, I>> {
        let mut state = self.lock();
        loop {
            if self.signal.is_stopped() {
                return None;
            }
            match state.pending.peek() {
                Some(Reverse(piece)) if state.held <= MAX_HELD || state.is_behind(&piece.place) => {
                    let Reverse(piece) = state.pending.pop()?;
                    state.under_way[slot] = Some(piece.place.clone());
                    return Some(piece);
                }
                None if state.under_way.iter().all(Option::is_none) => return None,
                _ => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Takes what was found at a place, and hands on what is complete. Tells whether there is more to do.
    fn done(&self, slot: usize, place: K, found: Vec<F>) -> bool {
        let mut state = self.lock();
        // What was stopped is still to be done.
        if !self.signal.is_stopped() {
            state.under_way[slot] = None;
        }
        if !found.is_empty() {
            state.held += found.iter().map(Found::weight).sum::<usize>();
            state.found.insert(place, found);
        }
        while let Some((place, _)) = state.found.first_key_value() {
            if self.signal.is_stopped() || state.frontier().is_some_and(|frontier| frontier <= place) {
                break;
            }
            let Some((_, found)) = state.found.pop_first() else { break };
            state.held -= found.iter().map(Found::weight).sum::<usize>();
            if (state.consume)(found).is_break() {
                self.signal.stop(super::signal::Why::Enough);
            }
        }
        let more = !state.pending.is_empty();
        drop(state);
        self.changed.notify_all();
        more
    }
}
