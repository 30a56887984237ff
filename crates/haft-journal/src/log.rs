//! The files of the journal: numbered, append-only segments, and large contents in blobs beside them, named by their hash.
//! Every method is called with the lock held, so no other process is writing, and an unfinished change belongs to a process
//! that has died. Old segments are read only when they are needed.

mod rebuild;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::time::SystemTime;

use haft_sandbox::{Hash, OneFlush, ReusableLock, Store, StoreEntry, start_writing};

use super::record::{self, HEAD, Intent, Outcome, Record};
use super::{JournalError, Limits};

/// Suffix of segment files.
const SUFFIX: &str = ".log";

/// Longest delta chain; a longer one is treated as corruption.
const LONGEST_CHAIN: u32 = 64;

/// How many bytes of zeros are allocated at a time for records to come.
const PREALLOCATION: usize = 256 << 10;

/// One numbered change, as the log has it.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) intent: Intent,
    pub(super) segment: u32,
    pub(super) outcome: Option<Outcome>,
}

/// An in-memory index of the files, as far as this process has read them.
#[derive(Debug)]
pub(super) struct Log {
    store: Store,
    blobs: Store,
    pub(super) lock: ReusableLock,
    pub(super) limits: Limits,
    pub(super) entries: BTreeMap<u64, LogEntry>,
    /// Numbers without a recorded outcome.
    pub(super) unfinished: BTreeSet<u64>,
    segments: BTreeMap<u32, Segment>,
    /// Older segments of which only the first record was read, the newest last. All segments after these are indexed.
    unread: Vec<u32>,
    /// Outcomes of numbers in unread segments.
    outcomes: HashMap<u64, Outcome>,
    /// For each number, the numbers that undid it, whatever their outcome.
    undos: HashMap<u64, Vec<u64>>,
    /// For each content, the numbers that refer to it.
    users: HashMap<Hash, Vec<u64>>,
    active: Option<Active>,
    next: u64,
    /// Bytes written since the limits were last checked.
    bytes_since_check: u64,
    /// Whether a sync of the active segment failed, so that the next change must start another one.
    distrusted: bool,
    /// Whether a segment was closed since the files were loaded. Reloading drops its index.
    rolled_over: bool,
    /// Whether the files were loaded anew, so that the mark in the lock's file may be out of date.
    pub(super) was_reloaded: bool,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Default)]
struct Segment {
    bytes: u64,
    entries: u64,
    /// The number of its first entry, or of the next one if it has none.
    first: u64,
    newest: u64,
    /// Time of the newest entry, in milliseconds since 1970.
    time: u64,
    blob_bytes: u64,
}

/// The segment to which records are appended.
#[derive(Debug)]
struct Active {
    id: u32,
    file: Arc<File>,
    /// Offset of the next record.
    end: u64,
    /// Length of the file, with preallocated zeros. Overwriting these changes no metadata, so a sync is one write instead of
    /// a commit of the file system's own journal.
    allocated: u64,
    flush: OneFlush,
    /// How contents are stored in it.
    contents: HashMap<Hash, StoredContent>,
}

/// How a content is stored.
#[derive(Clone, Debug)]
struct StoredContent {
    storage: record::Storage,
    /// Length of its delta chain.
    chain: u32,
    /// The blob at the base of its delta chain.
    blob: Option<Hash>,
}

impl Active {
    fn new(id: u32, file: File) -> Self {
        let file = Arc::new(file);
        let flush = OneFlush::new(file.clone());
        Self { id, file, end: 0, allocated: 0, flush, contents: HashMap::new() }
    }

    /// Remembers how a content is stored, preferring the shortest delta chain.
    fn index(&mut self, hash: &Hash, storage: &record::Storage) {
        let (chain, blob) = match storage {
            record::Storage::Delta { of, .. } => match self.contents.get(&of.0) {
                Some(base) => (base.chain + 1, base.blob),
                None => (LONGEST_CHAIN, None),
            },
            record::Storage::Blob => (0, Some(*hash)),
            _ => (0, None),
        };
        if self.contents.get(hash).is_none_or(|known| chain < known.chain) {
            self.contents.insert(*hash, StoredContent { storage: storage.clone(), chain, blob });
        }
    }
}

impl Log {
    pub(super) fn new(store: Store, limits: Limits) -> Self {
        Self {
            blobs: store.folder("blobs"),
            lock: store.latch(super::LOCK),
            store,
            limits,
            entries: BTreeMap::new(),
            unfinished: BTreeSet::new(),
            segments: BTreeMap::new(),
            unread: Vec::new(),
            outcomes: HashMap::new(),
            undos: HashMap::new(),
            users: HashMap::new(),
            active: None,
            next: 1,
            bytes_since_check: u64::MAX,
            distrusted: false,
            rolled_over: false,
            was_reloaded: false,
            notes: Vec::new(),
        }
    }

    /// Reads records that other processes have written since. Reloads all files if segments were added, removed or truncated.
    pub(super) fn catch_up(&mut self) -> io::Result<()> {
        let Some(active) = self.active.as_mut().filter(|_| !self.rolled_over) else {
            return self.load();
        };
        let found = active.file.metadata()?;
        let next = active.id + 1;
        if found.nlink() == 0 || found.size() < active.end || self.store.has(&segment_name(next))? {
            return self.load();
        }
        if found.size() != active.allocated {
            // Another process has truncated it, or allocated more.
            active.allocated = found.size();
            active.flush.remapped();
        }
        let mut next = [0; 1];
        let (id, end) = (active.id, active.end);
        match active.file.read_at(&mut next, end)? {
            1 if next != [0] => self.read_from(id, end),
            _ => Ok(()),
        }
    }

    /// Loads the newest segment and the first record of each older one. Reads all of them if something may be unfinished, or
    /// if a segment does not start as it should.
    fn load(&mut self) -> io::Result<()> {
        self.entries.clear();
        self.unfinished.clear();
        self.segments.clear();
        self.unread.clear();
        self.outcomes.clear();
        self.undos.clear();
        self.users.clear();
        self.rolled_over = false;
        self.was_reloaded = true;
        self.active = None;
        let entries = self.store.entries()?;
        let mut found: Vec<(u32, &StoreEntry)> =
            entries.iter().filter_map(|entry| Some((segment_id(&entry.name)?, entry))).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        let Some((newest, _)) = found.pop() else { return self.start_segment(1) };
        // Without the settled mark, unfinished entries may be in any segment.
        let mark = self.store.read(super::LOCK)?;
        let is_settled = mark.is_some_and(|mark| mark.first() == Some(&super::SETTLED));
        let mut next = self.first_number(newest)?.filter(|_| is_settled);
        for (id, entry) in found.iter().rev() {
            let first = self.first_number(*id)?;
            let (Some(first), Some(after)) = (first, next) else {
                next = None;
                break;
            };
            let time = entry.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let (entries, newest) = (after.saturating_sub(first), after.saturating_sub(1));
            let segment = Segment { bytes: entry.size, entries, first, newest, time, blob_bytes: 0 };
            self.segments.insert(*id, segment);
            next = Some(first);
        }
        self.unread = found.iter().map(|(id, _)| *id).collect();
        let file = self.store.open_log(&segment_name(newest))?;
        self.active = Some(Active::new(newest, file));
        self.segments.insert(newest, Segment::default());
        self.read_from(newest, 0)?;
        if next.is_none() {
            self.read_all()?;
        }
        Ok(())
    }

    /// The number that a segment starts with, if its first record is intact.
    fn first_number(&self, id: u32) -> io::Result<Option<u64>> {
        let mut head = [0; 256];
        let read = self.store.open_log(&segment_name(id))?.read_at(&mut head, 0)?;
        Ok(match record::decode(&head[..read]) {
            Some((Record::Start { next }, _)) => Some(next),
            _ => None,
        })
    }

    /// Reads the newest unread segment. False if there is none.
    pub(super) fn read_older(&mut self) -> io::Result<bool> {
        let Some(id) = self.unread.pop() else { return Ok(false) };
        self.segments.insert(id, Segment::default());
        self.read_from(id, 0)?;
        Ok(true)
    }

    /// Reads all unread segments. False if there are none.
    pub(super) fn read_all(&mut self) -> io::Result<bool> {
        let mut any = false;
        while self.read_older()? {
            any = true;
        }
        Ok(any)
    }

    /// Reads older segments until a number is indexed.
    pub(super) fn read_back_to(&mut self, number: u64) -> io::Result<()> {
        while self
            .unread
            .last()
            .and_then(|id| self.segments.get(id))
            .is_some_and(|next| number <= next.newest)
        {
            self.read_older()?;
        }
        Ok(())
    }

    /// The oldest number of the journal, or the next one if it is empty.
    pub(super) fn oldest(&self) -> u64 {
        match self.unread.first().and_then(|id| self.segments.get(id)) {
            Some(segment) => segment.first,
            None => self.entries.keys().next().copied().unwrap_or(self.next),
        }
    }

    /// Reads the records of a segment from an offset on. Bytes after the last whole record of the newest segment are a torn
    /// write of a process that died, and are truncated.
    fn read_from(&mut self, id: u32, from: u64) -> io::Result<()> {
        let file = match &self.active {
            Some(active) if active.id == id => active.file.clone(),
            _ => self.store.open_log(&segment_name(id))?.into(),
        };
        let size = file.metadata()?.size();
        let mut bytes = vec![0; usize::try_from(size.saturating_sub(from)).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, from)?;
        let at = for_each_record(&bytes, |found| match found {
            Ok(record) => self.index(record, id),
            Err(skipped) => {
                self.notes.push(format!("{skipped} damaged bytes of the journal were skipped"));
            }
        });
        let end = from + at as u64;
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.bytes = end;
        }
        let rest = &bytes[at..];
        let torn = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if torn > 0 {
            let what = if self.is_active(id) { "cut off" } else { "skipped" };
            self.notes.push(format!("{torn} damaged bytes of the journal were {what}"));
        }
        if let Some(active) = self.active.as_mut().filter(|active| active.id == id) {
            active.end = end;
            active.allocated = size;
            active.flush.remapped();
            if torn > 0 {
                active.file.set_len(end)?;
                active.file.sync_all()?;
                active.allocated = end;
            }
        }
        Ok(())
    }

    fn is_active(&self, id: u32) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == id)
    }

    /// Adds a record to the index.
    fn index(&mut self, record: Record, segment: u32) {
        match record {
            Record::Start { next } => {
                self.next = self.next.max(next);
                self.segments.entry(segment).or_default().first = next;
            }
            Record::Outcome { number, outcome } => match self.entries.get_mut(&number) {
                Some(entry) => {
                    entry.outcome = Some(outcome);
                    self.unfinished.remove(&number);
                }
                None => drop(self.outcomes.insert(number, outcome)),
            },
            Record::Intent(intent) => {
                self.next = self.next.max(intent.number + 1);
                let counted = self.segments.entry(segment).or_default();
                counted.entries += 1;
                counted.newest = counted.newest.max(intent.number);
                counted.time = counted.time.max(intent.time);
                intent.for_each_file(&mut |hash, storage, size| {
                    if matches!(storage, record::Storage::Elsewhere(_) | record::Storage::None) {
                        return;
                    }
                    if *storage == record::Storage::Blob {
                        counted.blob_bytes += size;
                    }
                    if let Some(active) = self.active.as_mut().filter(|active| active.id == segment) {
                        active.index(hash, storage);
                    }
                    let numbers = self.users.entry(*hash).or_default();
                    if numbers.last() != Some(&intent.number) {
                        numbers.push(intent.number);
                    }
                });
                if let Some(undone) = intent.undoes {
                    // Segments are read in any order, so keep the numbers sorted.
                    let undos = self.undos.entry(undone).or_default();
                    let at = undos.partition_point(|earlier| *earlier < intent.number);
                    undos.insert(at, intent.number);
                }
                let outcome = self.outcomes.remove(&intent.number);
                if outcome.is_none() {
                    self.unfinished.insert(intent.number);
                }
                self.entries.insert(intent.number, LogEntry { intent, segment, outcome });
            }
        }
    }

    /// The number for the next change.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Offset in the active segment of the next record's content.
    pub(super) fn next_content_offset(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.end) + HEAD as u64
    }

    /// How content is stored in the active segment, if it is, and the blob at the base of its delta chain.
    pub(super) fn stored_in_active(&self, hash: &Hash) -> Option<(record::Storage, Option<Hash>)> {
        let stored = self.active.as_ref()?.contents.get(hash)?;
        let is_usable = stored.chain < LONGEST_CHAIN && stored.storage != record::Storage::Blob;
        is_usable.then(|| (stored.storage.clone(), stored.blob))
    }

    /// Length of the delta chain of content in the active segment, if it is stored there.
    pub(super) fn chain_length(&self, hash: &Hash) -> Option<u32> {
        self.active.as_ref()?.contents.get(hash).map(|stored| stored.chain)
    }

    /// Whether a blob still exists.
    pub(super) fn has_blob(&self, hash: &Hash) -> bool {
        self.blobs.has(&hash.to_string()).unwrap_or(false)
    }

    /// The number that undid this one and is in force, that is, not undone itself.
    pub(super) fn active_undo(&self, number: u64) -> Option<u64> {
        let undos_of = |number: u64| self.undos.get(&number).map_or(&[][..], |undos| undos);
        let is_done = |number| {
            self.entries.get(&number).is_some_and(|entry: &LogEntry| entry.outcome == Some(Outcome::Done))
        };
        // Iterative, since undo, redo, undo... can be nested to any depth. `path` leads from the number to an undo, an undo of
        // that, and so on, each with those of its undos that are still to be checked.
        let mut path = vec![(number, undos_of(number))];
        while let Some((_, rest)) = path.last_mut() {
            if let Some((next, earlier)) = rest.split_last() {
                *rest = earlier;
                if is_done(*next) {
                    path.push((*next, undos_of(*next)));
                }
                continue;
            }
            // No undo of this one is in force, so it is in force itself, and the one before it in the path is not.
            let in_force = path.pop().map(|(number, _)| number);
            path.pop()?;
            if path.is_empty() {
                return in_force;
            }
        }
        None
    }

    /// Appends a record with its content. It is durable after [`Log::sync_before`].
    pub(super) fn append(&mut self, record: Record, content: &[u8]) -> io::Result<()> {
        let mut bytes = record::encode(&record, content)?;
        let record_length = bytes.len();
        let length = record_length as u64;
        let Some(active) = &mut self.active else {
            return Err(io::Error::other("no segment is open"));
        };
        let (id, end) = (active.id, active.end + length);
        let mut written = Err(io::ErrorKind::StorageFull.into());
        if end > active.allocated {
            bytes.resize(record_length + PREALLOCATION, 0);
            written = active.file.write_all_at(&bytes, active.end);
            active.allocated = active.end + bytes.len() as u64;
            bytes.truncate(record_length);
            if written.is_err() {
                // The disk is too full for zeros: try without.
                active.file.set_len(active.end)?;
                active.flush.remapped();
                active.allocated = end;
            }
        }
        if written.is_err() {
            written = active.file.write_all_at(&bytes, active.end);
        }
        if let Err(error) = written {
            // Remove a torn write; the next reader would truncate it as well.
            let _ = active.file.set_len(active.end);
            active.flush.remapped();
            active.allocated = active.end;
            return Err(error);
        }
        active.end = end;
        self.bytes_since_check = self.bytes_since_check.saturating_add(length);
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.bytes = end;
        }
        self.index(record, id);
        Ok(())
    }

    /// Starts writing every record to the disk, without waiting.
    pub(super) fn start_syncing(&self) {
        if let Some(active) = &self.active {
            start_writing(&active.file);
        }
    }

    /// Makes every record durable, at the latest when the caller has synced `next`.
    pub(super) fn sync_before(&self, next: Option<&File>) -> io::Result<()> {
        let Some(active) = &self.active else {
            return Err(io::Error::other("no segment is open"));
        };
        active.flush.sync(active.end, active.allocated, next)
    }

    /// Appends the outcome of a number.
    pub(super) fn record_outcome(&mut self, number: u64, outcome: Outcome) -> io::Result<()> {
        self.append(Record::Outcome { number, outcome }, &[])
    }

    /// The folder of blobs.
    pub(super) fn blobs(&self) -> Store {
        self.blobs.clone()
    }

    /// Tells that the file passed to [`Log::sync_before`] was synced.
    pub(super) fn next_is_synced(&self) {
        if let Some(active) = &self.active {
            active.flush.next_is_synced();
        }
    }

    /// Makes the next change start a new segment if the journal was unusable, or a record may not be on disk: after a
    /// failed sync, a later sync of the same file may succeed although the data is lost.
    pub(super) fn distrust_after(&mut self, error: &JournalError) {
        let is_pending = self.active.as_ref().is_some_and(|active| active.flush.is_pending());
        self.distrusted |= is_pending || matches!(error, JournalError::Unusable(_));
    }

    /// Enforces the limits: closes a full segment, and evicts the oldest ones while the limits are exceeded.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        let Limits { bytes, entries, .. } = self.limits;
        let Some(active) = &self.active else { return Ok(()) };
        let id = active.id;
        let roll_over = std::mem::take(&mut self.distrusted)
            || self.segments.get(&id).is_some_and(|segment| {
                segment.entries > 0
                    && (segment.bytes.saturating_add(segment.blob_bytes) > (bytes / 8).min(16 << 20)
                        || segment.entries >= (entries / 32).max(1))
            });
        if roll_over {
            self.start_segment(id + 1)?;
            self.rolled_over = true;
        }
        if roll_over || self.bytes_since_check > bytes / 16 {
            self.evict()?;
            self.bytes_since_check = 0;
        }
        Ok(())
    }

    fn start_segment(&mut self, id: u32) -> io::Result<()> {
        // Drop the preallocated zeros of the segment that is closed.
        if let Some(full) = &self.active {
            full.file.set_len(full.end)?;
        }
        let file = self.store.open_log(&segment_name(id))?;
        self.active = Some(Active::new(id, file));
        self.segments.insert(id, Segment::default());
        self.append(Record::Start { next: self.next }, &[])
    }

    /// Removes the oldest segments while a limit is exceeded, but none with an unfinished change and never the active one.
    fn evict(&mut self) -> io::Result<()> {
        let oldest_time =
            super::now().saturating_sub(u64::try_from(self.limits.age.as_millis()).unwrap_or(u64::MAX));
        let mut evicted = None;
        let mut unread_blobs: Option<HashMap<u32, HashSet<String>>> = None;
        while self.segments.len() > 1 {
            let Some((&id, oldest)) = self.segments.iter().next() else { break };
            let blobs: u64 = self.blobs.entries()?.iter().map(|blob| blob.size).sum();
            let bytes = blobs + self.segments.values().map(|segment| segment.bytes).sum::<u64>();
            let entries: u64 = self.segments.values().map(|segment| segment.entries).sum();
            let is_too_old = oldest.entries == 0 || oldest.time < oldest_time;
            let is_unfinished = self
                .unfinished
                .iter()
                .any(|number| self.entries.get(number).is_some_and(|entry| entry.segment == id));
            let exceeds = bytes > self.limits.bytes || entries > self.limits.entries || is_too_old;
            if is_unfinished || !exceeds {
                break;
            }
            evicted = evicted.max(Some(oldest.newest));
            if blobs > 0 && unread_blobs.is_none() {
                unread_blobs = Some(self.blobs_of_unread_segments()?);
            }
            self.store.remove(&segment_name(id))?;
            self.segments.remove(&id);
            self.unread.retain(|unread| *unread != id);
            self.entries.retain(|_, entry| entry.segment != id);
            let entries = &self.entries;
            let is_still_indexed = |numbers: &mut Vec<u64>| {
                numbers.retain(|number| entries.contains_key(number));
                !numbers.is_empty()
            };
            self.users.retain(|_, numbers| is_still_indexed(numbers));
            self.undos.retain(|_, numbers| is_still_indexed(numbers));
            if let Some(unread_blobs) = &mut unread_blobs {
                unread_blobs.remove(&id);
                self.remove_unreferenced_blobs(unread_blobs)?;
            }
        }
        if let Some(newest) = evicted.filter(|newest| *newest > 0) {
            self.notes.push(format!("the journal is full: changes up to {newest} can no longer be undone"));
        }
        Ok(())
    }

    /// The blobs that each unread segment refers to. Nothing else of these segments is kept in memory.
    fn blobs_of_unread_segments(&self) -> io::Result<HashMap<u32, HashSet<String>>> {
        let mut named = HashMap::new();
        for id in &self.unread {
            let blobs: &mut HashSet<String> = named.entry(*id).or_default();
            let bytes = self.store.read(&segment_name(*id))?.unwrap_or_default();
            for_each_record(&bytes, |found| {
                if let Ok(Record::Intent(intent)) = found {
                    collect_blob_names(&intent, blobs);
                }
            });
        }
        Ok(named)
    }

    /// Removes the blobs that no entry refers to.
    fn remove_unreferenced_blobs(&self, unread: &HashMap<u32, HashSet<String>>) -> io::Result<()> {
        let mut named = HashSet::new();
        self.entries.values().for_each(|entry| collect_blob_names(&entry.intent, &mut named));
        for blob in self.blobs.entries()? {
            if !named.contains(&blob.name) && !unread.values().any(|named| named.contains(&blob.name)) {
                self.blobs.remove(&blob.name)?;
            }
        }
        Ok(())
    }
}

/// Adds the names of the blobs that a record refers to.
fn collect_blob_names(intent: &Intent, named: &mut HashSet<String>) {
    intent.for_each_file(&mut |hash, storage, _| {
        if *storage == record::Storage::Blob {
            named.insert(hash.to_string());
        }
    });
}

/// Calls `found` for each record, and with the length of each damaged range. Returns the end of the last whole record.
fn for_each_record(bytes: &[u8], mut found: impl FnMut(Result<Record, usize>)) -> usize {
    let mut at = 0;
    loop {
        match record::decode(&bytes[at..]) {
            Some((record, length)) => {
                found(Ok(record));
                at += length;
            }
            // Damage in the middle must not lose the records after it.
            None => match record::find_next(&bytes[at..]) {
                Some(skipped) => {
                    found(Err(skipped));
                    at += skipped;
                }
                None => return at,
            },
        }
    }
}

fn segment_name(id: u32) -> String {
    format!("{id:08}{SUFFIX}")
}

fn segment_id(name: &str) -> Option<u32> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}
