//! The state of one conversation: its workspace, its tools, where it stands, what it has seen and what it
//! was granted. A session speaks one dialect. How a call goes is the engine's matter.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_sandbox::{AbsPath, Stamp, Workspace, names};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::schedule::Schedule;
use crate::{
    Call, Context, Dialect, DynTool, Effect, Engine, Fault, Mode, Plain, Policy, Registry, Reply, Rule, Turn,
};

/// How many files a session remembers as recently seen or changed.
const MAX_RECENT: usize = 20;

/// One conversation. Cheap to clone; ends when [`Session::cancel`] is called.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    id: Arc<str>,
    engine: Engine,
    dialect: Arc<dyn Dialect>,
    workspace: Workspace,
    registry: Registry,
    schedule: Schedule,
    policy: Policy,
    cancel: CancellationToken,
    turns: AtomicU64,
    state: Mutex<State>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

struct State {
    cwd: AbsPath,
    mode: Mode,
    grants: Vec<Rule>,
    reads: HashMap<AbsPath, Stamp>,
    recent: VecDeque<AbsPath>,
}

/// What is kept of a session between runs. Paths are text, as [`names::show`] gives it, since a name need not
/// be UTF-8 and JSON must be. Fields that a later version may add are passed over when it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedSession {
    /// The form of all this: [`SavedSession::VERSION`] or an earlier one.
    pub version: u32,
    /// The current folder.
    pub cwd: Option<String>,
    /// What was allowed for good.
    pub grants: Vec<Rule>,
    /// The files that the model has seen, each with the state it saw.
    pub reads: Vec<(String, [u64; 5])>,
    /// The files that were seen or changed last, newest first.
    pub recent: Vec<String>,
}

impl Default for SavedSession {
    fn default() -> Self {
        Self { version: Self::VERSION, cwd: None, grants: Vec::new(), reads: Vec::new(), recent: Vec::new() }
    }
}

impl SavedSession {
    /// The form that is written now. It changes when an older haft could no longer read it.
    pub const VERSION: u32 = 1;

    /// Adds what another session over the same files knows: what either was granted, and of each file the
    /// newest state that either has seen. The current folder stays.
    pub fn merge(&mut self, other: SavedSession) {
        self.merge_grants(other.grants);
        // The last word is when the file last changed; who saw the later one saw it later.
        let mut reads: BTreeMap<String, [u64; 5]> = std::mem::take(&mut self.reads).into_iter().collect();
        for (path, seen) in other.reads {
            let known = reads.entry(path).or_insert(seen);
            if seen[4] > known[4] {
                *known = seen;
            }
        }
        self.reads = reads.into_iter().collect();
        for path in other.recent {
            if self.recent.len() < MAX_RECENT && !self.recent.contains(&path) {
                self.recent.push(path);
            }
        }
    }

    /// Adds what was granted elsewhere.
    pub fn merge_grants(&mut self, grants: Vec<Rule>) {
        for rule in grants {
            if !self.grants.contains(&rule) {
                self.grants.push(rule);
            }
        }
    }
}

/// A session that is being set up.
pub struct SessionBuilder {
    engine: Engine,
    workspace: Workspace,
    dialect: Arc<dyn Dialect>,
    tools: Vec<Arc<dyn DynTool>>,
    id: Option<Arc<str>>,
    mode: Mode,
    policy: Policy,
    saved: SavedSession,
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
            saved: SavedSession::default(),
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

    /// Goes on where an earlier run stopped.
    pub fn resume(mut self, saved: SavedSession) -> Self {
        self.saved = saved;
        self
    }

    /// Starts the session.
    pub fn start(self) -> Session {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id =
            self.id.unwrap_or_else(|| format!("session-{}", COUNT.fetch_add(1, Ordering::Relaxed)).into());
        let registry = Registry::default();
        for tool in self.dialect.tools().into_iter().chain(self.tools) {
            registry.replace(tool);
        }
        let state = State::resume(&self.workspace, self.mode, self.saved);
        Session(Arc::new(Inner {
            id,
            engine: self.engine,
            dialect: self.dialect,
            workspace: self.workspace,
            registry,
            schedule: Schedule::new(),
            policy: self.policy,
            cancel: CancellationToken::new(),
            turns: AtomicU64::new(1),
            state: Mutex::new(state),
            extensions: Mutex::default(),
        }))
    }
}

impl State {
    /// Places are looked up again: what has moved out of the workspace since is forgotten.
    fn resume(workspace: &Workspace, mode: Mode, saved: SavedSession) -> State {
        let start = workspace.focus().unwrap_or_else(|| workspace.root()).clone();
        let place = |path: &String| {
            let place = workspace.resolve(&start, path).ok()?;
            place.stat.map(|_| place.path)
        };
        let cwd = saved.cwd.as_ref().and_then(place).unwrap_or_else(|| start.clone());
        let reads =
            saved.reads.iter().filter_map(|(path, words)| Some((place(path)?, Stamp::from_words(*words))));
        State {
            cwd,
            mode,
            grants: saved.grants,
            reads: reads.collect(),
            recent: saved.recent.iter().filter_map(place).collect(),
        }
    }
}

impl Session {
    /// Makes one call and waits for its reply. Dropping the future cancels the call.
    ///
    /// A call that is made while another one runs waits for it if they conflict. So a tool that makes calls
    /// itself, and waits for them, must not claim what they claim: it would wait for itself.
    pub async fn call(&self, call: Call) -> Reply {
        let turn = self.turn();
        let job = self.engine().take_on(self, &turn, call);
        turn.seal();
        job.carry_out().await
    }

    /// Begins a turn: the calls of one assistant message.
    pub fn turn(&self) -> Turn {
        let number = self.0.turns.fetch_add(1, Ordering::Relaxed);
        Turn::new(self.clone(), number, self.0.cancel.child_token())
    }

    /// Stops every call of the session. Calls that come later are answered as cancelled.
    pub fn cancel(&self) {
        self.0.cancel.cancel();
    }

    /// The session's name.
    pub fn id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// The engine it runs on.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The dialect it speaks.
    pub fn dialect(&self) -> &Arc<dyn Dialect> {
        &self.0.dialect
    }

    /// The folders it may touch.
    pub fn workspace(&self) -> &Workspace {
        &self.0.workspace
    }

    /// Its tools.
    pub fn tools(&self) -> &Registry {
        &self.0.registry
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.0.schedule
    }

    pub(crate) fn policy(&self) -> Policy {
        self.0.policy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder that relative paths start from.
    pub fn cwd(&self) -> AbsPath {
        self.state().cwd.clone()
    }

    /// Moves to another folder.
    pub fn set_cwd(&self, folder: AbsPath) {
        self.state().cwd = folder;
    }

    /// How permissive it is.
    pub fn mode(&self) -> Mode {
        self.state().mode
    }

    /// Changes how permissive it is.
    pub fn set_mode(&self, mode: Mode) {
        self.state().mode = mode;
    }

    /// What was allowed for good.
    pub fn grants(&self) -> Vec<Rule> {
        self.state().grants.clone()
    }

    /// Allows something for good.
    pub fn grant(&self, rule: Rule) {
        let mut state = self.state();
        if !state.grants.contains(&rule) {
            state.grants.push(rule);
        }
    }

    /// The state in which the model last saw a file.
    pub fn last_seen(&self, path: &AbsPath) -> Option<Stamp> {
        self.state().reads.get(path).copied()
    }

    /// The files that were seen or changed last, newest first.
    pub fn recent(&self) -> Vec<AbsPath> {
        self.state().recent.iter().cloned().collect()
    }

    /// A value of the session's own, made when it is first asked for: what a tool keeps between calls.
    pub fn extension<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut extensions = self.0.extensions.lock().unwrap_or_else(PoisonError::into_inner);
        let value = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(extensions);
        value.downcast().unwrap_or_default()
    }

    pub(crate) fn apply(&self, effects: Vec<Effect>) {
        let mut state = self.state();
        for effect in effects {
            match effect {
                Effect::Read { path, stamp } => {
                    state.recent.retain(|recent| *recent != path);
                    state.recent.push_front(path.clone());
                    state.recent.truncate(MAX_RECENT);
                    state.reads.insert(path, stamp);
                }
            }
        }
    }

    /// A context outside of any call, for describing tools.
    pub fn context(&self) -> Context {
        Context::new(self.clone(), 0, "".into(), "".into(), self.0.cancel.child_token())
    }

    /// What to keep for a later run.
    pub fn save(&self) -> SavedSession {
        let state = self.state();
        let path = |path: &AbsPath| names::show(path.as_path());
        let mut reads: Vec<_> =
            state.reads.iter().map(|(file, stamp)| (path(file), stamp.as_words())).collect();
        reads.sort();
        SavedSession {
            version: SavedSession::VERSION,
            cwd: Some(path(&state.cwd)),
            grants: state.grants.clone(),
            reads,
            recent: state.recent.iter().map(path).collect(),
        }
    }

    /// A tool of any dialect, or of one's own, added while the session runs.
    pub fn add_tool(&self, tool: Arc<dyn DynTool>) -> Result<(), Fault> {
        self.0.registry.register(tool)
    }
}
