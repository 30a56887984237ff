//! Sandbox policy of a session's commands, from the workspace, the settings and the rules: writable and hidden paths,
//! network, environment variables and limits. haft-sandbox enforces it. Knows nothing of processes.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

use haft_core::{AbsPath, Context, Fault, FaultKind, Workspace};
use haft_sandbox::{FolderAccess, Kind, Store, secrets, triggers, user};
use tokio::sync::OnceCell;

use super::profile::{self, Env};
use super::{Command, May};
use haft_rules::{Rules, SessionJudge};
use haft_sandbox::sandbox::{self, Layer, Layers, Limits, Network, Policy, Sandbox, Slot};

/// Variables that inject code into a shell, or that lead out of the sandbox to an agent or a daemon.
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

/// Variables that turn off pagers, editors and prompts, because no person is at the terminal.
const NONINTERACTIVE: [(&str, &str); 11] = [
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

/// Git configuration that accepts repositories of another user, as in a container. Git refuses them because their
/// configuration could run code; in the sandbox it can do no harm.
const GIT: [(&str, &str); 3] =
    [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];

/// Settings of the sandbox for the commands of a session.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// Whether the layers are on.
    pub layers: Layers,
    /// Layers without which no command runs.
    pub required: Vec<Layer>,
    /// Network access of commands.
    pub network: Network,
    /// When what commands change comes to count.
    pub effects: EffectsCount,
    /// Files and folders that commands do not see, in addition to those with credentials.
    pub hidden: Vec<PathBuf>,
    /// Environment variables that commands get although their names look like those of secrets.
    pub passed: Vec<String>,
    /// Whether commands get the environment of the user's login shell.
    pub profile: Profile,
    /// Resource limits of each command and of all commands together.
    pub limits: Limits,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            layers: Layers::All,
            required: Vec::new(),
            network: Network::Off,
            effects: EffectsCount::AtOnce,
            hidden: Vec::new(),
            passed: Vec::new(),
            profile: Profile::default(),
            limits: Limits::usual(),
        }
    }
}

/// When what commands change comes to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectsCount {
    /// At once; it is recorded and can be undone.
    #[default]
    AtOnce,
    /// When a person approves it, for commands that need approval.
    WhenApproved,
}

/// Whether commands get the environment of the user's login shell.
#[derive(Clone, Debug, Default)]
pub enum Profile {
    /// Yes; each session runs the login shell once.
    #[default]
    Asked,
    /// Yes; this store caches the environment for other sessions.
    Kept(Store),
    /// No; commands get haft's own environment.
    Ignored,
}

/// The sandbox of a session, and the cached environment of its commands.
#[derive(Debug, Default)]
pub(super) struct SessionSandbox {
    sandbox: OnceLock<Sandbox>,
    env: OnceCell<Env>,
}

impl SessionSandbox {
    /// The sandbox, created on first use.
    pub(super) fn sandbox(&self, sandbox_options: &SandboxOptions) -> &Sandbox {
        self.sandbox.get_or_init(|| Sandbox::new(sandbox_options.limits.quota()))
    }
}

impl SandboxOptions {
    /// Policy for a shell command.
    pub(super) fn policy(&self, command: &Command, cx: &Context) -> Policy {
        let workspace = cx.session_workspace();
        if command.free || self.layers == Layers::None {
            // Approval of a command without layers does not extend to haft's own settings.
            let own = workspace.folders().iter().map(|folder| folder.path.as_path().join(triggers::OWN));
            return Policy {
                layers: Layers::None,
                network: Network::On,
                limits: self.limits,
                guarded: own.collect(),
                ..Policy::default()
            };
        }
        // A read-only command sees what every other one sees, the user's settings of git included; it only cannot write.
        self.policy_with(if command.is_read_only() { May::Read } else { May::Write }, cx)
    }

    /// Policy for a program with this access to the workspace, with the layers that are set.
    pub(super) fn policy_with(&self, may: May, cx: &Context) -> Policy {
        self.policy_in(cx.session_workspace(), may)
    }

    /// Policy for a server that a project has haft start: it may do what a command may that changes files.
    pub fn policy_of_server(&self, workspace: &Workspace, rules: &Rules) -> Policy {
        let mut policy = self.policy_in(workspace, May::Write);
        if rules.hide_something() || rules.guard_something() {
            let (hidden, guarded) = forbidden_paths(rules, workspace);
            policy.hidden.extend(hidden);
            policy.guarded.extend(guarded);
        }
        policy
    }

    fn policy_in(&self, workspace: &Workspace, may: May) -> Policy {
        let (mut write, mut read) = (Vec::new(), Vec::new());
        for folder in workspace.folders() {
            let path = folder.path.as_path().to_owned();
            // Commands cannot change guarded folders, although some tools can.
            let may_write = folder.access == FolderAccess::Write && !workspace.guards(&folder.path);
            if may_write { write.push(path) } else { read.push(path) }
        }
        let mut hidden = self.hidden();
        if let Some(focus) = workspace.focus() {
            // Tools do not reach the rest of these folders, so commands do not either.
            hidden.extend(write.drain(..).filter(|folder| folder != focus.as_path()));
            write.push(focus.as_path().to_owned());
        }
        // The repository of a linked Git working tree is in another folder.
        let mut others = Vec::new();
        for shared in write.clone().iter().filter_map(|folder| sandbox::shared_repository(folder)) {
            write.push(shared.repository);
            others.extend(shared.others);
        }
        read.extend(
            read.clone().iter().filter_map(|folder| Some(sandbox::shared_repository(folder)?.repository)),
        );
        if may == May::Read {
            // If the command writes after all, the layers refuse it.
            read.append(&mut write);
        }
        let opened = write.iter().chain(&read).filter_map(|path| {
            let found = workspace.stat(&AbsPath::lexical(path)).ok()?;
            Some((path.clone(), found.stamp.identity()))
        });
        let opened = opened.collect();
        let own = workspace.guarded().iter().map(|place| place.as_path().to_owned());
        let own = own.filter(|place| write.iter().any(|folder| place.starts_with(folder)));
        let names = write.iter().flat_map(|folder| triggers::guarded_in(folder));
        let guarded = names.chain(own).chain(others).collect();
        Policy {
            layers: self.layers,
            write,
            guarded,
            read,
            opened,
            hidden,
            network: self.network,
            limits: self.limits,
            ..Policy::default()
        }
    }

    /// A guarded name in the text of a command, as a likely cause of its failure: the errors of programs do not say so.
    pub(super) fn guarded_name_in(&self, command: &Command) -> Option<String> {
        let is_sandboxed = !command.free && self.layers != Layers::None;
        is_sandboxed.then(|| triggers::named_in(&command.text)).flatten()
    }

    /// Environment of commands, computed on first use and cached for the session.
    pub(super) async fn env(&self, cx: &Context) -> Env {
        let session = cx.session().extension::<SessionSandbox>();
        let cached = session.env.get_or_init(|| async {
            let is_kept = |name: &OsString, value: &OsString| {
                is_passed_on(name, value) || self.passed.iter().any(|passed| name == passed.as_str())
            };
            let own: Env = std::env::vars_os().filter(|(name, value)| is_kept(name, value)).collect();
            let store = match &self.profile {
                Profile::Ignored => return noninteractive(own),
                Profile::Asked => None,
                Profile::Kept(store) => Some(store),
            };
            // Start-up files of a shell read from all over the home folder, and need to write nothing.
            let hidden = self.hidden();
            let read = std::env::var_os("HOME").map(PathBuf::from).into_iter().collect();
            let policy =
                Policy { layers: self.layers, read, hidden, limits: self.limits, ..Policy::default() };
            let user_env = profile::user_env(&own, policy, store).await;
            noninteractive(profile::merged(own, user_env))
        });
        cached.await.clone()
    }

    /// Adds the session's rules to a policy: hides the files that rules forbid to read, and makes those that rules forbid
    /// to change read-only.
    pub(super) async fn with_rules(&self, mut policy: Policy, cx: &Context) -> Result<Policy, Fault> {
        let Some(rules) =
            SessionJudge::rules(cx)?.filter(|rules| rules.hide_something() || rules.guard_something())
        else {
            return Ok(policy);
        };
        if policy.layers == Layers::None {
            return Ok(policy);
        }
        let workspace = cx.session_workspace().clone();
        let (hidden, guarded) = haft_core::blocking(move || Ok(forbidden_paths(&rules, &workspace))).await?;
        policy.hidden.extend(hidden);
        policy.guarded.extend(guarded);
        Ok(policy)
    }

    /// Fails if rules forbid files and the sandbox lacks the layer that enforces it.
    pub(super) fn require_enforced(&self, slot: &Slot, is_free: bool, cx: &Context) -> Result<(), Fault> {
        let forbids =
            SessionJudge::rules(cx)?.is_some_and(|rules| rules.hide_something() || rules.guard_something());
        if !forbids || slot.report().has(Layer::View) {
            return Ok(());
        }
        if is_free {
            return Err(Fault::new(
                FaultKind::Denied,
                "rules forbid files to be read or changed, and without the sandbox nothing would hold a command to that",
            )
            .hint("run it in the sandbox, or ask the user to run it"));
        }
        Err(Fault::new(
            FaultKind::Disabled,
            "rules forbid files to be read or changed, and here nothing would hold a command to that",
        )
        .hint("commands need a mount namespace for that: `haft doctor` tells why there is none, `sandbox.layers` may say so"))
    }

    /// Paths that no command sees.
    fn hidden(&self) -> Vec<PathBuf> {
        secrets::places(&user::homes()).into_iter().chain(self.hidden.iter().cloned()).collect()
    }
}

/// A name that no file has, to test whether a rule covers every name in a folder.
const ANY_NAME: &str = "\u{1}any name at all";

/// Existing paths that rules forbid to read, and paths that rules forbid to change.
fn forbidden_paths(rules: &Rules, workspace: &Workspace) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut hidden, mut guarded) = (rules.hidden_outside(), Vec::new());
    let mut folders: Vec<AbsPath> = workspace.folders().iter().map(|folder| folder.path.clone()).collect();
    while let Some(folder) = folders.pop() {
        for entry in workspace.names(&folder).unwrap_or_default() {
            let path = folder.child(&entry.name);
            let is_folder = entry.kind == Kind::Directory;
            // If a rule forbids every name in a folder, guarding the folder itself also covers files that do not exist yet.
            let any = path.child(OsStr::new(ANY_NAME));
            if is_folder && rules.hides(&path) {
                // Hides file by file: Git would take the files of a folder that seems empty for deleted.
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

/// Whether commands get a variable by default: it does not look like a secret, and it has no power over a shell, the dynamic
/// linker or Git.
pub(super) fn is_passed_on(name: &OsStr, value: &OsStr) -> bool {
    let text = name.to_string_lossy();
    let is_dangerous = DANGEROUS.contains(&&*text)
        || ["LD_", "BASH_FUNC_", "GIT_", "DYLD_"].iter().any(|start| text.starts_with(start));
    !is_dangerous && !secrets::in_variable(name, value)
}

/// Adds the variables that turn off pagers, editors and prompts.
fn noninteractive(env: Env) -> Env {
    let is_replaced = |name: &OsString| NONINTERACTIVE.iter().any(|(other, _)| name == other);
    let added = NONINTERACTIVE.into_iter().chain(GIT).map(|(name, value)| (name.into(), value.into()));
    env.into_iter().filter(|(name, _)| !is_replaced(name)).chain(added).collect()
}
