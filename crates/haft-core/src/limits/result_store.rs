//! Files with the full text of replies that were cut, with limits on age and total size. Knows nothing of why a text was
//! cut.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haft_sandbox::{Store, StoreEntry};
use parking_lot::Mutex;

/// Sweep once per this many new files, so that the cost per file does not grow with their number.
const SWEEP_EVERY: u64 = 64;

/// A store for the full text of replies that were cut, with limits on age and total size.
#[derive(Debug)]
pub struct ResultStore {
    store: Store,
    max_age: Duration,
    max_bytes: u64,
    count: AtomicU64,
    /// The newest file. A reply that is on its way names it, so it is never swept.
    latest: Mutex<Option<String>>,
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// The number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

impl ResultStore {
    /// Keeps texts in files of `store`, no longer than `max_age` and at most `max_bytes` in total.
    pub fn new(store: Store, max_age: Duration, max_bytes: u64) -> Self {
        Self { store, max_age, max_bytes, count: AtomicU64::new(0), latest: Mutex::new(None) }
    }

    /// Writes a text to a new file whose name starts with `id_hint`. Sweeps old files from time to time.
    pub fn keep(&self, id_hint: &str, text: &str) -> io::Result<PathBuf> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = file_name(id_hint, count);
        self.store.write(&name, text.as_bytes())?;
        let path = self.store.path(&name);
        *self.latest.lock() = Some(name);
        if count.is_multiple_of(SWEEP_EVERY) {
            // The text is written; a failed sweep is retried by a later one.
            let _ = self.sweep();
        }
        Ok(path)
    }

    /// Starts a new file for a text that is still being produced, at most a quarter of the total size limit.
    pub fn begin(&self, id_hint: &str) -> io::Result<OffloadFile> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = file_name(id_hint, count);
        let file = self.store.open_log(&name)?;
        let path = self.store.path(&name);
        *self.latest.lock() = Some(name);
        let _ = self.sweep();
        Ok(OffloadFile { file, path, bytes: 0, room: self.max_bytes / 4 })
    }

    /// Removes a file before it expires.
    pub fn remove(&self, file: &Path) -> io::Result<()> {
        match file.file_name().and_then(|name| name.to_str()) {
            Some(name) if self.store.path(name) == file => self.store.remove(name),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Removes expired files, then the oldest ones until the rest is within the size limit; never the newest file.
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

/// A file to which a long text is written while it is being produced.
#[derive(Debug)]
pub struct OffloadFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    room: u64,
}

impl OffloadFile {
    /// Appends to the file, up to its size limit. After a write error nothing more is written.
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

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

const SUFFIX: &str = ".txt";

/// A file name that is unique among processes and texts.
fn file_name(hint: &str, count: u64) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let hint: String = hint.chars().filter(|char| plain(*char)).take(40).collect();
    let hint = if hint.is_empty() { "result" } else { &hint };
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{hint}-{time:x}-{:x}-{count:x}{SUFFIX}", process::id())
}
