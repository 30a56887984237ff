//! Connects to a server, over pipes or HTTP, and explains failures: exit code, last lines of stderr, refused logins. A
//! server that haft starts ends with its connection.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::{Fault, FaultKind, message_with_causes};
use haft_sandbox::sandbox::Report;
use haft_sandbox::{Exit, Partner, Start, egress};
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, PingRequest, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::bounds;
use super::handler::{NotificationHandler, SharedState};
use super::listing::ServerInfo;
use super::login::{self, Logins};
use super::notifications::Observed;
use super::pipe::{Noise, Pipe, rejection};
use super::server::{Protocol, Server, ServerSandbox, ServerSandboxes, ServerTransport};
use super::web;

/// The most bytes of a server's stderr that are kept.
const MAX_STDERR: usize = 16 * 1024;
/// The most characters and lines of stderr in a fault.
const MAX_TAIL: usize = 1_500;
const MAX_TAIL_LINES: usize = 12;
/// How long to wait for the exit code of a server that has closed the connection.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long closing a connection may take, and how often it is polled: the SDK has no event for it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Environment variables that every server gets: needed by most programs, and not secret.
const DEFAULT_ENV: [&str; 17] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Where the servers that haft starts work.
pub(super) struct Place {
    /// The base of relative folders.
    pub(super) root: PathBuf,
    /// The sandbox of each server.
    pub(super) sandbox: Option<ServerSandboxes>,
}

/// An open connection, with the server's process if haft has started it.
pub(super) struct OpenConnection {
    pub(super) running: RunningService<RoleClient, NotificationHandler>,
    remote: Arc<RemoteEnd>,
    pub(super) about: ServerInfo,
    pub(super) since: Instant,
    /// Cancels `closed` when the connection is dropped.
    close_guard: DropGuard,
    /// The roots that the server was last notified of.
    folders: Mutex<Vec<PathBuf>>,
    logins: Logins,
}

/// The server's end of a connection.
#[derive(Default)]
struct RemoteEnd {
    partner: Option<Partner>,
    noise: Option<Arc<Noise>>,
    /// Which sandbox the server runs in, for faults.
    sandbox: Option<String>,
    /// The URL. Its query or user part may hold a secret, so faults show it without them.
    address: Option<Url>,
}

impl OpenConnection {
    /// Connects. Falls back to `server/discover` if the server refuses `initialize`.
    pub(super) async fn open(
        server: &Server,
        place: &Place,
        logins: &Logins,
        handler: impl Fn() -> NotificationHandler,
    ) -> Result<Self, Fault> {
        let discover =
            || ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let first = match server.protocol {
            Protocol::Initialize => ClientLifecycleMode::Initialize,
            Protocol::Discover => discover(),
        };
        match attempt(server, place, logins, handler(), first).await {
            Err((_, error)) if server.protocol == Protocol::Initialize && wants_discovery(&error) => {
                let again = attempt(server, place, logins, handler(), discover()).await;
                again.map_err(|(fault, _)| fault)
            }
            outcome => outcome.map_err(|(fault, _)| fault),
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    /// Notifies the server if the folders of the workspace have changed.
    pub(super) async fn sync_roots(&self, shared: &SharedState) {
        let current = shared.folders();
        let has_changed = {
            let mut known = self.folders.lock();
            let has_changed = *known != current;
            *known = current;
            has_changed
        };
        if has_changed {
            // Fails only if the connection is closed, which the next call reports.
            let _ = self.peer().notify_roots_list_changed().await;
        }
    }

    /// The round-trip time of a ping, if the server answers it.
    pub(super) async fn ping(&self, timeout: Duration) -> Option<Duration> {
        let sent = Instant::now();
        let ping = self.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
        tokio::time::timeout(timeout, ping).await.ok()?.ok()?;
        Some(sent.elapsed())
    }

    /// A token that is cancelled when the connection is dropped.
    pub(super) fn closed(&self) -> CancellationToken {
        self.close_guard.token().clone()
    }

    /// Whether the connection is closed or the server's process has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.running.is_closed()
            || self.peer().is_transport_closed()
            || self.remote.partner.as_ref().is_some_and(|partner| partner.exit().is_some())
    }

    /// The fault of a connection that the server has closed.
    pub(super) async fn exit_reason(&self, server: &str) -> Fault {
        self.remote.failed(server, "has hung up").await
    }

    /// Converts the error of a failed request to a fault.
    pub(super) async fn failed(&self, server: &str, error: ServiceError) -> Fault {
        match error {
            ServiceError::McpError(error) => refused(server, &error),
            ServiceError::TransportClosed => self.exit_reason(server).await,
            ServiceError::TransportSend(error) if login::challenge(&error).is_some() => {
                self.logins.challenged(login::challenge(&error));
                self.remote.failed(server, &login_required(server)).await
            }
            ServiceError::TransportSend(error) if is_broken_pipe(&*error.error) => {
                self.exit_reason(server).await
            }
            ServiceError::TransportSend(error) => {
                let why = format!("could not connect: {}", bounded_message(&*error.error));
                self.remote.failed(server, &why).await
            }
            ServiceError::UnexpectedResponse => {
                Fault::failed(format!("the MCP server `{server}` has answered something else than was asked"))
            }
            other => Fault::failed(format!("the MCP server `{server}`: {other}")),
        }
    }

    /// Closes the connection, and ends the server's process if haft has started it.
    pub(super) async fn close(&self) {
        self.running.cancellation_token().cancel();
        let closing = async {
            while !self.peer().is_transport_closed() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        // An HTTP server gets a request to end the session, and may not answer it.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
        self.remote.end().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // Dropping the transport closes the server's stdin. The task gives it time to exit by itself before it is killed.
        let remote = std::mem::take(&mut self.remote);
        if remote.partner.is_some()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { remote.end().await });
        }
    }
}

impl RemoteEnd {
    async fn end(&self) {
        if let Some(partner) = &self.partner {
            partner.end().await;
        }
    }

    /// The fault of a server that cannot be used, with its exit code and the last lines of its stderr.
    async fn failed(&self, server: &str, why: &str) -> Fault {
        let why = match &self.address {
            Some(address) => why.replace(address.as_str(), &web::redacted(address)),
            None => why.to_owned(),
        };
        let mut message = format!("the MCP server `{server}` {why}");
        let mut stderr = None;
        if let Some(partner) = &self.partner {
            let exit = tokio::time::timeout(EXIT_TIMEOUT, partner.ended()).await.ok();
            match exit {
                Some(Exit::Code(code)) => message = format!("{message}: its process ended with code {code}"),
                Some(Exit::Signal(signal)) => {
                    message = format!("{message}: its process was ended by signal {signal}")
                }
                _ => {}
            }
            if let Some(noise) = self.noise.as_ref().and_then(|noise| noise.summary()) {
                message = format!("{message}; {noise}");
            }
            if let Some(sandbox) = &self.sandbox {
                message = format!("{message}; {sandbox}");
            }
            let tail = last_lines(&partner.stderr_tail());
            if !tail.is_empty() {
                message = format!("{message}; it said last:\n{tail}");
                stderr = Some(tail);
            }
        }
        let fault = Fault::failed(message).hint(advice(server)).with("server", server);
        match stderr {
            Some(tail) => fault.with("stderr", tail),
            None => fault,
        }
    }
}

fn advice(server: &str) -> String {
    format!("go on without it, or have the user run `haft mcp test {server}`, which shows what is wrong")
}

/// The fault of a server that has not started in time.
pub(super) fn start_timeout(server: &Server) -> Fault {
    let seconds = server.limits.start.as_secs_f64();
    let name = &server.name;
    Fault::new(FaultKind::Timeout, format!("the MCP server `{name}` has not started within {seconds} s"))
        .hint(format!("{}; the user can set `startup_seconds` for it", advice(name)))
        .with("server", name)
}

/// The fault of an error response, or of a response that haft rejected.
fn refused(server: &str, error: &ErrorData) -> Fault {
    if let Some(why) = rejection(error) {
        let message = format!(
            "the MCP server `{server}` was not understood: {}",
            bounds::text(why, bounds::MAX_MESSAGE)
        );
        return Fault::failed(message).with("server", server);
    }
    let message = bounds::text(&error.message, bounds::MAX_MESSAGE);
    let kind = match error.code {
        ErrorCode::INVALID_PARAMS => FaultKind::InvalidInput,
        ErrorCode::RESOURCE_NOT_FOUND => FaultKind::NotFound,
        _ => FaultKind::Failed,
    };
    let message = if message.trim().is_empty() { format!("error {}", error.code.0) } else { message };
    Fault::new(kind, format!("the MCP server `{server}` says: {message}")).with("code", error.code.0)
}

/// Whether a server speaks the protocol, but refuses `initialize`.
fn wants_discovery(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            matches!(error.code, ErrorCode::METHOD_NOT_FOUND | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => true,
        _ => false,
    }
}

/// Connects with one kind of handshake.
async fn attempt(
    server: &Server,
    place: &Place,
    logins: &Logins,
    handler: NotificationHandler,
    lifecycle: ClientLifecycleMode,
) -> Result<OpenConnection, (Fault, ClientInitializeError)> {
    let unreachable = |why: String| {
        let fault = Fault::failed(format!("the MCP server `{}` cannot be reached: {why}", server.name))
            .hint(advice(&server.name))
            .with("server", &server.name);
        (fault, ClientInitializeError::Cancelled)
    };
    let folders = handler.shared.folders();
    let mut remote = RemoteEnd::default();
    let connected = match &server.transport {
        ServerTransport::Command { .. } => {
            let sandbox = match &place.sandbox {
                Some(sandboxes) => {
                    sandboxes(server).map_err(|fault| (fault, ClientInitializeError::Cancelled))?
                }
                None => None,
            };
            let (partner, pipe, noise) = start(&server.transport, &place.root, sandbox.as_ref())
                .await
                .map_err(|error| unreachable(error.to_string()))?;
            (remote.partner, remote.noise) = (Some(partner), Some(noise));
            remote.sandbox = sandbox.map(|sandbox| sandbox.about);
            serve(handler, pipe, lifecycle).await
        }
        ServerTransport::Unusable(why) => return Err(unreachable(why.clone())),
        ServerTransport::Http { url, headers, bearer, .. } => {
            remote.address = Url::parse(url).ok();
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            config = config.custom_headers(web::headers(headers).map_err(unreachable)?);
            if let Some(bearer) = bearer {
                config = config.auth_header(bearer.as_str());
            }
            let web = egress::library_client().map_err(|error| unreachable(bounded_message(&error)))?;
            let authorized = match bearer {
                Some(_) => None,
                None => logins.authorized(url, web.clone()).await.map_err(unreachable)?,
            };
            match authorized {
                Some(web) => {
                    serve(handler, StreamableHttpClientTransport::with_client(web, config), lifecycle).await
                }
                None => {
                    serve(handler, StreamableHttpClientTransport::with_client(web, config), lifecycle).await
                }
            }
        }
    };
    match connected {
        Ok(running) => {
            let about = running.peer().peer_info().map(|info| ServerInfo::read(&info)).unwrap_or_default();
            let close_guard = CancellationToken::new().drop_guard();
            Ok(OpenConnection {
                running,
                remote: Arc::new(remote),
                about,
                since: Instant::now(),
                close_guard,
                folders: Mutex::new(folders),
                logins: logins.clone(),
            })
        }
        Err(error) => {
            logins.challenged(error.auth_challenge());
            let why = connect_error(&error, &server.name);
            let fault = remote.failed(&server.name, &why).await;
            remote.end().await;
            Err((fault, error))
        }
    }
}

/// Runs the handshake on a transport whose notifications are observed.
async fn serve(
    handler: NotificationHandler,
    inner: impl Transport<RoleClient> + 'static,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, NotificationHandler>, ClientInitializeError> {
    let (server, shared) = (handler.server.clone(), handler.shared.clone());
    handler.serve_with_lifecycle(Observed { inner, server, shared }, lifecycle).await
}

/// Why a handshake failed.
fn connect_error(error: &ClientInitializeError, server: &str) -> String {
    if error.is_authorization_required() {
        return login_required(server);
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => HUNG_UP.to_owned(),
        ClientInitializeError::TransportError { error, .. } if is_broken_pipe(&*error.error) => {
            HUNG_UP.to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            format!("cannot be reached: {}", bounded_message(&*error.error))
        }
        ClientInitializeError::JsonRpcError(error) if rejection(error).is_some() => {
            format!("was not understood: {}", bounds::text(&error.message, bounds::MAX_WORD))
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("refuses to begin: {}", bounds::text(&error.message, bounds::MAX_WORD))
        }
        other => {
            format!("does not speak the protocol: {}", bounds::text(&other.to_string(), bounds::MAX_WORD))
        }
    }
}

/// The message for a server that requires a login.
fn login_required(server: &str) -> String {
    format!(
        "wants to know for whom it works: log in with `haft mcp login {server}`, or set its `bearer_token`"
    )
}

/// The message for a server that closes the connection during the handshake.
const HUNG_UP: &str = "has hung up before it had begun";

/// Whether an error is a broken pipe. It counts like the end of the input: which of the two comes first when a server
/// exits is a race.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_broken = error
        .downcast_ref()
        .is_some_and(|error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe);
    is_broken || error.source().is_some_and(is_broken_pipe)
}

/// An error with its causes, bounded since a server writes them.
fn bounded_message(error: &(dyn std::error::Error + 'static)) -> String {
    bounds::text(&message_with_causes(error), bounds::MAX_MESSAGE)
}

/// An environment variable set for every server that haft starts. A project may name haft itself as a server, directly or
/// behind a script; without the mark each haft would start another one.
const NESTED: &str = "HAFT_NESTED";

async fn start(
    access: &ServerTransport,
    root: &Path,
    sandbox: Option<&ServerSandbox>,
) -> std::io::Result<(Partner, Pipe, Arc<Noise>)> {
    let ServerTransport::Command { program, args, dir, env, pass_env } = access else {
        return Err(std::io::ErrorKind::Unsupported.into());
    };
    if std::env::var_os(NESTED).is_some() {
        return Err(std::io::Error::other(
            "it is not started: this haft was itself started as a server of another haft, which has servers of its own",
        ));
    }
    let is_inherited = |name: &OsString| {
        let name = name.to_string_lossy();
        DEFAULT_ENV.contains(&&*name)
            || name.starts_with("LC_")
            || pass_env.iter().any(|passed| *passed == name)
    };
    let inherited = std::env::vars_os()
        .filter(|(name, _)| is_inherited(name) && !env.contains_key(&*name.to_string_lossy()));
    let set = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let start = Start {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        dir: dir.as_ref().map_or_else(|| root.to_owned(), |dir| root.join(dir)),
        env: inherited.chain(set).chain([(NESTED.into(), "1".into())]).collect(),
        max_stderr: MAX_STDERR,
    };
    let (partner, pipes) = match sandbox {
        None => Partner::start(&start)?,
        Some(ServerSandbox { policy, required, .. }) => {
            let check = |report: &Report| match required.iter().find(|layer| !report.has(**layer)) {
                None => Ok(()),
                Some(layer) => Err(std::io::Error::other(format!(
                    "it has to run in a sandbox with {}, and there is none here; `haft doctor` tells why",
                    layer.made_of()
                ))),
            };
            Partner::start_in_sandbox(policy, check, &start).await?
        }
    };
    let (pipe, noise) = Pipe::new(pipes);
    Ok((partner, pipe, noise))
}

/// The last lines of stderr, without blank ones.
fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let kept = lines[lines.len().saturating_sub(MAX_TAIL_LINES)..].join("\n");
    let from = kept.ceil_char_boundary(kept.len().saturating_sub(MAX_TAIL));
    bounds::text(&kept[from..], MAX_TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let stderr: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
        let tail = last_lines(&stderr);
        assert!(tail.starts_with("line 88") && tail.ends_with("line 99"), "{tail}");
        assert!(last_lines(&"é".repeat(5_000)).chars().count() <= MAX_TAIL);
    }
}
