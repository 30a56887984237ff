//! From a server as it is described to a connection that is open, and to why it is not. A server that haft starts is
//! ended with its connection.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::{Fault, FaultKind};
use haft_sandbox::{Exit, Partner, Start};
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
use super::handler::{Ears, Surroundings};
use super::listing::About;
use super::login::{self, Logins};
use super::overhear::Overheard;
use super::pipe::{Noise, Pipe, not_taken};
use super::server::{Access, Protocol, Server};
use super::web;

/// So much of what a server says on standard error is kept.
const MAX_SAID: usize = 16 * 1024;
/// So much of that is told when it fails.
const MAX_TOLD: usize = 1_500;
const MAX_TOLD_LINES: usize = 12;
/// How long it may take until it is known how a server ended that hangs up.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long hanging up may take, and how often it is looked whether it is done.
const FAREWELL: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(2);

/// Variables that every program needs, and that are no secrets.
const PASSED: [&str; 17] = [
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

/// A connection that is open, and the process at its other end if haft has started that.
pub(super) struct Live {
    pub(super) running: RunningService<RoleClient, Ears>,
    end: Arc<End>,
    pub(super) about: About,
    pub(super) since: Instant,
    /// Cancelled with this.
    over: DropGuard,
    /// The folders that the server knows of.
    folders: Mutex<Vec<PathBuf>>,
    logins: Logins,
}

/// The other end of a connection.
#[derive(Default)]
struct End {
    partner: Option<Partner>,
    noise: Option<Arc<Noise>>,
    /// An address that may hold a secret.
    address: Option<Url>,
}

impl Live {
    /// Begins a connection.
    pub(super) async fn open(
        server: &Server,
        root: &Path,
        logins: &Logins,
        ears: impl Fn() -> Ears,
    ) -> Result<Self, Fault> {
        let newest =
            || ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let first = match server.protocol {
            Protocol::Initialize => ClientLifecycleMode::Initialize,
            Protocol::Discover => newest(),
        };
        match attempt(server, root, logins, ears(), first).await {
            Err((_, error)) if server.protocol == Protocol::Initialize && wants_discovery(&error) => {
                let again = attempt(server, root, logins, ears(), newest()).await;
                again.map_err(|(fault, _)| fault)
            }
            outcome => outcome.map_err(|(fault, _)| fault),
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    /// Tells the server if the folders of the workspace are others than it knows.
    pub(super) async fn tell_folders(&self, surroundings: &Surroundings) {
        let now = surroundings.folders();
        let is_news = {
            let mut known = self.folders.lock();
            let is_news = *known != now;
            *known = now;
            is_news
        };
        if is_news {
            // One that cannot be told will not answer a call, either.
            let _ = self.peer().notify_roots_list_changed().await;
        }
    }

    /// How long the server takes to answer, if it does.
    pub(super) async fn ping(&self, patience: Duration) -> Option<Duration> {
        let asked = Instant::now();
        let ping = self.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
        tokio::time::timeout(patience, ping).await.ok()?.ok()?;
        Some(asked.elapsed())
    }

    /// Cancelled when this is dropped.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.token().clone()
    }

    /// Whether nothing can be asked any more.
    pub(super) fn is_over(&self) -> bool {
        self.running.is_closed()
            || self.peer().is_transport_closed()
            || self.end.partner.as_ref().is_some_and(|partner| partner.exit().is_some())
    }

    /// Why it is over.
    pub(super) async fn obituary(&self, server: &str) -> Fault {
        self.end.failed(server, "has hung up").await
    }

    /// What a request that failed says of the server.
    pub(super) async fn failed(&self, server: &str, error: ServiceError) -> Fault {
        match error {
            ServiceError::McpError(error) => refused(server, &error),
            ServiceError::TransportClosed => self.obituary(server).await,
            ServiceError::TransportSend(error) if login::challenge(&error).is_some() => {
                self.logins.challenged(login::challenge(&error));
                self.end.failed(server, &unknown_here(server)).await
            }
            ServiceError::TransportSend(error) if is_gone(&*error.error) => self.obituary(server).await,
            ServiceError::TransportSend(error) => {
                let why = format!("could not be spoken to: {}", chain(&*error.error));
                self.end.failed(server, &why).await
            }
            ServiceError::UnexpectedResponse => {
                Fault::failed(format!("the MCP server `{server}` has answered something else than was asked"))
            }
            other => Fault::failed(format!("the MCP server `{server}`: {other}")),
        }
    }

    /// Ends the connection, and the process at its other end.
    pub(super) async fn close(&self) {
        self.running.cancellation_token().cancel();
        let hanging_up = async {
            while !self.peer().is_transport_closed() {
                tokio::time::sleep(GLANCE).await;
            }
        };
        // A server that is somewhere else is told, too; but it need not listen.
        let _ = tokio::time::timeout(FAREWELL, hanging_up).await;
        self.end.end().await;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The connection ends by being dropped, and by that the server is told. It may end by itself if there is time.
        let end = std::mem::take(&mut self.end);
        if end.partner.is_some()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { end.end().await });
        }
    }
}

impl End {
    async fn end(&self) {
        if let Some(partner) = &self.partner {
            partner.end().await;
        }
    }

    /// The fault of a server that cannot be spoken to, with how it ended and what it said last.
    async fn failed(&self, server: &str, why: &str) -> Fault {
        let why = match &self.address {
            Some(address) => why.replace(address.as_str(), &web::shown(address)),
            None => why.to_owned(),
        };
        let mut message = format!("the MCP server `{server}` {why}");
        let mut fault_details = None;
        if let Some(partner) = &self.partner {
            let exit = tokio::time::timeout(LAST_WORDS, partner.ended()).await.ok();
            match exit {
                Some(Exit::Code(code)) => message = format!("{message}: its process ended with code {code}"),
                Some(Exit::Signal(signal)) => {
                    message = format!("{message}: its process was ended by signal {signal}")
                }
                _ => {}
            }
            if let Some(noise) = self.noise.as_ref().and_then(|noise| noise.told()) {
                message = format!("{message}; {noise}");
            }
            let said = last_words(&partner.said());
            if !said.is_empty() {
                message = format!("{message}; it said last:\n{said}");
                fault_details = Some(said);
            }
        }
        let fault = Fault::failed(message).hint(advice(server)).with("server", server);
        match fault_details {
            Some(said) => fault.with("stderr", said),
            None => fault,
        }
    }
}

fn advice(server: &str) -> String {
    format!("go on without it, or have the user run `haft mcp test {server}`, which shows what is wrong")
}

/// The fault of a server that has not started in time.
pub(super) fn too_slow(server: &Server) -> Fault {
    let seconds = server.limits.start.as_secs_f64();
    let name = &server.name;
    Fault::new(FaultKind::Timeout, format!("the MCP server `{name}` has not started within {seconds} s"))
        .hint(format!("{}; the user can set `startup_seconds` for it", advice(name)))
        .with("server", name)
}

/// What a server refuses, or what it answered that was not taken.
fn refused(server: &str, error: &ErrorData) -> Fault {
    if let Some(why) = not_taken(error) {
        let told = format!(
            "the MCP server `{server}` was not understood: {}",
            bounds::text(why, bounds::MAX_MESSAGE)
        );
        return Fault::failed(told).with("server", server);
    }
    let said = bounds::text(&error.message, bounds::MAX_MESSAGE);
    let kind = match error.code {
        ErrorCode::INVALID_PARAMS => FaultKind::InvalidInput,
        ErrorCode::RESOURCE_NOT_FOUND => FaultKind::NotFound,
        _ => FaultKind::Failed,
    };
    let said = if said.trim().is_empty() { format!("error {}", error.code.0) } else { said };
    Fault::new(kind, format!("the MCP server `{server}` says: {said}")).with("code", error.code.0)
}

/// Whether a server speaks, but not as it was spoken to.
fn wants_discovery(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            matches!(error.code, ErrorCode::METHOD_NOT_FOUND | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => true,
        _ => false,
    }
}

async fn attempt(
    server: &Server,
    root: &Path,
    logins: &Logins,
    ears: Ears,
    lifecycle: ClientLifecycleMode,
) -> Result<Live, (Fault, ClientInitializeError)> {
    let wrong = |why: String| {
        let fault = Fault::failed(format!("the MCP server `{}` cannot be reached: {why}", server.name))
            .hint(advice(&server.name))
            .with("server", &server.name);
        (fault, ClientInitializeError::Cancelled)
    };
    let folders = ears.surroundings.folders();
    let mut end = End::default();
    let begun = match &server.access {
        Access::Command { .. } => {
            let (partner, pipe, noise) =
                start(&server.access, root).map_err(|error| wrong(error.to_string()))?;
            (end.partner, end.noise) = (Some(partner), Some(noise));
            serve(ears, pipe, lifecycle).await
        }
        Access::Unusable(why) => return Err(wrong(why.clone())),
        Access::Http { url, headers, bearer, .. } => {
            end.address = Url::parse(url).ok();
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            config = config.custom_headers(web::headers(headers).map_err(wrong)?);
            if let Some(bearer) = bearer {
                config = config.auth_header(bearer.as_str());
            }
            let web = web::client().map_err(|error| wrong(chain(&error)))?;
            let authorized = match bearer {
                Some(_) => None,
                None => logins.authorized(url, web.clone()).await.map_err(wrong)?,
            };
            match authorized {
                Some(web) => {
                    serve(ears, StreamableHttpClientTransport::with_client(web, config), lifecycle).await
                }
                None => serve(ears, StreamableHttpClientTransport::with_client(web, config), lifecycle).await,
            }
        }
    };
    match begun {
        Ok(running) => {
            let about = running.peer().peer_info().map(|info| About::read(&info)).unwrap_or_default();
            let over = CancellationToken::new().drop_guard();
            Ok(Live {
                running,
                end: Arc::new(end),
                about,
                since: Instant::now(),
                over,
                folders: Mutex::new(folders),
                logins: logins.clone(),
            })
        }
        Err(error) => {
            logins.challenged(error.auth_challenge());
            let why = unwelcome(&error, &server.name);
            let fault = end.failed(&server.name, &why).await;
            end.end().await;
            Err((fault, error))
        }
    }
}

/// Begins a connection that is listened to.
async fn serve(
    ears: Ears,
    inner: impl Transport<RoleClient> + 'static,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Ears>, ClientInitializeError> {
    let (server, surroundings) = (ears.server.clone(), ears.surroundings.clone());
    ears.serve_with_lifecycle(Overheard { inner, server, surroundings }, lifecycle).await
}

/// Why a connection could not be begun.
fn unwelcome(error: &ClientInitializeError, server: &str) -> String {
    if error.is_authorization_required() {
        return unknown_here(server);
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => HUNG_UP.to_owned(),
        ClientInitializeError::TransportError { error, .. } if is_gone(&*error.error) => HUNG_UP.to_owned(),
        ClientInitializeError::TransportError { error, .. } => {
            format!("cannot be reached: {}", chain(&*error.error))
        }
        ClientInitializeError::JsonRpcError(error) if not_taken(error).is_some() => {
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

/// What is said of a server that does not know for whom haft acts.
fn unknown_here(server: &str) -> String {
    format!(
        "wants to know for whom it works: log in with `haft mcp login {server}`, or set its `bearer_token`"
    )
}

/// What is told of a server that ends before anything was said.
const HUNG_UP: &str = "has hung up before it had begun";

/// Whether an error says no more than that nobody listens: whether that is met while something is said to a server or
/// while it is listened to is a matter of moments.
fn is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_broken = error
        .downcast_ref()
        .is_some_and(|error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe);
    is_broken || error.source().is_some_and(is_gone)
}

/// An error with what caused it, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    bounds::text(&text, bounds::MAX_MESSAGE)
}

fn start(access: &Access, root: &Path) -> std::io::Result<(Partner, Pipe, Arc<Noise>)> {
    let Access::Command { program, args, dir, env, pass_env } = access else {
        return Err(std::io::ErrorKind::Unsupported.into());
    };
    let is_passed = |name: &OsString| {
        let name = name.to_string_lossy();
        PASSED.contains(&&*name) || name.starts_with("LC_") || pass_env.iter().any(|passed| *passed == name)
    };
    let own = std::env::vars_os()
        .filter(|(name, _)| is_passed(name) && !env.contains_key(&*name.to_string_lossy()));
    let set = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let (partner, pipes) = Partner::start(&Start {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        dir: dir.as_ref().map_or_else(|| root.to_owned(), |dir| root.join(dir)),
        env: own.chain(set).collect(),
        max_said: MAX_SAID,
    })?;
    let (pipe, noise) = Pipe::new(pipes);
    Ok((partner, pipe, noise))
}

/// The last lines of a text.
fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let kept = lines[lines.len().saturating_sub(MAX_TOLD_LINES)..].join("\n");
    let from = kept.ceil_char_boundary(kept.len().saturating_sub(MAX_TOLD));
    bounds::text(&kept[from..], MAX_TOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_words_are_told() {
        let said: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
        let told = last_words(&said);
        assert!(told.starts_with("line 88") && told.ends_with("line 99"), "{told}");
        assert!(last_words(&"é".repeat(5_000)).chars().count() <= MAX_TOLD);
    }
}
