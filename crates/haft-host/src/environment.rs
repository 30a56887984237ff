//! Where a workspace is, which settings hold for it, and where its state is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::{DynTool, Hash, Store};
use haft_rules::KnownTools;
use haft_sandbox::user;

use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::grants::Grants;
use crate::settings::{self, Folders, Loaded};

/// The workspace's folder, the settings in force for it, and where its state is kept.
pub struct Environment {
    /// The workspace's folder.
    pub root: PathBuf,
    /// The settings, and where they came from.
    pub loaded: Loaded,
    /// The user's folders for settings and for state.
    pub folders: Folders,
    /// Where the state of the workspace is kept.
    pub state: Store,
    pub(crate) tools: Vec<Arc<dyn DynTool>>,
}

impl Environment {
    /// The environment of a folder; `None` is the current one, unless that is too wide to be meant.
    pub fn find(workspace: Option<&Path>) -> Result<Self, HostError> {
        match workspace {
            Some(dir) => Self::at(&workspace_dir(dir)?, Vec::new()),
            None => Self::at(&implicit_root()?, Vec::new()),
        }
    }

    /// The environment of a folder for what touches no file in it: any folder will do, and `None` is the current one.
    pub fn look(workspace: Option<&Path>) -> Result<Self, HostError> {
        Self::at(&looked_at(workspace)?, Vec::new())
    }

    /// The environment of a folder, with tools of one's own that every session has. Rules in settings can be about them.
    pub fn at(root: &Path, tools: Vec<Arc<dyn DynTool>>) -> Result<Self, HostError> {
        let root = workspace_dir(root)?;
        let folders = Folders::find()?;
        let loaded = settings::load(&folders, &root, &known_tools(&tools))?;
        let state = state_of(&folders, &root);
        Ok(Self { root, loaded, folders, state, tools })
    }

    /// The tools that rules can be about.
    pub fn known_tools(&self) -> KnownTools {
        known_tools(&self.tools)
    }

    /// Follows the settings of the project in full from now on.
    pub fn trust(&self) -> Result<(), HostError> {
        self.grants().trust(&self.root)?;
        self.loaded.keep_seal(&self.state)
    }

    /// Where rules are kept.
    pub fn grants(&self) -> Grants {
        Grants { state: self.state.clone(), config: self.folders.config.clone() }
    }

    /// Where replies are kept that were too long, and what a person is editing.
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

/// The folder that a command which touches nothing is about.
pub fn looked_at(workspace: Option<&Path>) -> Result<PathBuf, HostError> {
    match workspace {
        Some(dir) => workspace_dir(dir),
        None => Ok(user::canonical(&user::current_dir()?)?),
    }
}

/// Where the state of a workspace is kept.
pub fn state_of(folders: &Folders, root: &Path) -> Store {
    Store::at(folders.state.join(workspace_key(root)))
}

/// The current folder, unless that is everything or the user's whole home: those must be named.
pub fn implicit_root() -> Result<PathBuf, HostError> {
    let here = user::current_dir()?;
    let here = user::canonical(&here)?;
    let home = etcetera::home_dir().ok().and_then(|home| user::canonical(&home).ok());
    if here == Path::new("/") || Some(&here) == home.as_ref() {
        let told = format!(
            "`{}` is a wide workspace: change to a project's folder, or name it with --workspace if you mean it",
            here.display()
        );
        return Err(HostError::new(HostErrorKind::Workspace, told));
    }
    Ok(here)
}

/// A name for a workspace's state: readable, and different for different folders.
fn workspace_key(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(40).collect();
    let hash = Hash::of(root.as_os_str().as_encoded_bytes()).to_string();
    format!("{name}-{}", &hash[..16])
}
