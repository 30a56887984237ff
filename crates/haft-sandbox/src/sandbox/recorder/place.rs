//! Finding the place of a path in the workspace, in haft's own view, and noting the directories on the way. A path that leads
//! elsewhere has none.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::calls::Named;
use super::model::{Area, DirInfo, Fact, Id, Meta};
use super::notify::Task;
use super::resolve::{self, Target};
use super::watch::Watch;

/// Most directories that are held open.
const MAX_OPEN: usize = 128;

pub(super) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in a directory of the workspace, and what has it.
pub(super) struct Place {
    pub(super) dir: Id,
    pub(super) fd: Rc<OwnedFd>,
    pub(super) name: OsString,
    pub(super) meta: Option<Meta>,
    pub(super) area: Area,
}

impl Watch {
    /// Where in the workspace a path leads; `None` outside of it.
    pub(super) fn place(&mut self, task: &Task<'_>, named: &Named) -> Option<Place> {
        let mut target = resolve::resolve(task, named).ok()?;
        for _ in 0..40 {
            let place = match &target {
                Target::Object(object) => return self.place_of_object(object),
                Target::Name(dir, name) => self.place_in(dir, name),
            };
            let is_link = place.as_ref().is_none_or(|place| place.meta.is_some_and(|meta| meta.is_link()));
            if !named.follows || !is_link {
                return place;
            }
            let Target::Name(dir, name) = &target else { return None };
            match resolve::follow(task, dir, name) {
                Ok(Some(next)) => target = next,
                _ => return place,
            }
        }
        None
    }

    /// The place of a name in a directory of the command's view.
    fn place_in(&mut self, dir: &OwnedFd, name: &OsStr) -> Option<Place> {
        let meta = Meta::of(dir, OsStr::new("")).ok()??;
        let fd = self.own_dir(dir, &meta.id)?;
        self.place_at(meta.id, fd, name.to_owned())
    }

    fn place_at(&self, dir: Id, fd: Rc<OwnedFd>, name: OsString) -> Option<Place> {
        let meta = Meta::of(&fd, &name).ok()?;
        let area = self.model.dirs.get(&dir)?.area;
        Some(Place { dir, fd, name, meta, area })
    }

    /// The place of an open file, by the name that it was opened by.
    fn place_of_object(&mut self, object: &OwnedFd) -> Option<Place> {
        let meta = Meta::of(object, OsStr::new("")).ok()??;
        if !self.roots.iter().any(|(_, _, root)| root.device == meta.id.device) {
            return None;
        }
        let path = path_of_fd(object)?;
        let (parent, name) = (path.parent()?, path.file_name()?);
        let (dir, fd) = self.register(parent)?;
        let place = self.place_at(dir, fd, name.to_owned())?;
        place.meta.is_some_and(|found| found.id == meta.id).then_some(place)
    }

    /// Haft's own handle of a directory in the command's view: only through one mount can files be linked.
    fn own_dir(&mut self, dir: &OwnedFd, id: &Id) -> Option<Rc<OwnedFd>> {
        if let Some((fd, _)) = self.open.get(id) {
            return Some(fd.clone());
        }
        if !self.roots.iter().any(|(_, _, root)| root.device == id.device) {
            return None;
        }
        let (found, fd) = self.register(&path_of_fd(dir)?)?;
        (found == *id).then_some(fd)
    }

    /// Opens a directory of the workspace and notes it and those above it.
    fn register(&mut self, path: &Path) -> Option<(Id, Rc<OwnedFd>)> {
        let found = self.roots.iter().find_map(|(root, fd, id)| {
            path.strip_prefix(root).ok().map(|below| (root.clone(), below.to_owned(), fd.clone(), *id))
        });
        let (mut current, below, mut fd, mut id) = found?;
        for name in &below {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let next = rustix::fs::openat2(&fd, name, DIRECTORY, Mode::empty(), resolve).ok()?;
            let meta = Meta::of(&next, OsStr::new("")).ok()??;
            current.push(name);
            self.note_dir(&meta.id, &id, name, &current);
            (fd, id) = (Rc::new(next), meta.id);
        }
        if self.open.len() >= MAX_OPEN {
            self.open.clear();
        }
        self.open.insert(id, (fd.clone(), current));
        Some((id, fd))
    }

    pub(super) fn note_dir(&mut self, id: &Id, parent: &Id, name: &OsStr, path: &Path) {
        if self.model.dirs.contains_key(id) {
            return;
        }
        let is_original = self.model.is_original(parent, name, id);
        let above = self.model.dirs.get(parent).map_or(Area::Usual, |dir| dir.area);
        let area = match above {
            Area::Usual if name == "objects" && path.iter().any(|part| part == ".git") => Area::Objects,
            Area::Usual if (self.is_build_folder)(path) => Area::Build,
            above => above,
        };
        if area == Area::Build {
            let folder = self.build_folders.get(parent).cloned().unwrap_or_else(|| path.to_owned());
            self.build_folders.insert(*id, folder);
        }
        let place = Some((*parent, name.to_owned()));
        self.model.learn(Fact::Dir(*id, DirInfo { place, is_original, area }));
    }

    pub(super) fn path_of(&self, place: &Place) -> PathBuf {
        let dir = self.open.get(&place.dir).map(|(_, path)| path.clone());
        let dir = dir.or_else(|| path_of_fd(&place.fd)).unwrap_or_default();
        dir.join(&place.name)
    }
}

/// The path of an open file, in the view of its own mount namespace.
pub(super) fn path_of_fd(fd: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}
