//! From what was typed and what is set to an engine and a session: the one place where they meet.

mod clients;
mod engine;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use haft::journal::{self, Journal};
use haft::{
    Audit, Dialect, Durability, Engine, Fault, FaultKind, LastingValues, Mode, Policy, SavedSession, Session,
    SessionBuilder, Stats, Workspace,
};
use haft_mcp::client::Servers;
use haft_sandbox::cage::{self, Network, Wall, Walls};
use haft_sandbox::{Access, Store, user};
use haft_tools::check::Checkers;
use haft_tools::dialects;
use haft_tools::ops::{
    Caging, Editing, Hidden, Ignored, Leniency, Manner, Placeholders, PlanPlace, Profile, Searching,
};
use haft_tools::rules::{RuleJudge, Ruled, Rules};

use engine::Asked;
pub(crate) use engine::{command_hook, idle};
use parking_lot::Mutex;

use crate::args::Common;
use crate::config::{self, Folders, Found, Loaded, Settings, Trust, WallSetting, WallsSetting};
use crate::grants::Grants;
use crate::style;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const STATS: &str = "stats.json";
/// How long another process is waited for that keeps something, too.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything a command needs to make calls in a workspace.
pub(crate) struct Host {
    pub(crate) loaded: Loaded,
    pub(crate) workspace: Workspace,
    pub(crate) state: Store,
    pub(crate) journal: Arc<Journal>,
    engine: Engine,
    pub(crate) mode: Mode,
    dialect: Arc<dyn Dialect>,
    session_name: Option<String>,
    judge: Arc<RuleJudge>,
    guards: Guards,
    /// Sessions of several dialects are one to the user, so what their tools keep is one.
    lasting: OnceLock<LastingValues>,
    /// Where plans are written.
    plan: PathBuf,
    /// Whether the mode was typed, and not only set or kept.
    has_typed_mode: bool,
    /// The servers whose tools the sessions have, which are one to the user.
    servers: Servers,
    /// Those of sessions that are each by itself.
    others: Arc<Mutex<Vec<Servers>>>,
}

/// The workspace's folder, the settings in force for it, and where its state is kept.
pub(crate) struct Ground {
    pub(crate) root: PathBuf,
    pub(crate) loaded: Loaded,
    pub(crate) folders: Folders,
    pub(crate) state: Store,
}

impl Ground {
    pub(crate) fn find(common: &Common) -> anyhow::Result<Self> {
        let root = match &common.workspace {
            Some(dir) => user::canonical(dir).context("the workspace cannot be opened")?,
            None => implicit_root()?,
        };
        Self::at(root)
    }

    /// The same for commands that touch nothing, and so may be given anywhere.
    pub(crate) fn look(common: &Common) -> anyhow::Result<Self> {
        Self::at(looked_at(common)?)
    }

    fn at(root: PathBuf) -> anyhow::Result<Self> {
        let folders = Folders::find()?;
        let loaded = config::load(&folders, &root)?;
        let state = state_of(&folders, &root);
        Ok(Self { root, loaded, folders, state })
    }
}

impl Ground {
    /// Follows the settings of the project in full from now on.
    pub(crate) fn trust(&self) -> anyhow::Result<()> {
        self.grants().trust(&self.root)?;
        self.loaded.keep_seal(&self.state)
    }

    /// Where rules are kept.
    pub(crate) fn grants(&self) -> Grants {
        Grants { state: self.state.clone(), config: self.folders.config.clone() }
    }
}

/// The folder that a command which touches nothing is about.
pub(crate) fn looked_at(common: &Common) -> anyhow::Result<PathBuf> {
    match &common.workspace {
        Some(dir) => user::canonical(dir).context("the workspace cannot be opened"),
        None => Ok(user::canonical(&user::current_dir()?)?),
    }
}

/// Where the state of a workspace is kept.
pub(crate) fn state_of(folders: &Folders, root: &Path) -> Store {
    Store::at(folders.state.join(workspace_key(root)))
}

/// The current folder, unless that is everything or the user's whole home: those must be named.
pub(crate) fn implicit_root() -> anyhow::Result<PathBuf> {
    let here = user::current_dir()?;
    let here = user::canonical(&here)?;
    let home = etcetera::home_dir().ok().and_then(|home| user::canonical(&home).ok());
    if here == Path::new("/") || Some(&here) == home.as_ref() {
        anyhow::bail!(
            "`{}` is a wide workspace: change to a project's folder, or name it with --workspace if you mean it",
            here.display()
        );
    }
    Ok(here)
}

/// A name for a workspace's state: readable, and different for different folders.
fn workspace_key(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(40).collect();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in root.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{name}-{hash:016x}")
}

/// What no session may change, and what in it it may.
struct Guards {
    config: PathBuf,
    state: PathBuf,
    plans: PathBuf,
}

impl Guards {
    fn around(&self, workspace: Workspace) -> Workspace {
        workspace.guarding(&self.config).guarding(&self.state).sparing(&self.plans)
    }
}

impl Host {
    pub(crate) fn open(common: &Common) -> anyhow::Result<Self> {
        Self::asking(common, Asked::AtTerminal)
    }

    /// One for whose sessions nobody is asked at the terminal: it is somebody else's.
    pub(crate) fn unattended(common: &Common) -> anyhow::Result<Self> {
        Self::asking(common, Asked::Nobody)
    }

    fn asking(common: &Common, asked: Asked) -> anyhow::Result<Self> {
        let Ground { root, loaded, state, folders } = Ground::find(common)?;
        folders.are_private()?;
        if !loaded.ignored.is_empty() {
            let why = match loaded.trust {
                Trust::Changed => "the settings of this folder have changed since it was trusted",
                _ => "this folder is not trusted",
            };
            let ignored = loaded.ignored.join(", ");
            style::notice(&format!(
                "{why}, so these settings of its own are ignored: {ignored}. `haft trust` shows them, and follows \
                 them if you agree"
            ));
        }
        let settings = &loaded.settings;
        for (_, hook) in settings.hooks.all() {
            if let Some(idle) = idle(hook) {
                style::notice(&idle);
            }
        }
        let mut workspace = Workspace::open(&root)?;
        for dir in common.add_dir.iter().chain(&settings.add_dirs) {
            workspace = workspace.with_folder(dir, Access::Write)?;
        }
        let results = state.folder("results");
        loaded.keep_first_seal(&state)?;
        results
            .make()
            .with_context(|| format!("the state folder `{}` cannot be made", results.dir().display()))?;
        workspace = workspace.with_folder(results.dir(), Access::Read)?;
        let plans = plans(&state, settings)?;
        workspace = workspace.with_folder(plans.dir(), Access::Write)?;
        let state_of_user = folders.state.clone();
        let guards =
            Guards { config: folders.config.clone(), state: folders.state, plans: plans.dir().to_owned() };
        workspace = guards.around(workspace);
        if let Some(focus) = &common.focus {
            workspace = workspace.with_focus(focus)?;
        }
        let mode = common.mode.map(Mode::from).or(settings.mode.map(Mode::from)).unwrap_or_default();
        let dialect = dialect(common.dialect.as_deref(), settings)?;
        let grants = Arc::new(Grants { state: state.clone(), config: folders.config });
        let judge = Arc::new(RuleJudge::new(loaded.book.clone(), config::home_dir()).memory(grants));
        let engine =
            engine::engine(settings, &root, results, judge.clone(), Audit::new(state.clone()), asked)?;
        let journal = Arc::new(Journal::at(state.folder("journal"), journal_limits(settings)));
        if journal.is_unfinished() {
            if let Err(error) = journal.recover(&workspace) {
                style::notice(&format!("what an earlier run left unfinished could not be settled: {error}"));
            }
            journal.take_notes().iter().for_each(|note| style::notice(note));
        }
        Ok(Self {
            workspace,
            state,
            journal,
            engine,
            mode,
            dialect,
            session_name: common.session.clone(),
            judge,
            guards,
            lasting: OnceLock::new(),
            plan: plans.path(&plan_name(common.session.as_deref())),
            has_typed_mode: common.mode.is_some(),
            servers: servers(&loaded, &root, &state_of_user),
            others: Arc::default(),
            loaded,
        })
    }

    /// Whether what sessions know is kept under a name.
    pub(crate) fn is_named(&self) -> bool {
        self.session_name.is_some()
    }

    pub(crate) fn dialect_name(&self) -> &'static str {
        self.dialect.name()
    }

    /// A session in the dialect that was asked for, or in another one.
    pub(crate) fn session(&self, other: Option<&str>) -> anyhow::Result<Session> {
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
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Ends every server that was started.
    pub(crate) async fn end_servers(&self) {
        let others = std::mem::take(&mut *self.others.lock());
        for servers in others.iter().chain([&self.servers]) {
            servers.close().await;
        }
    }

    /// What is kept of the session that was named.
    fn resumed(&self) -> anyhow::Result<Option<SavedSession>> {
        let Some(name) = &self.session_name else { return Ok(None) };
        let mut saved = self.saved(name)?;
        if self.has_typed_mode {
            saved.planning = None;
        }
        Ok(Some(saved))
    }

    fn builder(
        &self,
        other: Option<&str>,
        workspace: Workspace,
        saved: Option<SavedSession>,
    ) -> anyhow::Result<SessionBuilder> {
        let dialect = match other {
            Some(name) => dialects::by_name(name).map_err(|fault| style::wrong(&fault))?,
            None => self.dialect.clone(),
        };
        let policy = self.loaded.settings.schedule.map(Policy::from).unwrap_or_default();
        let mut builder = self.engine.session(workspace).mode(self.mode).policy(policy);
        for name in &self.loaded.settings.tools {
            builder =
                builder.shared_tool(dialects::tool_by_name(name).map_err(|fault| style::wrong(&fault))?);
        }
        let settings = &self.loaded.settings;
        let durability = settings.files.durability.map(Durability::from).unwrap_or_default();
        builder = builder
            .dialect(dialect)
            .journal(self.journal.clone(), durability)
            .extension(editing(settings))
            .extension(searching(settings))
            .extension(self.caging())
            .extension(PlanPlace(Some(self.plan.clone())))
            .extension(Ruled(Some(self.judge.clone())));
        if let (Some(name), Some(saved)) = (&self.session_name, saved) {
            builder = builder.id(name.clone()).resume(saved).keep_seen(self.state.folder("seen"));
        }
        Ok(builder)
    }

    fn saved(&self, name: &str) -> anyhow::Result<SavedSession> {
        Ok(saved(&self.state, name)?.unwrap_or_default())
    }

    /// Keeps the figures, and what the sessions know if they have a name. The calls are made and answered by
    /// now, so what cannot be kept is a notice.
    pub(crate) fn close(&self, sessions: &[Session]) {
        // A command that was broken off may still be ending, and with it what stood in for guarded names.
        cage::settle(PATIENCE);
        if let Some(Err(error)) = self.engine.audit().map(Audit::flush) {
            style::notice(&format!("what was decided could not be written down: {error}"));
        }
        if let Err(error) = self.engine.stats().save_within(&self.state, STATS, PATIENCE) {
            style::notice(&format!("the figures could not be kept: {error}"));
        }
        if let Some(name) = &self.session_name
            && let Err(error) = self.keep(name, sessions)
        {
            style::notice(&format!("the session `{name}` could not be kept: {error:#}"));
        }
    }

    /// Sessions of several dialects are one to the user, so they are kept as one.
    fn keep(&self, name: &str, sessions: &[Session]) -> anyhow::Result<()> {
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
        store.write(&format!("{name}.json"), &serde_json::to_vec(&kept)?)?;
        Ok(())
    }
}

/// What is kept of a session, if anything is.
pub(crate) fn saved(state: &Store, name: &str) -> anyhow::Result<Option<SavedSession>> {
    let sessions = state.folder("sessions");
    let file = format!("{name}.json");
    let bytes = sessions.read(&file).with_context(|| format!("no session can be named `{name}`"))?;
    let damaged = || {
        format!("the session `{name}` is damaged; remove `{}` to begin anew", sessions.path(&file).display())
    };
    bytes.map(|bytes| read_session(&bytes).with_context(damaged)).transpose()
}

/// The folder of plans, without those of sessions that nobody can go on with.
fn plans(state: &Store, settings: &Settings) -> anyhow::Result<Store> {
    let plans = state.folder("plans");
    plans.make().with_context(|| format!("the state folder `{}` cannot be made", plans.dir().display()))?;
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
pub(crate) fn servers(loaded: &Loaded, root: &Path, state: &Path) -> Servers {
    let used = loaded.servers.iter().filter(|found| !found.config.disabled);
    Servers::keeping_logins(used.map(Found::server).collect(), root, &Store::at(logins(state)))
}

/// Where it is kept how haft has logged in to servers, for every workspace.
fn logins(state: &Path) -> PathBuf {
    state.join("logins")
}

/// How files are changed.
fn editing(settings: &Settings) -> Editing {
    let lenient = settings.files.lenient.unwrap_or(true);
    let placeholders = settings.files.placeholders.unwrap_or(false);
    Editing {
        manner: Manner {
            leniency: if lenient { Leniency::Lenient } else { Leniency::Exact },
            placeholders: if placeholders { Placeholders::Keep } else { Placeholders::Refuse },
        },
        checkers: if settings.files.check.unwrap_or(true) { Checkers::standard() } else { Checkers::none() },
    }
}

impl Host {
    /// The rules that hold in a session.
    pub(crate) fn rules(&self, session: &Session) -> Arc<Rules> {
        self.judge.rules(&session.context())
    }

    /// What commands may do.
    pub(crate) fn caging(&self) -> Caging {
        const MEGABYTE: u64 = 1 << 20;
        let set = &self.loaded.settings.sandbox;
        let wall = |wall: &WallSetting| match wall {
            WallSetting::Processes => Wall::Processes,
            WallSetting::View => Wall::View,
            WallSetting::Paths => Wall::Paths,
            WallSetting::Network => Wall::Network,
            WallSetting::Calls => Wall::Calls,
            WallSetting::Amounts => Wall::Amounts,
        };
        let megabytes = |count: Option<u64>| count.map(|count| count.saturating_mul(MEGABYTE));
        let usual = cage::Limits::usual();
        Caging {
            walls: match set.walls {
                None | Some(WallsSetting::All) => Walls::All,
                Some(WallsSetting::Few) => Walls::Few,
                Some(WallsSetting::None) => Walls::None,
            },
            required: set.require.iter().map(wall).collect(),
            network: if set.network == Some(true) { Network::On } else { Network::Off },
            hidden: set
                .hidden
                .iter()
                .map(|path| config::home(path))
                .chain([self.state.dir().to_owned(), logins(&self.guards.state)])
                .collect(),
            passed: set.pass_env.clone(),
            profile: match set.profile {
                Some(false) => Profile::Ignored,
                _ => Profile::Kept(self.state.clone()),
            },
            limits: cage::Limits {
                memory: megabytes(set.memory_megabytes),
                cpu: set.cpu_seconds,
                file_size: megabytes(set.file_megabytes),
                processes: set.processes.or(usual.processes),
                total_memory: megabytes(set.total_memory_megabytes).or(usual.total_memory),
                total_cpu: set.total_cpu_seconds,
                ..usual
            },
        }
    }
}

/// How files are searched.
fn searching(settings: &Settings) -> Searching {
    let set = &settings.search;
    let usual = Searching::default();
    Searching {
        time: set.seconds.map_or(usual.time, |seconds| Duration::from_secs(seconds.clamp(1, 3600))),
        hidden: set.hidden.map(|shown| if shown { Hidden::Show } else { Hidden::Skip }),
        ignored: set.ignored.map(|shown| if shown { Ignored::Show } else { Ignored::Skip }),
    }
}

/// How much the journal keeps.
pub(crate) fn journal_limits(settings: &Settings) -> journal::Limits {
    const MEGABYTE: u64 = 1 << 20;
    let set = &settings.journal;
    let usual = journal::Limits::default();
    journal::Limits {
        bytes: set.keep_megabytes.map_or(usual.bytes, |count| count.max(1).saturating_mul(MEGABYTE)),
        entries: set.keep_changes.map_or(usual.entries, |count| count.max(1)),
        age: set.keep_days.map_or(usual.age, |days| Duration::from_secs(days.saturating_mul(DAY.as_secs()))),
        file: set.max_file_megabytes.map_or(usual.file, |count| count.saturating_mul(MEGABYTE)),
    }
}

/// What was kept of a session.
pub(crate) fn read_session(bytes: &[u8]) -> anyhow::Result<SavedSession> {
    let saved: SavedSession = serde_json::from_slice(bytes)?;
    if saved.version > SavedSession::VERSION {
        anyhow::bail!("it was kept by a newer haft (version {})", saved.version);
    }
    Ok(saved)
}

/// The figures of a workspace.
pub(crate) fn stats(state: &Store) -> anyhow::Result<std::collections::BTreeMap<String, haft::ToolStats>> {
    Stats::load(state, STATS).with_context(|| {
        format!("the figures cannot be read; `{}` may be damaged", state.path(STATS).display())
    })
}

/// The dialect that was typed, or set, or the first one.
pub(crate) fn dialect(typed: Option<&str>, settings: &Settings) -> anyhow::Result<Arc<dyn Dialect>> {
    match typed.or(settings.dialect.as_deref()) {
        Some(name) => dialects::by_name(name).map_err(|fault| style::wrong(&fault)),
        None => Ok(Arc::new(dialects::Claude)),
    }
}
