//! Many clients, over HTTP: each `initialize` is a session of its own, and its random id is what its later requests are
//! known by.

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
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::SessionConfig;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::SessionHost;
use crate::connection::Connection;
use crate::conversation::Conversation;
use crate::lines::MAX_LINE;
use crate::sessions::Sessions;

/// More sessions are not held at a time.
const MAX_CLIENTS: usize = 100;
/// More connections are not open at a time.
const MAX_CONNECTIONS: usize = 1000;
/// Who has not said by then what it wants, or keeps silent for so long after an answer, is let go.
const TIME_TO_ASK: Duration = Duration::from_secs(15);
/// A message that is not whole by then is not waited for: a byte now and then would hold a connection for ever.
const TIME_TO_FINISH: Duration = Duration::from_secs(30);
/// What is answered where there is no seat, as JSON-RPC leaves it to servers.
const NO_SEAT: i32 = -32000;

tokio::task_local! {
    /// The seat of the session that a request begins, until that takes it.
    static SEAT: Cell<Option<OwnedSemaphorePermit>>;
}

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
    pub async fn serve(self, host: Arc<dyn SessionHost>, stop: impl Future<Output = ()>) -> io::Result<()> {
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
        let mut session = SessionConfig::default();
        session.keep_alive = Some(self.http.idle);
        let sessions = Arc::new(Sessions::new(session));
        let gone = over.clone();
        // Nothing tells apart clients that know no sessions.
        let shared = Arc::new(Conversation::new(host.clone(), gone.child_token()));
        let service = StreamableHttpService::new(
            move || {
                let own = Conversation::new(host.clone(), gone.child_token());
                let seat = SEAT.try_with(Cell::take).ok().flatten();
                Ok(Connection::one_of_many(own, shared.clone(), seat))
            },
            sessions.clone(),
            config,
        );
        let door = Door {
            token: self.http.token,
            seats: Arc::new(Semaphore::new(MAX_CLIENTS)),
            idle: self.http.idle,
            sessions,
        };
        let router = Router::new()
            .route_service("/mcp", service)
            .layer(middleware::from_fn_with_state(Arc::new(door), admit));
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

/// What a request passes before it is served.
struct Door {
    token: Option<String>,
    seats: Arc<Semaphore>,
    idle: Duration,
    sessions: Arc<Sessions>,
}

/// Lets in whoever knows the token.
async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let Some(token) = &door.token else { return door.pass(request, next).await };
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let is_known = given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case("bearer") && same(given.trim().as_bytes(), token.as_bytes())
    });
    match is_known {
        true => door.pass(request, next).await,
        false => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a token is needed")
            .into_response(),
    }
}

impl Door {
    async fn pass(&self, request: Request, next: Next) -> Response {
        let is_end = request.method() == Method::DELETE;
        let session = request.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let is_known = match &session {
            Some(id) if is_end => self.sessions.has_session(&id.as_str().into()).await.unwrap_or(false),
            _ => false,
        };
        let (request, begins) = match strict(request).await {
            Ok(read) => read,
            Err(refused) => return *refused,
        };
        // Only a session needs a seat: who says with each request who it is comes and goes.
        let seat = match begins.filter(|_| session.is_none()) {
            Some(id) => match self.seats.clone().try_acquire_owned() {
                Ok(seat) => Some(seat),
                Err(_) => return self.full(&id),
            },
            None => None,
        };
        let mut response = SEAT.scope(Cell::new(seat), next.run(request)).await;
        if is_end && response.status() == StatusCode::ACCEPTED {
            if !is_known {
                return (StatusCode::NOT_FOUND, "there is no such session").into_response();
            }
            // Clients take an ended session for one that would not end unless they are told so plainly.
            *response.status_mut() = StatusCode::NO_CONTENT;
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// What is answered while every seat is taken.
    fn full(&self, id: &Value) -> Response {
        let why = format!(
            "there are {MAX_CLIENTS} sessions, and more are not held at a time: one that is not used ends after {} \
             seconds, and one that is deleted at once; try again then",
            self.idle.as_secs()
        );
        refusal(StatusCode::SERVICE_UNAVAILABLE, NO_SEAT, id, &why)
    }
}

fn refusal(status: StatusCode, code: i32, id: &Value, why: &str) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}});
    (status, [(header::CONTENT_TYPE, "application/json")], error.to_string()).into_response()
}

/// Refuses what is no message, as it is refused over lines: two readers of a key that is there twice need not agree.
/// With the id of a request that begins a session.
async fn strict(request: Request) -> Result<(Request, Option<Value>), Box<Response>> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if request.method() != Method::POST || !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return Ok((request, None));
    }
    let (head, body) = request.into_parts();
    let bytes = match tokio::time::timeout(TIME_TO_FINISH, axum::body::to_bytes(body, MAX_LINE)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return Err(Box::new((StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response()));
        }
        Err(_) => {
            let why = format!("the message was not whole within {} s", TIME_TO_FINISH.as_secs());
            return Err(Box::new((StatusCode::REQUEST_TIMEOUT, why).into_response()));
        }
    };
    let refused = |code, why: &str| Box::new(refusal(StatusCode::BAD_REQUEST, code, &Value::Null, why));
    let text = std::str::from_utf8(&bytes).map_err(|_| refused(-32700, "the message is not UTF-8"))?;
    let begins = match haft_core::json::parse(text) {
        Err(fault) => return Err(refused(-32700, fault.message())),
        Ok(Value::Array(_)) => return Err(refused(-32600, "batches are not taken: send one message")),
        Ok(mut message) => {
            let begins = message.get("method").is_some_and(|method| method == "initialize");
            begins.then(|| message.get_mut("id").map(Value::take).unwrap_or_default())
        }
    };
    Ok((Request::from_parts(head, Body::from(bytes)), begins))
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}
