//! Where a call happens: its session, its turn, its way to be cancelled, and the effects it reports. Given
//! to every operation; knows nothing of the stages that a call goes through.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use haft_sandbox::{AbsPath, Access, ChangeError, ChangeErrorKind, Durability, PathError, Place, Workspace};
use tokio_util::sync::CancellationToken;

use crate::activity::{Event, EventKind, Progress, What};
use crate::claim::Access as ClaimAccess;
use crate::journal::{Journal, Label};
use crate::seen::Seen;
use crate::session::Journaled;
use crate::{Claims, Fault, FaultKind, Keeping, Mode, Outside, Resource, Rule, Session};

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
    /// Whether a change is being made that cannot be left half way.
    committing: AtomicBool,
    /// The session's, when the call came.
    workspace: Workspace,
    reach: Reach,
    /// Files that hold what did not fit into the reply.
    kept: Mutex<Vec<PathBuf>>,
    /// Places that the call may change and named in another way, through a link: that name counts as well.
    names: Mutex<Vec<(AbsPath, AbsPath)>>,
}

/// The session's workspace with what a call reaches outside of it, once for every time that it reaches further.
#[derive(Default)]
struct Reach(OnceLock<Box<(Workspace, Reach)>>);

impl Reach {
    /// The furthest it has reached, and where the next reach goes.
    fn furthest(&self) -> (Option<&Workspace>, &Reach) {
        let (mut workspace, mut last) = (None, self);
        while let Some(further) = last.0.get() {
            (workspace, last) = (Some(&further.0), &further.1);
        }
        (workspace, last)
    }
}

/// What a call did to what the session knows. Applied once the call has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// The model has seen a file. Counts if the call succeeds.
    Read {
        /// The file.
        path: AbsPath,
        /// What it saw.
        seen: Seen,
    },
    /// The model is shown a file by a fault, such as one that says how it has changed.
    Shown {
        /// The file.
        path: AbsPath,
        /// What it is shown.
        seen: Seen,
    },
    /// A file was changed. Counts whatever becomes of the call.
    Changed {
        /// The file.
        path: AbsPath,
        /// What the model knows of it now.
        now: Now,
    },
    /// A file or folder has another name; what the model knew of it, it still knows. Counts whatever becomes
    /// of the call.
    Moved {
        /// Its name before.
        from: AbsPath,
        /// Its name now.
        to: AbsPath,
    },
    /// The session is as permissive as this. Counts if the call succeeds, as does all that follows.
    Mode(Mode),
    /// While the session only plans, this file may be changed.
    PlanFile(Option<AbsPath>),
    /// Something is allowed for as long as the session lasts.
    Granted(Rule),
    /// The session is in another folder.
    Cwd(AbsPath),
    /// The session is narrowed to a folder, or to none.
    Focus(Option<AbsPath>),
    /// Whoever leads the conversation is to do something later: see [`Session::take_queued`].
    Queued(String),
    /// What is kept of an earlier call is dropped.
    Forgotten(Arc<str>),
}

/// How long a change is going to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// About as long as the disk takes for a small file: waking another thread for it would take as long.
    Light,
    /// Longer: it is made on a thread of its own.
    Heavy,
}

fn many_threads() -> bool {
    let handle = tokio::runtime::Handle::try_current();
    handle.is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread)
}

/// What the model knows of a file that was changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Now {
    /// All of it.
    Seen(Seen),
    /// What it knew before, whatever the file is now.
    AsBefore,
    /// That it is gone.
    Gone,
}

impl Effect {
    /// Whether it also counts when the call failed.
    pub(crate) fn outlasts_failure(&self) -> bool {
        matches!(self, Effect::Shown { .. } | Effect::Changed { .. } | Effect::Moved { .. })
    }
}

impl Context {
    pub(crate) fn new(
        session: Session,
        turn: u64,
        call: Arc<str>,
        tool: Arc<str>,
        cancel: CancellationToken,
    ) -> Self {
        let workspace = session.workspace();
        Self(Arc::new(Inner {
            session,
            turn,
            call,
            tool,
            cancel,
            effects: Mutex::default(),
            committing: AtomicBool::new(false),
            workspace,
            reach: Reach::default(),
            kept: Mutex::default(),
            names: Mutex::default(),
        }))
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// The only door to files.
    pub fn workspace(&self) -> &Workspace {
        self.0.reach.furthest().0.unwrap_or(&self.0.workspace)
    }

    /// The session's workspace as it was when the call came, without what the call reaches outside of it.
    pub fn session_workspace(&self) -> &Workspace {
        &self.0.workspace
    }

    /// Finds a place that may lie outside of the session's workspace, where the dialect lets calls ask for
    /// that. From then on the call can use its folder; that it may is for [the permission](crate::Approver)
    /// of the call to say, which sees it in the claims.
    pub fn reach(&self, base: &AbsPath, path: &str, access: Access) -> Result<Place, PathError> {
        if self.session().dialect().outside() == Outside::Refused {
            let place = self.workspace().resolve(base, path)?;
            self.remember_name(base, path, &place);
            return Ok(place);
        }
        let (workspace, place) = self.workspace().reaching(base, path, access)?;
        if self.workspace().access(&place.path).is_none() {
            let _ = self.0.reach.furthest().1.0.set(Box::new((workspace, Reach::default())));
        }
        self.remember_name(base, path, &place);
        Ok(place)
    }

    /// Finds an entry of a folder of the workspace: if it is a link, the link itself.
    pub fn entry(&self, base: &AbsPath, path: &str) -> Result<Place, PathError> {
        let place = self.workspace().resolve_entry(base, path)?;
        self.remember_name(base, path, &place);
        Ok(place)
    }

    fn remember_name(&self, base: &AbsPath, path: &str, place: &Place) {
        let named = self.workspace().as_named(base, path);
        if named != place.path {
            self.names().push((place.path.clone(), named));
        }
    }

    /// The name that led to a place, if it has another.
    pub(crate) fn name_of(&self, place: &AbsPath) -> Option<AbsPath> {
        self.names().iter().find(|(found, _)| found == place).map(|(_, name)| name.clone())
    }

    fn names(&self) -> MutexGuard<'_, Vec<(AbsPath, AbsPath)>> {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims with the other names of what would be read or changed: a rule about a name holds whichever way it leads.
    pub(crate) fn with_names(&self, claims: Claims) -> Result<Claims, Fault> {
        let changed = |place: &AbsPath| {
            claims.iter().any(|claim| claim == (ClaimAccess::Write, &Resource::Path(place.clone())))
        };
        let names: Vec<AbsPath> =
            self.names().iter().filter(|(place, _)| changed(place)).map(|(_, name)| name.clone()).collect();
        if let Some(name) = names.iter().find(|name| self.workspace().is_guarded(name)) {
            return Err(ChangeError::new(self.workspace().display(name), ChangeErrorKind::Guarded).into());
        }
        // The workspace itself may be called by another name; that is no place outside of it.
        let inside = |name: &AbsPath| self.session_workspace().access(name).is_some();
        let names_read = |(place, name): &&(AbsPath, AbsPath)| !changed(place) && inside(name);
        let only_read: Vec<AbsPath> =
            self.names().iter().filter(names_read).map(|(_, name)| name.clone()).collect();
        let claims = names.into_iter().fold(claims, |claims, name| claims.write(Resource::Path(name)));
        Ok(only_read.into_iter().fold(claims, |claims, name| claims.read(Resource::Path(name))))
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
    pub fn after_the_call(&self) -> Self {
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

    /// Begins to keep a long output in a file; nothing if results are not kept, or it cannot be.
    pub fn keep_output(&self) -> Option<Keeping> {
        let keeping = self.session().engine().kept()?.begin(self.call()).ok()?;
        self.has_kept(keeping.path().to_owned());
        Some(keeping)
    }

    /// Remembers a file that holds what did not fit into the reply.
    pub(crate) fn has_kept(&self, file: PathBuf) {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }

    pub(crate) fn take_kept(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.0.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells everybody that something which a call had started has ended by itself.
    pub fn finished(&self, what: &str, how: &str) {
        self.emit(EventKind::Finished, || What::Finished { what: what.to_owned(), how: how.to_owned() });
    }

    /// Tells how far the call has come.
    pub fn progress(&self, progress: Progress) {
        self.emit(EventKind::Progress, || What::Progress(progress));
    }

    /// Tells what something that the call works with has told about itself.
    pub fn log(&self, source: &str, level: &str, text: &str) {
        self.emit(EventKind::Log, || What::Log {
            source: source.to_owned(),
            level: level.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Reports what the call did to what the session knows.
    pub fn effect(&self, effect: Effect) {
        self.0.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
    }

    /// Makes changes through the session's journal. From here on the call is
    /// waited for even if it is cancelled: a change is made and reported, or neither.
    pub async fn commit<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce(&Journal, Label<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let Some(Journaled { journal, durability }) = self.session().journaled() else {
            return Err(Fault::new(
                FaultKind::Disabled,
                "this session keeps no journal, so no file can be changed",
            )
            .hint("start the session with a journal"));
        };
        if self.is_cancelled() {
            return Err(self.cancelled_fault());
        }
        let (durability, cx) = (*durability, self.clone());
        let is_alone = !many_threads();
        let may_wait = is_alone && weight == Weight::Light && durability == Durability::Full;
        let quick = may_wait.then(|| journal.is_quick()).flatten();
        let is_soon = durability == Durability::Fast || quick.is_some();
        let journal = journal.clone();
        self.0.committing.store(true, Ordering::Release);
        let work = move || {
            let label = Label { tool: cx.tool(), session: cx.session().id(), durability };
            work(&journal, label)
        };
        let done = match weight {
            Weight::Heavy => tokio::task::spawn_blocking(work).await,
            Weight::Light if !is_alone => Ok(tokio::task::block_in_place(work)),
            Weight::Light if is_soon => Ok(work()),
            // The only thread does not wait for a slow disk.
            Weight::Light => tokio::task::spawn_blocking(work).await,
        };
        drop(quick);
        self.0.committing.store(false, Ordering::Release);
        match done {
            Ok(done) => done,
            Err(panic) => Err(Fault::new(FaultKind::Internal, format!("the change crashed: {panic}"))),
        }
    }

    /// Waits for work that belongs to a change which was just committed, such as a check of the file. The call waits even
    /// if it is cancelled meanwhile, because its reply must say that the change was made.
    pub async fn uncancelled<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.committing.store(true, Ordering::Release);
        let done = work.await;
        self.0.committing.store(false, Ordering::Release);
        done
    }

    /// Whether a change is being made that cannot be left half way.
    pub(crate) fn is_committing(&self) -> bool {
        self.0.committing.load(Ordering::Acquire)
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
