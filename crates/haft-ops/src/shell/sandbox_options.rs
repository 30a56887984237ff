//! What commands of a session may do: the sandbox that is made of its workspace and settings.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_sandbox::{FolderAccess, Kind, Store};
use tokio::sync::OnceCell;

use super::profile::{self, Env};
use super::{Command, May};
use haft_rules::{Rules, SessionJudge};
use haft_sandbox::sandbox::{self, Layer, Layers, Limits, Network, Policy, Sandbox, SandboxPool, Visibility};

/// In a folder that can be written, what makes other programs run something.
const GUARDED: [&str; 11] = [
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
    ".husky",
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

/// A repository may belong to somebody else than who asks about it: in a sandbox it can do no harm.
const GIT: [(&str, &str); 3] =
    [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];

/// What commands of a session may do: what can be set.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// Whether there are layers.
    pub layers: Layers,
    /// Layers without which nothing is run.
    pub required: Vec<Layer>,
    /// Whether commands reach the network.
    pub network: Network,
    /// Files and folders that they do not see, besides those that hold credentials.
    pub hidden: Vec<PathBuf>,
    /// Variables that they get although they look like secrets.
    pub passed: Vec<String>,
    /// Whether they get what the user's own shell sets up.
    pub profile: Profile,
    /// How much each of them may use, and how much all together.
    pub limits: Limits,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            layers: Layers::All,
            required: Vec::new(),
            network: Network::Off,
            hidden: Vec::new(),
            passed: Vec::new(),
            profile: Profile::default(),
            limits: Limits::usual(),
        }
    }
}

/// Whether commands get the environment that the user's own shell sets up.
#[derive(Clone, Debug, Default)]
pub enum Profile {
    /// They do; the shell is asked once in a session.
    #[default]
    Asked,
    /// They do, and what the shell said is kept here for other sessions.
    Kept(Store),
    /// They get what haft itself got.
    Ignored,
}

/// The sandboxes of a session.
#[derive(Debug, Default)]
pub(super) struct Cages {
    ready: OnceLock<SandboxPool>,
    env: OnceCell<Env>,
}

impl Cages {
    /// Those that are ready.
    pub(super) fn ready(&self, sandbox_options: &SandboxOptions) -> &SandboxPool {
        self.ready.get_or_init(|| SandboxPool::new(sandbox_options.limits.quota()))
    }
}

impl SandboxOptions {
    /// The policy for a command.
    pub(super) fn policy(&self, command: &Command, cx: &Context) -> Policy {
        let workspace = cx.session_workspace();
        if command.free || self.layers == Layers::None {
            // Whoever lets a command do what it likes does not mean haft's own settings.
            let own = workspace.folders().iter().map(|folder| folder.path.as_path().join(GUARDED[0]));
            return Policy {
                layers: Layers::None,
                network: Network::On,
                limits: self.limits,
                guarded: own.collect(),
                ..Policy::default()
            };
        }
        if !command.is_read_only() {
            return self.policy_to(May::Write, cx);
        }
        // Nobody was asked about what it does not show: it sees no more than the workspace, the programs of the system
        // and what was asked about.
        let mut policy = self.policy_to(May::Read, cx);
        policy.sees = Visibility::Listed;
        policy.read.extend(program_folders());
        policy.read.extend(command.reads_outside(cx));
        policy
    }

    /// The policy for whatever runs in a sandbox with all layers.
    pub(super) fn policy_to(&self, may: May, cx: &Context) -> Policy {
        let workspace = cx.session_workspace();
        let (mut write, mut read) = (Vec::new(), Vec::new());
        for folder in workspace.folders() {
            let path = folder.path.as_path().to_owned();
            // What is guarded is not for commands to change, even where a tool may.
            let may_write = folder.access == FolderAccess::Write && !workspace.guards(&folder.path);
            if may_write { write.push(path) } else { read.push(path) }
        }
        if let Some(focus) = workspace.focus() {
            read.append(&mut write);
            write.push(focus.as_path().to_owned());
        }
        // Git keeps what it knows of a linked working tree elsewhere.
        let mut others = Vec::new();
        for shared in write.clone().iter().filter_map(|folder| sandbox::shared_repository(folder)) {
            write.push(shared.repository);
            others.extend(shared.others);
        }
        read.extend(
            read.clone().iter().filter_map(|folder| Some(sandbox::shared_repository(folder)?.repository)),
        );
        if may == May::Read {
            // Should it write after all, that fails.
            read.append(&mut write);
        }
        let own = workspace.guarded().iter().map(|place| place.as_path().to_owned());
        let own = own.filter(|place| write.iter().any(|folder| place.starts_with(folder)));
        let names = write.iter().flat_map(|folder| GUARDED.map(|name| folder.join(name)));
        let guarded = names.chain(own).chain(others).collect();
        let hidden = self.hidden();
        Policy {
            layers: self.layers,
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
        let is_caged = !command.free && self.layers != Layers::None;
        GUARDED.into_iter().find(|name| is_caged && command.text.contains(name))
    }

    /// The environment of commands, made when it is first asked for.
    pub(super) async fn env(&self, cx: &Context) -> Env {
        let sandboxes = cx.session().extension::<Cages>();
        let made = sandboxes.env.get_or_init(|| async {
            let is_kept = |name: &OsString| {
                is_passed_on(name) || self.passed.iter().any(|passed| name == passed.as_str())
            };
            let own: Env = std::env::vars_os().filter(|(name, _)| is_kept(name)).collect();
            let kept = match &self.profile {
                Profile::Ignored => None,
                Profile::Asked => Some(None),
                Profile::Kept(store) => Some(Some(store)),
            };
            let Some(kept) = kept else { return disarmed(own) };
            // Profiles say more than a workspace is about, but change nothing.
            let hidden = self.hidden();
            let read = std::env::var_os("HOME").map(PathBuf::from).into_iter().collect();
            let policy =
                Policy { layers: self.layers, read, hidden, limits: self.limits, ..Policy::default() };
            let of_user = profile::of_user(&own, policy, kept).await;
            disarmed(profile::merged(own, of_user))
        });
        made.await.clone()
    }

    /// The policy, with what the rules of the session forbid in it: what is not to be read is not there, and what is
    /// not to be changed cannot be.
    pub(super) async fn ruled(&self, mut policy: Policy, cx: &Context) -> Result<Policy, Fault> {
        let Some(rules) =
            SessionJudge::rules(cx)?.filter(|rules| rules.hide_something() || rules.guard_something())
        else {
            return Ok(policy);
        };
        if policy.layers == Layers::None {
            return Ok(policy);
        }
        let workspace = cx.session_workspace().clone();
        let (hidden, guarded) = haft_core::blocking(move || Ok(ruled_out(&rules, &workspace))).await?;
        policy.hidden.extend(hidden);
        policy.guarded.extend(guarded);
        Ok(policy)
    }

    /// Refuses to go on where rules forbid files that the sandbox cannot keep a command from.
    pub(super) fn require_held(&self, sandbox: &Sandbox, is_free: bool, cx: &Context) -> Result<(), Fault> {
        let forbids =
            SessionJudge::rules(cx)?.is_some_and(|rules| rules.hide_something() || rules.guard_something());
        if is_free || !forbids || sandbox.report().has(Layer::View) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Disabled,
            "rules forbid files to be read or changed, and here nothing would hold a command to that",
        )
        .hint("commands need a mount namespace for that: `haft doctor` tells why there is none, `sandbox.layers` may say so"))
    }

    /// What no command sees.
    fn hidden(&self) -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let credentials = home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        credentials.chain(self.hidden.iter().cloned()).collect()
    }
}

/// A name that no file has.
const ANY_NAME: &str = "\u{1}any name at all";

/// What rules keep from being read, and what they keep from being changed.
fn ruled_out(rules: &Rules, workspace: &haft_core::Workspace) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut hidden, mut guarded) = (rules.hidden_outside(), Vec::new());
    let mut folders: Vec<AbsPath> = workspace.folders().iter().map(|folder| folder.path.clone()).collect();
    while let Some(folder) = folders.pop() {
        for entry in workspace.names(&folder).unwrap_or_default() {
            let path = folder.child(&entry.name);
            let is_folder = entry.kind == Kind::Directory;
            // Where every name would be forbidden, the folder is, and with it what is made in it.
            let any = path.child(OsStr::new(ANY_NAME));
            if is_folder && rules.hides(&path) {
                // File by file: a folder that seems empty would be committed as deleted.
                folders.push(path);
            } else if rules.hides(&path) {
                hidden.push(path.as_path().to_owned());
            } else if rules.guards(&path) || is_folder && rules.guards(&any) && !rules.hides(&any) {
                guarded.push(path.as_path().to_owned());
            } else if is_folder {
                folders.push(path);
            }
        }
    }
    (hidden, guarded)
}

/// Folders of programs that are not those of the system.
fn program_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_foreign = |folder: &PathBuf| {
        folder.is_absolute() && !["/usr", "/bin", "/sbin"].iter().any(|of| folder.starts_with(of))
    };
    std::env::split_paths(&path).filter(is_foreign).collect()
}

/// Whether a variable is passed on although nobody said so: it neither looks like a secret, nor makes a shell or a
/// linker do something.
pub(super) fn is_passed_on(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let upper = name.to_uppercase();
    let is_dangerous = DANGEROUS.contains(&&*name)
        || ["LD_", "BASH_FUNC_", "GIT_", "DYLD_"].iter().any(|start| name.starts_with(start));
    !is_dangerous && !SECRET.iter().any(|word| upper.contains(word))
}

/// An environment in which nothing turns pages or asks for a text.
fn disarmed(env: Env) -> Env {
    let is_disarmed = |name: &OsString| DISARMED.iter().any(|(other, _)| name == other);
    let disarmed = DISARMED.into_iter().chain(GIT).map(|(name, value)| (name.into(), value.into()));
    env.into_iter().filter(|(name, _)| !is_disarmed(name)).chain(disarmed).collect()
}
