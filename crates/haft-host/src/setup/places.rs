//! Where the configuration files of clients are.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use haft_sandbox::{Store, user};

use crate::error::{Explain as _, HostError, HostErrorKind};
use crate::settings::Folders;

/// The place of a file, relative to a folder that is known on each machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the user's home.
    Home(&'static str),
    /// In the user's configuration folder, `$XDG_CONFIG_HOME` or `~/.config`.
    Config(&'static str),
    /// In a folder that an environment variable names: the variable, the path in that folder, and the path in the user's
    /// home if the variable is not set.
    Variable(&'static str, &'static str, &'static str),
    /// In the project.
    Project(&'static str),
}

impl Place {
    /// The place as documents show it.
    pub fn shown(self) -> String {
        match self {
            Place::Home(path) | Place::Variable(_, _, path) => format!("~/{path}"),
            Place::Config(path) => format!("~/.config/{path}"),
            Place::Project(path) => path.to_owned(),
        }
    }
}

/// The folders that [`Place`] refers to, and haft's records of what it wrote.
#[derive(Clone, Debug)]
pub struct Places {
    home: PathBuf,
    config: PathBuf,
    project: PathBuf,
    pub(super) records: Store,
}

impl Places {
    /// The folders of the user who runs this program, and a project.
    pub fn of(project: &Path) -> Result<Self, HostError> {
        let missing = || "your home folder cannot be found; set HOME".to_owned();
        let base = etcetera::choose_base_strategy().explain(HostErrorKind::State, missing)?;
        let records = Store::at(Folders::find()?.state).folder("setup");
        let (home, config) = (base.home_dir().to_path_buf(), base.config_dir());
        Ok(Self { home, config, project: project.to_path_buf(), records })
    }

    /// The path of a place.
    pub fn path(&self, place: Place) -> PathBuf {
        match place {
            Place::Home(path) => self.home.join(path),
            Place::Config(path) => self.config.join(path),
            Place::Project(path) => self.project.join(path),
            Place::Variable(name, path, in_home) => match std::env::var_os(name) {
                Some(folder) if !folder.is_empty() => PathBuf::from(folder).join(path),
                _ => self.home.join(in_home),
            },
        }
    }

    /// Whether the project is the user's home, where settings of both kinds may be the same file.
    pub(super) fn is_home(&self) -> bool {
        let canonical = |path: &Path| user::canonical(path).unwrap_or_else(|_| path.to_path_buf());
        canonical(&self.home) == canonical(&self.project)
    }

    /// The first of several files that exists; if none does, the first.
    pub(super) fn first(&self, places: &[Place]) -> Option<PathBuf> {
        let paths: Vec<PathBuf> = places.iter().map(|place| self.path(*place)).collect();
        paths.iter().find(|path| user::exists(path)).or(paths.first()).cloned()
    }
}
