//! Resolving text to a path. Where no link is on the way and every name has one spelling, one call on the folder's handle
//! is enough (the fast path); otherwise `walk` follows the path name by name. Either result is checked to lie inside.

use std::path::{Component, Path, PathBuf};

use super::beneath::Beneath;
use super::{Folder, FolderAccess, ResolvedPath, Workspace, walk};
use crate::error::{Obstacle, PathError, PathErrorKind};
use crate::names;
use crate::path::AbsPath;
use crate::stat::{Kind, Stat};

/// File systems of the kernel, which no grant opens up.
const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Most bytes of a path, the NUL at its end included.
const MAX_PATH: usize = 4096;

/// How many leading names of a path are checked to find the one that is in the way.
const MAX_CHECKED: usize = 100;

impl Workspace {
    /// Resolves a path and checks that it lies inside. The text may be absolute, relative to `base` or begin with
    /// `~/`; `..` and links are followed as the kernel does. A name that is not UTF-8 is found by the text that
    /// [`names::show`] gives for it.
    pub fn resolve(&self, base: &AbsPath, text: &str) -> Result<ResolvedPath, PathError> {
        self.resolve_by(base, text, |text| self.find(base, text))
    }

    /// Like [`Workspace::resolve`], but does not follow a link at the end of the path: for moving and removing.
    pub fn resolve_entry(&self, base: &AbsPath, text: &str) -> Result<ResolvedPath, PathError> {
        self.resolve_by(base, text, |text| self.find_entry(base, text))
    }

    fn resolve_by(
        &self,
        base: &AbsPath,
        text: &str,
        find: impl Fn(&Path) -> Result<ResolvedPath, PathErrorKind>,
    ) -> Result<ResolvedPath, PathError> {
        let literal = find(Path::new(text));
        let found = |place: &ResolvedPath| place.stat.is_some();
        let is_missing = match &literal {
            Ok(place) => !found(place),
            Err(kind) => matches!(kind, PathErrorKind::NotFound),
        };
        if is_missing && let Some(decoded) = names::decode(text) {
            let place = find(Path::new(&decoded));
            if let Some(place) = place.ok().filter(found) {
                return Ok(place);
            }
        }
        literal.map_err(|kind| {
            let obstacle = match kind {
                PathErrorKind::NotADirectory | PathErrorKind::NotFound => self.obstacle(base, text),
                _ => None,
            };
            PathError { obstacle, ..PathError::new(text, kind) }
        })
    }

    /// The first component of a path that is missing or not a folder.
    fn obstacle(&self, base: &AbsPath, text: &str) -> Option<Obstacle> {
        let parts = text.match_indices('/').map(|(end, _)| &text[..end]).filter(|part| !part.is_empty());
        let blocks = |part: &str| {
            let place = self.find(base, Path::new(part)).ok()?;
            let kind = place.stat.map(|stat| stat.kind);
            (kind != Some(Kind::Directory)).then(|| Obstacle { part: part.to_owned(), kind })
        };
        parts.take(MAX_CHECKED).find_map(blocks)
    }

    /// Resolves a path that may lie outside, and returns this workspace extended by the folder that it lies in: for
    /// accesses that a person has to approve. A focus stays in force, and the kernel's own file systems are never
    /// reached.
    pub fn reaching(
        &self,
        base: &AbsPath,
        text: &str,
        access: FolderAccess,
    ) -> Result<(Self, ResolvedPath), PathError> {
        let inside = match self.resolve(base, text) {
            Err(error) if matches!(error.kind, PathErrorKind::Outside) && self.focus().is_none() => error,
            Err(error) => return Err(error),
            Ok(place) => return Ok((self.clone(), place)),
        };
        let absolute =
            base.as_path().join(expand_home(Path::new(text)).as_deref().unwrap_or(Path::new(text)));
        let canonical = walk::walk(None, &absolute, |_| true, &self.0.spelling)
            .map_err(|kind| PathError::new(text, kind))?;
        if KERNEL_FOLDERS.iter().any(|own| canonical.starts_with(own)) {
            return Err(inside);
        }
        let Some(folder) = canonical.ancestors().skip(1).find(|folder| folder.is_dir()) else {
            return Err(inside);
        };
        // The folder was opened by path, which could lead through a new link by now.
        let is_same =
            |reaching: &Self| reaching.folders().last().is_some_and(|last| last.path.as_path() == folder);
        let reaching = self.with_folder(folder, access).ok().filter(is_same).ok_or(inside)?;
        let place = reaching.resolve(base, text)?;
        Ok((reaching, place))
    }

    /// The path that a text spells out, without following links.
    pub fn lexical_path(&self, base: &AbsPath, text: &str) -> AbsPath {
        let text = Path::new(text);
        AbsPath::lexical(&base.as_path().join(expand_home(text).as_deref().unwrap_or(text)))
    }

    fn find(&self, base: &AbsPath, text: &Path) -> Result<ResolvedPath, PathErrorKind> {
        let bytes = text.as_os_str().as_encoded_bytes();
        if bytes.is_empty() {
            return Err(PathErrorKind::Empty);
        }
        if bytes.contains(&0) {
            return Err(PathErrorKind::NulByte);
        }
        let absolute = base.as_path().join(expand_home(text).as_deref().unwrap_or(text));
        if absolute.as_os_str().len() >= MAX_PATH {
            return Err(PathErrorKind::TooLong);
        }
        let place = self.locate(&absolute)?;
        // `Path::components` drops a trailing slash, which asks for a directory.
        let asks_for_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        match place.stat {
            Some(stat) if asks_for_directory && stat.kind != Kind::Directory => {
                Err(PathErrorKind::NotADirectory)
            }
            _ => Ok(place),
        }
    }

    fn find_entry(&self, base: &AbsPath, text: &Path) -> Result<ResolvedPath, PathErrorKind> {
        let (Some(parent), Some(name)) = (text.parent(), text.file_name()) else {
            return self.find(base, text);
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let folder = match self.find(base, parent) {
            Err(kind @ (PathErrorKind::Outside | PathErrorKind::OutsideFocus(_))) => {
                // A folder of the workspace itself has its parent outside. Anything else there is a link to the inside.
                let place = self.find(base, text)?;
                let mut tops = self.folders().iter().map(|folder| &folder.path).chain(self.focus());
                return if tops.any(|top| *top == place.path) { Ok(place) } else { Err(kind) };
            }
            folder => folder?,
        };
        if name.as_encoded_bytes().contains(&0) {
            return Err(PathErrorKind::NulByte);
        }
        let mut path = folder.path.as_path().join(name);
        if path.as_os_str().len() >= MAX_PATH || name.len() > walk::MAX_NAME {
            return Err(PathErrorKind::TooLong);
        }
        let mut stat = self.stat_if_exists(&path)?;
        let ResolvedPath { path: folder, stat: folder_stat } = folder;
        let spelled = match (&stat, folder_stat) {
            (Some(_), Some(found)) => self.0.spelling.of_found(folder.as_path(), name, found.stamp.device()),
            _ => self.0.spelling.of_missing(folder.as_path(), name),
        };
        if let Some(spelled) = spelled {
            path.set_file_name(spelled);
            stat = self.stat_if_exists(&path)?;
        }
        let bytes = text.as_os_str().as_encoded_bytes();
        let asks_for_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        match stat {
            Some(stat) if asks_for_directory && stat.kind == Kind::File => Err(PathErrorKind::NotADirectory),
            stat => Ok(ResolvedPath { path: AbsPath::canonical(path), stat }),
        }
    }

    fn locate(&self, absolute: &Path) -> Result<ResolvedPath, PathErrorKind> {
        let split = self.split_at_folder(absolute);
        if let Some((folder, below)) = split
            && let Some(stat) = folder.handle.stat_without_links(below)
        {
            // No link was on the way, so `..` can be resolved in the text as the kernel does.
            let path = join_without_links(folder.path.as_path(), below);
            let (outer, device) = (folder.handle.device(), stat.stamp.device());
            let is_settled = |device| self.0.spelling.is_settled(device, path.parent());
            let is_folder = path == folder.path.as_path();
            if is_folder || (is_settled(device) && (outer == device || is_settled(outer))) {
                self.admit(&path)?;
                return Ok(ResolvedPath { path: AbsPath::canonical(path), stat: Some(stat) });
            }
        }
        let (folder, rest) = split.map_or((None, absolute), |(folder, below)| (Some(folder), below));
        let inside = |path: &Path| self.innermost(path).is_some();
        let path = walk::walk(folder, rest, inside, &self.0.spelling)?;
        let stat = self.stat_if_exists(&path)?;
        Ok(ResolvedPath { path: AbsPath::canonical(path), stat })
    }

    /// Metadata of a canonical path, if it exists.
    fn stat_if_exists(&self, path: &Path) -> Result<Option<Stat>, PathErrorKind> {
        match self.act_beneath(path, Beneath::stat) {
            Ok(stat) => Ok(Some(stat)),
            Err(PathErrorKind::NotFound) => Ok(None),
            Err(kind) => Err(kind),
        }
    }

    /// The folder that a path begins with, by its canonical or its given spelling, and the rest.
    fn split_at_folder<'a>(&self, path: &'a Path) -> Option<(&Folder, &'a Path)> {
        let folders = self.0.folders.iter();
        folders
            .filter_map(|folder| Some((folder, folder.below(path)?)))
            .min_by_key(|(_, below)| below.as_os_str().len())
    }
}

pub(super) fn expand_home(text: &Path) -> Option<PathBuf> {
    let below = text.strip_prefix("~").ok()?;
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.join(below))
}

/// Joins a path that leads through no links, resolving `..` in the text.
fn join_without_links(start: &Path, below: &Path) -> PathBuf {
    let mut path = start.to_owned();
    for component in below.components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}
