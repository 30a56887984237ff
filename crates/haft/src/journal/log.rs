//! The files of the journal: numbered segments that are only added to, and large contents beside them,
//! each named by its hash. Every method is called with the lock held, so nobody else is in the middle of
//! anything, and whatever is unfinished belongs to a process that is gone.

mod rebuild;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::time::SystemTime;

use haft_sandbox::{Hash, Latch, OneFlush, Store, StoreEntry, start_writing};

use super::record::{self, HEAD, Intent, Outcome, Record};
use super::{JournalError, Limits};

const END: &str = ".log";

/// Content that is told by way of more others than this is taken for damaged.
const LONGEST_CHAIN: u32 = 64;

/// How much of a segment is filled with zeros ahead of what is written.
const AHEAD: usize = 256 << 10;

/// One number that the journal knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) intent: Intent,
    pub(super) segment: u32,
    pub(super) outcome: Option<Outcome>,
}

/// What the files hold, as far as this process has read them.
#[derive(Debug)]
pub(super) struct Log {
    store: Store,
    blobs: Store,
    pub(super) lock: Latch,
    pub(super) limits: Limits,
    pub(super) known: BTreeMap<u64, Known>,
    /// The numbers of which it is not known what became.
    pub(super) open: BTreeSet<u64>,
    segments: BTreeMap<u32, Segment>,
    /// Older segments of which only the beginning was read, the newest last. Whatever is newer is known.
    unread: Vec<u32>,
    /// What became of numbers that are in them.
    outcomes: HashMap<u64, Outcome>,
    /// By which numbers a number was undone, whatever became of those.
    undoing: HashMap<u64, Vec<u64>>,
    /// Which numbers name content.
    naming: HashMap<Hash, Vec<u64>>,
    active: Option<Active>,
    next: u64,
    /// Bytes written since the limits were last looked at.
    unchecked: u64,
    /// Whether the segment that is added to failed to reach the disk.
    distrusted: bool,
    /// Whether a segment was closed since the files were read. What was in it need not be known any longer.
    rolled: bool,
    /// Whether the files were read from the beginning, so that it may not show in the lock that all is settled.
    pub(super) is_reread: bool,
    /// What the user should hear about.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Default)]
struct Segment {
    bytes: u64,
    entries: u64,
    /// The number that its first entry has, or would have.
    first: u64,
    newest: u64,
    /// When the newest was made, in milliseconds since 1970.
    time: u64,
    blob_bytes: u64,
}

/// The segment that is added to.
#[derive(Debug)]
struct Active {
    id: u32,
    file: Arc<File>,
    /// Where the next record goes.
    end: u64,
    /// Up to where the file is filled with zeros. Writing over them moves no metadata, so syncing that is
    /// one write instead of a commit of the file system.
    allocated: u64,
    flush: OneFlush,
    /// How contents are kept in it, and by way of how many others.
    contents: HashMap<Hash, Way>,
}

/// How content is kept.
#[derive(Clone, Debug)]
struct Way {
    kept: record::Kept,
    /// By way of how many others.
    chain: u32,
    /// The large content that it begins with, in a file of its own.
    blob: Option<Hash>,
}

impl Active {
    fn new(id: u32, file: File) -> Self {
        let file = Arc::new(file);
        let flush = OneFlush::new(file.clone());
        Self { id, file, end: 0, allocated: 0, flush, contents: HashMap::new() }
    }

    fn learn(&mut self, hash: &Hash, kept: &record::Kept) {
        let (chain, blob) = match kept {
            record::Kept::Spliced { of, .. } => match self.contents.get(&of.0) {
                Some(base) => (base.chain + 1, base.blob),
                None => (LONGEST_CHAIN, None),
            },
            record::Kept::Blob => (0, Some(*hash)),
            _ => (0, None),
        };
        if self.contents.get(hash).is_none_or(|known| chain < known.chain) {
            self.contents.insert(*hash, Way { kept: kept.clone(), chain, blob });
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
            known: BTreeMap::new(),
            open: BTreeSet::new(),
            segments: BTreeMap::new(),
            unread: Vec::new(),
            outcomes: HashMap::new(),
            undoing: HashMap::new(),
            naming: HashMap::new(),
            active: None,
            next: 1,
            unchecked: u64::MAX,
            distrusted: false,
            rolled: false,
            is_reread: false,
            notes: Vec::new(),
        }
    }

    /// Reads what other processes have written meanwhile.
    pub(super) fn catch_up(&mut self) -> io::Result<()> {
        let Some(active) = self.active.as_mut().filter(|_| !self.rolled) else {
            return self.load();
        };
        let found = active.file.metadata()?;
        let next = active.id + 1;
        if found.nlink() == 0 || found.size() < active.end || self.store.has(&name(next))? {
            return self.load();
        }
        if found.size() != active.allocated {
            // Others have cut it off, or filled more of it.
            active.allocated = found.size();
            active.flush.remapped();
        }
        let mut next = [0; 1];
        let (id, end) = (active.id, active.end);
        match active.file.read_at(&mut next, end)? {
            1 if next != [0] => self.read_on(id, end),
            _ => Ok(()),
        }
    }

    fn load(&mut self) -> io::Result<()> {
        self.known.clear();
        self.open.clear();
        self.segments.clear();
        self.unread.clear();
        self.outcomes.clear();
        self.undoing.clear();
        self.naming.clear();
        self.rolled = false;
        self.is_reread = true;
        self.active = None;
        let entries = self.store.entries()?;
        let mut found: Vec<(u32, &StoreEntry)> =
            entries.iter().filter_map(|entry| Some((id(&entry.name)?, entry))).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        let Some((newest, _)) = found.pop() else { return self.begin_segment(1) };
        // Where something may be unfinished, all of it is looked at.
        let mark = self.store.read(super::LOCK)?;
        let is_settled = mark.is_some_and(|mark| mark.first() == Some(&super::SETTLED));
        let mut next = self.first(newest)?.filter(|_| is_settled);
        for (id, entry) in found.iter().rev() {
            let first = self.first(*id)?;
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
        let file = self.store.open_log(&name(newest))?;
        self.active = Some(Active::new(newest, file));
        self.segments.insert(newest, Segment::default());
        self.read_on(newest, 0)?;
        if next.is_none() {
            self.read_all()?;
        }
        Ok(())
    }

    /// The number with which a segment begins, if it says so.
    fn first(&self, id: u32) -> io::Result<Option<u64>> {
        let mut head = [0; 256];
        let read = self.store.open_log(&name(id))?.read_at(&mut head, 0)?;
        Ok(match record::decode(&head[..read]) {
            Some((Record::Start { next }, _)) => Some(next),
            _ => None,
        })
    }

    /// Reads the newest segment that was not read; gives whether there was one.
    pub(super) fn read_older(&mut self) -> io::Result<bool> {
        let Some(id) = self.unread.pop() else { return Ok(false) };
        self.segments.insert(id, Segment::default());
        self.read_on(id, 0)?;
        Ok(true)
    }

    /// Reads whatever was not read; gives whether there was something.
    pub(super) fn read_all(&mut self) -> io::Result<bool> {
        let mut any = false;
        while self.read_older()? {
            any = true;
        }
        Ok(any)
    }

    /// Reads as far back as to a number.
    pub(super) fn reach(&mut self, number: u64) -> io::Result<()> {
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

    /// The oldest number that there is, or would be.
    pub(super) fn oldest(&self) -> u64 {
        match self.unread.first().and_then(|id| self.segments.get(id)) {
            Some(segment) => segment.first,
            None => self.known.keys().next().copied().unwrap_or(self.next),
        }
    }

    /// Reads the records of a segment from a place on. What follows the last whole record of the newest
    /// segment was being written when a process died, and is cut off.
    fn read_on(&mut self, id: u32, from: u64) -> io::Result<()> {
        let file = match &self.active {
            Some(active) if active.id == id => active.file.clone(),
            _ => self.store.open_log(&name(id))?.into(),
        };
        let size = file.metadata()?.size();
        let mut bytes = vec![0; usize::try_from(size.saturating_sub(from)).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, from)?;
        let at = each_record(&bytes, |found| match found {
            Ok(record) => self.learn(record, id),
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

    fn learn(&mut self, record: Record, segment: u32) {
        match record {
            Record::Start { next } => {
                self.next = self.next.max(next);
                self.segments.entry(segment).or_default().first = next;
            }
            Record::Outcome { number, outcome } => match self.known.get_mut(&number) {
                Some(known) => {
                    known.outcome = Some(outcome);
                    self.open.remove(&number);
                }
                None => drop(self.outcomes.insert(number, outcome)),
            },
            Record::Intent(intent) => {
                self.next = self.next.max(intent.number + 1);
                let counted = self.segments.entry(segment).or_default();
                counted.entries += 1;
                counted.newest = counted.newest.max(intent.number);
                counted.time = counted.time.max(intent.time);
                intent.for_each_file(&mut |hash, kept, size| {
                    if matches!(kept, record::Kept::At(_) | record::Kept::No) {
                        return;
                    }
                    if *kept == record::Kept::Blob {
                        counted.blob_bytes += size;
                    }
                    if let Some(active) = self.active.as_mut().filter(|active| active.id == segment) {
                        active.learn(hash, kept);
                    }
                    let numbers = self.naming.entry(*hash).or_default();
                    if numbers.last() != Some(&intent.number) {
                        numbers.push(intent.number);
                    }
                });
                if let Some(undone) = intent.undoes {
                    let undoing = self.undoing.entry(undone).or_default();
                    let at = undoing.partition_point(|earlier| *earlier < intent.number);
                    undoing.insert(at, intent.number);
                }
                let outcome = self.outcomes.remove(&intent.number);
                if outcome.is_none() {
                    self.open.insert(intent.number);
                }
                self.known.insert(intent.number, Known { intent, segment, outcome });
            }
        }
    }

    /// The number for the next change.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Where content that is kept in the next record begins.
    pub(super) fn content_begins(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.end) + HEAD as u64
    }

    /// Where content already lies in the segment that is added to, and the large content it begins with.
    pub(super) fn here(&self, hash: &Hash) -> Option<(record::Kept, Option<Hash>)> {
        let way = self.active.as_ref()?.contents.get(hash)?;
        let lies_here = way.chain < LONGEST_CHAIN && way.kept != record::Kept::Blob;
        lies_here.then(|| (way.kept.clone(), way.blob))
    }

    /// By way of how many others content is kept in the segment that is added to, if it is.
    pub(super) fn chain(&self, hash: &Hash) -> Option<u32> {
        self.active.as_ref()?.contents.get(hash).map(|way| way.chain)
    }

    /// Whether large content is still there.
    pub(super) fn has_blob(&self, hash: &Hash) -> bool {
        self.blobs.has(&hash.to_string()).unwrap_or(false)
    }

    /// The number that undid this one and is not undone itself.
    pub(super) fn active_undo(&self, number: u64) -> Option<u64> {
        let by = |number: u64| self.undoing.get(&number).map_or(&[][..], |by| by);
        let is_done = |number| {
            self.known.get(&number).is_some_and(|known: &Known| known.outcome == Some(Outcome::Done))
        };
        // No recursion: what undoes an undo can be undone in turn, any number of times.
        let mut path = vec![(number, by(number))];
        while let Some((_, rest)) = path.last_mut() {
            if let Some((next, earlier)) = rest.split_last() {
                *rest = earlier;
                if is_done(*next) {
                    path.push((*next, by(*next)));
                }
                continue;
            }
            // Nothing undoes this one any more, so it undoes the one before it.
            let stands = path.pop().map(|(number, _)| number);
            path.pop()?;
            if path.is_empty() {
                return stands;
            }
        }
        None
    }

    /// Adds a record. It is on disk after [`Log::sync_before`].
    pub(super) fn append(&mut self, record: Record, kept: &[u8]) -> io::Result<()> {
        let mut bytes = record::encode(&record, kept)?;
        let alone = bytes.len();
        let length = alone as u64;
        let Some(active) = &mut self.active else {
            return Err(io::Error::other("no segment is open"));
        };
        let (id, end) = (active.id, active.end + length);
        let mut written = Err(io::ErrorKind::StorageFull.into());
        if end > active.allocated {
            bytes.resize(alone + AHEAD, 0);
            written = active.file.write_all_at(&bytes, active.end);
            active.allocated = active.end + bytes.len() as u64;
            bytes.truncate(alone);
            if written.is_err() {
                // There is no room for zeros.
                active.file.set_len(active.end)?;
                active.flush.remapped();
                active.allocated = end;
            }
        }
        if written.is_err() {
            written = active.file.write_all_at(&bytes, active.end);
        }
        if let Err(error) = written {
            // A part of it may be there; the next reader would cut it off as well.
            let _ = active.file.set_len(active.end);
            active.flush.remapped();
            active.allocated = active.end;
            return Err(error);
        }
        active.end = end;
        self.unchecked = self.unchecked.saturating_add(length);
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.bytes = end;
        }
        self.learn(record, id);
        Ok(())
    }

    /// Puts every record on its way to the disk.
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

    pub(super) fn settle(&mut self, number: u64, outcome: Outcome) -> io::Result<()> {
        self.append(Record::Outcome { number, outcome }, &[])
    }

    /// Where large contents go.
    pub(super) fn blobs(&self) -> Store {
        self.blobs.clone()
    }

    /// Tells that the file passed to [`Log::sync_before`] was synced.
    pub(super) fn next_is_synced(&self) {
        if let Some(active) = &self.active {
            active.flush.next_is_synced();
        }
    }

    /// Has the next change begin a new segment if the journal was unusable, or a record may not be on disk: after a
    /// failed sync, a later sync of the same file may succeed although the data is lost.
    pub(super) fn distrust_after(&mut self, error: &JournalError) {
        let is_pending = self.active.as_ref().is_some_and(|active| active.flush.is_pending());
        self.distrusted |= is_pending || matches!(error, JournalError::Unusable(_));
    }

    /// Makes room: a full segment is closed, and the oldest ones go while the limits are exceeded.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        let Limits { bytes, entries, .. } = self.limits;
        let Some(active) = &self.active else { return Ok(()) };
        let id = active.id;
        let rolled = std::mem::take(&mut self.distrusted)
            || self.segments.get(&id).is_some_and(|segment| {
                segment.entries > 0
                    && (segment.bytes.saturating_add(segment.blob_bytes) > (bytes / 8).min(16 << 20)
                        || segment.entries >= (entries / 32).max(1))
            });
        if rolled {
            self.begin_segment(id + 1)?;
            self.rolled = true;
        }
        if rolled || self.unchecked > bytes / 16 {
            self.evict()?;
            self.unchecked = 0;
        }
        Ok(())
    }

    fn begin_segment(&mut self, id: u32) -> io::Result<()> {
        if let Some(full) = &self.active {
            full.file.set_len(full.end)?;
        }
        let file = self.store.open_log(&name(id))?;
        self.active = Some(Active::new(id, file));
        self.segments.insert(id, Segment::default());
        self.append(Record::Start { next: self.next }, &[])
    }

    fn evict(&mut self) -> io::Result<()> {
        let oldest_time =
            super::now().saturating_sub(u64::try_from(self.limits.age.as_millis()).unwrap_or(u64::MAX));
        let mut evicted = None;
        let mut named: Option<HashMap<u32, HashSet<String>>> = None;
        while self.segments.len() > 1 {
            let Some((&id, oldest)) = self.segments.iter().next() else { break };
            let blobs: u64 = self.blobs.entries()?.iter().map(|blob| blob.size).sum();
            let bytes = blobs + self.segments.values().map(|segment| segment.bytes).sum::<u64>();
            let entries: u64 = self.segments.values().map(|segment| segment.entries).sum();
            let aged = oldest.entries == 0 || oldest.time < oldest_time;
            let open = self
                .open
                .iter()
                .any(|number| self.known.get(number).is_some_and(|known| known.segment == id));
            let over = bytes > self.limits.bytes || entries > self.limits.entries || aged;
            if open || !over {
                break;
            }
            evicted = evicted.max(Some(oldest.newest));
            if blobs > 0 && named.is_none() {
                named = Some(self.named_unread()?);
            }
            self.store.remove(&name(id))?;
            self.segments.remove(&id);
            self.unread.retain(|unread| *unread != id);
            self.known.retain(|_, known| known.segment != id);
            let known = &self.known;
            let still_known = |numbers: &mut Vec<u64>| {
                numbers.retain(|number| known.contains_key(number));
                !numbers.is_empty()
            };
            self.naming.retain(|_, numbers| still_known(numbers));
            self.undoing.retain(|_, numbers| still_known(numbers));
            if let Some(named) = &mut named {
                named.remove(&id);
                self.collect_blobs(named)?;
            }
        }
        if let Some(newest) = evicted.filter(|newest| *newest > 0) {
            self.notes.push(format!("the journal is full: changes up to {newest} can no longer be undone"));
        }
        Ok(())
    }

    /// The contents in files of their own that each segment names which was not read. No more of it is kept in mind.
    fn named_unread(&self) -> io::Result<HashMap<u32, HashSet<String>>> {
        let mut named = HashMap::new();
        for id in &self.unread {
            let here: &mut HashSet<String> = named.entry(*id).or_default();
            let bytes = self.store.read(&name(*id))?.unwrap_or_default();
            each_record(&bytes, |found| {
                if let Ok(Record::Intent(intent)) = found {
                    name_blobs(&intent, here);
                }
            });
        }
        Ok(named)
    }

    /// Removes the contents that no entry names any more.
    fn collect_blobs(&self, unread: &HashMap<u32, HashSet<String>>) -> io::Result<()> {
        let mut named = HashSet::new();
        self.known.values().for_each(|known| name_blobs(&known.intent, &mut named));
        for blob in self.blobs.entries()? {
            if !named.contains(&blob.name) && !unread.values().any(|named| named.contains(&blob.name)) {
                self.blobs.remove(&blob.name)?;
            }
        }
        Ok(())
    }
}

/// The contents in files of their own that a record names.
fn name_blobs(intent: &Intent, named: &mut HashSet<String>) {
    intent.for_each_file(&mut |hash, kept, _| {
        if *kept == record::Kept::Blob {
            named.insert(hash.to_string());
        }
    });
}

/// Goes through records, and through damage by its length; gives where the last whole record ends.
fn each_record(bytes: &[u8], mut found: impl FnMut(Result<Record, usize>)) -> usize {
    let mut at = 0;
    loop {
        match record::decode(&bytes[at..]) {
            Some((record, length)) => {
                found(Ok(record));
                at += length;
            }
            // Damage in the middle does not take what follows with it.
            None => match record::next(&bytes[at..]) {
                Some(skipped) => {
                    found(Err(skipped));
                    at += skipped;
                }
                None => return at,
            },
        }
    }
}

fn name(id: u32) -> String {
    format!("{id:08}{END}")
}

fn id(name: &str) -> Option<u32> {
    name.strip_suffix(END)?.parse().ok()
}
