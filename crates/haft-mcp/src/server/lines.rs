//! The transport over standard input and output: one JSON-RPC message per line. A malformed line is answered with a
//! JSON-RPC error and skipped; a line that is too long is dropped while it is read. Calls get their place in the order of
//! arrival, so that the engine takes them on in that order although the SDK runs each as a task. Reading stops while too
//! many messages wait to be written (back-pressure).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_core::json as strict;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcRequest,
    ProtocolVersion, RequestId,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::running::{self, RunningRequests};
use crate::wire::MAX_MESSAGE_BYTES;

/// While this many messages wait to be written, haft reads none: a client that does not read cannot fill the memory.
const MAX_QUEUED: usize = 256;

/// A write buffer up to this capacity is reused.
const MAX_REUSED: usize = 256 * 1024;

/// The newest protocol version that haft supports.
pub(super) const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// The refusal of a request whose id is in use.
pub(super) const IN_USE: &str = "this id is in use by a request that is still running, which goes on: give each request an \
                                 id of its own";

const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// A transport over two byte streams.
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// Bytes dropped so far of a line that is too long.
    skipped: usize,
    write: Arc<Writer<W>>,
    /// Whether the SDK has seen a request after which it accepts any message.
    started: bool,
    /// Resolves when the latest call has been taken on.
    latest: Option<oneshot::Receiver<()>>,
    running: RunningRequests,
}

struct Writer<W> {
    stream: AsyncMutex<W>,
    /// Whole lines to write next.
    buffer: Mutex<Vec<u8>>,
    queued: AtomicUsize,
    written: Notify,
    /// Cancelled when the client has closed either stream.
    ended: CancellationToken,
}

/// A call's place in the order of arrival.
#[derive(Clone)]
pub(super) struct Arrival(Arc<Mutex<Option<Turn>>>);

struct Turn {
    previous: Option<oneshot::Receiver<()>>,
    /// Dropped when the next call may be taken on.
    _next: oneshot::Sender<()>,
}

impl Arrival {
    /// Waits until every earlier call has been taken on. The next call may follow when the guard is dropped.
    pub(super) async fn turn(&self) -> impl Sized + use<> {
        let mut turn = self.0.lock().take();
        if let Some(previous) = turn.as_mut().and_then(|turn| turn.previous.take()) {
            let _ = previous.await;
        }
        turn
    }

    /// Gives up the place, so that later calls do not wait for this one.
    pub(super) fn pass(&self) {
        let arrival = self.clone();
        tokio::spawn(async move { drop(arrival.turn().await) });
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W, ended: CancellationToken) -> Self {
        let writer = Writer {
            stream: AsyncMutex::new(write),
            buffer: Mutex::default(),
            queued: AtomicUsize::new(0),
            written: Notify::new(),
            ended,
        };
        Self {
            read: BufReader::with_capacity(64 * 1024, read),
            line: Vec::new(),
            skipped: 0,
            write: Arc::new(writer),
            started: false,
            latest: None,
            running: RunningRequests::default(),
        }
    }

    /// Reads a line once the queue has room for an answer.
    async fn next_line(&mut self) -> io::Result<Line> {
        while self.write.queued.load(Ordering::Acquire) >= MAX_QUEUED {
            self.write.written.notified().await;
        }
        self.read_line().await
    }

    /// Reads to the end of a line, which is then in `line` unless it was too long. Cancel-safe.
    async fn read_line(&mut self) -> io::Result<Line> {
        loop {
            let read = self.read.fill_buf().await?;
            if read.is_empty() {
                return Ok(Line::End);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(read.len(), |end| end + 1);
            if self.skipped > 0 || self.line.len() + used > MAX_MESSAGE_BYTES {
                self.skipped += self.line.len() + used;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(&read[..used]);
            }
            self.read.consume(used);
            if end.is_some() {
                return Ok(match std::mem::take(&mut self.skipped) {
                    0 => Line::Whole,
                    bytes => Line::TooLong(bytes),
                });
            }
        }
    }

    /// Answers a malformed message. On a task of its own: reading may be cancelled at any time, writing may not.
    fn refuse(&self, code: i32, message: &str, id: &Value) {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        tokio::spawn(Queued::new(&self.write).write(error));
    }

    /// Decodes the line. None if it is blank, or was answered here with an error.
    fn message(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let text = match std::str::from_utf8(&line) {
            Ok(text) => text.trim_start_matches('\u{feff}').trim(),
            Err(_) => {
                self.refuse(PARSE_ERROR, "the line is not UTF-8", &Value::Null);
                return None;
            }
        };
        if text.is_empty() {
            return None;
        }
        let value = match strict::parse(text) {
            Ok(value) => value,
            Err(fault) => {
                self.refuse(PARSE_ERROR, fault.message(), &Value::Null);
                return None;
            }
        };
        let is_version = value.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
        let problem = match &value {
            Value::Array(_) => "batches are not taken: send one message a line",
            Value::Object(_) if !is_version => "`jsonrpc` must be \"2.0\"",
            _ => "this is no message of JSON-RPC 2.0",
        };
        let method = value.get("method").and_then(Value::as_str).map(str::to_owned);
        let (id, is_request) = (value.get("id").cloned(), method.is_some());
        match decode(value) {
            // The SDK would end a connection whose first message is not a request.
            Ok(message) if !self.started && !matches!(message, ClientJsonRpcMessage::Request(_)) => None,
            Ok(ClientJsonRpcMessage::Request(request)) if !self.started && is_early(&request.request) => {
                let method = method.unwrap_or_default();
                let problem = format!(
                    "`{method}` came before the connection has begun: send `initialize` first, or say with each request \
                     who makes it, as the protocol has it from {NEWEST} on"
                );
                self.refuse(INVALID_REQUEST, &problem, &id.unwrap_or_default());
                None
            }
            // The SDK takes a request with an invalid id for a notification, and would not answer it.
            Ok(ClientJsonRpcMessage::Notification(_)) if id.is_some() => {
                self.refuse(INVALID_REQUEST, "the id must be a string or an integer", &Value::Null);
                None
            }
            Ok(ClientJsonRpcMessage::Request(request)) if !self.running.begin(&request.id) => {
                self.refuse(INVALID_REQUEST, IN_USE, &id.unwrap_or_default());
                None
            }
            Ok(message) => Some(self.queue(message)),
            Err(_) if id.is_none() && is_request => None,
            Err(_) => {
                match id.filter(|id| is_request && RequestId::deserialize(id).is_ok()) {
                    Some(id) if is_version => {
                        self.refuse(INVALID_PARAMS, "the parameters must be an object", &id);
                    }
                    Some(id) => self.refuse(INVALID_REQUEST, problem, &id),
                    None => self.refuse(INVALID_REQUEST, problem, &Value::Null),
                }
                None
            }
        }
    }

    /// Gives a call its place in the order of arrival.
    fn queue(&mut self, mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
        if let ClientJsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.running.cancel(id);
        }
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            self.started = self.started || is_start(&request.request);
            if let ClientRequest::CallToolRequest(call) = &mut request.request {
                let (next, taken_on) = oneshot::channel();
                let turn = Turn { previous: self.latest.replace(taken_on), _next: next };
                call.extensions.insert(Arrival(Arc::new(Mutex::new(Some(turn)))));
            }
        }
        message
    }
}

/// Decodes a message. The SDK tries one kind of request after another until one fits, which takes 12 µs for a tool call:
/// a fifth of a whole `Read`. A call is therefore decoded directly as the SDK's own type; everything else, and a call that
/// does not decode, goes the SDK's way.
fn decode(message: Value) -> serde_json::Result<ClientJsonRpcMessage> {
    let is_call = message.get("method").is_some_and(|method| method == "tools/call")
        && message.get("result").is_none()
        && message.get("error").is_none();
    if is_call && let Ok(call) = JsonRpcRequest::<CallToolRequest>::deserialize(&message) {
        let request = JsonRpcRequest::new(call.id, ClientRequest::CallToolRequest(call.request));
        return Ok(ClientJsonRpcMessage::Request(request));
    }
    ClientJsonRpcMessage::deserialize(message)
}

/// Whether the SDK accepts any message after this request: one that starts a session, or a stateless one.
fn is_start(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let is_known =
                |version: &ProtocolVersion| ProtocolVersion::known_up_to(&NEWEST).contains(version);
            meta.missing_required_keys(&NEWEST).is_empty()
                && meta.protocol_version().as_ref().is_some_and(is_known)
        }
    }
}

/// Whether a request comes too early: its client has to send `initialize` first.
fn is_early(request: &ClientRequest) -> bool {
    use ClientRequest::{DiscoverRequest, InitializeRequest, PingRequest};
    !matches!(request, InitializeRequest(_) | DiscoverRequest(_) | PingRequest(_))
        && request.get_meta().protocol_version().is_none()
}

enum Line {
    Whole,
    TooLong(usize),
    End,
}

/// Counts a message as queued until it is written or given up.
struct Queued<W>(Arc<Writer<W>>);

impl<W: AsyncWrite + Send + Unpin + 'static> Queued<W> {
    fn new(writer: &Arc<Writer<W>>) -> Self {
        writer.queued.fetch_add(1, Ordering::AcqRel);
        Self(writer.clone())
    }

    async fn write(self, message: impl Serialize) -> io::Result<()> {
        self.0.add(message)?;
        if self.0.queued.load(Ordering::Acquire) > 1 {
            // Other messages are ready, too: let them join, and write all at once.
            tokio::task::yield_now().await;
        }
        let mut stream = self.0.stream.lock().await;
        let mut lines = std::mem::take(&mut *self.0.buffer.lock());
        if lines.is_empty() {
            // The holder of the lock before has written this message.
            return Ok(());
        }
        let written = match stream.write_all(&lines).await {
            Ok(()) => stream.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.0.ended.cancel();
        }
        if lines.capacity() <= MAX_REUSED {
            lines.clear();
            let mut buffer = self.0.buffer.lock();
            if buffer.capacity() == 0 {
                *buffer = lines;
            }
        }
        written
    }
}

impl<W> Writer<W> {
    /// Adds a message to the buffer. One that cannot be serialized leaves nothing behind.
    fn add(&self, message: impl Serialize) -> io::Result<()> {
        let mut buffer = self.buffer.lock();
        let before = buffer.len();
        if let Err(error) = serde_json::to_writer(&mut *buffer, &message) {
            buffer.truncate(before);
            return Err(error.into());
        }
        buffer.push(b'\n');
        Ok(())
    }
}

impl<W> Drop for Queued<W> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::AcqRel);
        self.0.written.notify_one();
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let Some(id) = running::answered(&item) {
            self.running.end(id);
        }
        Queued::new(&self.write).write(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let ended = self.write.ended.clone();
            let line = tokio::select! {
                () = ended.cancelled() => return None,
                line = self.next_line() => line,
            };
            match line {
                Ok(Line::Whole) => {
                    if let Some(message) = self.message() {
                        return Some(message);
                    }
                }
                Ok(Line::TooLong(bytes)) => {
                    let problem = format!("the line has {bytes} bytes, and {MAX_MESSAGE_BYTES} are the most");
                    self.refuse(PARSE_ERROR, &problem, &Value::Null);
                }
                Ok(Line::End) | Err(_) => {
                    self.write.ended.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestMetaObject;

    use super::*;

    /// A message as JSON, with the `_meta` that the SDK keeps apart from it.
    fn as_json(message: serde_json::Result<ClientJsonRpcMessage>) -> Option<(Value, Option<Value>)> {
        let message = message.ok()?;
        let meta = match &message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => call.extensions.get::<RequestMetaObject>(),
                _ => None,
            },
            _ => None,
        };
        let meta = meta.map(|meta| serde_json::to_value(meta).unwrap());
        Some((serde_json::to_value(&message).unwrap(), meta))
    }

    #[test]
    fn a_call_is_decoded_as_the_sdk_does() {
        let whole = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Read"}});
        let with = |field: &str, value: Value| {
            let mut message = whole.clone();
            message[field] = value;
            message
        };
        let without = |field: &str| {
            let mut message = whole.clone();
            message.as_object_mut().unwrap().remove(field);
            message
        };
        for message in [
            whole.clone(),
            with("id", json!("1")),
            with("id", json!(-5)),
            with("id", json!(1.5)),
            with("id", Value::Null),
            with("jsonrpc", json!("1.0")),
            with("result", json!({})),
            with("error", Value::Null),
            with("more", json!(1)),
            with("params", json!([])),
            with("params", json!({"name": 1})),
            with("params", json!({"arguments": {}})),
            with("params", json!({"name": "Read", "arguments": {"file_path": "a", "n": [1, null]}})),
            with("params", json!({"name": "Read", "arguments": null})),
            with("params", json!({"name": "Read", "arguments": []})),
            with("params", json!({"name": "", "_meta": {"progressToken": 7, "x/y": {"z": 1}}})),
            with("params", json!({"name": "Read", "_meta": 1})),
            with("params", json!({"name": "Read", "requestState": "x", "inputResponses": {}})),
            without("id"),
            without("jsonrpc"),
            without("params"),
        ] {
            let by_the_sdk = as_json(ClientJsonRpcMessage::deserialize(message.clone()));
            assert_eq!(as_json(decode(message.clone())), by_the_sdk, "{message}");
        }
    }
}
