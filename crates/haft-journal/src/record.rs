//! The records of the journal and their encoding: a header, stored content, the description as JSON, and a checksum over all
//! of it. Content comes first, so that its offset in the file is known when the description is written. The serde names are
//! the format on disk.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use haft_sandbox::{AbsPath, Attributes, Hash, State};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Start of every record.
const MAGIC: [u8; 4] = *b"hj1\n";
/// Length of the header: magic, content length, description length.
pub(super) const HEAD: usize = 12;
/// Length of the checksum.
const CHECKSUM: usize = 16;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// First record of a segment: the next number, so that numbering goes on when all older segments are evicted.
    Start { next: u64 },
    /// Write-ahead record: what is about to happen.
    Intent(Intent),
    /// The outcome of an intent.
    Outcome { number: u64, outcome: Outcome },
}

/// The outcome of an intent: done, rolled back, or left as it is because other programs have changed its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Done,
    NotApplied,
    External,
}

/// One numbered change that is about to happen, all or nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) number: u64,
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) tool: String,
    pub(super) session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<u64>,
    pub(super) steps: Vec<Step>,
    /// Missing parent directories that it makes, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parents: Vec<Text>,
    /// Whether each step builds on the one before, so that they must be made one by one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) ordered: bool,
    /// What a command did: it has happened already, and this names the recording that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recording: Option<Recording>,
}

/// The command that an entry tells of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recording {
    /// Name of the folder in which its old sides were kept.
    pub(super) id: String,
    /// The command, as a person would recognise it.
    pub(super) command: String,
}

/// One step of an intent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// A path changes from one snapshot to another.
    Set { path: Text, temp: String, before: Snapshot, after: Snapshot },
    /// A rename to a path that does not exist.
    Move { from: Text, to: Text, what: Snapshot },
    /// Permission bits change.
    Mode { path: Text, what: Snapshot, before: u32, after: u32 },
}

/// The recorded state of a path, with enough to restore it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Snapshot {
    Missing,
    File {
        hash: Option<Digest>,
        size: u64,
        #[serde(rename = "kept")]
        storage: Storage,
        /// Permission bits, if no other attributes are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attributes: Option<Attrs>,
        /// Another path that is a hard link of the same file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        linked: Option<Text>,
    },
    Link {
        target: Text,
        attributes: Attrs,
    },
    Directory {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attributes: Option<Attrs>,
    },
    /// A directory with its content; the first entry is the directory itself.
    Tree(Vec<(Text, Snapshot)>),
    Special,
}

/// Where the content of a file is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Storage {
    /// In the same segment.
    #[serde(rename = "here")]
    Inline { at: u64, length: u64 },
    /// As a delta to other content: these parts differ, and their bytes are in the same segment. The other content is stored
    /// itself, or it is the file's content on the other side of the change.
    #[serde(rename = "spliced")]
    Delta { of: Digest, parts: Vec<Part> },
    /// In a file of its own, named by its hash.
    Blob,
    /// At this other path of the workspace.
    #[serde(rename = "at")]
    Elsewhere(Text),
    /// Nowhere.
    #[serde(rename = "no")]
    None,
}

/// One part of a delta: a range of the base content, and the offset in the segment of the bytes that replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) at: u64,
    /// Length of the replaced range.
    #[serde(rename = "gone")]
    pub(super) removed: u64,
    pub(super) from: u64,
    pub(super) length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attrs {
    mode: u32,
    uid: u32,
    gid: u32,
    modified: (i64, u32),
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<(Text, Text)>,
}

/// Bytes that are mostly text: serialised as a string if they are UTF-8, as numbers otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Text(pub(super) Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(pub(super) Hash);

impl Text {
    pub(super) fn path(path: &AbsPath) -> Self {
        Self(path.as_path().as_os_str().as_bytes().to_vec())
    }

    pub(super) fn of(name: impl AsRef<OsStr>) -> Self {
        Self(name.as_ref().as_bytes().to_vec())
    }

    pub(super) fn as_os(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The path. Whether it lies in the workspace is checked when it is used.
    pub(super) fn to_path(&self) -> AbsPath {
        AbsPath::lexical(Path::new(self.as_os()))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Deserialises without intermediate copies: a long journal has many texts.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Text, A::Error> {
        let mut text = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            text.push(byte);
        }
        Ok(Text(text))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        Hash::parse(text).map(Self).ok_or_else(|| serde::de::Error::custom("not a hash"))
    }
}

impl From<&Attributes> for Attrs {
    fn from(attributes: &Attributes) -> Self {
        let pair = |(name, value): &(OsString, Vec<u8>)| (Text::of(name), Text(value.clone()));
        Self {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified,
            xattrs: attributes.xattrs.iter().map(pair).collect(),
        }
    }
}

impl From<&Attrs> for Attributes {
    fn from(attrs: &Attrs) -> Self {
        let pair = |(name, value): &(Text, Text)| (OsString::from_vec(name.0.clone()), value.0.clone());
        Self {
            mode: attrs.mode,
            uid: attrs.uid,
            gid: attrs.gid,
            modified: attrs.modified,
            xattrs: attrs.xattrs.iter().map(pair).collect(),
        }
    }
}

impl Intent {
    /// Calls `each` for every file that has a hash.
    pub(super) fn for_each_file<'a>(&'a self, each: &mut dyn FnMut(&'a Hash, &'a Storage, u64)) {
        for step in &self.steps {
            match step {
                Step::Set { before, after, .. } => {
                    before.for_each_file(each);
                    after.for_each_file(each);
                }
                Step::Move { what, .. } | Step::Mode { what, .. } => what.for_each_file(each),
            }
        }
    }
}

impl Snapshot {
    /// A snapshot of a state; its content is not stored yet.
    pub(super) fn of(state: &State) -> Self {
        match state {
            State::Missing => Self::Missing,
            State::File { hash, size, attributes, .. } => Self::File {
                hash: hash.map(Digest),
                size: *size,
                storage: Storage::None,
                mode: None,
                attributes: Some(attributes.into()),
                linked: None,
            },
            State::Link { target, attributes } => {
                Self::Link { target: Text::of(target), attributes: attributes.into() }
            }
            State::Directory { attributes } => Self::Directory { attributes: Some(attributes.into()) },
            State::Special(_) => Self::Special,
        }
    }

    /// The state as far as it is known, for comparison with the actual one.
    pub(super) fn state(&self) -> State {
        match self {
            Self::Missing => State::Missing,
            Self::File { hash, size, .. } => State::File {
                hash: hash.map(|digest| digest.0),
                size: *size,
                links: 1,
                attributes: self.attributes().unwrap_or_else(unknown_attributes),
            },
            Self::Link { target, attributes } => {
                State::Link { target: target.as_os().to_owned(), attributes: attributes.into() }
            }
            Self::Directory { .. } | Self::Tree(_) => {
                State::Directory { attributes: self.attributes().unwrap_or_else(unknown_attributes) }
            }
            Self::Special => State::Special(haft_sandbox::Kind::Special("special file")),
        }
    }

    pub(super) fn attributes(&self) -> Option<Attributes> {
        match self {
            Self::File { attributes, .. } | Self::Directory { attributes } => {
                attributes.as_ref().map(Attributes::from)
            }
            Self::Link { attributes, .. } => Some(attributes.into()),
            Self::Tree(entries) => entries.first().and_then(|(_, snapshot)| snapshot.attributes()),
            Self::Missing | Self::Special => None,
        }
    }

    fn mode(&self) -> Option<u32> {
        match self {
            Self::File { mode: Some(mode), .. } => Some(*mode),
            Self::Link { .. } => None,
            other => other.attributes().map(|attributes| attributes.mode),
        }
    }

    /// Whether a state has the recorded kind, content and permission bits. Of a tree only the directory itself is
    /// compared.
    pub(super) fn matches(&self, found: &State) -> bool {
        let same_mode = match (self.mode(), found.attributes()) {
            (Some(mode), Some(attributes)) => mode == attributes.mode,
            _ => true,
        };
        match (self, found) {
            (Self::Special, State::Special(_)) => true,
            _ => self.state().same_content(found) && same_mode,
        }
    }

    /// Calls `each` for every file that has a hash.
    pub(super) fn for_each_file<'a>(&'a self, each: &mut dyn FnMut(&'a Hash, &'a Storage, u64)) {
        match self {
            Self::File { hash: Some(hash), storage, size, .. } => each(&hash.0, storage, *size),
            Self::Tree(entries) => entries.iter().for_each(|(_, snapshot)| snapshot.for_each_file(each)),
            _ => {}
        }
    }

    /// This snapshot with its content stored in this way.
    pub(super) fn stored_as(mut self, how: Storage) -> Self {
        if let Self::File { storage, .. } = &mut self {
            *storage = how;
        }
        self
    }

    /// The parts of its delta to another snapshot, if it is stored as one. Empty if both have the same content, however it is
    /// stored: the process may have died before it stored it, and since both sides of the step look the same, recovery
    /// cannot know that the step never happened.
    pub(super) fn delta_to(&self, other: &Self) -> Option<&[Part]> {
        match (self, other) {
            (Self::File { hash: Some(one), .. }, Self::File { hash: Some(other), .. }) if one == other => {
                Some(&[])
            }
            (
                Self::File { storage: Storage::Delta { of, parts }, .. },
                Self::File { hash: Some(hash), .. },
            ) if of == hash => Some(parts),
            _ => None,
        }
    }

    /// Whether both are equal in everything that both know.
    pub(super) fn is_compatible_with(&self, other: &Self) -> bool {
        let same_mode = match (self.mode(), other.mode()) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        match (self, other) {
            (Self::Tree(one), Self::Tree(other)) => {
                let same = |((below, snapshot), (other, like)): (&(Text, Self), &(Text, Self))| {
                    below == other && snapshot.is_compatible_with(like)
                };
                one.len() == other.len() && one.iter().zip(other).all(same)
            }
            _ => same_mode && self.state().same_content(&other.state()),
        }
    }

    /// The snapshot of a relative path in it.
    pub(super) fn below(&self, below: &Path) -> Self {
        match self {
            _ if below.as_os_str().is_empty() => self.clone(),
            Self::Tree(entries) => {
                let entry = entries.iter().find(|(entry, _)| entry.as_os() == below.as_os_str());
                entry.map_or(Self::Missing, |(_, snapshot)| snapshot.clone())
            }
            _ => Self::Missing,
        }
    }

    /// Size of its content in bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            Self::Tree(entries) => entries.iter().map(|(_, snapshot)| snapshot.size()).sum(),
            _ => 0,
        }
    }
}

fn unknown_attributes() -> Attributes {
    Attributes { mode: 0, uid: 0, gid: 0, modified: (0, 0), xattrs: Vec::new() }
}

/// Encodes a record with its content.
pub(super) fn encode(record: &Record, content: &[u8]) -> serde_json::Result<Vec<u8>> {
    let description = serde_json::to_vec(record)?;
    let mut bytes = Vec::with_capacity(HEAD + content.len() + description.len() + CHECKSUM);
    bytes.extend(MAGIC);
    // Neither gets that long: `archive` limits the content of a record.
    bytes.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(u32::try_from(description.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(content);
    bytes.extend(description);
    bytes.extend(&Hash::of(&bytes).as_bytes()[..CHECKSUM]);
    Ok(bytes)
}

/// Decodes the record at the beginning of some bytes, and its length; `None` unless it is whole and its checksum matches.
pub(super) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let word = |at: usize| {
        let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(word)).ok()
    };
    if bytes.get(..4)? != MAGIC {
        return None;
    }
    let description = HEAD.checked_add(word(4)?)?;
    let end = description.checked_add(word(8)?)?;
    let checked = bytes.get(..end)?;
    let checksum = bytes.get(end..end.checked_add(CHECKSUM)?)?;
    if Hash::of(checked).as_bytes()[..CHECKSUM] != *checksum {
        return None;
    }
    let record = serde_json::from_slice(&checked[description..]).ok()?;
    Some((record, end + CHECKSUM))
}

/// Offset of the next whole record after damage, if there is one.
pub(super) fn find_next(bytes: &[u8]) -> Option<usize> {
    let marks = bytes.windows(MAGIC.len()).enumerate().skip(1).filter(|(_, window)| *window == MAGIC);
    marks.map(|(at, _)| at).find(|at| decode(&bytes[*at..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_a_damaged_one_is_not() {
        let record = Record::Outcome { number: 7, outcome: Outcome::Done };
        let bytes = encode(&record, b"kept").unwrap();
        let (read, length) = decode(&bytes).unwrap();
        assert!(matches!(read, Record::Outcome { number: 7, outcome: Outcome::Done }));
        assert_eq!(length, bytes.len());
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_none(), "damaged at {at}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_survives() {
        let text = Text(b"a\xff".to_vec());
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
    }
}
