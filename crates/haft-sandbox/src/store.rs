//! Private folders of haft itself, for state that no model can name. Files are replaced atomically, so a reader sees the old
//! or the new content and a crash leaves one of them. It knows nothing of what the files hold.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Prefix of temporary files, which are never listed.
const TEMP_PREFIX: &str = ".unfinished-";

/// Offset of a note in a lock's file.
const NOTE_OFFSET: u64 = 8;

/// One private folder. The first write makes it, for its owner only.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    /// An invalid name on the way here; every use of this folder fails with it.
    invalid: Option<String>,
}

/// One file of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When its content last changed.
    pub modified: SystemTime,
}

/// A lock that is taken often: its file stays open in between. The lock excludes other processes, not other threads that
/// use this value.
#[derive(Debug)]
pub struct ReusableLock {
    store: Store,
    name: String,
    file: Option<Arc<OpenStoreFile>>,
}

/// A file of a store that is kept open.
#[derive(Debug)]
pub struct OpenStoreFile {
    /// The file.
    pub file: File,
    id: (u64, u64),
}

impl OpenStoreFile {
    fn new(file: File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { file, id: (found.dev(), found.ino()) })
    }

    /// Length of the file at a path, if it is still this one.
    fn length_at(&self, path: &Path) -> io::Result<Option<u64>> {
        match std::fs::symlink_metadata(path) {
            Ok(found) => Ok(((found.dev(), found.ino()) == self.id).then_some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ReusableLock {
    /// Takes the lock, waiting while another process holds it. Dropping the result releases it.
    pub fn lock(&mut self) -> io::Result<StoreLock> {
        self.take(|file| file.lock().map(|()| true))?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// Takes the lock if it is free; `None` if another process holds it.
    pub fn try_lock(&mut self) -> io::Result<Option<StoreLock>> {
        self.take(|file| match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        })
    }

    fn take(&mut self, lock: impl Fn(&File) -> io::Result<bool>) -> io::Result<Option<StoreLock>> {
        let path = self.store.checked(&self.name)?;
        let mut take = || loop {
            let file = match &self.file {
                Some(file) => file.clone(),
                None => Arc::new(OpenStoreFile::new(
                    self.store.open_or_create(OpenOptions::new().read(true).write(true), &path)?,
                )?),
            };
            if !lock(&file.file)? {
                return Ok(None);
            }
            let held = StoreLock { file };
            if held.file.length_at(&path)?.is_some() {
                self.file = Some(held.file.clone());
                return Ok(Some(held));
            }
            // The file was moved or removed since: other processes lock another one by now.
            self.file = None;
        };
        take().map_err(|error| with_path(&path, error))
    }
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub struct StoreLock {
    file: Arc<OpenStoreFile>,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let _ = self.file.file.unlock();
    }
}

impl StoreLock {
    /// Writes a byte into the lock's file, which others can read even after this process has died. Not synced.
    pub fn mark(&self, mark: u8) -> io::Result<()> {
        self.file.file.write_all_at(&[mark], 0)
    }
}

impl StoreLock {
    /// Writes bytes into the lock's file behind the mark, which others can read even after this process has died. Not synced.
    pub fn note(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.file.write_all_at(bytes, NOTE_OFFSET)
    }

    /// Syncs the lock's file, with its mark and note.
    pub fn sync(&self) -> io::Result<()> {
        self.file.file.sync_data()
    }

    /// Reads what a process, which may have died, has noted.
    pub fn read_note(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.file.file.read_exact_at(bytes, NOTE_OFFSET)
    }
}

impl Store {
    /// The store at `dir`. Does no I/O.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), invalid: None }
    }

    /// Its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A subfolder.
    pub fn folder(&self, name: &str) -> Self {
        let invalid = self.invalid.clone().or_else(|| (!is_plain(name)).then(|| name.to_owned()));
        Self { dir: self.path(name), invalid }
    }

    /// The path of a file, to pass to other programs. Never outside the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        match Path::new(name).file_name() {
            Some(name) => self.dir.join(name),
            None => self.dir.clone(),
        }
    }

    /// The content of a file; `None` if it is missing.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.checked(name)?;
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(with_path(&path, error)),
        }
    }

    /// Replaces the content of a file, durably.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.checked(name)?;
        self.replace(&path, bytes).map_err(|error| with_path(&path, error))
    }

    /// Takes a file from elsewhere in under a name, without copying it where a hard link can be made. It becomes private. A
    /// file that has the name already is left.
    pub fn take_in(&self, name: &str, from: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.checked(name)?;
        let take = || {
            self.make()?;
            let found = std::fs::symlink_metadata(from)?;
            // A file with other names can still change.
            let linked = match found.nlink() {
                1 => std::fs::hard_link(from, &path),
                _ => Err(ErrorKind::CrossesDevices.into()),
            };
            match linked {
                Ok(()) => std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                Err(_) => {
                    let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(&self.dir)?;
                    io::copy(&mut File::open(from)?, &mut file)?;
                    file.persist(&path)?;
                    Ok(())
                }
            }
        };
        take().map_err(|error| with_path(&path, error))
    }

    /// Syncs the file system that the folder is on.
    pub fn sync_all(&self) -> io::Result<()> {
        match File::open(&self.dir) {
            #[cfg(target_os = "linux")]
            Ok(dir) => Ok(rustix::fs::syncfs(dir)?),
            #[cfg(not(target_os = "linux"))]
            Ok(dir) => dir.sync_all(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(with_path(&self.dir, error)),
        }
    }

    /// The names of the folders in this one; none if it is missing.
    pub fn folders(&self) -> io::Result<Vec<String>> {
        self.require_valid()?;
        let listing = match std::fs::read_dir(&self.dir) {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(with_path(&self.dir, error)),
        };
        let folders = listing.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        Ok(folders.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Removes the folder with all that is in it. A missing one is no error.
    pub fn remove_all(&self) -> io::Result<()> {
        self.require_valid()?;
        // The old sides of commands may be directories without any rights.
        remove_tree(&self.dir).map_err(|error| with_path(&self.dir, error))
    }

    /// Removes the folder with all that is in it on a background thread. A process that ends before that leaves it.
    pub fn remove_all_later(&self) -> io::Result<()> {
        self.require_valid()?;
        let dir = self.dir.clone();
        crate::removal::remove_later(move || drop(remove_tree(&dir)));
        Ok(())
    }

    /// Syncs a file.
    pub fn sync(&self, name: &str) -> io::Result<()> {
        let path = self.checked(name)?;
        File::open(&path).and_then(|file| file.sync_data()).map_err(|error| with_path(&path, error))
    }

    /// Replaces the content of a file without a sync: atomic if the program crashes, not if the power fails.
    pub fn write_fast(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.checked(name)?;
        let replace = || {
            self.make()?;
            let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(&self.dir)?;
            file.write_all(bytes)?;
            file.persist(&path)?;
            Ok(())
        };
        replace().map_err(|error| with_path(&path, error))
    }

    /// Length of a file, if `of` is still the file of that name.
    pub fn length(&self, name: &str, of: &OpenStoreFile) -> io::Result<Option<u64>> {
        let path = self.checked(name)?;
        of.length_at(&path).map_err(|error| with_path(&path, error))
    }

    /// Opens a file for reading and writing, as [`Store::open_log`] does, and remembers its identity.
    pub fn keep_open(&self, name: &str) -> io::Result<OpenStoreFile> {
        OpenStoreFile::new(self.open_log(name)?).map_err(|error| with_path(&self.path(name), error))
    }

    /// Opens a file for reading and writing. Makes a missing one, durably.
    pub fn open_log(&self, name: &str) -> io::Result<File> {
        let path = self.checked(name)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let mut open = || match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make()?;
                let file = options.create(true).open(&path)?;
                File::open(&self.dir)?.sync_all()?;
                Ok(file)
            }
            opened => opened,
        };
        open().map_err(|error| with_path(&path, error))
    }

    /// Length of a file; 0 if it is missing.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        let path = self.checked(name)?;
        match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            found => found.map(|found| found.len()).map_err(|error| with_path(&path, error)),
        }
    }

    /// Renames a file, replacing one that has the new name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.checked(from)?, self.checked(to)?);
        std::fs::rename(&from, to).map_err(|error| with_path(&from, error))
    }

    /// Whether a file of that name exists.
    pub fn has(&self, name: &str) -> io::Result<bool> {
        let path = self.checked(name)?;
        path.try_exists().map_err(|error| with_path(&path, error))
    }

    /// Removes a file. A missing one is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.checked(name)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(with_path(&path, error)),
            _ => Ok(()),
        }
    }

    /// The files in this folder, in no order; none if the folder is missing.
    pub fn entries(&self) -> io::Result<Vec<StoreEntry>> {
        self.require_valid()?;
        let listing = match std::fs::read_dir(&self.dir) {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(with_path(&self.dir, error)),
        };
        let mut entries = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|error| with_path(&self.dir, error))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Another process has removed it meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(with_path(&entry.path(), error)),
            };
            if metadata.is_file() && !name.starts_with(TEMP_PREFIX) {
                let modified = metadata.modified()?;
                entries.push(StoreEntry { name, size: metadata.len(), modified });
            }
        }
        Ok(entries)
    }

    /// Takes the lock of that name, waiting while another process holds it. Dropping the result releases it. A lock needs a
    /// file of its own: a lock on a file that is replaced would stay with the old one.
    pub fn lock(&self, name: &str) -> io::Result<StoreLock> {
        self.latch(name).lock()
    }

    /// The lock of that name, for taking it often.
    pub fn latch(&self, name: &str) -> ReusableLock {
        ReusableLock { store: self.clone(), name: name.to_owned(), file: None }
    }

    /// Like [`Store::lock`], but fails with [`ErrorKind::TimedOut`] after some time: for callers that can do without the
    /// lock and must not hang.
    pub fn lock_within(&self, name: &str, timeout: Duration) -> io::Result<StoreLock> {
        let start = Instant::now();
        let mut backoff = Duration::from_millis(1);
        loop {
            if let Some(lock) = self.try_lock(name)? {
                return Ok(lock);
            }
            if start.elapsed() >= timeout {
                let held = io::Error::new(ErrorKind::TimedOut, "another process holds this lock");
                return Err(with_path(&self.path(name), held));
            }
            std::thread::sleep(backoff);
            backoff = (backoff * 2).min(Duration::from_millis(16));
        }
    }

    /// Takes the lock of that name if it is free; `None` if another process holds it.
    pub fn try_lock(&self, name: &str) -> io::Result<Option<StoreLock>> {
        self.latch(name).try_lock()
    }

    /// Opens a file, making it and the folder where they are missing.
    fn open_or_create(&self, options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        options.create(true).mode(0o600);
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make().and_then(|()| options.open(path))
            }
            opened => opened,
        }
    }

    /// Checks that no other user can change files in this folder: this user owns it, and only the owner may write to it. A
    /// missing folder is no error, since it will be made that way.
    pub fn is_private(&self) -> io::Result<()> {
        let found = match std::fs::metadata(&self.dir) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(with_path(&self.dir, error)),
        };
        let refuse = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
        let dir = self.dir.display();
        let me = rustix::process::geteuid().as_raw();
        if !found.is_dir() {
            return refuse(format!("`{dir}` is not a folder"));
        }
        if found.uid() != me {
            return refuse(format!("`{dir}` belongs to user {}, not to you (user {me})", found.uid()));
        }
        if found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o777;
            return refuse(format!(
                "`{dir}` can be written by others (mode {mode:o}); see what is in it, then `chmod 700` it"
            ));
        }
        Ok(())
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.make()?;
        let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(&self.dir)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Makes the folder, for its owner only, if it is missing. Every write does that, too.
    pub fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    fn checked(&self, name: &str) -> io::Result<PathBuf> {
        self.require_valid()?;
        if is_plain(name) { Ok(self.dir.join(name)) } else { Err(invalid_name(name)) }
    }

    fn require_valid(&self) -> io::Result<()> {
        match &self.invalid {
            Some(name) => Err(invalid_name(name)),
            None => Ok(()),
        }
    }
}

fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0'])
}

fn invalid_name(name: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{name:?} is not a plain file name"))
}

fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// Removes a directory with all that is in it, directories without any rights included, such as those that overlay mounts
/// leave. A missing one is no error.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(path);
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Gives the owner all rights in a directory and those below.
fn open_up(path: &Path) {
    let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn waiting_for_a_held_lock_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let held = store.lock("l").unwrap();
        let error = store.lock_within("l", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(held);
        store.lock_within("l", Duration::ZERO).unwrap();
    }

    #[test]
    fn a_latch_excludes_other_holders_of_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let mut latch = store.latch("l");
        for _ in 0..2 {
            let held = latch.lock().unwrap();
            assert!(store.try_lock("l").unwrap().is_none());
            drop(held);
            let other = store.try_lock("l").unwrap().unwrap();
            assert!(latch.try_lock().unwrap().is_none());
            drop(other);
        }
        for go in [|store: &Store| store.remove("l"), |store: &Store| store.rename("l", "other")] {
            go(&store).unwrap();
            let held = latch.lock().unwrap();
            assert!(store.try_lock("l").unwrap().is_none(), "it locks the new file");
            drop(held);
        }
    }

    #[test]
    fn a_mark_outlasts_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("new"));
        let lock = store.lock("l").unwrap();
        assert_eq!(store.read("l").unwrap().unwrap(), b"");
        lock.mark(b'1').unwrap();
        assert_eq!(store.read("l").unwrap().unwrap(), b"1", "it can be read while the lock is held");
        lock.mark(b'2').unwrap();
        drop(lock);
        assert_eq!(store.read("l").unwrap().unwrap(), b"2");
        // The next holder of the lock still sees it.
        let next = store.try_lock("l").unwrap().unwrap();
        assert_eq!(store.read("l").unwrap().unwrap(), b"2");
        next.mark(0).unwrap();
        assert_eq!(store.read("l").unwrap().unwrap(), [0]);
        assert!(store.try_lock("l").unwrap().is_none());
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("haft"));
        store.is_private().unwrap();
        store.make().unwrap();
        store.is_private().unwrap();
        std::fs::set_permissions(store.dir(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = store.is_private().unwrap_err();
        assert!(error.to_string().contains("mode 777"), "{error}");
    }
}
