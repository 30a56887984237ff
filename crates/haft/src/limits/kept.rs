//! What was cut out of replies, kept whole in files for a while. Knows nothing of why a text was cut.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_sandbox::{Store, StoreEntry};
use parking_lot::Mutex;

/// After how many kept texts the old ones are looked through, so that keeping costs the same however
/// many there are.
const SWEEP_EVERY: u64 = 64;

/// The texts that were too long for a reply.
#[derive(Debug)]
pub struct Kept {
    store: Store,
    max_age: Duration,
    max_bytes: u64,
    count: AtomicU64,
    /// A reply names this one at this moment, so it is never swept.
    latest: Mutex<Option<String>>,
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many files.
    pub files: usize,
    /// How many bytes they had.
    pub bytes: u64,
}

impl Kept {
    /// Texts are kept in `store`, no longer than `max_age` and no more than `max_bytes` of them.
    pub fn new(store: Store, max_age: Duration, max_bytes: u64) -> Self {
        Self { store, max_age, max_bytes, count: AtomicU64::new(0), latest: Mutex::new(None) }
    }

    /// Keeps a text in a file of its own, whose name begins like `id_hint`. Now and then sweeps.
    pub fn keep(&self, id_hint: &str, text: &str) -> io::Result<PathBuf> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = file_name(id_hint, count);
        self.store.write(&name, text.as_bytes())?;
        let path = self.store.path(&name);
        *self.latest.lock() = Some(name);
        if count.is_multiple_of(SWEEP_EVERY) {
            // The text is safe; what could not be swept now is swept another time.
            let _ = self.sweep();
        }
        Ok(path)
    }

    /// Begins to keep a text that is still being made, at most a quarter of all that may be kept.
    pub fn begin(&self, id_hint: &str) -> io::Result<Keeping> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = file_name(id_hint, count);
        let file = self.store.open_log(&name)?;
        let path = self.store.path(&name);
        *self.latest.lock() = Some(name);
        let _ = self.sweep();
        Ok(Keeping { file, path, bytes: 0, room: self.max_bytes / 4 })
    }

    /// Removes a text before its time.
    pub fn remove(&self, file: &Path) -> io::Result<()> {
        match file.file_name().and_then(|name| name.to_str()) {
            Some(name) if self.store.path(name) == file => self.store.remove(name),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Removes what is too old, then the oldest until the rest is small enough; never the text kept last.
    pub fn sweep(&self) -> io::Result<Swept> {
        let latest = self.latest.lock().clone();
        let mut entries = self.store.entries()?;
        entries.retain(|entry| entry.name.ends_with(SUFFIX));
        entries.sort_by(|a, b| (a.modified, &a.name).cmp(&(b.modified, &b.name)));
        let now = SystemTime::now();
        let mut total: u64 = entries.iter().map(|entry| entry.size).sum();
        let mut swept = Swept::default();
        for StoreEntry { name, size, modified } in entries {
            let is_old = now.duration_since(modified).is_ok_and(|age| age > self.max_age);
            if !is_old && total <= self.max_bytes {
                break;
            }
            if latest.as_deref() == Some(&name) {
                continue;
            }
            self.store.remove(&name)?;
            total -= size;
            swept.files += 1;
            swept.bytes += size;
        }
        Ok(swept)
    }
}

/// A text that is kept while it is made.
#[derive(Debug)]
pub struct Keeping {
    file: File,
    path: PathBuf,
    bytes: u64,
    room: u64,
}

impl Keeping {
    /// Adds to the text, as far as there is room. What cannot be written is not kept, and nothing after it.
    pub fn add(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        match self.file.write_all(&bytes[..fits]) {
            Ok(()) => {
                self.bytes += fits as u64;
                self.room -= fits as u64;
            }
            Err(_) => self.room = 0,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

const SUFFIX: &str = ".txt";

/// A name that no other process and no other text has.
fn file_name(hint: &str, count: u64) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let hint: String = hint.chars().filter(|char| plain(*char)).take(40).collect();
    let hint = if hint.is_empty() { "result" } else { &hint };
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{hint}-{time:x}-{:x}-{count:x}{SUFFIX}", process::id())
}
