//! The settings of the sandbox that commands run in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What commands may do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Which walls there are around commands: `all` that can be had (when nothing is said), `few` (without
    /// namespaces), or `none`.
    pub walls: Option<WallsSetting>,
    /// Walls without which no command is run: `processes`, `view`, `paths`, `network`, `calls`, `amounts`.
    pub require: Vec<WallSetting>,
    /// Whether commands reach the network (false when nothing is said).
    pub network: Option<bool>,
    /// Files and folders that commands do not see, besides those in the home that hold credentials: absolute, or
    /// with `~` for the home.
    pub hidden: Vec<PathBuf>,
    /// Variables of the environment that commands get although they look like secrets.
    pub pass_env: Vec<String>,
    /// Whether commands get what your login shell sets up, such as its search path (true when nothing is said).
    pub profile: Option<bool>,
    /// How many processes and threads the commands of a session may have together (2048 when nothing is said).
    /// Where there are no control groups, each command may have so many, and as root there is no limit.
    pub processes: Option<u64>,
    /// How many megabytes of memory the commands of a session may have together, temporary files included (four
    /// fifths of the machine's when nothing is said). Needs control groups.
    pub total_memory_megabytes: Option<u64>,
    /// How many megabytes of memory each process may have.
    pub memory_megabytes: Option<u64>,
    /// How many seconds of processor time each process may have.
    pub cpu_seconds: Option<u64>,
    /// How many seconds of processor time the commands of a session may have together: once they are used up, no other
    /// command is started.
    pub total_cpu_seconds: Option<u64>,
    /// How many megabytes the largest file may have that a command writes.
    pub file_megabytes: Option<u64>,
}

/// Which layers the sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WallsSetting {
    /// All that the kernel supports.
    All,
    /// Those that need no namespaces.
    Few,
    /// None.
    None,
}

/// One layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WallSetting {
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
    Amounts,
}

impl Sandbox {
    /// Merges later settings, which win; lists are concatenated.
    pub(super) fn merge(&mut self, later: Self) {
        self.walls = later.walls.or(self.walls);
        self.require.extend(later.require);
        self.network = later.network.or(self.network);
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
