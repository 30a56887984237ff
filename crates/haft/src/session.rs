//! The state of one conversation: its workspace, its tools, where it stands, what it has seen and what it
//! was granted. A session speaks one dialect. How a call goes is the engine's matter.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_sandbox::{AbsPath, Durability, Stamp, Store, Workspace, names};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::journal::Journal;
use crate::schedule::Schedule;
use crate::seen::{SavedSeen, Seen, SeenFiles, Standing};
use crate::{
    Approver, BoxFuture, Call, CallHandle, Considered, Context, Dialect, DynTool, Effect, Engine, Fault,
    Mode, Now, Plain, Policy, Registry, Reply, Rule, Turn,
};

/// How many files a session remembers as changed.
const MAX_MODIFIED: usize = 20;

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
    /// Who is asked in place of whom the engine asks.
    approver: Option<Arc<dyn Approver>>,
    cancel: CancellationToken,
    turns: AtomicU64,
    state: Mutex<State>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    journal: Option<Journaled>,
    /// Told when something is allowed that was not before.
    loosened: watch::Sender<()>,
}

/// Where changes are recorded, and how surely.
pub(crate) struct Journaled {
    pub(crate) journal: Arc<Journal>,
    pub(crate) durability: Durability,
}

struct State {
    cwd: AbsPath,
    mode: Mode,
    grants: Vec<Rule>,
    plan_file: Option<AbsPath>,
    seen: SeenFiles,
    modified: VecDeque<AbsPath>,
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
    #[serde(deserialize_with = "only_rules")]
    pub grants: Vec<Rule>,
    /// The files that the model has seen, each with the state it saw.
    pub seen: Vec<SavedSeen>,
    /// The files that were changed last, newest first.
    pub modified: Vec<String>,
}

impl Default for SavedSession {
    fn default() -> Self {
        Self { version: Self::VERSION, cwd: None, grants: Vec::new(), seen: Vec::new(), modified: Vec::new() }
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
        let mut all: BTreeMap<String, SavedSeen> = BTreeMap::new();
        for seen in std::mem::take(&mut self.seen).into_iter().chain(other.seen) {
            let newer = all.get(&seen.path).is_none_or(|known| seen.stamp[4] > known.stamp[4]);
            if newer {
                all.insert(seen.path.clone(), seen);
            }
        }
        self.seen = all.into_values().collect();
        for path in other.modified {
            if self.modified.len() < MAX_MODIFIED && !self.modified.contains(&path) {
                self.modified.push(path);
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
    approver: Option<Arc<dyn Approver>>,
    saved: SavedSession,
    contents: Option<Store>,
    journal: Option<Journaled>,
    extensions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
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
            saved: SavedSession::default(),
            contents: None,
            journal: None,
            extensions: HashMap::new(),
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

    /// Starts the session.
    pub fn start(self) -> Session {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id =
            self.id.unwrap_or_else(|| format!("session-{}", COUNT.fetch_add(1, Ordering::Relaxed)).into());
        let registry = Registry::default();
        for tool in self.dialect.tools().into_iter().chain(self.tools) {
            registry.replace(tool);
        }
        let state = State::resume(&self.workspace, self.mode, self.saved, self.contents);
        Session(Arc::new(Inner {
            id,
            engine: self.engine,
            dialect: self.dialect,
            workspace: self.workspace,
            registry,
            schedule: Schedule::new(),
            policy: self.policy,
            approver: self.approver,
            cancel: CancellationToken::new(),
            turns: AtomicU64::new(1),
            state: Mutex::new(state),
            extensions: Mutex::new(self.extensions),
            journal: self.journal,
            loosened: watch::Sender::new(()),
        }))
    }
}

impl State {
    /// Places are looked up again: what has moved out of the workspace since is forgotten.
    fn resume(workspace: &Workspace, mode: Mode, saved: SavedSession, contents: Option<Store>) -> State {
        let start = workspace.focus().unwrap_or_else(|| workspace.root()).clone();
        let place = |path: &String| {
            let place = workspace.resolve(&start, path).ok()?;
            place.stat.map(|_| place.path)
        };
        let cwd = saved.cwd.as_ref().and_then(place).unwrap_or_else(|| start.clone());
        State {
            cwd,
            mode,
            grants: saved.grants,
            plan_file: None,
            seen: SeenFiles::resume(&saved.seen, contents, workspace),
            modified: saved.modified.iter().filter_map(place).collect(),
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

    /// Takes on one call, which can be stopped by its handle, and is carried out by whoever awaits the future. Unlike
    /// when that is dropped, a call that is stopped is waited for where it is changing something.
    pub fn take_on(&self, call: Call) -> (CallHandle, BoxFuture<'static, Reply>) {
        let turn = self.turn();
        let job = self.engine().take_on(self, &turn, call);
        turn.seal();
        (job.handle(), Box::pin(job.carry_out()))
    }

    /// What would become of a call, without making it: it is judged as it would be, but nobody is asked, and no hook
    /// is called.
    pub async fn consider(&self, call: Call) -> Result<Considered, Fault> {
        self.engine().consider(self, call).await
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

    pub(crate) fn approver(&self) -> Option<&dyn Approver> {
        self.0.approver.as_deref()
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
        self.0.loosened.send_replace(());
    }

    /// The file that may be changed while the session only plans.
    pub fn plan_file(&self) -> Option<AbsPath> {
        self.state().plan_file.clone()
    }

    /// Sets the file that may be changed while the session only plans.
    pub fn set_plan_file(&self, file: Option<AbsPath>) {
        self.state().plan_file = file;
    }

    /// Tells from now on when something may be allowed that was not before.
    pub(crate) fn loosened(&self) -> watch::Receiver<()> {
        self.0.loosened.subscribe()
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
        drop(state);
        self.0.loosened.send_replace(());
    }

    /// Allows something no longer.
    pub fn revoke(&self, rule: &Rule) -> bool {
        let mut state = self.state();
        let before = state.grants.len();
        state.grants.retain(|grant| grant != rule);
        state.grants.len() < before
    }

    /// The state in which the model last saw a file.
    pub fn last_seen(&self, path: &AbsPath) -> Option<Stamp> {
        self.state().seen.stamp(path)
    }

    /// How a file, as it is now, stands to what the model has seen of it.
    pub fn standing(&self, path: &AbsPath, now: &Seen) -> Standing {
        self.state().seen.standing(path, now)
    }

    /// The files that were changed last, newest first.
    pub fn modified(&self) -> Vec<AbsPath> {
        self.state().modified.iter().cloned().collect()
    }

    /// Where changes of files are recorded, if they are.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.0.journal.as_ref().map(|journaled| &journaled.journal)
    }

    pub(crate) fn journaled(&self) -> Option<&Journaled> {
        self.0.journal.as_ref()
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
                Effect::Read { path, seen } | Effect::Shown { path, seen } => state.seen.insert(path, seen),
                Effect::Changed { path, now } => {
                    match now {
                        Now::Seen(seen) => state.seen.insert(path.clone(), seen),
                        Now::AsBefore => {}
                        Now::Gone => state.seen.remove(&path),
                    }
                    state.modified.retain(|modified| *modified != path);
                    state.modified.push_front(path);
                    state.modified.truncate(MAX_MODIFIED);
                }
                Effect::Moved { from, to } => {
                    state.seen.rename(&from, &to);
                    state.modified.retain(|modified| !modified.is_within(&from) && *modified != to);
                    state.modified.push_front(to);
                    state.modified.truncate(MAX_MODIFIED);
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
        SavedSession {
            version: SavedSession::VERSION,
            cwd: Some(path(&state.cwd)),
            grants: state.grants.clone(),
            seen: state.seen.save(),
            modified: state.modified.iter().map(path).collect(),
        }
    }

    /// A tool of any dialect, or of one's own, added while the session runs.
    pub fn add_tool(&self, tool: Arc<dyn DynTool>) -> Result<(), Fault> {
        self.0.registry.register(tool)
    }
}

/// The rules of a list. What an older haft has kept in another form is asked again.
fn only_rules<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Rule>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(from)?;
    Ok(all.into_iter().filter_map(|rule| serde_json::from_value(rule).ok()).collect())
}
