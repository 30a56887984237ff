//! The files that the model has seen, so that it never changes a file whose content it does not know. Content decides,
//! not time: a file that was only touched is unchanged, and one that was changed within a tick of the clock is changed.
//! Contents live in a cache with an upper limit; beyond it only hashes stay. Knows nothing of tools.

use std::collections::HashMap;

use bytes::Bytes;
use haft_sandbox::{AbsPath, Hash, Stamp, Store, Workspace, names};
use serde::{Deserialize, Serialize};

use super::ShownLines;

/// The most bytes of content in memory. Beyond it, the least recently seen files keep only their hash.
const MAX_CACHED: usize = 32 << 20;
/// The most bytes of content on disk.
const MAX_STORED: u64 = 64 << 20;

/// What the model has seen of a file, and the file's stamp at that time.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    stamp: Stamp,
    known: Known,
    lines: ShownLines,
}

#[derive(Clone, Debug, PartialEq)]
enum Known {
    Content(Bytes),
    Hash(Hash),
    /// Neither content nor hash. Only the stamp shows whether the file changed.
    Part,
}

impl Seen {
    /// All lines of a file, with its content.
    pub fn content(stamp: Stamp, content: Bytes) -> Self {
        Self { stamp, known: Known::Content(content), lines: ShownLines::all() }
    }

    /// All lines of a file, with the hash of its content.
    pub fn hash(stamp: Stamp, hash: Hash) -> Self {
        Self { stamp, known: Known::Hash(hash), lines: ShownLines::all() }
    }

    /// All lines of a file that is too large to be hashed. The stamp must be one that the next change is sure to alter.
    pub fn part(stamp: Stamp) -> Self {
        Self { stamp, known: Known::Part, lines: ShownLines::all() }
    }

    /// Restricts what was seen to some lines. The version of the file is known by its content all the same.
    #[must_use]
    pub fn only(self, lines: ShownLines) -> Self {
        Self { lines, ..self }
    }

    /// The file's stamp when the model saw it.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    fn known_hash(&self) -> Option<Hash> {
        match &self.known {
            Known::Content(content) => Some(Hash::of(content)),
            Known::Hash(hash) => Some(*hash),
            Known::Part => None,
        }
    }

    fn cached_bytes(&self) -> usize {
        match &self.known {
            Known::Content(content) => content.len(),
            _ => 0,
        }
    }

    fn is_same_as(&self, now: &Seen) -> bool {
        match (&self.known, &now.known) {
            (Known::Content(was), Known::Content(is)) => was == is,
            (Known::Part, _) | (_, Known::Part) => self.stamp == now.stamp,
            _ => self.known_hash() == now.known_hash(),
        }
    }
}

/// How a file's current content compares with what the model has seen of it.
#[derive(Clone, Debug, PartialEq)]
pub enum SeenStatus {
    /// The model has not seen the file.
    Unseen,
    /// The file is as the model saw it.
    Current,
    /// The file has changed since the model saw it.
    Changed {
        /// The content that the model saw, if it is still cached.
        was: Option<Bytes>,
    },
}

/// The saved form of what the model has seen of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSeen {
    /// The file.
    pub path: String,
    /// The file's stamp when the model saw it.
    pub stamp: [u64; 5],
    /// The hash of the content, unless the file is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The lines that the model was shown.
    #[serde(default = "ShownLines::all", skip_serializing_if = "ShownLines::is_all")]
    pub lines: ShownLines,
}

/// The files that the model has seen.
#[derive(Default)]
pub(crate) struct SeenFiles {
    files: HashMap<AbsPath, (u64, Seen)>,
    /// Rises with every insertion, to order files by when they were last seen.
    clock: u64,
    /// Bytes of content in memory.
    cached: usize,
    contents: Option<Store>,
}

impl SeenFiles {
    /// Restores what an earlier run has seen. Files that no longer exist are skipped.
    pub(crate) fn resume(saved: &[SavedSeen], contents: Option<Store>, workspace: &Workspace) -> Self {
        let mut seen = Self { contents, ..Self::default() };
        for SavedSeen { path, stamp, hash, lines } in saved {
            let Ok(place) = workspace.resolve(workspace.root(), path) else { continue };
            if place.stat.is_none() {
                continue;
            }
            let known = match hash.as_deref().map(Hash::parse) {
                Some(Some(hash)) => Known::Hash(hash),
                Some(None) => continue,
                None => Known::Part,
            };
            seen.insert(place.path, Seen { stamp: Stamp::from_words(*stamp), known, lines: lines.clone() });
        }
        seen
    }

    /// Adds what a read has shown. Lines of the same version that were shown before count, too.
    pub(crate) fn add(&mut self, path: AbsPath, seen: Seen) {
        let lines = match self.files.get(&path) {
            Some((_, before)) if before.is_same_as(&seen) => before.lines.with(&seen.lines),
            _ => seen.lines.clone(),
        };
        self.insert(path, seen.only(lines));
    }

    pub(crate) fn lines(&self, path: &AbsPath) -> ShownLines {
        self.files.get(path).map_or_else(ShownLines::none, |(_, seen)| seen.lines.clone())
    }

    pub(crate) fn insert(&mut self, path: AbsPath, seen: Seen) {
        self.clock += 1;
        self.cached += seen.cached_bytes();
        if let Some((_, before)) = self.files.insert(path, (self.clock, seen)) {
            self.cached -= before.cached_bytes();
        }
        if self.cached > MAX_CACHED {
            self.evict();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.files.clear();
        self.cached = 0;
    }

    pub(crate) fn remove(&mut self, path: &AbsPath) {
        if let Some((_, before)) = self.files.remove(path) {
            self.cached -= before.cached_bytes();
        }
    }

    /// Moves the entries of a path and of everything below it to another path.
    pub(crate) fn rename(&mut self, from: &AbsPath, to: &AbsPath) {
        self.remove(to);
        let moved: Vec<AbsPath> = self.files.keys().filter(|path| path.is_within(from)).cloned().collect();
        for path in moved {
            if let (Some(entry), Ok(below)) =
                (self.files.remove(&path), path.as_path().strip_prefix(from.as_path()))
            {
                let new_path = if below.as_os_str().is_empty() {
                    to.clone()
                } else {
                    AbsPath::lexical(&to.as_path().join(below))
                };
                self.files.insert(new_path, entry);
            }
        }
    }

    pub(crate) fn stamp(&self, path: &AbsPath) -> Option<Stamp> {
        self.files.get(path).map(|(_, seen)| seen.stamp)
    }

    pub(crate) fn standing(&self, path: &AbsPath, now: &Seen) -> SeenStatus {
        let Some((_, seen)) = self.files.get(path) else { return SeenStatus::Unseen };
        if seen.is_same_as(now) {
            return SeenStatus::Current;
        }
        let was = match &seen.known {
            Known::Content(content) => Some(content.clone()),
            Known::Hash(hash) => self.stored(hash),
            Known::Part => None,
        };
        SeenStatus::Changed { was }
    }

    fn stored(&self, hash: &Hash) -> Option<Bytes> {
        let content = self.contents.as_ref()?.read(&hash.to_string()).ok()??;
        (Hash::of(&content) == *hash).then(|| content.into())
    }

    /// Evicts the content of the least recently seen files until the cache is half full. Their hashes stay.
    fn evict(&mut self) {
        let mut oldest: Vec<&mut (u64, Seen)> = self.files.values_mut().collect();
        oldest.sort_by_key(|(when, _)| *when);
        for (_, seen) in oldest {
            if self.cached <= MAX_CACHED / 2 {
                break;
            }
            if let Some(hash) = seen.known_hash() {
                self.cached -= seen.cached_bytes();
                seen.known = Known::Hash(hash);
            }
        }
    }

    /// The saved form of all entries. Also writes the contents to the store, if there is one: without them a later run
    /// still notices every change, but cannot show the content before it.
    pub(crate) fn save(&self) -> Vec<SavedSeen> {
        let mut saved: Vec<SavedSeen> =
            self.files.iter().map(|(path, (_, seen))| self.saved(path, seen)).collect();
        saved.sort_by(|one, other| one.path.cmp(&other.path));
        if let Some(store) = &self.contents {
            let _ = sweep(store);
        }
        saved
    }

    fn saved(&self, path: &AbsPath, seen: &Seen) -> SavedSeen {
        let hash = seen.known_hash();
        if let (Some(store), Some(hash), Known::Content(content)) = (&self.contents, &hash, &seen.known) {
            let name = hash.to_string();
            if !store.has(&name).unwrap_or(false) {
                let _ = store.write_fast(&name, content);
            }
        }
        SavedSeen {
            path: names::show(path.as_path()),
            stamp: seen.stamp.as_words(),
            hash: hash.map(|hash| hash.to_string()),
            lines: seen.lines.clone(),
        }
    }
}

/// Removes the oldest contents from the store until it is within its limit.
fn sweep(store: &Store) -> std::io::Result<()> {
    let mut entries = store.entries()?;
    let mut bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    entries.sort_by_key(|entry| entry.modified);
    for entry in entries {
        if bytes <= MAX_STORED {
            break;
        }
        store.remove(&entry.name)?;
        bytes -= entry.size;
    }
    Ok(())
}
