//! Where a call happens: its session, its turn, its way to be cancelled, and the effects it reports. Given
//! to every operation; knows nothing of the stages that a call goes through.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use haft_sandbox::{AbsPath, Stamp, Workspace};
use tokio_util::sync::CancellationToken;

use crate::activity::{Event, EventKind, Progress, What};
use crate::{Fault, FaultKind, Session};

/// Where a call happens. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    session: Session,
    turn: u64,
    call: Arc<str>,
    tool: Arc<str>,
    cancel: CancellationToken,
    effects: Mutex<Vec<Effect>>,
}

/// What a call did to what the session knows. Applied once the call has succeeded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// The model has seen a file, in this state.
    Read {
        /// The file.
        path: AbsPath,
        /// Its state.
        stamp: Stamp,
    },
}

impl Context {
    pub(crate) fn new(
        session: Session,
        turn: u64,
        call: Arc<str>,
        tool: Arc<str>,
        cancel: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner { session, turn, call, tool, cancel, effects: Mutex::default() }))
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// The only door to files.
    pub fn workspace(&self) -> &Workspace {
        self.0.session.workspace()
    }

    /// The folder that relative paths start from.
    pub fn cwd(&self) -> AbsPath {
        self.0.session.cwd()
    }

    /// The turn.
    pub fn turn(&self) -> u64 {
        self.0.turn
    }

    /// The id of the call.
    pub fn call(&self) -> &Arc<str> {
        &self.0.call
    }

    /// The name of the tool that was called.
    pub fn tool(&self) -> &Arc<str> {
        &self.0.tool
    }

    /// Whether the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Waits until the call should stop.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.cancel.clone().cancelled_owned()
    }

    /// The fault to return from work that stopped because it should.
    pub fn cancelled_fault(&self) -> Fault {
        Fault::new(FaultKind::Cancelled, "the call was cancelled")
    }

    /// The same place once the call is over: no longer cancelled with it, only with the session.
    pub(crate) fn after_the_call(&self) -> Self {
        let Inner { session, turn, call, tool, .. } = &*self.0;
        Self::new(session.clone(), *turn, call.clone(), tool.clone(), session.cancel_token().child_token())
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Passes on a piece of output while the call runs.
    pub fn output(&self, chunk: &str) {
        self.emit(EventKind::Output, || What::Output { chunk: chunk.to_owned() });
    }

    /// Tells how far the call has come.
    pub fn progress(&self, progress: Progress) {
        self.emit(EventKind::Progress, || What::Progress(progress));
    }

    /// Reports what the call did to what the session knows.
    pub fn effect(&self, effect: Effect) {
        self.0.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
    }

    pub(crate) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut *self.0.effects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn emit(&self, kind: EventKind, what: impl FnOnce() -> What) {
        self.session().engine().activity().emit(kind, || Event {
            at: SystemTime::now(),
            session: self.session().id().clone(),
            turn: self.turn(),
            call: self.call().clone(),
            tool: self.tool().clone(),
            what: what(),
        });
    }
}
