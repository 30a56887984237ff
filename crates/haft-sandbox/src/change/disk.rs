//! How what was written comes to the disk. A sync does two things: it hands what was written to the device, and has the
//! device put all that it was handed where a power cut cannot reach it. The second takes longest, and is of use to every
//! file on that device.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;

/// Puts what was written to a file on its way to the disk and waits for nothing, so that a sync later has less to wait
/// for. It makes nothing sure.
#[cfg(target_os = "linux")]
pub fn start_writing(file: &File) {
    let _ = sync_range(file, libc::SYNC_FILE_RANGE_WRITE);
}

/// Where the system has no such call, the sync does it all.
#[cfg(not(target_os = "linux"))]
pub fn start_writing(_: &File) {}

/// What ext2, ext3 and ext4 call themselves.
#[cfg(target_os = "linux")]
const EXT: rustix::fs::FsWord = 0xef53;

/// A file system that overwrites in place, and ends every sync of one of its files by having its device write out
/// everything: ext2, ext3 or ext4, with a journal or without. Others may put what is overwritten elsewhere, as XFS does
/// where a file shares its blocks with another.
#[derive(Clone, Copy, Debug)]
pub struct OneFlush {
    device: u64,
}

impl OneFlush {
    /// The one that a file is on, if it is known to be such.
    #[cfg(target_os = "linux")]
    pub fn of(file: &File) -> Option<Self> {
        let kind = rustix::fs::fstatfs(file).ok()?.f_type;
        let device = rustix::fs::fstat(file).ok()?.st_dev;
        (kind == EXT).then_some(Self { device })
    }

    /// None is known elsewhere.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_: &File) -> Option<Self> {
        None
    }

    /// Makes sure of bytes that were written over others in a file of it, of which neither the length nor the place on the
    /// disk has changed since its last sync, together with `next`, which is synced after this. They are handed to the
    /// device, and the sync of `next` has that device write out whatever it was handed. Gives whether it is so: where
    /// `next` is elsewhere, nothing is waited for.
    pub fn sync_along(self, file: &File, next: &File) -> io::Result<bool> {
        if rustix::fs::fstat(next)?.st_dev != self.device {
            return Ok(false);
        }
        hand_over(file)?;
        Ok(true)
    }
}

/// Waits until the device has what was written to a file.
#[cfg(target_os = "linux")]
fn hand_over(file: &File) -> io::Result<()> {
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_range(file, libc::SYNC_FILE_RANGE_WRITE | wait)
}

#[cfg(not(target_os = "linux"))]
fn hand_over(file: &File) -> io::Result<()> {
    file.sync_data()
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn sync_range(file: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as the file is borrowed, and no memory is passed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
