//! The stream of events about everything that happens. Emitting never blocks and never waits: a slow
//! subscriber loses output chunks, progress and logs (and is told how many), but never the end of a call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{Fault, Reply, Resource};

/// Output chunks, progress and logs beyond this many unread ones are dropped.
const MAX_UNREAD: usize = 1024;
/// And output beyond this many unread bytes.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// In which session.
    pub session: Arc<str>,
    /// In which turn of it.
    pub turn: u64,
    /// To which call.
    pub call: Arc<str>,
    /// Of which tool.
    pub tool: Arc<str>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// A call was taken on.
    Started {
        /// Its arguments.
        input: Arc<Value>,
    },
    /// A call waits for another one.
    Waiting {
        /// The call it waits for.
        on: Arc<str>,
        /// What both of them want.
        resource: Resource,
    },
    /// A piece of output, while the call runs.
    Output {
        /// The text.
        chunk: String,
    },
    /// How far a call has come.
    Progress(Progress),
    /// Something that a call works with has told about itself, such as a server of tools.
    Log {
        /// Who.
        source: String,
        /// How grave it is: `debug`, `info`, `warning`, `error` …
        level: String,
        /// What.
        text: String,
    },
    /// Somebody is asked for permission.
    Asked {
        /// Why.
        reason: String,
    },
    /// The answer to that.
    Answered {
        /// In a word or two.
        answer: String,
    },
    /// Something went wrong: a call failed, or a hook that could not stop it.
    Fault(Fault),
    /// A call is over, one way or the other. Every call that started ends exactly once.
    Ended {
        /// What the model gets.
        reply: Arc<Reply>,
        /// How long it took, waiting included.
        took: Duration,
    },
    /// Something that a call had started, and that went on after the call, has ended.
    Finished {
        /// By what it is asked for.
        what: String,
        /// How, in words.
        how: String,
    },
    /// What is kept of an earlier call is dropped, and the model is not to be shown its reply any more.
    Forgotten {
        /// The earlier call.
        call: Arc<str>,
    },
    /// Output, progress and logs that this subscriber was too slow for, beginning with this call's.
    Gap {
        /// How many events.
        lost: u64,
    },
}

/// How far a call has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// Of how much, if that is known.
    pub total: Option<u64>,
    /// What is being done.
    pub message: String,
}

/// The kinds of events, for those who want only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum EventKind {
    /// A call was taken on.
    Started = 1,
    /// A call waits for another one.
    Waiting = 1 << 1,
    /// A piece of output.
    Output = 1 << 2,
    /// Progress.
    Progress = 1 << 3,
    /// Somebody is asked.
    Asked = 1 << 4,
    /// Somebody answered.
    Answered = 1 << 5,
    /// Something went wrong.
    Fault = 1 << 6,
    /// A call is over.
    Ended = 1 << 7,
    /// Events were lost.
    Gap = 1 << 8,
    /// Something in the background has ended.
    Finished = 1 << 9,
    /// An earlier call is dropped.
    Forgotten = 1 << 10,
    /// Something has told about itself.
    Log = 1 << 11,
}

impl What {
    /// The kind of event.
    pub fn kind(&self) -> EventKind {
        match self {
            What::Started { .. } => EventKind::Started,
            What::Waiting { .. } => EventKind::Waiting,
            What::Output { .. } => EventKind::Output,
            What::Progress(_) => EventKind::Progress,
            What::Log { .. } => EventKind::Log,
            What::Asked { .. } => EventKind::Asked,
            What::Answered { .. } => EventKind::Answered,
            What::Fault(_) => EventKind::Fault,
            What::Ended { .. } => EventKind::Ended,
            What::Finished { .. } => EventKind::Finished,
            What::Forgotten { .. } => EventKind::Forgotten,
            What::Gap { .. } => EventKind::Gap,
        }
    }
}

impl What {
    /// How many bytes of text it holds, if a slow subscriber can do without it.
    fn droppable(&self) -> Option<usize> {
        match self {
            What::Output { chunk } => Some(chunk.len()),
            What::Progress(progress) => Some(progress.message.len()),
            What::Log { text, .. } => Some(text.len()),
            _ => None,
        }
    }
}

/// The stream of events.
#[derive(Clone, Default)]
pub struct Activity(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Every kind that some subscriber wants, so that nobody builds an event that nobody reads.
    wanted: AtomicU32,
    queues: Mutex<Vec<Arc<Queue>>>,
}

struct Queue {
    wanted: u32,
    /// Only what happens to this call.
    call: Option<Arc<str>>,
    unread: Mutex<Unread>,
    arrived: Notify,
}

#[derive(Default)]
struct Unread {
    events: VecDeque<Arc<Event>>,
    droppable: usize,
    bytes: usize,
    closed: bool,
}

impl Activity {
    /// Every event from now on, until the subscription is dropped.
    pub fn subscribe(&self) -> Subscription {
        self.listen(u32::MAX, None)
    }

    /// Events of some kinds from now on. Gaps are told to everybody.
    pub fn subscribe_to(&self, kinds: &[EventKind]) -> Subscription {
        self.listen(all_of(kinds), None)
    }

    /// Events of some kinds that happen to one call from now on.
    pub fn subscribe_to_call(&self, call: Arc<str>, kinds: &[EventKind]) -> Subscription {
        self.listen(all_of(kinds), Some(call))
    }

    fn listen(&self, wanted: u32, call: Option<Arc<str>>) -> Subscription {
        let queue = Arc::new(Queue { wanted, call, unread: Mutex::default(), arrived: Notify::new() });
        let mut queues = self.0.queues.lock();
        queues.push(queue.clone());
        self.0.count_wanted(&queues);
        Subscription { queue, activity: Arc::downgrade(&self.0) }
    }

    /// Whether somebody wants events of this kind.
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.0.wanted.load(Ordering::Relaxed) & kind as u32 != 0
    }

    /// Tells everybody who wants to know. The event is built only if somebody does.
    pub(crate) fn emit(&self, kind: EventKind, event: impl FnOnce() -> Event) {
        if !self.wants(kind) {
            return;
        }
        let event = Arc::new(event());
        let queues = self.0.queues.lock();
        for queue in queues.iter().filter(|queue| queue.wants(kind, &event)) {
            queue.push(&event);
        }
    }
}

fn all_of(kinds: &[EventKind]) -> u32 {
    kinds.iter().fold(0, |all, kind| all | *kind as u32)
}

impl Inner {
    fn count_wanted(&self, queues: &[Arc<Queue>]) {
        self.wanted.store(queues.iter().fold(0, |all, queue| all | queue.wanted), Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let queues = self.queues.get_mut();
        for queue in queues {
            queue.unread.lock().closed = true;
            queue.arrived.notify_one();
        }
    }
}

impl Queue {
    fn wants(&self, kind: EventKind, event: &Event) -> bool {
        self.wanted & kind as u32 != 0 && self.call.as_ref().is_none_or(|call| *call == event.call)
    }

    fn push(&self, event: &Arc<Event>) {
        let mut unread = self.unread.lock();
        if let Some(bytes) = event.what.droppable() {
            if unread.droppable >= MAX_UNREAD
                || (unread.droppable > 0 && unread.bytes + bytes > MAX_UNREAD_BYTES)
            {
                unread.lose(event);
                return;
            }
            unread.droppable += 1;
            unread.bytes += bytes;
        }
        unread.events.push_back(event.clone());
        drop(unread);
        self.arrived.notify_one();
    }
}

impl Unread {
    /// Counts a lost event where it would have stood.
    fn lose(&mut self, event: &Arc<Event>) {
        if let Some(last) = self.events.back_mut()
            && let What::Gap { lost } = last.what
        {
            *last = Arc::new(Event { what: What::Gap { lost: lost + 1 }, ..(**last).clone() });
        } else {
            self.events.push_back(Arc::new(Event { what: What::Gap { lost: 1 }, ..(**event).clone() }));
        }
    }
}

/// The events that one subscriber gets. Dropping it unsubscribes.
pub struct Subscription {
    queue: Arc<Queue>,
    activity: Weak<Inner>,
}

impl Subscription {
    /// The next event.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        let queue = self.queue.clone();
        loop {
            let arrived = queue.arrived.notified();
            // Looked at before the queue: what came just before the end is still to be had.
            let closed = queue.unread.lock().closed;
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if closed {
                return None;
            }
            arrived.await;
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        let mut unread = self.queue.unread.lock();
        let event = unread.events.pop_front()?;
        if let Some(bytes) = event.what.droppable() {
            unread.droppable -= 1;
            unread.bytes -= bytes;
        }
        Some(event)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(activity) = self.activity.upgrade() else { return };
        let mut queues = activity.queues.lock();
        queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        activity.count_wanted(&queues);
    }
}
