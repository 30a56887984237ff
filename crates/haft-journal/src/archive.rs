//! Storing content for undo: small content inline in the record, a small difference as a delta, large content in a file of its
//! own, each once. It knows nothing of steps.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};

use haft_sandbox::{
    AbsPath, ChangeError, ChangeErrorKind, Durability, Hash, State, Store, TreeEntry, Workspace,
};

use super::Result;
use super::content::{Content, Splice};
use super::log::Log;
use super::record::{Digest, Part, Snapshot, Storage, Text};

/// Largest content that is stored inline in the record.
const MAX_INLINE: usize = 256 << 10;

/// Largest new content that is stored as well, so that it can be shown later. Larger content is stored only when it is
/// replaced in turn.
pub(super) const MAX_NEW_CONTENT: u64 = MAX_INLINE as u64;

/// Longest delta chain that is written; after that a content is stored in full.
const MAX_CHAIN: u32 = 16;
/// Most parts of a delta.
const MAX_PARTS: usize = 64;
/// Most parts of a delta of content that is too large to be stored in full.
const MAX_PARTS_BOTH: usize = 10_000;

/// Most bytes of content in one record.
const MAX_RECORD_CONTENT: usize = 4 << 20;

/// Stores the content that one record refers to.
pub(super) struct Archive<'a> {
    pub(super) log: &'a mut Log,
    /// Content of the record itself.
    pub(super) inline: Vec<u8>,
    /// Large content, to be written to files of their own.
    pub(super) blobs: HashMap<Hash, Vec<u8>>,
    /// Existing blobs at the base of a delta chain, which must be as durable as the record.
    pub(super) required_blobs: HashSet<Hash>,
    pub(super) notes: Vec<String>,
    /// Where content of this record is stored.
    stored: HashMap<Hash, Storage>,
    /// How many more bytes this record may store.
    budget: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn new(log: &'a mut Log) -> Self {
        let budget = (log.limits.bytes / 4).max(log.limits.file);
        Self {
            log,
            inline: Vec::new(),
            blobs: HashMap::new(),
            required_blobs: HashSet::new(),
            notes: Vec::new(),
            stored: HashMap::new(),
            budget,
        }
    }

    /// Largest content that can be stored in full.
    pub(super) fn max_size(&self) -> u64 {
        self.log.limits.file.min(self.budget)
    }

    /// Largest old content of a command that becomes a blob; it need not fit into memory with others.
    pub(super) fn max_blob(&self) -> u64 {
        self.budget
    }

    /// Whether content of this size still fits into the record itself.
    pub(super) fn has_inline_room(&self, size: u64) -> bool {
        self.inline.len() as u64 + size <= MAX_RECORD_CONTENT as u64
    }

    /// Counts content that the caller stores as a blob.
    pub(super) fn spend(&mut self, size: u64) {
        self.budget = self.budget.saturating_sub(size);
    }

    /// Stores content, unless it is stored already or too large.
    pub(super) fn store(&mut self, content: &[u8], hash: &Hash) -> Result<Storage> {
        if let Some(storage) = self.already_stored(hash) {
            return Ok(storage);
        }
        let size = content.len() as u64;
        if size > self.max_size() {
            return Ok(Storage::None);
        }
        self.budget -= size;
        if content.len() > MAX_INLINE || self.inline.len() + content.len() > MAX_RECORD_CONTENT {
            self.blobs.insert(*hash, content.to_vec());
            return Ok(Storage::Blob);
        }
        let storage = Storage::Inline { at: self.append(content), length: size };
        self.stored.insert(*hash, storage.clone());
        Ok(storage)
    }

    /// Stores content as a delta to the content that it replaces. `None` unless that is stored in the same segment, the delta
    /// is small and the chain is short.
    pub(super) fn store_delta(&mut self, content: &Content, hash: &Hash, replaced: &Hash) -> Option<Storage> {
        if let Some(storage) = self.already_stored(hash) {
            return Some(storage);
        }
        let splices = content.splices();
        let new: usize = splices.iter().map(|splice| splice.new.len()).sum();
        let is_in_record = self.stored.contains_key(replaced) || self.blobs.contains_key(replaced);
        let chain = self.log.chain_length(replaced).or(is_in_record.then_some(0));
        let fits = !splices.is_empty() && splices.len() <= MAX_PARTS && new as u64 <= content.len() / 4;
        if !fits
            || chain.is_none_or(|chain| chain >= MAX_CHAIN)
            || self.inline.len() + new > MAX_RECORD_CONTENT
        {
            return None;
        }
        Some(self.forward_delta(splices, replaced))
    }

    /// Stores new content and the content that it replaces each as a delta to the other: enough to undo and redo while the
    /// file holds one of them, however large they are. `None` if the deltas are too large.
    pub(super) fn store_both_deltas(
        &mut self,
        content: &Content,
        hash: &Hash,
        replaced: &Hash,
    ) -> Option<(Storage, Storage)> {
        let splices = content.splices();
        let bytes: usize = splices.iter().map(|splice| splice.removed.len() + splice.new.len()).sum();
        let fits = !splices.is_empty() && splices.len() <= MAX_PARTS_BOTH;
        if !fits || self.inline.len() + bytes > MAX_RECORD_CONTENT {
            return None;
        }
        let mut parts = Vec::with_capacity(splices.len());
        // The offset of a splice in the new content is shifted by the lengths of those before it.
        let (mut removed, mut added) = (0, 0);
        for splice in splices {
            let from = self.append(&splice.removed);
            let (length, replaced) = (splice.removed.len() as u64, splice.new.len() as u64);
            parts.push(Part { at: splice.at + added - removed, removed: replaced, from, length });
            (removed, added) = (removed + length, added + replaced);
        }
        let before = Storage::Delta { of: Digest(*hash), parts };
        Some((before, self.forward_delta(splices, replaced)))
    }

    fn forward_delta(&mut self, splices: &[Splice], replaced: &Hash) -> Storage {
        let mut parts = Vec::with_capacity(splices.len());
        for Splice { at, removed, new } in splices {
            let (removed, length) = (removed.len() as u64, new.len() as u64);
            parts.push(Part { at: *at, removed, from: self.append(new), length });
        }
        Storage::Delta { of: Digest(*replaced), parts }
    }

    /// Copies the parts of another record's delta into this one, which may outlive it. `None` if that record is gone.
    pub(super) fn copy_parts(&mut self, segment: u32, of: Digest, parts: &[Part]) -> Result<Option<Storage>> {
        let mut copies = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(bytes) = self.log.part(segment, part)? else { return Ok(None) };
            copies.push(Part { from: self.append(&bytes), ..*part });
        }
        Ok(Some(Storage::Delta { of, parts: copies }))
    }

    /// Where content is stored in this segment or record, if it is.
    fn already_stored(&mut self, hash: &Hash) -> Option<Storage> {
        match self.log.stored_in_active(hash) {
            Some((storage, None)) => return Some(storage),
            Some((storage, Some(blob))) if self.log.has_blob(&blob) => {
                self.required_blobs.insert(blob);
                return Some(storage);
            }
            _ => {}
        }
        self.stored.get(hash).cloned()
    }

    /// Appends bytes to the record's content and returns their offset in the segment.
    fn append(&mut self, bytes: &[u8]) -> u64 {
        let at = self.log.next_content_offset() + self.inline.len() as u64;
        self.inline.extend(bytes);
        at
    }

    /// A snapshot of a state, with its content stored.
    pub(super) fn snapshot_file(
        &mut self,
        workspace: &Workspace,
        place: &AbsPath,
        found: &State,
    ) -> Result<Snapshot> {
        let mut snapshot = Snapshot::of(found);
        if let Snapshot::File { hash, size, storage, .. } = &mut snapshot {
            *storage = self.store_file(workspace, place, *hash, *size)?;
        }
        Ok(snapshot)
    }

    /// A snapshot of a file whose content the caller has, with that content stored.
    pub(super) fn snapshot_with_content(
        &mut self,
        found: &State,
        hash: &Hash,
        content: &[u8],
    ) -> Result<Snapshot> {
        let mut snapshot = Snapshot::of(found);
        if let Snapshot::File { storage, .. } = &mut snapshot {
            *storage = self.store(content, hash)?;
        }
        Ok(snapshot)
    }

    fn note_not_stored(&mut self, workspace: &Workspace, place: &AbsPath, size: u64) {
        let shown = workspace.display(place);
        self.notes.push(format!(
            "`{shown}` ({size} bytes) is too large for the journal to keep: undo cannot bring its old content back"
        ));
    }

    fn store_file(
        &mut self,
        workspace: &Workspace,
        place: &AbsPath,
        hash: Option<Digest>,
        size: u64,
    ) -> Result<Storage> {
        let storage = match hash {
            Some(Digest(hash)) if size <= self.max_size() => match self.already_stored(&hash) {
                Some(storage) => storage,
                None => self.store(&read_unchanged(workspace, place, &hash, size)?, &hash)?,
            },
            _ => Storage::None,
        };
        if storage == Storage::None {
            self.note_not_stored(workspace, place, size);
        }
        Ok(storage)
    }

    /// A snapshot of a whole tree, with its content stored.
    pub(super) fn snapshot_tree(
        &mut self,
        workspace: &Workspace,
        root: &AbsPath,
        tree: &[TreeEntry],
    ) -> Result<Snapshot> {
        let mut entries = Vec::with_capacity(tree.len());
        for entry in tree {
            let place = AbsPath::lexical(&root.as_path().join(&entry.below));
            if let State::Special(kind) = &entry.state {
                let kind = ChangeErrorKind::Unkeepable(*kind);
                return Err(ChangeError::new(workspace.display(&place), kind).into());
            }
            let snapshot = self.snapshot_file(workspace, &place, &entry.state)?;
            entries.push((Text::of(&entry.below), snapshot));
        }
        Ok(Snapshot::Tree(entries))
    }
}

/// Writes a blob, unless it exists. An existing file is verified, since a power cut may have truncated it, and synced, since
/// it may have been written without that.
pub(super) fn write_blob(
    blobs: &Store,
    hash: &Hash,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let name = hash.to_string();
    let is_intact = blobs.read(&name)?.is_some_and(|found| Hash::of(&found) == *hash);
    match (durability, is_intact) {
        (Durability::Full, true) => blobs.sync(&name),
        (Durability::Full, false) => blobs.write(&name, content),
        (Durability::Fast, true) => Ok(()),
        (Durability::Fast, false) => blobs.write_fast(&name, content),
    }
}

/// Reads a file that must still have this hash.
fn read_unchanged(workspace: &Workspace, place: &AbsPath, hash: &Hash, size: u64) -> Result<Vec<u8>> {
    let open = workspace.open_file(place).map_err(ChangeError::from)?;
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let failed = |error: std::io::Error| ChangeError::new(workspace.display(place), error);
    open.file.take(size.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if Hash::of(&content) != *hash {
        let kind = ChangeErrorKind::Conflict("content that is just being changed".to_owned());
        return Err(ChangeError::new(workspace.display(place), kind).into());
    }
    Ok(content)
}

/// Largest file that is shown or merged. Larger ones are only restored.
pub(super) const MAX_SHOWN: u64 = 256 << 20;

/// Content and its hash.
pub(super) type HashedContent = (Hash, Vec<u8>);

/// The current content of a file; `None` if it is not a file or too large to be shown.
pub(super) fn read_current(workspace: &Workspace, place: &AbsPath) -> Option<HashedContent> {
    let open = workspace.open_file(place).ok().filter(|open| open.stat.size <= MAX_SHOWN)?;
    let mut content = Vec::with_capacity(usize::try_from(open.stat.size).ok()?);
    open.file.take(MAX_SHOWN).read_to_end(&mut content).ok()?;
    Some((Hash::of(&content), content))
}
