//! The state that outlives a single request of a client: its session, subscriptions, log level and pending rounds. The
//! session starts when a request first needs it, because the client can be asked for its folders only then.
#![expect(deprecated, reason = "clients of today have a log level")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_core::Session;
use haft_sandbox::random_id;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{InputRequiredResult, InputResponses, LoggingLevel, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::approve::ClientUser;
use super::caller::{Caller, Callers};
use super::change_notifier::{self, ChangeNotifier, Subscriptions};
use super::host::{Client, SessionHost};
use super::rounds::PendingRounds;
use super::{client_roots, upstream};

/// One client's state.
pub(super) struct Conversation {
    pub(super) host: Arc<dyn SessionHost>,
    pub(super) id: Arc<str>,
    pub(super) news: ChangeNotifier,
    pub(super) subscribed: Arc<Subscriptions>,
    session: OnceCell<Session>,
    calls: AtomicU64,
    level: Mutex<Option<LoggingLevel>>,
    pending_rounds: PendingRounds,
    /// Cancelled when the client can no longer receive answers.
    closed: CancellationToken,
}

impl Conversation {
    pub(super) fn new(host: Arc<dyn SessionHost>, closed: CancellationToken) -> Self {
        Self {
            host,
            id: format!("mcp-{}", &random_id()[..16]).into(),
            news: ChangeNotifier::default(),
            subscribed: Arc::default(),
            session: OnceCell::new(),
            calls: AtomicU64::new(1),
            level: Mutex::new(None),
            pending_rounds: PendingRounds::default(),
            closed,
        }
    }

    /// Cancels every call of the session.
    pub(super) fn close(&self) {
        self.closed.cancel();
        if let Some(session) = self.session.get() {
            session.cancel();
        }
    }

    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// The session, if it has started.
    pub(super) fn started(&self) -> Option<&Session> {
        self.session.get()
    }

    /// The session, started now if there is none. A shared one starts in the folders of the client that needs it first.
    pub(super) async fn session(&self, peer: &Peer<RoleServer>) -> Result<&Session, ErrorData> {
        let open = || async {
            let user = Arc::new(ClientUser::new(peer));
            let client = Client {
                id: self.id.clone(),
                program: peer.peer_info().map(|about| about.client_info.name.clone()),
                roots: client_roots::list(peer).await,
                approver: user.clone(),
                respondent: user.clone(),
                news: self.news.clone(),
            };
            let session =
                self.host.open(client).map_err(|fault| ErrorData::internal_error(fault.to_string(), None))?;
            user.attach(&session.extension::<Callers>());
            upstream::spawn_all(&session);
            if peer.peer_info().is_some() {
                let subscribed = self.subscribed.clone();
                let is_subscribed = move |uri: &str| subscribed.has(uri);
                let changes = self.news.subscribe(&session);
                tokio::spawn(change_notifier::send_to_peer(
                    changes,
                    peer.clone(),
                    is_subscribed,
                    self.closed.clone(),
                ));
            }
            Ok(session)
        };
        match self.started() {
            Some(session) => Ok(session),
            None => Box::pin(self.session.get_or_try_init(open)).await,
        }
    }

    /// A unique id for the next call.
    pub(super) fn next_call(&self) -> String {
        format!("{}-{}", self.id, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *self.level.lock() = Some(level);
    }

    /// The lowest log level that the client wants for a request, if it has set one.
    pub(super) fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if is_stateless(context) {
            return context.meta.log_level();
        }
        *self.level.lock()
    }

    /// The client of a request. A stateless one comes with the answers of earlier rounds; `request` identifies the request
    /// across rounds.
    pub(super) fn caller(
        &self,
        context: &RequestContext<RoleServer>,
        request: impl FnOnce() -> String,
        answers: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Caller, ErrorData> {
        let round = match is_stateless(context) {
            true => Some(self.pending_rounds.begin(&request(), answers, state)?),
            false => None,
        };
        // A client with a session that never set a level gets what tools write for it.
        let level = self.level(context).or((!is_stateless(context)).then_some(LoggingLevel::Info));
        let can = context.client_capabilities().unwrap_or_default();
        Ok(Caller::new(context.peer.clone(), can, context.protocol_version(), level, round))
    }

    /// The questions to answer a request with, if its tool asked any.
    pub(super) fn questions(
        &self,
        caller: &Caller,
        request: impl FnOnce() -> String,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        match caller.round_state() {
            Some(round) => self.pending_rounds.end(request(), round),
            None => Ok(None),
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.close();
        if let Some(session) = self.session.get() {
            self.host.close(session);
        }
    }
}

/// Whether a request is stateless, as from protocol 2026-07-28 on: it carries its client's identity and capabilities, and
/// the server cannot send that client requests.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
