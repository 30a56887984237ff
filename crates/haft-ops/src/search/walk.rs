//! Walking a tree of folders, on several threads, beneath open handles. Files of a folder come before the
//! folders in it, both by name, so that the order is the same every time.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::permissions::HiddenFiles;
use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::{Kind, Name, OpenFolder, PathErrorKind, names};
use parking_lot::Mutex;

use super::ordered::{Done, Publish};
use super::rules::{Level, Rules};

/// So many files of a folder are one piece of work.
const BATCH: usize = 32;
/// So many folders that could not be read are named.
const MAX_NAMED: usize = 5;

/// A place in the order: the names of the folders on the way, each ended by a zero byte, and a file of the
/// folder; the empty name comes before all files.
pub(super) type WalkKey = (Vec<u8>, OsString);

/// Further down than this, only every so manieth folder is kept open: a process may not have many.
const KEPT_OPEN: usize = 32;
/// No longer path can be opened by anybody.
const MAX_PATH: usize = 4095;

/// An open folder on the way.
pub(super) struct Folder {
    /// None if it is opened again from the one above when it is needed.
    kept: Option<Arc<OpenFolder>>,
    above: Option<Arc<Folder>>,
    /// Its path below the folder that the walk began with.
    pub(super) below: PathBuf,
    /// The same, to compare.
    pub(super) key: Vec<u8>,
    /// Its path below the folder that the ignore files are read from.
    anchored: PathBuf,
    /// The rules for what is in it.
    level: Option<Arc<Level>>,
    depth: usize,
}

/// Work of a walk.
pub(super) enum Step {
    /// A folder to be opened and read.
    Folder { parent: Arc<Folder>, name: OsString },
    /// The folder that the walk begins with.
    Top(Box<Folder>),
    /// Some of its files.
    Files { folder: Arc<Folder>, names: Vec<Name> },
}

/// A walk: what all threads share.
pub(super) struct Walk<'a> {
    pub(super) rules: &'a Rules,
    pub(super) missed: &'a Missed,
    /// Where to begin, if not at the beginning.
    pub(super) from: Option<WalkKey>,
    /// Whether folders and links are told as well as files.
    pub(super) all_kinds: bool,
    /// How many files are one piece of work.
    pub(super) batch: usize,
    /// Files whose content nobody is to read, where their names are told.
    pub(super) hidden: Option<Hidden>,
}

/// Files whose content is not to be read.
pub(super) struct Hidden {
    by: Vec<Arc<dyn HiddenFiles>>,
    root: AbsPath,
}

impl Hidden {
    /// What rules hide below a folder, if they hide anything.
    pub(super) fn below(root: &AbsPath, cx: &Context) -> Option<Self> {
        let by = cx.hidden_files();
        (!by.is_empty()).then(|| Self { by, root: root.clone() })
    }

    fn hides(&self, folder: &Path, name: &OsStr) -> bool {
        let path = AbsPath::lexical(&self.root.as_path().join(folder).join(name));
        self.by.iter().any(|hidden| hidden.hides(&path))
    }
}

/// What could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Missed(Mutex<(u64, Vec<String>)>);

impl Missed {
    pub(super) fn add(&self, path: &Path) {
        self.push(format!("`{}`", names::show_on_a_line(path)));
    }

    pub(super) fn add_because(&self, path: &Path, why: &str) {
        self.push(format!("`{}` ({why})", names::show_on_a_line(path)));
    }

    fn push(&self, named: String) {
        let mut missed = self.0.lock();
        missed.0 += 1;
        if missed.1.len() < MAX_NAMED {
            missed.1.push(named);
            missed.1.sort();
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
    /// How many.
    pub count: u64,
    /// Some of them, as they are shown.
    pub named: Vec<String>,
}

impl Unreadable {
    /// What to tell of them.
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
    /// Opens it again if it is not open any more. Nothing is followed on the way.
    fn handle(&self) -> Result<Arc<OpenFolder>, PathErrorKind> {
        match (&self.kept, &self.above, self.below.file_name()) {
            (Some(handle), ..) => Ok(handle.clone()),
            (None, Some(above), Some(name)) => above.handle()?.folder(name).map(Arc::new),
            _ => Err(PathErrorKind::NotFound),
        }
    }
}

/// A folder that was read, and the first of its files.
struct Expanded {
    folder: Arc<Folder>,
    handle: Arc<OpenFolder>,
    names: Vec<Name>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(rules: &'a Rules, missed: &'a Missed) -> Self {
        Self { rules, missed, from: None, all_kinds: false, batch: BATCH, hidden: None }
    }

    /// The first step: opens the folder and reads the ignore files above it, as far as the workspace goes.
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

    /// The rule that leaves a path below a folder out, or a folder on the way, and the file that it is in.
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

    /// Takes a step: what comes up further on is published, and `visit` sees the files.
    pub(super) fn step<F>(
        &self,
        step: Step,
        publish: &Publish<'_, WalkKey, Step>,
        visit: impl FnOnce(&Folder, &OpenFolder, &[Name]) -> Done<WalkKey, F>,
    ) -> Done<WalkKey, F> {
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
            None => Done { found: Vec::new(), looked: 0, rest: None },
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
            // Gone, or something else by now.
            Err(PathErrorKind::NotFound | PathErrorKind::LinkAppeared) => return None,
            Err(_) => {
                self.missed.add(&below);
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

    /// Reads a folder: its folders and most of its files are published, the first of its files come back.
    fn expand(
        &self,
        mut folder: Folder,
        handle: Arc<OpenFolder>,
        publish: &Publish<'_, WalkKey, Step>,
    ) -> Option<Expanded> {
        let Ok(entries) = handle.names() else {
            self.missed.add(&folder.below);
            return None;
        };
        folder.level = self.rules.level(&handle, &entries, &folder.anchored, folder.level.as_ref());
        let (mut files, folders) = self.sorted_out(&folder, entries);
        let folder = Arc::new(folder);
        let below = |name: OsString| {
            ((child_key(&folder.key, &name), OsString::new()), Step::Folder { parent: folder.clone(), name })
        };
        let mut more: Vec<(WalkKey, Step)> = folders.into_iter().map(below).collect();
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

    /// The files that are looked at, by name, and the folders that are gone into.
    fn sorted_out(&self, folder: &Folder, entries: Vec<Name>) -> (Vec<Name>, Vec<OsString>) {
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
            let is_hidden = |hidden: &Hidden| !is_folder && hidden.hides(&folder.below, &entry.name);
            if out || self.hidden.as_ref().is_some_and(is_hidden) {
                continue;
            }
            if is_folder && self.rules.reaches(depth + 1) && !self.is_before(&folder.key, &entry.name) {
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

    /// Whether everything in a folder comes before the place to begin with.
    fn is_before(&self, parent: &[u8], name: &OsStr) -> bool {
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
