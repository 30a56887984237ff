//! What a server may ask: the folders of the workspace, and questions for the user. What it tells is the matter of
//! `notifications`, but for that its lists have changed.
#![expect(deprecated, reason = "servers of today have roots")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use haft_core::events::Progress;
use haft_core::sessions::WeakSession;
use haft_core::{Context, Session};
use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service as _};
use tokio::sync::Notify;
use url::Url;

use super::connect::Live;
use super::elicit;

/// What the connections of a server share, however often it is started anew.
#[derive(Default)]
pub(super) struct Surroundings {
    /// Whose tools the server's are.
    sessions: Mutex<Vec<WeakSession>>,
    calls: Mutex<Vec<Heard>>,
    count: AtomicU64,
    /// Progress of calls whose token is not known yet.
    early: Mutex<Vec<(ProgressToken, Progress)>>,
}

/// A call that a server may speak of.
struct Heard {
    number: u64,
    token: Option<ProgressToken>,
    cx: Context,
}

/// So many steps of calls whose token is not known yet are remembered.
const MAX_EARLY: usize = 64;

impl Surroundings {
    pub(super) fn join(&self, session: &Session) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|known| known.upgrade().is_some());
        sessions.push(session.downgrade());
    }

    pub(super) fn sessions(&self) -> Vec<Session> {
        self.sessions.lock().iter().filter_map(WeakSession::upgrade).collect()
    }

    /// The folders that a server is told of: what its sessions may change, without what is haft's own.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for workspace in self.sessions().iter().map(Session::workspace) {
            let focus = workspace.focus().into_iter().cloned();
            let all = workspace
                .folders()
                .iter()
                .filter(|folder| folder.access == haft_sandbox::FolderAccess::Write);
            let all = all.map(|folder| folder.path.clone()).filter(|path| !workspace.is_guarded(path));
            let told: Vec<_> = if workspace.focus().is_some() { focus.collect() } else { all.collect() };
            for path in told.iter().map(|path| path.as_path().to_owned()) {
                if !folders.contains(&path) {
                    folders.push(path);
                }
            }
        }
        folders
    }

    /// Whether somebody can be asked questions.
    pub(super) fn can_ask(&self) -> bool {
        self.sessions().iter().any(|session| session.can_inquire())
    }

    /// Tells on what the server says of a call, until the guard is dropped. It begins before the call is made: an answer
    /// may come before it is known by which token the server speaks of it.
    pub(super) fn listen(self: &Arc<Self>, cx: Context) -> Listening {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.calls.lock().push(Heard { number, token: None, cx });
        Listening { surroundings: Arc::downgrade(self), number }
    }

    /// Tells how far a call has come.
    pub(super) fn progress(&self, token: &ProgressToken, progress: Progress) {
        let calls = self.calls.lock();
        if let Some(heard) = calls.iter().find(|heard| heard.token.as_ref() == Some(token)) {
            heard.cx.progress(progress);
        } else if calls.iter().any(|heard| heard.token.is_none()) {
            let mut early = self.early.lock();
            early.truncate(MAX_EARLY - 1);
            early.push((token.clone(), progress));
        }
    }

    /// The call that something belongs to of which the server does not say so: the latest.
    /// Where there is none, it belongs to the first session.
    pub(super) fn latest(&self) -> Option<Context> {
        let latest = self.calls.lock().last().map(|heard| heard.cx.clone());
        latest.or_else(|| self.sessions().first().map(Session::context))
    }
}

/// Listens to what a server says of a call.
pub(super) struct Listening {
    surroundings: Weak<Surroundings>,
    number: u64,
}

impl Listening {
    /// Says by which token the server speaks of the call.
    pub(super) fn by(&self, token: &ProgressToken) {
        let Some(surroundings) = self.surroundings.upgrade() else { return };
        let mut calls = surroundings.calls.lock();
        let Some(heard) = calls.iter_mut().find(|heard| heard.number == self.number) else { return };
        heard.token = Some(token.clone());
        surroundings.early.lock().retain(|(of, progress)| {
            if of == token {
                heard.cx.progress(progress.clone());
            }
            of != token
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(surroundings) = self.surroundings.upgrade() {
            surroundings.calls.lock().retain(|heard| heard.number != self.number);
        }
    }
}

/// Hears one connection of a server.
pub(super) struct NotificationHandler {
    pub(super) server: Arc<str>,
    pub(super) surroundings: Arc<Surroundings>,
    /// Told when the list of tools is another.
    pub(super) changed: Arc<Notify>,
    pub(super) asks: Asks,
}

/// Whether a server may ask the user.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Asks {
    Yes,
    No,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        can.roots = Some(roots);
        if self.asks == Asks::Yes {
            let form = ElicitationCapability::new().with_form(FormElicitationCapability::default());
            can.elicitation = Some(form.with_url(UrlElicitationCapability::default()));
        }
        ClientConfig::new(can, Implementation::new(crate::wire::PROGRAM, env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let told = "haft has no model to ask: it runs tools for one, and offers no sampling";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, told, None))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = |folder: &PathBuf| {
            let root = Root::new(Url::from_directory_path(folder).ok()?.to_string());
            Some(match folder.file_name() {
                Some(name) => root.with_name(name.to_string_lossy()),
                None => root,
            })
        };
        Ok(ListRootsResult::new(self.surroundings.folders().iter().filter_map(root).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(cx) = self.surroundings.latest().filter(|_| self.asks == Asks::Yes) else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        tokio::select! {
            result = elicit::ask(&self.server, request, &cx) => Ok(result),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            () = cx.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Answers what a server wants to know before it goes on with a call.
pub(super) async fn fulfil(live: &Live, requests: InputRequests) -> Result<InputResponses, ErrorData> {
    let mut responses = InputResponses::default();
    for (key, request) in requests {
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => {
                return Err(ErrorData::invalid_request(
                    "it wants to know something that nobody can tell",
                    None,
                ));
            }
        };
        let context = RequestContext::new(NumberOrString::String(key.as_str().into()), live.peer().clone());
        let response = live.running.service().handle_request(request, context).await?;
        let response = serde_json::to_value(response)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        responses.insert(key, response);
    }
    Ok(responses)
}
