//! Comparing the content of files, whatever other programs do to them meanwhile.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Whether a file has this content.
pub(super) fn has_content(path: &Path, content: &[u8]) -> io::Result<bool> {
    let mut file = open_quietly(path)?;
    let mut found = vec![0; content.len() + 1];
    let length = fill(&mut file, &mut found)?;
    Ok(found[..length] == *content)
}

/// Opens a file for reading without ever waiting.
fn open_quietly(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether two files have the same content.
pub(super) fn equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (open_quietly(one)?, open_quietly(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 128 << 10], vec![0; 128 << 10]);
    loop {
        let length = fill(&mut one, &mut left)?;
        if fill(&mut other, &mut right)? != length || left[..length] != right[..length] {
            return Ok(false);
        }
        if length < left.len() {
            return Ok(true);
        }
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
