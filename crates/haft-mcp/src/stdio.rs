//! One client, over two streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServiceExt as _;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::Host;
use crate::connection::Connection;
use crate::conversation::Conversation;
use crate::lines::Lines;

/// What is under way when the client says no more may still be answered within this time: whoever pipes requests into
/// a program closes the pipe before the answers are there.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Serves whoever started this process, over standard input and output, until that ends or `stop` does.
pub async fn serve_stdio(host: Arc<dyn Host>, stop: impl Future<Output = ()>) -> io::Result<()> {
    let (read, write) = stdio_pipes();
    serve(host, read, write, stop).await
}

/// Serves one client until it says no more, or `stop` ends. Then its session is over, and all that it started.
pub async fn serve(
    host: Arc<dyn Host>,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (ended, gone) = (CancellationToken::new(), CancellationToken::new());
    let conversation = Arc::new(Conversation::new(host, gone.clone()));
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
            // It went away before it began.
            Err(_) => ended.cancel(),
        }
    };
    let over = async {
        tokio::select! {
            () = stop => stopped.cancel(),
            () = async { ended.cancelled().await; tokio::time::sleep(LAST_ANSWERS).await } => {}
        }
        // Calls end now, and then the work does.
        gone.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = over => {}
    }
    conversation.close();
    Ok(())
}
