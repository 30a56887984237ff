//! Turns: the calls of one assistant message, submitted as each is complete and answered in call order. Also remembers
//! the calls of the turn, for dialects that refuse repeats.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Call, Claims, Fault, FaultKind, Reply, Session};

/// The calls of one assistant message: see [`Session::turn`]. Dropping it cancels the calls that are unfinished.
pub struct Turn {
    session: Session,
    pending: VecDeque<Submitted>,
    pub(crate) shared: Arc<Shared>,
}

/// The state that the calls of a turn share.
pub(crate) struct Shared {
    pub(crate) number: u64,
    /// The id of the assistant message, if it is known.
    pub(crate) message: Option<Arc<str>>,
    pub(crate) cancel: CancellationToken,
    repeats: Mutex<Repeats>,
}

/// What is known of the calls of a turn, to recognise repeats.
#[derive(Default)]
struct Repeats {
    /// The calls that were answered, by their hash.
    answered: HashMap<u64, Earlier>,
    /// What the calls that ran may have written, in the order in which they ended.
    writes: Vec<Claims>,
}

/// An earlier call of the turn.
struct Earlier {
    call: Arc<str>,
    /// The fingerprint of what it read, for operations that have one.
    fingerprint: Option<u64>,
    /// How many of the turn's writes had ended when it had.
    writes: usize,
}

/// By what a repeat of a call is recognised.
pub(crate) struct RepeatKey {
    /// The hash of tool and arguments.
    pub(crate) call: u64,
    /// The fingerprint of what the call reads, for operations that have one.
    pub(crate) fingerprint: Option<u64>,
}

/// A handle to a call that is under way, to cancel it.
pub struct CallHandle {
    id: Arc<str>,
    cancel: CancellationToken,
}

impl CallHandle {
    pub(crate) fn new(id: Arc<str>, cancel: CancellationToken) -> Self {
        Self { id, cancel }
    }

    /// The id of the call.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Cancels this call; the other calls of the turn go on. Its reply says that it was cancelled.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

struct Submitted {
    id: Arc<str>,
    name: Arc<str>,
    reply: JoinHandle<Reply>,
}

impl Turn {
    pub(crate) fn new(
        session: Session,
        number: u64,
        message: Option<Arc<str>>,
        cancel: CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared { number, message, cancel, repeats: Mutex::default() });
        Self { session, pending: VecDeque::new(), shared }
    }

    /// Submits a call, which runs as soon as no earlier one conflicts with it. Calls may be submitted while the message is
    /// still streaming.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn submit(&mut self, call: Call) -> CallHandle {
        let (id, name) = (call.id.clone(), call.name.clone());
        let job = self.session.engine().accept(&self.session, self, call);
        let handle = job.handle();
        // Boxed on first poll, so that a spawned task that has not been polled yet stays small.
        let reply = Handle::current().spawn(async move { Box::pin(job.execute()).await });
        self.pending.push_back(Submitted { id, name, reply });
        handle
    }

    /// Waits for the next reply, in call order; `None` after the last. Seals the turn: see [`Turn::seal`].
    pub async fn next(&mut self) -> Option<Reply> {
        self.seal();
        let submitted = self.pending.front_mut()?;
        let reply = match (&mut submitted.reply).await {
            Ok(reply) => reply,
            Err(error) => {
                let fault = Fault::new(FaultKind::Internal, format!("the call was lost: {error}"));
                let mut reply = crate::dialect::text_fault(&fault);
                reply.id = submitted.id.clone();
                reply.name = submitted.name.clone();
                reply
            }
        };
        self.pending.pop_front();
        Some(reply)
    }

    /// Waits for all remaining replies, in call order.
    pub async fn finish(mut self) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(self.pending.len());
        while let Some(reply) = self.next().await {
            replies.push(reply);
        }
        replies
    }

    /// Declares that no further calls will be submitted. Under [`Policy::SafeFirst`](crate::Policy::SafeFirst) calls that
    /// change something wait for this.
    pub fn seal(&self) {
        self.session.schedule().seal(self.shared.number);
    }

    /// Cancels every call of the turn.
    pub fn cancel(&self) {
        self.shared.cancel.cancel();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.seal();
        if !self.pending.is_empty() {
            self.cancel();
        }
    }
}

impl Shared {
    /// The id of an earlier equal call, if nothing that the call depends on has changed since.
    pub(crate) fn earlier(&self, key: &RepeatKey, claims: &Claims) -> Option<Arc<str>> {
        let repeats = self.repeats.lock();
        let earlier = repeats.answered.get(&key.call)?;
        let is_unchanged = match (earlier.fingerprint, key.fingerprint) {
            (Some(before), Some(now)) => before == now,
            _ => repeats.writes[earlier.writes..].iter().all(|write| write.conflict(claims).is_none()),
        };
        is_unchanged.then(|| earlier.call.clone())
    }

    pub(crate) fn remember(&self, RepeatKey { call: hash, fingerprint }: RepeatKey, call: Arc<str>) {
        let mut repeats = self.repeats.lock();
        let writes = repeats.writes.len();
        repeats.answered.insert(hash, Earlier { call, fingerprint, writes });
    }

    /// Records what a call that ran may have written.
    pub(crate) fn record_writes(&self, claims: Claims) {
        if !claims.is_read_only() {
            self.repeats.lock().writes.push(claims);
        }
    }
}

/// A hash of tool and arguments that does not depend on the order of fields.
pub(crate) fn call_hash(tool: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hash_value(input, &mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            keys.len().hash(hasher);
            for key in keys {
                key.hash(hasher);
                hash_value(&fields[key], hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        other => other.to_string().hash(hasher),
    }
}
