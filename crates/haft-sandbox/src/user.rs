//! Files that a person named, on the command line or in settings. They are not confined: whoever names
//! them could read them anyway. Nothing that a model wrote may come here.
#![allow(clippy::disallowed_methods)] // this crate is the door that the lint sends everyone to

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The whole content of a regular file or a pipe; an error when it is larger than `max` bytes.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| naming(path, error))?;
    if bytes.len() as u64 > max {
        let message = format!("`{}` is larger than {max} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a file for reading; an error when it is a directory.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path).map_err(|error| naming(path, error))?;
    if file.metadata().map_err(|error| naming(path, error))?.is_dir() {
        return Err(naming(path, io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Whether anything is there.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// The path without links, `.` and `..`.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().map_err(|error| naming(path, error))
}

/// The folder that this process works in.
pub fn current_dir() -> io::Result<PathBuf> {
    std::env::current_dir()
        .map_err(|error| io::Error::new(error.kind(), format!("the current folder: {error}")))
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
