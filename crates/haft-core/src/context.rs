//! The context of a call: its session, its turn, its cancellation, and the effects it reports. Every operation gets
//! one; it knows nothing of the stages that a call goes through.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use haft_sandbox::{AbsPath, ChangeError, ChangeErrorKind, FolderAccess, PathError, ResolvedPath, Workspace};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::claim::Access;
use crate::dialect::Outside;
use crate::events::{Event, EventKind, EventPayload, Progress};
use crate::limits::OffloadFile;
use crate::permissions::HiddenFiles;
use crate::permissions::{Rule, Verdict};
use crate::sessions::Journaled;
use crate::sessions::Seen;
use crate::trials::RunManner;
use crate::{Claims, Fault, FaultKind, Mode, Resource, Session};
use haft_journal::{Journal, Label};

/// The most bytes of output that the reply to a cancelled call shows.
const MAX_PRINTED: usize = 8000;

/// The context of a call: its session, workspace, cancellation, output and effects. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    session: Session,
    turn: u64,
    call: Arc<str>,
    tool: Arc<str>,
    cancel: CancellationToken,
    effects: Mutex<Vec<Effect>>,
    /// Whether a commit is under way, which cancelling must not abandon.
    committing: AtomicBool,
    /// Whether work is under way that stops by itself when the call is cancelled.
    stops_itself: AtomicBool,
    /// Whether the person who approved the call lets it reach the network.
    network: AtomicBool,
    /// How the call's effects come to count.
    manner: Mutex<RunManner>,
    /// The arguments and claims of a call whose effects are asked about.
    facts: OnceLock<(Value, Claims)>,
    /// Nanoseconds in which the call waited for a person.
    asking: AtomicU64,
    /// The session's workspace at the time of the call.
    workspace: Workspace,
    extended: ExtendedWorkspace,
    /// Files with the output that did not fit into the reply.
    kept_files: Mutex<Vec<PathBuf>>,
    /// The end of what the call has printed so far, for the reply to a call that is cancelled.
    printed: Mutex<String>,
    /// The id of the message whose turn this is.
    message: Option<Arc<str>>,
    /// Resolved paths that the call named differently, through a link, each with that name. Rules about the name apply
    /// as well.
    aliases: Mutex<Vec<(AbsPath, AbsPath)>>,
}

/// The session's workspace extended by folders outside of it: a list that grows by one workspace per extension, so that
/// [`Context::workspace`] can hand out references without a lock.
#[derive(Default)]
struct ExtendedWorkspace(OnceLock<Box<(Workspace, ExtendedWorkspace)>>);

impl ExtendedWorkspace {
    /// The latest extension, and the empty end of the list.
    fn latest(&self) -> (Option<&Workspace>, &ExtendedWorkspace) {
        let (mut workspace, mut last) = (None, self);
        while let Some(next) = last.0.get() {
            (workspace, last) = (Some(&next.0), &next.1);
        }
        (workspace, last)
    }
}

/// A change to the session's state that a call reports. The engine applies it once the call has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// The model has seen a file. Applied if the call succeeds.
    Read {
        /// The file.
        path: AbsPath,
        /// What it saw.
        seen: Seen,
    },
    /// A fault shows a file to the model, such as one that says how the file has changed. Applied even if the call fails.
    Shown {
        /// The file.
        path: AbsPath,
        /// What the fault shows.
        seen: Seen,
    },
    /// The call changed a file. Applied even if the call fails.
    Changed {
        /// The file.
        path: AbsPath,
        /// What the model knows of it now.
        now: KnownContent,
    },
    /// The call moved a file or folder; what the model knew of it moves along. Applied even if the call fails.
    Moved {
        /// Its name before.
        from: AbsPath,
        /// Its name now.
        to: AbsPath,
    },
    /// The session switches to this mode. Applied if the call succeeds, as are all of the following.
    Mode(Mode),
    /// The file that calls may change in plan mode.
    PlanFile(Option<AbsPath>),
    /// A rule allows calls for as long as the session lasts.
    Granted(Rule),
    /// The session's current folder changes.
    Cwd(AbsPath),
    /// The session's focus changes to a folder, or ends.
    Focus(Option<AbsPath>),
    /// A message for the program that leads the conversation: see [`Session::take_queued`].
    Queued(String),
    /// The session drops what it keeps of an earlier call.
    Forgotten(Arc<str>),
}

/// What the model knows of a file after a change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KnownContent {
    /// The new content.
    Seen(Seen),
    /// Only the content before the change.
    AsBefore,
    /// That the file no longer exists.
    Gone,
}

impl Effect {
    /// Whether the effect is applied even if the call failed.
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
            stops_itself: AtomicBool::new(false),
            network: AtomicBool::new(false),
            manner: Mutex::default(),
            facts: OnceLock::new(),
            asking: AtomicU64::new(0),
            workspace,
            extended: ExtendedWorkspace::default(),
            kept_files: Mutex::default(),
            printed: Mutex::default(),
            message: None,
            aliases: Mutex::default(),
        }))
    }

    /// Sets the message that the call is part of. Only for a context that was just made.
    pub(crate) fn of_message(mut self, message: Option<Arc<str>>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.message = message;
        }
        self
    }

    /// The session in which the call runs.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// The workspace, through which all file access goes, with the folders that [`Context::reach`] has added.
    pub fn workspace(&self) -> &Workspace {
        self.0.extended.latest().0.unwrap_or(&self.0.workspace)
    }

    /// The session's workspace at the time of the call, without the folders that [`Context::reach`] has added.
    pub fn session_workspace(&self) -> &Workspace {
        &self.0.workspace
    }

    /// Resolves a path that may lie outside of the session's workspace, where the [dialect](crate::Dialect::outside) allows
    /// that, and adds its folder to the call's workspace. Access still needs [approval](crate::permissions::Approver): the
    /// path is among the call's claims.
    pub fn reach(&self, base: &AbsPath, path: &str, access: FolderAccess) -> Result<ResolvedPath, PathError> {
        if self.session().dialect().outside() == Outside::Refused {
            let place = self.workspace().resolve(base, path)?;
            self.remember_alias(base, path, &place);
            return Ok(place);
        }
        let (workspace, place) = self.workspace().reaching(base, path, access)?;
        if self.workspace().access(&place.path).is_none() {
            let _ = self.0.extended.latest().1.0.set(Box::new((workspace, ExtendedWorkspace::default())));
        }
        self.remember_alias(base, path, &place);
        Ok(place)
    }

    /// Resolves an entry of a folder of the workspace without following it: a link resolves to the link itself.
    pub fn entry(&self, base: &AbsPath, path: &str) -> Result<ResolvedPath, PathError> {
        let place = self.workspace().resolve_entry(base, path)?;
        self.remember_alias(base, path, &place);
        Ok(place)
    }

    fn remember_alias(&self, base: &AbsPath, path: &str, place: &ResolvedPath) {
        let named = self.workspace().lexical_path(base, path);
        if named != place.path {
            self.aliases().push((place.path.clone(), named));
        }
    }

    /// The name by which the call referred to a resolved path, if it was a different one.
    pub(crate) fn alias_of(&self, place: &AbsPath) -> Option<AbsPath> {
        self.aliases().iter().find(|(found, _)| found == place).map(|(_, name)| name.clone())
    }

    fn aliases(&self) -> MutexGuard<'_, Vec<(AbsPath, AbsPath)>> {
        self.0.aliases.lock()
    }

    /// Adds the aliases of claimed paths to the claims, so that a rule about a link's name applies as well as one about
    /// its target.
    pub(crate) fn with_aliases(&self, claims: Claims) -> Result<Claims, Fault> {
        let is_written = |path: &AbsPath| {
            claims.iter().any(|claim| claim == (Access::Write, &Resource::Path(path.clone())))
        };
        let written: Vec<AbsPath> = self
            .aliases()
            .iter()
            .filter(|(path, _)| is_written(path))
            .map(|(_, name)| name.clone())
            .collect();
        if let Some(name) = written.iter().find(|name| self.workspace().is_guarded(name)) {
            return Err(ChangeError::new(self.workspace().display(name), ChangeErrorKind::Guarded).into());
        }
        // An alias outside of the workspace is a link to the workspace itself, not a path that the call leaves it by.
        let inside = |name: &AbsPath| self.session_workspace().access(name).is_some();
        let is_read = |(path, name): &&(AbsPath, AbsPath)| !is_written(path) && inside(name);
        let read: Vec<AbsPath> =
            self.aliases().iter().filter(is_read).map(|(_, name)| name.clone()).collect();
        let claims = written.into_iter().fold(claims, |claims, name| claims.write(Resource::Path(name)));
        Ok(read.into_iter().fold(claims, |claims, name| claims.read(Resource::Path(name))))
    }

    /// The folder that relative paths start from.
    pub fn cwd(&self) -> AbsPath {
        self.0.session.cwd()
    }

    /// The number of the turn, counted from 1 in each session; 0 outside of any turn.
    pub fn turn(&self) -> u64 {
        self.0.turn
    }

    /// The id of the assistant message that the call is part of, if the program that began the turn
    /// [named it](crate::Session::turn_of).
    pub fn message(&self) -> Option<&Arc<str>> {
        self.0.message.as_ref()
    }

    /// The id of the call.
    pub fn call(&self) -> &Arc<str> {
        &self.0.call
    }

    /// The name of the tool that was called.
    pub fn tool(&self) -> &Arc<str> {
        &self.0.tool
    }

    /// Whether the person who approved the call lets it reach the network, this once.
    pub fn may_use_network(&self) -> bool {
        self.0.network.load(Ordering::Acquire)
    }

    /// Waits for a person's answer, and keeps in mind how long that took.
    pub(crate) async fn waiting_for_person<T>(&self, asking: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let answer = asking.await;
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.asking.fetch_add(took, Ordering::AcqRel);
        answer
    }

    /// How long the call has waited for a person.
    pub(crate) fn waited_for_person(&self) -> Duration {
        Duration::from_nanos(self.0.asking.load(Ordering::Acquire))
    }

    /// How the call's effects come to count, as rules, settings or the person who was asked decided.
    pub fn run_manner(&self) -> RunManner {
        *self.0.manner.lock()
    }

    /// Decides how the call's effects come to count.
    pub(crate) fn decide_manner(&self, manner: RunManner) {
        *self.0.manner.lock() = manner;
    }

    /// Keeps what a question about the call's effects shows of it.
    pub(crate) fn keep_facts(&self, input: &Value, claims: &Claims) {
        let _ = self.0.facts.set((input.clone(), claims.clone()));
    }

    /// The arguments and claims of the call, if its effects may be asked about.
    pub(crate) fn facts(&self) -> Option<&(Value, Claims)> {
        self.0.facts.get()
    }

    pub(crate) fn give_network(&self) {
        self.0.network.store(true, Ordering::Release);
    }

    /// Whether the call was cancelled and should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Completes when the call is cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.cancel.clone().cancelled_owned()
    }

    /// The fault to return from work that stopped because the call was cancelled.
    pub fn cancelled_fault(&self) -> Fault {
        Fault::new(FaultKind::Cancelled, "the call was cancelled")
    }

    /// A context for work that outlives the call: it is cancelled with the session, not with the call.
    pub fn after_the_call(&self) -> Self {
        let Inner { session, turn, call, tool, .. } = &*self.0;
        Self::new(session.clone(), *turn, call.clone(), tool.clone(), session.cancel_token().child_token())
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// What the judges say about further resources that the call comes across while it runs, such as the host that a page
    /// redirects to. A judge that fails is an error.
    pub fn verdict(&self, claims: &Claims) -> Result<Verdict, Fault> {
        let Some(tool) = self.session().tools().get(self.tool()) else {
            return Err(Fault::new(FaultKind::UnknownTool, format!("`{}` is gone", self.tool())));
        };
        self.session().engine().verdict(tool.spec(), claims, self)
    }

    /// Emits a chunk of output while the call runs. The reply to a call that is cancelled shows the end of it.
    pub fn output(&self, chunk: &str) {
        self.remember_output(chunk);
        self.emit(EventKind::Output, || EventPayload::Output { chunk: chunk.to_owned() });
    }

    fn remember_output(&self, chunk: &str) {
        let mut printed = self.0.printed.lock();
        printed.push_str(chunk);
        // Cut only now and then, so that many small chunks do not move the text every time.
        if printed.len() > 2 * MAX_PRINTED {
            let cut = printed.len() - MAX_PRINTED;
            let cut = (cut..printed.len()).find(|at| printed.is_char_boundary(*at)).unwrap_or(cut);
            printed.drain(..cut);
        }
    }

    /// The fault of a call that was cancelled while it ran, with the end of what it had printed.
    pub(crate) fn interrupted_fault(&self) -> Fault {
        let printed = self.0.printed.lock();
        let start = printed.len().saturating_sub(MAX_PRINTED);
        let start = (start..printed.len()).find(|at| printed.is_char_boundary(*at)).unwrap_or(start);
        match &printed[start..] {
            "" => self.cancelled_fault(),
            end => self.cancelled_fault().with("output", end),
        }
    }

    /// Starts to offload a long output to a file. `None` if the engine keeps no results, or the file cannot be created.
    pub fn keep_output(&self) -> Option<OffloadFile> {
        let keeping = self.session().engine().kept()?.begin(self.call()).ok()?;
        self.record_kept_file(keeping.path().to_owned());
        Some(keeping)
    }

    /// Remembers a file with output that did not fit into the reply.
    pub(crate) fn record_kept_file(&self, file: PathBuf) {
        self.0.kept_files.lock().push(file);
    }

    pub(crate) fn take_kept_files(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.0.kept_files.lock())
    }

    /// Emits that background work which a call had started, such as a command, has ended.
    pub fn finished(&self, id: &str, outcome: &str) {
        self.emit(EventKind::Finished, || EventPayload::Finished {
            id: id.to_owned(),
            outcome: outcome.to_owned(),
        });
    }

    /// Emits how far the call has come.
    pub fn progress(&self, progress: Progress) {
        self.emit(EventKind::Progress, || EventPayload::Progress(progress));
    }

    /// Emits a log message of something that the call works with, such as a server of tools.
    pub fn log(&self, source: &str, level: &str, text: &str) {
        self.emit(EventKind::Log, || EventPayload::Log {
            source: source.to_owned(),
            level: level.to_owned(),
            text: text.to_owned(),
        });
    }

    /// The files that this session must not read, one set per judge. A judge that panics hides every file.
    pub fn hidden_files(&self) -> Vec<Arc<dyn HiddenFiles>> {
        self.session().engine().hidden_files(self)
    }

    /// Reports a change to the session's state, which the engine applies once the call has ended.
    pub fn effect(&self, effect: Effect) {
        self.0.effects.lock().push(effect);
    }

    /// Makes changes through the session's journal, on a blocking thread. Cancelling the call does not interrupt them: a
    /// change is made and reported, or neither.
    pub async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal, Label<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        if self.is_cancelled() {
            return Err(self.cancelled_fault());
        }
        self.record(work).await
    }

    /// Records in the session's journal what has happened already, on a blocking thread, even if the call is cancelled.
    pub async fn record<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal, Label<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let Some(Journaled { journal, durability }) = self.session().journaled() else {
            return Err(Fault::new(
                FaultKind::Disabled,
                "this session keeps no journal, so no file can be changed",
            )
            .hint("start the session with a journal"));
        };
        let (journal, durability, cx) = (journal.clone(), *durability, self.clone());
        self.0.committing.store(true, Ordering::Release);
        let done = blocking(move || {
            let label = Label { tool: cx.tool(), session: cx.session().id(), durability };
            work(&journal, label)
        })
        .await;
        self.0.committing.store(false, Ordering::Release);
        done
    }

    /// Waits for work that belongs to a change which was just committed, such as a check of the file. The call waits even
    /// if it is cancelled meanwhile, because its reply must say that the change was made.
    pub async fn uncancelled<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.committing.store(true, Ordering::Release);
        let done = work.await;
        self.0.committing.store(false, Ordering::Release);
        done
    }

    /// Waits for work that watches [`Context::cancelled`] and stops by itself soon after, with a result worth replying: a
    /// command that is asked to end, and what it printed until then. A cancelled call waits some seconds for such work,
    /// and then abandons it like any other.
    pub async fn cooperative<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.stops_itself.store(true, Ordering::Release);
        let done = work.await;
        self.0.stops_itself.store(false, Ordering::Release);
        done
    }

    /// Whether work is under way that stops by itself when the call is cancelled.
    pub(crate) fn stops_itself(&self) -> bool {
        self.0.stops_itself.load(Ordering::Acquire)
    }

    /// Whether a commit is under way, which cancelling must not abandon.
    pub(crate) fn is_committing(&self) -> bool {
        self.0.committing.load(Ordering::Acquire)
    }

    pub(crate) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut *self.0.effects.lock())
    }

    pub(crate) fn emit(&self, kind: EventKind, payload: impl FnOnce() -> EventPayload) {
        self.session().engine().activity().emit(kind, || Event {
            at: SystemTime::now(),
            session: self.session().id().clone(),
            turn: self.turn(),
            call: self.call().clone(),
            tool: self.tool().clone(),
            payload: payload(),
        });
    }
}
