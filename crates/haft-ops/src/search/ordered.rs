//! Work shared out among threads whose results come in order. Each piece of work has a place in the order
//! and may bring up more work further on. What is found is handed on once nothing before it is left to do,
//! so the first page of a long search is known, and the rest given up, as soon as it is complete.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::signal::{Signal, Why};

/// More threads do not make a disk faster.
const MAX_THREADS: usize = 12;
/// When so much is found that cannot be handed on yet, only those work on who are behind.
const MAX_HELD: usize = 16 << 20;
/// So much work is worth another thread.
const WORTH_A_THREAD: usize = 2;

/// What is found, and how much memory it takes.
pub(super) trait Weighed: Send {
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

/// What came of a piece of work.
pub(super) struct Done<K, F> {
    pub(super) found: Vec<F>,
    /// How much was looked at.
    pub(super) looked: usize,
    /// Where it goes on, if it was stopped on the way.
    pub(super) rest: Option<K>,
}

struct State<K, I, F, C> {
    pending: BinaryHeap<Reverse<Piece<K, I>>>,
    /// Where each thread is working.
    under_way: Vec<Option<K>>,
    /// What was stopped on the way.
    left: Vec<K>,
    found: BTreeMap<K, Vec<F>>,
    held: usize,
    /// Whether something is done that nothing comes before.
    advanced: bool,
    consume: C,
}

impl<K: Ord, I, F: Weighed, C> State<K, I, F, C> {
    /// The place before which everything is done.
    fn frontier(&self) -> Option<&K> {
        let next = self.pending.peek().map(|Reverse(piece)| &piece.place);
        self.under_way.iter().flatten().chain(&self.left).chain(next).min()
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

struct OrderedQueue<'a, K, I, F, C> {
    state: Mutex<State<K, I, F, C>>,
    changed: Condvar,
    signal: &'a Signal,
}

/// How many threads there are for a search.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Does all work, beginning with `first`, and hands on what is found, in order, until there is no more or
/// `consume` has enough. `worker` makes what one thread does with one piece of work. What comes back is the
/// place before which everything is done, if something is left.
pub(super) fn ordered<K, I, F, W>(
    first: Vec<(K, I)>,
    threads: usize,
    signal: &Signal,
    worker: impl Fn() -> W + Sync,
    consume: impl FnMut(Vec<F>) -> ControlFlow<()> + Send,
) -> Option<K>
where
    K: Ord + Clone + Send,
    I: Send,
    F: Weighed,
    W: FnMut(I, &Publish<'_, K, I>) -> Done<K, F>,
{
    let pending = first.into_iter().map(|(place, item)| Reverse(Piece { place, item })).collect();
    let (under_way, left, found) = (Vec::new(), Vec::new(), BTreeMap::new());
    let state = State { pending, under_way, left, found, held: 0, advanced: false, consume };
    let shared = OrderedQueue { state: Mutex::new(state), changed: Condvar::new(), signal };
    std::thread::scope(|scope| {
        let start_more = |shared: &OrderedQueue<'_, K, I, F, _>| {
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
                    let work = move || shared.work(worker(), &mut |_| ());
                    if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                        // There are no more threads to be had; it goes on with those that there are.
                        started = threads;
                    }
                }
            }
        });
    });
    let state = shared.state.into_inner();
    state.frontier().cloned()
}

impl<K, I, F, C> OrderedQueue<'_, K, I, F, C>
where
    K: Ord + Clone,
    F: Weighed,
    C: FnMut(Vec<F>) -> ControlFlow<()>,
{
    fn lock(&self) -> MutexGuard<'_, State<K, I, F, C>> {
        self.state.lock()
    }

    fn work<W>(&self, mut work: W, come_up: &mut dyn FnMut(bool))
    where
        W: FnMut(I, &Publish<'_, K, I>) -> Done<K, F>,
    {
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
        let _leaving = Leaving(self);
        while let Some(piece) = self.next(slot) {
            let done = work(piece.item, &Publish(&publish));
            let more = self.done(slot, piece.place, done);
            come_up(more);
        }
    }

    /// The first piece of work that nobody does yet. When the time is up, what comes first is still done, one
    /// thing after the other, until something is: so that whoever goes on from there gets further each time.
    fn next(&self, slot: usize) -> Option<Piece<K, I>> {
        let mut state = self.lock();
        loop {
            let late = match self.signal.why() {
                None => false,
                Some(Why::Time) if !state.advanced => true,
                Some(_) => return None,
            };
            match state.pending.peek() {
                Some(Reverse(piece))
                    if (state.held <= MAX_HELD && !late) || state.is_behind(&piece.place) =>
                {
                    let Reverse(piece) = state.pending.pop()?;
                    state.under_way[slot] = Some(piece.place.clone());
                    return Some(piece);
                }
                _ if state.under_way.iter().all(Option::is_none) => return None,
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// Takes what was found at a place, and hands on what is complete. Tells whether there is more to do.
    fn done(&self, slot: usize, place: K, done: Done<K, F>) -> bool {
        let mut state = self.lock();
        state.advanced |= done.looked > 0 && state.is_behind(&place);
        state.under_way[slot] = None;
        state.left.extend(done.rest);
        if !done.found.is_empty() {
            state.held += done.found.iter().map(Weighed::weight).sum::<usize>();
            state.found.insert(place, done.found);
        }
        while let Some((place, _)) = state.found.first_key_value() {
            let is_over = matches!(self.signal.why(), Some(Why::Enough | Why::Cancelled));
            if is_over || state.frontier().is_some_and(|frontier| frontier <= place) {
                break;
            }
            let Some((_, found)) = state.found.pop_first() else { break };
            state.held -= found.iter().map(Weighed::weight).sum::<usize>();
            if (state.consume)(found).is_break() {
                self.signal.stop(Why::Enough);
            }
        }
        let more = !state.pending.is_empty();
        drop(state);
        self.changed.notify_all();
        more
    }
}

/// Wakes those who wait when a thread ends. One that crashed stops the others: what it was doing is lost.
struct Leaving<'a, 'b, K, I, F, C>(&'a OrderedQueue<'b, K, I, F, C>);

impl<K, I, F, C> Drop for Leaving<'_, '_, K, I, F, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.signal.stop(Why::Cancelled);
        }
        // Whoever is about to wait has the lock, and has not seen this yet.
        drop(self.0.state.lock());
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    impl Weighed for usize {
        fn weight(&self) -> usize {
            1
        }
    }

    fn found(at: usize) -> Done<usize, usize> {
        Done { found: vec![at], looked: 1, rest: None }
    }

    #[test]
    fn what_is_found_comes_in_order() {
        let (signal, mut all) = (Signal::default(), Vec::new());
        let worker = || {
            |at: usize, publish: &Publish<'_, usize, usize>| {
                if at < 100 {
                    publish.all(vec![(at * 1000, at * 1000), (at * 1000 + 7, at * 1000 + 7)]);
                }
                found(at)
            }
        };
        let first = (1..100).rev().map(|at| (at, at)).collect();
        ordered(first, threads(), &signal, worker, |found| {
            all.extend(found);
            ControlFlow::Continue(())
        });
        assert_eq!(all.len(), 99 * 3);
        assert!(all.is_sorted());
    }

    /// The others wait for what the one that crashes has begun.
    #[test]
    fn a_crash_in_one_thread_ends_the_search() {
        let signal = Signal::default();
        let both = Barrier::new(2);
        let worker = || {
            let both = &both;
            move |at: usize, publish: &Publish<'_, usize, usize>| {
                if at == 0 {
                    publish.all((1..5).map(|at| (at, at)).collect());
                    return found(0);
                }
                if std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1) && at < 3 {
                    both.wait();
                }
                assert_ne!(at, 1, "crashes on purpose");
                found(at)
            }
        };
        let search = || {
            ordered(vec![(0, 0)], threads(), &signal, worker, |_| ControlFlow::Continue(()));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(search)).is_err());
    }

    #[test]
    fn when_the_time_is_up_something_is_still_done() {
        let (mut from, mut all) = (0, Vec::new());
        loop {
            let signal = Signal::default();
            signal.stop(Why::Time);
            let before = all.len();
            let left = ordered(
                (from..20).map(|at| (at, at)).collect(),
                threads(),
                &signal,
                || |at, _: &_| found(at),
                |found| {
                    all.extend(found);
                    ControlFlow::Continue(())
                },
            );
            assert!(all.len() > before);
            match left {
                Some(place) => from = place,
                None => break,
            }
        }
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
}
