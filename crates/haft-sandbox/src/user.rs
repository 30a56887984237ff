//! Files that a person named, on the command line or in settings. They are not confined, since that person could read them
//! anyway. Paths that a model wrote must not come here.
#![allow(clippy::disallowed_methods)] // the lint sends all other crates here

mod replace;

pub use replace::{Reader, delete, missing_folders, remove_empty, replace};

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The home folders of this user: that of the environment, and the one that the system knows, which may differ.
pub fn homes() -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let known = read_regular(Path::new("/etc/passwd"), 1 << 20).ok().flatten().unwrap_or_default();
    let known = String::from_utf8_lossy(&known).lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields.get(5).map(PathBuf::from))?
    });
    let own = std::env::var_os("HOME").map(PathBuf::from);
    let mut homes: Vec<PathBuf> = own.into_iter().chain(known).filter(|home| is_home(home)).collect();
    homes.dedup();
    homes
}

/// Whether a folder can be a home: the root of the file system is the home of some services.
fn is_home(folder: &Path) -> bool {
    folder.is_absolute() && folder.parent().is_some()
}

/// The whole content of a regular file or a pipe; an error when it is larger than `max` bytes.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    at_most(path, open(path)?, max)
}

/// The whole content of a regular file; `None` if it is missing. Never blocks: any other kind of file, such as a pipe, is an
/// error, and so is a file larger than `max` bytes.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(handle) => File::from(handle),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(with_path(path, error.into())),
    };
    if !file.metadata().map_err(|error| with_path(path, error))?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not a regular file", path.display()),
        ));
    }
    at_most(path, file, max).map(Some)
}

/// Reads the rest of an open file; an error, which names the file by `path`, when that is more than `max` bytes.
pub fn at_most(path: &Path, file: File, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| with_path(path, error))?;
    if bytes.len() as u64 > max {
        let message = format!("`{}` is larger than {max} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a file for reading; an error when it is a directory.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path).map_err(|error| with_path(path, error))?;
    if file.metadata().map_err(|error| with_path(path, error))?.is_dir() {
        return Err(with_path(path, io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Opens a file to add lines at its end, and creates it if it is missing, for its owner alone.
pub fn append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = File::options().append(true).create(true).mode(0o600).open(path);
    file.map_err(|error| with_path(path, error))
}

/// Inode, size and modification time of a file, to detect a change without reading it; `None` if it is missing.
pub fn stamp(path: &Path) -> Option<(u64, u64, std::time::SystemTime)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().ok()?;
    Some((found.ino(), found.len(), found.modified().ok()?))
}

/// Whether a path exists.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// The path without links, `.` and `..`.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().map_err(|error| with_path(path, error))
}

/// The working directory of this process.
pub fn current_dir() -> io::Result<PathBuf> {
    std::env::current_dir()
        .map_err(|error| io::Error::new(error.kind(), format!("the current folder: {error}")))
}

fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
