//! The settings: one file of the user's, two of the project's. Later ones win, lists add up, and what is
//! wrong stops haft rather than being passed over. A project that is not trusted can only make haft stricter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use etcetera::BaseStrategy;
use haft::{DEFAULT_MAX_RESULT, Mode, Policy};
use haft_sandbox::user;
use haft_tools::dialects;
use schemars::JsonSchema;
use serde::Deserialize;

/// No settings file is larger.
const MAX_BYTES: u64 = 1024 * 1024;

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
    /// Further folders that a session may touch. Trusted projects only.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Tools of other dialects that a session has besides its own, such as `ally/ls`. Trusted projects only.
    pub(crate) tools: Vec<String>,
    /// Folders whose own settings are followed in full. The user's file only.
    pub(crate) trusted: Vec<PathBuf>,
    /// How long replies may be and what is kept of longer ones.
    pub(crate) limits: Limits,
    /// Commands that see every call before or after it runs. Trusted projects only.
    pub(crate) hooks: Hooks,
}

/// How long replies may be and what is kept of longer ones.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// The longest reply of a tool, in characters, by the tool's name. A project that is not trusted can only
    /// make it shorter.
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
    /// How many seconds it may take (60 when nothing is said).
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
    /// The files, whether they exist or not.
    pub(crate) files: Vec<(PathBuf, Presence)>,
    /// Whether the workspace's own settings are followed in full.
    pub(crate) trust: Trust,
    /// The settings of the project that were passed over, for want of trust.
    pub(crate) ignored: Vec<String>,
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
}

/// Reads every settings file.
pub(crate) fn load(folders: &Folders, workspace: &Path) -> anyhow::Result<Loaded> {
    let user_file = folders.config.join("config.toml");
    let project = workspace.join(".haft");
    let mut files = Vec::new();
    let mut read = |path: PathBuf| -> anyhow::Result<Option<Settings>> {
        let found = read_file(&path)?;
        let presence = if found.is_some() { Presence::Found } else { Presence::Missing };
        files.push((path, presence));
        Ok(found)
    };
    let mut settings = read(user_file)?.unwrap_or_default();
    let trusted = settings.trusted.iter().filter_map(|folder| user::canonical(&home(folder)).ok());
    let trust = if trusted.into_iter().any(|folder| workspace.starts_with(folder)) {
        Trust::Full
    } else {
        Trust::None
    };
    let mut ignored = Vec::new();
    for name in ["config.toml", "config.local.toml"] {
        let path = project.join(name);
        let Some(mut found) = read(path.clone())? else { continue };
        if !found.trusted.is_empty() {
            bail!("`{}` sets `trusted`, which only the user's own file can", path.display());
        }
        if trust == Trust::None {
            ignored.extend(found.restrict(&settings).into_iter().map(|key| format!(".haft/{name}: {key}")));
        }
        settings.add(found);
    }
    Ok(Loaded { settings, files, trust, ignored })
}

fn read_file(path: &Path) -> anyhow::Result<Option<Settings>> {
    if !user::exists(path) {
        return Ok(None);
    }
    let bytes = user::read(path, MAX_BYTES)?;
    let text = String::from_utf8(bytes).with_context(|| format!("`{}` is not UTF-8", path.display()))?;
    toml::from_str(&text)
        .map(Some)
        .map_err(|error| anyhow::anyhow!("`{}`: {}", path.display(), error.to_string().trim()))
}

impl Settings {
    /// What comes later wins; lists add up.
    fn add(&mut self, later: Settings) {
        self.dialect = later.dialect.or(self.dialect.take());
        self.mode = later.mode.or(self.mode);
        self.schedule = later.schedule.or(self.schedule);
        self.add_dirs.extend(later.add_dirs);
        self.tools.extend(later.tools);
        self.limits.max_result.extend(later.limits.max_result);
        self.limits.keep_days = later.limits.keep_days.or(self.limits.keep_days);
        self.limits.keep_megabytes = later.limits.keep_megabytes.or(self.limits.keep_megabytes);
        self.hooks.pre_tool_use.extend(later.hooks.pre_tool_use);
        self.hooks.post_tool_use.extend(later.hooks.post_tool_use);
        self.hooks.post_tool_use_failure.extend(later.hooks.post_tool_use_failure);
    }

    /// How long a reply of a tool may be as things stand, whatever the dialect.
    fn longest_reply(&self, tool: &str) -> usize {
        let dialects = dialects::all();
        let of_that_name = dialects.iter().flat_map(|dialect| dialect.tools());
        let own = of_that_name.filter(|found| *found.spec().name == *tool).map(|tool| tool.spec().max_result);
        let set = self.limits.max_result.get(tool).copied();
        set.or(own.min()).unwrap_or(DEFAULT_MAX_RESULT)
    }

    /// Takes out what would loosen anything or run anything, and names it.
    fn restrict(&mut self, so_far: &Settings) -> Vec<&'static str> {
        let mut out = Vec::new();
        let all = self.limits.max_result.len();
        self.limits.max_result.retain(|tool, chars| *chars <= so_far.longest_reply(tool));
        if self.limits.max_result.len() < all {
            out.push("limits.max_result");
        }
        if self.limits.keep_days.take().is_some() {
            out.push("limits.keep_days");
        }
        if self.limits.keep_megabytes.take().is_some() {
            out.push("limits.keep_megabytes");
        }
        if self.mode.is_some_and(|mode| mode != ModeSetting::Plan) {
            self.mode = None;
            out.push("mode");
        }
        if !std::mem::take(&mut self.add_dirs).is_empty() {
            out.push("add_dirs");
        }
        if !std::mem::take(&mut self.tools).is_empty() {
            out.push("tools");
        }
        let hooks = std::mem::take(&mut self.hooks);
        if !(hooks.pre_tool_use.is_empty()
            && hooks.post_tool_use.is_empty()
            && hooks.post_tool_use_failure.is_empty())
        {
            out.push("hooks");
        }
        out
    }
}

/// A path of the settings, with `~` for the user's home.
fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), etcetera::home_dir()) {
        (Ok(rest), Ok(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
