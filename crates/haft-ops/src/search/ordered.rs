//! A work queue for several threads whose results come in order. Each work item has a place in the order and may add
//! items at later places. Results are passed on as soon as no item before them is unfinished, so the first page of a
//! long search is complete, and the rest is abandoned, as early as possible. Knows nothing of files.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::signal::{Signal, StopReason};

/// Upper limit of threads for a search: more do not make a disk faster.
const MAX_THREADS: usize = 12;
/// Bytes of results that may wait for earlier items. Above this limit, only the items at the front are worked on.
const MAX_HELD: usize = 16 << 20;
/// Number of pending items for which another thread is worth starting.
const WORTH_A_THREAD: usize = 2;

/// A result that knows how much memory it takes.
pub(super) trait Weighed: Send {
    /// Approximate size in bytes.
    fn weight(&self) -> usize;
}

/// A pending work item with its place in the order.
struct WorkItem<K, I> {
    place: K,
    item: I,
}

impl<K: Ord, I> PartialEq for WorkItem<K, I> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<K: Ord, I> Eq for WorkItem<K, I> {}

impl<K: Ord, I> PartialOrd for WorkItem<K, I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, I> Ord for WorkItem<K, I> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

/// Result of one work item.
pub(super) struct WorkResult<K, F> {
    pub(super) found: Vec<F>,
    /// Number of files or entries that were examined.
    pub(super) examined: usize,
    /// The place at which to resume, if the item was interrupted.
    pub(super) resume_at: Option<K>,
}

/// The part of the queue behind the lock.
struct State<K, I, F, C> {
    pending: BinaryHeap<Reverse<WorkItem<K, I>>>,
    /// The place of each thread's current item; one slot per thread.
    in_progress: Vec<Option<K>>,
    /// Places at which interrupted items would resume.
    unfinished: Vec<K>,
    /// Results that wait for earlier items.
    found: BTreeMap<K, Vec<F>>,
    /// Size of `found` in bytes.
    held: usize,
    /// Whether an item at the frontier was examined, so that a search that resumes begins further on.
    advanced: bool,
    consume: C,
}

impl<K: Ord, I, F: Weighed, C> State<K, I, F, C> {
    /// The first place that is unfinished: every item before it is done.
    fn frontier(&self) -> Option<&K> {
        let next = self.pending.peek().map(|Reverse(item)| &item.place);
        self.in_progress.iter().flatten().chain(&self.unfinished).chain(next).min()
    }

    /// Whether all others wait for the item at this place.
    fn is_at_frontier(&self, place: &K) -> bool {
        self.frontier().is_none_or(|frontier| place <= frontier)
    }
}

/// Adds work items to the queue, for any thread to take.
pub(super) struct Publish<'a, K, I>(&'a dyn Fn(Vec<(K, I)>));

impl<K, I> Publish<'_, K, I> {
    pub(super) fn all(&self, items: Vec<(K, I)>) {
        (self.0)(items);
    }
}

/// The queue that the threads of one search share.
struct OrderedQueue<'a, K, I, F, C> {
    state: Mutex<State<K, I, F, C>>,
    changed: Condvar,
    signal: &'a Signal,
}

/// Number of threads for a search.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Processes `first` and all items that are added meanwhile, and passes the results to `consume`, in order, until no item
/// is left or `consume` breaks. `worker` makes the function with which one thread processes its items. Returns the
/// first unfinished place, if any is left.
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
    W: FnMut(I, &Publish<'_, K, I>) -> WorkResult<K, F>,
{
    let pending = first.into_iter().map(|(place, item)| Reverse(WorkItem { place, item })).collect();
    let (in_progress, unfinished, found) = (Vec::new(), Vec::new(), BTreeMap::new());
    let state = State { pending, in_progress, unfinished, found, held: 0, advanced: false, consume };
    let shared = OrderedQueue { state: Mutex::new(state), changed: Condvar::new(), signal };
    std::thread::scope(|scope| {
        let wanted_threads = |shared: &OrderedQueue<'_, K, I, F, _>| {
            let state = shared.lock();
            threads.min(state.pending.len() / WORTH_A_THREAD + 1)
        };
        let shared = &shared;
        let worker = &worker;
        // Other threads start only when there is work for them: most searches are small.
        let mut started = 1;
        shared.work(worker(), &mut |work_left| {
            if work_left && started < threads {
                let wanted = wanted_threads(shared);
                while started < wanted {
                    started += 1;
                    let work = move || shared.work(worker(), &mut |_| ());
                    if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                        // The system refuses more threads; the search continues with those it has.
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

    /// The loop of one thread. Calls `after_item` after each item, with whether more items are pending.
    fn work<W>(&self, mut work: W, after_item: &mut dyn FnMut(bool))
    where
        W: FnMut(I, &Publish<'_, K, I>) -> WorkResult<K, F>,
    {
        let slot = {
            let mut state = self.lock();
            state.in_progress.push(None);
            state.in_progress.len() - 1
        };
        let publish = |items: Vec<(K, I)>| {
            let count = items.len();
            let mut state = self.lock();
            state.pending.extend(items.into_iter().map(|(place, item)| Reverse(WorkItem { place, item })));
            drop(state);
            if count > 0 {
                self.changed.notify_all();
            }
        };
        let _wake = WakeOnExit(self);
        while let Some(item) = self.next(slot) {
            let done = work(item.item, &Publish(&publish));
            let more = self.done(slot, item.place, done);
            after_item(more);
        }
    }

    /// Takes the first pending item, or waits for one. After a timeout, items at the frontier are still taken, one after
    /// the other, until one of them made progress: each call that resumes from there then gets further.
    fn next(&self, slot: usize) -> Option<WorkItem<K, I>> {
        let mut state = self.lock();
        loop {
            let is_overdue = match self.signal.why() {
                None => false,
                Some(StopReason::Time) if !state.advanced => true,
                Some(_) => return None,
            };
            match state.pending.peek() {
                Some(Reverse(item))
                    if (state.held <= MAX_HELD && !is_overdue) || state.is_at_frontier(&item.place) =>
                {
                    let Reverse(item) = state.pending.pop()?;
                    state.in_progress[slot] = Some(item.place.clone());
                    return Some(item);
                }
                _ if state.in_progress.iter().all(Option::is_none) => return None,
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// Stores the result of an item and passes on all results that no unfinished item precedes. Returns whether more
    /// items are pending.
    fn done(&self, slot: usize, place: K, done: WorkResult<K, F>) -> bool {
        let mut state = self.lock();
        state.advanced |= done.examined > 0 && state.is_at_frontier(&place);
        state.in_progress[slot] = None;
        state.unfinished.extend(done.resume_at);
        if !done.found.is_empty() {
            state.held += done.found.iter().map(Weighed::weight).sum::<usize>();
            state.found.insert(place, done.found);
        }
        while let Some((place, _)) = state.found.first_key_value() {
            let is_over = matches!(self.signal.why(), Some(StopReason::Enough | StopReason::Cancelled));
            if is_over || state.frontier().is_some_and(|frontier| frontier <= place) {
                break;
            }
            let Some((_, found)) = state.found.pop_first() else { break };
            state.held -= found.iter().map(Weighed::weight).sum::<usize>();
            if (state.consume)(found).is_break() {
                self.signal.stop(StopReason::Enough);
            }
        }
        let more = !state.pending.is_empty();
        drop(state);
        self.changed.notify_all();
        more
    }
}

/// Wakes the waiting threads when a thread ends. A thread that panicked also stops the others: its item is lost, and they
/// would wait for it forever.
struct WakeOnExit<'a, 'b, K, I, F, C>(&'a OrderedQueue<'b, K, I, F, C>);

impl<K, I, F, C> Drop for WakeOnExit<'_, '_, K, I, F, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.signal.stop(StopReason::Cancelled);
        }
        // A thread that is about to wait holds the lock: taking it first makes sure that the notification is not lost.
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

    fn found(at: usize) -> WorkResult<usize, usize> {
        WorkResult { found: vec![at], examined: 1, resume_at: None }
    }

    #[test]
    fn results_come_in_order() {
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

    /// The other threads wait for the item of the thread that panics.
    #[test]
    fn a_panic_in_one_thread_ends_the_search() {
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
                assert_ne!(at, 1, "panics on purpose");
                found(at)
            }
        };
        let search = || {
            ordered(vec![(0, 0)], threads(), &signal, worker, |_| ControlFlow::Continue(()));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(search)).is_err());
    }

    #[test]
    fn a_search_without_time_still_makes_progress() {
        let (mut from, mut all) = (0, Vec::new());
        loop {
            let signal = Signal::default();
            signal.stop(StopReason::Time);
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
