//! What the protocol needs of whoever sets up sessions, and what they may offer besides tools.

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

use crate::{Caller, News};

/// What haft calls itself, as a server and as a client.
pub(crate) const PROGRAM: &str = "haft";

/// Sets up a session for each client, and takes it back.
pub trait SessionHost: Send + Sync + 'static {
    /// What a client is told about the server, for its model.
    fn instructions(&self) -> String;

    /// Starts a session.
    fn open(&self, client: Client) -> Result<Session, Fault>;

    /// Told when a client works in other folders than it said before.
    fn moved(&self, _session: &Session, _roots: Vec<PathBuf>) {}

    /// Told when a session is over and its calls have been stopped.
    fn close(&self, session: &Session);

    /// Where replies are kept that were too long.
    fn results(&self) -> Store;

    /// What a change did, as a diff.
    fn difference(&self, session: &Session, entry: &Entry) -> Result<String, Fault>;

    /// What clients are offered besides tools and haft's own resources.
    fn offers(&self) -> Option<&dyn Offers> {
        None
    }
}

/// A client that wants a session.
#[non_exhaustive]
pub struct Client {
    /// A name for the session that no other has.
    pub id: Arc<str>,
    /// The program that the client says it is, such as `claude-code`.
    pub program: Option<String>,
    /// The folders that the client works in. They can only narrow what a session may touch.
    pub roots: Vec<PathBuf>,
    /// Whom to ask what may happen: the client's user, where the client lets them be asked.
    pub approver: Arc<dyn Approver>,
    /// Who answers the questions of tools, likewise.
    pub respondent: Arc<dyn Respondent>,
    /// How the client hears that something has changed.
    pub news: News,
}

impl Client {
    /// Whether the client is a haft that uses this one as a server. It has other servers itself, perhaps this one's too, so
    /// a session for it starts none: two that name each other would connect without end.
    pub fn is_haft(&self) -> bool {
        self.program.as_deref() == Some(PROGRAM)
    }
}

/// Prompts for people to choose from, resources of one's own, and what could be meant by the beginning of an argument.
pub trait Offers: Send + Sync {
    /// The prompts.
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

    /// The resources.
    fn resources(&self, _session: &Session) -> Vec<Resource> {
        Vec::new()
    }

    /// What addresses of other resources look like.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// What is at an address, if it is one of these.
    fn read<'a>(
        &'a self,
        _uri: &'a str,
        _session: &'a Session,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<ReadResourceResult>, ErrorData>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What an argument of a prompt or of an address could be.
    fn complete<'a>(
        &'a self,
        _request: CompleteRequestParams,
        _session: &'a Session,
    ) -> BoxFuture<'a, Result<CompletionInfo, ErrorData>> {
        Box::pin(std::future::ready(Ok(CompletionInfo::default())))
    }
}
