//! Decodes a file to text and maps positions in the text back to bytes. The text is for display and matching; changes are
//! made to the bytes, so unchanged parts keep theirs in any encoding, even undecodable ones. A UTF-8 file is held in
//! memory only once. Knows no paths and no edits.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::charset::{Charset, Guess, UNDECODABLE, Unit, guess};

/// Bytes of text between two checkpoints of the map from text to bytes.
const CHECKPOINT_INTERVAL: usize = 256;

/// A kind of line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`, only in a file without any `\n`.
    Cr,
}

impl Ending {
    /// The characters of the line end.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }

    /// Converts all line ends of a text, `\n` and `\r\n`, to this one.
    pub fn only(self, text: &str) -> String {
        self.apply(&text.replace("\r\n", "\n"))
    }

    /// Converts a text with `\n` or `\r\n` line ends to this one; for `\n`, leaves the text as it is.
    pub fn apply(self, text: &str) -> String {
        if self == Self::Lf {
            text.to_owned()
        } else {
            text.replace("\r\n", "\n").replace('\n', self.as_str())
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lf => "LF",
            Self::CrLf => "CRLF",
            Self::Cr => "CR",
        })
    }
}

/// Number of line ends of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endings {
    pub lf: usize,
    pub crlf: usize,
    /// Counted only if there are no others.
    pub cr: usize,
}

impl Endings {
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Self::default();
        if memchr::memchr(b'\r', bytes).is_none() {
            found.lf = memchr::memchr_iter(b'\n', bytes).count();
            return found;
        }
        for at in memchr::memchr_iter(b'\n', bytes) {
            match at.checked_sub(1).map(|before| bytes[before]) {
                Some(b'\r') => found.crlf += 1,
                _ => found.lf += 1,
            }
        }
        if found.lf + found.crlf == 0 {
            found.cr = memchr::memchr_iter(b'\r', bytes).count();
        }
        found
    }

    /// The most frequent line end; `\n` if there is none.
    pub fn majority(self) -> Ending {
        match self {
            Self { cr, .. } if cr > 0 => Ending::Cr,
            Self { lf, crlf, .. } if crlf > lf => Ending::CrLf,
            _ => Ending::Lf,
        }
    }

    pub fn mixed(self) -> bool {
        self.lf > 0 && self.crlf > 0
    }
}

/// A text file: its bytes and its decoded text.
#[derive(Clone, Debug)]
pub struct Source {
    body: Body,
    charset: Charset,
    /// Length of the byte order mark.
    bom_len: usize,
    endings: Endings,
    /// The line end for new lines.
    ending: Ending,
    /// Whether the file has or had undecodable bytes, shown as `�`: a `�` in new text is then refused, since it may be a
    /// copy of them.
    had_undecodable: bool,
}

#[derive(Clone, Debug)]
enum Body {
    /// A file in UTF-8: the text, with its byte order mark.
    Utf8(String),
    /// A file in another encoding, or with undecodable bytes.
    Decoded {
        bytes: Vec<u8>,
        text: String,
        /// Starts of units, as offsets in the text and in the bytes.
        checkpoints: Vec<(usize, usize)>,
        /// Number of undecodable units.
        undecodable: usize,
        /// Whether the text has non-ASCII characters.
        non_ascii: bool,
    },
}

/// Bytes of a file that is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary(pub(crate) Vec<u8>);

/// Why text cannot be written in a file's encoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// The encoding has no such character.
    #[error("`{char}` (U+{:04X}) cannot be written in {charset}, which the file is in", u32::from(*char))]
    Character {
        /// The character.
        char: char,
        /// The encoding.
        charset: String,
    },
    /// The encoding is only a guess that the file itself contradicts.
    #[error(
        "the file is taken for {charset} but has bytes that are not, so `{char}` (U+{:04X}) cannot be written safely",
        u32::from(*char)
    )]
    Guessed {
        /// The character.
        char: char,
        /// The encoding.
        charset: String,
    },
    /// A NUL character, which would make the file binary.
    #[error("a NUL character cannot be written into a text file")]
    Nul,
}

impl Unwritable {
    /// Advice on what to do instead.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Character { .. } => {
                "use characters of that encoding, or convert the file to UTF-8 first if the user wants that"
            }
            Self::Guessed { .. } => "write that part in ASCII",
            Self::Nul => "write it as an escape of the language the file is in",
        }
    }
}

impl Source {
    /// Decodes bytes in a detected encoding; returns them if they are binary.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Binary> {
        match guess(&bytes) {
            Guess::Text(charset, mark) => Self::in_charset(bytes, charset, mark),
            Guess::Binary => Err(Binary(bytes)),
        }
    }

    /// The file with other bytes. Keeps the encoding, and the line end if no line end is left.
    pub fn with_bytes(&self, bytes: Vec<u8>) -> Result<Self, Binary> {
        let bom_len = if bytes.starts_with(self.charset.mark()) { self.bom_len } else { 0 };
        let mut next = Self::in_charset(bytes, self.charset, bom_len)?;
        // A lone `\r` does not become a line end because the last `\n` was removed.
        if self.ending != Ending::Cr && self.endings != Endings::default() {
            next.endings.cr = 0;
        }
        if next.endings == Endings::default() {
            next.ending = self.ending;
        }
        next.had_undecodable |= self.had_undecodable;
        Ok(next)
    }

    /// Decodes bytes in a charset, after a byte order mark of `bom_len` bytes.
    pub fn in_charset(bytes: Vec<u8>, charset: Charset, bom_len: usize) -> Result<Self, Binary> {
        let bytes = if charset == Charset::Utf8 {
            match String::from_utf8(bytes) {
                Ok(text) => {
                    let endings = Endings::of(&text);
                    let ending = endings.majority();
                    return Ok(Self {
                        body: Body::Utf8(text),
                        charset,
                        bom_len,
                        endings,
                        ending,
                        had_undecodable: false,
                    });
                }
                Err(error) => error.into_bytes(),
            }
        } else {
            bytes
        };
        let mut text = String::with_capacity(bytes.len());
        let mut checkpoints = vec![(0, bom_len)];
        let mut next = CHECKPOINT_INTERVAL;
        let (mut undecodable, mut non_ascii) = (0, false);
        let mut at = bom_len;
        while at < bytes.len() {
            if text.len() >= next {
                checkpoints.push((text.len(), at));
                next = text.len() + CHECKPOINT_INTERVAL;
            }
            let (unit, len) = charset.step(&bytes[at..]);
            match unit {
                Unit::Char('\0') => return Err(Binary(bytes)),
                Unit::Char(char) => {
                    non_ascii |= !char.is_ascii();
                    text.push(char);
                }
                Unit::Chars(chars) => text.push_str(&chars),
                Unit::Undecodable => {
                    undecodable += 1;
                    text.push(UNDECODABLE);
                }
            }
            at += len;
        }
        let endings = Endings::of(&text);
        let body = Body::Decoded { bytes, text, checkpoints, undecodable, non_ascii };
        Ok(Self {
            body,
            charset,
            bom_len,
            endings,
            ending: endings.majority(),
            had_undecodable: undecodable > 0,
        })
    }

    /// The decoded text, without the byte order mark, with the file's line ends.
    pub fn text(&self) -> &str {
        match &self.body {
            Body::Utf8(text) => &text[self.bom_len..],
            Body::Decoded { text, .. } => text,
        }
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Utf8(text) => text.as_bytes(),
            Body::Decoded { bytes, .. } => bytes,
        }
    }

    /// Returns the bytes of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.body {
            Body::Utf8(text) => text.into_bytes(),
            Body::Decoded { bytes, .. } => bytes,
        }
    }

    /// Whether the file is valid UTF-8.
    pub fn is_plain(&self) -> bool {
        matches!(self.body, Body::Utf8(_))
    }

    /// The encoding.
    pub fn charset(&self) -> Charset {
        self.charset
    }

    /// Whether the file begins with a byte order mark.
    pub fn marked(&self) -> bool {
        self.bom_len > 0
    }

    /// Number of line ends of each kind.
    pub fn endings(&self) -> Endings {
        self.endings
    }

    /// The most frequent line end.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether the last line is terminated; false for an empty file.
    pub fn final_newline(&self) -> bool {
        self.text().ends_with(if self.ending() == Ending::Cr { '\r' } else { '\n' })
    }

    /// Number of undecodable units.
    pub fn undecodable(&self) -> usize {
        match &self.body {
            Body::Utf8(_) => 0,
            Body::Decoded { undecodable, .. } => *undecodable,
        }
    }

    /// Whether the encoding is certain: valid multi-byte characters or a byte order mark prove that a file is UTF-8, even
    /// if it has undecodable bytes.
    fn encoding_is_certain(&self) -> bool {
        let non_ascii = matches!(self.body, Body::Decoded { non_ascii: true, .. });
        self.charset == Charset::Utf8 && (non_ascii || self.marked())
    }

    /// Byte offset in the file of an offset in the text; `None` within a unit or beyond the end.
    pub fn byte_at(&self, at: usize) -> Option<usize> {
        match &self.body {
            Body::Utf8(_) => self.text().is_char_boundary(at).then_some(at + self.bom_len),
            Body::Decoded { bytes, text, checkpoints, .. } => {
                if at >= text.len() {
                    return (at == text.len()).then_some(bytes.len());
                }
                let before = checkpoints.partition_point(|(offset, _)| *offset <= at).saturating_sub(1);
                let (mut offset, mut byte) = checkpoints.get(before).copied()?;
                while offset < at {
                    let (unit, len) = self.charset.step(&bytes[byte..]);
                    offset += unit_len(&unit);
                    byte += len;
                }
                (offset == at).then_some(byte)
            }
        }
    }

    /// Byte range in the file of a range in the text.
    pub fn byte_range(&self, range: &Range<usize>) -> Option<Range<usize>> {
        Some(self.byte_at(range.start)?..self.byte_at(range.end)?)
    }

    /// Number of line ends in some of the file's bytes. In no supported encoding are they part of a longer unit.
    pub fn breaks_in(&self, bytes: &[u8]) -> usize {
        let byte = super::line_index::break_byte(self.ending());
        match self.charset {
            Charset::Utf16Le => bytes.chunks_exact(2).filter(|unit| **unit == [byte, 0]).count(),
            Charset::Utf16Be => bytes.chunks_exact(2).filter(|unit| **unit == [0, byte]).count(),
            _ => memchr::memchr_iter(byte, bytes).count(),
        }
    }

    /// The bytes of the file with all its text replaced. Keeps the encoding, the byte order mark and the line ends; mixed
    /// ones become the most frequent.
    pub fn rewritten(&self, text: &str) -> Result<Vec<u8>, Unwritable> {
        if text.contains('\0') {
            return Err(Unwritable::Nul);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = match self.ending {
            _ if self.endings == Endings::default() => Cow::Borrowed(text),
            ending if self.endings.mixed() => Cow::Owned(ending.only(text)),
            Ending::Lf => Cow::Borrowed(text),
            ending => Cow::Owned(ending.apply(text)),
        };
        let charset = self.charset.to_string();
        let body = self.charset.encode(&text).map_err(|char| Unwritable::Character { char, charset })?;
        Ok([&self.bytes()[..self.bom_len], &body].concat())
    }

    /// Encodes new text for this file. Refuses non-ASCII text if the encoding is a guess that the file contradicts.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, Unwritable> {
        if text.contains('\0') {
            return Err(Unwritable::Nul);
        }
        let charset = self.charset.to_string();
        let is_unsafe = |char: &char| match self.undecodable() > 0 && !self.encoding_is_certain() {
            true => !char.is_ascii(),
            false => self.had_undecodable && *char == UNDECODABLE,
        };
        if let Some(char) = text.chars().find(is_unsafe) {
            return Err(Unwritable::Guessed { char, charset });
        }
        self.charset.encode(text).map_err(|char| Unwritable::Character { char, charset })
    }
}

fn unit_len(unit: &Unit) -> usize {
    match unit {
        Unit::Char(char) => char.len_utf8(),
        Unit::Chars(chars) => chars.len(),
        Unit::Undecodable => UNDECODABLE.len_utf8(),
    }
}

#[cfg(test)]
mod tests;
