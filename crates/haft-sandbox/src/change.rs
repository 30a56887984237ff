//! The vocabulary of changes: the expected state, the new one, and how durable it must be. The changes themselves are
//! methods of [`Workspace`](crate::Workspace); each takes the name of a temporary file from its caller, so that a
//! write-ahead record can name it.

mod disk;
mod error;
mod hash;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

pub use disk::{OneFlush, start_writing};
pub use error::{ChangeError, ChangeErrorKind};
pub use hash::{Hash, Hasher};

use crate::stat::Kind;

/// Precondition of a change: the state that a path must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing exists there.
    Missing,
    /// A regular file with this content.
    Content(Hash),
    /// Any state.
    Anything,
}

impl Expect {
    /// Whether a state meets the precondition.
    pub fn allows(&self, state: &State) -> bool {
        match (self, state) {
            (Self::Anything, _) | (Self::Missing, State::Missing) => true,
            (Self::Content(expected), State::File { hash: Some(hash), .. }) => expected == hash,
            _ => false,
        }
    }
}

/// How durable a change is when it is reported as done. Either way a process that is killed leaves the old or the new
/// file, never a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// It survives a power cut: the content is synced before the rename, the directory after it.
    #[default]
    Full,
    /// Nothing is synced. A power cut within the next seconds can lose the change and, on some file
    /// systems, the content of the file.
    Fast,
}

/// The name of a temporary file, `.haft-<id>.tmp`. Only names of this pattern are ever used for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TempName(String);

impl TempName {
    const START: &str = ".haft-";
    const END: &str = ".tmp";

    /// The name for an id of up to 64 ASCII letters, digits and `-`; nothing for any other id.
    pub fn new(id: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = (1..=64).contains(&id.len()) && id.bytes().all(plain);
        fits.then(|| Self(format!("{}{id}{}", Self::START, Self::END)))
    }

    /// The name that [`TempName::as_str`] gave.
    pub fn parse(name: &str) -> Option<Self> {
        Self::new(name.strip_prefix(Self::START)?.strip_suffix(Self::END)?)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TempName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Metadata of a file that belongs to it besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When its content last changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Extended attributes, access control lists among them, sorted by name.
    pub xattrs: Vec<(OsString, Vec<u8>)>,
}

/// Where the attributes of a written file come from.
#[derive(Clone, Copy, Debug)]
pub enum Like<'a> {
    /// From the replaced file, without set-user-ID, set-group-ID and capabilities, which the kernel drops on every write,
    /// too. A new file gets the defaults of the umask and the directory.
    Replaced,
    /// These, unchanged.
    Exactly(&'a Attributes),
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing exists there.
    Missing,
    /// A regular file.
    File {
        /// The hash of its content; `None` for a file that is too large to be hashed.
        hash: Option<Hash>,
        /// Its size in bytes.
        size: u64,
        /// Its number of hard links.
        links: u64,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A symbolic link.
    Link {
        /// Its target, as written.
        target: OsString,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A directory.
    Directory {
        /// Its attributes.
        attributes: Attributes,
    },
    /// A fifo, socket or device, which haft does not open.
    Special(Kind),
}

impl State {
    /// The attributes of a file, link or directory.
    pub fn attributes(&self) -> Option<&Attributes> {
        match self {
            Self::File { attributes, .. }
            | Self::Link { attributes, .. }
            | Self::Directory { attributes } => Some(attributes),
            Self::Missing | Self::Special(_) => None,
        }
    }

    /// Size of a file in bytes; 0 for anything else.
    pub fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            _ => 0,
        }
    }

    /// Whether both have the same kind and content, whatever their attributes. Files too large to be hashed are compared by
    /// size and time.
    pub fn same_content(&self, other: &State) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::Link { target: one, .. }, Self::Link { target: other, .. }) => one == other,
            (Self::Special(one), Self::Special(other)) => one == other,
            (
                Self::File { hash: one, size, attributes, .. },
                Self::File { hash: other, size: other_size, attributes: other_attributes, .. },
            ) => match (one, other) {
                (Some(one), Some(other)) => one == other,
                _ => size == other_size && attributes.modified == other_attributes.modified,
            },
            _ => false,
        }
    }

    /// The state in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Missing => "nothing".to_owned(),
            Self::File { size, .. } => format!("a file of {size} bytes"),
            Self::Link { .. } => "a symbolic link".to_owned(),
            Self::Directory { .. } => "a directory".to_owned(),
            Self::Special(kind) => format!("a {kind}"),
        }
    }
}

/// One entry of a directory tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its path relative to the tree; empty for the tree itself.
    pub below: PathBuf,
    /// Its state.
    pub state: State,
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Number of hard links of the replaced file. Since a new file replaces it, its other names keep the old content: more
    /// than 1 means that a hard link was broken.
    pub links: u64,
}
