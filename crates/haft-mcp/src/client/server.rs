//! A server as it is to be reached, with everything expanded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A server and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What it is called here. It is a part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub access: ServerTransport,
    /// How long things may take.
    pub limits: Limits,
    /// How a connection is begun.
    pub protocol: Protocol,
    /// Whether its word is taken that a tool only reads. If not, such a tool is asked about like any other.
    pub believed: bool,
}

impl Server {
    /// A server with the usual limits.
    pub fn new(name: impl Into<String>, access: ServerTransport) -> Self {
        let name = name.into();
        Self { name, access, limits: Limits::default(), protocol: Protocol::default(), believed: false }
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerTransport {
    /// It is started, and spoken to over its standard input and output.
    Command {
        /// The program: a path, or a name to be found in `PATH`.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// The folder it works in; the workspace's root if there is none.
        dir: Option<PathBuf>,
        /// Variables of its environment, besides the few that every server gets.
        env: BTreeMap<String, String>,
        /// Variables that it is given as haft has them.
        pass_env: Vec<String>,
    },
    /// It cannot be reached as it is written, and why: to be told to whoever wants it.
    Unusable(String),
    /// It is there, and spoken to over Streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// Headers that every request carries.
        headers: BTreeMap<String, String>,
        /// A token that every request carries. Where there is none, a login is used if there was one.
        bearer: Option<String>,
        /// How haft logs in.
        oauth: OAuth,
    },
}

/// How haft logs in to a server. Where nothing is said, it makes itself known to the server's own login by itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The name under which haft is known there already.
    pub client_id: Option<String>,
    /// The secret that goes with it.
    pub client_secret: Option<String>,
    /// What haft asks to be allowed; what the server wants when there are none.
    pub scopes: Vec<String>,
    /// Where a document tells who haft is, for servers that read such.
    pub client_metadata_url: Option<String>,
}

/// Written out without what may be secret.
impl std::fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerTransport::Command { program, .. } => f.debug_tuple("Command").field(program).finish(),
            ServerTransport::Http { url, .. } => {
                let shown = url::Url::parse(url).map(|url| super::web::shown(&url)).unwrap_or_default();
                f.debug_tuple("Http").field(&shown).finish()
            }
            ServerTransport::Unusable(why) => f.debug_tuple("Unusable").field(why).finish(),
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start until the tools are known.
    pub start: Duration,
    /// A call.
    pub call: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { start: Duration::from_secs(30), call: Duration::from_secs(600) }
    }
}

/// How a connection is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// With `initialize`, as servers of today expect it. One that refuses that is asked with `server/discover`.
    #[default]
    Initialize,
    /// With `server/discover`, without a session: the way of 2026-07-28.
    Discover,
}
