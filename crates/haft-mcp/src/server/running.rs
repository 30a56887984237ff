//! The ids of a client's requests in progress. The SDK identifies a request by its id alone: a second one of the same id
//! would get the first one's place, and one of the two would never be answered.

use std::collections::{HashSet, VecDeque};

use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};

/// The most cancelled requests whose ids are remembered. The protocol lets no id be used twice, so a client that comes
/// this far has made a mistake before.
const MAX_CANCELLED: usize = 256;

/// The ids in use by one client.
#[derive(Default)]
pub(super) struct RunningRequests {
    running: HashSet<RequestId>,
    /// Requests that were cancelled: they may still run, and are not answered. The oldest comes first.
    cancelled: VecDeque<RequestId>,
}

impl RunningRequests {
    /// Whether a request of this id is in progress.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.running.contains(id) || self.cancelled.contains(id)
    }

    /// Marks an id as in use. False if it was already.
    pub(super) fn begin(&mut self, id: &RequestId) -> bool {
        !self.cancelled.contains(id) && self.running.insert(id.clone())
    }

    /// Marks an id as free: its request was answered.
    pub(super) fn end(&mut self, id: &RequestId) {
        self.running.remove(id);
    }

    /// Notes that a request will not be answered.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        if self.running.remove(id) {
            if self.cancelled.len() >= MAX_CANCELLED {
                self.cancelled.pop_front();
            }
            self.cancelled.push_back(id.clone());
        }
    }
}

/// The request that a message answers.
pub(super) fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}
