//! An engine and sessions, made from settings and from what a program was started with: the one place where they meet.
//! Nothing here prints; what a person should know is kept as notices.

mod clients;
mod engine;
mod runtime;
mod saved;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_core::audit::Audit;
use haft_core::permissions::Approver;
use haft_core::questions::Respondent;
use haft_core::sessions::{LastingValues, SavedSession, SessionBuilder};
use haft_core::{Dialect, Durability, DynTool, Engine, Fault, FaultKind, Mode, Policy, Session, Workspace};
use haft_dialects as dialects;
use haft_journal::Journal;
use haft_mcp::client::Servers;
use haft_ops::PlanPlace;
use haft_rules::{RuleJudge, Ruled, Rules};
use haft_sandbox::{FolderAccess, Store, cage};
use parking_lot::Mutex;

pub use engine::{command_hook, idle};
pub use runtime::journal_limits;
use saved::STATS;
pub use saved::{read_session, saved, stats};

use crate::environment::Environment;
use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::grants::Grants;
use crate::settings::{ConfiguredServer, Loaded, Settings, Trust, home_dir};

type Result<T> = std::result::Result<T, HostError>;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long another process is waited for that keeps something, too.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a program says of the sessions that it wants, besides what is set.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The dialect that sessions speak; otherwise the one of the settings, or `claude`.
    pub dialect: Option<String>,
    /// Further folders that sessions may touch.
    pub add_dirs: Vec<PathBuf>,
    /// The folder of the workspace that sessions are narrowed to.
    pub focus: Option<String>,
    /// How permissive sessions are; otherwise as it is set.
    pub mode: Option<Mode>,
    /// The name under which it is kept what sessions know.
    pub session: Option<String>,
    /// Who is asked whether a call may happen.
    pub approver: Option<Arc<dyn Approver>>,
    /// Who answers the questions of tools.
    pub respondent: Option<Arc<dyn Respondent>>,
}

/// An engine, and everything that sessions in a workspace need.
///
/// ```no_run
/// use haft_core::{Call, Mode};
/// use haft_host::{Environment, Host, Options};
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = Options::default();
/// options.mode = Some(Mode::AcceptEdits);
/// let host = Host::open(Environment::find(Some(".".as_ref()))?, options)?;
/// let session = host.session(None)?;
/// let reply = session.call(Call::new("1", "Write", json!({"file_path": "a.txt", "content": "a"}))).await;
/// assert!(!reply.is_error);
/// host.close(&[session]);
/// # Ok(())
/// # }
/// ```
pub struct Host {
    loaded: Loaded,
    workspace: Workspace,
    state: Store,
    journal: Arc<Journal>,
    engine: Engine,
    mode: Mode,
    dialect: Arc<dyn Dialect>,
    session_name: Option<String>,
    judge: Arc<RuleJudge>,
    guards: Guards,
    tools: Vec<Arc<dyn DynTool>>,
    /// Sessions of several dialects are one to the user, so what their tools keep is one.
    lasting: OnceLock<LastingValues>,
    /// Where plans are written.
    plan: PathBuf,
    /// Whether the program said the mode, and not only the settings or what is kept.
    has_given_mode: bool,
    /// The servers whose tools the sessions have, which are one to the user.
    servers: Servers,
    /// Those of sessions that are each by itself.
    others: Arc<Mutex<Vec<Servers>>>,
    notices: Mutex<Vec<String>>,
}

/// What no session may change, and what in it it may.
struct Guards {
    config: PathBuf,
    state: PathBuf,
    plans: PathBuf,
}

impl Guards {
    fn around(&self, workspace: Workspace) -> Workspace {
        workspace.guarding(&self.config).guarding(&self.state).except(&self.plans)
    }
}

impl Host {
    /// Sets up an engine for an environment.
    pub fn open(environment: Environment, options: Options) -> Result<Self> {
        let results = environment.results();
        let Environment { root, loaded, state, folders, tools } = environment;
        let mut notices = Vec::new();
        folders.are_private()?;
        if !loaded.ignored.is_empty() {
            let why = match loaded.trust {
                Trust::Changed => "the settings of this folder have changed since it was trusted",
                _ => "this folder is not trusted",
            };
            let ignored = loaded.ignored.join(", ");
            notices.push(format!(
                "{why}, so these settings of its own are ignored: {ignored}. `haft trust` shows them, and follows \
                 them if you agree"
            ));
        }
        let settings = &loaded.settings;
        for (_, hook) in settings.hooks.all() {
            notices.extend(idle(hook));
        }
        let mut workspace = Workspace::open(&root)?;
        for dir in options.add_dirs.iter().chain(&settings.add_dirs) {
            workspace = workspace.with_folder(dir, FolderAccess::Write)?;
        }
        loaded.keep_first_seal(&state)?;
        results.make().explain(HostErrorKind::State, || {
            format!("the state folder `{}` cannot be made", results.dir().display())
        })?;
        workspace = workspace.with_folder(results.dir(), FolderAccess::Read)?;
        let plans = plans(&state, settings)?;
        workspace = workspace.with_folder(plans.dir(), FolderAccess::Write)?;
        let state_of_user = folders.state.clone();
        let guards =
            Guards { config: folders.config.clone(), state: folders.state, plans: plans.dir().to_owned() };
        workspace = guards.around(workspace);
        if let Some(focus) = &options.focus {
            workspace = workspace.with_focus(focus)?;
        }
        let mode = options.mode.or(settings.mode.map(Mode::from)).unwrap_or_default();
        let dialect = dialect(options.dialect.as_deref(), settings)?;
        let grants = Arc::new(Grants { state: state.clone(), config: folders.config });
        let judge = Arc::new(RuleJudge::new(loaded.book.clone(), home_dir()).memory(grants));
        let engine =
            engine::engine(settings, &root, results, judge.clone(), Audit::new(state.clone()), &options)?;
        let journal = Arc::new(Journal::at(state.folder("journal"), journal_limits(settings)));
        if journal.is_unfinished() {
            if let Err(error) = journal.recover(&workspace) {
                notices.push(format!("what an earlier run left unfinished could not be settled: {error}"));
            }
            notices.extend(journal.take_notes());
        }
        Ok(Self {
            workspace,
            state,
            journal,
            engine,
            mode,
            dialect,

            judge,
            guards,
            lasting: OnceLock::new(),
            plan: plans.path(&plan_name(options.session.as_deref())),
            session_name: options.session,
            tools,
            has_given_mode: options.mode.is_some(),
            servers: servers(&loaded, &root, &state_of_user),
            others: Arc::default(),
            notices: Mutex::new(notices),
            loaded,
        })
    }

    /// The settings, and where they came from.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// What sessions may touch.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Where the state of the workspace is kept.
    pub fn state(&self) -> &Store {
        &self.state
    }

    /// The record of every change.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// How permissive sessions are.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What a person should know and was not told yet.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }

    fn notice(&self, text: String) {
        self.notices.lock().push(text);
    }

    /// Whether what sessions know is kept under a name.
    pub fn is_named(&self) -> bool {
        self.session_name.is_some()
    }

    /// The dialect that sessions speak.
    pub fn dialect_name(&self) -> &'static str {
        self.dialect.name()
    }

    /// A session in the dialect that was asked for, or in another one.
    pub fn session(&self, other: Option<&str>) -> Result<Session> {
        let mut saved = self.resumed()?;
        let lasting = saved.as_mut().map(|saved| std::mem::take(&mut saved.lasting)).unwrap_or_default();
        let lasting = self.lasting.get_or_init(|| LastingValues::new(lasting)).clone();
        let session = begin(self.builder(other, self.workspace.clone(), saved)?.lasting(lasting));
        self.servers.join(&session);
        self.explain_untrusted(&session);
        Ok(session)
    }

    /// Says why the tools of a project's servers are not there.
    fn explain_untrusted(&self, session: &Session) {
        let names: Vec<String> = self.loaded.held_back.iter().map(|found| found.name.clone()).collect();
        session.tools().explain(move |tool| {
            let server = names.iter().find(|name| haft_mcp::is_of(tool, name))?;
            let told = format!("the MCP server `{server}` is the project's, which is not trusted");
            Some(
                Fault::new(FaultKind::Disabled, told)
                    .hint("the user can look at it and agree with `haft trust`"),
            )
        });
    }

    /// The servers whose tools the sessions have.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Ends every server that was started.
    pub async fn end_servers(&self) {
        let others = std::mem::take(&mut *self.others.lock());
        for servers in others.iter().chain([&self.servers]) {
            servers.close().await;
        }
    }

    /// What is kept of the session that was named.
    fn resumed(&self) -> Result<Option<SavedSession>> {
        let Some(name) = &self.session_name else { return Ok(None) };
        let mut saved = self.saved(name)?;
        if self.has_given_mode {
            saved.planning = None;
        }
        Ok(Some(saved))
    }

    fn builder(
        &self,
        other: Option<&str>,
        workspace: Workspace,
        saved: Option<SavedSession>,
    ) -> Result<SessionBuilder> {
        let dialect = match other {
            Some(name) => dialects::by_name(name)?,
            None => self.dialect.clone(),
        };
        let policy = self.loaded.settings.schedule.map(Policy::from).unwrap_or_default();
        let mut builder = self.engine.session(workspace).mode(self.mode).policy(policy);
        for name in &self.loaded.settings.tools {
            builder = builder.shared_tool(dialects::tool_by_name(name)?);
        }
        for tool in &self.tools {
            builder = builder.shared_tool(tool.clone());
        }
        let settings = &self.loaded.settings;
        let durability = settings.files.durability.map(Durability::from).unwrap_or_default();
        builder = builder
            .dialect(dialect)
            .journal(self.journal.clone(), durability)
            .extension(runtime::editing(settings))
            .extension(runtime::searching(settings))
            .extension(self.caging())
            .extension(PlanPlace(Some(self.plan.clone())))
            .extension(Ruled(Some(self.judge.clone())));
        if let (Some(name), Some(saved)) = (&self.session_name, saved) {
            builder = builder.id(name.clone()).resume(saved).keep_seen(self.state.folder("seen"));
        }
        Ok(builder)
    }

    fn saved(&self, name: &str) -> Result<SavedSession> {
        Ok(saved(&self.state, name)?.unwrap_or_default())
    }

    /// Keeps the figures, and what the sessions know if they have a name. The calls are made and answered by
    /// now, so what cannot be kept becomes a notice.
    pub fn close(&self, sessions: &[Session]) {
        // A command that was broken off may still be ending, and with it what stood in for guarded names.
        cage::settle(PATIENCE);
        if let Some(Err(error)) = self.engine.audit().map(Audit::flush) {
            self.notice(format!("what was decided could not be written down: {error}"));
        }
        if let Err(error) = self.engine.stats().save_within(&self.state, STATS, PATIENCE) {
            self.notice(format!("the figures could not be kept: {error}"));
        }
        if let Some(name) = &self.session_name
            && let Err(error) = self.keep(name, sessions)
        {
            self.notice(format!("the session `{name}` could not be kept: {error}"));
        }
    }

    /// Sessions of several dialects are one to the user, so they are kept as one.
    fn keep(&self, name: &str, sessions: &[Session]) -> Result<()> {
        let mut kept: Option<SavedSession> = None;
        for session in sessions {
            match &mut kept {
                None => kept = Some(session.save()),
                Some(kept) => kept.merge(session.save()),
            }
        }
        let Some(mut kept) = kept else { return Ok(()) };
        let store = self.state.folder("sessions");
        let _lock = store.lock_within(&format!("{name}.json.lock"), PATIENCE)?;
        // Another process may have been granted something meanwhile.
        let there = self.saved(name)?;
        kept.merge_grants(there.grants);
        kept.merge_lasting(there.lasting);
        store.write(&format!("{name}.json"), &serde_json::to_vec(&kept).kind(HostErrorKind::State)?)?;
        Ok(())
    }
}

/// The folder of plans, without those of sessions that nobody can go on with.
fn plans(state: &Store, settings: &Settings) -> Result<Store> {
    let plans = state.folder("plans");
    plans.make().explain(HostErrorKind::State, || {
        format!("the state folder `{}` cannot be made", plans.dir().display())
    })?;
    let age = Duration::from_secs(settings.limits.keep_days.unwrap_or(7).saturating_mul(DAY.as_secs()));
    let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|elapsed| elapsed > age);
    for entry in plans.entries().unwrap_or_default() {
        if entry.name.starts_with(NAMELESS) && is_old(entry.modified) {
            // It is swept another time.
            let _ = plans.remove(&entry.name);
        }
    }
    Ok(plans)
}

/// How the names of plans begin whose session has none.
const NAMELESS: &str = ".nameless-";

fn plan_name(session: Option<&str>) -> String {
    match session {
        Some(name) => format!("{name}.md"),
        None => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            format!("{NAMELESS}{time:x}-{:x}.md", std::process::id())
        }
    }
}

/// Starts a session. One that plans needs to know where.
fn begin(builder: SessionBuilder) -> Session {
    let session = builder.start();
    if session.mode() == Mode::Plan && session.plan_file().is_none() {
        session.set_plan_file(PlanPlace::find(&session.context()));
    }
    session
}

/// The servers whose tools are used, of which none is started yet.
pub fn servers(loaded: &Loaded, root: &Path, state: &Path) -> Servers {
    let used = loaded.servers.iter().filter(|found| !found.config.disabled);
    Servers::keeping_logins(used.map(ConfiguredServer::server).collect(), root, &Store::at(logins(state)))
}

/// Where it is kept how haft has logged in to servers, for every workspace.
fn logins(state: &Path) -> PathBuf {
    state.join("logins")
}

/// The dialect that a program names, or the settings, or the first one.
pub fn dialect(named: Option<&str>, settings: &Settings) -> Result<Arc<dyn Dialect>> {
    match named.or(settings.dialect.as_deref()) {
        Some(name) => Ok(dialects::by_name(name)?),
        None => Ok(Arc::new(dialects::Claude)),
    }
}

impl Host {
    /// The rules that hold in a session.
    pub fn rules(&self, session: &Session) -> Arc<Rules> {
        self.judge.rules(&session.context())
    }
}
