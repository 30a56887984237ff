//! Answers a server's requests: the folders of the workspace, and questions to the user. Of its notifications only changed
//! lists are handled here; `notifications` has the rest.
#![expect(deprecated, reason = "servers of today have roots")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use haft_core::events::Progress;
use haft_core::sessions::WeakSession;
use haft_core::{Context, Session};
use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service as _};
use tokio::sync::Notify;
use url::Url;

use super::budget::QuestionBudget;
use super::connect::OpenConnection;
use super::elicit;

/// State that all connections of a server share, across restarts.
#[derive(Default)]
pub(super) struct SharedState {
    /// The sessions that have the server's tools.
    sessions: Mutex<Vec<WeakSession>>,
    calls: Mutex<Vec<ActiveCall>>,
    count: AtomicU64,
    /// Progress that arrived before its call's token was known.
    early: Mutex<Vec<(ProgressToken, Progress)>>,
    questions: QuestionBudget,
}

/// A call in progress, which the server may report on.
struct ActiveCall {
    number: u64,
    token: Option<ProgressToken>,
    cx: Context,
}

/// The most progress notifications kept for calls whose token is not known yet.
const MAX_EARLY: usize = 64;

impl SharedState {
    pub(super) fn join(&self, session: &Session) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|known| known.upgrade().is_some());
        sessions.push(session.downgrade());
    }

    pub(super) fn sessions(&self) -> Vec<Session> {
        self.sessions.lock().iter().filter_map(WeakSession::upgrade).collect()
    }

    /// The roots for the server: the focus of its sessions or else their writable folders, without haft's own.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for workspace in self.sessions().iter().map(Session::workspace) {
            let focus = workspace.focus().into_iter().cloned();
            let all = workspace
                .folders()
                .iter()
                .filter(|folder| folder.access == haft_sandbox::FolderAccess::Write);
            let all = all.map(|folder| folder.path.clone()).filter(|path| !workspace.is_guarded(path));
            let roots: Vec<_> = if workspace.focus().is_some() { focus.collect() } else { all.collect() };
            for path in roots.iter().map(|path| path.as_path().to_owned()) {
                if !folders.contains(&path) {
                    folders.push(path);
                }
            }
        }
        folders
    }

    /// Whether a session can ask its user questions.
    pub(super) fn can_ask(&self) -> bool {
        self.sessions().iter().any(|session| session.can_ask_user())
    }

    /// Registers a call until the guard is dropped, so that progress and logs reach it. Register before sending the request:
    /// the server may report progress before the SDK returns the token.
    pub(super) fn register(self: &Arc<Self>, cx: Context) -> CallGuard {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.calls.lock().push(ActiveCall { number, token: None, cx });
        CallGuard { shared: Arc::downgrade(self), number }
    }

    /// Passes progress on to its call.
    pub(super) fn progress(&self, token: &ProgressToken, progress: Progress) {
        let calls = self.calls.lock();
        if let Some(call) = calls.iter().find(|call| call.token.as_ref() == Some(token)) {
            call.cx.progress(progress);
        } else if calls.iter().any(|call| call.token.is_none()) {
            let mut early = self.early.lock();
            early.truncate(MAX_EARLY - 1);
            early.push((token.clone(), progress));
        }
    }

    /// The context for messages that do not name their call: the latest call, or else the first session.
    pub(super) fn latest_context(&self) -> Option<Context> {
        let latest = self.calls.lock().last().map(|call| call.cx.clone());
        latest.or_else(|| self.sessions().first().map(Session::context))
    }
}

/// Keeps a call registered.
pub(super) struct CallGuard {
    shared: Weak<SharedState>,
    number: u64,
}

impl CallGuard {
    /// Sets the call's progress token, and delivers the progress that came early.
    pub(super) fn set_token(&self, token: &ProgressToken) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut calls = shared.calls.lock();
        let Some(call) = calls.iter_mut().find(|call| call.number == self.number) else { return };
        call.token = Some(token.clone());
        shared.early.lock().retain(|(of, progress)| {
            if of == token {
                call.cx.progress(progress.clone());
            }
            of != token
        });
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.calls.lock().retain(|call| call.number != self.number);
        }
    }
}

/// Handles the requests of one connection to a server.
pub(super) struct NotificationHandler {
    pub(super) server: Arc<str>,
    pub(super) shared: Arc<SharedState>,
    /// Notified when the server's list of tools has changed.
    pub(super) changed: Arc<Notify>,
    pub(super) elicitation: Elicitation,
}

/// Whether a server may ask the user.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Elicitation {
    Allowed,
    Refused,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        can.roots = Some(roots);
        if self.elicitation == Elicitation::Allowed {
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
        let message = "haft has no model to ask: it runs tools for one, and offers no sampling";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = |folder: &PathBuf| {
            let root = Root::new(Url::from_directory_path(folder).ok()?.to_string());
            Some(match folder.file_name() {
                Some(name) => root.with_name(name.to_string_lossy()),
                None => root,
            })
        };
        Ok(ListRootsResult::new(self.shared.folders().iter().filter_map(root).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(cx) = self.shared.latest_context().filter(|_| self.elicitation == Elicitation::Allowed)
        else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let _open = match self.shared.questions.admit(Instant::now()) {
            Ok(open) => open,
            Err(declined) => {
                let reason = format!("haft declines questions of this server: {}", declined.reason);
                if declined.is_news {
                    cx.log(&self.server, "warning", &reason);
                }
                return Err(ErrorData::invalid_request(reason, None));
            }
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

/// Answers the questions that a server returned instead of a call's result.
pub(super) async fn answer_questions(
    connection: &OpenConnection,
    requests: InputRequests,
) -> Result<InputResponses, ErrorData> {
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
        let context =
            RequestContext::new(NumberOrString::String(key.as_str().into()), connection.peer().clone());
        let response = connection.running.service().handle_request(request, context).await?;
        let response = serde_json::to_value(response)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        responses.insert(key, response);
    }
    Ok(responses)
}
