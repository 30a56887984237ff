//! What a record of the journal says, and how it lies in a file: a head, kept content, the description as
//! JSON, and a checksum over all of it. Kept content comes first so that its place in the file is known
//! before it is described.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use haft_sandbox::{AbsPath, Attributes, Hash, State};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MAGIC: [u8; 4] = *b"hj1\n";
pub(super) const HEAD: usize = 12;
const CHECKSUM: usize = 16;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// Begins a segment: the number that comes next, so that numbers go on when everything older is gone.
    Start { next: u64 },
    /// What is about to happen.
    Intent(Intent),
    /// What became of it.
    Outcome { number: u64, outcome: Outcome },
}

/// What became of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Done,
    NotApplied,
    External,
}

/// One number of the journal: what is about to happen, all of it or nothing.
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
    /// Directories that are made on the way, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parents: Vec<Text>,
}

/// One step of an intent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// A place changes from one shape to another.
    Set { path: Text, temp: String, before: Shape, after: Shape },
    /// Something takes a name where nothing was.
    Move { from: Text, to: Text, what: Shape },
    /// Permission bits change.
    Mode { path: Text, what: Shape, before: u32, after: u32 },
}

/// What a place holds, with enough to bring it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Missing,
    File {
        hash: Option<Digest>,
        size: u64,
        kept: Kept,
        /// Permission bits, where only these are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attributes: Option<Attrs>,
    },
    Link {
        target: Text,
        attributes: Attrs,
    },
    Directory {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attributes: Option<Attrs>,
    },
    /// A directory with everything in it; the first entry is the directory itself.
    Tree(Vec<(Text, Shape)>),
    Special,
}

/// Where content is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// In the same segment.
    Here { at: u64, length: u64 },
    /// As other content, but for these parts, whose bytes are in the same segment. The other content is
    /// kept itself, or it is what the place holds on the other side of the change.
    Spliced { of: Digest, parts: Vec<Part> },
    /// In a file of its own, named by its hash.
    Blob,
    /// At this other place of the workspace.
    At(Text),
    /// Nowhere.
    No,
}

/// Some bytes of a content, and where those lie in the segment that come in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) gone: u64,
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

/// Bytes that are mostly text: written as a string where they are UTF-8, as numbers where not.
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

    /// The place of that path. Whether it lies in the workspace shows when it is used.
    pub(super) fn place(&self) -> AbsPath {
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

/// Takes the bytes as they come: there are many of them in a long journal.
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
    /// Walks the files with a hash.
    pub(super) fn for_each_file<'a>(&'a self, each: &mut dyn FnMut(&'a Hash, &'a Kept, u64)) {
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

impl Shape {
    /// The shape of what was found; its content is not kept yet.
    pub(super) fn of(state: &State) -> Self {
        match state {
            State::Missing => Self::Missing,
            State::File { hash, size, attributes, .. } => Self::File {
                hash: hash.map(Digest),
                size: *size,
                kept: Kept::No,
                mode: None,
                attributes: Some(attributes.into()),
            },
            State::Link { target, attributes } => {
                Self::Link { target: Text::of(target), attributes: attributes.into() }
            }
            State::Directory { attributes } => Self::Directory { attributes: Some(attributes.into()) },
            State::Special(_) => Self::Special,
        }
    }

    /// The state as far as it is known, to be compared with what is found.
    pub(super) fn state(&self) -> State {
        match self {
            Self::Missing => State::Missing,
            Self::File { hash, size, .. } => State::File {
                hash: hash.map(|digest| digest.0),
                size: *size,
                links: 1,
                attributes: self.attributes().unwrap_or_else(nothing_known),
            },
            Self::Link { target, attributes } => {
                State::Link { target: target.as_os().to_owned(), attributes: attributes.into() }
            }
            Self::Directory { .. } | Self::Tree(_) => {
                State::Directory { attributes: self.attributes().unwrap_or_else(nothing_known) }
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
            Self::Tree(entries) => entries.first().and_then(|(_, shape)| shape.attributes()),
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

    /// Whether this is what was found: the same kind, content and permission bits. Of a tree only the
    /// directory itself is compared.
    pub(super) fn fits(&self, found: &State) -> bool {
        let same_mode = match (self.mode(), found.attributes()) {
            (Some(mode), Some(attributes)) => mode == attributes.mode,
            _ => true,
        };
        match (self, found) {
            (Self::Special, State::Special(_)) => true,
            _ => self.state().same_content(found) && same_mode,
        }
    }

    /// Walks the files with a hash.
    pub(super) fn for_each_file<'a>(&'a self, each: &mut dyn FnMut(&'a Hash, &'a Kept, u64)) {
        match self {
            Self::File { hash: Some(hash), kept, size, .. } => each(&hash.0, kept, *size),
            Self::Tree(entries) => entries.iter().for_each(|(_, shape)| shape.for_each_file(each)),
            _ => {}
        }
    }

    /// The same file with its content kept in this way.
    pub(super) fn kept_as(mut self, how: Kept) -> Self {
        if let Self::File { kept, .. } = &mut self {
            *kept = how;
        }
        self
    }

    /// What of it differs from another shape, where it is kept in that way. Nothing of the same content
    /// does, however it is kept: a process may have died before it kept it, and as both sides of the step
    /// look the same, it cannot be told that the step never happened.
    pub(super) fn differs_from(&self, other: &Self) -> Option<&[Part]> {
        match (self, other) {
            (Self::File { hash: Some(one), .. }, Self::File { hash: Some(other), .. }) if one == other => {
                Some(&[])
            }
            (Self::File { kept: Kept::Spliced { of, parts }, .. }, Self::File { hash: Some(hash), .. })
                if of == hash =>
            {
                Some(parts)
            }
            _ => None,
        }
    }

    /// Whether both are the same, as far as either is known.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let same_mode = match (self.mode(), other.mode()) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        match (self, other) {
            (Self::Tree(one), Self::Tree(other)) => {
                let same = |((below, shape), (other, like)): (&(Text, Self), &(Text, Self))| {
                    below == other && shape.is_like(like)
                };
                one.len() == other.len() && one.iter().zip(other).all(same)
            }
            _ => same_mode && self.state().same_content(&other.state()),
        }
    }

    /// What of it is at a place below.
    pub(super) fn below(&self, below: &Path) -> Self {
        match self {
            _ if below.as_os_str().is_empty() => self.clone(),
            Self::Tree(entries) => {
                let entry = entries.iter().find(|(entry, _)| entry.as_os() == below.as_os_str());
                entry.map_or(Self::Missing, |(_, shape)| shape.clone())
            }
            _ => Self::Missing,
        }
    }

    /// Bytes of content.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            Self::Tree(entries) => entries.iter().map(|(_, shape)| shape.size()).sum(),
            _ => 0,
        }
    }
}

fn nothing_known() -> Attributes {
    Attributes { mode: 0, uid: 0, gid: 0, modified: (0, 0), xattrs: Vec::new() }
}

/// The bytes of a record.
pub(super) fn encode(record: &Record, kept: &[u8]) -> serde_json::Result<Vec<u8>> {
    let description = serde_json::to_vec(record)?;
    let mut bytes = Vec::with_capacity(HEAD + kept.len() + description.len() + CHECKSUM);
    bytes.extend(MAGIC);
    // Longer content never lies in a record, and nothing can be described at such length.
    bytes.extend(u32::try_from(kept.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(u32::try_from(description.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(kept);
    bytes.extend(description);
    bytes.extend(&Hash::of(&bytes).as_bytes()[..CHECKSUM]);
    Ok(bytes)
}

/// The record that the bytes begin with, and its length; nothing if they begin with no whole record.
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

/// How far on the next whole record begins, if there is one.
pub(super) fn next(bytes: &[u8]) -> Option<usize> {
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
    fn names_that_are_not_text_survive() {
        let text = Text(b"a\xff".to_vec());
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
    }
}
