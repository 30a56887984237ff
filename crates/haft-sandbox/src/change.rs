//! What a change of the workspace is made of: what is expected to be there, what is put there, and how
//! surely it is on disk afterwards. The changes themselves are methods of [`Workspace`](crate::Workspace);
//! each takes the name of a temporary file from its caller, so that a record can name it beforehand.

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

/// What must be at a place for a change to go ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Missing,
    /// A regular file of this content.
    Content(Hash),
    /// Whatever is there.
    Anything,
}

impl Expect {
    /// Whether this is what was expected.
    pub fn allows(&self, state: &State) -> bool {
        match (self, state) {
            (Self::Anything, _) | (Self::Missing, State::Missing) => true,
            (Self::Content(expected), State::File { hash: Some(hash), .. }) => expected == hash,
            _ => false,
        }
    }
}

/// How surely a change is on disk when it is reported as done. Either way a process that is killed leaves
/// the old or the new file, never a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// It outlasts a power cut: the content is synced before it is given its name, the directory after.
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

/// What belongs to a file besides its content.
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
    /// From the file that is replaced. What makes a program run with other rights (set-user-ID,
    /// set-group-ID, capabilities) is dropped, as the kernel does on every write. A new file gets what
    /// the umask and the directory say.
    Replaced,
    /// From here, as they were.
    Exactly(&'a Attributes),
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// The hash of its content; not known of a file that is too large to be hashed.
        hash: Option<Hash>,
        /// Its size in bytes.
        size: u64,
        /// How many names it has.
        links: u64,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A symbolic link.
    Link {
        /// Where it leads, as it is written.
        target: OsString,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A directory.
    Directory {
        /// Its attributes.
        attributes: Attributes,
    },
    /// Something that is not opened: a fifo, socket or device.
    Special(Kind),
}

impl State {
    /// The attributes, if there is something that has them.
    pub fn attributes(&self) -> Option<&Attributes> {
        match self {
            Self::File { attributes, .. }
            | Self::Link { attributes, .. }
            | Self::Directory { attributes } => Some(attributes),
            Self::Missing | Self::Special(_) => None,
        }
    }

    /// Bytes of content; none of what is no file.
    pub fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            _ => 0,
        }
    }

    /// Whether both are of the same kind and content, whatever their attributes. Files too large to be
    /// hashed are told apart by size and time.
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

    /// What it is, in words.
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

/// One place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where it is, below the tree's own place; empty for the tree itself.
    pub below: PathBuf,
    /// What it is.
    pub state: State,
}

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// How many names the replaced file had. A file is replaced by a new one, so other names of it keep
    /// the old content: if this is more than 1, a hard link was broken up.
    pub links: u64,
}
