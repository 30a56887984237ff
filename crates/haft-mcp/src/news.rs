//! What clients are told without having asked, because they may look at it: that tools, prompts or resources are others
//! than before. A client that was not told in time is told that everything of the kind may have changed.

use std::collections::HashSet;

use haft::Session;
use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// So many changes wait for a client that is slow to be told.
const MAX_UNTOLD: usize = 64;
/// A client cannot wait for more resources than these.
const MAX_SUBSCRIBED: usize = 1000;

/// Tells a client that something it may have looked at has changed.
#[derive(Clone)]
pub struct News(broadcast::Sender<Change>);

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
    /// More than there was room for.
    Much,
}

impl Default for News {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_UNTOLD))
    }
}

impl News {
    /// There are other prompts.
    pub fn prompts_changed(&self) {
        self.tell(Change::Prompts);
    }

    /// There are other resources.
    pub fn resources_changed(&self) {
        self.tell(Change::Resources);
    }

    /// A resource is not what it was.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.tell(Change::Resource(uri.into()));
    }

    fn tell(&self, change: Change) {
        // Nobody may be listening.
        let _ = self.0.send(change);
    }

    /// Listens from now on, to the tools of a session as well.
    pub(crate) fn listen(&self, session: &Session) -> Listening {
        Listening { news: self.0.subscribe(), tools: session.tools().changes() }
    }
}

pub(crate) struct Listening {
    news: broadcast::Receiver<Change>,
    tools: watch::Receiver<()>,
}

impl Listening {
    /// The next change, or nothing if there can be none any more.
    async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            changed = self.tools.changed() => changed.ok().map(|()| Change::Tools),
            change = self.news.recv() => match change {
                Ok(change) => Some(change),
                Err(RecvError::Lagged(_)) => Some(Change::Much),
                Err(RecvError::Closed) => None,
            },
        }
    }
}

/// The resources that a client wants to hear of.
#[derive(Default)]
pub(crate) struct Subscribed(Mutex<HashSet<String>>);

impl Subscribed {
    /// Adds one, if there is room for it.
    pub(crate) fn add(&self, uri: String) -> bool {
        let mut uris = self.0.lock();
        let has_room = uris.len() < MAX_SUBSCRIBED || uris.contains(&uri);
        if has_room {
            uris.insert(uri);
        }
        has_room
    }

    pub(crate) fn remove(&self, uri: &str) {
        self.0.lock().remove(uri);
    }

    pub(crate) fn has(&self, uri: &str) -> bool {
        self.0.lock().contains(uri)
    }
}

/// Tells a client with a session of its own, until it is gone.
pub(crate) async fn tell_peer(
    mut listening: Listening,
    peer: Peer<RoleServer>,
    subscribed: impl Fn(&str) -> bool,
    gone: CancellationToken,
) {
    let telling = async {
        while let Some(change) = listening.next().await {
            let told = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Resources => peer.notify_resource_list_changed().await,
                Change::Resource(uri) if subscribed(&uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                }
                Change::Resource(_) => Ok(()),
                Change::Much => {
                    let _ = peer.notify_prompt_list_changed().await;
                    peer.notify_resource_list_changed().await
                }
            };
            if told.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = gone.cancelled() => {}
    }
}

/// Tells whoever listens with a request of its own, what it wants to hear of.
pub(crate) async fn tell_listener(
    mut listening: Listening,
    context: &SubscriptionContext,
    gone: &CancellationToken,
) {
    let sink = context.sink();
    let telling = async {
        while let Some(change) = listening.next().await {
            // What was not asked for is not told.
            let _ = match change {
                Change::Tools => sink.notify_tool_list_changed().await,
                Change::Prompts => sink.notify_prompt_list_changed().await,
                Change::Resources => sink.notify_resource_list_changed().await,
                Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                Change::Much => {
                    let _ = sink.notify_prompt_list_changed().await;
                    sink.notify_resource_list_changed().await
                }
            };
        }
    };
    tokio::select! {
        () = telling => {}
        () = context.cancelled() => {}
        () = gone.cancelled() => {}
    }
}
