//! Serves one client over two byte streams, such as standard input and output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServiceExt as _;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::conversation::Conversation;
use super::host::SessionHost;
use super::lines::Lines;

/// How long calls in progress may run on after the end of the input: a script that pipes requests into haft closes the
/// pipe before it has the answers.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// Serves the parent process over standard input and output, until the input ends or `stop` resolves.
pub async fn serve_stdio(host: Arc<dyn SessionHost>, stop: impl Future<Output = ()>) -> io::Result<()> {
    let (read, write) = stdio_pipes();
    serve(host, read, write, stop).await
}

/// Serves one client until its input ends or `stop` resolves. Then the session ends, with everything it started.
pub async fn serve(
    host: Arc<dyn SessionHost>,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (ended, closed) = (CancellationToken::new(), CancellationToken::new());
    let conversation = Arc::new(Conversation::new(host, closed.clone()));
    let stopped = CancellationToken::new();
    let lines = Lines::new(read, write, ended.clone());
    let serving = Connection::new(conversation.clone()).serve_with_ct(lines, stopped.clone());
    let work = async {
        match serving.await {
            Ok(running) => {
                // The SDK returns when every call under way has ended, those that were stopped included. It gives up
                // on calls that do not stop after 2 s, or 5 s at the end of the input.
                let _ = running.waiting().await;
            }
            // The client disconnected before it sent a request.
            Err(_) => ended.cancel(),
        }
    };
    let shutdown = async {
        tokio::select! {
            () = stop => stopped.cancel(),
            () = async { ended.cancelled().await; tokio::time::sleep(GRACE_PERIOD).await } => {}
        }
        // Cancels the calls; `work` ends when they have.
        closed.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = shutdown => {}
    }
    conversation.close();
    Ok(())
}
