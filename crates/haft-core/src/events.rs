//! The stream of events about calls: started, waiting, output, asked, ended. Each subscriber has a queue. Emitting never
//! blocks: a slow subscriber loses output chunks, progress and logs, and gets a [`EventPayload::Gap`] with their number,
//! but it never loses the end of a call. Knows nothing of who subscribes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{Fault, Reply, Resource};

/// The most unread output chunks, progress reports and logs in a queue; further ones are dropped.
const MAX_UNREAD: usize = 1024;
/// The most unread bytes of such events in a queue.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;

/// Something that happened to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// When it happened.
    pub at: SystemTime,
    /// The id of the session.
    pub session: Arc<str>,
    /// The number of the turn in the session.
    pub turn: u64,
    /// The id of the call.
    pub call: Arc<str>,
    /// The name of the tool.
    pub tool: Arc<str>,
    /// What happened.
    pub payload: EventPayload,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventPayload {
    /// A call has started.
    Started {
        /// Its arguments.
        input: Arc<Value>,
    },
    /// A call waits for another one.
    Waiting {
        /// The call it waits for.
        on: Arc<str>,
        /// The resource over which they conflict.
        resource: Resource,
    },
    /// A chunk of output, while the call runs.
    Output {
        /// The text.
        chunk: String,
    },
    /// How far a call has come.
    Progress(Progress),
    /// A log message of something that a call works with, such as a server of tools.
    Log {
        /// Where the message comes from.
        source: String,
        /// The severity: `debug`, `info`, `warning`, `error` …
        level: String,
        /// The message.
        text: String,
    },
    /// A call asks a person for approval, or a question.
    Asked {
        /// Why the call needs approval, or the text of the question.
        reason: String,
    },
    /// The person has answered, or the question failed.
    Answered {
        /// The answer in a word or two.
        answer: String,
    },
    /// A call failed, or a hook that runs after calls did.
    Fault(Fault),
    /// A call has ended. Every call that started ends exactly once.
    Ended {
        /// The reply to the model.
        reply: Arc<Reply>,
        /// How long it took, waiting included.
        took: Duration,
    },
    /// Background work that a call had started, such as a command, has ended.
    Finished {
        /// The id of the work.
        id: String,
        /// How it ended, as text.
        outcome: String,
    },
    /// The session has dropped an earlier call; the client should drop its reply from the conversation.
    Forgotten {
        /// The earlier call.
        call: Arc<str>,
    },
    /// The subscriber was too slow and has lost output, progress or logs here, beginning with this call's.
    Gap {
        /// How many events.
        lost: u64,
    },
}

/// How far a call has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How many units are done.
    pub done: u64,
    /// The total number of units, if it is known.
    pub total: Option<u64>,
    /// What is being done.
    pub message: String,
}

/// The kinds of events, for subscribers that want only some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum EventKind {
    /// A call has started.
    Started = 1,
    /// A call waits for another one.
    Waiting = 1 << 1,
    /// A chunk of output.
    Output = 1 << 2,
    /// How far a call has come.
    Progress = 1 << 3,
    /// A call asks a person.
    Asked = 1 << 4,
    /// The person has answered.
    Answered = 1 << 5,
    /// A call or a hook failed.
    Fault = 1 << 6,
    /// A call has ended.
    Ended = 1 << 7,
    /// The subscriber was too slow and has lost events.
    Gap = 1 << 8,
    /// Background work has ended.
    Finished = 1 << 9,
    /// The session has dropped an earlier call.
    Forgotten = 1 << 10,
    /// A log message.
    Log = 1 << 11,
}

impl EventPayload {
    /// The kind of event.
    pub fn kind(&self) -> EventKind {
        match self {
            EventPayload::Started { .. } => EventKind::Started,
            EventPayload::Waiting { .. } => EventKind::Waiting,
            EventPayload::Output { .. } => EventKind::Output,
            EventPayload::Progress(_) => EventKind::Progress,
            EventPayload::Log { .. } => EventKind::Log,
            EventPayload::Asked { .. } => EventKind::Asked,
            EventPayload::Answered { .. } => EventKind::Answered,
            EventPayload::Fault(_) => EventKind::Fault,
            EventPayload::Ended { .. } => EventKind::Ended,
            EventPayload::Finished { .. } => EventKind::Finished,
            EventPayload::Forgotten { .. } => EventKind::Forgotten,
            EventPayload::Gap { .. } => EventKind::Gap,
        }
    }
}

impl EventPayload {
    /// The number of bytes of text in an event that may be dropped for a slow subscriber; `None` if it must not be.
    fn droppable_bytes(&self) -> Option<usize> {
        match self {
            EventPayload::Output { chunk } => Some(chunk.len()),
            EventPayload::Progress(progress) => Some(progress.message.len()),
            EventPayload::Log { text, .. } => Some(text.len()),
            _ => None,
        }
    }
}

/// The stream of events: subscribe to it to watch calls. Cheap to clone.
///
/// ```
/// use haft_core::events::{EventKind, EventPayload};
/// use haft_core::{Call, Engine, Workspace};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::default();
/// let mut events = engine.activity().subscribe_to(&[EventKind::Ended]);
/// let session = engine.session(Workspace::open(".".as_ref())?).start();
/// session.call(Call::new("1", "no_such_tool", json!({}))).await;
/// let event = events.next().await.expect("an event");
/// assert!(matches!(&event.payload, EventPayload::Ended { reply, .. } if reply.is_error));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Activity(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The kinds that at least one subscriber wants: others are never built.
    wanted: AtomicU32,
    queues: Mutex<Vec<Arc<Queue>>>,
}

struct Queue {
    wanted: u32,
    /// Receives events of this call only.
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
    /// Subscribes to all events from now on, until the subscription is dropped.
    pub fn subscribe(&self) -> Subscription {
        self.add_subscriber(u32::MAX, None)
    }

    /// Subscribes to events of some kinds from now on. Every subscriber gets [`EventPayload::Gap`].
    pub fn subscribe_to(&self, kinds: &[EventKind]) -> Subscription {
        self.add_subscriber(bits_of(kinds), None)
    }

    /// Subscribes to events of some kinds of one call from now on.
    pub fn subscribe_to_call(&self, call: Arc<str>, kinds: &[EventKind]) -> Subscription {
        self.add_subscriber(bits_of(kinds), Some(call))
    }

    fn add_subscriber(&self, wanted: u32, call: Option<Arc<str>>) -> Subscription {
        let queue = Arc::new(Queue { wanted, call, unread: Mutex::default(), arrived: Notify::new() });
        let mut queues = self.0.queues.lock();
        queues.push(queue.clone());
        self.0.update_wanted(&queues);
        Subscription { queue, activity: Arc::downgrade(&self.0) }
    }

    /// Whether a subscriber wants events of this kind.
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.0.wanted.load(Ordering::Relaxed) & kind as u32 != 0
    }

    /// Queues an event for every subscriber that wants it. The event is built only if there is one.
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

fn bits_of(kinds: &[EventKind]) -> u32 {
    kinds.iter().fold(0, |all, kind| all | *kind as u32)
}

impl Inner {
    fn update_wanted(&self, queues: &[Arc<Queue>]) {
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
        if let Some(bytes) = event.payload.droppable_bytes() {
            if unread.droppable >= MAX_UNREAD
                || (unread.droppable > 0 && unread.bytes + bytes > MAX_UNREAD_BYTES)
            {
                unread.count_lost(event);
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
    /// Counts a lost event in a gap at its position in the queue.
    fn count_lost(&mut self, event: &Arc<Event>) {
        if let Some(last) = self.events.back_mut()
            && let EventPayload::Gap { lost } = last.payload
        {
            *last = Arc::new(Event { payload: EventPayload::Gap { lost: lost + 1 }, ..(**last).clone() });
        } else {
            self.events
                .push_back(Arc::new(Event { payload: EventPayload::Gap { lost: 1 }, ..(**event).clone() }));
        }
    }
}

/// The events that one subscriber gets. Dropping it unsubscribes.
pub struct Subscription {
    queue: Arc<Queue>,
    activity: Weak<Inner>,
}

impl Subscription {
    /// Waits for the next event. `None` once the engine is dropped and the queue is empty.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        let queue = self.queue.clone();
        loop {
            let arrived = queue.arrived.notified();
            // Read before the queue, so that events queued just before closing are not lost.
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

    /// The next event, if one is queued.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        let mut unread = self.queue.unread.lock();
        let event = unread.events.pop_front()?;
        if let Some(bytes) = event.payload.droppable_bytes() {
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
        activity.update_wanted(&queues);
    }
}
