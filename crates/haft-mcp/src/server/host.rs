//! The interface between the protocol and the program that serves it: the program opens sessions, and may offer prompts
//! and resources besides tools.

use std::path::PathBuf;
use std::sync::Arc;

use haft_core::Fault;
use haft_core::permissions::Approver;
use haft_core::questions::Respondent;
use haft_core::{BoxFuture, Session, Store};
use haft_journal::Entry;
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompletionInfo, GetPromptRequestParams, GetPromptResult, Prompt,
    ReadResourceResult, Resource, ResourceTemplate,
};

use super::caller::Caller;
use super::change_notifier::ChangeNotifier;
use crate::wire::PROGRAM;

/// Opens a session for each client, and closes it.
pub trait SessionHost: Send + Sync + 'static {
    /// The server's instructions, which a client shows its model.
    fn instructions(&self) -> String;

    /// Starts a session.
    fn open(&self, client: Client) -> Result<Session, Fault>;

    /// Called when a client has changed the folders it works in.
    fn roots_changed(&self, _session: &Session, _roots: Vec<PathBuf>) {}

    /// Called when a session has ended and its calls are cancelled.
    fn close(&self, session: &Session);

    /// The store of replies that were too long to be sent whole.
    fn results(&self) -> Store;

    /// A change of the journal as a diff.
    fn diff(&self, session: &Session, entry: &Entry) -> Result<String, Fault>;

    /// Prompts, resources and completions besides haft's own. Default: none.
    fn offers(&self) -> Option<&dyn Extras> {
        None
    }
}

/// A client that needs a session.
#[non_exhaustive]
pub struct Client {
    /// A unique id for the session.
    pub id: Arc<str>,
    /// The client's program by its own account, such as `claude-code`.
    pub program: Option<String>,
    /// The folders that the client works in. They can only narrow what a session may touch.
    pub roots: Vec<PathBuf>,
    /// Asks the client's user for approval. Unavailable if the client does not support elicitation.
    pub approver: Arc<dyn Approver>,
    /// Asks the client's user the questions of tools. Unavailable if the client does not support elicitation.
    pub respondent: Arc<dyn Respondent>,
    /// Sends the client change notifications.
    pub news: ChangeNotifier,
}

impl Client {
    /// Whether the client is itself a haft that uses this one as a server. A session for it should use no servers of its own:
    /// two hafts that name each other would connect in a loop.
    pub fn is_haft(&self) -> bool {
        self.program.as_deref() == Some(PROGRAM)
    }
}

/// What a host offers besides tools: prompts for users to choose from, resources, and completions of arguments.
pub trait Extras: Send + Sync {
    /// The prompts of a session.
    fn prompts(&self, _session: &Session) -> Vec<Prompt> {
        Vec::new()
    }

    /// A prompt with its arguments filled in.
    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        _session: &'a Session,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorData>> {
        let unknown = format!("there is no prompt `{}`", request.name);
        Box::pin(std::future::ready(Err(ErrorData::invalid_params(unknown, None))))
    }

    /// The resources of a session.
    fn resources(&self, _session: &Session) -> Vec<Resource> {
        Vec::new()
    }

    /// URI templates of resources that `resources` does not list.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource. None if the URI is unknown.
    fn read<'a>(
        &'a self,
        _uri: &'a str,
        _session: &'a Session,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<ReadResourceResult>, ErrorData>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Completes an argument of a prompt or of a URI template.
    fn complete<'a>(
        &'a self,
        _request: CompleteRequestParams,
        _session: &'a Session,
    ) -> BoxFuture<'a, Result<CompletionInfo, ErrorData>> {
        Box::pin(std::future::ready(Ok(CompletionInfo::default())))
    }
}
