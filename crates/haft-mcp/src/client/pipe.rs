//! The lines between haft and a server that it has started. What is no message is passed over and counted; an answer
//! that is too long is not kept, and whoever waits for it is told so.

use std::io;
use std::sync::{Arc, LazyLock};

use haft_sandbox::{Pipes, random_id};
use parking_lot::Mutex;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex as AsyncMutex;

use super::bounds;
use crate::wire::MAX_MESSAGE_BYTES;

/// So much of a line that is too long is looked at for whose answer it is, at each end.
const MAX_LOOKED_AT: usize = 256;
/// A server that has written so many bytes which are no message does not speak the protocol.
const MAX_NOISE: usize = 32 * 1024 * 1024;

/// The lines from and to a server.
pub(super) struct Pipe {
    read: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// The ends of the line that is being read, once it is too long.
    long: Option<Long>,
    write: Arc<AsyncMutex<Option<ChildStdin>>>,
    noise: Arc<Noise>,
}

/// What a server wrote that is no message.
#[derive(Default)]
pub(super) struct Noise(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    bytes: usize,
    first: Option<String>,
}

impl Noise {
    /// What was heard first, and how much in all.
    pub(super) fn told(&self) -> Option<String> {
        let heard = self.0.lock();
        let first = heard.first.as_ref()?;
        Some(format!(
            "it wrote {} bytes that are no message of the protocol, beginning with `{first}`",
            heard.bytes
        ))
    }

    /// Whether there was too much of it.
    fn add(&self, line: &[u8], bytes: usize) -> bool {
        let mut heard = self.0.lock();
        heard.bytes = heard.bytes.saturating_add(bytes);
        if heard.first.is_none() {
            let start = &line[..line.len().min(bounds::MAX_WORD)];
            heard.first = Some(bounds::word(String::from_utf8_lossy(start).trim()));
        }
        heard.bytes > MAX_NOISE
    }
}

struct Long {
    start: Vec<u8>,
    end: Vec<u8>,
    bytes: usize,
}

impl Long {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.end.extend_from_slice(&bytes[bytes.len().saturating_sub(MAX_LOOKED_AT)..]);
        let too_many = self.end.len().saturating_sub(MAX_LOOKED_AT);
        self.end.drain(..too_many);
    }

    /// The request that it would have answered.
    fn answers(&self) -> Option<RequestId> {
        answers(&self.start, &self.end)
    }
}

/// The request that a message answers which cannot be read, by how it begins and ends: an id stands at one end, and a
/// quote inside of a text has a backslash before it.
fn answers(start: &[u8], end: &[u8]) -> Option<RequestId> {
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(": ", ":").replace(", ", ",");
    let (start, end) = (plain(start), plain(end));
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

/// Tells haft's own words from a server's, which does not know it.
static OWN: LazyLock<Value> = LazyLock::new(|| Value::String(random_id()));

/// What is told to whoever waits for an answer that cannot be taken.
fn untaken(id: RequestId, why: String) -> RxJsonRpcMessage<RoleClient> {
    ServerJsonRpcMessage::error(ErrorData::internal_error(why, Some(OWN.clone())), Some(id))
}

/// Why an answer was not taken, if that is what an error says.
pub(super) fn not_taken(error: &ErrorData) -> Option<&str> {
    (error.data.as_ref() == Some(&*OWN)).then_some(&*error.message)
}

enum Line {
    Whole,
    TooLong(Long),
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

    /// Reads to the end of a line, which is then in `line` unless it was too long. May be dropped and called again.
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
                    let start = start[..start.len().min(MAX_LOOKED_AT)].to_vec();
                    let mut long = Long { start, end: Vec::new(), bytes: 0 };
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
                Ok(Line::TooLong(long)) => match long.answers() {
                    Some(id) => {
                        let bytes = long.bytes;
                        let why = format!(
                            "its answer has {bytes} bytes, and at most {MAX_MESSAGE_BYTES} are taken"
                        );
                        return Some(untaken(id, why));
                    }
                    None => self.noise.add(&long.start, long.bytes),
                },
                Ok(Line::Whole) => {
                    let line = std::mem::take(&mut self.line);
                    let text = line.trim_ascii();
                    match serde_json::from_slice(text) {
                        Ok(message) => return Some(message),
                        Err(_) if text.is_empty() => false,
                        Err(error) => {
                            let ends = text.len().min(MAX_LOOKED_AT);
                            match answers(&text[..ends], &text[text.len() - ends..]) {
                                Some(id) => {
                                    return Some(untaken(id, format!("its answer cannot be read: {error}")));
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

    fn answered(line: &str) -> Option<RequestId> {
        let bytes = line.as_bytes();
        let mut long =
            Long { start: bytes[..bytes.len().min(MAX_LOOKED_AT)].to_vec(), end: Vec::new(), bytes: 0 };
        bytes.chunks(100).for_each(|chunk| long.add(chunk));
        assert_eq!(long.bytes, line.len());
        long.answers()
    }

    #[test]
    fn a_long_answer_is_known_by_either_end() {
        let content = "x".repeat(10_000);
        assert_eq!(
            answered(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{content}"}}"#)),
            Some(RequestId::Number(7))
        );
        assert_eq!(
            answered(&format!(r#"{{"result":"{content}","jsonrpc":"2.0","id":8}}"#)),
            Some(RequestId::Number(8))
        );
    }

    #[test]
    fn an_id_in_what_was_answered_is_not_the_answers() {
        let content = "x".repeat(10_000);
        assert_eq!(answered(&format!(r#"{{"result":{{"a":"{content}","id":8}}}}"#)), None);
        assert_eq!(answered(&format!(r#"{{"result":"{content}\",\"id\":8"}}"#)), None);
    }
}
