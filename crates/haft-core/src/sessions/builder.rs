//! Configures and starts a session.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use haft_sandbox::{Durability, Store, Workspace, random_id};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::state::State;
use super::{Inner, Journaled, SavedSession, Session};
use crate::dialect::Plain;
use crate::permissions::Approver;
use crate::questions::Respondent;
use crate::schedule::Schedule;
use crate::sessions::SavedStates;
use crate::{Dialect, DynTool, Engine, Mode, Policy, Registry};
use haft_journal::Journal;

/// Configures a [`Session`]: see [`Engine::session`]. Everything is optional.
pub struct SessionBuilder {
    engine: Engine,
    workspace: Workspace,
    dialect: Arc<dyn Dialect>,
    tools: Vec<Arc<dyn DynTool>>,
    id: Option<Arc<str>>,
    mode: Mode,
    policy: Policy,
    approver: Option<Arc<dyn Approver>>,
    respondent: Option<Arc<dyn Respondent>>,
    saved: SavedSession,
    contents: Option<Store>,
    journal: Option<Journaled>,
    extensions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    lasting: Option<SavedStates>,
    parent: Option<Session>,
}

impl SessionBuilder {
    pub(crate) fn new(engine: Engine, workspace: Workspace) -> Self {
        Self {
            engine,
            workspace,
            dialect: Arc::new(Plain),
            tools: Vec::new(),
            id: None,
            mode: Mode::default(),
            policy: Policy::default(),
            approver: None,
            respondent: None,
            saved: SavedSession::default(),
            contents: None,
            journal: None,
            extensions: HashMap::new(),
            lasting: None,
            parent: None,
        }
    }

    /// A session that works for another one: see [`Session::delegate`].
    pub(super) fn delegate(parent: &Session, id: &str) -> Self {
        let Inner { engine, dialect, policy, journal, initial_extensions, .. } = &*parent.0;
        Self {
            dialect: dialect.clone(),
            id: Some(id.into()),
            mode: parent.mode(),
            policy: *policy,
            journal: journal.clone(),
            extensions: initial_extensions.clone(),
            parent: Some(parent.clone()),
            ..Self::new(engine.clone(), parent.workspace())
        }
    }

    /// Sets the dialect, and with it the tools.
    pub fn dialect(mut self, dialect: Arc<dyn Dialect>) -> Self {
        self.dialect = dialect;
        self
    }

    /// Adds a tool, in place of the dialect's own of the same name.
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds a tool that several sessions share.
    pub fn shared_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the session's id. Default: a random one.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the session's mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets in which order the calls of a turn may run.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets who approves this session's calls, instead of the engine's approver.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets who answers the questions of this session's tools, instead of the engine's respondent.
    pub fn respondent(mut self, respondent: Arc<dyn Respondent>) -> Self {
        self.respondent = Some(respondent);
        self
    }

    /// Restores the state that an earlier run saved.
    pub fn resume(mut self, saved: SavedSession) -> Self {
        self.saved = saved;
        self
    }

    /// Sets the store that keeps the content of files that the model has seen, so that a later run can show how they have
    /// changed.
    pub fn keep_seen(mut self, contents: Store) -> Self {
        self.contents = Some(contents);
        self
    }

    /// Sets the journal that records changes of files, and how durable a change is when the call reports it as done.
    /// Without a journal no call can change a file.
    pub fn journal(mut self, journal: Arc<Journal>, durability: Durability) -> Self {
        self.journal = Some(Journaled { journal, durability });
        self
    }

    /// Sets a value that tools get by its type: see [`Session::extension`].
    pub fn extension<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Shares the saved state of tools with another session, instead of restoring it: to the user, sessions of several
    /// dialects may be one conversation.
    pub fn lasting(mut self, values: SavedStates) -> Self {
        self.lasting = Some(values);
        self
    }

    /// Starts the session.
    pub fn start(mut self) -> Session {
        let id = self.id.unwrap_or_else(|| format!("session-{}", &random_id()[..16]).into());
        let registry = Registry::default();
        for tool in self.dialect.tools().into_iter().chain(self.tools) {
            registry.replace(tool);
        }
        let lasting = std::mem::take(&mut self.saved.lasting);
        let lasting = self.lasting.unwrap_or_else(|| SavedStates::new(lasting));
        let state = State::resume(&self.workspace, self.mode, self.saved, self.contents);
        let cancel = self.parent.as_ref().map(|parent| parent.cancel_token().child_token());
        Session(Arc::new(Inner {
            id,
            parent: self.parent,
            engine: self.engine,
            dialect: self.dialect,
            workspace: RwLock::new(self.workspace),
            registry,
            schedule: Schedule::new(),
            policy: self.policy,
            approver: self.approver,
            respondent: self.respondent,
            cancel: cancel.unwrap_or_default(),
            turns: AtomicU64::new(1),
            state: Mutex::new(state),
            initial_extensions: self.extensions.clone(),
            extensions: Mutex::new(self.extensions),
            lasting,
            journal: self.journal,
            relaxed: watch::Sender::new(()),
        }))
    }
}
