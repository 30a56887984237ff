//! Builds an engine and sessions from the settings and a program's options: the one place where both meet. Nothing here
//! prints; messages for the user are collected as notices.

mod advice;
mod clients;
mod engine;
mod live;
mod runtime;
mod saved;
mod servers;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_core::audit::Audit;
use haft_core::hooks::ScriptPins;
use haft_core::permissions::Approver;
use haft_core::questions::Respondent;
use haft_core::sessions::{SavedSession, SavedStates, SessionBuilder};
use haft_core::{Dialect, Durability, DynTool, Engine, Fault, FaultKind, Mode, Policy, Session, Workspace};
use haft_dialects as dialects;
use haft_journal::{Journal, Label};
use haft_mcp::client::Servers;
use haft_ops::PlanPlace;
use haft_rules::{RuleJudge, Rules, SessionJudge};
use haft_sandbox::sandbox::recorder::{self, IsBuildFolder};
use haft_sandbox::{FolderAccess, Store, sandbox, terminal};
use parking_lot::Mutex;

pub use engine::{command_hook, result_store, unused_hook_warning};
use live::LiveSettings;
pub use runtime::journal_limits;
use saved::STATS;
pub use saved::{load_session, parse_session, stats};
pub use servers::servers;

use crate::environment::Environment;
use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::grants::Grants;
use crate::settings::{self, Folders, Loaded, Settings, Trust, home_dir};

type Result<T> = std::result::Result<T, HostError>;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Timeout for locks of the state folder, and for sandboxes that are still ending.
const STATE_TIMEOUT: Duration = Duration::from_secs(1);

/// A program's options for its sessions, which take precedence over the settings.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The dialect of sessions. Default: that of the settings, or `claude`.
    pub dialect: Option<String>,
    /// More folders that sessions may read and write.
    pub add_dirs: Vec<PathBuf>,
    /// The folder of the workspace that sessions are narrowed to.
    pub focus: Option<String>,
    /// The permission mode of sessions. Default: that of the settings.
    pub mode: Option<Mode>,
    /// The name under which the session is saved and resumed. Default: it is not saved.
    pub session: Option<String>,
    /// Approves or denies calls.
    pub approver: Option<Arc<dyn Approver>>,
    /// Answers the questions of tools.
    pub respondent: Option<Arc<dyn Respondent>>,
}

/// An engine and everything that sessions in a workspace share.
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
    settings: Arc<LiveSettings>,
    /// The web by the settings that were last used, which sessions share with its connections.
    web: Mutex<Option<(settings::Web, haft_web::Web)>>,
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
    /// Values that tools keep. Shared, because to the user the sessions of several dialects are one.
    lasting: OnceLock<SavedStates>,
    /// The plan file.
    plan: PathBuf,
    /// Whether the options set the mode; then it wins over that of a saved session.
    has_explicit_mode: bool,
    /// The MCP servers of all sessions made by [`Host::session`].
    servers: Servers,
    /// The MCP servers of each client's session.
    client_servers: Arc<Mutex<Vec<Servers>>>,
    notices: Mutex<Vec<String>>,
}

/// Folders of haft's own that sessions may not change, except for the plans in them.
struct Guards {
    folders: Folders,
    plans: PathBuf,
}

impl Guards {
    /// The workspace with these folders protected.
    fn apply(&self, workspace: Workspace) -> Workspace {
        workspace.guarding(&self.folders.config).guarding(&self.folders.state).except(&self.plans)
    }
}

impl Host {
    /// Builds an engine for an environment. Recovers changes that a crashed process left unfinished.
    pub fn open(environment: Environment, options: Options) -> Result<Self> {
        let results = environment.results();
        let known = environment.known_tools();
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
            notices.extend(unused_hook_warning(hook));
        }
        let mut workspace = Workspace::open(&root)?;
        for dir in options.add_dirs.iter().chain(&settings.add_dirs) {
            workspace = workspace.with_folder(dir, FolderAccess::Write)?;
        }
        loaded.store_first_trusted_hash(&state)?;
        results.make().explain(HostErrorKind::State, || {
            format!("the state folder `{}` cannot be made", results.dir().display())
        })?;
        workspace = workspace.with_folder(results.dir(), FolderAccess::Read)?;
        let plans = plans(&state, settings)?;
        prune_terminal_sessions(&state, settings);
        workspace = workspace.with_folder(plans.dir(), FolderAccess::Write)?;
        let guards = Guards { folders: folders.clone(), plans: plans.dir().to_owned() };
        workspace = guards.apply(workspace);
        let scripts = ScriptPins::new(state.clone(), workspace.clone());
        if let Some(focus) = &options.focus {
            workspace = workspace.with_focus(focus)?;
        }
        let mode = options.mode.or(settings.mode.map(Mode::from)).unwrap_or_default();
        let dialect = dialect(options.dialect.as_deref(), settings)?;
        let grants = Arc::new(Grants { state: state.clone(), config: folders.config.clone() });
        let servers = servers::all(&loaded, &workspace, &state, &folders);
        let journal = Arc::new(Journal::at(state.folder("journal"), journal_limits(settings)));
        let live = Arc::new(LiveSettings::new(root.clone(), folders, known, state.clone(), loaded));
        let loaded = live.loaded();
        let settings = &loaded.settings;
        let judge = Arc::new(RuleJudge::from_source(live.clone(), home_dir()).memory(grants));
        let engine = engine::engine(
            settings,
            &root,
            &scripts,
            results,
            judge.clone(),
            Audit::new(state.clone()),
            &options,
        )?;
        if journal.is_unfinished() {
            if let Err(error) = journal.recover(&workspace) {
                notices.push(format!("what an earlier run left unfinished could not be settled: {error}"));
            }
            notices.extend(journal.take_notes());
        }
        notices.extend(adopt_interrupted(&journal, &workspace));
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
            has_explicit_mode: options.mode.is_some(),
            servers,
            client_servers: Arc::default(),
            notices: Mutex::new(notices),
            settings: live,
            web: Mutex::default(),
        })
    }

    /// The effective settings as last loaded, and which files they came from.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.settings.loaded()
    }

    /// The folders that sessions may access.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The state folder of the workspace.
    pub fn state(&self) -> &Store {
        &self.state
    }

    /// The journal of the workspace's changes.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The engine of all sessions.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The permission mode of new sessions.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns and clears the pending messages for the user.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }

    fn notice(&self, text: String) {
        self.notices.lock().push(text);
    }

    /// Whether the session is saved under a name.
    pub fn is_named(&self) -> bool {
        self.session_name.is_some()
    }

    /// The name of the sessions' dialect.
    pub fn dialect_name(&self) -> &'static str {
        self.dialect.name()
    }

    /// Starts a session, in the host's dialect or in another one.
    pub fn session(&self, other: Option<&str>) -> Result<Session> {
        let mut saved = self.resumed()?;
        let lasting = saved.as_mut().map(|saved| std::mem::take(&mut saved.lasting)).unwrap_or_default();
        let lasting = self.lasting.get_or_init(|| SavedStates::new(lasting)).clone();
        let session = start(self.builder(other, self.workspace.clone(), saved)?.lasting(lasting));
        self.servers.join(&session);
        self.explain_untrusted(&session);
        Ok(session)
    }

    /// Makes calls of tools of untrusted MCP servers fail with a message that says why.
    fn explain_untrusted(&self, session: &Session) {
        let settings = self.settings.clone();
        session.tools().explain(move |tool| {
            let loaded = settings.loaded();
            let found = loaded.untrusted_servers.iter().find(|found| haft_mcp::belongs_to(tool, &found.name));
            let server = &found?.name;
            let message = format!("the MCP server `{server}` is the project's, which is not trusted");
            Some(
                Fault::new(FaultKind::Disabled, message)
                    .hint("the user can look at it and agree with `haft trust`"),
            )
        });
    }

    /// The MCP servers whose tools the sessions use.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Stops every MCP server that was started.
    pub async fn end_servers(&self) {
        let of_clients = std::mem::take(&mut *self.client_servers.lock());
        for servers in of_clients.iter().chain([&self.servers]) {
            servers.close().await;
        }
    }

    /// The saved state of the named session, if the host has a name.
    fn resumed(&self) -> Result<Option<SavedSession>> {
        let Some(name) = &self.session_name else { return Ok(None) };
        let mut saved = self.saved(name)?;
        if self.has_explicit_mode {
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
        let loaded = self.loaded();
        let settings = &loaded.settings;
        let policy = settings.schedule.map(Policy::from).unwrap_or_default();
        let mut builder = self.engine.session(workspace).mode(self.mode).policy(policy);
        for name in &settings.tools {
            builder = builder.shared_tool(dialects::tool_by_name(name)?);
        }
        for tool in &self.tools {
            builder = builder.shared_tool(tool.clone());
        }
        let durability = settings.files.durability.map(Durability::from).unwrap_or_default();
        builder = builder
            .dialect(dialect)
            .journal(self.journal.clone(), durability)
            .extension(runtime::editing(settings))
            .extension(runtime::searching(settings))
            .extension(self.sandbox_options())
            .extension(self.web(&settings.web)?)
            .extension(PlanPlace(Some(self.plan.clone())))
            .extension(SessionJudge(Some(self.judge.clone())));
        if let (Some(name), Some(saved)) = (&self.session_name, saved) {
            builder = builder.id(name.clone()).resume(saved).keep_seen(self.state.folder("seen"));
        }
        Ok(builder)
    }

    /// The web as the settings have it. Sessions share it, so that the system's certificates are loaded once.
    fn web(&self, wanted: &settings::Web) -> Result<haft_web::Web> {
        let mut current = self.web.lock();
        if let Some((set, web)) = &*current
            && set == wanted
        {
            return Ok(web.clone());
        }
        let web = wanted.runtime()?;
        *current = Some((wanted.clone(), web.clone()));
        Ok(web)
    }

    fn saved(&self, name: &str) -> Result<SavedSession> {
        Ok(load_session(&self.state, name)?.unwrap_or_default())
    }

    /// Saves statistics, the audit log and, under the host's name, the sessions. The calls are done and answered by now,
    /// so a failure to save becomes a notice.
    pub fn close(&self, sessions: &[Session]) {
        // A cancelled command may still be ending; its placeholders for guarded names are removed after it.
        sandbox::settle(STATE_TIMEOUT);
        if let Some(Err(error)) = self.engine.audit().map(Audit::flush) {
            self.notice(format!("what was decided could not be written down: {error}"));
        }
        if let Err(error) = self.engine.stats().save_within(&self.state, STATS, STATE_TIMEOUT) {
            self.notice(format!("the figures could not be kept: {error}"));
        }
        if let Some(name) = &self.session_name
            && let Err(error) = self.save(name, sessions)
        {
            self.notice(format!("the session `{name}` could not be kept: {error}"));
        }
    }

    /// Saves the sessions as one: to the user, the sessions of several dialects are one.
    fn save(&self, name: &str, sessions: &[Session]) -> Result<()> {
        let mut merged: Option<SavedSession> = None;
        for session in sessions {
            match &mut merged {
                None => merged = Some(session.save()),
                Some(merged) => merged.merge(session.save()),
            }
        }
        let Some(mut merged) = merged else { return Ok(()) };
        let store = self.state.folder("sessions");
        let _lock = store.lock_within(&format!("{name}.json.lock"), STATE_TIMEOUT)?;
        // Another process may have saved the session meanwhile: clients that start haft for each call make several at
        // once.
        let on_disk = self.saved(name)?;
        merged.merge_grants(on_disk.grants);
        merged.merge_seen(on_disk.seen);
        merged.merge_lasting(on_disk.lasting);
        store.write(&format!("{name}.json"), &serde_json::to_vec(&merged).kind(HostErrorKind::State)?)?;
        Ok(())
    }
}

/// Removes old sessions of terminals that are gone, which nothing can continue.
fn prune_terminal_sessions(state: &Store, settings: &Settings) {
    let sessions = state.folder("sessions");
    for entry in sessions.entries().unwrap_or_default() {
        let name = entry.name.trim_end_matches(".lock").trim_end_matches(".json");
        if terminal::is_place(name) && is_old(entry.modified, settings) {
            // A later run tries again.
            let _ = sessions.remove(&entry.name);
        }
    }
}

/// Whether something that haft keeps for a while was made so long ago that it is removed.
fn is_old(modified: SystemTime, settings: &Settings) -> bool {
    let age = Duration::from_secs(settings.limits.keep_days.unwrap_or(7).saturating_mul(DAY.as_secs()));
    modified.elapsed().is_ok_and(|elapsed| elapsed > age)
}

/// The folder of plans. Removes old plans of unnamed sessions, which cannot be resumed.
fn plans(state: &Store, settings: &Settings) -> Result<Store> {
    let plans = state.folder("plans");
    plans.make().explain(HostErrorKind::State, || {
        format!("the state folder `{}` cannot be made", plans.dir().display())
    })?;
    for entry in plans.entries().unwrap_or_default() {
        if entry.name.starts_with(UNNAMED_PREFIX) && is_old(entry.modified, settings) {
            // A later run tries again.
            let _ = plans.remove(&entry.name);
        }
    }
    Ok(plans)
}

/// Prefix of the plan files of unnamed sessions.
const UNNAMED_PREFIX: &str = ".nameless-";

fn plan_name(session: Option<&str>) -> String {
    match session {
        Some(name) => format!("{name}.md"),
        None => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            format!("{UNNAMED_PREFIX}{time:x}-{:x}.md", std::process::id())
        }
    }
}

/// Starts a session. In plan mode it also gets a plan file.
fn start(builder: SessionBuilder) -> Session {
    let session = builder.start();
    if session.mode() == Mode::Plan && session.plan_file().is_none() {
        session.set_plan_file(PlanPlace::find(&session.context()));
    }
    session
}

/// The dialect of a program's options, else that of the settings, else `claude`.
pub fn dialect(named: Option<&str>, settings: &Settings) -> Result<Arc<dyn Dialect>> {
    match named.or(settings.dialect.as_deref()) {
        Some(name) => Ok(dialects::by_name(name)?),
        None => Ok(Arc::new(dialects::Claude)),
    }
}

impl Host {
    /// The rules that apply to a session.
    pub fn rules(&self, session: &Session) -> Result<Arc<Rules>> {
        Ok(self.judge.rules(&session.context())?)
    }
}

/// Makes what commands changed whose haft was killed part of the journal, and says so.
fn adopt_interrupted(journal: &Journal, workspace: &Workspace) -> Vec<String> {
    let label = Label { tool: "command", session: "interrupted", durability: Durability::Full };
    let is_build_folder: IsBuildFolder = Arc::new(recorder::is_build_folder);
    match journal.adopt_interrupted(workspace, &is_build_folder, label) {
        Ok(adopted) => adopted
            .iter()
            .map(|(recorded, _)| {
                let number = recorded.number;
                format!("haft was interrupted while a command ran: what that changed is change {number}, and `haft undo {number}` undoes it")
            })
            .collect(),
        Err(error) => vec![format!("what an interrupted command changed could not be recorded: {error}")],
    }
}
