//! A session that is being set up.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_sandbox::{Durability, Store, Workspace};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::state::State;
use super::{Inner, Journaled, SavedSession, Session};
use crate::journal::Journal;
use crate::schedule::Schedule;
use crate::{Approver, Dialect, DynTool, Engine, LastingValues, Mode, Plain, Policy, Registry, Respondent};

/// A session that is being set up.
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
    lasting: Option<LastingValues>,
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

    /// A session that works for another one.
    pub(super) fn below(parent: &Session, name: &str) -> Self {
        let Inner { engine, dialect, policy, journal, given, .. } = &*parent.0;
        Self {
            dialect: dialect.clone(),
            id: Some(name.into()),
            mode: parent.mode(),
            policy: *policy,
            journal: journal.clone(),
            extensions: given.clone(),
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

    /// Adds a tool that is shared already.
    pub fn shared_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Names the session.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets how permissive it is.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets who waits for whom.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets who is asked about this session's calls, in place of whom the engine asks.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets who answers the questions of this session's tools, in place of whom the engine asks.
    pub fn respondent(mut self, respondent: Arc<dyn Respondent>) -> Self {
        self.respondent = Some(respondent);
        self
    }

    /// Goes on where an earlier run stopped.
    pub fn resume(mut self, saved: SavedSession) -> Self {
        self.saved = saved;
        self
    }

    /// Sets where the content of files that the model has seen is kept between runs, so that a later run
    /// can show what has changed in them.
    pub fn keep_seen(mut self, contents: Store) -> Self {
        self.contents = Some(contents);
        self
    }

    /// Sets where changes of files are recorded, and how surely they are on disk when they are reported as
    /// done. Without a journal no file can be changed.
    pub fn journal(mut self, journal: Arc<Journal>, durability: Durability) -> Self {
        self.journal = Some(Journaled { journal, durability });
        self
    }

    /// Sets a value of the session's own that tools ask for by its type: see [`Session::extension`].
    pub fn extension<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Shares what tools keep with another session, instead of what is resumed of that: sessions of several dialects
    /// may be one to the user.
    pub fn lasting(mut self, values: LastingValues) -> Self {
        self.lasting = Some(values);
        self
    }

    /// Starts the session.
    pub fn start(mut self) -> Session {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id =
            self.id.unwrap_or_else(|| format!("session-{}", COUNT.fetch_add(1, Ordering::Relaxed)).into());
        let registry = Registry::default();
        for tool in self.dialect.tools().into_iter().chain(self.tools) {
            registry.replace(tool);
        }
        let lasting = std::mem::take(&mut self.saved.lasting);
        let lasting = self.lasting.unwrap_or_else(|| LastingValues::new(lasting));
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
            given: self.extensions.clone(),
            extensions: Mutex::new(self.extensions),
            lasting,
            journal: self.journal,
            loosened: watch::Sender::new(()),
        }))
    }
}
