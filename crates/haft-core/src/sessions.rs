//! Sessions: the state of one conversation. A session has a workspace, one dialect of tools, a mode, grants, and a record
//! of the files that the model has seen; [`SavedSession`] is what of it lasts between runs. Knows nothing of the stages
//! that a call goes through: those are the engine's.

mod builder;
mod saved;
mod saved_state;
mod seen;
mod shown;
mod state;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use haft_sandbox::{AbsPath, Durability, Stamp, Workspace, names};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use builder::SessionBuilder;
pub use saved::SavedSession;
pub use saved_state::{SavedState, SavedStates};
pub use seen::{SavedSeen, Seen, SeenStatus};
pub use shown::{ChangedLines, ShownLines};
pub use state::PastCall;
use state::State;

use crate::events::{EventKind, EventPayload};
use crate::permissions::{Approver, DryRun, Rule};
use crate::plans::Planning;
use crate::questions::Respondent;
use crate::schedule::Schedule;
use crate::{
    BoxFuture, Call, CallHandle, Context, Dialect, DynTool, Effect, Engine, Fault, Mode, Policy, Registry,
    Reply, Turn,
};
use haft_journal::Journal;

/// One conversation. Cheap to clone; ends when [`Session::cancel`] is called.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// A reference to a session that does not keep it alive, for values that the session itself owns.
#[derive(Clone)]
pub struct WeakSession(Weak<Inner>);

impl WeakSession {
    /// The session, if it is still alive.
    pub fn upgrade(&self) -> Option<Session> {
        self.0.upgrade().map(Session)
    }
}

struct Inner {
    id: Arc<str>,
    /// The session that delegated work to this one.
    parent: Option<Session>,
    engine: Engine,
    dialect: Arc<dyn Dialect>,
    workspace: RwLock<Workspace>,
    registry: Registry,
    schedule: Schedule,
    policy: Policy,
    /// Asked instead of the engine's approver.
    approver: Option<Arc<dyn Approver>>,
    respondent: Option<Arc<dyn Respondent>>,
    cancel: CancellationToken,
    turns: AtomicU64,
    state: Mutex<State>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// The extensions that the session was started with, which delegates inherit.
    initial_extensions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    lasting: SavedStates,
    journal: Option<Journaled>,
    /// Notified when a new rule or mode may allow calls that needed approval before.
    relaxed: watch::Sender<()>,
}

/// The journal that records changes, and how durably.
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
        let job = self.engine().accept(self, &turn, call);
        turn.seal();
        job.execute().await
    }

    /// Starts one call: claims its resources at once, and returns a handle that cancels it with a future that carries it
    /// out. Cancelling by the handle, unlike dropping the future, waits for a change that is being committed.
    pub fn start_call(&self, call: Call) -> (CallHandle, BoxFuture<'static, Reply>) {
        let turn = self.turn();
        let job = self.engine().accept(self, &turn, call);
        turn.seal();
        (job.handle(), Box::pin(job.execute()))
    }

    /// Dry run: predicts whether a call would be allowed, without running it. Judges see it as they would see the real
    /// call, but no approver is asked and no hook is called.
    pub async fn dry_run(&self, call: Call) -> Result<DryRun, Fault> {
        self.engine().dry_run(self, call).await
    }

    /// Begins a turn: the calls of one assistant message.
    pub fn turn(&self) -> Turn {
        self.begin_turn(None)
    }

    /// Begins a turn for the assistant message with this id, which [`Context::message`] tells to tools.
    pub fn turn_of(&self, message: impl Into<Arc<str>>) -> Turn {
        self.begin_turn(Some(message.into()))
    }

    fn begin_turn(&self, message: Option<Arc<str>>) -> Turn {
        let number = self.0.turns.fetch_add(1, Ordering::Relaxed);
        Turn::new(self.clone(), number, message, self.0.cancel.child_token())
    }

    /// Stops every call of the session. Calls that come later are answered as cancelled.
    pub fn cancel(&self) {
        self.0.cancel.cancel();
    }

    /// A reference that does not keep the session alive.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(Arc::downgrade(&self.0))
    }

    /// Whether a person can be asked questions: see [`Context::ask_user`].
    pub fn can_ask_user(&self) -> bool {
        let respondents = [self.respondent(), self.engine().respondent()];
        respondents.into_iter().flatten().any(|respondent| respondent.is_reachable())
    }

    /// Whether a call or a plan can be approved: by a person, or by a hook.
    pub fn can_ask_approval(&self) -> bool {
        self.engine().has_hooks()
            || self.approver().is_some_and(Approver::is_reachable)
            || self.engine().approver().is_reachable()
            || self.engine().plan_approver().is_some()
    }

    /// The session's id.
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

    /// The folders that calls may access from now on. A running call keeps the workspace it started with.
    pub fn workspace(&self) -> Workspace {
        self.0.workspace.read().clone()
    }

    /// Replaces the workspace for later calls. A focus outside of the new folders ends, and a current folder outside of them
    /// becomes the root.
    pub fn set_workspace(&self, workspace: Workspace) {
        let mut current = self.0.workspace.write();
        let focus = current.focus().map(|focus| names::show(focus.as_path()));
        *current = match focus.map(|focus| workspace.with_focus(&focus)) {
            Some(Ok(focused)) => focused,
            _ => workspace,
        };
        let mut state = self.state();
        if current.access(&state.cwd).is_none() {
            state.cwd = current.root().clone();
        }
    }

    /// The folder that the session is restricted to, if any.
    pub fn focus(&self) -> Option<AbsPath> {
        self.workspace().focus().cloned()
    }

    /// Restricts the session to one folder of its workspace, relative to the root or absolute, or lifts the restriction.
    /// Applies to later calls. If the current folder lies outside of the focus, the focus becomes the current folder.
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

    /// The session's tools.
    pub fn tools(&self) -> &Registry {
        &self.0.registry
    }

    /// Starts to configure a session that works for this one, such as a sub-agent's, under an id of its own. It inherits
    /// the workspace, the dialect, the journal, the approver and the extensions that this session was started with. It is
    /// never more permissive than this one, whatever its mode; grants apply to both; and it is cancelled with this one.
    pub fn delegate(&self, id: &str) -> SessionBuilder {
        SessionBuilder::delegate(self, id)
    }

    /// The session that delegated work to this one, if any.
    pub fn parent(&self) -> Option<&Session> {
        self.0.parent.as_ref()
    }

    /// The session at the top of the chain of delegations, which holds the grants.
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

    /// Changes the folder that relative paths start from.
    pub fn set_cwd(&self, folder: AbsPath) {
        self.state().cwd = folder;
    }

    /// The session's mode: the stricter one of its own and its parent's.
    pub fn mode(&self) -> Mode {
        let own = self.state().mode;
        self.parent().map_or(own, |parent| own.stricter(parent.mode()))
    }

    /// Changes the session's mode.
    pub fn set_mode(&self, mode: Mode) {
        self.state().set_mode(mode);
        self.root().0.relaxed.send_replace(());
    }

    /// The file that calls may change in plan mode.
    pub fn plan_file(&self) -> Option<AbsPath> {
        self.state().planning.file.clone()
    }

    /// Sets the file that calls may change in plan mode.
    pub fn set_plan_file(&self, file: Option<AbsPath>) {
        self.state().planning.file = file;
    }

    /// The mode to which the session returns when planning ends.
    pub fn mode_after_plan(&self) -> Mode {
        self.state().planning.before
    }

    pub(crate) fn with_planning<T>(&self, act: impl FnOnce(&mut Planning) -> T) -> T {
        act(&mut self.state().planning)
    }

    /// Notifies when a new rule or mode may allow calls that needed approval before.
    pub(crate) fn relaxed(&self) -> watch::Receiver<()> {
        self.root().0.relaxed.subscribe()
    }

    /// The rules that were granted for the session.
    pub fn grants(&self) -> Vec<Rule> {
        self.root().state().grants.clone()
    }

    /// Grants a rule for the session.
    pub fn grant(&self, rule: Rule) {
        let root = self.root();
        root.state().grant(rule);
        root.0.relaxed.send_replace(());
    }

    /// Revokes a granted rule. Returns whether it was granted.
    pub fn revoke(&self, rule: &Rule) -> bool {
        let mut state = self.root().state();
        let before = state.grants.len();
        state.grants.retain(|grant| grant != rule);
        state.grants.len() < before
    }

    /// The stamp of a file when the model last saw it.
    pub fn last_seen(&self, path: &AbsPath) -> Option<Stamp> {
        self.state().seen.stamp(path)
    }

    /// Compares a file's current content with what the model has seen of it.
    pub fn standing(&self, path: &AbsPath, now: &Seen) -> SeenStatus {
        self.state().seen.standing(path, now)
    }

    /// The lines of a file that the model was shown, in the version that it last saw.
    pub fn shown_lines(&self, path: &AbsPath) -> ShownLines {
        self.state().seen.lines(path)
    }

    /// The most recently changed files, newest first.
    pub fn modified(&self) -> Vec<AbsPath> {
        self.state().modified.iter().cloned().collect()
    }

    /// When a call of this run last changed a file, if one did.
    pub fn last_written(&self, path: &AbsPath) -> Option<SystemTime> {
        self.state().written.get(path).copied()
    }

    /// Forgets which files the model has seen and changed, as after the conversation was cleared: it must read files again
    /// before it changes them.
    pub fn forget_files(&self) {
        let mut state = self.state();
        state.seen.clear();
        state.modified.clear();
        state.written.clear();
    }

    /// The journal that records changes of files, if the session has one.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.0.journal.as_ref().map(|journaled| &journaled.journal)
    }

    pub(crate) fn journaled(&self) -> Option<&Journaled> {
        self.0.journal.as_ref()
    }

    /// A tool's state between calls, by type: created by `Default` on first use.
    pub fn extension<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut extensions = self.0.extensions.lock();
        let value = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(extensions);
        value.downcast().unwrap_or_default()
    }

    /// Replaces a tool's state between calls. Calls in progress keep what they have.
    pub fn set_extension<T: Any + Send + Sync>(&self, value: T) {
        self.0.extensions.lock().insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// A tool's state that is saved with the session and restored in a later run.
    pub fn lasting<T: SavedState>(&self) -> Arc<T> {
        self.0.lasting.get()
    }

    /// A call that has ended, unless the session has dropped it.
    pub fn past_call(&self, id: &str) -> Option<PastCall> {
        self.state().calls.get(id).cloned()
    }

    /// The ids of the calls that have ended and that the session remembers, the latest last.
    pub fn past_calls(&self) -> Vec<Arc<str>> {
        self.state().calls.ids()
    }

    pub(crate) fn remember_call(&self, id: Arc<str>, call: PastCall) {
        self.state().calls.insert(id, call);
    }

    /// Takes the messages that calls have queued for the program that leads the conversation: see [`Effect::Queued`].
    pub fn take_queued(&self) -> Vec<String> {
        std::mem::take(&mut self.state().queued)
    }

    /// Applies a call's effects. Runs before the call releases its claims, so that effects on the same part of the session
    /// happen in call order and a waiting call sees them.
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
                        cx.emit(EventKind::Fault, || EventPayload::Fault(fault));
                    }
                }
                Effect::Queued(text) => self.state().queued.push(text),
                Effect::Forgotten(call) => self.forget(&call, cx),
                file_effect => self.state().apply_file_effect(file_effect),
            }
        }
    }

    fn forget(&self, call: &Arc<str>, cx: &Context) {
        let Some(past) = self.state().calls.remove(call) else { return };
        let kept = self.engine().kept();
        // An error means that the sweep has removed the file already.
        past.files.iter().for_each(|file| drop(kept.map(|kept| kept.remove(file))));
        cx.emit(EventKind::Forgotten, || EventPayload::Forgotten { call: call.clone() });
    }

    /// A context outside of any call, such as for describing tools.
    pub fn context(&self) -> Context {
        Context::new(self.clone(), 0, "".into(), "".into(), self.0.cancel.child_token())
    }

    /// The state to save for a later run.
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

    /// Adds a tool while the session runs.
    pub fn add_tool(&self, tool: Arc<dyn DynTool>) -> Result<(), Fault> {
        self.0.registry.register(tool)
    }
}
