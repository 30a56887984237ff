//! The servers of one or more sessions, together. Each is started when it is first wanted; what one does, or fails to do,
//! is no matter of the others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::{DynTool, Fault, FaultKind, Session, Store};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::connect::Live;
use super::link::{Link, State, Status};
use super::login::Visitor;
use super::resources::NAMES;
use super::server::Server;
use crate::name::is_of;

/// Servers whose tools are offered to sessions. Cheap to clone; when the last one is dropped, and the sessions that have
/// joined are, the servers end.
///
/// ```no_run
/// # async fn example(session: haft::Session) {
/// use haft_mcp::client::{Access, Server, Servers};
///
/// let url = "https://mcp.example.com/mcp".to_owned();
/// let access = Access::Http { url, headers: Default::default(), bearer: None, oauth: Default::default() };
/// let servers = Servers::new(vec![Server::new("example", access)], ".".as_ref());
/// servers.join(&session);
/// servers.start_all().await; // now their tools are the session's
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Servers(Arc<Vec<Arc<Link>>>);

impl PartialEq for Servers {
    /// Whether they are the same, and not only alike.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A server that was tried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tested {
    /// How it stands now.
    pub status: Status,
    /// How long it took to start and to tell its tools.
    pub started_in: Duration,
    /// How long it takes to answer.
    pub latency: Option<Duration>,
}

/// The servers that a session has joined: with the session they are dropped.
#[derive(Default)]
pub(super) struct Joined(Mutex<Vec<Servers>>);

impl Joined {
    pub(super) fn of(session: &Session) -> Vec<Arc<Link>> {
        Servers::joined(session).iter().flat_map(|servers| servers.0.iter().cloned()).collect()
    }
}

impl Servers {
    /// Servers, of which none is started yet. Relative folders begin at `root`. Of two with the same name the later one
    /// counts.
    pub fn new(servers: Vec<Server>, root: &Path) -> Self {
        Self::with(servers, root, None)
    }

    /// The same, with a place where it is kept how haft has logged in to them.
    pub fn keeping_logins(servers: Vec<Server>, root: &Path, logins: &Store) -> Self {
        Self::with(servers, root, Some(logins))
    }

    fn with(servers: Vec<Server>, root: &Path, logins: Option<&Store>) -> Self {
        let mut links: Vec<Arc<Link>> = Vec::new();
        for server in servers {
            links.retain(|link| link.server.name != server.name);
            links.push(Link::new(server, root.to_owned(), logins));
        }
        Self(Arc::new(links))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Offers the tools of the servers to a session, as they become known and whenever they change. They are kept for as
    /// long as the session is.
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

    /// Why there is no tool of a name: its server is not there.
    fn missing(&self, tool: &str) -> Option<Fault> {
        self.having(tool).find_map(|link| match link.status().state {
            State::Down(fault) => Some(fault),
            State::Idle => {
                let told = format!("the MCP server `{}` has not been started", link.server.name);
                Some(Fault::new(FaultKind::Disabled, told))
            }
            State::Up(_) => None,
        })
    }

    /// Every tool of the servers that are there, for whoever has no session.
    pub fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.0.iter().flat_map(Link::tools).collect()
    }

    /// How each server stands.
    pub fn status(&self) -> Vec<Status> {
        self.0.iter().map(|link| link.status()).collect()
    }

    fn link(&self, server: &str) -> Result<&Arc<Link>, Fault> {
        let found = self.0.iter().find(|link| link.server.name == server);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|link| link.server.name.as_str()).collect();
            let fault = Fault::new(FaultKind::NotFound, format!("there is no MCP server `{server}`"));
            let known = haft::suggest::or_list(&names);
            if names.is_empty() {
                fault.hint("none is set up")
            } else {
                fault.hint(format!("there is {known}"))
            }
        })
    }

    /// A connection to a server.
    pub(super) async fn live(&self, server: &str) -> Result<Arc<Live>, Fault> {
        self.link(server)?.live().await
    }

    /// Starts a server, unless it is there already.
    pub async fn start(&self, server: &str) -> Result<Status, Fault> {
        let link = self.link(server)?;
        link.live().await?;
        Ok(link.status())
    }

    /// Starts all servers at once, those that are not there already. One that cannot be started is told in its status.
    pub async fn start_all(&self) -> Vec<Status> {
        start(self.0.iter().cloned()).await;
        self.status()
    }

    /// Starts the servers, all at once, that may have tools of these names. Other names are passed over.
    pub async fn start_for(&self, tools: &[&str]) {
        let mut wanted: Vec<Arc<Link>> = Vec::new();
        for link in tools.iter().flat_map(|tool| self.having(tool)) {
            if !wanted.iter().any(|known| Arc::ptr_eq(known, link)) {
                wanted.push(link.clone());
            }
        }
        start(wanted.into_iter()).await;
    }

    /// Whether a tool of this name may be one of a server that is not there yet.
    pub fn may_have(&self, tool: &str) -> bool {
        self.having(tool).any(|link| link.about().is_none())
    }

    fn having(&self, tool: &str) -> impl Iterator<Item = &Arc<Link>> {
        let is_of_all = NAMES.contains(&tool);
        self.0.iter().filter(move |link| is_of_all || is_of(tool, &link.server.name))
    }

    /// Starts a server, and asks it something.
    pub async fn test(&self, server: &str) -> Result<Tested, Fault> {
        let link = self.link(server)?;
        let begun = Instant::now();
        let live = link.live().await?;
        let started_in = begun.elapsed();
        let latency = live.ping(link.server.limits.start).await;
        Ok(Tested { status: link.status(), started_in, latency })
    }

    /// Logs in to a server. Whoever is sent to a page for that is the user.
    pub async fn login(&self, server: &str, visitor: &dyn Visitor) -> Result<(), Fault> {
        let link = self.link(server)?;
        // What it answers to somebody it does not know tells where the login is.
        if link.live().await.is_ok() {
            link.close().await;
        }
        link.login(visitor).await
    }

    /// Ends all servers that are there. They are started again when they are wanted.
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
        // Why one cannot be started is in its status.
        starting.spawn(async move { drop(link.live().await) });
    }
    while starting.join_next().await.is_some() {}
}
