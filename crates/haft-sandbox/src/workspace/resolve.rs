//! From text to the name of a place. Where the way is free of links and every name has one spelling, the
//! folder's handle tells in one look; otherwise the path is walked name by name. Whatever comes out is
//! checked to lie inside.

use std::path::{Component, Path, PathBuf};

use super::beneath::Beneath;
use super::{Folder, FolderAccess, Place, Workspace, walk};
use crate::error::{Obstacle, PathError, PathErrorKind};
use crate::names;
use crate::path::AbsPath;
use crate::stat::{Kind, Stat};

/// Where the kernel shows itself as files.
const KERNELS_OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// As many bytes as a path may have, the NUL at its end included.
const MAX_PATH: usize = 4096;

/// In so many of the first names of a path the one to blame is looked for.
const MAX_NAMES: usize = 100;

impl Workspace {
    /// Finds out where a text leads and that this is inside. The text may be absolute, relative to `base`
    /// or begin with `~/`; `..` and links are followed as the kernel does. A name that is not UTF-8 is
    /// found by the text that [`names::show`] gives for it.
    pub fn resolve(&self, base: &AbsPath, text: &str) -> Result<Place, PathError> {
        self.resolve_by(base, text, |text| self.find(base, text))
    }

    /// Like [`Workspace::resolve`], but a link that the text ends in is the place, not where it leads: for
    /// what is moved or removed.
    pub fn resolve_entry(&self, base: &AbsPath, text: &str) -> Result<Place, PathError> {
        self.resolve_by(base, text, |text| self.find_entry(base, text))
    }

    fn resolve_by(
        &self,
        base: &AbsPath,
        text: &str,
        find: impl Fn(&Path) -> Result<Place, PathErrorKind>,
    ) -> Result<Place, PathError> {
        let literal = find(Path::new(text));
        let found = |place: &Place| place.stat.is_some();
        let nothing_there = match &literal {
            Ok(place) => !found(place),
            Err(kind) => matches!(kind, PathErrorKind::NotFound),
        };
        if nothing_there && let Some(decoded) = names::decode(text) {
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

    /// The first thing on the way of a path that is missing or no folder.
    fn obstacle(&self, base: &AbsPath, text: &str) -> Option<Obstacle> {
        let parts = text.match_indices('/').map(|(end, _)| &text[..end]).filter(|part| !part.is_empty());
        let met = |part: &str| {
            let place = self.find(base, Path::new(part)).ok()?;
            let kind = place.stat.map(|stat| stat.kind);
            (kind != Some(Kind::Directory)).then(|| Obstacle { part: part.to_owned(), kind })
        };
        parts.take(MAX_NAMES).find_map(met)
    }

    /// The same workspace and the folder that a place outside of it lies in, and that place: for what
    /// somebody has to allow. What is narrowed by a focus stays so, and the kernel's own file systems are
    /// never reached.
    pub fn reaching(
        &self,
        base: &AbsPath,
        text: &str,
        access: FolderAccess,
    ) -> Result<(Self, Place), PathError> {
        let inside = match self.resolve(base, text) {
            Err(error) if matches!(error.kind, PathErrorKind::Outside) && self.focus().is_none() => error,
            Err(error) => return Err(error),
            Ok(place) => return Ok((self.clone(), place)),
        };
        let absolute =
            base.as_path().join(expand_home(Path::new(text)).as_deref().unwrap_or(Path::new(text)));
        let canonical = walk::walk(None, &absolute, |_| true, &self.0.spelling)
            .map_err(|kind| PathError::new(text, kind))?;
        if KERNELS_OWN.iter().any(|own| canonical.starts_with(own)) {
            return Err(inside);
        }
        let Some(folder) = canonical.ancestors().skip(1).find(|folder| folder.is_dir()) else {
            return Err(inside);
        };
        // Opened by a name that could have become a link meanwhile.
        let is_it =
            |reaching: &Self| reaching.folders().last().is_some_and(|last| last.path.as_path() == folder);
        let reaching = self.with_folder(folder, access).ok().filter(is_it).ok_or(inside)?;
        let place = reaching.resolve(base, text)?;
        Ok((reaching, place))
    }

    /// The place that a text names if no link is followed.
    pub fn as_named(&self, base: &AbsPath, text: &str) -> AbsPath {
        let text = Path::new(text);
        AbsPath::lexical(&base.as_path().join(expand_home(text).as_deref().unwrap_or(text)))
    }

    fn find(&self, base: &AbsPath, text: &Path) -> Result<Place, PathErrorKind> {
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
        // Path components forget a slash at the end, which asks for a directory.
        let asks_for_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        match place.stat {
            Some(stat) if asks_for_directory && stat.kind != Kind::Directory => {
                Err(PathErrorKind::NotADirectory)
            }
            _ => Ok(place),
        }
    }

    fn find_entry(&self, base: &AbsPath, text: &Path) -> Result<Place, PathErrorKind> {
        let (Some(parent), Some(name)) = (text.parent(), text.file_name()) else {
            return self.find(base, text);
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let folder = match self.find(base, parent) {
            Err(kind @ (PathErrorKind::Outside | PathErrorKind::OutsideFocus(_))) => {
                // A folder of the workspace itself lies in none. Anything else there is a link to the inside.
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
        let mut stat = self.look(&path)?;
        let Place { path: folder, stat: folder_stat } = folder;
        let meant = match (&stat, folder_stat) {
            (Some(_), Some(found)) => self.0.spelling.of_found(folder.as_path(), name, found.stamp.device()),
            _ => self.0.spelling.of_missing(folder.as_path(), name),
        };
        if let Some(meant) = meant {
            path.set_file_name(meant);
            stat = self.look(&path)?;
        }
        let bytes = text.as_os_str().as_encoded_bytes();
        let asks_for_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        match stat {
            Some(stat) if asks_for_directory && stat.kind == Kind::File => Err(PathErrorKind::NotADirectory),
            stat => Ok(Place { path: AbsPath::canonical(path), stat }),
        }
    }

    fn locate(&self, absolute: &Path) -> Result<Place, PathErrorKind> {
        let spelled = self.spelled_in(absolute);
        if let Some((folder, below)) = spelled
            && let Some(stat) = folder.handle.glance(below)
        {
            // No link was on the way, so `..` in the text means what it means to the kernel.
            let path = join_plain(folder.path.as_path(), below);
            let (outer, device) = (folder.handle.device(), stat.stamp.device());
            let settled = |device| self.0.spelling.is_settled(device, path.parent());
            let is_folder = path == folder.path.as_path();
            if is_folder || (settled(device) && (outer == device || settled(outer))) {
                self.admit(&path)?;
                return Ok(Place { path: AbsPath::canonical(path), stat: Some(stat) });
            }
        }
        let (folder, rest) = spelled.map_or((None, absolute), |(folder, below)| (Some(folder), below));
        let inside = |path: &Path| self.innermost(path).is_some();
        let path = walk::walk(folder, rest, inside, &self.0.spelling)?;
        let stat = self.look(&path)?;
        Ok(Place { path: AbsPath::canonical(path), stat })
    }

    /// What is at a canonical path, if anything is.
    fn look(&self, path: &Path) -> Result<Option<Stat>, PathErrorKind> {
        match self.act_beneath(path, Beneath::stat) {
            Ok(stat) => Ok(Some(stat)),
            Err(PathErrorKind::NotFound) => Ok(None),
            Err(kind) => Err(kind),
        }
    }

    /// The folder that the text of a path names, by its canonical or its given spelling, and the rest.
    fn spelled_in<'a>(&self, path: &'a Path) -> Option<(&Folder, &'a Path)> {
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

/// Joins a path on whose way there are no links.
fn join_plain(start: &Path, below: &Path) -> PathBuf {
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
