//! Carries out a call and tells the client meanwhile how it goes: output and progress, as progress where the client
//! gave a token, else as log messages. One message at a time: what comes while the client does not read is joined,
//! and dropped beyond the bounds of the activity's queue. The reply never waits for more than one of them.
#![expect(deprecated, reason = "clients of today have a log")]

use std::sync::Arc;

use haft_core::events::{Event, EventKind, EventPayload, Subscription};
use haft_core::{BoxFuture, Call, CallHandle, Reply, Session};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use serde_json::json;

/// So much of an output is told in one message, and the rest in the next.
const MAX_MESSAGE: usize = 16 * 1024;

/// How a client wants to hear.
pub(crate) enum Listener {
    /// As progress.
    Progress(ProgressToken),
    /// In its log.
    Log,
}

impl Listener {
    /// Listens to a call from now on.
    pub(crate) fn listen(self, session: &Session, call: &Call) -> Listening {
        let kinds = [EventKind::Output, EventKind::Progress, EventKind::Log];
        let events = session.engine().activity().subscribe_to_call(call.id.clone(), &kinds);
        Listening { listener: self, events, call: call.id.clone(), tool: call.name.clone(), told: None }
    }
}

/// A client that hears about a call.
pub(crate) struct Listening {
    listener: Listener,
    events: Subscription,
    call: Arc<str>,
    tool: Arc<str>,
    /// The progress that was told last. It must grow each time.
    told: Option<f64>,
}

/// What is told at once.
#[derive(Default)]
struct News {
    text: String,
    done: Option<u64>,
    total: Option<u64>,
}

impl Listening {
    /// Waits until there is something to tell.
    async fn news(&mut self) -> News {
        let mut news = News::default();
        loop {
            match self.events.next().await {
                None => std::future::pending().await,
                Some(event) => news.add(&event),
            }
            while news.has_room()
                && let Some(event) = self.events.try_next()
            {
                news.add(&event);
            }
            if !news.is_empty() {
                return news;
            }
        }
    }

    /// Tells it, and ends when it is written.
    fn tell(&mut self, news: News, peer: &Peer<RoleServer>) -> BoxFuture<'static, ()> {
        let peer = peer.clone();
        match &self.listener {
            Listener::Log => {
                let data = json!({"call": &*self.call, "text": news.text});
                let message =
                    LoggingMessageNotificationParam::new(LoggingLevel::Info, data).with_logger(&*self.tool);
                Box::pin(async move { drop(peer.notify_logging_message(message).await) })
            }
            Listener::Progress(token) => {
                let step = match (news.done, self.told) {
                    (Some(done), None) => done as f64,
                    (Some(done), Some(told)) => (done as f64).max(told.next_up()),
                    (None, None) => 1.0,
                    (None, Some(told)) if told.fract() == 0.0 => told + 1.0,
                    (None, Some(told)) => told.next_up(),
                };
                self.told = Some(step);
                let mut progress = ProgressNotificationParam::new(token.clone(), step);
                progress.message = Some(news.text).filter(|text| !text.is_empty());
                progress.total = news.total.map(|total| total as f64);
                Box::pin(async move { drop(peer.notify_progress(progress).await) })
            }
        }
    }
}

impl News {
    fn add(&mut self, event: &Event) {
        match &event.what {
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

/// Carries out a call. When `stopped` ends first, the call is told to stop and is waited for even so.
pub(crate) async fn carry(
    handle: &CallHandle,
    mut work: BoxFuture<'static, Reply>,
    stopped: impl Future<Output = ()>,
    mut listening: Option<Listening>,
    peer: &Peer<RoleServer>,
) -> Reply {
    let mut stopped = std::pin::pin!(stopped);
    let mut is_stopped = false;
    let mut telling: Option<BoxFuture<'static, ()>> = None;
    let reply = loop {
        tokio::select! {
            biased;
            reply = &mut work => break reply,
            () = &mut stopped, if !is_stopped => {
                is_stopped = true;
                telling = None;
                handle.cancel();
            }
            () = wait_for(&mut telling), if telling.is_some() => telling = None,
            news = next_of(&mut listening), if telling.is_none() && listening.is_some() && !is_stopped => {
                telling = listening.as_mut().map(|listening| listening.tell(news, peer));
            }
        }
    };
    // Nothing is told of a call that has been answered.
    if let Some(telling) = telling {
        tokio::select! {
            () = telling => {}
            () = &mut stopped, if !is_stopped => {}
        }
    }
    reply
}

async fn wait_for(telling: &mut Option<BoxFuture<'static, ()>>) {
    match telling {
        Some(telling) => telling.await,
        None => std::future::pending().await,
    }
}

async fn next_of(listening: &mut Option<Listening>) -> News {
    match listening {
        Some(listening) => listening.news().await,
        None => std::future::pending().await,
    }
}
