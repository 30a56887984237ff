//! What lasts from one request of a client to the next: its session, and what belongs to it. The session is started when
//! it is first needed, because a client says only then which folders it works in.
#![expect(deprecated, reason = "clients of today have a log level")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft::Session;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{InputRequiredResult, InputResponses, LoggingLevel, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::approve::Asks;
use crate::caller::Callers;
use crate::client::Servers;
use crate::news::{self, News, Subscribed};
use crate::rounds::{Kept, unguessable};
use crate::{Caller, Client, Host, roots};

/// A client, as long as it is known.
pub(crate) struct Conversation {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) id: Arc<str>,
    pub(crate) news: News,
    pub(crate) subscribed: Arc<Subscribed>,
    session: OnceCell<Session>,
    calls: AtomicU64,
    level: Mutex<Option<LoggingLevel>>,
    kept: Kept,
    /// Cancelled when nobody waits for answers any more.
    gone: CancellationToken,
}

impl Conversation {
    pub(crate) fn new(host: Arc<dyn Host>, gone: CancellationToken) -> Self {
        Self {
            host,
            id: format!("mcp-{}", &unguessable()[..16]).into(),
            news: News::default(),
            subscribed: Arc::default(),
            session: OnceCell::new(),
            calls: AtomicU64::new(1),
            level: Mutex::new(None),
            kept: Kept::default(),
            gone,
        }
    }

    /// Stops everything that the session does.
    pub(crate) fn close(&self) {
        self.gone.cancel();
        if let Some(session) = self.session.get() {
            session.cancel();
        }
    }

    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// The session, if it has begun.
    pub(crate) fn begun(&self) -> Option<&Session> {
        self.session.get()
    }

    /// The session. It begins in the folders of whoever needs it first.
    pub(crate) async fn session(&self, peer: &Peer<RoleServer>) -> Result<&Session, ErrorData> {
        let open = || async {
            let asks = Arc::new(Asks::default());
            let client = Client {
                id: self.id.clone(),
                roots: roots::of(peer).await,
                approver: asks.clone(),
                respondent: asks.clone(),
                news: self.news.clone(),
            };
            let session = self.host.open(client).map_err(|error| ErrorData::internal_error(error, None))?;
            asks.begin(&session.extension::<Callers>());
            for servers in Servers::joined(&session) {
                tokio::spawn(async move { servers.start_all().await });
            }
            if peer.peer_info().is_some() {
                let subscribed = self.subscribed.clone();
                let wants = move |uri: &str| subscribed.has(uri);
                let listening = self.news.listen(&session);
                tokio::spawn(news::tell_peer(listening, peer.clone(), wants, self.gone.clone()));
            }
            Ok(session)
        };
        match self.begun() {
            Some(session) => Ok(session),
            None => Box::pin(self.session.get_or_try_init(open)).await,
        }
    }

    /// A name for the next call that no other has.
    pub(crate) fn next_call(&self) -> String {
        format!("{}-{}", self.id, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn set_level(&self, level: LoggingLevel) {
        *self.level.lock() = Some(level);
    }

    /// The least that the client wants to have in its log for a request.
    pub(crate) fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if is_stateless(context) {
            return context.meta.log_level();
        }
        *self.level.lock()
    }

    /// Who makes a request. Where a server may not ask, it comes with what was answered in earlier rounds.
    pub(crate) fn caller(
        &self,
        context: &RequestContext<RoleServer>,
        request: impl FnOnce() -> String,
        answers: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Caller, ErrorData> {
        let rounds = match is_stateless(context) {
            true => Some(self.kept.begin(&request(), answers, state)?),
            false => None,
        };
        // Who never said what it wants to hear may hear what is meant for it.
        let level = self.level(context).or((!is_stateless(context)).then_some(LoggingLevel::Info));
        let can = context.client_capabilities().unwrap_or_default();
        Ok(Caller::new(context.peer.clone(), can, level, rounds))
    }

    /// What a request is answered if it needs to know more.
    pub(crate) fn wants(
        &self,
        caller: &Caller,
        request: impl FnOnce() -> String,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        match caller.rounds() {
            Some(rounds) => self.kept.end(request(), rounds),
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

/// Whether a request stands for itself: its client says with each one who it is, and cannot be asked anything but by the
/// answer.
pub(crate) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
