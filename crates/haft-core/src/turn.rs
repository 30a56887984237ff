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

use crate::{Call, Fault, FaultKind, Reply, Session};

/// The calls of one assistant message: see [`Session::turn`]. Dropping it cancels the calls that are unfinished.
pub struct Turn {
    session: Session,
    pending: VecDeque<Submitted>,
    pub(crate) shared: Arc<Shared>,
}

/// The state that the calls of a turn share.
pub(crate) struct Shared {
    pub(crate) number: u64,
    pub(crate) cancel: CancellationToken,
    repeats: Mutex<HashMap<u64, Earlier>>,
}

/// An earlier call of the turn, and the fingerprint of what it read.
#[derive(Clone)]
pub(crate) struct Earlier {
    pub(crate) call: Arc<str>,
    pub(crate) fingerprint: u64,
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
    pub(crate) fn new(session: Session, number: u64, cancel: CancellationToken) -> Self {
        let shared = Arc::new(Shared { number, cancel, repeats: Mutex::default() });
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
    /// An earlier call with this key, if it read what this one would read.
    pub(crate) fn earlier(&self, key: u64, fingerprint: u64) -> Option<Earlier> {
        let repeats = self.repeats.lock();
        repeats.get(&key).filter(|earlier| earlier.fingerprint == fingerprint).cloned()
    }

    pub(crate) fn remember(&self, key: u64, earlier: Earlier) {
        self.repeats.lock().insert(key, earlier);
    }
}

/// A hash of tool and arguments that does not depend on the order of fields.
pub(crate) fn repeat_key(tool: &str, input: &Value) -> u64 {
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
