//! The sessions of clients over HTTP: the SDK's session manager, with resumable streams. Each stream of events has a task
//! that buffers recent events and sends them to one connection at a time, so that a client whose connection broke gets the
//! rest on another one, even after the request has ended. The stream without a request (standalone) is buffered as well:
//! the SDK would give a client that reconnects before the broken connection was noticed a stream without events.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};

use super::running::{self, RunningRequests};

/// The most ended requests of a session whose streams can still be resumed.
const MAX_ENDED: usize = 8;
/// The most events buffered per stream. Notifications are dropped first, so that the response survives.
const MAX_EVENTS: usize = 64;
/// The capacity of the channel to a connection.
const MAX_IN_FLIGHT: usize = 16;

type Events = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// A session manager with resumable streams.
#[derive(Default)]
pub(super) struct Sessions {
    sdk: LocalSessionManager,
    streams: Mutex<HashMap<SessionId, VecDeque<EventStream>>>,
    running: Arc<Mutex<HashMap<SessionId, RunningRequests>>>,
    /// Held while a standalone stream is opened: the SDK gives out all of its events only once per session.
    opening: AsyncMutex<()>,
}

/// The request part of event ids on a standalone stream.
const STANDALONE: &str = "";

/// A request of a session, whose id is in use until it is answered or its stream ends.
struct InUse {
    running: Arc<Mutex<HashMap<SessionId, RunningRequests>>>,
    session: SessionId,
    request: RequestId,
}

impl InUse {
    fn new(
        running: &Arc<Mutex<HashMap<SessionId, RunningRequests>>>,
        session: &SessionId,
        request: RequestId,
    ) -> Self {
        running.lock().entry(session.clone()).or_default().begin(&request);
        Self { running: running.clone(), session: session.clone(), request }
    }

    fn end(&self) {
        if let Some(running) = self.running.lock().get_mut(&self.session) {
            running.end(&self.request);
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.end();
    }
}

/// The events of one request, or of the standalone stream.
struct EventStream {
    /// The request part of the stream's event ids.
    request: String,
    subscribers: mpsc::Sender<Subscriber>,
    ended: Arc<AtomicBool>,
}

/// A connection that receives a stream's events.
struct Subscriber {
    start: Start,
    events: mpsc::Sender<ServerSseMessage>,
}

/// The first event that a subscriber receives.
#[derive(Clone, Copy)]
enum Start {
    /// The event of this number.
    Number(usize),
    /// The first event that no subscriber has received.
    Undelivered,
}

/// Whether a stream reads on while its subscriber is behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// No: a request waits for the client that reads its response.
    WhenDelivered,
    /// Yes, and the oldest events are dropped: a session does not wait for a client that has disconnected.
    Always,
}

impl Sessions {
    pub(super) fn new(config: SessionConfig) -> Self {
        let mut sessions = Self::default();
        sessions.sdk.session_config = config;
        sessions
    }

    /// Whether a session has a request of this id in progress.
    pub(super) fn is_running(&self, session: &str, id: &RequestId) -> bool {
        self.running.lock().get(session).is_some_and(|running| running.has(id))
    }

    /// Registers a stream of a session. Drops the oldest that has ended if there are too many.
    fn register(&self, id: &SessionId, stream: EventStream) {
        let mut all = self.streams.lock();
        let streams = all.entry(id.clone()).or_default();
        let has_ended = |stream: &EventStream| stream.ended.load(Ordering::Acquire);
        if streams.iter().filter(|stream| has_ended(stream)).count() >= MAX_ENDED
            && let Some(oldest) = streams.iter().position(has_ended)
        {
            streams.remove(oldest);
        }
        streams.push_back(stream);
    }

    /// Starts the task that delivers a stream's events. Returns where to subscribe to it.
    fn spawn_stream(
        &self,
        id: &SessionId,
        request: String,
        first: Option<ServerSseMessage>,
        rest: Events,
        reading: Reading,
    ) -> mpsc::Sender<Subscriber> {
        let (subscribers, receiver) = mpsc::channel(1);
        let ended = Arc::new(AtomicBool::new(false));
        self.register(id, EventStream { request, subscribers: subscribers.clone(), ended: ended.clone() });
        tokio::spawn(deliver(first, rest, reading, receiver, ended));
        subscribers
    }

    /// Where to subscribe to the stream of an event, and the number of the event.
    fn stream_of(&self, id: &SessionId, event: &str) -> Option<(mpsc::Sender<Subscriber>, usize)> {
        let (number, request) = parse_event_id(event)?;
        let all = self.streams.lock();
        let stream = all.get(id)?.iter().find(|stream| stream.request == request)?;
        Some((stream.subscribers.clone(), number))
    }

    /// Where to subscribe to the standalone stream of a session, which is opened if there is none.
    async fn standalone(&self, id: &SessionId) -> Result<mpsc::Sender<Subscriber>, LocalSessionManagerError> {
        let _opening = self.opening.lock().await;
        if let Some((subscribers, _)) = self.stream_of(id, "0") {
            return Ok(subscribers);
        }
        let events = self.sdk.create_standalone_stream(id).await?;
        // Never dropped in favour of other streams, because it does not end before its session.
        Ok(self.spawn_stream(id, STANDALONE.to_owned(), None, Box::pin(events), Reading::Always))
    }
}

/// Splits an event id into the event's number and its request.
fn parse_event_id(event: &str) -> Option<(usize, &str)> {
    let (number, request) = event.split_once('/').unwrap_or((event, STANDALONE));
    Some((number.parse().ok()?, request))
}

fn event_number(event: &ServerSseMessage) -> usize {
    event.event_id.as_deref().and_then(parse_event_id).map_or(0, |(number, _)| number)
}

/// Subscribes to a stream. The subscriber before receives no more.
async fn subscribe(subscribers: &mpsc::Sender<Subscriber>, start: Start) -> ReceiverStream<ServerSseMessage> {
    let (events, receiver) = mpsc::channel(MAX_IN_FLIGHT);
    // If the stream is gone, so is the sender, and the receiver ends at once.
    let _ = subscribers.send(Subscriber { start, events }).await;
    ReceiverStream::new(receiver)
}

/// Buffers the events of a stream and delivers them to the latest subscriber, until the session ends or the stream is
/// dropped in favour of others.
async fn deliver(
    first: Option<ServerSseMessage>,
    mut rest: Events,
    reading: Reading,
    mut subscribers: mpsc::Receiver<Subscriber>,
    ended: Arc<AtomicBool>,
) {
    let mut buffer: VecDeque<ServerSseMessage> = first.into_iter().collect();
    let mut subscriber: Option<Subscriber> = None;
    let mut has_more = true;
    // The number of the first event that no subscriber has received.
    let mut undelivered = 0;
    loop {
        let next = subscriber.as_ref().and_then(|subscriber| {
            let first = match subscriber.start {
                Start::Number(number) => number,
                Start::Undelivered => undelivered,
            };
            let event = buffer.iter().find(|event| event_number(event) >= first)?;
            Some((subscriber.events.clone(), event.clone()))
        });
        let is_delivered = next.is_none();
        if is_delivered && !has_more {
            // Dropping the sender ends the connection's stream. A later subscriber can still resume from the buffer.
            subscriber = None;
            ended.store(true, Ordering::Release);
        }
        let sending = async move {
            let (events, event) = next?;
            let following = event_number(&event) + 1;
            events.send(event).await.ok().map(|()| following)
        };
        tokio::select! {
            new = subscribers.recv() => match new {
                Some(new) => subscriber = Some(new),
                // The session has ended, or the stream was dropped in favour of others.
                None => return,
            },
            sent = sending, if !is_delivered => match (sent, &mut subscriber) {
                (Some(following), Some(subscriber)) => {
                    subscriber.start = Start::Number(following);
                    undelivered = undelivered.max(following);
                }
                _ => subscriber = None,
            },
            event = rest.next(), if has_more && (is_delivered || reading == Reading::Always) => match event {
                Some(event) => {
                    if buffer.len() >= MAX_EVENTS
                        && let Some(oldest) = buffer.iter().position(is_notification)
                    {
                        buffer.remove(oldest);
                    }
                    buffer.push_back(event);
                }
                None => has_more = false,
            },
        }
    }
}

/// Whether an event may be dropped: no request waits for it.
fn is_notification(event: &ServerSseMessage) -> bool {
    matches!(event.message.as_deref(), None | Some(JsonRpcMessage::Notification(_)))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.sdk.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let response = self.sdk.initialize_session(id, message).await?;
        // Opened now, so that events are buffered before the client connects to it.
        self.standalone(id).await?;
        Ok(response)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.sdk.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.streams.lock().remove(id);
        self.running.lock().remove(id);
        self.sdk.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let events = self.sdk.create_stream(id, message).await?;
        let in_use = request.map(|request| InUse::new(&self.running, id, request));
        let mut events = Box::pin(events.map(move |event| {
            if event.message.as_deref().is_some_and(|message| running::answered(message).is_some()) {
                in_use.iter().for_each(InUse::end);
            }
            event
        }));
        // The SDK sends a first event at once. Its id names the request.
        let first = events.next().await;
        let event_id = first.as_ref().and_then(|first| first.event_id.as_deref()).and_then(parse_event_id);
        let request = event_id.map(|(_, request)| request.to_owned()).unwrap_or_default();
        let subscribers = self.spawn_stream(id, request, first, events, Reading::WhenDelivered);
        Ok(subscribe(&subscribers, Start::Number(0)).await)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.sdk.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(subscribe(&self.standalone(id).await?, Start::Undelivered).await)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let events: Events = match parse_event_id(&last_event_id) {
            Some((last, STANDALONE)) => {
                // A stream starts with an empty event that has number 0, too, so the first real event is sent again.
                let first = if last == 0 { 0 } else { last + 1 };
                Box::pin(subscribe(&self.standalone(id).await?, Start::Number(first)).await)
            }
            _ => match self.stream_of(id, &last_event_id) {
                Some((subscribers, last)) => Box::pin(subscribe(&subscribers, Start::Number(last + 1)).await),
                None => Box::pin(self.sdk.resume(id, last_event_id).await?),
            },
        };
        Ok(events)
    }
}
