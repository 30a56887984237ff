//! What is known of the workspace as it was before the command: for each name that a call was about to change, the file that
//! had it, and for each such file its old attributes and where its content is kept. Files are known by identity, so that it
//! does not matter in which order calls take effect. Every fact is appended to a log before the call goes on: after a crash
//! the model is read back from it. It knows nothing of system calls.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use rustix::io::Errno;

use super::super::wire::{Build, Frame, Parts};
use super::keep::Copy;

/// Identity of a file: device, inode number, and time of birth where the file system has it, since numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) born: u64,
}

/// Metadata of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) id: Id,
    pub(super) file_type: FileType,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) links: u64,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
    pub(super) changed: (i64, u32),
}

impl Meta {
    /// The metadata of a name, without following a link; `None` if nothing has the name.
    pub(super) fn of(dir: impl AsFd, name: &OsStr) -> io::Result<Option<Self>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        match rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME) {
            Ok(raw) => Ok(Some(Self::from(&raw))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(super) fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    pub(super) fn is_link(&self) -> bool {
        self.file_type == FileType::Symlink
    }

    fn words(&self) -> [u64; 12] {
        let (seconds, nanos) = self.modified;
        let (changed, changed_nanos) = self.changed;
        let Id { device, inode, born } = self.id;
        let mode = self.file_type.as_raw_mode() | self.mode;
        let owner = u64::from(self.uid) << 32 | u64::from(self.gid);
        let (nanos, changed_nanos) = (nanos.into(), changed_nanos.into());
        let size = self.size;
        [
            device,
            inode,
            born,
            mode.into(),
            owner,
            self.links,
            size,
            seconds as u64,
            nanos,
            changed as u64,
            changed_nanos,
            0,
        ]
    }

    fn from_words(words: [u64; 12]) -> Self {
        let [device, inode, born, mode, owner, links, size, seconds, nanos, changed, changed_nanos, _] =
            words;
        Self {
            id: Id { device, inode, born },
            file_type: FileType::from_raw_mode(mode as u32),
            mode: mode as u32 & 0o7777,
            uid: (owner >> 32) as u32,
            gid: owner as u32,
            links,
            size,
            modified: (seconds as i64, nanos as u32),
            changed: (changed as i64, changed_nanos as u32),
        }
    }
}

impl From<&Statx> for Meta {
    fn from(raw: &Statx) -> Self {
        let has_birth = raw.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = (raw.stx_btime.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(raw.stx_btime.tv_nsec.into());
        Self {
            id: Id {
                device: rustix::fs::makedev(raw.stx_dev_major, raw.stx_dev_minor),
                inode: raw.stx_ino,
                born: if has_birth { born } else { 0 },
            },
            file_type: FileType::from_raw_mode(raw.stx_mode.into()),
            mode: u32::from(raw.stx_mode) & 0o7777,
            uid: raw.stx_uid,
            gid: raw.stx_gid,
            links: raw.stx_nlink.into(),
            size: raw.stx_size,
            modified: (raw.stx_mtime.tv_sec, raw.stx_mtime.tv_nsec),
            changed: (raw.stx_ctime.tv_sec, raw.stx_ctime.tv_nsec),
        }
    }
}

/// Which rules hold for the names in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// Everything is kept.
    Usual,
    /// A build folder: changes are counted.
    Build,
    /// The object store of a repository: what goes is kept, what is new is left alone.
    Objects,
}

/// A directory that was seen while the command ran.
#[derive(Clone, Debug)]
pub(super) struct DirInfo {
    /// Where it was when it was first seen. For one that is as old as the workspace, that is its place before the command.
    pub(super) place: Option<(Id, OsString)>,
    /// Whether it was there before the command.
    pub(super) is_original: bool,
    pub(super) area: Area,
}

/// A file that was there before the command, as it was when a call was first about to change it.
#[derive(Clone, Debug)]
pub(super) struct InodeInfo {
    pub(super) meta: Meta,
    /// The target of a symbolic link.
    pub(super) target: OsString,
    /// The copy of its content.
    pub(super) copy: Option<Copy>,
    /// Name of the hard link in the store.
    pub(super) link: Option<String>,
    /// Why its content could not be kept.
    pub(super) lost: Option<String>,
    /// Its extended attributes, if a call was about to change them.
    pub(super) xattrs: Option<Vec<(OsString, Vec<u8>)>>,
}

/// The files that had names before the command.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) roots: Vec<(std::path::PathBuf, Id)>,
    pub(super) dirs: HashMap<Id, DirInfo>,
    /// For each directory, the names that calls were about to change, and what had them before.
    pub(super) slots: HashMap<Id, BTreeMap<OsString, Option<Id>>>,
    pub(super) inodes: HashMap<Id, InodeInfo>,
    /// Calls that changed something in a build folder, by its path.
    pub(super) builds: BTreeMap<std::path::PathBuf, u64>,
    /// Paths that could not be followed, or whose old side could not be kept.
    pub(super) lost: BTreeMap<std::path::PathBuf, String>,
    /// When recording began, as the file system's clock shows it.
    pub(super) start: (i64, u32),
    log: Option<File>,
    /// Facts that are not in the log yet.
    pending: Vec<u8>,
}

impl Model {
    pub(super) fn new(start: (i64, u32)) -> Self {
        let mut model = Self::default();
        model.learn(Fact::Start(start));
        model
    }

    /// Whether a name was noted before.
    pub(super) fn is_touched(&self, dir: &Id, name: &OsStr) -> bool {
        self.slots.get(dir).is_some_and(|names| names.contains_key(name))
    }

    /// Whether a file that is found under a name now was there before the command. Whatever reached a name that no call was
    /// about to change has always been there; whatever was moved has been seen at its old name first.
    pub(super) fn is_original(&self, dir: &Id, name: &OsStr, id: &Id) -> bool {
        if self.inodes.contains_key(id) {
            return true;
        }
        if let Some(known) = self.dirs.get(id) {
            return known.is_original;
        }
        self.dirs.get(dir).is_some_and(|dir| dir.is_original) && !self.is_touched(dir, name)
    }

    /// Adds a fact, and to the log.
    pub(super) fn learn(&mut self, fact: Fact) {
        self.pending.extend(fact.frame().encoded());
        self.apply(fact);
    }

    /// Writes new facts to the log, which `make_log` makes with the first one that matters. It survives the death of this
    /// process, not a power cut.
    pub(super) fn flush(&mut self, make_log: impl FnOnce() -> io::Result<File>) -> io::Result<()> {
        if self.pending.is_empty() || (self.slots.is_empty() && self.lost.is_empty()) {
            return Ok(());
        }
        let mut log = match self.log.take() {
            Some(log) => log,
            None => make_log()?,
        };
        log.write_all(&self.pending)?;
        self.log = Some(log);
        self.pending.clear();
        Ok(())
    }

    /// Reads a model back from its log; a torn end is left out.
    pub(super) fn read(log: &[u8]) -> Self {
        let mut model = Self::default();
        let mut rest = log;
        while let Some((head, after)) = rest.split_first_chunk::<4>() {
            let Ok(length) = Frame::length(*head) else { break };
            let Some((bytes, next)) = after.split_at_checked(length) else { break };
            let Ok(fact) = Frame::decoded(bytes).and_then(Fact::parse) else { break };
            model.apply(fact);
            rest = next;
        }
        model
    }

    fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Start(start) => self.start = start,
            Fact::Root(path, id) => {
                self.roots.push((path.into(), id));
                self.dirs.insert(id, DirInfo { place: None, is_original: true, area: Area::Usual });
            }
            Fact::Dir(id, info) => drop(self.dirs.insert(id, info)),
            Fact::Inode(meta, target) => {
                let (copy, link, lost, xattrs) = (None, None, None, None);
                let info = InodeInfo { meta, target, copy, link, lost, xattrs };
                self.inodes.entry(meta.id).or_insert(info);
            }
            Fact::Slot(dir, name, was) => {
                self.slots.entry(dir).or_default().entry(name).or_insert(was);
            }
            Fact::Kept(id, kept) => {
                if let Some(info) = self.inodes.get_mut(&id) {
                    match kept {
                        Kept::Copy(name) => (info.copy, info.lost) = (Some(name), None),
                        Kept::Link(name) => info.link = Some(name),
                        Kept::Lost(why) => info.lost = Some(why),
                    }
                }
            }
            Fact::Xattrs(id, xattrs) => {
                if let Some(info) = self.inodes.get_mut(&id) {
                    info.xattrs.get_or_insert(xattrs);
                }
            }
            Fact::Lost(path, why) => drop(self.lost.insert(path.into(), why)),
        }
    }
}

/// How the old side of a file is kept.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Copy(Copy),
    Link(String),
    Lost(String),
}

/// One fact of the model.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Start((i64, u32)),
    Root(OsString, Id),
    Dir(Id, DirInfo),
    Inode(Meta, OsString),
    Slot(Id, OsString, Option<Id>),
    Kept(Id, Kept),
    Xattrs(Id, Vec<(OsString, Vec<u8>)>),
    Lost(OsString, String),
}

fn id_words(id: &Id) -> [u64; 3] {
    [id.device, id.inode, id.born]
}

fn put<const N: usize>(build: Build, words: [u64; N]) -> Build {
    words.into_iter().fold(build, Build::number)
}

fn take<const N: usize>(parts: &mut Parts) -> io::Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = parts.number()?;
    }
    Ok(words)
}

fn take_id(parts: &mut Parts) -> io::Result<Id> {
    let [device, inode, born] = take(parts)?;
    Ok(Id { device, inode, born })
}

fn take_text(parts: &mut Parts) -> io::Result<String> {
    String::from_utf8(parts.bytes()?).map_err(|_| io::ErrorKind::InvalidData.into())
}

impl Fact {
    fn frame(&self) -> Frame {
        let build = Build::default();
        match self {
            Self::Start((seconds, nanos)) => put(build.number(0), [*seconds as u64, (*nanos).into()]),
            Self::Root(path, id) => put(build.number(1), id_words(id)).bytes(path.as_bytes()),
            Self::Dir(id, info) => {
                let build = put(build.number(2), id_words(id)).number(info.is_original.into());
                let build = build.number(match info.area {
                    Area::Usual => 0,
                    Area::Build => 1,
                    Area::Objects => 2,
                });
                match &info.place {
                    Some((parent, name)) => put(build, id_words(parent)).bytes(name.as_bytes()),
                    None => build,
                }
            }
            Self::Inode(meta, target) => put(build.number(3), meta.words()).bytes(target.as_bytes()),
            Self::Slot(dir, name, was) => {
                let build = put(build.number(4), id_words(dir)).bytes(name.as_bytes());
                was.iter().fold(build, |build, was| put(build, id_words(was)))
            }
            Self::Kept(id, kept) => {
                let (kind, bytes) = match kept {
                    Kept::Copy(Copy::File(name)) => (0, name.as_bytes()),
                    Kept::Link(name) => (1, name.as_bytes()),
                    Kept::Lost(why) => (2, why.as_bytes()),
                    Kept::Copy(Copy::InMemory(content)) => (3, content.as_slice()),
                };
                put(build.number(5), id_words(id)).number(kind).bytes(bytes)
            }
            Self::Xattrs(id, xattrs) => {
                let build = put(build.number(6), id_words(id)).number(xattrs.len() as u64);
                xattrs
                    .iter()
                    .fold(build, |build, (name, value)| build.bytes(name.as_bytes()).bytes(value.as_slice()))
            }
            Self::Lost(path, why) => build.number(7).bytes(path.as_bytes()).bytes(why.as_bytes()),
        }
        .frame()
    }

    fn parse(frame: Frame) -> io::Result<Self> {
        let length = frame.0.len();
        let parts = &mut Parts::of(frame);
        Ok(match parts.number()? {
            0 => {
                let [seconds, nanos] = take(parts)?;
                Self::Start((seconds as i64, nanos as u32))
            }
            1 => {
                let id = take_id(parts)?;
                Self::Root(OsString::from_vec(parts.bytes()?), id)
            }
            2 => {
                let (id, is_original) = (take_id(parts)?, parts.number()? != 0);
                let area = match parts.number()? {
                    0 => Area::Usual,
                    1 => Area::Build,
                    _ => Area::Objects,
                };
                let place = match length {
                    6 => None,
                    _ => Some((take_id(parts)?, OsString::from_vec(parts.bytes()?))),
                };
                Self::Dir(id, DirInfo { place, is_original, area })
            }
            3 => {
                let meta = Meta::from_words(take(parts)?);
                Self::Inode(meta, OsString::from_vec(parts.bytes()?))
            }
            4 => {
                let (dir, name) = (take_id(parts)?, OsString::from_vec(parts.bytes()?));
                Self::Slot(dir, name, if length > 5 { Some(take_id(parts)?) } else { None })
            }
            5 => {
                let (id, kind) = (take_id(parts)?, parts.number()?);
                Self::Kept(
                    id,
                    match kind {
                        0 => Kept::Copy(Copy::File(take_text(parts)?)),
                        1 => Kept::Link(take_text(parts)?),
                        2 => Kept::Lost(take_text(parts)?),
                        _ => Kept::Copy(Copy::InMemory(parts.bytes()?)),
                    },
                )
            }
            6 => {
                let (id, count) = (take_id(parts)?, parts.number()?);
                let pair = |_| Ok((OsString::from_vec(parts.bytes()?), parts.bytes()?));
                Self::Xattrs(id, (0..count).map(pair).collect::<io::Result<_>>()?)
            }
            7 => Self::Lost(OsString::from_vec(parts.bytes()?), take_text(parts)?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}
