//! Getting written data onto the disk. A sync does two things: it submits the file's dirty pages to the device, and it
//! makes the device flush its write cache, where a power cut would lose them. The flush takes longest, and it covers
//! everything that was submitted to that device before, whichever file it belongs to.

use std::cell::Cell;
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

/// Starts writing a file's dirty pages to the device and does not wait, so that a later sync has less to wait for. It
/// makes nothing durable. A system without such a call does nothing here.
pub fn start_writing(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = sync_range(file, libc::SYNC_FILE_RANGE_WRITE);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Makes the records of a log file durable, with one device flush for a record and the file that is synced after it
/// where the file system allows that, and with a sync of its own everywhere else.
///
/// **What it promises.** After [`sync`](Self::sync) returns without error, every byte before `end` is durable: at once,
/// or, if [`is_pending`](Self::is_pending), as soon as the sync of `next` succeeds. The caller must sync `next` before it
/// relies on the record, and must stop trusting the log file if that sync fails.
///
/// **Where the flush is shared.** On ext2, ext3 and ext4 on Linux, in every journal mode and without a journal, if both
/// files are on the same file system. Everywhere else the log file is synced itself.
///
/// **Why it is sound.** Three things have to hold:
/// - The record overwrites bytes whose blocks and file length were made durable by an earlier sync of this process
///   (`mapped`), so no metadata has to reach the disk for the record to be found. Ext file systems overwrite such blocks in
///   place. XFS and btrfs may put overwritten data elsewhere, which takes metadata, so they are left out.
/// - The record's pages are submitted, and the device has completed the writes, before the sync of `next` begins; an I/O
///   error is reported here. With `data=journal` the pages are part of the running transaction instead.
/// - The sync of `next` ends with a flush of that device, or with a commit of the running transaction, which does the
///   same. Ext file systems do so for every `fsync`, unless barriers are switched off for the mount; then no sync of any
///   file survives a power cut there.
#[derive(Debug)]
pub struct OneFlush {
    file: Arc<File>,
    /// The device of a file system that allows a shared flush.
    device: Option<u64>,
    /// Length of the file's beginning whose blocks, and the length itself, this process has made durable.
    mapped: Cell<u64>,
    /// Whether records are durable only once the other file is.
    pending: Cell<bool>,
}

impl OneFlush {
    /// Takes over syncing a log file. Nothing of it counts as durable yet.
    pub fn new(file: Arc<File>) -> Self {
        let device = sharing_device(&file);
        Self { file, device, mapped: Cell::new(0), pending: Cell::new(false) }
    }

    /// Makes every byte before `end` durable, at the latest when the caller has synced `next`. `length` is how long the
    /// file is, with the zeros that later records overwrite.
    pub fn sync(&self, end: u64, length: u64, next: Option<&File>) -> io::Result<()> {
        if let (Some(next), Some(device)) = (next, self.device)
            && end <= self.mapped.get()
            && rustix::fs::fstat(next)?.st_dev == device
        {
            submit(&self.file)?;
            self.pending.set(true);
            return Ok(());
        }
        self.file.sync_data()?;
        self.mapped.set(length);
        self.pending.set(false);
        Ok(())
    }

    /// Tells that the file passed as `next` was synced, so that the records are durable as well.
    pub fn next_is_synced(&self) {
        self.pending.set(false);
    }

    /// Whether records still depend on a sync of the file that was passed as `next`.
    pub fn is_pending(&self) -> bool {
        self.pending.get()
    }

    /// Tells that the file was truncated, or changed by another process: none of its blocks count as durable any more.
    pub fn remapped(&self) {
        self.mapped.set(0);
    }

    /// How much of the file's beginning can be overwritten without a sync of its own.
    pub fn mapped(&self) -> u64 {
        self.mapped.get()
    }
}

/// What ext2, ext3 and ext4 call themselves.
#[cfg(target_os = "linux")]
const EXT: rustix::fs::FsWord = 0xef53;

/// The device of a file, if its file system allows a shared flush.
#[cfg(target_os = "linux")]
fn sharing_device(file: &File) -> Option<u64> {
    let kind = rustix::fs::fstatfs(file).ok()?.f_type;
    let device = rustix::fs::fstat(file).ok()?.st_dev;
    (kind == EXT).then_some(device)
}

#[cfg(not(target_os = "linux"))]
fn sharing_device(_: &File) -> Option<u64> {
    None
}

/// Submits a file's dirty pages and waits until the device has taken them.
#[cfg(target_os = "linux")]
fn submit(file: &File) -> io::Result<()> {
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_range(file, libc::SYNC_FILE_RANGE_WRITE | wait)
}

#[cfg(not(target_os = "linux"))]
fn submit(file: &File) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_flush_is_shared_only_over_synced_bytes_of_a_known_file_system() {
        let log = Arc::new(tempfile::tempfile().unwrap());
        let flush = OneFlush::new(log.clone());
        let can_share = sharing_device(&log).is_some();
        let next = tempfile::tempfile().unwrap();
        log.write_all_at(&[0; 100], 0).unwrap();
        flush.sync(10, 100, Some(&next)).unwrap();
        assert_eq!((flush.is_pending(), flush.mapped()), (false, 100), "the file had grown");
        log.write_all_at(b"record", 10).unwrap();
        flush.sync(16, 100, Some(&next)).unwrap();
        assert_eq!(flush.is_pending(), can_share);
        flush.next_is_synced();
        assert!(!flush.is_pending());
        flush.sync(16, 100, None).unwrap();
        assert!(!flush.is_pending(), "there is no other file to wait for");
        flush.remapped();
        flush.sync(16, 100, Some(&next)).unwrap();
        assert!(!flush.is_pending(), "the file's blocks may have changed");
    }
}
