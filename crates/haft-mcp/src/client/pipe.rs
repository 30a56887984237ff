//! The transport to a server that haft has started: one JSON-RPC message per line. Other output on stdout is skipped and
//! counted. A response that is too long, or cannot be decoded, becomes an error for the request that waits for it.

use std::io;
use std::sync::{Arc, LazyLock};

use haft_sandbox::{Pipes, random_id};
use parking_lot::Mutex;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex as AsyncMutex;

use super::bounds;
use crate::wire::MAX_MESSAGE_BYTES;

/// The bytes at each end of an undecodable line that are searched for its id.
const ID_WINDOW: usize = 256;
/// The deepest nesting that is kept of a list of tools: deeper than any schema that is taken.
const MAX_LISTING_DEPTH: usize = 100;
/// After this many bytes that are no message, the server counts as not speaking the protocol.
const MAX_NOISE: usize = 32 * 1024 * 1024;

/// The transport to a server's process.
pub(super) struct Pipe {
    read: BufReader<Receiver>,
    line: Vec<u8>,
    /// The line being read, once it is too long.
    long: Option<LongLine>,
    write: Arc<AsyncMutex<Option<Sender>>>,
    noise: Arc<Noise>,
}

/// Output of a server that is no message.
#[derive(Default)]
pub(super) struct Noise(Mutex<NoiseSeen>);

#[derive(Default)]
struct NoiseSeen {
    bytes: usize,
    first: Option<String>,
}

impl Noise {
    /// How much there was and how it begins, for a fault.
    pub(super) fn summary(&self) -> Option<String> {
        let seen = self.0.lock();
        let first = seen.first.as_ref()?;
        Some(format!(
            "it wrote {} bytes that are no message of the protocol, beginning with `{first}`",
            seen.bytes
        ))
    }

    /// Adds a line. Returns whether there is too much noise now.
    fn add(&self, line: &[u8], bytes: usize) -> bool {
        let mut seen = self.0.lock();
        seen.bytes = seen.bytes.saturating_add(bytes);
        if seen.first.is_none() {
            let start = &line[..line.len().min(bounds::MAX_WORD)];
            seen.first = Some(bounds::word(String::from_utf8_lossy(start).trim()));
        }
        seen.bytes > MAX_NOISE
    }
}

/// A line that is too long: only its ends are kept.
struct LongLine {
    start: Vec<u8>,
    end: Vec<u8>,
    bytes: usize,
}

impl LongLine {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.end.extend_from_slice(&bytes[bytes.len().saturating_sub(ID_WINDOW)..]);
        let too_many = self.end.len().saturating_sub(ID_WINDOW);
        self.end.drain(..too_many);
    }

    /// The id of the request that the line responds to.
    fn response_id(&self) -> Option<RequestId> {
        response_id(&self.start, &self.end)
    }
}

/// The id of a response that cannot be decoded, from the two ends of its line: servers write the id first or last, and an
/// id inside a JSON string cannot match, because its quotes are escaped.
fn response_id(start: &[u8], end: &[u8]) -> Option<RequestId> {
    let compact = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(": ", ":").replace(", ", ",");
    let (start, end) = (compact(start), compact(end));
    let head = start.strip_prefix(r#"{"jsonrpc":"2.0","id":"#).or_else(|| start.strip_prefix(r#"{"id":"#));
    let tail = end.trim_end().strip_suffix('}').and_then(|end| end.rsplit_once(r#","id":"#));
    let digits = |text: &str| -> String { text.chars().take_while(char::is_ascii_digit).collect() };
    let number = match (head.map(digits), tail) {
        (Some(number), _) if !number.is_empty() => number,
        (_, Some((_, number))) if number.bytes().all(|byte| byte.is_ascii_digit()) => number.to_owned(),
        _ => return None,
    };
    number.parse().ok().map(RequestId::Number)
}

/// A list of tools of which some are nested deeper than the decoder takes. What is deeper is left out, which still is too
/// deep for a schema, so that only these tools are refused. No other message is taken in part.
fn deep_listing(text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    let message: Value = serde_json::from_slice(&without_depths(text, MAX_LISTING_DEPTH)?).ok()?;
    message.get("result")?.get("tools")?.as_array()?;
    serde_json::from_value(message).ok()
}

/// A JSON text in which `null` stands for everything nested deeper than `max`; `None` if nothing is.
fn without_depths(text: &[u8], max: usize) -> Option<Vec<u8>> {
    let (mut kept, mut depth, mut is_cut) = (Vec::with_capacity(text.len()), 0_usize, false);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text {
        let before = depth;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if before.max(depth) <= max {
            kept.push(*byte);
        } else if before <= max {
            is_cut = true;
            kept.extend_from_slice(b"null");
        }
    }
    is_cut.then_some(kept)
}

/// Marks errors made by haft. Random, so that a server cannot forge it.
static MARK: LazyLock<Value> = LazyLock::new(|| Value::String(random_id()));

/// The error for the request whose response was rejected.
fn reject(id: RequestId, why: String) -> RxJsonRpcMessage<RoleClient> {
    ServerJsonRpcMessage::error(ErrorData::internal_error(why, Some(MARK.clone())), Some(id))
}

/// Why haft rejected a response, if the error is one that `reject` made.
pub(super) fn rejection(error: &ErrorData) -> Option<&str> {
    (error.data.as_ref() == Some(&*MARK)).then_some(&*error.message)
}

enum Line {
    Whole,
    TooLong(LongLine),
    End,
}

impl Pipe {
    pub(super) fn new(pipes: Pipes) -> (Self, Arc<Noise>) {
        let noise = Arc::new(Noise::default());
        let pipe = Self {
            read: BufReader::with_capacity(64 * 1024, pipes.output),
            line: Vec::new(),
            long: None,
            write: Arc::new(AsyncMutex::new(Some(pipes.input))),
            noise: noise.clone(),
        };
        (pipe, noise)
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
            match &mut self.long {
                Some(long) => long.add(&read[..used]),
                None if self.line.len() + used > MAX_MESSAGE_BYTES => {
                    let line = std::mem::take(&mut self.line);
                    let start = if line.is_empty() { &read[..used] } else { &line };
                    let start = start[..start.len().min(ID_WINDOW)].to_vec();
                    let mut long = LongLine { start, end: Vec::new(), bytes: 0 };
                    long.add(&line);
                    long.add(&read[..used]);
                    self.long = Some(long);
                }
                None => self.line.extend_from_slice(&read[..used]),
            }
            self.read.consume(used);
            if end.is_some() {
                return Ok(self.long.take().map_or(Line::Whole, Line::TooLong));
            }
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            match write.lock().await.as_mut() {
                Some(write) => write.write_all(&line).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let too_much = match self.read_line().await {
                Err(_) | Ok(Line::End) => return None,
                Ok(Line::TooLong(long)) => match long.response_id() {
                    Some(id) => {
                        let bytes = long.bytes;
                        let why = format!(
                            "its answer has {bytes} bytes, and at most {MAX_MESSAGE_BYTES} are taken"
                        );
                        return Some(reject(id, why));
                    }
                    None => self.noise.add(&long.start, long.bytes),
                },
                Ok(Line::Whole) => {
                    let line = std::mem::take(&mut self.line);
                    let text = line.trim_ascii();
                    match serde_json::from_slice(text) {
                        Ok(message) => return Some(message),
                        Err(_) if text.is_empty() => false,
                        Err(_) if let Some(message) = deep_listing(text) => return Some(message),
                        Err(error) => {
                            let ends = text.len().min(ID_WINDOW);
                            match response_id(&text[..ends], &text[text.len() - ends..]) {
                                Some(id) => {
                                    return Some(reject(id, format!("its answer cannot be read: {error}")));
                                }
                                None => self.noise.add(text, line.len()),
                            }
                        }
                    }
                }
            };
            if too_much {
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(line: &str) -> Option<RequestId> {
        let bytes = line.as_bytes();
        let mut long =
            LongLine { start: bytes[..bytes.len().min(ID_WINDOW)].to_vec(), end: Vec::new(), bytes: 0 };
        bytes.chunks(100).for_each(|chunk| long.add(chunk));
        assert_eq!(long.bytes, line.len());
        long.response_id()
    }

    #[test]
    fn what_is_too_deep_is_left_out() {
        let cut = |text: &str| without_depths(text.as_bytes(), 2).map(|cut| String::from_utf8(cut).unwrap());
        assert_eq!(cut(r#"{"a":[1,[2,{"b":3}],"]\"["],"c":4}"#).unwrap(), r#"{"a":[1,null,"]\"["],"c":4}"#);
        assert_eq!(cut(r#"{"a":[1]}"#), None);
    }

    #[test]
    fn only_a_list_of_tools_is_taken_in_part() {
        let deep = "[".repeat(300) + &"]".repeat(300);
        let message = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let tools =
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object","x":DEEP}}]}"#.replace("DEEP", &deep);
        assert!(deep_listing(message(&tools).as_bytes()).is_some());
        assert!(
            deep_listing(
                message(&format!(r#"{{"content":[],"structuredContent":{{"x":{deep}}}}}"#)).as_bytes()
            )
            .is_none()
        );
    }

    #[test]
    fn the_id_is_found_at_either_end() {
        let content = "x".repeat(10_000);
        assert_eq!(
            id_of(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{content}"}}"#)),
            Some(RequestId::Number(7))
        );
        assert_eq!(
            id_of(&format!(r#"{{"result":"{content}","jsonrpc":"2.0","id":8}}"#)),
            Some(RequestId::Number(8))
        );
    }

    #[test]
    fn an_id_inside_the_result_is_not_the_responses() {
        let content = "x".repeat(10_000);
        assert_eq!(id_of(&format!(r#"{{"result":{{"a":"{content}","id":8}}}}"#)), None);
        assert_eq!(id_of(&format!(r#"{{"result":"{content}\",\"id\":8"}}"#)), None);
    }
}
