//! The set of servers of one or more sessions. Each server is started on first use; a failure of one does not affect the
//! others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::{DynTool, Fault, FaultKind, Session, Store};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::connect::{OpenConnection, Place};
use super::link::{Link, ServerState, ServerStatus};
use super::login::LoginBrowser;
use super::resources::NAMES;
use super::server::{Server, ServerSandboxes};
use crate::name::belongs_to;

/// Servers whose tools are added to sessions. Cheap to clone. The servers end when the last clone and all sessions that
/// have joined are dropped.
///
/// ```no_run
/// # async fn example(session: haft_core::Session) {
/// use haft_mcp::client::{Server, ServerTransport, Servers};
///
/// let url = "https://mcp.example.com/mcp".to_owned();
/// let (headers, oauth) = (Default::default(), Default::default());
/// let transport = ServerTransport::Http { url, headers, bearer: None, oauth };
/// let servers = Servers::new(vec![Server::new("example", transport)], ".".as_ref());
/// servers.join(&session);
/// servers.start_all().await; // adds their tools to the session
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Servers(Arc<Vec<Arc<Link>>>);

impl PartialEq for Servers {
    /// Whether both are clones of the same set.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The result of [`Servers::test`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TestResult {
    /// The server's status after the test.
    pub status: ServerStatus,
    /// How long it took to start and list its tools.
    pub started_in: Duration,
    /// The round-trip time of a ping, if the server answers it.
    pub latency: Option<Duration>,
}

/// The servers that a session has joined. An extension of the session, so they are dropped with it.
#[derive(Default)]
pub(super) struct Joined(Mutex<Vec<Servers>>);

impl Joined {
    pub(super) fn of(session: &Session) -> Vec<Arc<Link>> {
        Servers::joined(session).iter().flat_map(|servers| servers.0.iter().cloned()).collect()
    }
}

impl Servers {
    /// A set of servers, none of them started. Relative folders are based on `root`. Of two servers with the same name the
    /// later one counts.
    pub fn new(servers: Vec<Server>, root: &Path) -> Self {
        Self::with(servers, root, None, None)
    }

    /// A set of servers that stores the credentials of logins, otherwise like [`Servers::new`].
    pub fn with_login_store(servers: Vec<Server>, root: &Path, logins: &Store) -> Self {
        Self::with(servers, root, Some(logins), None)
    }

    /// A set of servers that stores the credentials of logins and starts servers in their sandboxes, otherwise like
    /// [`Servers::new`].
    pub fn with_sandboxes(
        servers: Vec<Server>,
        root: &Path,
        logins: &Store,
        sandbox: ServerSandboxes,
    ) -> Self {
        Self::with(servers, root, Some(logins), Some(sandbox))
    }

    fn with(
        servers: Vec<Server>,
        root: &Path,
        logins: Option<&Store>,
        sandbox: Option<ServerSandboxes>,
    ) -> Self {
        let mut links: Vec<Arc<Link>> = Vec::new();
        for server in servers {
            links.retain(|link| link.server.name != server.name);
            links.push(Link::new(server, Place { root: root.to_owned(), sandbox: sandbox.clone() }, logins));
        }
        Self(Arc::new(links))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the servers' tools to a session, as soon as they are listed and whenever they change. The session keeps the
    /// servers alive.
    pub fn join(&self, session: &Session) {
        if self.is_empty() {
            return;
        }
        let joined = session.extension::<Joined>();
        joined.0.lock().push(self.clone());
        let servers = self.clone();
        session.tools().explain(move |tool| servers.missing(tool));
        for link in self.0.iter() {
            link.join(session);
        }
    }

    /// The servers that a session has joined.
    pub fn joined(session: &Session) -> Vec<Servers> {
        session.extension::<Joined>().0.lock().clone()
    }

    /// Why a tool is unknown: its server is not running.
    fn missing(&self, tool: &str) -> Option<Fault> {
        self.links_for(tool).find_map(|link| match link.status().state {
            ServerState::Down(fault) => Some(fault),
            ServerState::Idle => {
                let message = format!("the MCP server `{}` has not been started", link.server.name);
                Some(Fault::new(FaultKind::Disabled, message))
            }
            ServerState::Up(_) => None,
        })
    }

    /// The tools of all running servers, for use without a session.
    pub fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.0.iter().flat_map(Link::tools).collect()
    }

    /// The status of each server.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.0.iter().map(|link| link.status()).collect()
    }

    fn link(&self, server: &str) -> Result<&Arc<Link>, Fault> {
        let found = self.0.iter().find(|link| link.server.name == server);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|link| link.server.name.as_str()).collect();
            let fault = Fault::new(FaultKind::NotFound, format!("there is no MCP server `{server}`"));
            let known = haft_core::suggest::or_list(&names);
            if names.is_empty() {
                fault.hint("none is set up")
            } else {
                fault.hint(format!("there is {known}"))
            }
        })
    }

    /// The connection to a server, opened if there is none.
    pub(super) async fn connection(&self, server: &str) -> Result<Arc<OpenConnection>, Fault> {
        self.link(server)?.connection().await
    }

    /// Starts a server, unless it is running.
    pub async fn start(&self, server: &str) -> Result<ServerStatus, Fault> {
        let link = self.link(server)?;
        link.connection().await?;
        Ok(link.status())
    }

    /// Starts all servers that are not running, concurrently. The status of each says whether it failed.
    pub async fn start_all(&self) -> Vec<ServerStatus> {
        start(self.0.iter().cloned()).await;
        self.status()
    }

    /// Starts the servers that may have tools of these names, concurrently. Ignores names of other tools.
    pub async fn start_for(&self, tools: &[&str]) {
        let mut wanted: Vec<Arc<Link>> = Vec::new();
        for link in tools.iter().flat_map(|tool| self.links_for(tool)) {
            if !wanted.iter().any(|known| Arc::ptr_eq(known, link)) {
                wanted.push(link.clone());
            }
        }
        start(wanted.into_iter()).await;
    }

    /// Whether a server that is not running may have a tool of this name.
    pub fn may_have(&self, tool: &str) -> bool {
        self.links_for(tool).any(|link| link.about().is_none())
    }

    /// The links whose server may have a tool of this name.
    fn links_for(&self, tool: &str) -> impl Iterator<Item = &Arc<Link>> {
        let is_of_all = NAMES.contains(&tool);
        self.0.iter().filter(move |link| is_of_all || belongs_to(tool, &link.server.name))
    }

    /// Starts a server, and pings it.
    pub async fn test(&self, server: &str) -> Result<TestResult, Fault> {
        let link = self.link(server)?;
        let begin = Instant::now();
        let connection = link.connection().await?;
        let started_in = begin.elapsed();
        let latency = connection.ping(link.server.limits.start).await;
        Ok(TestResult { status: link.status(), started_in, latency })
    }

    /// Logs in to a server. `visitor` sends the user to the login page.
    pub async fn login(&self, server: &str, visitor: &dyn LoginBrowser) -> Result<(), Fault> {
        let link = self.link(server)?;
        // The response to an unauthorized request says where the login page is.
        if link.connection().await.is_ok() {
            link.close().await;
        }
        link.login(visitor).await
    }

    /// Ends all servers. The next use starts them again.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for link in self.0.iter() {
            let link = link.clone();
            closing.spawn(async move { link.close().await });
        }
        while closing.join_next().await.is_some() {}
    }
}

async fn start(links: impl Iterator<Item = Arc<Link>>) {
    let mut starting = JoinSet::new();
    for link in links {
        // The server's status has the reason of a failure.
        starting.spawn(async move { drop(link.connection().await) });
    }
    while starting.join_next().await.is_some() {}
}
