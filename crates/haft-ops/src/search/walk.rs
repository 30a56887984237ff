//! Walking a tree of folders on several threads, beneath open handles, so that no link swapped in on the way leads out.
//! The files of a folder come before its subfolders, both by name, so the order is deterministic. Knows nothing of
//! what is searched for: the caller's `visit` sees the files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::permissions::HiddenFiles;
use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::{Kind, Name, OpenFolder, PathErrorKind, names};
use parking_lot::Mutex;

use super::ordered::{Publish, WorkResult};
use super::rules::{Level, Rules};

/// Number of files of a folder that form one work item.
const BATCH: usize = 32;
/// Number of unreadable paths that are reported by name.
const MAX_NAMED: usize = 5;

/// Sort key of a file in a walk: the names of the folders on its path, each terminated by a zero byte, and the name of
/// the file. The empty name sorts before all files of the folder.
pub(super) type WalkKey = (Vec<u8>, OsString);

/// Depth up to which each folder's handle stays open. Below it, only every 32nd does, because the number of file
/// descriptors of a process is limited.
const KEPT_OPEN: usize = 32;
/// The kernel's limit for a path (`PATH_MAX` without the NUL); longer ones cannot be opened by name.
const MAX_PATH: usize = 4095;

/// A folder of the walk.
pub(super) struct Folder {
    /// Its handle; none if it is reopened from its parent when needed.
    kept: Option<Arc<OpenFolder>>,
    above: Option<Arc<Folder>>,
    /// Its path relative to the root of the walk.
    pub(super) below: PathBuf,
    /// Its part of a [`WalkKey`].
    pub(super) key: Vec<u8>,
    /// Its path relative to the topmost folder whose ignore files apply.
    anchored: PathBuf,
    /// The ignore rules for its entries.
    level: Option<Arc<Level>>,
    depth: usize,
}

/// A work item of a walk.
pub(super) enum Step {
    /// Open a folder and read its entries.
    Folder { parent: Arc<Folder>, name: OsString },
    /// Read the entries of the root of the walk.
    Top(Box<Folder>),
    /// Visit some files of a folder.
    Files { folder: Arc<Folder>, names: Vec<Name> },
}

/// The options and the shared state of a walk.
pub(super) struct Walk<'a> {
    pub(super) rules: &'a Rules,
    pub(super) unreadable: &'a UnreadableLog,
    /// The first file to visit, where the walk resumes.
    pub(super) from: Option<WalkKey>,
    /// Whether folders and links are visited as well as files.
    pub(super) all_kinds: bool,
    /// Number of files that form one work item.
    pub(super) batch: usize,
    /// Files to leave out because rules hide their content. None where only names are reported.
    pub(super) hidden: Option<HiddenContent>,
}

/// Files below a folder whose content permission rules hide.
pub(super) struct HiddenContent {
    by: Vec<Arc<dyn HiddenFiles>>,
    root: AbsPath,
}

impl HiddenContent {
    /// The files that rules hide below a folder; none if no rule hides any.
    pub(super) fn below(root: &AbsPath, cx: &Context) -> Option<Self> {
        let by = cx.hidden_files();
        (!by.is_empty()).then(|| Self { by, root: root.clone() })
    }

    fn hides(&self, folder: &Path, name: &OsStr) -> bool {
        let path = AbsPath::lexical(&self.root.as_path().join(folder).join(name));
        self.by.iter().any(|hidden| hidden.hides(&path))
    }
}

/// Collects the paths that could not be read: their number, and the first few as they are shown.
#[derive(Debug, Default)]
pub(super) struct UnreadableLog(Mutex<(u64, Vec<String>)>);

impl UnreadableLog {
    pub(super) fn add(&self, path: &Path) {
        self.push(format!("`{}`", names::show_on_a_line(path)));
    }

    pub(super) fn add_because(&self, path: &Path, why: &str) {
        self.push(format!("`{}` ({why})", names::show_on_a_line(path)));
    }

    fn push(&self, shown: String) {
        let mut unreadable = self.0.lock();
        unreadable.0 += 1;
        if unreadable.1.len() < MAX_NAMED {
            unreadable.1.push(shown);
            // Threads report in any order.
            unreadable.1.sort();
        }
    }

    pub(super) fn take(self) -> Unreadable {
        let (count, named) = self.0.into_inner();
        Unreadable { count, named }
    }
}

/// Files and folders that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Number of unreadable paths.
    pub count: u64,
    /// The first few of them, quoted for display.
    pub named: Vec<String>,
}

impl Unreadable {
    /// A note for the reply, if any path was unreadable.
    pub fn note(&self) -> Option<String> {
        let rest = self.count.saturating_sub(self.named.len() as u64);
        let named = self.named.join(", ");
        match (self.count, rest) {
            (0, _) => None,
            (_, 0) => Some(format!("could not be read: {named}")),
            _ => Some(format!("could not be read: {named} and {rest} more")),
        }
    }
}

impl Folder {
    /// Its handle, reopened from its parents if it was closed. Follows no links.
    fn handle(&self) -> Result<Arc<OpenFolder>, PathErrorKind> {
        match (&self.kept, &self.above, self.below.file_name()) {
            (Some(handle), ..) => Ok(handle.clone()),
            (None, Some(above), Some(name)) => above.handle()?.folder(name).map(Arc::new),
            _ => Err(PathErrorKind::NotFound),
        }
    }
}

/// A folder whose entries were read, with the first batch of its files.
struct Expanded {
    folder: Arc<Folder>,
    handle: Arc<OpenFolder>,
    names: Vec<Name>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(rules: &'a Rules, unreadable: &'a UnreadableLog) -> Self {
        Self { rules, unreadable, from: None, all_kinds: false, batch: BATCH, hidden: None }
    }

    /// The first work item: opens the root, after reading the ignore files of all folders above it in the workspace.
    pub(super) fn begin(&self, root: &AbsPath, cx: &Context) -> Result<(WalkKey, Step), Fault> {
        let workspace = cx.workspace();
        let mut above = Vec::new();
        let mut folder = root.parent();
        while let Some(dir) = folder.filter(|dir| workspace.access(dir).is_some()) {
            folder = dir.parent();
            above.push(dir);
        }
        let top = above.last().unwrap_or(root).clone();
        let anchored =
            |path: &AbsPath| path.as_path().strip_prefix(top.as_path()).unwrap_or(Path::new("")).to_owned();
        let mut level = None;
        for dir in above.iter().rev() {
            if let Ok(handle) = workspace.open_folder(dir)
                && let Ok(entries) = handle.names()
            {
                level = self.rules.level(&handle, &entries, &anchored(dir), level.as_ref());
            }
        }
        let folder = Folder {
            kept: Some(Arc::new(workspace.open_folder(root)?)),
            above: None,
            below: PathBuf::new(),
            key: Vec::new(),
            anchored: anchored(root),
            level,
            depth: 0,
        };
        Ok(((Vec::new(), OsString::new()), Step::Top(Box::new(folder))))
    }

    /// The ignore rule that excludes a path below a folder, or one of its parents, and the file with that rule.
    pub(super) fn ignored_by(&self, root: &AbsPath, below: &Path, cx: &Context) -> Option<(String, String)> {
        let (_, Step::Top(mut folder)) = self.begin(root, cx).ok()? else { return None };
        let mut parts = below.iter().peekable();
        while let Some(name) = parts.next() {
            let handle = folder.handle().ok()?;
            let entries = handle.names().ok()?;
            folder.level = self.rules.level(&handle, &entries, &folder.anchored, folder.level.as_ref());
            let is_folder = parts.peek().is_some();
            let rule =
                folder.level.as_ref().and_then(|level| level.rule(&folder.anchored.join(name), is_folder));
            if rule.is_some() {
                return rule;
            }
            if is_folder {
                folder = Box::new(self.open(&Arc::from(folder), name)?.0);
            }
        }
        None
    }

    /// Processes a work item: publishes further items, and calls `visit` with the files.
    pub(super) fn step<F>(
        &self,
        step: Step,
        publish: &Publish<'_, WalkKey, Step>,
        visit: impl FnOnce(&Folder, &OpenFolder, &[Name]) -> WorkResult<WalkKey, F>,
    ) -> WorkResult<WalkKey, F> {
        let expanded = match step {
            Step::Files { folder, names } => {
                folder.handle().ok().map(|handle| Expanded { folder, handle, names })
            }
            Step::Top(folder) => {
                folder.handle().ok().and_then(|handle| self.expand(*folder, handle, publish))
            }
            Step::Folder { parent, name } => {
                self.open(&parent, &name).and_then(|(folder, handle)| self.expand(folder, handle, publish))
            }
        };
        match expanded {
            Some(Expanded { folder, handle, names }) => visit(&folder, &handle, &names),
            None => WorkResult { found: Vec::new(), examined: 0, resume_at: None },
        }
    }

    fn open(&self, parent: &Arc<Folder>, name: &OsStr) -> Option<(Folder, Arc<OpenFolder>)> {
        let below = parent.below.join(name);
        let anchored = parent.anchored.join(name);
        let opened = match anchored.as_os_str().len() {
            ..=MAX_PATH => parent.handle().and_then(|handle| handle.folder(name)),
            _ => Err(PathErrorKind::NotADirectory),
        };
        let handle = match opened {
            Ok(handle) => Arc::new(handle),
            // The folder was removed or replaced since its parent was read.
            Err(PathErrorKind::NotFound | PathErrorKind::LinkAppeared) => return None,
            Err(_) => {
                self.unreadable.add(&below);
                return None;
            }
        };
        let depth = parent.depth + 1;
        let is_kept = depth < KEPT_OPEN || depth.is_multiple_of(KEPT_OPEN);
        let folder = Folder {
            kept: is_kept.then(|| handle.clone()),
            above: Some(parent.clone()),
            key: child_key(&parent.key, name),
            below,
            anchored,
            level: parent.level.clone(),
            depth,
        };
        Some((folder, handle))
    }

    /// Reads a folder. Publishes its subfolders and all batches of its files but the first, which it returns.
    fn expand(
        &self,
        mut folder: Folder,
        handle: Arc<OpenFolder>,
        publish: &Publish<'_, WalkKey, Step>,
    ) -> Option<Expanded> {
        let Ok(entries) = handle.names() else {
            self.unreadable.add(&folder.below);
            return None;
        };
        folder.level = self.rules.level(&handle, &entries, &folder.anchored, folder.level.as_ref());
        let (mut files, folders) = self.partition(&folder, entries);
        let folder = Arc::new(folder);
        let below = |name: OsString| {
            ((child_key(&folder.key, &name), OsString::new()), Step::Folder { parent: folder.clone(), name })
        };
        let mut more: Vec<(WalkKey, Step)> = folders.into_iter().map(below).collect();
        // From the end, so that each batch is split off without moving the files before it.
        let mut part = files.len() / self.batch;
        while part > 0 {
            let names = files.split_off(part * self.batch);
            if let Some(first) = names.first() {
                let place = (folder.key.clone(), first.name.clone());
                more.push((place, Step::Files { folder: folder.clone(), names }));
            }
            part -= 1;
        }
        publish.all(more);
        Some(Expanded { folder, handle, names: files })
    }

    /// The entries that the filter lets through: files to visit, sorted by name, and folders to descend into.
    fn partition(&self, folder: &Folder, entries: Vec<Name>) -> (Vec<Name>, Vec<OsString>) {
        let depth = folder.depth + 1;
        let mut path = folder.anchored.clone();
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for entry in entries {
            let is_folder = match entry.kind {
                Kind::Directory => true,
                Kind::File => false,
                Kind::Symlink if self.all_kinds => false,
                _ => continue,
            };
            path.push(&entry.name);
            let out =
                self.rules.leaves_out(&path, &folder.below, &entry.name, is_folder, folder.level.as_deref());
            path.pop();
            let is_hidden = |hidden: &HiddenContent| !is_folder && hidden.hides(&folder.below, &entry.name);
            if out || self.hidden.as_ref().is_some_and(is_hidden) {
                continue;
            }
            if is_folder && self.rules.reaches(depth + 1) && !self.is_before_start(&folder.key, &entry.name) {
                folders.push(entry.name.clone());
            }
            if (!is_folder || self.all_kinds) && self.rules.reaches(depth) {
                files.push(entry);
            }
        }
        if let Some((begins_in, begins_at)) = &self.from {
            files.retain(|file| (&folder.key, &file.name) >= (begins_in, begins_at));
        }
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        (files, folders)
    }

    /// Whether a folder, with everything below it, precedes the position at which the walk resumes.
    fn is_before_start(&self, parent: &[u8], name: &OsStr) -> bool {
        self.from.as_ref().is_some_and(|(from, _)| {
            let key = child_key(parent, name);
            key < *from && !from.starts_with(&key)
        })
    }
}

fn child_key(parent: &[u8], name: &OsStr) -> Vec<u8> {
    let mut key = Vec::with_capacity(parent.len() + name.len() + 1);
    key.extend_from_slice(parent);
    key.extend_from_slice(name.as_encoded_bytes());
    key.push(0);
    key
}
