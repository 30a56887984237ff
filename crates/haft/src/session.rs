//! The state of one conversation: its workspace, its tools, where it stands, what it has seen and what it
//! was granted. A session speaks one dialect. How a call goes is the engine's matter.

mod builder;
mod saved;
mod state;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use haft_sandbox::{AbsPath, Durability, Stamp, Workspace, names};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use builder::SessionBuilder;
pub use saved::SavedSession;
pub use state::PastCall;
use state::State;

use crate::activity::{EventKind, What};
use crate::journal::Journal;
use crate::planning::Planning;
use crate::schedule::Schedule;
use crate::seen::{Seen, Standing};
use crate::{
    Approver, BoxFuture, Call, CallHandle, Considered, Context, Dialect, DynTool, Effect, Engine, Fault,
    Lasting, LastingValues, Mode, Policy, Registry, Reply, Respondent, Rule, Turn,
};

/// One conversation. Cheap to clone; ends when [`Session::cancel`] is called.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// A session that may be over: what belongs to it can know it by this without keeping it.
#[derive(Clone)]
pub struct WeakSession(Weak<Inner>);

impl WeakSession {
    /// The session, if somebody still has it.
    pub fn upgrade(&self) -> Option<Session> {
        self.0.upgrade().map(Session)
    }
}

struct Inner {
    id: Arc<str>,
    /// The session that it works for.
    parent: Option<Session>,
    engine: Engine,
    dialect: Arc<dyn Dialect>,
    workspace: RwLock<Workspace>,
    registry: Registry,
    schedule: Schedule,
    policy: Policy,
    /// Who is asked in place of whom the engine asks.
    approver: Option<Arc<dyn Approver>>,
    respondent: Option<Arc<dyn Respondent>>,
    cancel: CancellationToken,
    turns: AtomicU64,
    state: Mutex<State>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Those of them that it was set up with.
    given: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    lasting: LastingValues,
    journal: Option<Journaled>,
    /// Told when something is allowed that was not before.
    loosened: watch::Sender<()>,
}

/// Where changes are recorded, and how surely.
#[derive(Clone)]
pub(crate) struct Journaled {
    pub(crate) journal: Arc<Journal>,
    pub(crate) durability: Durability,
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

    /// The same without keeping it.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(Arc::downgrade(&self.0))
    }

    /// Whether there is somebody who can be asked questions: see [`Context::inquire`].
    pub fn can_inquire(&self) -> bool {
        self.respondent().or(self.engine().respondent()).is_some()
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

    /// The folders it may touch now. A call holds on to those that it began with.
    pub fn workspace(&self) -> Workspace {
        self.0.workspace.read().clone()
    }

    /// Has other folders from now on. A focus and a current folder that do not lie in them are left.
    pub fn set_workspace(&self, workspace: Workspace) {
        let mut held = self.0.workspace.write();
        let focus = held.focus().map(|focus| names::show(focus.as_path()));
        *held = match focus.map(|focus| workspace.with_focus(&focus)) {
            Some(Ok(focused)) => focused,
            _ => workspace,
        };
        let mut state = self.state();
        if held.access(&state.cwd).is_none() {
            state.cwd = held.root().clone();
        }
    }

    /// The folder that it is narrowed to, if any.
    pub fn focus(&self) -> Option<AbsPath> {
        self.workspace().focus().cloned()
    }

    /// Narrows it to one folder of its workspace, relative to the root or absolute, in place of the one before; or to
    /// none. Holds for calls that come later. A current folder that lies outside is left for the focus.
    pub fn set_focus(&self, folder: Option<&str>) -> Result<(), Fault> {
        let mut workspace = self.0.workspace.write();
        let whole = workspace.without_focus();
        *workspace = match folder {
            Some(folder) => whole.with_focus(folder)?,
            None => whole,
        };
        let mut state = self.state();
        if let Some(focus) = workspace.focus()
            && !state.cwd.is_within(focus)
        {
            state.cwd = focus.clone();
        }
        Ok(())
    }

    /// Its tools.
    pub fn tools(&self) -> &Registry {
        &self.0.registry
    }

    /// Sets up a session that works for this one, under a name of its own, with the same workspace, dialect, journal
    /// and values that this one was set up with. Whoever is asked about this session's calls is asked about the
    /// other's, and told its name. It is never more permissive than this one, whatever its mode; what is allowed for
    /// the session is so for both; and it ends with this one.
    pub fn delegate(&self, name: &str) -> SessionBuilder {
        SessionBuilder::below(self, name)
    }

    /// The session that it works for, if there is one.
    pub fn parent(&self) -> Option<&Session> {
        self.0.parent.as_ref()
    }

    /// The session that nobody else's work is behind.
    fn root(&self) -> &Session {
        self.parent().map_or(self, Session::root)
    }

    pub(crate) fn approver(&self) -> Option<&dyn Approver> {
        self.0.approver.as_deref().or_else(|| self.parent()?.approver())
    }

    pub(crate) fn respondent(&self) -> Option<&Arc<dyn Respondent>> {
        self.0.respondent.as_ref().or_else(|| self.parent()?.respondent())
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
        self.0.state.lock()
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
        let own = self.state().mode;
        self.parent().map_or(own, |parent| own.stricter(parent.mode()))
    }

    /// Changes how permissive it is.
    pub fn set_mode(&self, mode: Mode) {
        self.state().set_mode(mode);
        self.root().0.loosened.send_replace(());
    }

    /// The file that may be changed while the session only plans.
    pub fn plan_file(&self) -> Option<AbsPath> {
        self.state().planning.file.clone()
    }

    /// Sets the file that may be changed while the session only plans.
    pub fn set_plan_file(&self, file: Option<AbsPath>) {
        self.state().planning.file = file;
    }

    /// The mode that follows when planning ends: the one that was before.
    pub fn mode_after_plan(&self) -> Mode {
        self.state().planning.before
    }

    pub(crate) fn with_planning<T>(&self, act: impl FnOnce(&mut Planning) -> T) -> T {
        act(&mut self.state().planning)
    }

    /// Tells from now on when something may be allowed that was not before.
    pub(crate) fn loosened(&self) -> watch::Receiver<()> {
        self.root().0.loosened.subscribe()
    }

    /// What was allowed for good.
    pub fn grants(&self) -> Vec<Rule> {
        self.root().state().grants.clone()
    }

    /// Allows something for good.
    pub fn grant(&self, rule: Rule) {
        let root = self.root();
        root.state().grant(rule);
        root.0.loosened.send_replace(());
    }

    /// Allows something no longer.
    pub fn revoke(&self, rule: &Rule) -> bool {
        let mut state = self.root().state();
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
        let mut extensions = self.0.extensions.lock();
        let value = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(extensions);
        value.downcast().unwrap_or_default()
    }

    /// A value of the session's own that is kept with it between runs, if the session is.
    pub fn lasting<T: Lasting>(&self) -> Arc<T> {
        self.0.lasting.get()
    }

    /// A call that has ended, if it is still remembered.
    pub fn past_call(&self, id: &str) -> Option<PastCall> {
        self.state().calls.get(id).cloned()
    }

    /// The ids of the calls that are remembered, the latest last.
    pub fn past_calls(&self) -> Vec<Arc<str>> {
        self.state().calls.ids()
    }

    pub(crate) fn remember_call(&self, id: Arc<str>, call: PastCall) {
        self.state().calls.insert(id, call);
    }

    /// Takes what calls have left for later: see [`Effect::Queued`].
    pub fn take_queued(&self) -> Vec<String> {
        std::mem::take(&mut self.state().queued)
    }

    /// Applied before the call lets go of what it claims. So what two calls of a turn do to the same part of the
    /// session happens in call order, and whoever waits for it sees it.
    pub(crate) fn apply(&self, effects: Vec<Effect>, cx: &Context) {
        for effect in effects {
            match effect {
                Effect::Mode(mode) => self.set_mode(mode),
                Effect::PlanFile(file) => self.set_plan_file(file),
                Effect::Granted(rule) => self.grant(rule),
                Effect::Cwd(folder) => self.set_cwd(folder),
                Effect::Focus(folder) => {
                    let folder = folder.as_ref().map(|folder| names::show(folder.as_path()));
                    if let Err(fault) = self.set_focus(folder.as_deref()) {
                        cx.emit(EventKind::Fault, || What::Fault(fault));
                    }
                }
                Effect::Queued(text) => self.state().queued.push(text),
                Effect::Forgotten(call) => self.forget(&call, cx),
                of_files => self.state().learn(of_files),
            }
        }
    }

    fn forget(&self, call: &Arc<str>, cx: &Context) {
        let Some(past) = self.state().calls.remove(call) else { return };
        let kept = self.engine().kept();
        // One that is gone already was swept.
        past.files.iter().for_each(|file| drop(kept.map(|kept| kept.remove(file))));
        cx.emit(EventKind::Forgotten, || What::Forgotten { call: call.clone() });
    }

    /// A context outside of any call, for describing tools.
    pub fn context(&self) -> Context {
        Context::new(self.clone(), 0, "".into(), "".into(), self.0.cancel.child_token())
    }

    /// What to keep for a later run.
    pub fn save(&self) -> SavedSession {
        let (lasting, changed) = self.0.lasting.save();
        let state = self.state();
        let path = |path: &AbsPath| names::show(path.as_path());
        SavedSession {
            version: SavedSession::VERSION,
            cwd: Some(path(&state.cwd)),
            grants: state.grants.clone(),
            seen: state.seen.save(),
            modified: state.modified.iter().map(path).collect(),
            planning: (state.mode == Mode::Plan).then(|| state.planning.save()),
            lasting,
            changed,
        }
    }

    /// A tool of any dialect, or of one's own, added while the session runs.
    pub fn add_tool(&self, tool: Arc<dyn DynTool>) -> Result<(), Fault> {
        self.0.registry.register(tool)
    }
}
