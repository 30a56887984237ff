//! Change notifications to clients: tools, prompts or resources have changed. A client that falls behind the queue gets a
//! notification that everything of the kind may have changed.

use std::collections::HashSet;

use haft_core::Session;
use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// The most changes queued for a slow client.
const MAX_QUEUED: usize = 64;
/// The most resources that a client can subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// Notifies a client that something it may have listed or read has changed.
#[derive(Clone)]
pub struct ChangeNotifier(broadcast::Sender<Change>);

/// A change to notify of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
    /// The queue overflowed: everything may have changed.
    Overflow,
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_QUEUED))
    }
}

impl ChangeNotifier {
    /// Notifies that the list of prompts has changed.
    pub fn prompts_changed(&self) {
        self.send(Change::Prompts);
    }

    /// Notifies that the list of resources has changed.
    pub fn resources_changed(&self) {
        self.send(Change::Resources);
    }

    /// Notifies that the content of a resource has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.send(Change::Resource(uri.into()));
    }

    fn send(&self, change: Change) {
        // Fails without subscribers, which is fine.
        let _ = self.0.send(change);
    }

    /// Subscribes to changes, those of the session's tools included.
    pub(super) fn subscribe(&self, session: &Session) -> Changes {
        Changes { news: self.0.subscribe(), tools: session.tools().changes() }
    }
}

/// A stream of changes.
pub(super) struct Changes {
    news: broadcast::Receiver<Change>,
    tools: watch::Receiver<()>,
}

impl Changes {
    /// The next change. None when the session or the sender is gone.
    async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            changed = self.tools.changed() => changed.ok().map(|()| Change::Tools),
            change = self.news.recv() => match change {
                Ok(change) => Some(change),
                Err(RecvError::Lagged(_)) => Some(Change::Overflow),
                Err(RecvError::Closed) => None,
            },
        }
    }
}

/// The resources that a client has subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<HashSet<String>>);

impl Subscriptions {
    /// Adds a subscription. False if there are too many.
    pub(super) fn add(&self, uri: String) -> bool {
        let mut uris = self.0.lock();
        let has_room = uris.len() < MAX_SUBSCRIPTIONS || uris.contains(&uri);
        if has_room {
            uris.insert(uri);
        }
        has_room
    }

    pub(super) fn remove(&self, uri: &str) {
        self.0.lock().remove(uri);
    }

    pub(super) fn has(&self, uri: &str) -> bool {
        self.0.lock().contains(uri)
    }
}

/// Sends changes to a client with a session, until it is closed.
pub(super) async fn send_to_peer(
    mut changes: Changes,
    peer: Peer<RoleServer>,
    subscribed: impl Fn(&str) -> bool,
    closed: CancellationToken,
) {
    let sending = async {
        while let Some(change) = changes.next().await {
            let sent = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Resources => peer.notify_resource_list_changed().await,
                Change::Resource(uri) if subscribed(&uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                }
                Change::Resource(_) => Ok(()),
                Change::Overflow => {
                    let _ = peer.notify_prompt_list_changed().await;
                    peer.notify_resource_list_changed().await
                }
            };
            if sent.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = closed.cancelled() => {}
    }
}

/// Sends changes to a `subscriptions/listen` request, until it is cancelled or the client is closed.
pub(super) async fn send_to_subscription(
    mut changes: Changes,
    context: &SubscriptionContext,
    closed: &CancellationToken,
) {
    let sink = context.sink();
    let sending = async {
        while let Some(change) = changes.next().await {
            // The sink fails for kinds that the request did not ask for.
            let _ = match change {
                Change::Tools => sink.notify_tool_list_changed().await,
                Change::Prompts => sink.notify_prompt_list_changed().await,
                Change::Resources => sink.notify_resource_list_changed().await,
                Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                Change::Overflow => {
                    let _ = sink.notify_prompt_list_changed().await;
                    sink.notify_resource_list_changed().await
                }
            };
        }
    };
    tokio::select! {
        () = sending => {}
        () = context.cancelled() => {}
        () = closed.cancelled() => {}
    }
}
