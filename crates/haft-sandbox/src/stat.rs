//! What the file system says about a place: its kind, size, mode and times, and a stamp by which a later
//! look can tell that nothing has changed.

use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;

/// What kind of thing a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Something that must not be opened like a file: a fifo, socket, device or file made up by the kernel.
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

/// What the file system says about one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The kind of thing it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed.
    pub modified: SystemTime,
    /// By which a later look can tell a change.
    pub stamp: Stamp,
}

/// Identity and times of a file. Two equal stamps mean that nothing has changed as far as the file system
/// tells; a change within one tick of its clock can go unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime_ns: u64,
    ctime_ns: u64,
}

impl Stamp {
    /// The stamp as numbers, to be kept in a file.
    pub fn as_words(&self) -> [u64; 5] {
        [self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns]
    }

    /// The stamp that [`Stamp::as_words`] gave.
    pub fn from_words([dev, ino, size, mtime_ns, ctime_ns]: [u64; 5]) -> Self {
        Self { dev, ino, size, mtime_ns, ctime_ns }
    }

    /// Whether both stamps are of the same file, changed or not.
    pub fn same_file(&self, other: &Stamp) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }

    /// Whether both stamps are of the same file with the same content, as far as they tell. Other than two
    /// equal ones they may be of different names or attributes.
    pub(crate) fn same_content(&self, other: &Stamp) -> bool {
        Self { ctime_ns: 0, ..*self } == Self { ctime_ns: 0, ..*other }
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
    /// What is there; a link is not followed.
    pub stat: Stat,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: OsString,
    /// What has that name; a link is not followed.
    pub kind: Kind,
}

impl Stamp {
    /// Whether it is so new that another change could leave the same: clocks of file systems tick every few
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
                mtime_ns: word(seconds, nanos),
                ctime_ns: word(raw.st_ctime as i64, raw.st_ctime_nsec as u32),
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

/// Only compared, so wrapping around for times before 1970 or far ahead does no harm.
fn word(seconds: i64, nanos: u32) -> u64 {
    (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanos.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_being_kept() {
        let stamp = Stamp { dev: 1, ino: 2, size: 3, mtime_ns: 4, ctime_ns: u64::MAX };
        assert_eq!(Stamp::from_words(stamp.as_words()), stamp);
    }

    #[test]
    fn a_stamp_is_fresh_for_as_long_as_its_clock_may_stand() {
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
        // What comes from the future tells nothing.
        assert!(changed(u64::MAX, 0).is_fresh());
    }

    #[test]
    fn times_before_1970_are_times() {
        let expected = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(time(-2, 500_000_000), expected);
    }
}
