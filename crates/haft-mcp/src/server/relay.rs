//! Runs a call and streams its output and progress to the client: as progress notifications if the request has a token,
//! else as log messages. One notification is in flight at a time; events that arrive meanwhile are merged into the next,
//! and dropped beyond the limit of the event queue. So the reply never waits for more than one notification.
#![expect(deprecated, reason = "clients of today have a log")]

use std::sync::Arc;

use haft_core::events::{Event, EventKind, EventPayload, Subscription};
use haft_core::{BoxFuture, Call, CallHandle, Reply, Session};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use serde_json::json;

/// The size, in bytes, from which merged output goes into the next notification.
const MAX_MESSAGE: usize = 16 * 1024;

/// How a client receives updates.
pub(super) enum Channel {
    /// As progress notifications.
    Progress(ProgressToken),
    /// As log messages.
    Log,
}

impl Channel {
    /// Subscribes to the events of a call.
    pub(super) fn subscribe(self, session: &Session, call: &Call) -> Updates {
        let kinds = [EventKind::Output, EventKind::Progress, EventKind::Log];
        let events = session.engine().activity().subscribe_to_call(call.id.clone(), &kinds);
        Updates { channel: self, events, call: call.id.clone(), tool: call.name.clone(), last_progress: None }
    }
}

/// The updates of one call for its client.
pub(super) struct Updates {
    channel: Channel,
    events: Subscription,
    call: Arc<str>,
    tool: Arc<str>,
    /// The value sent last. The protocol requires that it grows each time.
    last_progress: Option<f64>,
}

/// Events merged into one notification.
#[derive(Default)]
struct Update {
    text: String,
    done: Option<u64>,
    total: Option<u64>,
}

impl Updates {
    /// Waits for events, and merges those that are ready.
    async fn next(&mut self) -> Update {
        let mut update = Update::default();
        loop {
            match self.events.next().await {
                None => std::future::pending().await,
                Some(event) => update.add(&event),
            }
            while update.has_room()
                && let Some(event) = self.events.try_next()
            {
                update.add(&event);
            }
            if !update.is_empty() {
                return update;
            }
        }
    }

    /// Sends an update. The future resolves when it is written.
    fn send(&mut self, update: Update, peer: &Peer<RoleServer>) -> BoxFuture<'static, ()> {
        let peer = peer.clone();
        match &self.channel {
            Channel::Log => {
                let data = json!({"call": &*self.call, "text": update.text});
                let message =
                    LoggingMessageNotificationParam::new(LoggingLevel::Info, data).with_logger(&*self.tool);
                Box::pin(async move { drop(peer.notify_logging_message(message).await) })
            }
            Channel::Progress(token) => {
                let step = match (update.done, self.last_progress) {
                    (Some(done), None) => done as f64,
                    (Some(done), Some(last)) => (done as f64).max(last.next_up()),
                    (None, None) => 1.0,
                    (None, Some(last)) if last.fract() == 0.0 => last + 1.0,
                    (None, Some(last)) => last.next_up(),
                };
                self.last_progress = Some(step);
                let mut progress = ProgressNotificationParam::new(token.clone(), step);
                progress.message = Some(update.text).filter(|text| !text.is_empty());
                progress.total = update.total.map(|total| total as f64);
                Box::pin(async move { drop(peer.notify_progress(progress).await) })
            }
        }
    }
}

impl Update {
    fn add(&mut self, event: &Event) {
        match &event.payload {
            EventPayload::Output { chunk } => self.text.push_str(chunk),
            EventPayload::Log { source, text, .. } => self.text.push_str(&format!("{source}: {text}\n")),
            EventPayload::Progress(progress) => {
                (self.done, self.total) = (Some(progress.done), progress.total);
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    self.text.push('\n');
                }
                self.text.push_str(&progress.message);
            }
            _ => {}
        }
    }

    fn has_room(&self) -> bool {
        self.text.len() < MAX_MESSAGE
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.done.is_none()
    }
}

/// Runs a call to its reply. If `stopped` resolves first, cancels the call and still waits for its reply.
pub(super) async fn run(
    handle: &CallHandle,
    mut work: BoxFuture<'static, Reply>,
    stopped: impl Future<Output = ()>,
    mut updates: Option<Updates>,
    peer: &Peer<RoleServer>,
) -> Reply {
    let mut stopped = std::pin::pin!(stopped);
    let mut is_stopped = false;
    let mut sending: Option<BoxFuture<'static, ()>> = None;
    let reply = loop {
        tokio::select! {
            biased;
            reply = &mut work => break reply,
            () = &mut stopped, if !is_stopped => {
                is_stopped = true;
                sending = None;
                handle.cancel();
            }
            () = finish(&mut sending), if sending.is_some() => sending = None,
            update = next_update(&mut updates), if sending.is_none() && updates.is_some() && !is_stopped => {
                sending = updates.as_mut().map(|updates| updates.send(update, peer));
            }
        }
    };
    // The reply comes after the last update: clients drop updates of a call that has ended.
    if let Some(sending) = sending {
        tokio::select! {
            () = sending => {}
            () = &mut stopped, if !is_stopped => {}
        }
    }
    reply
}

async fn finish(sending: &mut Option<BoxFuture<'static, ()>>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

async fn next_update(updates: &mut Option<Updates>) -> Update {
    match updates {
        Some(updates) => updates.next().await,
        None => std::future::pending().await,
    }
}
