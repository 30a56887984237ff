//! Answers every request of a client with the reason why there is no server, such as settings that cannot be read. A
//! client that finds only a closed connection cannot tell its user what is wrong.

use std::io;

use rmcp::transport::io::stdio_pipes;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

/// The longest request that is read. Longer input ends the connection.
const MAX_REQUEST: u64 = 1 << 20;
/// JSON-RPC's code for an internal error.
const INTERNAL_ERROR: i32 = -32603;

/// Refuses the parent process's requests over standard input and output, until the input ends or `stop` resolves.
pub async fn refuse_stdio(reason: &str, stop: impl Future<Output = ()>) -> io::Result<()> {
    let (read, write) = stdio_pipes();
    tokio::select! {
        refused = refuse(reason, read, write) => refused,
        () = stop => Ok(()),
    }
}

/// Answers every request with an error until the input ends.
async fn refuse(
    reason: &str,
    read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let count = (&mut read).take(MAX_REQUEST).read_until(b'\n', &mut line).await?;
        if count == 0 || !line.ends_with(b"\n") {
            return Ok(());
        }
        // Notifications and answers have no id of a request, and get no answer.
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        let (Some(id), Some(_)) = (message.get("id"), message.get("method")) else { continue };
        let error = json!({"code": INTERNAL_ERROR, "message": reason});
        let mut answer = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
        answer.push('\n');
        write.write_all(answer.as_bytes()).await?;
        write.flush().await?;
    }
}
