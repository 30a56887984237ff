//! The folders a session may touch, and the only way to files in them. [`Workspace::resolve`] turns text
//! into the name of a place and checks that it lies inside; everything else takes such a name and opens it
//! beneath the folder's own handle, so that nothing swapped in between leads out.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

mod beneath;
mod change;
mod walk;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::fmt;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use beneath::Beneath;

use crate::error::{PathError, PathErrorKind};
use crate::names;
use crate::path::AbsPath;
use crate::stat::{Entry, Kind, Name, Stat};

pub use change::Draft;

/// As many bytes as a path may have, the NUL at its end included.
/// Where the kernel shows itself as files.
const KERNELS_OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The folder of a project's own settings.
const OWN_FOLDER: &str = ".haft";

const MAX_PATH: usize = 4096;

/// The folders a session may touch. Cheap to clone.
#[derive(Clone)]
pub struct Workspace(Arc<Inside>);

#[derive(Clone)]
struct Inside {
    folders: Vec<Folder>,
    focus: Option<AbsPath>,
    /// Places at and below which nothing can be changed.
    guarded: Vec<AbsPath>,
}

/// What may be done below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// One folder of a workspace.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Its canonical path.
    pub path: AbsPath,
    /// What may be done below it.
    pub access: Access,
    /// The spelling it was given by, which may lead through links and must work as well.
    given: PathBuf,
    handle: Arc<Beneath>,
}

/// Where a text leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The canonical path. If nothing is there, it is that of the nearest directory that exists,
    /// followed by the remaining names.
    pub path: AbsPath,
    /// What is there, if anything is.
    pub stat: Option<Stat>,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The open file.
    pub file: File,
    /// What it was like just before it was opened.
    pub stat: Stat,
}

impl Workspace {
    /// Opens the folder that a session works in.
    pub fn open(root: &Path) -> Result<Self, PathError> {
        let root = Folder::open(root, Access::Write)?;
        Ok(Self(Arc::new(Inside { folders: vec![root], focus: None, guarded: Vec::new() })))
    }

    /// The same workspace with one more folder. Of folders within each other the innermost decides what
    /// may be done, of two at the same place the one added last.
    pub fn with_folder(&self, dir: &Path, access: Access) -> Result<Self, PathError> {
        let mut inside = Inside::clone(&self.0);
        inside.folders.push(Folder::open(dir, access)?);
        Ok(Self(Arc::new(inside)))
    }

    /// The same workspace, in which nothing at this place or below it can be changed. It need not exist.
    pub fn guarding(&self, place: &Path) -> Self {
        let mut inside = Inside::clone(&self.0);
        inside.guarded.push(AbsPath::lexical(place));
        if let Ok(canonical) = place.canonicalize() {
            inside.guarded.push(AbsPath::canonical(canonical));
        }
        Self(Arc::new(inside))
    }

    /// The same workspace and the folder that a place outside of it lies in, and that place: for what
    /// somebody has to allow. What is narrowed by a focus stays so, and the kernel's own file systems are
    /// never reached.
    pub fn reaching(&self, base: &AbsPath, text: &str, access: Access) -> Result<(Self, Place), PathError> {
        let inside = match self.resolve(base, text) {
            Err(error) if matches!(error.kind, PathErrorKind::Outside) && self.focus().is_none() => error,
            Err(error) => return Err(error),
            Ok(place) => return Ok((self.clone(), place)),
        };
        let absolute =
            base.as_path().join(expand_home(Path::new(text)).as_deref().unwrap_or(Path::new(text)));
        let canonical =
            walk::walk(Path::new("/"), &absolute, |_| true).map_err(|kind| PathError::new(text, kind))?;
        if KERNELS_OWN.iter().any(|own| canonical.starts_with(own)) {
            return Err(inside);
        }
        let folder = canonical.ancestors().skip(1).find(|folder| folder.is_dir());
        let reaching = folder.and_then(|folder| self.with_folder(folder, access).ok()).ok_or(inside)?;
        let place = reaching.locate(&canonical).map_err(|kind| PathError::new(text, kind))?;
        Ok((reaching, place))
    }

    /// The same workspace, narrowed to one folder in it: relative to the root, or absolute. A focus that
    /// is already set can only be narrowed further. Folders added for reading stay reachable.
    pub fn with_focus(&self, dir: &str) -> Result<Self, PathError> {
        let place = self.resolve(self.root(), dir)?;
        match place.stat.map(|stat| stat.kind) {
            Some(Kind::Directory) => {}
            Some(_) => return Err(PathError::new(dir, PathErrorKind::NotADirectory)),
            None => return Err(PathError::new(dir, PathErrorKind::NotFound)),
        }
        let inside = Inside { focus: Some(place.path), ..Inside::clone(&self.0) };
        Ok(Self(Arc::new(inside)))
    }

    /// The same workspace with nothing left out.
    pub fn without_focus(&self) -> Self {
        Self(Arc::new(Inside { focus: None, ..Inside::clone(&self.0) }))
    }

    /// The folder that the session works in.
    pub fn root(&self) -> &AbsPath {
        &self.0.folders[0].path
    }

    /// Every folder, the root first.
    pub fn folders(&self) -> &[Folder] {
        &self.0.folders
    }

    /// The folder that everything is narrowed to, if any.
    pub fn focus(&self) -> Option<&AbsPath> {
        self.0.focus.as_ref()
    }

    /// How it is held that nothing leads out of the root, in words.
    pub fn confinement(&self) -> &'static str {
        self.0.folders[0].handle.confinement()
    }

    /// What may be done at a place: what its innermost folder allows, nothing outside.
    pub fn access(&self, path: &AbsPath) -> Option<Access> {
        self.admit(path.as_path()).ok().map(|folder| folder.access)
    }

    /// Finds out where a text leads and that this is inside. The text may be absolute, relative to `base`
    /// or begin with `~/`; `..` and links are followed as the kernel does. A name that is not UTF-8 is
    /// found by the text that [`names::show`] gives for it.
    pub fn resolve(&self, base: &AbsPath, text: &str) -> Result<Place, PathError> {
        self.resolve_by(text, |text| self.find(base, text))
    }

    /// Like [`Workspace::resolve`], but a link that the text ends in is the place, not where it leads: for
    /// what is moved or removed.
    pub fn resolve_entry(&self, base: &AbsPath, text: &str) -> Result<Place, PathError> {
        self.resolve_by(text, |text| self.find_entry(base, text))
    }

    fn resolve_by(
        &self,
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
        literal.map_err(|kind| PathError::new(text, kind))
    }

    /// Opens a regular file for reading, and nothing else; never waits.
    pub fn open_file(&self, path: &AbsPath) -> Result<OpenFile, PathError> {
        self.beneath(path, Beneath::open_file).map(|(file, stat)| OpenFile { file, stat })
    }

    /// Looks at a place. If it has become a link, this looks at the link.
    pub fn stat(&self, path: &AbsPath) -> Result<Stat, PathError> {
        self.beneath(path, Beneath::stat)
    }

    /// Reads one directory, in no order. What vanishes meanwhile is left out.
    pub fn list(&self, path: &AbsPath) -> Result<Vec<Entry>, PathError> {
        self.beneath(path, Beneath::list)
    }

    /// Like [`Workspace::list`], without looking at each entry: several times faster, for walking.
    pub fn names(&self, path: &AbsPath) -> Result<Vec<Name>, PathError> {
        self.beneath(path, Beneath::names)
    }

    /// The path as text: relative to the root if it is inside, absolute otherwise.
    pub fn display(&self, path: &AbsPath) -> String {
        match path.as_path().strip_prefix(self.root()) {
            Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
            Ok(below) => names::show(below),
            Err(_) => names::show(path.as_path()),
        }
    }

    fn beneath<T>(
        &self,
        path: &AbsPath,
        act: impl Fn(&Beneath, &Path) -> Result<T, PathErrorKind>,
    ) -> Result<T, PathError> {
        self.act_beneath(path.as_path(), act).map_err(|kind| PathError::new(self.display(path), kind))
    }

    fn act_beneath<T>(
        &self,
        path: &Path,
        act: impl Fn(&Beneath, &Path) -> Result<T, PathErrorKind>,
    ) -> Result<T, PathErrorKind> {
        let folder = self.admit(path)?;
        let below = path.strip_prefix(&folder.path).map_err(|_| PathErrorKind::Outside)?;
        act(&folder.handle, below)
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
            // A folder of the workspace itself lies in none.
            Err(PathErrorKind::Outside | PathErrorKind::OutsideFocus(_)) => return self.find(base, text),
            folder => folder?,
        };
        if name.as_encoded_bytes().contains(&0) {
            return Err(PathErrorKind::NulByte);
        }
        let path = folder.path.as_path().join(name);
        if path.as_os_str().len() >= MAX_PATH {
            return Err(PathErrorKind::TooLong);
        }
        self.admit(&path)?;
        let stat = match self.act_beneath(&path, Beneath::stat) {
            Ok(stat) => Some(stat),
            Err(PathErrorKind::NotFound) => None,
            Err(kind) => return Err(kind),
        };
        let asks_for_directory = text.as_os_str().as_encoded_bytes().ends_with(b"/");
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
            self.admit(&path)?;
            return Ok(Place { path: AbsPath::canonical(path), stat: Some(stat) });
        }
        let (start, rest) = match spelled {
            Some((folder, below)) => (folder.path.as_path(), below),
            None => (Path::new("/"), absolute),
        };
        let path = walk::walk(start, rest, |path| self.innermost(path).is_some())?;
        self.admit(&path)?;
        let stat = match self.act_beneath(&path, Beneath::stat) {
            Ok(stat) => Some(stat),
            Err(PathErrorKind::NotFound) => None,
            Err(kind) => return Err(kind),
        };
        Ok(Place { path: AbsPath::canonical(path), stat })
    }

    /// The folder that the text of a path names, by its canonical or its given spelling, and the rest.
    fn spelled_in<'a>(&self, path: &'a Path) -> Option<(&Folder, &'a Path)> {
        let folders = self.0.folders.iter();
        folders
            .filter_map(|folder| Some((folder, folder.below(path)?)))
            .min_by_key(|(_, below)| below.as_os_str().len())
    }

    /// The folder that a canonical path may be used through.
    fn admit(&self, path: &Path) -> Result<&Folder, PathErrorKind> {
        let folder = self.innermost(path).ok_or(PathErrorKind::Outside)?;
        let Some(focus) = &self.0.focus else {
            return Ok(folder);
        };
        let in_focus = path.starts_with(focus);
        let added_for_reading =
            |folder: &Folder| folder.access == Access::Read && path.starts_with(&folder.path);
        if in_focus || self.0.folders.iter().any(added_for_reading) {
            return Ok(folder);
        }
        Err(PathErrorKind::OutsideFocus(self.display(focus)))
    }

    fn innermost(&self, path: &Path) -> Option<&Folder> {
        let folders = self.0.folders.iter();
        folders
            .filter(|folder| path.starts_with(&folder.path))
            .max_by_key(|folder| folder.path.as_path().as_os_str().len())
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folders = self.0.folders.iter().map(|folder| (&folder.path, folder.access));
        f.debug_map().entries(folders).finish()
    }
}

impl Folder {
    fn open(dir: &Path, access: Access) -> Result<Self, PathError> {
        let fail = |kind: PathErrorKind| PathError::new(names::show(dir), kind);
        let given = std::path::absolute(dir).map_err(|error| match dir.as_os_str().len() {
            0 => fail(PathErrorKind::Empty),
            _ => fail(error.into()),
        })?;
        let canonical = given.canonicalize().map_err(|error| fail(error.into()))?;
        if canonical == Path::new("/") {
            return Err(fail(PathErrorKind::RootRefused));
        }
        let handle = Beneath::open(&canonical).map_err(|errno| fail(errno.into()))?;
        let path = AbsPath::canonical(canonical);
        Ok(Self { path, access, given, handle: Arc::new(handle) })
    }

    /// What follows the folder in the text of a path, part by part: `/ws-evil` is not in `/ws`.
    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }
}

fn expand_home(text: &Path) -> Option<PathBuf> {
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
