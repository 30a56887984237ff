//! File metadata: kind, size, mode and times, and a stamp that shows later whether the file has changed.

use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A file that must not be opened like a regular one: a fifo, socket, device or file of the kernel.
    Special(&'static str),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Special(what) => what,
        })
    }
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed.
    pub modified: SystemTime,
    /// Identity and times, to detect a change.
    pub stamp: Stamp,
}

/// Identity and times of a file. Equal stamps mean that the file is unchanged, but for a change within one tick of the file
/// system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime_ns: u64,
    ctime_ns: u64,
}

impl Stamp {
    /// The stamp as numbers, for storage.
    pub fn as_words(&self) -> [u64; 5] {
        [self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns]
    }

    /// The inverse of [`Stamp::as_words`].
    pub fn from_words([dev, ino, size, mtime_ns, ctime_ns]: [u64; 5]) -> Self {
        Self { dev, ino, size, mtime_ns, ctime_ns }
    }

    /// Whether both stamps are of one file, changed or not.
    pub fn same_file(&self, other: &Stamp) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }

    /// Whether both stamps are of one file with the same content, as far as times and size show. Its names and attributes
    /// may differ.
    pub(crate) fn same_content(&self, other: &Stamp) -> bool {
        Self { ctime_ns: 0, ..*self } == Self { ctime_ns: 0, ..*other }
    }

    /// Device and inode: what the file is, whatever its name.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    pub(crate) fn device(&self) -> u64 {
        self.dev
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory.
    pub name: OsString,
    /// Its metadata; a link is not followed.
    pub stat: Stat,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: OsString,
    /// Its kind; a link is not followed.
    pub kind: Kind,
}

impl Stamp {
    /// Whether it is so recent that another change could leave an equal stamp: clocks of file systems tick every few
    /// milliseconds, or every second or two.
    pub fn is_fresh(&self) -> bool {
        let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return true };
        let coarse =
            self.ctime_ns.is_multiple_of(1_000_000_000) && self.mtime_ns.is_multiple_of(1_000_000_000);
        let tick = if coarse { Duration::from_secs(2) } else { Duration::from_millis(50) };
        let changed = Duration::from_nanos(self.ctime_ns.max(self.mtime_ns));
        now.saturating_sub(changed) <= tick
    }
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Special("fifo"),
            FileType::Socket => Self::Special("socket"),
            FileType::BlockDevice => Self::Special("block device"),
            FileType::CharacterDevice => Self::Special("character device"),
            _ => Self::Special("special file"),
        }
    }
}

impl From<&rustix::fs::Stat> for Stat {
    // The widths and signs of these fields differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    fn from(raw: &rustix::fs::Stat) -> Self {
        let size = raw.st_size as u64;
        let seconds = raw.st_mtime as i64;
        let nanos = raw.st_mtime_nsec as u32;
        Self {
            kind: FileType::from_raw_mode(raw.st_mode).into(),
            size,
            mode: raw.st_mode as u32 & 0o7777,
            modified: time(seconds, nanos),
            stamp: Stamp {
                dev: raw.st_dev as u64,
                ino: raw.st_ino as u64,
                size,
                mtime_ns: nanoseconds(seconds, nanos),
                ctime_ns: nanoseconds(raw.st_ctime as i64, raw.st_ctime_nsec as u32),
            },
        }
    }
}

fn time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    start
        .and_then(|start| start.checked_add(Duration::from_nanos(nanos.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A time as one number. It is only compared, so wrapping around before 1970 or far in the future does no harm.
fn nanoseconds(seconds: i64, nanos: u32) -> u64 {
    (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanos.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_storage() {
        let stamp = Stamp { dev: 1, ino: 2, size: 3, mtime_ns: 4, ctime_ns: u64::MAX };
        assert_eq!(Stamp::from_words(stamp.as_words()), stamp);
    }

    #[test]
    fn a_stamp_is_fresh_for_one_tick_of_its_clock() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let ago = |time: Duration, past: Duration| (time - past).as_nanos() as u64;
        let changed = |mtime_ns, ctime_ns| Stamp { dev: 1, ino: 2, size: 3, mtime_ns, ctime_ns };
        let (moment, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        // Never a whole second, so that the clock is not taken for a coarse one.
        let fine = |past| ago(now, past) / 1000 * 1000 + 1;
        assert!(changed(fine(moment), fine(moment)).is_fresh());
        assert!(!changed(fine(minute), fine(minute)).is_fresh());
        assert!(!changed(fine(moment * 500), fine(moment * 500)).is_fresh());
        // Either time will do: the content can be new with an old time given to it.
        assert!(changed(fine(minute), fine(moment)).is_fresh());
        assert!(changed(fine(moment), fine(minute)).is_fresh());
        let whole = Duration::from_secs(now.as_secs());
        let coarse = |seconds| ago(whole, Duration::from_secs(seconds));
        assert!(changed(coarse(1), coarse(1)).is_fresh());
        assert!(!changed(coarse(4), coarse(4)).is_fresh());
        assert!(!changed(coarse(1), fine(minute)).is_fresh(), "this clock is a fine one");
        // A time in the future is not trusted.
        assert!(changed(u64::MAX, 0).is_fresh());
    }

    #[test]
    fn times_before_1970_are_times() {
        let expected = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(time(-2, 500_000_000), expected);
    }
}
