//! The bytes of a file understood as text. The text is for showing and matching; a change is made to the
//! bytes, so what is not changed stays as it was in any encoding, even where it cannot be decoded. A file
//! in UTF-8 is held once. Knows no paths and no edits.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::charset::{Charset, Guess, UNDECODABLE, Unit, guess};

/// How many bytes of text lie between two known places in the file.
const CHECKPOINT: usize = 256;

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`, only in a file that has no `\n` at all.
    Cr,
}

impl Ending {
    /// What it is written as.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }

    /// Text with this ending and no other.
    pub fn only(self, text: &str) -> String {
        self.apply(&text.replace("\r\n", "\n"))
    }

    /// Text with this ending, whether it was written with `\n` or with `\r\n`.
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

/// How many lines end in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endings {
    pub lf: usize,
    pub crlf: usize,
    /// Counted only where there is no other.
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

    /// The ending of most lines; `\n` where there is no line end.
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

/// A file's bytes and the text they are.
#[derive(Clone, Debug)]
pub struct Source {
    body: Body,
    charset: Charset,
    mark: usize,
    endings: Endings,
    /// How lines end once there are some.
    style: Ending,
    /// Whether it has or had places that are shown as `�`, which must not come back as that character.
    damaged: bool,
}

#[derive(Clone, Debug)]
enum Body {
    /// The whole file, its mark included, is the text.
    Same(String),
    Other {
        bytes: Vec<u8>,
        text: String,
        /// Places where a unit begins: in the text, and in the bytes.
        checkpoints: Vec<(usize, usize)>,
        /// How many units could not be decoded.
        undecodable: usize,
        /// Whether some characters are beyond ASCII.
        wide: bool,
    },
}

/// Bytes that are no text.
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
    /// It would make the file a binary one.
    #[error("a NUL character cannot be written into a text file")]
    Nul,
}

impl Unwritable {
    /// What to do about it.
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
    /// Understands bytes as text, or gives them back.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Binary> {
        match guess(&bytes) {
            Guess::Text(charset, mark) => Self::in_charset(bytes, charset, mark),
            Guess::Binary => Err(Binary(bytes)),
        }
    }

    /// The same file with other bytes: encoding and, where no line end is left, line ends are settled.
    pub fn with_bytes(&self, bytes: Vec<u8>) -> Result<Self, Binary> {
        let mark = if bytes.starts_with(self.charset.mark()) { self.mark } else { 0 };
        let mut next = Self::in_charset(bytes, self.charset, mark)?;
        // A lone `\r` that was no line end does not become one because the last `\n` went.
        if self.style != Ending::Cr && self.endings != Endings::default() {
            next.endings.cr = 0;
        }
        if next.endings == Endings::default() {
            next.style = self.style;
        }
        next.damaged |= self.damaged;
        Ok(next)
    }

    /// Understands bytes as text of a charset, after a mark of so many bytes.
    pub fn in_charset(bytes: Vec<u8>, charset: Charset, mark: usize) -> Result<Self, Binary> {
        let bytes = if charset == Charset::Utf8 {
            match String::from_utf8(bytes) {
                Ok(text) => {
                    let endings = Endings::of(&text);
                    let style = endings.majority();
                    return Ok(Self {
                        body: Body::Same(text),
                        charset,
                        mark,
                        endings,
                        style,
                        damaged: false,
                    });
                }
                Err(error) => error.into_bytes(),
            }
        } else {
            bytes
        };
        let mut text = String::with_capacity(bytes.len());
        let mut checkpoints = vec![(0, mark)];
        let mut next = CHECKPOINT;
        let (mut undecodable, mut wide) = (0, false);
        let mut at = mark;
        while at < bytes.len() {
            if text.len() >= next {
                checkpoints.push((text.len(), at));
                next = text.len() + CHECKPOINT;
            }
            let (unit, len) = charset.step(&bytes[at..]);
            match unit {
                Unit::Char('\0') => return Err(Binary(bytes)),
                Unit::Char(char) => {
                    wide |= !char.is_ascii();
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
        let body = Body::Other { bytes, text, checkpoints, undecodable, wide };
        Ok(Self { body, charset, mark, endings, style: endings.majority(), damaged: undecodable > 0 })
    }

    /// The file as text, without a byte order mark, with its own line ends.
    pub fn text(&self) -> &str {
        match &self.body {
            Body::Same(text) => &text[self.mark..],
            Body::Other { text, .. } => text,
        }
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Same(text) => text.as_bytes(),
            Body::Other { bytes, .. } => bytes,
        }
    }

    /// The file, to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.body {
            Body::Same(text) => text.into_bytes(),
            Body::Other { bytes, .. } => bytes,
        }
    }

    /// Whether its bytes are the text, all of it UTF-8.
    pub fn is_plain(&self) -> bool {
        matches!(self.body, Body::Same(_))
    }

    /// How its characters are written.
    pub fn charset(&self) -> Charset {
        self.charset
    }

    /// Whether it begins with a byte order mark.
    pub fn marked(&self) -> bool {
        self.mark > 0
    }

    /// How its lines end.
    pub fn endings(&self) -> Endings {
        self.endings
    }

    /// How most of its lines end.
    pub fn ending(&self) -> Ending {
        self.style
    }

    /// Whether its last line is ended; an empty file has no line to end.
    pub fn final_newline(&self) -> bool {
        self.text().ends_with(if self.ending() == Ending::Cr { '\r' } else { '\n' })
    }

    /// How many places could not be decoded.
    pub fn undecodable(&self) -> usize {
        match &self.body {
            Body::Same(_) => 0,
            Body::Other { undecodable, .. } => *undecodable,
        }
    }

    /// Whether its encoding is more than a guess: characters of several bytes prove that a file is UTF-8,
    /// whatever else is in it, and so does a mark.
    fn proven(&self) -> bool {
        let wide = matches!(self.body, Body::Other { wide: true, .. });
        self.charset == Charset::Utf8 && (wide || self.marked())
    }

    /// Where a place in the text is in the file; nothing if it is inside of a unit or beyond the end.
    pub fn byte_at(&self, at: usize) -> Option<usize> {
        match &self.body {
            Body::Same(_) => self.text().is_char_boundary(at).then_some(at + self.mark),
            Body::Other { bytes, text, checkpoints, .. } => {
                if at >= text.len() {
                    return (at == text.len()).then_some(bytes.len());
                }
                let before = checkpoints.partition_point(|(place, _)| *place <= at).saturating_sub(1);
                let (mut place, mut byte) = checkpoints.get(before).copied()?;
                while place < at {
                    let (unit, len) = self.charset.step(&bytes[byte..]);
                    place += unit_len(&unit);
                    byte += len;
                }
                (place == at).then_some(byte)
            }
        }
    }

    /// Which bytes a range of the text is.
    pub fn byte_range(&self, range: &Range<usize>) -> Option<Range<usize>> {
        Some(self.byte_at(range.start)?..self.byte_at(range.end)?)
    }

    /// How many line ends some of its bytes have. No line end is part of a longer unit in any encoding.
    pub fn breaks_in(&self, bytes: &[u8]) -> usize {
        let byte = super::rows::break_byte(self.ending());
        match self.charset {
            Charset::Utf16Le => bytes.chunks_exact(2).filter(|unit| **unit == [byte, 0]).count(),
            Charset::Utf16Be => bytes.chunks_exact(2).filter(|unit| **unit == [0, byte]).count(),
            _ => memchr::memchr_iter(byte, bytes).count(),
        }
    }

    /// The file with other text: its encoding, its mark and its line ends stay, or those of most lines.
    pub fn rewritten(&self, text: &str) -> Result<Vec<u8>, Unwritable> {
        if text.contains('\0') {
            return Err(Unwritable::Nul);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = match self.style {
            _ if self.endings == Endings::default() => Cow::Borrowed(text),
            style if self.endings.mixed() => Cow::Owned(style.only(text)),
            Ending::Lf => Cow::Borrowed(text),
            style => Cow::Owned(style.apply(text)),
        };
        let charset = self.charset.to_string();
        let body = self.charset.encode(&text).map_err(|char| Unwritable::Character { char, charset })?;
        Ok([&self.bytes()[..self.mark], &body].concat())
    }

    /// Text as this file would hold it.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, Unwritable> {
        if text.contains('\0') {
            return Err(Unwritable::Nul);
        }
        let charset = self.charset.to_string();
        let doubtful = |char: &char| match self.undecodable() > 0 && !self.proven() {
            true => !char.is_ascii(),
            false => self.damaged && *char == UNDECODABLE,
        };
        if let Some(char) = text.chars().find(doubtful) {
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
