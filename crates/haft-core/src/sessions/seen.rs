//! What the model has seen of each file, so that it never changes what it does not know. Content decides,
//! not time: a file that was only touched is unchanged, and one that was changed within a tick of the clock
//! is not. Knows files by path, and nothing of tools.

use std::collections::HashMap;

use bytes::Bytes;
use haft_sandbox::{AbsPath, Hash, Stamp, Store, Workspace, names};
use serde::{Deserialize, Serialize};

/// As much content is held in memory; of what was seen longest ago only the hash stays.
const MAX_HELD: usize = 32 << 20;
/// As much content is kept on disk between runs.
const MAX_KEPT: u64 = 64 << 20;

/// What was seen of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    stamp: Stamp,
    known: Known,
}

#[derive(Clone, Debug, PartialEq)]
enum Known {
    Content(Bytes),
    Hash(Hash),
    /// A part of it. The stamp tells whether it changed.
    Part,
}

impl Seen {
    /// All of it, and this is it.
    pub fn content(stamp: Stamp, content: Bytes) -> Self {
        Self { stamp, known: Known::Content(content) }
    }

    /// All of it, and this is its hash.
    pub fn hash(stamp: Stamp, hash: Hash) -> Self {
        Self { stamp, known: Known::Hash(hash) }
    }

    /// A part of a file that is too large to be read whole for that. The stamp must be one that the next
    /// change is sure to change.
    pub fn part(stamp: Stamp) -> Self {
        Self { stamp, known: Known::Part }
    }

    /// The file's state when it was seen.
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

    fn held(&self) -> usize {
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

/// How a file stands to what the model has seen of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// The model has not seen it.
    Unseen,
    /// It is as the model saw it.
    Current,
    /// It was changed since.
    Changed {
        /// What the model saw, if that is still known.
        was: Option<Bytes>,
    },
}

/// What is kept of a file between runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSeen {
    /// The file.
    pub path: String,
    /// Its state when it was seen.
    pub stamp: [u64; 5],
    /// The hash of its content, if all of it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// The files that the model has seen.
#[derive(Default)]
pub(crate) struct SeenFiles {
    files: HashMap<AbsPath, (u64, Seen)>,
    /// Counts what is seen, to tell what was seen longest ago.
    clock: u64,
    held: usize,
    contents: Option<Store>,
}

impl SeenFiles {
    /// What an earlier run has seen. A file that is gone is forgotten.
    pub(crate) fn resume(saved: &[SavedSeen], contents: Option<Store>, workspace: &Workspace) -> Self {
        let mut seen = Self { contents, ..Self::default() };
        for SavedSeen { path, stamp, hash } in saved {
            let Ok(place) = workspace.resolve(workspace.root(), path) else { continue };
            if place.stat.is_none() {
                continue;
            }
            let known = match hash.as_deref().map(Hash::parse) {
                Some(Some(hash)) => Known::Hash(hash),
                Some(None) => continue,
                None => Known::Part,
            };
            seen.insert(place.path, Seen { stamp: Stamp::from_words(*stamp), known });
        }
        seen
    }

    pub(crate) fn insert(&mut self, path: AbsPath, seen: Seen) {
        self.clock += 1;
        self.held += seen.held();
        if let Some((_, before)) = self.files.insert(path, (self.clock, seen)) {
            self.held -= before.held();
        }
        if self.held > MAX_HELD {
            self.let_go();
        }
    }

    pub(crate) fn remove(&mut self, path: &AbsPath) {
        if let Some((_, before)) = self.files.remove(path) {
            self.held -= before.held();
        }
    }

    /// What was at a place or below it is now at another.
    pub(crate) fn rename(&mut self, from: &AbsPath, to: &AbsPath) {
        self.remove(to);
        let moved: Vec<AbsPath> = self.files.keys().filter(|path| path.is_within(from)).cloned().collect();
        for path in moved {
            if let (Some(entry), Ok(below)) =
                (self.files.remove(&path), path.as_path().strip_prefix(from.as_path()))
            {
                let now_at = if below.as_os_str().is_empty() {
                    to.clone()
                } else {
                    AbsPath::lexical(&to.as_path().join(below))
                };
                self.files.insert(now_at, entry);
            }
        }
    }

    pub(crate) fn stamp(&self, path: &AbsPath) -> Option<Stamp> {
        self.files.get(path).map(|(_, seen)| seen.stamp)
    }

    pub(crate) fn standing(&self, path: &AbsPath, now: &Seen) -> Standing {
        let Some((_, seen)) = self.files.get(path) else { return Standing::Unseen };
        if seen.is_same_as(now) {
            return Standing::Current;
        }
        let was = match &seen.known {
            Known::Content(content) => Some(content.clone()),
            Known::Hash(hash) => self.kept(hash),
            Known::Part => None,
        };
        Standing::Changed { was }
    }

    fn kept(&self, hash: &Hash) -> Option<Bytes> {
        let content = self.contents.as_ref()?.read(&hash.to_string()).ok()??;
        (Hash::of(&content) == *hash).then(|| content.into())
    }

    /// Lets go of half of the content that is held, that of the files seen longest ago.
    fn let_go(&mut self) {
        let mut oldest: Vec<&mut (u64, Seen)> = self.files.values_mut().collect();
        oldest.sort_by_key(|(when, _)| *when);
        for (_, seen) in oldest {
            if self.held <= MAX_HELD / 2 {
                break;
            }
            if let Some(hash) = seen.known_hash() {
                self.held -= seen.held();
                seen.known = Known::Hash(hash);
            }
        }
    }

    /// What to keep for a later run. The content is kept as well, as far as there is a place for it: without
    /// it a later run still notices every change, it only cannot show what it was.
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
        }
    }
}

/// Removes the oldest contents where there are too many.
fn sweep(store: &Store) -> std::io::Result<()> {
    let mut entries = store.entries()?;
    let mut bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    entries.sort_by_key(|entry| entry.modified);
    for entry in entries {
        if bytes <= MAX_KEPT {
            break;
        }
        store.remove(&entry.name)?;
        bytes -= entry.size;
    }
    Ok(())
}
