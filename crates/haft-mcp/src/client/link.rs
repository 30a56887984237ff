//! One server over time: started when it is first wanted, started anew when it has died, with a growing pause between
//! attempts. What it offers goes to every session that has joined.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use haft::{DynTool, Fault, Session, Store};
use parking_lot::{Mutex, MutexGuard};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio_util::sync::CancellationToken;

use super::connect::{self, Live};
use super::handler::{Asks, Ears, Surroundings};
use super::listing::{self, About, Listing, Offered};
use super::login::{Logins, Visitor};
use super::resources;
use super::server::Server;
use super::tool::Remote;

/// The pauses before a server is started anew, by how often it has failed in a row.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(60),
];
/// A server that has run for so long is steady: when it ends, that counts as the first time.
const STEADY: Duration = Duration::from_secs(60);
/// A server that says its tools have changed is not asked for them more often.
const PATIENCE: Duration = Duration::from_millis(100);

/// One server.
pub(super) struct Link {
    pub(super) server: Server,
    /// Where relative folders begin.
    root: PathBuf,
    pub(super) surroundings: Arc<Surroundings>,
    logins: Logins,
    phase: AsyncMutex<Phase>,
    offers: Mutex<Offers>,
}

enum Phase {
    /// Nobody has wanted it yet.
    Idle,
    /// It is there.
    Up(Arc<Live>, u32),
    /// It is not there, and why.
    Down { fault: Fault, failures: u32, next: Instant },
}

/// What is known of what it offers.
#[derive(Default)]
struct Offers {
    state: State,
    tools: Vec<Offered>,
    problems: Vec<String>,
}

/// How a server stands.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// Nobody has wanted it yet.
    #[default]
    Idle,
    /// It is there.
    Up(About),
    /// It is not there, and why.
    Down(Fault),
}

/// A server, how it stands, and what it offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// What it is called.
    pub server: String,
    /// How it stands.
    pub state: State,
    /// The names of its tools, as a model sees them, with what they do.
    pub tools: Vec<(String, String)>,
    /// What of its offers was not taken, and why.
    pub problems: Vec<String>,
}

impl Link {
    pub(super) fn new(server: Server, root: PathBuf, logins: Option<&Store>) -> Arc<Self> {
        Arc::new(Self {
            logins: Logins::new(logins, &server),
            server,
            root,
            surroundings: Arc::default(),
            phase: AsyncMutex::new(Phase::Idle),
            offers: Mutex::default(),
        })
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock()
    }

    pub(super) fn status(&self) -> Status {
        let offers = self.offers();
        Status {
            server: self.server.name.clone(),
            state: offers.state.clone(),
            tools: offers.tools.iter().map(|tool| (tool.name.clone(), tool.description.clone())).collect(),
            problems: offers.problems.clone(),
        }
    }

    /// Its tools, as far as they are known.
    pub(super) fn tools(self: &Arc<Self>) -> Vec<Arc<dyn DynTool>> {
        let tools = self.offers().tools.clone();
        tools.iter().map(|tool| Arc::new(Remote::new(tool, self.clone())) as Arc<dyn DynTool>).collect()
    }

    /// What it says of itself, if it is there.
    pub(super) fn about(&self) -> Option<About> {
        match &self.offers().state {
            State::Up(about) => Some(about.clone()),
            _ => None,
        }
    }

    /// Offers its tools to a session, now and whenever they change.
    pub(super) fn join(self: &Arc<Self>, session: &Session) {
        self.surroundings.join(session);
        let tools = self.offers().tools.clone();
        self.publish(session, &[], &tools);
    }

    /// The connection, begun now if there is none. Whoever comes meanwhile waits for the same one.
    pub(super) async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Fault> {
        let mut phase = self.phase.lock().await;
        let failures = match &*phase {
            Phase::Idle => 0,
            Phase::Up(live, _) if !live.is_over() => return Ok(live.clone()),
            Phase::Up(live, failures) => {
                let failures = if live.since.elapsed() >= STEADY { 1 } else { failures + 1 };
                let fault = live.obituary(&self.server.name).await;
                self.fall(&mut phase, fault, failures)?;
                failures
            }
            Phase::Down { fault, next, .. } if Instant::now() < *next => return Err(paused(fault, *next)),
            Phase::Down { failures, .. } => *failures,
        };
        let starting = tokio::time::timeout(self.server.limits.start, self.begin());
        let begun = starting.await.unwrap_or_else(|_| Err(connect::too_slow(&self.server)));
        match begun {
            Ok((live, listing)) => {
                let live = Arc::new(live);
                *phase = Phase::Up(live.clone(), failures);
                self.offers().state = State::Up(live.about.clone());
                self.offer(listing);
                Ok(live)
            }
            Err(fault) => {
                let _ = self.fall(&mut phase, fault.clone(), failures + 1);
                Err(fault)
            }
        }
    }

    /// Notes that it is not there. That is an error if it is not to be tried again at once.
    fn fall(&self, phase: &mut Phase, fault: Fault, failures: u32) -> Result<(), Fault> {
        let at = usize::try_from(failures).unwrap_or(usize::MAX).saturating_sub(1).min(PAUSES.len() - 1);
        let next = Instant::now() + PAUSES[at];
        self.offers().state = State::Down(fault.clone());
        *phase = Phase::Down { fault: fault.clone(), failures, next };
        if PAUSES[at].is_zero() { Ok(()) } else { Err(paused(&fault, next)) }
    }

    async fn begin(self: &Arc<Self>) -> Result<(Live, Listing), Fault> {
        let changed = Arc::new(Notify::new());
        let asks = if self.surroundings.can_ask() { Asks::Yes } else { Asks::No };
        let ears = || Ears {
            server: self.server.name.as_str().into(),
            surroundings: self.surroundings.clone(),
            changed: changed.clone(),
            asks,
        };
        let live = Live::open(&self.server, &self.root, &self.logins, ears).await?;
        let listing = match live.about.has_tools {
            true => match listing::tools(&self.server.name, live.peer()).await {
                Ok(listing) => listing,
                Err(error) => return Err(live.failed(&self.server.name, error).await),
            },
            false => Listing::default(),
        };
        tokio::spawn(follow(Arc::downgrade(self), live.peer().clone(), changed, live.over()));
        Ok((live, listing))
    }

    /// Takes over what it offers now.
    fn offer(self: &Arc<Self>, listing: Listing) {
        let Listing { tools, problems } = listing;
        let before = {
            let mut offers = self.offers();
            offers.problems = problems;
            std::mem::replace(&mut offers.tools, tools.clone())
        };
        for session in self.surroundings.sessions() {
            self.publish(&session, &before, &tools);
        }
    }

    /// Makes the tools of a session those that are offered. One that stays as it is, is not touched.
    fn publish(self: &Arc<Self>, session: &Session, before: &[Offered], after: &[Offered]) {
        let registry = session.tools();
        for tool in before.iter().filter(|tool| !after.iter().any(|other| other.name == tool.name)) {
            registry.remove(&tool.name);
        }
        for tool in after.iter().filter(|tool| !before.contains(tool)) {
            registry.replace(Arc::new(Remote::new(tool, self.clone())));
        }
        if self.about().is_some_and(|about| about.has_resources) {
            resources::offer(session);
        }
    }

    /// Logs in, and begins anew when it is next wanted.
    pub(super) async fn login(&self, visitor: &dyn Visitor) -> Result<(), Fault> {
        self.logins.login(&self.server, visitor).await?;
        self.close().await;
        Ok(())
    }

    /// Ends the connection, and with it the server if haft has started it.
    pub(super) async fn close(&self) {
        let mut phase = self.phase.lock().await;
        if let Phase::Up(live, _) = std::mem::replace(&mut *phase, Phase::Idle) {
            live.close().await;
        }
        self.offers().state = State::Idle;
    }
}

/// The fault of a server that is not tried again for a while.
fn paused(fault: &Fault, next: Instant) -> Fault {
    let seconds = next.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
    let told = Fault::new(fault.kind(), format!("{}; it is started again in {seconds} s", fault.message()));
    let told = fault.details().iter().fold(told, |told, (name, value)| told.with(name, value));
    match fault.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// Asks for the tools again whenever they have changed, for as long as there is a connection.
async fn follow(link: Weak<Link>, peer: Peer<RoleClient>, changed: Arc<Notify>, over: CancellationToken) {
    loop {
        tokio::select! {
            () = changed.notified() => {}
            () = over.cancelled() => return,
        }
        let server = link.upgrade().map(|link| (link.server.name.clone(), link.server.limits.start));
        let Some((name, limit)) = server else { return };
        let listed = tokio::time::timeout(limit, listing::tools(&name, &peer)).await;
        let Some(link) = link.upgrade() else { return };
        match listed {
            Ok(Ok(listing)) => link.offer(listing),
            // What it offered before stays; the next change is looked at again.
            _ => link.offers().problems = vec!["its tools have changed, but it did not tell them".to_owned()],
        }
        drop(link);
        tokio::time::sleep(PATIENCE).await;
    }
}
