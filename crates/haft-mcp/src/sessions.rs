//! The sessions of clients over HTTP. What a request brings is told to one listener at a time and kept for a while, so
//! that a client whose connection broke hears the rest on another one, although the request has ended meanwhile.

use std::collections::{HashMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};

/// So many requests of a session that have ended can still be listened to.
const MAX_ENDED: usize = 8;
/// So much of what a request brings is kept. What is said beside the answer goes first.
const MAX_EVENTS: usize = 64;
/// So many events are on their way to a listener.
const MAX_UNHEARD: usize = 16;

type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// The sessions there are.
#[derive(Default)]
pub(crate) struct Sessions {
    known: LocalSessionManager,
    told: Mutex<HashMap<SessionId, VecDeque<Told>>>,
}

/// What a request brings.
struct Told {
    /// The part of the events' names that is the request's.
    request: String,
    listeners: mpsc::Sender<Listener>,
    over: Arc<AtomicBool>,
}

/// Somebody who wants to hear it, from some event on.
struct Listener {
    from: usize,
    give: mpsc::Sender<ServerSseMessage>,
}

impl Sessions {
    pub(crate) fn new(config: SessionConfig) -> Self {
        let mut sessions = Self::default();
        sessions.known.session_config = config;
        sessions
    }

    fn told(&self) -> MutexGuard<'_, HashMap<SessionId, VecDeque<Told>>> {
        self.told.lock()
    }

    fn keep(&self, id: &SessionId, told: Told) {
        let mut all = self.told();
        let requests = all.entry(id.clone()).or_default();
        let is_over = |told: &Told| told.over.load(Ordering::Acquire);
        if requests.iter().filter(|told| is_over(told)).count() >= MAX_ENDED
            && let Some(oldest) = requests.iter().position(is_over)
        {
            requests.remove(oldest);
        }
        requests.push_back(told);
    }

    /// Who tells on what an event was a part of, and the number of the event.
    fn teller(&self, id: &SessionId, event: &str) -> Option<(mpsc::Sender<Listener>, usize)> {
        let (number, request) = place(event)?;
        let all = self.told();
        let told = all.get(id)?.iter().find(|told| told.request == request)?;
        Some((told.listeners.clone(), number))
    }
}

/// The number of an event, and of the request that it belongs to.
fn place(event: &str) -> Option<(usize, &str)> {
    let (number, request) = event.split_once('/')?;
    Some((number.parse().ok()?, request))
}

fn number(event: &ServerSseMessage) -> usize {
    event.event_id.as_deref().and_then(place).map_or(0, |(number, _)| number)
}

/// Listens from an event on. Whoever listened before hears no more.
async fn listen(teller: &mpsc::Sender<Listener>, from: usize) -> ReceiverStream<ServerSseMessage> {
    let (give, take) = mpsc::channel(MAX_UNHEARD);
    // Where nobody tells any more there is nothing to hear.
    let _ = teller.send(Listener { from, give }).await;
    ReceiverStream::new(take)
}

/// Tells what a request brings to whoever listens. While somebody does, nothing is read before it was heard.
async fn tell(
    first: Option<ServerSseMessage>,
    rest: impl Stream<Item = ServerSseMessage>,
    mut listeners: mpsc::Receiver<Listener>,
    over: Arc<AtomicBool>,
) {
    let mut rest = pin!(rest);
    let mut kept: VecDeque<ServerSseMessage> = first.into_iter().collect();
    let mut listener: Option<Listener> = None;
    let mut has_more = true;
    loop {
        let next = listener.as_ref().and_then(|listener| {
            let event = kept.iter().find(|event| number(event) >= listener.from)?;
            Some((listener.give.clone(), event.clone()))
        });
        let is_heard = next.is_none();
        if is_heard && !has_more {
            // By that the stream ends. Who has not heard all of it yet still listens.
            listener = None;
            over.store(true, Ordering::Release);
        }
        let giving = async move {
            let (give, event) = next?;
            let from = number(&event) + 1;
            give.send(event).await.ok().map(|()| from)
        };
        tokio::select! {
            came = listeners.recv() => match came {
                Some(came) => listener = Some(came),
                // The session is over, or others are kept instead.
                None => return,
            },
            given = giving, if !is_heard => match (given, &mut listener) {
                (Some(from), Some(listener)) => listener.from = from,
                _ => listener = None,
            },
            event = rest.next(), if has_more && is_heard => match event {
                Some(event) => {
                    if kept.len() >= MAX_EVENTS
                        && let Some(least) = kept.iter().position(is_said_besides)
                    {
                        kept.remove(least);
                    }
                    kept.push_back(event);
                }
                None => has_more = false,
            },
        }
    }
}

/// Whether nobody waits for it.
fn is_said_besides(event: &ServerSseMessage) -> bool {
    matches!(event.message.as_deref(), None | Some(JsonRpcMessage::Notification(_)))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.known.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.known.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.known.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.told().remove(id);
        self.known.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut events = Box::pin(self.known.create_stream(id, message).await?);
        // It is there already, and says by which name the request goes.
        let first = events.next().await;
        let name = first.as_ref().and_then(|first| first.event_id.as_deref()).and_then(place);
        let request = name.map(|(_, request)| request.to_owned()).unwrap_or_default();
        let (teller, listeners) = mpsc::channel(1);
        let over = Arc::new(AtomicBool::new(false));
        self.keep(id, Told { request, listeners: teller.clone(), over: over.clone() });
        tokio::spawn(tell(first, events, listeners, over));
        Ok(listen(&teller, 0).await)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.known.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.known.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let events: Events = match self.teller(id, &last_event_id) {
            Some((teller, last)) => Box::pin(listen(&teller, last + 1).await),
            // What belongs to no request. The SDK begins with the last one; of 0 nobody knows whether that was heard, or only
            // the beginning of the stream, which has the same number.
            None => {
                let last = last_event_id.parse::<usize>().ok().filter(|last| *last > 0);
                let events = self.known.resume(id, last_event_id).await?;
                let was_heard = move |event: &ServerSseMessage| {
                    let number = event.event_id.as_deref().and_then(|id| id.parse::<usize>().ok());
                    number.zip(last).is_some_and(|(number, last)| number <= last)
                };
                Box::pin(events.filter(move |event| !was_heard(event)))
            }
        };
        Ok(events)
    }
}
