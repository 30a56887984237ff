//! The folders a session may touch, and the only way to files in them. [`Workspace::resolve`] turns text into an
//! [`AbsPath`] and checks that it lies inside; every other method takes such a path and opens it beneath the folder's own
//! handle, so that a link swapped in between cannot lead out.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

pub(crate) mod beneath;
mod change;
mod folder;
mod resolve;
mod spelling;
mod walk;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beneath::Beneath;
use rustix::buffer::spare_capacity;
use spelling::Spelling;

use crate::error::{PathError, PathErrorKind};
use crate::names;
use crate::path::{AbsPath, lies_within};
use crate::stat::{Entry, Kind, Name, Stat};

pub use change::Draft;
pub use folder::OpenFolder;

/// Name of the folder of a project's own settings.
const OWN_FOLDER: &str = ".haft";

/// The folders a session may touch. Cheap to clone.
#[derive(Clone)]
pub struct Workspace(Arc<Inside>);

#[derive(Clone)]
struct Inside {
    folders: Vec<Folder>,
    focus: Option<AbsPath>,
    /// Paths at and below which nothing can be changed.
    guarded: Vec<AbsPath>,
    /// Exceptions from `guarded`: files at and below these can be changed, whatever the focus is.
    exceptions: Vec<AbsPath>,
    spelling: Arc<Spelling>,
}

/// Access to the files below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FolderAccess {
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
    /// Access to the files below it.
    pub access: FolderAccess,
    /// The path by which it was added. It may lead through links, and paths that begin with it work as well.
    given: PathBuf,
    handle: Arc<Beneath>,
}

/// A resolved path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The canonical path. If nothing exists there, that of the nearest existing directory, followed by the
    /// remaining names.
    pub path: AbsPath,
    /// Its metadata, if it exists.
    pub stat: Option<Stat>,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The open file.
    pub file: File,
    /// Its metadata just before it was opened.
    pub stat: Stat,
}

impl OpenFile {
    /// Reads the whole file, but no more than `max` bytes. A large file is read by several threads.
    pub fn read_whole(self, max: u64) -> io::Result<Vec<u8>> {
        read_whole(&self.file, self.stat.size, max)
    }
}

/// Reads a whole file that had this size, but no more than `max` bytes.
fn read_whole(mut file: &File, size: u64, max: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size.min(max)).unwrap_or(usize::MAX);
    if size < PARALLEL_SIZE {
        // One byte more than expected fits: a read that does not fill it has reached the end, without a second call.
        let mut bytes = Vec::with_capacity(size + 1);
        if rustix::io::pread(file, spare_capacity(&mut bytes), 0).is_ok_and(|read| read == size) {
            return Ok(bytes);
        }
    }
    let mut bytes = vec![0; size];
    let read = match size >= PARALLEL_SIZE {
        true => read_in_parallel(file, &mut bytes),
        false => file.read_exact_at(&mut bytes, 0),
    };
    match read {
        // The file was truncated meanwhile: read it again from the start.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => bytes.clear(),
        read => read?,
    }
    file.seek(io::SeekFrom::Start(bytes.len() as u64))?;
    let rest = max - (bytes.len() as u64).min(max);
    file.take(rest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Files of at least this size are read by several threads.
const PARALLEL_SIZE: usize = 16 << 20;

fn read_in_parallel(file: &File, bytes: &mut [u8]) -> io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let part = bytes.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts = bytes.chunks_mut(part).enumerate();
        let reading: Vec<_> = parts
            .map(|(at, chunk)| scope.spawn(move || file.read_exact_at(chunk, (at * part) as u64)))
            .collect();
        let lost = |_| Err(io::Error::other("a thread that read the file has died"));
        reading.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(lost))
    })
}

impl Workspace {
    /// Opens the folder that a session works in.
    pub fn open(root: &Path) -> Result<Self, PathError> {
        let spelling = Arc::new(Spelling::default());
        let root = Folder::open(root, FolderAccess::Write, &spelling)?;
        Ok(Self(Arc::new(Inside {
            folders: vec![root],
            focus: None,
            guarded: Vec::new(),
            exceptions: Vec::new(),
            spelling,
        })))
    }

    /// This workspace with one more folder. Of nested folders the innermost decides the access, of two at the same
    /// path the one added last.
    pub fn with_folder(&self, dir: &Path, access: FolderAccess) -> Result<Self, PathError> {
        let mut inside = Inside::clone(&self.0);
        inside.folders.push(Folder::open(dir, access, &inside.spelling)?);
        Ok(Self(Arc::new(inside)))
    }

    /// This workspace with a path at and below which nothing can be changed. The path need not exist.
    pub fn guarding(&self, place: &Path) -> Self {
        let mut inside = Inside::clone(&self.0);
        inside.guarded.push(AbsPath::lexical(place));
        // The path may lead through links, so its canonical form is guarded as well.
        if let Ok(canonical) = walk::walk(None, place, |_| true, &inside.spelling) {
            inside.guarded.push(AbsPath::canonical(canonical));
        }
        Self(Arc::new(inside))
    }

    /// The guarded paths, besides haft's own folder in each project.
    pub fn guarded(&self) -> &[AbsPath] {
        &self.0.guarded
    }

    /// This workspace with an exception: files at this path and below it can be changed although they are guarded, and
    /// whatever the focus is. They must still be in a folder of the workspace.
    pub fn except(&self, place: &Path) -> Self {
        let mut inside = Inside::clone(&self.0);
        inside.exceptions.push(AbsPath::lexical(place));
        if let Ok(canonical) = walk::walk(None, place, |_| true, &inside.spelling) {
            inside.exceptions.push(AbsPath::canonical(canonical));
        }
        Self(Arc::new(inside))
    }

    fn is_excepted(&self, path: &Path) -> bool {
        self.0.exceptions.iter().any(|exception| lies_within(path, exception))
    }

    /// This workspace narrowed to one folder in it, given relative to the root or absolute. A focus that is already
    /// set can only be narrowed further. Folders added for reading stay reachable.
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

    /// This workspace without its focus.
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

    /// How lookups are confined to the root, in words.
    pub fn confinement(&self) -> &'static str {
        self.0.folders[0].handle.confinement()
    }

    /// The access to a path: that of its innermost folder, `None` outside.
    pub fn access(&self, path: &AbsPath) -> Option<FolderAccess> {
        self.admit(path.as_path()).ok().map(|folder| folder.access)
    }

    /// Opens a regular file for reading; anything else is an error. Never blocks.
    pub fn open_file(&self, path: &AbsPath) -> Result<OpenFile, PathError> {
        self.beneath(path, Beneath::open_file).map(|(file, stat)| OpenFile { file, stat })
    }

    /// Metadata of a path. If it has become a link, that of the link.
    pub fn stat(&self, path: &AbsPath) -> Result<Stat, PathError> {
        self.beneath(path, Beneath::stat)
    }

    /// Lists one directory with metadata, in no order. Entries that vanish meanwhile are left out.
    pub fn list(&self, path: &AbsPath) -> Result<Vec<Entry>, PathError> {
        self.beneath(path, Beneath::list)
    }

    /// Lists one directory without metadata: several times faster than [`Workspace::list`], for walking.
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

    /// The folder that gives access to a canonical path.
    fn admit(&self, path: &Path) -> Result<&Folder, PathErrorKind> {
        let folder = self.innermost(path).ok_or(PathErrorKind::Outside)?;
        let Some(focus) = &self.0.focus else {
            return Ok(folder);
        };
        let in_focus = lies_within(path, focus);
        let added_for_reading =
            |folder: &Folder| folder.access == FolderAccess::Read && lies_within(path, &folder.path);
        if in_focus || self.is_excepted(path) || self.0.folders.iter().any(added_for_reading) {
            return Ok(folder);
        }
        Err(PathErrorKind::OutsideFocus(self.display(focus)))
    }

    fn innermost(&self, path: &Path) -> Option<&Folder> {
        let folders = self.0.folders.iter();
        folders
            .filter(|folder| lies_within(path, &folder.path))
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
    fn open(dir: &Path, access: FolderAccess, spelling: &Spelling) -> Result<Self, PathError> {
        let fail = |kind: PathErrorKind| PathError::new(names::show(dir), kind);
        let given = std::path::absolute(dir).map_err(|error| match dir.as_os_str().len() {
            0 => fail(PathErrorKind::Empty),
            _ => fail(error.into()),
        })?;
        let canonical = given.canonicalize().map_err(|error| fail(error.into()))?;
        let canonical = walk::walk(None, &canonical, |_| true, spelling).unwrap_or(canonical);
        if canonical == Path::new("/") {
            return Err(fail(PathErrorKind::RootRefused));
        }
        let handle = Beneath::open(&canonical).map_err(|errno| fail(errno.into()))?;
        let path = AbsPath::canonical(canonical);
        Ok(Self { path, access, given, handle: Arc::new(handle) })
    }

    /// The rest of a path that begins with this folder, compared by components: `/ws-evil` is not in `/ws`.
    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }
}
