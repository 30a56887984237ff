//! The settings of the sandbox that commands run in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What commands may do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Layers of the sandbox around commands: `all` that the kernel supports (the default), `few` (those without
    /// namespaces), or `none`. Also read under its earlier name `walls`.
    #[serde(alias = "walls")]
    pub layers: Option<LayersSetting>,
    /// Layers without which no command runs: `processes`, `view`, `paths`, `network`, `calls`, `quota`.
    pub require: Vec<LayerSetting>,
    /// Whether commands reach the network (default: false).
    pub network: Option<bool>,
    /// What happens to what commands change: `record`, so that it can be undone (the default), or `ask`: a command that
    /// needs approval runs on a copy-on-write view of the workspace without a question, and haft asks about what it changed
    /// there before it counts. Where there can be no view, it runs after a question, and haft asks whether to keep or undo
    /// what it changed.
    pub effects: Option<EffectsSetting>,
    /// Files and folders that commands do not see, besides those in the home that hold credentials: absolute, or
    /// with `~` for the home.
    pub hidden: Vec<PathBuf>,
    /// Variables of the environment that commands get although they look like secrets.
    pub pass_env: Vec<String>,
    /// Whether commands get what your login shell sets up, such as its search path (default: true).
    pub profile: Option<bool>,
    /// How many processes and threads the commands of a session may have together (default: 2048).
    /// Without control groups the limit holds for each command alone, and as root there is none.
    pub processes: Option<u64>,
    /// How many megabytes of memory the commands of a session may have together, temporary files included (default: four
    /// fifths of the machine's). Needs control groups.
    pub total_memory_megabytes: Option<u64>,
    /// How many megabytes of memory each process may have.
    pub memory_megabytes: Option<u64>,
    /// How many seconds of processor time each process may have.
    pub cpu_seconds: Option<u64>,
    /// How many seconds of processor time the commands of a session may have together. Once they are used up, no further
    /// command starts.
    pub total_cpu_seconds: Option<u64>,
    /// How many megabytes the largest file may have that a command writes.
    pub file_megabytes: Option<u64>,
}

/// Which layers the sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayersSetting {
    /// All that the kernel supports.
    All,
    /// Those that need no namespaces.
    Few,
    /// None.
    None,
}

/// What happens to what commands change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffectsSetting {
    /// It counts at once and can be undone.
    Record,
    /// It counts when it is approved.
    Ask,
}

/// One layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerSetting {
    /// A process namespace: no process outlives its command.
    Processes,
    /// A mount namespace: a restricted view of the file system.
    View,
    /// Landlock rules for paths.
    Paths,
    /// A network namespace without network.
    Network,
    /// A seccomp filter for system calls.
    Calls,
    /// Control groups: limits for all processes together.
    #[serde(alias = "amounts")]
    Quota,
}

impl Sandbox {
    /// Merges later settings, which win; lists are concatenated.
    pub(super) fn merge(&mut self, later: Self) {
        self.layers = later.layers.or(self.layers);
        self.require.extend(later.require);
        self.network = later.network.or(self.network);
        self.effects = later.effects.or(self.effects);
        self.hidden.extend(later.hidden);
        self.pass_env.extend(later.pass_env);
        self.profile = later.profile.or(self.profile);
        self.processes = later.processes.or(self.processes);
        self.total_memory_megabytes = later.total_memory_megabytes.or(self.total_memory_megabytes);
        self.memory_megabytes = later.memory_megabytes.or(self.memory_megabytes);
        self.total_cpu_seconds = later.total_cpu_seconds.or(self.total_cpu_seconds);
        self.cpu_seconds = later.cpu_seconds.or(self.cpu_seconds);
        self.file_megabytes = later.file_megabytes.or(self.file_megabytes);
    }
}
