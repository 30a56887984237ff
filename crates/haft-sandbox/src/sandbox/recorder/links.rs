//! Hard-linked files: names of them that no call named changed as well, and others are linked to them again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::model::{Id, InodeInfo};
use super::settle::{Settle, meta_at};

/// Most entries that are searched for other names of a file.
const MAX_SEARCHED: usize = 500_000;

impl Settle<'_> {
    /// Compares the names of hard-linked files that no call named: what changed in one changed in all.
    pub(super) fn compare_other_names(&mut self) {
        let mut known: HashMap<Id, u64> = HashMap::new();
        for was in self.model.slots.values().flat_map(BTreeMap::values).flatten() {
            *known.entry(*was).or_default() += 1;
        }
        let is_short = |(id, info): &(&Id, &InodeInfo)| {
            info.meta.is_file()
                && info.meta.links > 1
                && known.get(id).copied().unwrap_or(0) < info.meta.links
        };
        let wanted: HashSet<Id> = self.model.inodes.iter().filter(is_short).map(|(id, _)| *id).collect();
        let mut folders: Vec<PathBuf> = match wanted.is_empty() {
            true => Vec::new(),
            false => self.model.roots.iter().map(|(path, _)| path.clone()).collect(),
        };
        let numbers: HashSet<u64> = wanted.iter().map(|id| id.inode).collect();
        let mut left = MAX_SEARCHED;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && left > 0 && !(self.is_build_folder)(&entry.path()) {
                    folders.push(entry.path());
                }
                let is_wanted = numbers.contains(&std::os::unix::fs::DirEntryExt::ino(&entry));
                let path = entry.path();
                if let Some(meta) = is_wanted.then(|| meta_at(&path)).flatten()
                    && wanted.contains(&meta.id)
                    && !self.is_touched_path(&meta.id, &path)
                    && let Some(before) = self.before_path(&path)
                {
                    self.same(&meta.id, &meta, &before, &path);
                    let info = self.model.inodes.get(&meta.id);
                    if info.is_some_and(|info| !self.has_new_content(info, &meta, &path)) {
                        self.parts.untouched.insert(meta.id, before);
                    }
                }
            }
        }
        // A name that still has the old file is the one to link others to.
        for (id, slots) in &self.names {
            let Some(info) = self.model.inodes.get(id).filter(|info| info.meta.links > 1) else { continue };
            for (dir, name) in slots {
                let was = self.model.slots.get(dir).and_then(|names| names.get(name));
                let (Some(before), Some(now)) = (self.before_paths.get(dir), self.now_dirs.get(dir)) else {
                    continue;
                };
                let at = now.join(name);
                if was == Some(&Some(*id))
                    && meta_at(&at).is_some_and(|is| !self.has_new_content(info, &is, &at))
                {
                    self.parts.untouched.insert(*id, before.join(name));
                }
            }
        }
    }

    /// The path that an untouched name had before; `None` if it is in a new directory.
    fn before_path(&self, path: &Path) -> Option<PathBuf> {
        for above in path.ancestors().skip(1) {
            if let Some((id, _)) = self.now_dirs.iter().find(|(_, now)| *now == above) {
                let is_original = self.model.dirs.get(id).is_some_and(|dir| dir.is_original);
                let before = self.before_paths.get(id).filter(|_| is_original)?;
                return Some(before.join(path.strip_prefix(above).ok()?));
            }
        }
        None
    }

    fn is_touched_path(&self, id: &Id, path: &Path) -> bool {
        self.names
            .get(id)
            .into_iter()
            .flatten()
            .any(|(dir, name)| self.now_dirs.get(dir).is_some_and(|dir| dir.join(name) == path))
    }
}
