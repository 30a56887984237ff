//! One server over its lifetime: started on first use and restarted with back-off when it has died. Publishes its tools to
//! every session that has joined.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use haft_core::{DynTool, Fault, Session, Store};
use parking_lot::{Mutex, MutexGuard};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio_util::sync::CancellationToken;

use super::connect::{self, OpenConnection, Place};
use super::handler::{Elicitation, NotificationHandler, SharedState};
use super::listing::{self, ListedTool, Listing, ServerInfo};
use super::login::{LoginBrowser, Logins};
use super::pins::Pins;
use super::resources;
use super::server::Server;
use super::tool::RemoteTool;

/// The delay before a restart, by the number of failures in a row.
const BACKOFF: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(60),
];
/// After this uptime a failure counts as the first again.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// The shortest interval between listings of tools, however often they change.
const MIN_LIST_INTERVAL: Duration = Duration::from_millis(100);

/// One server, with its connection if there is one.
pub(super) struct Link {
    pub(super) server: Server,
    place: Place,
    pub(super) shared: Arc<SharedState>,
    logins: Logins,
    pub(super) pins: Pins,
    phase: AsyncMutex<Phase>,
    offers: Mutex<Offers>,
}

enum Phase {
    /// Not started yet.
    Idle,
    /// Connected, after this many failures in a row.
    Up(Arc<OpenConnection>, u32),
    /// Failed. Not restarted before `next`.
    Down { fault: Fault, failures: u32, next: Instant },
}

/// What the server offers, as of the last listing.
#[derive(Default)]
struct Offers {
    state: ServerState,
    tools: Vec<ListedTool>,
    problems: Vec<String>,
}

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ServerState {
    /// Not started yet.
    #[default]
    Idle,
    /// Connected.
    Up(ServerInfo),
    /// Failed, with the reason.
    Down(Fault),
}

/// A server's state, and what it offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name.
    pub server: String,
    /// Its state.
    pub state: ServerState,
    /// The qualified names of its tools, with their descriptions.
    pub tools: Vec<(String, String)>,
    /// Messages about tools and schemas that were refused.
    pub problems: Vec<String>,
}

impl Link {
    pub(super) fn new(server: Server, place: Place, logins: Option<&Store>) -> Arc<Self> {
        Arc::new(Self {
            logins: Logins::new(logins, &server),
            pins: Pins::new(logins, &server),
            server,
            place,
            shared: Arc::default(),
            phase: AsyncMutex::new(Phase::Idle),
            offers: Mutex::default(),
        })
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock()
    }

    pub(super) fn status(&self) -> ServerStatus {
        let offers = self.offers();
        ServerStatus {
            server: self.server.name.clone(),
            state: offers.state.clone(),
            tools: offers.tools.iter().map(|tool| (tool.name.clone(), tool.description.clone())).collect(),
            problems: offers.problems.clone(),
        }
    }

    /// Its tools, as of the last listing.
    pub(super) fn tools(self: &Arc<Self>) -> Vec<Arc<dyn DynTool>> {
        let tools = self.offers().tools.clone();
        tools.iter().map(|tool| Arc::new(RemoteTool::new(tool, self.clone())) as Arc<dyn DynTool>).collect()
    }

    /// The server's description of itself, if it is connected.
    pub(super) fn about(&self) -> Option<ServerInfo> {
        match &self.offers().state {
            ServerState::Up(about) => Some(about.clone()),
            _ => None,
        }
    }

    /// Adds its tools to a session, now and whenever they change.
    pub(super) fn join(self: &Arc<Self>, session: &Session) {
        self.shared.join(session);
        let tools = self.offers().tools.clone();
        self.publish(session, &[], &tools);
    }

    /// The connection, opened now if there is none. Concurrent callers wait for the same attempt.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<OpenConnection>, Fault> {
        let mut phase = self.phase.lock().await;
        let failures = match &*phase {
            Phase::Idle => 0,
            Phase::Up(connection, _) if !connection.is_closed() => return Ok(connection.clone()),
            Phase::Up(connection, failures) => {
                let failures = if connection.since.elapsed() >= STABLE_AFTER { 1 } else { failures + 1 };
                let fault = connection.exit_reason(&self.server.name).await;
                self.fail(&mut phase, fault, failures)?;
                failures
            }
            Phase::Down { fault, next, .. } if Instant::now() < *next => {
                return Err(backing_off(fault, *next));
            }
            Phase::Down { failures, .. } => *failures,
        };
        let starting = tokio::time::timeout(self.server.limits.start, self.start());
        let started = starting.await.unwrap_or_else(|_| Err(connect::start_timeout(&self.server)));
        match started {
            Ok((connection, listing)) => {
                let connection = Arc::new(connection);
                *phase = Phase::Up(connection.clone(), failures);
                self.offers().state = ServerState::Up(connection.about.clone());
                self.update(listing);
                Ok(connection)
            }
            Err(fault) => {
                let _ = self.fail(&mut phase, fault.clone(), failures + 1);
                Err(fault)
            }
        }
    }

    /// Records a failure. Returns an error unless the back-off allows a retry at once.
    fn fail(&self, phase: &mut Phase, fault: Fault, failures: u32) -> Result<(), Fault> {
        let index = usize::try_from(failures).unwrap_or(usize::MAX).saturating_sub(1).min(BACKOFF.len() - 1);
        let next = Instant::now() + BACKOFF[index];
        self.offers().state = ServerState::Down(fault.clone());
        *phase = Phase::Down { fault: fault.clone(), failures, next };
        if BACKOFF[index].is_zero() { Ok(()) } else { Err(backing_off(&fault, next)) }
    }

    /// Connects, and lists the tools.
    async fn start(self: &Arc<Self>) -> Result<(OpenConnection, Listing), Fault> {
        let changed = Arc::new(Notify::new());
        let elicitation = if self.shared.can_ask() { Elicitation::Allowed } else { Elicitation::Refused };
        let handler = || NotificationHandler {
            server: self.server.name.as_str().into(),
            shared: self.shared.clone(),
            changed: changed.clone(),
            elicitation,
        };
        let connection = OpenConnection::open(&self.server, &self.place, &self.logins, handler).await?;
        let listing = match connection.about.has_tools {
            true => match listing::tools(&self.server.name, connection.peer()).await {
                Ok(listing) => listing,
                Err(error) => return Err(connection.failed(&self.server.name, error).await),
            },
            false => Listing::default(),
        };
        tokio::spawn(refresh_tools(
            Arc::downgrade(self),
            connection.peer().clone(),
            changed,
            connection.closed(),
        ));
        Ok((connection, listing))
    }

    /// Publishes a new listing to all sessions.
    fn update(self: &Arc<Self>, listing: Listing) {
        let Listing { tools, problems } = listing;
        let before = {
            let mut offers = self.offers();
            offers.problems = problems;
            std::mem::replace(&mut offers.tools, tools.clone())
        };
        for session in self.shared.sessions() {
            self.publish(&session, &before, &tools);
        }
    }

    /// Replaces a session's tools of this server. Unchanged ones are not touched, so the session sees no change.
    fn publish(self: &Arc<Self>, session: &Session, before: &[ListedTool], after: &[ListedTool]) {
        let registry = session.tools();
        for tool in before.iter().filter(|tool| !after.iter().any(|other| other.name == tool.name)) {
            registry.remove(&tool.name);
        }
        for tool in after.iter().filter(|tool| !before.contains(tool)) {
            registry.replace(Arc::new(RemoteTool::new(tool, self.clone())));
        }
        if self.about().is_some_and(|about| about.has_resources) {
            resources::offer(session);
        }
    }

    /// Logs in. The next use opens a new connection.
    pub(super) async fn login(&self, visitor: &dyn LoginBrowser) -> Result<(), Fault> {
        self.logins.login(&self.server, visitor).await?;
        self.close().await;
        Ok(())
    }

    /// Closes the connection, and ends the server if haft has started it.
    pub(super) async fn close(&self) {
        let mut phase = self.phase.lock().await;
        if let Phase::Up(connection, _) = std::mem::replace(&mut *phase, Phase::Idle) {
            connection.close().await;
        }
        self.offers().state = ServerState::Idle;
    }
}

/// The fault of a server that is not retried before `next`.
fn backing_off(fault: &Fault, next: Instant) -> Fault {
    let seconds = next.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
    let result = Fault::new(fault.kind(), format!("{}; it is started again in {seconds} s", fault.message()));
    let result = fault.details().iter().fold(result, |result, (name, value)| result.with(name, value));
    match fault.hint_text() {
        Some(hint) => result.hint(hint),
        None => result,
    }
}

/// Lists the tools again whenever they have changed, until the connection is closed.
async fn refresh_tools(
    link: Weak<Link>,
    peer: Peer<RoleClient>,
    changed: Arc<Notify>,
    closed: CancellationToken,
) {
    loop {
        tokio::select! {
            () = changed.notified() => {}
            () = closed.cancelled() => return,
        }
        let server = link.upgrade().map(|link| (link.server.name.clone(), link.server.limits.start));
        let Some((name, limit)) = server else { return };
        let listed = tokio::time::timeout(limit, listing::tools(&name, &peer)).await;
        let Some(link) = link.upgrade() else { return };
        match listed {
            Ok(Ok(listing)) => link.update(listing),
            // Keeps the tools of the last listing; the next change tries again.
            _ => link.offers().problems = vec!["its tools have changed, but it did not tell them".to_owned()],
        }
        drop(link);
        tokio::time::sleep(MIN_LIST_INTERVAL).await;
    }
}
