//! Trying a command: it runs on a copy-on-write view of the workspace, and nothing of what it does counts until somebody
//! approves it. The view is an overlay mount whose upper layer lies in a private folder; what the command changed is found by
//! comparing that layer with the workspace, and what is approved is exchanged into it, so that the upper layer holds the old
//! side afterwards. It knows nothing of approval, and nothing of the journal but that it keeps the old sides.
//!
//! A view is not the workspace: directories cannot be renamed in it, files of other users cannot be changed, and locks do not
//! reach outside. [`obstacle`] tells what is known beforehand to prevent one.

mod commit;
mod entry;
mod list;
mod listing;
mod old;
mod place;
mod plan;
mod probe;
mod step;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use commit::{CommitError, Committed, Recovered, recover};
pub use listing::{Change, ChangeKind, Listing, Side};
pub use place::release;
pub use probe::{Obstacle, obstacle};

pub(super) use place::Layer;
use place::Place;

use super::recorder::IsBuildFolder;
use super::wire::{Build, Parts};
use crate::change::Durability;

/// What to try, and where the upper layers lie.
#[derive(Clone)]
pub struct Options {
    /// The directories that the command may write to, as canonical paths. None lies in another.
    pub roots: Vec<PathBuf>,
    /// The directory that the command starts in.
    pub dir: PathBuf,
    /// A directory for this trial alone, which does not exist yet.
    pub store: PathBuf,
    /// Which directories are build folders. Those that exist are shared with the view, so that it neither copies them nor
    /// misses the locks in them.
    pub is_build_folder: IsBuildFolder,
    /// Paths that the command must not change: nothing there is ever committed.
    pub guarded: Vec<PathBuf>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { roots, store, .. } = self;
        f.debug_struct("Options").field("roots", roots).field("store", store).finish_non_exhaustive()
    }
}

/// The mounts of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    pub(super) layers: Vec<Layer>,
    /// Build folders that are shared with the view.
    pub(super) shared: Vec<PathBuf>,
}

impl Mounts {
    /// Whether the command sees the workspace itself.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The directories of the layers, which the command must not see.
    pub(super) fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().filter_map(|layer| layer.upper.parent())
    }

    pub(super) fn build(&self, frame: Build) -> Build {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let layers =
            self.layers.iter().flat_map(|Layer { root, upper, work }| [root, upper, work].map(bytes));
        let layers: Vec<Vec<u8>> = layers.collect();
        frame.list(layers.into_iter()).list(self.shared.iter().map(bytes))
    }

    pub(super) fn parse(parts: &mut Parts) -> io::Result<Self> {
        let mut paths = || -> io::Result<Vec<PathBuf>> {
            Ok(parts.list()?.into_iter().map(|path| OsString::from_vec(path).into()).collect())
        };
        let (layers, shared) = (paths()?, paths()?);
        let layer = |paths: &[PathBuf]| Layer {
            root: paths[0].clone(),
            upper: paths[1].clone(),
            work: paths[2].clone(),
        };
        Ok(Self { layers: layers.chunks_exact(3).map(layer).collect(), shared })
    }
}

/// A view for one command. Dropping it discards what the command did, unless that was committed.
#[derive(Debug)]
pub struct Trial {
    place: Arc<Place>,
    shared: Vec<PathBuf>,
    guarded: Vec<PathBuf>,
}

impl Trial {
    /// Makes the layers of a view. The command that is to run in it gets its [mounts](Self::mounts).
    pub fn new(options: &Options) -> io::Result<Self> {
        let shared = shared_folders(options);
        let place = Arc::new(Place::make(&options.roots, &options.store)?);
        Ok(Self { place, shared, guarded: options.guarded.clone() })
    }

    /// What to mount for the command.
    pub fn mounts(&self) -> Mounts {
        Mounts { layers: self.place.layers.clone(), shared: self.shared.clone() }
    }

    /// Lists what the command changed. To be called when all of its processes have ended.
    pub fn list(&self) -> io::Result<Listing> {
        list::list(&self.place, &self.guarded, &self.shared)
    }

    /// Makes the changes that `chosen` names, by their index in the listing; all of them, or none on a failure. Afterwards
    /// the old sides are in the trial's directory, which the caller keeps until they are recorded: see [`release`].
    pub fn commit(
        self,
        listing: &Listing,
        chosen: &[usize],
        durability: Durability,
    ) -> Result<Committed, CommitError> {
        commit::commit(&self.place, listing, chosen, durability)
    }
}

/// Names that build folders have. Looking at a few names keeps the view's cost independent of the workspace's size.
const BUILD_NAMES: [&str; 12] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "dist",
    "build",
    ".gradle",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".tox",
    ".next",
];

/// The build folders in the roots, in the directory that the command starts in, and in those between.
fn shared_folders(options: &Options) -> Vec<PathBuf> {
    let between =
        options.dir.ancestors().filter(|dir| options.roots.iter().any(|root| dir.starts_with(root)));
    let mut dirs: Vec<&Path> = options.roots.iter().map(PathBuf::as_path).chain(between).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        if found.iter().any(|shared| dir.starts_with(shared)) {
            continue;
        }
        for name in BUILD_NAMES {
            let path = dir.join(name);
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            if is_folder && (options.is_build_folder)(&path) {
                found.push(path);
            }
        }
    }
    found
}
