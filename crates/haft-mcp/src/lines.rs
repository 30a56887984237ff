//! JSON-RPC as lines. What is no message is answered as JSON-RPC wants it and read past; a line that is too long is
//! not kept. Calls are numbered as they come, so that they are taken on in that order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::json as strict;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcRequest, ProtocolVersion,
    RequestId,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// The longest line that is read.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;
/// While so many messages wait to be written, none is read: whoever does not listen is not listened to.
const MAX_UNWRITTEN: usize = 256;

/// Room for lines is kept for the next ones up to this.
const MAX_SPARE: usize = 256 * 1024;

/// The newest version of the protocol that is spoken.
pub(crate) const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// A connection of two streams of lines.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// How much of the line that is being read was too much.
    skipped: usize,
    write: Arc<Writing<W>>,
    begun: bool,
    latest: Option<oneshot::Receiver<()>>,
}

struct Writing<W> {
    to: AsyncMutex<W>,
    /// Whole lines that are written next.
    lines: Mutex<Vec<u8>>,
    unwritten: AtomicUsize,
    written: Notify,
    /// Cancelled when the other side says no more, or hears no more.
    ended: CancellationToken,
}

/// A call's place in the order in which calls came.
#[derive(Clone)]
pub(crate) struct Arrival(Arc<Mutex<Option<Place>>>);

struct Place {
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when the next one may go.
    _after: oneshot::Sender<()>,
}

impl Arrival {
    /// Waits until every call that came before has been taken on. The next one goes when the guard is dropped.
    pub(crate) async fn turn(&self) -> impl Sized + use<> {
        let mut place = self.0.lock().take();
        if let Some(before) = place.as_mut().and_then(|place| place.before.take()) {
            let _ = before.await;
        }
        place
    }

    /// Gives up the place: calls that came later go as soon as those are taken on that came before.
    pub(crate) fn pass(&self) {
        let arrival = self.clone();
        tokio::spawn(async move { drop(arrival.turn().await) });
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(crate) fn new(read: R, write: W, ended: CancellationToken) -> Self {
        let write = Writing {
            to: AsyncMutex::new(write),
            lines: Mutex::default(),
            unwritten: AtomicUsize::new(0),
            written: Notify::new(),
            ended,
        };
        Self {
            read: BufReader::with_capacity(64 * 1024, read),
            line: Vec::new(),
            skipped: 0,
            write: Arc::new(write),
            begun: false,
            latest: None,
        }
    }

    /// The same as soon as there is room for an answer.
    async fn next_line(&mut self) -> io::Result<Line> {
        while self.write.unwritten.load(Ordering::Acquire) >= MAX_UNWRITTEN {
            self.write.written.notified().await;
        }
        self.read_line().await
    }

    /// Reads to the end of a line, which is then in `line` unless it was too long. May be dropped and called again.
    async fn read_line(&mut self) -> io::Result<Line> {
        loop {
            let read = self.read.fill_buf().await?;
            if read.is_empty() {
                return Ok(Line::End);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(read.len(), |end| end + 1);
            if self.skipped > 0 || self.line.len() + used > MAX_LINE {
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

    /// Answers what is no message. On a task of its own: reading may be given up at any time, writing may not.
    fn refuse(&self, code: i32, message: &str, id: &Value) {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        tokio::spawn(Pending::new(&self.write).write(error));
    }

    /// The message in a line, or none if there is nothing for anybody in it.
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
        let told = match &value {
            Value::Array(_) => "batches are not taken: send one message a line",
            Value::Object(_) if !is_version => "`jsonrpc` must be \"2.0\"",
            _ => "this is no message of JSON-RPC 2.0",
        };
        let method = value.get("method").and_then(Value::as_str).map(str::to_owned);
        let (id, is_request) = (value.get("id").cloned(), method.is_some());
        match decode(value) {
            // The SDK would end a connection that begins with anything but a request.
            Ok(message) if !self.begun && !matches!(message, ClientJsonRpcMessage::Request(_)) => None,
            Ok(ClientJsonRpcMessage::Request(request)) if !self.begun && is_early(&request.request) => {
                let method = method.unwrap_or_default();
                let told = format!(
                    "`{method}` came before the connection has begun: send `initialize` first, or say with each request \
                     who makes it, as the protocol has it from {NEWEST} on"
                );
                self.refuse(INVALID_REQUEST, &told, &id.unwrap_or_default());
                None
            }
            // A request whose id makes no sense must not become a notification.
            Ok(ClientJsonRpcMessage::Notification(_)) if id.is_some() => {
                self.refuse(INVALID_REQUEST, "the id must be a string or an integer", &Value::Null);
                None
            }
            Ok(message) => Some(self.number(message)),
            Err(_) if id.is_none() && is_request => None,
            Err(_) => {
                match id.filter(|id| is_request && RequestId::deserialize(id).is_ok()) {
                    Some(id) if is_version => {
                        self.refuse(INVALID_PARAMS, "the parameters must be an object", &id);
                    }
                    Some(id) => self.refuse(INVALID_REQUEST, told, &id),
                    None => self.refuse(INVALID_REQUEST, told, &Value::Null),
                }
                None
            }
        }
    }

    /// Gives a call its place.
    fn number(&mut self, mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            self.begun = self.begun || begins(&request.request);
            if let ClientRequest::CallToolRequest(call) = &mut request.request {
                let (after, next) = oneshot::channel();
                let place = Place { before: self.latest.replace(next), _after: after };
                call.extensions.insert(Arrival(Arc::new(Mutex::new(Some(place)))));
            }
        }
        message
    }
}

/// Decodes a message. The SDK tries one kind of request after another until one fits, which takes 12 µs for the call of a
/// tool, a fifth of what reading a file takes over all. A call is decoded as one at once, by the SDK's own type for it;
/// whatever does not fit that is left to the SDK, as is everything else.
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

/// Whether the SDK serves whatever comes after a request: one that begins a session, or stands for itself.
fn begins(request: &ClientRequest) -> bool {
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

/// Whether a request is of a client that has to begin first, and has not.
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

/// Counts a message until it is written, or nobody wants to any more.
struct Pending<W>(Arc<Writing<W>>);

impl<W: AsyncWrite + Send + Unpin + 'static> Pending<W> {
    fn new(writing: &Arc<Writing<W>>) -> Self {
        writing.unwritten.fetch_add(1, Ordering::AcqRel);
        Self(writing.clone())
    }

    async fn write(self, message: impl Serialize) -> io::Result<()> {
        self.0.add(message)?;
        if self.0.unwritten.load(Ordering::Acquire) > 1 {
            // Others are about to be written, too: then all of them at once.
            tokio::task::yield_now().await;
        }
        let mut to = self.0.to.lock().await;
        let mut lines = std::mem::take(&mut *self.0.lines());
        if lines.is_empty() {
            // Somebody else has written it.
            return Ok(());
        }
        let written = match to.write_all(&lines).await {
            Ok(()) => to.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.0.ended.cancel();
        }
        if lines.capacity() <= MAX_SPARE {
            lines.clear();
            let mut next = self.0.lines();
            if next.capacity() == 0 {
                *next = lines;
            }
        }
        written
    }
}

impl<W> Writing<W> {
    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock()
    }

    /// Adds a line, or nothing.
    fn add(&self, message: impl Serialize) -> io::Result<()> {
        let mut lines = self.lines();
        let before = lines.len();
        if let Err(error) = serde_json::to_writer(&mut *lines, &message) {
            lines.truncate(before);
            return Err(error.into());
        }
        lines.push(b'\n');
        Ok(())
    }
}

impl<W> Drop for Pending<W> {
    fn drop(&mut self) {
        self.0.unwritten.fetch_sub(1, Ordering::AcqRel);
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
        let pending = Pending::new(&self.write);
        pending.write(item)
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
                    let told = format!("the line has {bytes} bytes, and {MAX_LINE} are the most");
                    self.refuse(PARSE_ERROR, &told, &Value::Null);
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

    /// A message as text, and what the SDK keeps of its `_meta`.
    fn shown(message: serde_json::Result<ClientJsonRpcMessage>) -> Option<(Value, Option<Value>)> {
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
            let by_the_sdk = shown(ClientJsonRpcMessage::deserialize(message.clone()));
            assert_eq!(shown(decode(message.clone())), by_the_sdk, "{message}");
        }
    }
}
