//! Locates a workspace, its settings and its state folder. Knows nothing of engines and sessions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::hooks::ScriptPins;
use haft_core::{DynTool, Hash, Store};
use haft_rules::KnownTools;
use haft_sandbox::{FolderAccess, Workspace, user};

use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::grants::Grants;
use crate::settings::{self, Folders, Loaded};

/// A workspace's folder, its effective settings and its state folder.
pub struct Environment {
    /// The workspace's folder.
    pub root: PathBuf,
    /// The effective settings, and which files they came from.
    pub loaded: Loaded,
    /// The user's folders for settings and for state.
    pub folders: Folders,
    /// The state folder of the workspace.
    pub state: Store,
    pub(crate) tools: Vec<Arc<dyn DynTool>>,
}

impl Environment {
    /// The environment of a folder. `None` is the current folder, which must be neither `/` nor the user's home.
    pub fn find(workspace: Option<&Path>) -> Result<Self, HostError> {
        match workspace {
            Some(dir) => Self::at(&workspace_dir(dir)?, Vec::new()),
            None => Self::at(&current_workspace()?, Vec::new()),
        }
    }

    /// The environment of a folder for commands that touch no file in it, so every folder is accepted. `None` is the
    /// current folder.
    pub fn find_anywhere(workspace: Option<&Path>) -> Result<Self, HostError> {
        Self::at(&any_folder(workspace)?, Vec::new())
    }

    /// The environment of a folder, with additional tools for every session. Rules in the settings can name them.
    pub fn at(root: &Path, tools: Vec<Arc<dyn DynTool>>) -> Result<Self, HostError> {
        let root = workspace_dir(root)?;
        let folders = Folders::find()?;
        let loaded = settings::load(&folders, &root, &known_tools(&tools))?;
        let state = state_folder(&folders, &root);
        Ok(Self { root, loaded, folders, state, tools })
    }

    /// The tools that rules can name.
    pub fn known_tools(&self) -> KnownTools {
        known_tools(&self.tools)
    }

    /// Marks the project as trusted with its current settings and the current scripts of its hooks.
    pub fn trust(&self) -> Result<(), HostError> {
        self.grants().trust(&self.root)?;
        self.loaded.store_trusted_hash(&self.state)?;
        self.trust_scripts()
    }

    /// Trusts the scripts in the workspace that hooks run, as they are now.
    pub fn trust_scripts(&self) -> Result<(), HostError> {
        // Right after a project was trusted its hooks count, too.
        let Loaded { settings, .. } = settings::load(&self.folders, &self.root, &self.known_tools())?;
        let commands = settings.hooks.all().map(|(_, hook)| hook.command.as_str());
        Ok(self.scripts(&settings)?.pin_anew(commands)?)
    }

    /// The scripts in the workspace that hooks run and that have changed since the user trusted them.
    pub fn changed_scripts(&self) -> Result<Vec<String>, HostError> {
        let settings = &self.loaded.settings;
        let scripts = self.scripts(settings)?;
        let mut changed = BTreeSet::new();
        for (_, hook) in settings.hooks.all() {
            scripts.pin_new(&hook.command)?;
            changed.extend(scripts.changed(&hook.command)?);
        }
        Ok(changed.into_iter().collect())
    }

    fn scripts(&self, settings: &settings::Settings) -> Result<ScriptPins, HostError> {
        let mut workspace = Workspace::open(&self.root)?;
        for dir in &settings.add_dirs {
            workspace = workspace.with_folder(dir, FolderAccess::Write)?;
        }
        let workspace = workspace.guarding(&self.folders.config).guarding(&self.folders.state);
        Ok(ScriptPins::new(self.state.clone(), workspace))
    }

    /// The store of granted rules.
    pub fn grants(&self) -> Grants {
        Grants { state: self.state.clone(), config: self.folders.config.clone() }
    }

    /// The folder of replies that were cut, and of arguments that a person is editing.
    pub fn results(&self) -> Store {
        self.state.folder("results")
    }
}

fn known_tools(own: &[Arc<dyn DynTool>]) -> KnownTools {
    own.iter().fold(settings::known_tools(), |known, tool| known.with(tool.spec()))
}

fn workspace_dir(dir: &Path) -> Result<PathBuf, HostError> {
    user::canonical(dir).explain(HostErrorKind::Workspace, || "the workspace cannot be opened".to_owned())
}

/// The folder of a command that touches no files: every folder is accepted, and `None` is the current one.
pub fn any_folder(workspace: Option<&Path>) -> Result<PathBuf, HostError> {
    match workspace {
        Some(dir) => workspace_dir(dir),
        None => Ok(user::canonical(&user::current_dir()?)?),
    }
}

/// The state folder of a workspace.
pub fn state_folder(folders: &Folders, root: &Path) -> Store {
    Store::at(folders.state.join(workspace_key(root)))
}

/// The current folder, as the workspace. Fails for `/` and for the user's home, which must be named explicitly.
pub fn current_workspace() -> Result<PathBuf, HostError> {
    let here = user::current_dir()?;
    let here = user::canonical(&here)?;
    let home = etcetera::home_dir().ok().and_then(|home| user::canonical(&home).ok());
    if here == Path::new("/") || Some(&here) == home.as_ref() {
        let message = format!(
            "`{}` is a wide workspace: change to a project's folder, or name it with --workspace if you mean it",
            here.display()
        );
        return Err(HostError::new(HostErrorKind::Workspace, message));
    }
    Ok(here)
}

/// The name of a workspace's state folder: its readable name and a hash of its path.
fn workspace_key(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(40).collect();
    let hash = Hash::of(root.as_os_str().as_encoded_bytes()).to_string();
    format!("{name}-{}", &hash[..16])
}
