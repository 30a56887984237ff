//! What commands of a session may do: the cage that is made of its workspace and settings.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::Command;
use haft::Context;
use haft_sandbox::Access;
use haft_sandbox::cage::{Limits, Network, Policy, Ready, Wall, Walls};

/// In a folder that can be written, what makes other programs run something.
const GUARDED: [&str; 10] = [
    ".haft",
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
];

/// In the home of the user, what says who they are.
const CREDENTIALS: [&str; 18] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".local/share/keyrings",
    ".password-store",
    ".bash_history",
];

/// Words in the names of variables that hold secrets.
const SECRET: [&str; 9] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"];

/// Variables by which others get into a shell, or a shell to others.
const DANGEROUS: [&str; 10] = [
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "IFS",
    "PROMPT_COMMAND",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Nobody is there to turn pages or to write a text.
const DISARMED: [(&str, &str); 11] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
];

/// What commands of a session may do: what can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caging {
    /// Whether there are walls.
    pub walls: Walls,
    /// Walls without which nothing is run.
    pub required: Vec<Wall>,
    /// Whether commands reach the network.
    pub network: Network,
    /// Files and folders that they do not see, besides those that hold credentials.
    pub hidden: Vec<PathBuf>,
    /// Variables that they get although they look like secrets.
    pub passed: Vec<String>,
    /// How much each of them may use, and how much all together.
    pub limits: Limits,
}

impl Default for Caging {
    fn default() -> Self {
        Self {
            walls: Walls::All,
            required: Vec::new(),
            network: Network::Off,
            hidden: Vec::new(),
            passed: Vec::new(),
            limits: Limits::usual(),
        }
    }
}

/// The cages of a session.
#[derive(Debug, Default)]
pub(super) struct Cages(OnceLock<Ready>);

impl Cages {
    /// Those that are ready.
    pub(super) fn ready(&self, caging: &Caging) -> &Ready {
        self.0.get_or_init(|| Ready::new(caging.limits.amounts()))
    }
}

impl Caging {
    /// The policy for a command.
    pub(super) fn policy(&self, command: &Command, cx: &Context) -> Policy {
        let workspace = cx.session().workspace();
        if command.free || self.walls == Walls::None {
            // Whoever lets a command do what it likes does not mean haft's own settings.
            let own = workspace.folders().iter().map(|folder| folder.path.as_path().join(GUARDED[0]));
            return Policy {
                walls: Walls::None,
                network: Network::On,
                limits: self.limits,
                guarded: own.collect(),
                ..Policy::default()
            };
        }
        let (mut write, mut read) = (Vec::new(), Vec::new());
        for folder in workspace.folders() {
            let path = folder.path.as_path().to_owned();
            if folder.access == Access::Write { write.push(path) } else { read.push(path) }
        }
        if let Some(focus) = workspace.focus() {
            read.append(&mut write);
            write.push(focus.as_path().to_owned());
        }
        if command.is_read_only() {
            // Should it write after all, that fails.
            read.append(&mut write);
        }
        let guarded = write.iter().flat_map(|folder| GUARDED.map(|name| folder.join(name))).collect();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let credentials = home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        let hidden = credentials.chain(self.hidden.iter().cloned()).collect();
        Policy {
            walls: self.walls,
            write,
            guarded,
            read,
            hidden,
            network: self.network,
            limits: self.limits,
            ..Policy::default()
        }
    }

    /// What a command that failed may have tried in vain: it is not told so by the programs it ran.
    pub(super) fn guarded_in(&self, command: &Command) -> Option<&'static str> {
        let is_caged = !command.free && self.walls != Walls::None;
        GUARDED.into_iter().find(|name| is_caged && command.text.contains(name))
    }

    /// The environment of a command.
    pub(super) fn env(&self, _cx: &Context) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &str| self.passed.iter().any(|passed| passed == name);
        let is_secret = |name: &str| SECRET.iter().any(|word| name.to_uppercase().contains(word));
        let is_dangerous = |name: &str| {
            DANGEROUS.contains(&name)
                || ["LD_", "BASH_FUNC_", "GIT_", "DYLD_"].iter().any(|start| name.starts_with(start))
        };
        let kept = std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            is_passed(&name) || !(is_secret(&name) || is_dangerous(&name))
        });
        let disarmed = DISARMED.map(|(name, value)| (name.into(), value.into()));
        let is_disarmed = |name: &OsString| DISARMED.iter().any(|(other, _)| name == other);
        kept.filter(|(name, _)| !is_disarmed(name)).chain(disarmed).collect()
    }
}
