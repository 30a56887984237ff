//! Comparing the workspace with the model of what it was, when the command has ended. Files are found again by identity, so
//! the order in which calls took effect does not matter; what is equal is no effect. It changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::IsBuildFolder;
use super::content::{equal, has_content};
use super::effects::{Effects, Old, OldContent};
use super::keep::{self, Copy};
use super::model::{Area, Id, InodeInfo, Meta, Model};
use super::old::attributes;
use super::order::{Moved, Parts};

/// Largest directory whose entries are checked for changes without a record.
const MAX_CHECKED: usize = 20_000;

type Slot = (Id, OsString);

/// A comparison under way.
pub(super) struct Settle<'a> {
    pub(super) model: &'a Model,
    pub(super) store: &'a Path,
    pub(super) is_build_folder: &'a IsBuildFolder,
    /// Where each directory that was seen is now.
    pub(super) now_dirs: HashMap<Id, PathBuf>,
    /// What has each name now.
    pub(super) now: HashMap<Slot, Meta>,
    /// The names that each file has now.
    pub(super) names: HashMap<Id, Vec<Slot>>,
    /// Files that have another name than before, and that name.
    pub(super) moved: HashMap<Id, Slot>,
    pub(super) before_paths: HashMap<Id, PathBuf>,
    pub(super) parts: Parts,
    pub(super) effects: Effects,
    /// Files whose new mode is listed already, by another of their names.
    pub(super) with_new_mode: HashSet<Id>,
    /// Files that were compared, for the check of changes without a record.
    pub(super) compared: HashSet<Id>,
    /// What is still to be compared, in directories that were made anew.
    to_compare: Vec<Comparison>,
}

/// What had a path and what has it now, the path before and now, and the kind of place that it is in.
type Comparison = (Option<Id>, Option<Meta>, PathBuf, PathBuf, Area);

/// Lists what is different now.
pub(super) fn settle(model: &Model, store: &Path, is_build_folder: &IsBuildFolder) -> io::Result<Effects> {
    let mut settle = Settle {
        model,
        store,
        is_build_folder,
        now_dirs: HashMap::new(),
        now: HashMap::new(),
        names: HashMap::new(),
        moved: HashMap::new(),
        before_paths: HashMap::new(),
        parts: Parts {
            roots: model.roots.iter().map(|(path, _)| path.clone()).collect(),
            ..Parts::default()
        },
        effects: Effects::default(),
        with_new_mode: HashSet::new(),
        compared: HashSet::new(),
        to_compare: Vec::new(),
    };
    settle.scan();
    settle.find_before_paths();
    settle.find_moved();
    settle.compare_all();
    settle.compare_other_names();
    settle.check_unrecorded();
    let Settle { parts, mut effects, .. } = settle;
    effects.list = parts.ordered();
    effects.not_kept.extend(model.lost.iter().map(|(path, why)| (path.clone(), why.clone())));
    for (path, count) in &model.builds {
        effects.build_folders.push((path.clone(), *count));
    }
    effects.build_folders.sort();
    effects.build_folders.dedup_by(|next, first| next.0 == first.0);
    discard_unused(&effects, store);
    Ok(effects)
}

/// Removes what was kept and is not needed, such as links of files that only moved.
fn discard_unused(effects: &Effects, store: &Path) {
    let mut used: HashSet<&OsStr> = HashSet::from([OsStr::new(super::LOG)]);
    for effect in &effects.list {
        if let super::Effect::Set { before, .. } = effect {
            before.for_each_kept(&mut |path| used.extend(path.file_name()));
        }
    }
    for entry in std::fs::read_dir(store).into_iter().flatten().flatten() {
        if !used.contains(entry.file_name().as_os_str()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

pub(super) fn meta_at(path: &Path) -> Option<Meta> {
    Meta::of(CWD, path.as_os_str()).ok().flatten()
}

impl Settle<'_> {
    /// Finds what has the names that were touched, from the workspace's folders down.
    fn scan(&mut self) {
        let mut children: HashMap<Id, BTreeSet<&OsStr>> = HashMap::new();
        for (dir, names) in &self.model.slots {
            children.entry(*dir).or_default().extend(names.keys().map(OsString::as_os_str));
        }
        for info in self.model.dirs.values() {
            if let Some((parent, name)) = &info.place {
                children.entry(*parent).or_default().insert(name);
            }
        }
        let mut queue: VecDeque<Id> = VecDeque::new();
        for (path, id) in &self.model.roots {
            if meta_at(path).is_some_and(|meta| meta.id == *id) {
                self.now_dirs.insert(*id, path.clone());
                queue.push_back(*id);
            }
        }
        while let Some(dir) = queue.pop_front() {
            let Some(path) = self.now_dirs.get(&dir).cloned() else { continue };
            for name in children.get(&dir).into_iter().flatten() {
                let Some(meta) = meta_at(&path.join(name)) else { continue };
                let slot = (dir, (*name).to_owned());
                self.now.insert(slot.clone(), meta);
                self.names.entry(meta.id).or_default().push(slot);
                let is_known =
                    self.model.dirs.contains_key(&meta.id) || self.model.inodes.contains_key(&meta.id);
                if meta.is_dir() && is_known && !self.now_dirs.contains_key(&meta.id) {
                    self.now_dirs.insert(meta.id, path.join(name));
                    queue.push_back(meta.id);
                }
            }
        }
    }

    fn find_before_paths(&mut self) {
        for (path, id) in &self.model.roots {
            self.before_paths.insert(*id, path.clone());
        }
        for id in self.model.dirs.keys() {
            // Up to a directory whose path is known, then down again.
            let (mut chain, mut current) = (Vec::new(), *id);
            while !self.before_paths.contains_key(&current) && chain.len() < 4096 {
                let Some((parent, name)) = self.model.dirs.get(&current).and_then(|dir| dir.place.clone())
                else {
                    break;
                };
                chain.push((current, name));
                current = parent;
            }
            let Some(mut path) = self.before_paths.get(&current).cloned() else { continue };
            for (id, name) in chain.into_iter().rev() {
                path.push(name);
                self.before_paths.insert(id, path.clone());
            }
        }
    }

    fn find_moved(&mut self) {
        let mut before: HashMap<Id, Vec<Slot>> = HashMap::new();
        for (dir, names) in &self.model.slots {
            for (name, was) in names {
                if let Some(was) = was {
                    before.entry(*was).or_default().push((*dir, name.clone()));
                }
            }
        }
        for (id, slots) in before {
            let Some(info) = self.model.inodes.get(&id) else { continue };
            let has_one_name = info.meta.is_dir() || info.meta.links <= 1;
            let (Some(now), [slot]) = (self.names.get(&id), &*slots) else { continue };
            if has_one_name && !now.contains(slot) {
                let Some(to) = now.iter().min() else { continue };
                self.moved.insert(id, to.clone());
                let (Some(from_dir), Some(to_dir)) =
                    (self.before_paths.get(&slot.0), self.now_dirs.get(&to.0))
                else {
                    continue;
                };
                let is_still = |dir: &Id| self.now_dirs.get(dir) == self.before_paths.get(dir);
                let is_original = |dir: &Id| self.model.dirs.get(dir).is_some_and(|dir| dir.is_original);
                self.parts.moved.push(Moved {
                    from: from_dir.join(&slot.1),
                    to: to_dir.join(&to.1),
                    is_from_still: is_still(&slot.0),
                    is_to_still: is_still(&to.0) && is_original(&to.0),
                });
                // Content and mode are compared at the old place, to which it is moved back first.
                let (from, to) = (from_dir.join(&slot.1), to_dir.join(&to.1));
                if let Some(meta) = meta_at(&to) {
                    self.same(&id, &meta, &from, &to);
                }
            }
        }
    }

    fn compare_all(&mut self) {
        let model = self.model;
        for (dir, names) in &model.slots {
            let Some(info) = model.dirs.get(dir).filter(|info| info.is_original) else { continue };
            let (Some(now), Some(before)) =
                (self.now_dirs.get(dir).cloned(), self.before_paths.get(dir).cloned())
            else {
                continue;
            };
            for (name, was) in names {
                let slot = (*dir, name.clone());
                let was = was.filter(|was| !self.moved.contains_key(was));
                let is = self.now.get(&slot).copied().filter(|meta| self.moved.get(&meta.id) != Some(&slot));
                self.compare(was, is, &before.join(name), &now.join(name), info.area);
            }
        }
        while let Some((was, is, path, at, area)) = self.to_compare.pop() {
            self.compare(was, is, &path, &at, area);
        }
    }

    /// Compares what had a path with what has it now, in a directory that is at `at` now.
    fn compare(&mut self, was: Option<Id>, is: Option<Meta>, path: &Path, at: &Path, area: Area) {
        self.compared.extend(is.map(|is| is.id));
        match (was, is) {
            (None, None) => {}
            (None, Some(is)) => self.created(&is, at, area),
            (Some(was), None) => self.deleted(&was, path),
            (Some(was), Some(is)) => {
                let Some(info) = self.model.inodes.get(&was) else { return };
                match (info.meta.is_dir(), is.is_dir()) {
                    _ if was == is.id => self.same(&was, &is, path, at),
                    (true, true) => self.merge(&was, &is, path, at, area),
                    (false, false) => self.replaced(info, &is, path, at),
                    _ => {
                        self.created(&is, at, area);
                        self.deleted(&was, path);
                    }
                }
            }
        }
    }

    /// The file that had a path has it still.
    pub(super) fn same(&mut self, id: &Id, is: &Meta, path: &Path, at: &Path) {
        self.compared.insert(*id);
        let Some(info) = self.model.inodes.get(id) else { return };
        let old = &info.meta;
        let has_new_content = old.is_file() && self.has_new_content(info, is, at);
        let has_new_attributes = (old.uid, old.gid) != (is.uid, is.gid)
            || info.xattrs.as_ref().is_some_and(|xattrs| *xattrs != keep::xattrs_at(at));
        if old.is_file() && (has_new_content || has_new_attributes) {
            match self.old_file(info, (!has_new_content).then_some(at)) {
                Ok(before) => self.set(info, path, before, at),
                Err(why) => self.effects.not_kept.push((at.to_owned(), why)),
            }
        } else if has_new_attributes {
            self.effects
                .not_kept
                .push((at.to_owned(), "its owner or extended attributes changed".to_owned()));
        } else if old.mode != is.mode && !old.is_link() && self.with_new_mode.insert(*id) {
            self.parts.mode(path, at, old.mode, is.mode, old.is_dir());
        }
    }

    pub(super) fn has_new_content(&self, info: &InodeInfo, is: &Meta, at: &Path) -> bool {
        let old = &info.meta;
        let same_times = (old.size, old.modified) == (is.size, is.modified);
        match &info.copy {
            Some(_) if same_times && old.changed == is.changed => false,
            Some(Copy::File(copy)) => !equal(&self.store.join(copy), at).unwrap_or(false),
            Some(Copy::InMemory(content)) => !has_content(at, content).unwrap_or(false),
            // Nothing opened it for writing, so at most its times were set.
            None if info.lost.is_none() && old.size == is.size => false,
            None => !same_times,
        }
    }

    /// A file or link that had a path was replaced by another one.
    fn replaced(&mut self, info: &InodeInfo, is: &Meta, path: &Path, at: &Path) {
        let old = &info.meta;
        let is_alone = old.links <= 1 && is.links <= 1;
        if old.is_link() && is.is_link() {
            let target = rustix::fs::readlinkat(CWD, at, Vec::new()).map(rustix::ffi::CString::into_bytes);
            let target = target.unwrap_or_default();
            if target == std::os::unix::ffi::OsStrExt::as_bytes(info.target.as_os_str()) {
                return;
            }
        }
        match self.old(info) {
            Ok(before) => {
                let is_equal = match &before {
                    Old::File { content: OldContent::Kept(kept), .. } if is.is_file() && is_alone => {
                        (old.mode, old.uid, old.gid) == (is.mode, is.uid, is.gid)
                            && equal(kept, at).unwrap_or(false)
                    }
                    _ => false,
                };
                if !is_equal {
                    self.set(info, path, before, at);
                }
            }
            Err(why) => self.effects.not_kept.push((path.to_owned(), why)),
        }
    }

    /// A directory went, and a new one has its path: they are compared name by name.
    fn merge(&mut self, was: &Id, is: &Meta, path: &Path, at: &Path, area: Area) {
        let model = self.model;
        let area = model.dirs.get(was).map_or(area, |dir| dir.area);
        if area == Area::Build || (self.is_build_folder)(at) {
            self.count_build_folder(at);
            return;
        }
        let mode = model.inodes.get(was).map_or(is.mode, |info| info.meta.mode);
        if mode != is.mode {
            self.parts.mode(path, at, mode, is.mode, true);
        }
        let mut names: BTreeMap<OsString, Option<Id>> = BTreeMap::new();
        for (name, was) in model.slots.get(was).into_iter().flatten() {
            names.insert(name.clone(), was.filter(|was| !self.moved.contains_key(was)));
        }
        for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
            names.entry(entry.file_name()).or_insert(None);
        }
        for (name, was) in names {
            let at = at.join(&name);
            let here = (is.id, name.clone());
            let found = meta_at(&at).filter(|meta| self.moved.get(&meta.id) != Some(&here));
            // Later: a tree may be deeper than the stack.
            self.to_compare.push((was, found, path.join(&name), at, area));
        }
    }

    fn created(&mut self, is: &Meta, at: &Path, area: Area) {
        match area {
            Area::Usual if is.is_dir() && (self.is_build_folder)(at) => self.count_build_folder(at),
            Area::Usual => {
                let moved: &[Moved] = if is.is_dir() { &self.parts.moved } else { &[] };
                let moved = moved.iter().map(|moved| &moved.to);
                let except = moved.filter(|to| to.starts_with(at) && *to != at).cloned().collect();
                self.parts.created.push((at.to_owned(), except));
            }
            Area::Build | Area::Objects => {}
        }
    }

    fn deleted(&mut self, was: &Id, path: &Path) {
        let Some(info) = self.model.inodes.get(was) else { return };
        if !info.meta.is_dir() {
            match self.old(info) {
                Ok(before) if info.meta.links > 1 => {
                    self.parts.linked.push((*was, path.to_owned(), before, None))
                }
                Ok(before) => self.parts.deleted.push((path.to_owned(), before)),
                Err(why) => self.effects.not_kept.push((path.to_owned(), why)),
            }
            return;
        }
        if self.model.dirs.get(was).is_some_and(|dir| dir.area == Area::Build) {
            self.count_build_folder(path);
            return;
        }
        if let Some(why) = &info.lost {
            self.effects.not_kept.push((path.to_owned(), why.clone()));
        }
        let entries = self.collected(was, path);
        self.parts.deleted.push((path.to_owned(), Old::Tree(entries)));
    }

    /// A directory that went, and what was in it. A directory comes before its content.
    fn collected(&mut self, id: &Id, path: &Path) -> Vec<(PathBuf, Old)> {
        let model = self.model;
        let mut entries = Vec::new();
        let mut folders = vec![(*id, path.to_owned(), PathBuf::new())];
        while let Some((id, path, below)) = folders.pop() {
            let Some(info) = model.inodes.get(&id) else { continue };
            entries.push((below.clone(), Old::Directory { attributes: attributes(info, Vec::new()) }));
            for (name, was) in model.slots.get(&id).into_iter().flatten() {
                let Some(was) = was.filter(|was| !self.moved.contains_key(was)) else { continue };
                let Some(info) = model.inodes.get(&was) else { continue };
                let (path, below) = (path.join(name), below.join(name));
                if info.meta.is_dir() {
                    match model.dirs.get(&was).is_some_and(|dir| dir.area == Area::Build) {
                        true => self.count_build_folder(&path),
                        false => folders.push((was, path, below)),
                    }
                    continue;
                }
                match self.old(info) {
                    Ok(before) if info.meta.links > 1 => self.parts.linked.push((was, path, before, None)),
                    Ok(before) => entries.push((below, before)),
                    Err(why) => self.effects.not_kept.push((path, why)),
                }
            }
        }
        // As a walk would list them.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    fn set(&mut self, info: &InodeInfo, path: &Path, before: Old, at: &Path) {
        match info.meta.is_file() && info.meta.links > 1 {
            true => self.parts.linked.push((info.meta.id, path.to_owned(), before, Some(at.to_owned()))),
            false => self.parts.set.push((path.to_owned(), before, at.to_owned())),
        }
    }

    /// Lists directories in which something was recorded once more: a newer file there that has no record was changed past it.
    fn check_unrecorded(&mut self) {
        for (dir, path) in &self.now_dirs {
            let is_checked =
                self.model.dirs.get(dir).is_some_and(|dir| dir.is_original && dir.area == Area::Usual);
            let Some(names) = self.model.slots.get(dir).filter(|_| is_checked) else { continue };
            let entries: Vec<_> =
                std::fs::read_dir(path).into_iter().flatten().flatten().take(MAX_CHECKED).collect();
            for entry in entries {
                let name = entry.file_name();
                if names.contains_key(&name) {
                    continue;
                }
                let at = path.join(&name);
                let Some(meta) = meta_at(&at) else { continue };
                let is_known = self.compared.contains(&meta.id) || self.model.inodes.contains_key(&meta.id);
                if !meta.is_dir() && meta.changed > self.model.start && !is_known {
                    self.effects.unrecorded.push(at);
                }
            }
        }
        self.effects.unrecorded.sort();
    }

    fn count_build_folder(&mut self, path: &Path) {
        self.effects.build_folders.push((path.to_owned(), 1));
    }
}
