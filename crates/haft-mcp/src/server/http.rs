//! Serves many clients over Streamable HTTP. Each `initialize` starts a session, and later requests carry its random id.
//! Limits the number of connections and sessions, checks the token, and refuses malformed messages before the SDK sees
//! them.

use std::cell::Cell;
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
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::SessionConfig;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::conversation::Conversation;
use super::host::SessionHost;
use super::lines::{IN_USE, INVALID_REQUEST};
use super::sessions::Sessions;
use crate::wire::MAX_MESSAGE_BYTES;

/// The most sessions at a time.
const MAX_SESSIONS: usize = 100;
/// The most open connections at a time.
const MAX_CONNECTIONS: usize = 1000;
/// A connection is closed if the head of a request takes longer to arrive, also between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a body may take to arrive: one byte now and then would hold a connection for ever.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The JSON-RPC error code for too many sessions, from the range left to servers.
const TOO_MANY_SESSIONS: i32 = -32000;

tokio::task_local! {
    /// Passes a session's slot from the middleware to the factory that makes the session's connection: the SDK calls that
    /// without the request.
    static SLOT: Cell<Option<OwnedSemaphorePermit>>;
}

/// How sessions are served over HTTP.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The bearer token that clients must send. None admits every client.
    pub token: Option<String>,
    /// Origins of web pages that may be clients, such as `http://localhost:5173`. Requests of other pages are refused.
    pub origins: Vec<String>,
    /// How long a session may be idle before it ends.
    pub idle_timeout: Duration,
}

/// An HTTP server that listens and does not accept yet.
pub struct HttpServer {
    listener: TcpListener,
    http: HttpConfig,
}

impl HttpConfig {
    /// Binds the address. One that other machines can reach needs a token.
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
    /// The address that it listens at, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients until `stop` resolves. Then every session ends, with everything it started.
    pub async fn serve(self, host: Arc<dyn SessionHost>, stop: impl Future<Output = ()>) -> io::Result<()> {
        let shutdown = CancellationToken::new();
        let mut config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_allowed_origins(self.http.origins.clone())
            .enforce_origin_validation()
            .with_cancellation_token(shutdown.clone());
        config.allowed_hosts.push(self.http.address.ip().to_string());
        if !is_loopback(self.http.address.ip()) {
            // Any host name may lead here, so DNS rebinding cannot be told apart; the token protects instead.
            config = config.disable_allowed_hosts();
        }
        let mut session = SessionConfig::default();
        session.keep_alive = Some(self.http.idle_timeout);
        let sessions = Arc::new(Sessions::new(session));
        let closed = shutdown.clone();
        // Nothing identifies stateless clients, so they share one conversation.
        let shared = Arc::new(Conversation::new(host.clone(), closed.child_token()));
        let service = StreamableHttpService::new(
            move || {
                let own = Conversation::new(host.clone(), closed.child_token());
                let slot = SLOT.try_with(Cell::take).ok().flatten();
                Ok(Connection::over_http(own, shared.clone(), slot))
            },
            sessions.clone(),
            config,
        );
        let gate = Gate {
            token: self.http.token,
            slots: Arc::new(Semaphore::new(MAX_SESSIONS)),
            idle: self.http.idle_timeout,
            sessions,
        };
        let router = Router::new()
            .route_service("/mcp", service)
            .layer(middleware::from_fn_with_state(Arc::new(gate), admit));
        let connections = GracefulShutdown::new();
        let limit = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let serving = async {
            loop {
                // At the limit, further clients wait in the kernel's backlog.
                let Ok(permit) = limit.clone().acquire_owned().await else { break };
                match self.listener.accept().await {
                    Ok((stream, _)) => spawn_connection(stream, router.clone(), &connections, permit),
                    // Such as too many open files: retry after a pause.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = stop => {}
        }
        shutdown.cancel();
        // A client that keeps its connection open must not block the shutdown.
        let _ = tokio::time::timeout(Duration::from_secs(2), connections.shutdown()).await;
        Ok(())
    }
}

/// Serves one connection, with any number of requests, on a task of its own.
fn spawn_connection(
    stream: TcpStream,
    router: Router,
    connections: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    // Events are small, and must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        // An error ends this connection only.
        let _ = connection.await;
        drop(permit);
    });
}

/// The checks before a request reaches the SDK.
struct Gate {
    token: Option<String>,
    slots: Arc<Semaphore>,
    idle: Duration,
    sessions: Arc<Sessions>,
}

/// Refuses requests without the right token.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let Some(token) = &gate.token else { return gate.pass(request, next).await };
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let is_known = given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case("bearer") && equal(given.trim().as_bytes(), token.as_bytes())
    });
    match is_known {
        true => gate.pass(request, next).await,
        false => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a token is needed")
            .into_response(),
    }
}

impl Gate {
    async fn pass(&self, request: Request, next: Next) -> Response {
        let is_delete = request.method() == Method::DELETE;
        let session = request.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let is_known = match &session {
            Some(id) if is_delete => self.sessions.has_session(&id.as_str().into()).await.unwrap_or(false),
            _ => false,
        };
        let (request, message) = match strict(request).await {
            Ok(read) => read,
            Err(refusal) => return *refusal,
        };
        if let (Some(session), Some(Message { id, .. })) = (&session, &message)
            && RequestId::deserialize(id).is_ok_and(|id| self.sessions.is_running(session, &id))
        {
            return refusal(StatusCode::BAD_REQUEST, INVALID_REQUEST, id, IN_USE);
        }
        // Only a session takes a slot; stateless requests take none.
        let initialize = message.filter(|message| message.is_initialize && session.is_none());
        let slot = match initialize {
            Some(Message { id, .. }) => match self.slots.clone().try_acquire_owned() {
                Ok(slot) => Some(slot),
                Err(_) => return self.too_many_sessions(&id),
            },
            None => None,
        };
        let mut response = SLOT.scope(Cell::new(slot), next.run(request)).await;
        if is_delete && response.status() == StatusCode::ACCEPTED {
            if !is_known {
                return (StatusCode::NOT_FOUND, "there is no such session").into_response();
            }
            // Clients report a failure to end the session unless they get 204.
            *response.status_mut() = StatusCode::NO_CONTENT;
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// The response while every slot is taken.
    fn too_many_sessions(&self, id: &Value) -> Response {
        let why = format!(
            "there are {MAX_SESSIONS} sessions, and more are not held at a time: one that is not used ends after {} \
             seconds, and one that is deleted at once; try again then",
            self.idle.as_secs()
        );
        refusal(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_SESSIONS, id, &why)
    }
}

/// A JSON-RPC error as a response.
fn refusal(status: StatusCode, code: i32, id: &Value, why: &str) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}});
    (status, [(header::CONTENT_TYPE, "application/json")], error.to_string()).into_response()
}

/// Refuses malformed messages, as `lines` does. The parser is strict about duplicate keys, since two parsers need not
/// agree on which of them counts. Returns the request, and the JSON-RPC request in it.
async fn strict(request: Request) -> Result<(Request, Option<Message>), Box<Response>> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if request.method() != Method::POST || !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return Ok((request, None));
    }
    let (head, body) = request.into_parts();
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_MESSAGE_BYTES)).await
    {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return Err(Box::new((StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response()));
        }
        Err(_) => {
            let why = format!("the message was not whole within {} s", BODY_TIMEOUT.as_secs());
            return Err(Box::new((StatusCode::REQUEST_TIMEOUT, why).into_response()));
        }
    };
    let refused = |code, why: &str| Box::new(refusal(StatusCode::BAD_REQUEST, code, &Value::Null, why));
    let text = std::str::from_utf8(&bytes).map_err(|_| refused(-32700, "the message is not UTF-8"))?;
    let message = match haft_core::json::parse(text) {
        Err(fault) => return Err(refused(-32700, fault.message())),
        Ok(Value::Array(_)) => {
            return Err(refused(INVALID_REQUEST, "batches are not taken: send one message"));
        }
        Ok(mut message) => {
            let method = message.get("method");
            let (is_request, is_initialize) =
                (method.is_some(), method.is_some_and(|method| method == "initialize"));
            let id = message.get_mut("id").map(Value::take);
            (is_initialize || is_request && id.is_some())
                .then(|| Message { id: id.unwrap_or_default(), is_initialize })
        }
    };
    Ok((Request::from_parts(head, Body::from(bytes)), message))
}

/// What is known of a JSON-RPC request before the SDK sees it.
struct Message {
    id: Value,
    is_initialize: bool,
}

/// Compares in constant time, so that the time does not reveal how much of a guessed token is right.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}
