//! The settings: one file of the user's, two of the project's. Later ones win, lists add up, and what is
//! wrong stops haft rather than being passed over. A project that is not trusted can only make haft stricter.

mod permissions;
mod sandbox;
mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use etcetera::BaseStrategy;
use haft_core::{DEFAULT_MAX_RESULT, Durability, HookEvent, Mode, Policy, Workspace, suggest};
use haft_dialects as dialects;
use haft_rules::Book;
use haft_sandbox::{PathError, PathErrorKind, Store, user};
pub(crate) use permissions::{Permissions, home as home_dir};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use sandbox::{Sandbox, WallSetting, WallsSetting};
pub(crate) use servers::{Found, Mcp};
use servers::{MCP_JSON, read_mcp_json};

use crate::grants::Grants;

/// No settings file is larger.
const MAX_BYTES: u64 = 1024 * 1024;

/// No reply is held to fewer characters: less would not hold what a cut reply must say of itself.
const LEAST_MAX_RESULT: usize = 1000;

/// Everything that can be set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The dialect of a session that names none: `claude`, `ally`, `cdd` or `workspace`.
    pub(crate) dialect: Option<String>,
    /// How permissive a session is that says nothing: `default`, `plan`, `accept-edits` or `bypass`.
    /// A project that is not trusted can only set `plan`.
    pub(crate) mode: Option<ModeSetting>,
    /// Who waits for whom: `claims` (a call waits for earlier ones that touch the same) or `safe-first`
    /// (all calls that only read, then the others one by one).
    pub(crate) schedule: Option<ScheduleSetting>,
    /// Further folders that a session may touch: absolute, with `~` for the home, or relative to the
    /// workspace. Trusted projects only.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Tools of other dialects that a session has besides its own, such as `ally/ls`. Trusted projects only.
    pub(crate) tools: Vec<String>,
    /// Folders whose own settings are followed in full, but not those of folders in them: absolute, or with `~` for
    /// the home. The user's file only; `haft trust` adds to it.
    pub(crate) trusted: Vec<PathBuf>,
    /// How long replies may be and what is kept of longer ones.
    pub(crate) limits: Limits,
    /// How files are changed.
    pub(crate) files: Files,
    /// How files are searched. Trusted projects only.
    pub(crate) search: Search,
    /// What commands may do. A project that is not trusted can set nothing of it.
    pub(crate) sandbox: Sandbox,
    /// What may happen without being asked, and what may not happen at all.
    pub(crate) permissions: Permissions,
    /// How much of what was changed is kept, to be undone. Trusted projects only.
    pub(crate) journal: JournalLimits,
    /// Commands that see every call before or after it runs. Trusted projects only.
    pub(crate) hooks: Hooks,
    /// Other servers whose tools are used.
    pub(crate) mcp: Mcp,
}

/// How files are changed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Files {
    /// How surely a change is on disk when its reply comes: `full` (it outlasts a power cut) or `fast` (it
    /// outlasts a crash of haft). A project that is not trusted can only set `full`.
    pub(crate) durability: Option<DurabilitySetting>,
    /// Whether a text that differs from the file only in white space at the ends of lines, indentation or
    /// look-alike punctuation is taken for the one place it fits (true when nothing is said). A project that
    /// is not trusted can only set false.
    pub(crate) lenient: Option<bool>,
    /// Whether new text may have lines that stand for code left out (false when nothing is said). Trusted
    /// projects only.
    pub(crate) placeholders: Option<bool>,
    /// Whether the syntax of changed files is checked (true when nothing is said). A project that is not trusted can only
    /// set true.
    pub(crate) check: Option<bool>,
}

/// How surely a change is on disk.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DurabilitySetting {
    /// It outlasts a power cut.
    Full,
    /// It outlasts a crash of haft.
    Fast,
}

impl From<DurabilitySetting> for Durability {
    fn from(setting: DurabilitySetting) -> Self {
        match setting {
            DurabilitySetting::Full => Durability::Full,
            DurabilitySetting::Fast => Durability::Fast,
        }
    }
}

/// How files are searched.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Search {
    /// Whether names that begin with a dot are searched, git's own folder excepted. When nothing is said, it
    /// is as the dialect has it: they are not.
    pub(crate) hidden: Option<bool>,
    /// Whether what `.gitignore`, `.ignore` and `.rgignore` name is searched. When nothing is said, it is as
    /// the dialect has it: not in `claude`, but in the others.
    pub(crate) ignored: Option<bool>,
    /// After how many seconds a search gives what it has found (20 when nothing is said).
    #[schemars(range(min = 1))]
    pub(crate) seconds: Option<u64>,
}

/// How much of what was changed is kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct JournalLimits {
    /// For how many days changes are kept (90 when nothing is said).
    pub(crate) keep_days: Option<u64>,
    /// How many megabytes of them (1024 when nothing is said, 1 at least).
    pub(crate) keep_megabytes: Option<u64>,
    /// How many of them (50000 when nothing is said, 1 at least).
    pub(crate) keep_changes: Option<u64>,
    /// Files of more megabytes are replaced and deleted without keeping their old content (64 when nothing is
    /// said). Edits in them are kept.
    pub(crate) max_file_megabytes: Option<u64>,
}

/// How long replies may be and what is kept of longer ones.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// The longest reply of a tool, in characters (1000 at least), by the tool's name. A project that is not
    /// trusted can only make it shorter.
    pub(crate) max_result: BTreeMap<String, usize>,
    /// For how many days the whole of a reply is kept that was cut (7 when nothing is said). Trusted
    /// projects only.
    pub(crate) keep_days: Option<u64>,
    /// How many megabytes of such replies are kept (256 when nothing is said). Trusted projects only.
    pub(crate) keep_megabytes: Option<u64>,
}

/// Commands that see every call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Hooks {
    /// Before a call: may deny, allow or rewrite it. One that fails denies.
    pub(crate) pre_tool_use: Vec<HookSetting>,
    /// After a call that succeeded.
    pub(crate) post_tool_use: Vec<HookSetting>,
    /// After a call that failed.
    pub(crate) post_tool_use_failure: Vec<HookSetting>,
}

/// One command.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookSetting {
    /// For which tools: a regular expression over the whole name, such as `Edit|Write`; all when empty.
    #[serde(default)]
    pub(crate) matcher: String,
    /// The command, run by `sh` in the workspace. It reads the call as JSON from its standard input.
    pub(crate) command: String,
    /// How many seconds it may take, at least 1 (60 when nothing is said).
    pub(crate) timeout: Option<u64>,
}

/// A mode.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ModeSetting {
    /// What is not safe is asked.
    Default,
    /// Nothing is changed.
    Plan,
    /// Changes of files in the workspace are not asked.
    AcceptEdits,
    /// Nothing is asked.
    Bypass,
}

impl From<ModeSetting> for Mode {
    fn from(mode: ModeSetting) -> Self {
        match mode {
            ModeSetting::Default => Mode::Default,
            ModeSetting::Plan => Mode::Plan,
            ModeSetting::AcceptEdits => Mode::AcceptEdits,
            ModeSetting::Bypass => Mode::Bypass,
        }
    }
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScheduleSetting {
    /// A call waits for earlier ones that touch the same.
    Claims,
    /// All calls that only read, then the others one by one.
    SafeFirst,
}

impl From<ScheduleSetting> for Policy {
    fn from(schedule: ScheduleSetting) -> Self {
        match schedule {
            ScheduleSetting::Claims => Policy::Claims,
            ScheduleSetting::SafeFirst => Policy::SafeFirst,
        }
    }
}

/// The settings in force, and where they came from.
pub(crate) struct Loaded {
    /// What holds.
    pub(crate) settings: Settings,
    /// The rules that hold, with where they were found.
    pub(crate) book: Book,
    /// The files, whether they exist or not.
    pub(crate) files: Vec<(PathBuf, Presence)>,
    /// Whether the workspace's own settings are followed in full.
    pub(crate) trust: Trust,
    /// The settings of the project that were passed over, for want of trust.
    pub(crate) ignored: Vec<String>,
    /// The servers whose tools are used, with where they were found.
    pub(crate) servers: Vec<Found>,
    /// The servers of the project that are not started, for want of trust.
    pub(crate) held_back: Vec<Found>,
    /// What is wrong with the project's `.mcp.json`, which is not used for want of trust.
    pub(crate) unreadable: Option<String>,
    of_project: Vec<(PathBuf, Option<Vec<u8>>)>,
    seal: String,
}

/// The settings that a project brings.
const PROJECT_FILES: [&str; 2] = ["config.toml", "config.local.toml"];
/// What the settings of a project were when they were trusted.
const SEAL: &str = "trusted";

/// What tells other settings of a project from these.
fn seal(of_project: &[(PathBuf, Option<Vec<u8>>)], mcp_json: &Option<Vec<u8>>) -> String {
    let settings = of_project.iter().map(|(_, bytes)| bytes);
    let all: Vec<&Option<Vec<u8>>> = settings.chain(mcp_json.is_some().then_some(mcp_json)).collect();
    haft_core::Hash::of(&serde_json::to_vec(&all).unwrap_or_default()).to_string()
}

impl Loaded {
    /// The settings that the project brings, as they are written.
    pub(crate) fn of_project(&self) -> Vec<(&Path, &str)> {
        let files = self.of_project.iter();
        files
            .filter_map(|(path, bytes)| Some((path.as_path(), std::str::from_utf8(bytes.as_ref()?).ok()?)))
            .collect()
    }

    /// Remembers what the settings of a trusted project are, so that it is seen when they change.
    pub(crate) fn keep_seal(&self, state: &Store) -> anyhow::Result<()> {
        Ok(state.write(SEAL, self.seal.as_bytes())?)
    }

    /// Remembers them when they are first followed.
    pub(crate) fn keep_first_seal(&self, state: &Store) -> anyhow::Result<()> {
        if self.trust == Trust::Full && !state.has(SEAL)? { self.keep_seal(state) } else { Ok(()) }
    }
}

/// Whether a file is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Presence {
    Found,
    Missing,
}

/// Whether the workspace's own settings are followed in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trust {
    Full,
    None,
    /// They were, but are others now.
    Changed,
}

/// The user's folders for settings and for state.
pub(crate) struct Folders {
    pub(crate) config: PathBuf,
    pub(crate) state: PathBuf,
}

impl Folders {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let base = etcetera::choose_base_strategy().context("your home folder cannot be found; set HOME")?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Ok(Self { config: base.config_dir().join("haft"), state: state.join("haft") })
    }

    /// Checks that nobody else can change what haft keeps.
    pub(crate) fn are_private(&self) -> anyhow::Result<()> {
        Store::at(&self.state).is_private().context("the state folder cannot be used")
    }
}

/// Reads every settings file.
pub(crate) fn load(folders: &Folders, workspace: &Path) -> anyhow::Result<Loaded> {
    let user_file = folders.config.join("config.toml");
    let project = workspace.join(".haft");
    let mut files = Vec::new();
    let mut read = |path: PathBuf, bytes: Option<Vec<u8>>| -> anyhow::Result<Option<Settings>> {
        let presence = if bytes.is_some() { Presence::Found } else { Presence::Missing };
        let mut found = bytes.map(|bytes| parse(&path, bytes)).transpose()?;
        if let Some(found) = &mut found {
            found.check(workspace).with_context(|| format!("`{}`", path.display()))?;
            found.add_dirs = found.add_dirs.iter().map(|dir| workspace.join(home(dir))).collect();
        }
        files.push((path, presence));
        Ok(found)
    };
    let bytes = user::read_regular(&user_file, MAX_BYTES)?;
    let mut settings = read(user_file.clone(), bytes)?.unwrap_or_default();
    let mut book = Book::default();
    settings.permissions.write_down(&mut book, &user_file.display().to_string())?;
    let trusted: Vec<PathBuf> = settings.trusted.iter().map(|folder| home(folder)).collect();
    if let Some(folder) = trusted.iter().find(|folder| !folder.is_absolute()) {
        bail!("`trusted` names `{}`: write a whole path, or one that begins with `~/`", folder.display());
    }
    let trusted = trusted.iter().filter_map(|folder| user::canonical(folder).ok());
    // A folder in a trusted one is another project: whoever may write there could put settings into it.
    let is_trusted = trusted.into_iter().any(|folder| workspace == folder);
    let state = crate::host::state_of(folders, workspace);
    let mut of_project = Vec::new();
    let root = workspace.parent().map(|_| Workspace::open(workspace)).transpose()?;
    for name in PROJECT_FILES {
        let path = project.join(name);
        let bytes = read_of_project(root.as_ref(), &path)?;
        of_project.push((path, bytes));
    }
    let mcp_json = read_of_project(root.as_ref(), &workspace.join(MCP_JSON));
    let mcp_json_text = mcp_json.as_ref().ok().cloned().flatten();
    let seal = seal(&of_project, &mcp_json_text);
    let trust = match (is_trusted, state.read(SEAL)?) {
        (false, _) => Trust::None,
        (true, Some(sealed)) if sealed != seal.as_bytes() => Trust::Changed,
        (true, _) => Trust::Full,
    };
    let mut ignored = Vec::new();
    let mut servers = Vec::new();
    let mut held_back = Vec::new();
    settings.mcp.write_down(&mut servers, &user_file.display().to_string());
    let mut unreadable = None;
    match read_mcp_json(&workspace.join(MCP_JSON), mcp_json) {
        Ok(found) if trust == Trust::Full => servers::add(found.into_iter(), &mut servers),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            ignored.push(format!("{MCP_JSON}: mcpServers"));
            held_back = found;
        }
        Err(error) if trust == Trust::Full => return Err(error),
        // Other programs read this file, too: as long as nothing of it is used, it may be what it likes.
        Err(error) => unreadable = Some(format!("{error:#}")),
    }
    for (name, (path, bytes)) in PROJECT_FILES.into_iter().zip(of_project.clone()) {
        let Some(mut found) = read(path.clone(), bytes)? else { continue };
        if !found.trusted.is_empty() {
            bail!("`{}` sets `trusted`, which only the user's own file can", path.display());
        }
        let place = format!(".haft/{name}");
        found.mcp.write_down(if trust == Trust::Full { &mut servers } else { &mut held_back }, &place);
        if trust != Trust::Full {
            let (kept, left_out) = found.restricted(&settings);
            ignored.extend(left_out.into_iter().map(|key| format!(".haft/{name}: {key}")));
            found = kept;
        }
        found.permissions.write_down(&mut book, &format!(".haft/{name}"))?;
        settings.add(found);
    }
    Grants { state, config: folders.config.clone() }.write_down(&mut book)?;
    of_project.push((workspace.join(MCP_JSON), mcp_json_text));
    Ok(Loaded { settings, book, files, trust, ignored, servers, held_back, unreadable, of_project, seal })
}

/// A file of the project's. Whoever wrote the project is not the user, so nothing but a regular file inside of
/// it will do.
fn read_of_project(root: Option<&Workspace>, path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(workspace) = root else {
        // The root of everything is no workspace, but may be asked about.
        return Ok(user::read_regular(path, MAX_BYTES)?);
    };
    let below = path.strip_prefix(workspace.root()).unwrap_or(path).to_string_lossy();
    let wrong = |error: PathError| anyhow::anyhow!("the project's settings cannot be read: {error}");
    let place = match workspace.resolve(workspace.root(), &below) {
        Ok(place) if place.stat.is_some() => place,
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.kind, PathErrorKind::NotFound | PathErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(wrong(error)),
    };
    let file = workspace.open_file(&place.path).map_err(wrong)?.file;
    Ok(Some(user::at_most(path, file, MAX_BYTES)?))
}

fn parse(path: &Path, bytes: Vec<u8>) -> anyhow::Result<Settings> {
    let text = String::from_utf8(bytes).with_context(|| format!("`{}` is not UTF-8", path.display()))?;
    toml::from_str(&text)
        .map_err(|error| anyhow::anyhow!("`{}`: {}", path.display(), error.to_string().trim()))
}

/// The names of every tool of every dialect.
pub(crate) fn tool_names() -> Vec<Arc<str>> {
    dialects::all().iter().flat_map(|dialect| dialect.tools()).map(|tool| tool.spec().name.clone()).collect()
}

impl Hooks {
    /// Every command, with when it runs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (HookEvent, &HookSetting)> {
        let before = self.pre_tool_use.iter().map(|hook| (HookEvent::PreToolUse, hook));
        let after = self.post_tool_use.iter().map(|hook| (HookEvent::PostToolUse, hook));
        let failed = self.post_tool_use_failure.iter().map(|hook| (HookEvent::PostToolUseFailure, hook));
        before.chain(after).chain(failed)
    }
}

impl Settings {
    /// What the types cannot say: names must be those of tools, and numbers make sense.
    fn check(&self, workspace: &Path) -> anyhow::Result<()> {
        self.permissions.check(workspace)?;
        self.mcp.check()?;
        let names = tool_names();
        for (tool, chars) in &self.limits.max_result {
            // What other servers offer is not known before they are started.
            if !tool.starts_with("mcp__") && !names.iter().any(|name| **name == **tool) {
                let near = suggest::nearest(tool, names.iter().map(|name| &**name), 1);
                let meant = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                bail!("`limits.max_result` names `{tool}`, which is no tool of any dialect{meant}");
            }
            if *chars < LEAST_MAX_RESULT {
                bail!("`limits.max_result` of `{tool}` is {chars}: it must be {LEAST_MAX_RESULT} at least");
            }
        }
        if let Some((_, hook)) = self.hooks.all().find(|(_, hook)| hook.timeout == Some(0)) {
            bail!("the hook `{}` has a `timeout` of 0 seconds: it must be 1 at least", hook.command);
        }
        Ok(())
    }

    /// Adds settings that win over these; lists add up. Each field is named, so that a new one is not forgotten.
    fn add(&mut self, later: Settings) {
        let Settings {
            dialect,
            mode,
            schedule,
            add_dirs,
            tools,
            trusted: _,
            limits: Limits { max_result, keep_days, keep_megabytes },
            files: Files { durability, lenient, placeholders, check },
            search: Search { hidden, ignored, seconds },
            sandbox,
            permissions: Permissions { allow: _, ask: _, deny: _, recommended: _, seconds: patience },
            journal,
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            mcp: Mcp { servers },
        } = later;
        fn win<T>(so_far: &mut Option<T>, later: Option<T>) {
            if later.is_some() {
                *so_far = later;
            }
        }
        win(&mut self.dialect, dialect);
        win(&mut self.mode, mode);
        win(&mut self.schedule, schedule);
        self.add_dirs.extend(add_dirs);
        self.tools.extend(tools);
        self.limits.max_result.extend(max_result);
        win(&mut self.limits.keep_days, keep_days);
        win(&mut self.limits.keep_megabytes, keep_megabytes);
        win(&mut self.files.durability, durability);
        win(&mut self.files.lenient, lenient);
        win(&mut self.files.placeholders, placeholders);
        win(&mut self.files.check, check);
        win(&mut self.search.hidden, hidden);
        win(&mut self.search.ignored, ignored);
        win(&mut self.search.seconds, seconds);
        self.sandbox.merge(sandbox);
        win(&mut self.permissions.seconds, patience);
        let JournalLimits { keep_days, keep_megabytes, keep_changes, max_file_megabytes } = journal;
        win(&mut self.journal.keep_days, keep_days);
        win(&mut self.journal.keep_megabytes, keep_megabytes);
        win(&mut self.journal.keep_changes, keep_changes);
        win(&mut self.journal.max_file_megabytes, max_file_megabytes);
        self.hooks.pre_tool_use.extend(pre_tool_use);
        self.hooks.post_tool_use.extend(post_tool_use);
        self.hooks.post_tool_use_failure.extend(post_tool_use_failure);
        self.mcp.servers.extend(servers);
    }

    /// How long a reply of a tool may be as things stand, whatever the dialect.
    fn longest_reply(&self, tool: &str) -> usize {
        let dialects = dialects::all();
        let of_that_name = dialects.iter().flat_map(|dialect| dialect.tools());
        let own = of_that_name.filter(|found| *found.spec().name == *tool).map(|tool| tool.spec().max_result);
        let set = self.limits.max_result.get(tool).copied();
        set.or(own.min()).unwrap_or(DEFAULT_MAX_RESULT)
    }

    /// What of these settings a project may set that the user does not trust: what makes haft stricter than `so_far`.
    /// Names what was left out. Each field is named, so that a new one does not pass unless somebody decides that.
    fn restricted(self, so_far: &Settings) -> (Settings, Vec<&'static str>) {
        let Settings {
            dialect,
            mode,
            schedule,
            add_dirs,
            tools,
            trusted,
            limits: Limits { mut max_result, keep_days, keep_megabytes },
            files: Files { durability, lenient, placeholders, check },
            search: Search { hidden, ignored, seconds },
            sandbox,
            permissions: Permissions { allow, ask, deny, recommended, seconds: patience },
            journal:
                JournalLimits { keep_days: days, keep_megabytes: space, keep_changes, max_file_megabytes },
            hooks: Hooks { pre_tool_use, post_tool_use, post_tool_use_failure },
            mcp: Mcp { servers },
        } = self;
        let mut out = Vec::new();
        let mut leave_out = |key: &'static str, is_set: bool| {
            if is_set && !out.contains(&key) {
                out.push(key);
            }
        };
        fn only<T>(set: Option<T>, is_stricter: impl FnOnce(&T) -> bool) -> (Option<T>, bool) {
            let is_set = set.is_some();
            let kept = set.filter(is_stricter);
            let is_left_out = is_set && kept.is_none();
            (kept, is_left_out)
        }
        let all = max_result.len();
        max_result.retain(|tool, chars| *chars <= so_far.longest_reply(tool));
        leave_out("limits.max_result", max_result.len() < all);
        leave_out("limits.keep_days", keep_days.is_some());
        leave_out("limits.keep_megabytes", keep_megabytes.is_some());
        let (mode, looser) = only(mode, |mode| *mode == ModeSetting::Plan);
        leave_out("mode", looser);
        let (durability, looser) = only(durability, |durability| *durability == DurabilitySetting::Full);
        leave_out("files.durability", looser);
        let (lenient, looser) = only(lenient, |lenient| !lenient);
        leave_out("files.lenient", looser);
        let (placeholders, looser) = only(placeholders, |placeholders| !placeholders);
        leave_out("files.placeholders", looser);
        let (check, looser) = only(check, |check| *check);
        leave_out("files.check", looser);
        leave_out("search", hidden.is_some() || ignored.is_some() || seconds.is_some());
        leave_out("sandbox", sandbox != Sandbox::default());
        leave_out("permissions.allow", !allow.is_empty() || recommended == Some(true));
        // A question that is denied sooner is stricter.
        let limit = so_far.permissions.seconds;
        let (patience, looser) = only(patience, |set| limit.is_none_or(|limit| *set <= limit));
        leave_out("permissions.seconds", looser);
        leave_out("journal", [days, space, keep_changes, max_file_megabytes].iter().any(Option::is_some));
        leave_out("add_dirs", !add_dirs.is_empty());
        leave_out("tools", !tools.is_empty());
        let hooks = [&pre_tool_use, &post_tool_use, &post_tool_use_failure];
        leave_out("hooks", hooks.iter().any(|hooks| !hooks.is_empty()));
        leave_out("mcp.servers", !servers.is_empty());
        let kept = Settings {
            // Which words a session speaks and in which order calls wait is neither stricter nor looser.
            dialect,
            schedule,
            mode,
            trusted,
            limits: Limits { max_result, ..Limits::default() },
            files: Files { durability, lenient, placeholders, check },
            permissions: Permissions { ask, deny, seconds: patience, ..Permissions::default() },
            ..Settings::default()
        };
        (kept, out)
    }
}

/// A path of the settings, with `~` for the user's home.
pub(crate) fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), etcetera::home_dir()) {
        (Ok(rest), Ok(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
