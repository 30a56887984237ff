//! The settings: one file of the user's, two of the project's. Later files win, lists are concatenated, and an invalid file
//! is an error. A project that is not trusted can only make haft stricter. The doc comments of the fields are the user's
//! documentation: `haft settings --reference` prints them, and `docs/settings.md` is that output.

mod load;
mod merge;
mod permissions;
mod sandbox;
mod servers;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use haft_core::hooks::HookEvent;
use haft_core::{Durability, Mode, Policy, suggest};
use haft_dialects as dialects;
use haft_rules::KnownTools;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use load::files;
pub use load::{Folders, Loaded, Presence, Trust, load};
pub(crate) use permissions::home as home_dir;
pub use permissions::{Permissions, RuleSetting, RuleWithExamples};
pub use sandbox::{EffectsSetting, LayerSetting, LayersSetting, Sandbox};
pub use servers::{ConfiguredServer, Mcp};
pub use web::{ProviderSetting, Web, WebSearch};

use crate::error::HostError;

type Result<T> = std::result::Result<T, HostError>;

/// Maximum size of a settings file.
const MAX_BYTES: u64 = 1024 * 1024;

/// Minimum of `limits.max_result`: a cut reply needs room to say what was cut.
const MIN_MAX_RESULT: usize = 1000;

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The dialect of a session that names none: `claude`, `ally`, `cdd` or `workspace`.
    pub dialect: Option<String>,
    /// How permissive a session is that says nothing: `default`, `plan`, `accept-edits` or `bypass`.
    /// A project that is not trusted can only set `plan`.
    pub mode: Option<ModeSetting>,
    /// Who waits for whom: `claims` (a call waits for earlier ones that touch the same) or `safe-first`
    /// (all calls that only read, then the others one by one).
    pub schedule: Option<ScheduleSetting>,
    /// Further folders that a session may touch: absolute, with `~` for the home, or relative to the
    /// workspace. Trusted projects only.
    pub add_dirs: Vec<PathBuf>,
    /// Tools of other dialects that a session has besides its own, such as `ally/ls`. Trusted projects only.
    pub tools: Vec<String>,
    /// Folders whose own settings are followed in full, but not those of folders in them: absolute, or with `~` for
    /// the home. The user's file only; `haft trust` adds to it.
    pub trusted: Vec<PathBuf>,
    /// How long replies may be, and how long cut ones are kept whole.
    pub limits: Limits,
    /// How files are changed.
    pub files: Files,
    /// How files are searched. Trusted projects only.
    pub search: Search,
    /// What commands may do. A project that is not trusted can set nothing of it.
    pub sandbox: Sandbox,
    /// Rules: which calls are allowed, asked about or denied.
    pub permissions: Permissions,
    /// How long the journal keeps changes for undo. Trusted projects only.
    pub journal: JournalLimits,
    /// Commands that see every call before or after it runs. Trusted projects only.
    pub hooks: Hooks,
    /// MCP servers whose tools haft offers as well.
    pub mcp: Mcp,
    /// How the web is reached. Only in your own settings.
    pub web: Web,
}

/// How files are changed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    /// Durability of a change when its reply is sent: `full` (survives a power cut) or `fast` (survives a crash of
    /// haft). A project that is not trusted can only set `full`.
    pub durability: Option<DurabilitySetting>,
    /// Whether an edit matches text that differs from the file only in trailing white space, indentation or look-alike
    /// punctuation, where exactly one place fits (default: true). A project that
    /// is not trusted can only set false.
    pub lenient: Option<bool>,
    /// Whether new text may contain placeholder lines for omitted code, such as `// ... rest` (default: false).
    /// Trusted projects only.
    pub placeholders: Option<bool>,
    /// Whether the syntax of changed files is checked (default: true). A project that is not trusted can only
    /// set true.
    pub check: Option<bool>,
}

/// Durability of a change.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilitySetting {
    /// It survives a power cut.
    Full,
    /// It survives a crash of haft.
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Whether names that begin with a dot are searched, except `.git` (default: false).
    pub hidden: Option<bool>,
    /// Whether what `.gitignore`, `.ignore` and `.rgignore` name is searched (default: the
    /// dialect's; false in `claude`, true in the others).
    pub ignored: Option<bool>,
    /// Seconds after which a search returns what it has found (default: 20).
    #[schemars(range(min = 1))]
    pub seconds: Option<u64>,
}

/// How long the journal keeps changes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JournalLimits {
    /// Days for which changes are kept (default: 90).
    pub keep_days: Option<u64>,
    /// Megabytes of changes that are kept (default: 1024; at least 1).
    pub keep_megabytes: Option<u64>,
    /// Number of changes that are kept (default: 50000; at least 1).
    pub keep_changes: Option<u64>,
    /// Largest file, in megabytes, whose old content is kept when it is replaced or deleted (default: 64). Edits
    /// of larger files are kept.
    pub max_file_megabytes: Option<u64>,
}

/// How long replies may be, and how long cut ones are kept whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The longest reply of a tool, in characters (at least 1000), by the tool's name. A project that is not
    /// trusted can only make it shorter.
    pub max_result: BTreeMap<String, usize>,
    /// Days for which the whole text of a cut reply is kept (default: 7). Trusted projects only.
    pub keep_days: Option<u64>,
    /// Megabytes of such texts that are kept (default: 256). Trusted projects only.
    pub keep_megabytes: Option<u64>,
}

/// Commands that see every call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Before a call: may deny, allow or rewrite it. One that fails denies.
    pub pre_tool_use: Vec<HookSetting>,
    /// After a call that succeeded.
    pub post_tool_use: Vec<HookSetting>,
    /// After a call that failed.
    pub post_tool_use_failure: Vec<HookSetting>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookSetting {
    /// For which tools: a regular expression over the whole name, such as `Edit|Write`; all when empty.
    #[serde(default)]
    pub matcher: String,
    /// The command, run by `sh` in the workspace. It reads the call as JSON from its standard input.
    pub command: String,
    /// Timeout in seconds, at least 1 (default: 60).
    pub timeout: Option<u64>,
}

/// A mode.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum ModeSetting {
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

/// Which calls of a turn wait for which.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleSetting {
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

/// The tools that rules can name: those of every dialect.
pub fn known_tools() -> KnownTools {
    static KNOWN: LazyLock<KnownTools> =
        LazyLock::new(|| KnownTools::of(dialects::all().iter().flat_map(|dialect| dialect.tools())));
    KNOWN.clone()
}

/// The names of every tool of every dialect.
pub fn tool_names() -> Vec<Arc<str>> {
    dialects::all().iter().flat_map(|dialect| dialect.tools()).map(|tool| tool.spec().name.clone()).collect()
}

impl Hooks {
    /// Every hook, with its event.
    pub fn all(&self) -> impl Iterator<Item = (HookEvent, &HookSetting)> {
        let before = self.pre_tool_use.iter().map(|hook| (HookEvent::PreToolUse, hook));
        let after = self.post_tool_use.iter().map(|hook| (HookEvent::PostToolUse, hook));
        let failed = self.post_tool_use_failure.iter().map(|hook| (HookEvent::PostToolUseFailure, hook));
        before.chain(after).chain(failed)
    }
}

impl Settings {
    /// Validates what the types cannot express: tool names, rules, servers and minimum values.
    fn check(&self, workspace: &Path, known: &KnownTools) -> Result<()> {
        self.permissions.check(workspace, known)?;
        self.mcp.check()?;
        self.web.check()?;
        let names = tool_names();
        for (tool, chars) in &self.limits.max_result {
            // The tools of MCP servers are unknown until the servers are started.
            if !tool.starts_with("mcp__") && !names.iter().any(|name| **name == **tool) {
                let near = suggest::nearest(tool, names.iter().map(|name| &**name), 1);
                let meant = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return Err(HostError::settings(format!(
                    "`limits.max_result` names `{tool}`, which is no tool of any dialect{meant}"
                )));
            }
            if *chars < MIN_MAX_RESULT {
                return Err(HostError::settings(format!(
                    "`limits.max_result` of `{tool}` is {chars}: it must be {MIN_MAX_RESULT} at least"
                )));
            }
        }
        if let Some((_, hook)) = self.hooks.all().find(|(_, hook)| hook.timeout == Some(0)) {
            return Err(HostError::settings(format!(
                "the hook `{}` has a `timeout` of 0 seconds: it must be 1 at least",
                hook.command
            )));
        }
        Ok(())
    }
}

/// A path of the settings, with `~` expanded to the user's home.
pub fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), etcetera::home_dir()) {
        (Ok(rest), Ok(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
