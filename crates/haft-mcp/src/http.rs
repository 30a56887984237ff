//! Many clients, over HTTP: each `initialize` is a session of its own, and its random id is what its later requests are
//! known by.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::Host;
use crate::connection::Connection;
use crate::conversation::Conversation;
use crate::lines::MAX_LINE;

/// More sessions are not held at a time.
const MAX_CLIENTS: usize = 100;
/// More connections are not open at a time.
const MAX_CONNECTIONS: usize = 1000;
/// Who has not said by then what it wants, or keeps silent for so long after an answer, is let go.
const TIME_TO_ASK: Duration = Duration::from_secs(15);

/// How it is served.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where.
    pub address: SocketAddr,
    /// What clients must know, if they must know something.
    pub token: Option<String>,
    /// Pages in a browser that may be clients, such as `http://localhost:5173`. No other page is.
    pub origins: Vec<String>,
    /// A session ends when nothing was said for so long.
    pub idle: Duration,
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    http: Http,
}

impl Http {
    /// Listens. Where others than this machine can reach it, there must be a token.
    pub async fn listen(self) -> io::Result<HttpServer> {
        if self.token.is_none() && !is_loopback(self.address.ip()) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("whoever can reach `{}` could use it: it needs a token", self.address),
            ));
        }
        let listener = TcpListener::bind(self.address).await?;
        Ok(HttpServer { listener, http: self })
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl HttpServer {
    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients until `stop` ends. Then every session is over, and all that it started.
    pub async fn serve(self, host: Arc<dyn Host>, stop: impl Future<Output = ()>) -> io::Result<()> {
        let over = CancellationToken::new();
        let mut config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(MAX_LINE)
            .with_allowed_origins(self.http.origins.clone())
            .enforce_origin_validation()
            .with_cancellation_token(over.clone());
        config.allowed_hosts.push(self.http.address.ip().to_string());
        if !is_loopback(self.http.address.ip()) {
            // Any name may lead here, and who does not know the token gets nowhere.
            config = config.disable_allowed_hosts();
        }
        let mut sessions = LocalSessionManager::default();
        let mut session = SessionConfig::default();
        session.keep_alive = Some(self.http.idle);
        sessions.session_config = session;
        let (gone, seats) = (over.clone(), Arc::new(Semaphore::new(MAX_CLIENTS)));
        // Nothing tells apart clients that know no sessions.
        let shared = Arc::new(Conversation::new(host.clone(), gone.child_token()));
        let service = StreamableHttpService::new(
            move || {
                let seat = seats.clone().try_acquire_owned();
                let seat = seat.map_err(|_| io::Error::other("there are too many clients already"))?;
                let own = Conversation::new(host.clone(), gone.child_token());
                Ok(Connection::seated(own, shared.clone(), seat))
            },
            Arc::new(sessions),
            config,
        );
        let token: Option<Arc<str>> = self.http.token.map(Into::into);
        let router =
            Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(token, admit));
        let open = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let serving = async {
            loop {
                // Whoever finds no room waits to be let in.
                let Ok(place) = room.clone().acquire_owned().await else { break };
                match self.listener.accept().await {
                    Ok((stream, _)) => connect(stream, router.clone(), &open, place),
                    // Such as too many open files: there may be fewer soon.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = stop => {}
        }
        over.cancel();
        // A client that keeps its connection open does not keep haft from ending.
        let _ = tokio::time::timeout(Duration::from_secs(2), open.shutdown()).await;
        Ok(())
    }
}

/// Serves one connection, on which many requests may come.
fn connect(stream: TcpStream, router: Router, open: &GracefulShutdown, place: OwnedSemaphorePermit) {
    // An event waits for nothing, least of all for the one before to be acknowledged.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIME_TO_ASK)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = open.watch(connection);
    tokio::spawn(async move {
        // What goes wrong on a connection ends that connection.
        let _ = connection.await;
        drop(place);
    });
}

/// Lets in whoever knows the token.
async fn admit(State(token): State<Option<Arc<str>>>, request: Request, next: Next) -> Response {
    let Some(token) = token else { return pass(request, next).await };
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let is_known = given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case("bearer") && same(given.trim().as_bytes(), token.as_bytes())
    });
    match is_known {
        true => pass(request, next).await,
        false => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a token is needed")
            .into_response(),
    }
}

/// Clients take an ended session for one that would not end unless they are told so plainly.
async fn pass(request: Request, next: Next) -> Response {
    let is_end = request.method() == Method::DELETE;
    let request = match strict(request).await {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let mut response = next.run(request).await;
    if is_end && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.body_mut() = Body::empty();
    }
    response
}

/// Refuses what is no message, as it is refused over lines: two readers of a key that is there twice need not agree.
async fn strict(request: Request) -> Result<Request, Box<Response>> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if request.method() != Method::POST || !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return Ok(request);
    }
    let (head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_LINE).await else {
        return Err(Box::new((StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response()));
    };
    let refused = |code: i32, why: &str| {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": why}});
        let kind = [(header::CONTENT_TYPE, "application/json")];
        Box::new((StatusCode::BAD_REQUEST, kind, error.to_string()).into_response())
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| refused(-32700, "the message is not UTF-8"))?;
    match haft::json::parse(text) {
        Err(fault) => Err(refused(-32700, fault.message())),
        Ok(Value::Array(_)) => Err(refused(-32600, "batches are not taken: send one message")),
        Ok(_) => Ok(Request::from_parts(head, Body::from(bytes))),
    }
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}
