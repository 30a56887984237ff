//! A server to connect to, with its configuration expanded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haft_core::Fault;
use haft_sandbox::sandbox::{Layer, Policy};

/// A server, and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name, which is a part of the names of its tools.
    pub name: String,
    /// How to connect to it.
    pub transport: ServerTransport,
    /// Its timeouts.
    pub limits: Limits,
    /// The handshake of a connection.
    pub protocol: Protocol,
    /// Whether to trust its `readOnlyHint`. Default: false, so that such a tool needs approval like any other.
    pub trusts_read_only: bool,
}

impl Server {
    /// A server with default limits.
    pub fn new(name: impl Into<String>, access: ServerTransport) -> Self {
        let name = name.into();
        Self {
            name,
            transport: access,
            limits: Limits::default(),
            protocol: Protocol::default(),
            trusts_read_only: false,
        }
    }
}

/// How to connect to a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerTransport {
    /// Start a program, and talk to it over its standard input and output.
    Command {
        /// The program: a path, or a name to look up in `PATH`.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its working directory. Default: the workspace's root.
        dir: Option<PathBuf>,
        /// Environment variables to set, besides the few that every server gets.
        env: BTreeMap<String, String>,
        /// Environment variables to inherit from haft.
        pass_env: Vec<String>,
    },
    /// The configuration is invalid. Connecting fails with this reason.
    Unusable(String),
    /// Connect to a URL over Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers to send with every request.
        headers: BTreeMap<String, String>,
        /// A bearer token to send with every request. Without one, the credentials of a login are used.
        bearer: Option<String>,
        /// How to log in.
        oauth: OAuth,
    },
}

/// Tells which sandbox a server is started in; `None` is none.
pub type ServerSandboxes = Arc<dyn Fn(&Server) -> Result<Option<ServerSandbox>, Fault> + Send + Sync>;

/// The sandbox of a server that haft starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSandbox {
    /// What the server may do.
    pub policy: Policy,
    /// Layers without which it is not started.
    pub required: Vec<Layer>,
    /// Why it is in a sandbox, and how that is changed: a part of its faults.
    pub about: String,
}

/// How haft logs in to a server. By default it registers itself dynamically.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The client id, if haft is registered already.
    pub client_id: Option<String>,
    /// The client secret that belongs to the client id.
    pub client_secret: Option<String>,
    /// The scopes to request. Empty: those that the server asks for.
    pub scopes: Vec<String>,
    /// The URL of a client metadata document, for servers that support it.
    pub client_metadata_url: Option<String>,
}

/// Omits what may be secret.
impl std::fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerTransport::Command { program, .. } => f.debug_tuple("Command").field(program).finish(),
            ServerTransport::Http { url, .. } => {
                let shown = url::Url::parse(url).map(|url| super::web::redacted(&url)).unwrap_or_default();
                f.debug_tuple("Http").field(&shown).finish()
            }
            ServerTransport::Unusable(why) => f.debug_tuple("Unusable").field(why).finish(),
        }
    }
}

/// Timeouts of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start until its tools are listed.
    pub start: Duration,
    /// For one call.
    pub call: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { start: Duration::from_secs(30), call: Duration::from_secs(600) }
    }
}

/// The handshake of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// `initialize`, which current servers expect. Falls back to `server/discover` if the server refuses it.
    #[default]
    Initialize,
    /// `server/discover`, without a session, as of protocol 2026-07-28.
    Discover,
}
