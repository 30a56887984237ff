//! Detects the encoding of bytes, and decodes them one unit at a time. A unit is the smallest run of bytes that decodes by
//! itself, so that text can be mapped back to its bytes; undecodable bytes are units as well. Knows no lines and no files.

use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// Most bytes read to detect a legacy encoding.
const GUESS_BYTES: usize = 1024 * 1024;
/// Most bytes read to detect binary data and UTF-16 without a byte order mark.
const SNIFF_BYTES: usize = 8 * 1024;
/// The character shown for undecodable bytes.
pub(crate) const UNDECODABLE: char = '\u{fffd}';

/// A character encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8; also the result for ASCII.
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// An encoding older than Unicode.
    Legacy(&'static Encoding),
}

/// The result of encoding detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// Text in a charset, after a byte order mark of this length.
    Text(Charset, usize),
    /// Binary data.
    Binary,
}

/// One unit of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A character.
    Char(char),
    /// Several characters with one code, as in a few legacy encodings.
    Chars(String),
    /// Undecodable bytes.
    Undecodable,
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Charset {
    /// Name of the encoding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Decodes the first unit of non-empty bytes, and returns its length in bytes.
    pub fn step(self, bytes: &[u8]) -> (Unit, usize) {
        match self {
            Self::Utf8 => step_utf8(bytes),
            Self::Utf16Le => step_utf16(bytes, u16::from_le_bytes),
            Self::Utf16Be => step_utf16(bytes, u16::from_be_bytes),
            Self::Legacy(encoding) => step_legacy(bytes, encoding),
        }
    }

    /// Encodes a text. Fails with the first character that would not decode to itself again.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Legacy(encoding) => encode_legacy(text, encoding),
        }
    }

    /// The byte order mark of this charset.
    pub fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xEF\xBB\xBF",
            Self::Utf16Le => b"\xFF\xFE",
            Self::Utf16Be => b"\xFE\xFF",
            Self::Legacy(_) => b"",
        }
    }
}

/// Detects whether bytes are text, and in which encoding.
pub fn guess(bytes: &[u8]) -> Guess {
    // UTF-32 starts like UTF-16 and is too rare to be worth more than a refusal.
    if bytes.starts_with(b"\xFF\xFE\0\0") || bytes.starts_with(b"\0\0\xFE\xFF") {
        return Guess::Binary;
    }
    for charset in [Charset::Utf16Le, Charset::Utf16Be] {
        if bytes.starts_with(charset.mark()) {
            return Guess::Text(charset, 2);
        }
    }
    let mark = if bytes.starts_with(Charset::Utf8.mark()) { 3 } else { 0 };
    if memchr::memchr(0, bytes).is_some() {
        return unmarked_utf16(bytes).map_or(Guess::Binary, |charset| Guess::Text(charset, 0));
    }
    let sniffed = &bytes[..bytes.len().min(SNIFF_BYTES)];
    // Most texts have none; the first pass has no branches, so the compiler vectorizes it.
    let any = sniffed.iter().fold(false, |any, byte| any | is_odd_control(*byte));
    let odd = if any { sniffed.iter().filter(|byte| is_odd_control(**byte)).count() } else { 0 };
    if odd * 10 > sniffed.len() {
        return Guess::Binary;
    }
    if mark > 0 {
        return Guess::Text(Charset::Utf8, mark);
    }
    Guess::Text(utf8_or_legacy(bytes), 0)
}

/// Whether a byte is a control character that does not occur in text. Branchless, so that loops over it vectorize.
#[inline]
fn is_odd_control(byte: u8) -> bool {
    let is_control = (byte <= 7) | (byte.wrapping_sub(0x0E) <= 0x1F - 0x0E) | (byte == 0x7F);
    is_control & (byte != 0x1B)
}

/// Detects UTF-16 without a byte order mark: nearly every other byte is NUL, and the rest is ASCII text.
fn unmarked_utf16(bytes: &[u8]) -> Option<Charset> {
    if bytes.len() < 8 || !bytes.len().is_multiple_of(2) {
        return None;
    }
    let sniffed = &bytes[..bytes.len().min(SNIFF_BYTES)];
    let units = sniffed.len() / 2;
    let plain = |high: usize| {
        let fits = |pair: &&[u8]| {
            let low = pair[1 - high];
            pair[high] == 0 && low != 0 && low < 0x7F && !is_odd_control(low)
        };
        sniffed.chunks_exact(2).filter(fits).count()
    };
    let charset = if plain(1) * 10 >= units * 9 {
        Charset::Utf16Le
    } else if plain(0) * 10 >= units * 9 {
        Charset::Utf16Be
    } else {
        return None;
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        let (unit, len) = charset.step(rest);
        if matches!(unit, Unit::Undecodable | Unit::Char('\0')) {
            return None;
        }
        rest = &rest[len..];
    }
    Some(charset)
}

fn utf8_or_legacy(bytes: &[u8]) -> Charset {
    if std::str::from_utf8(bytes).is_ok() {
        return Charset::Utf8;
    }
    let from = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(0).saturating_sub(64);
    let sample = &bytes[from..bytes.len().min(from + GUESS_BYTES)];
    // More valid multi-byte characters than errors: UTF-8 with a few damaged places.
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in sample.utf8_chunks() {
        good += chunk.valid().bytes().filter(|byte| *byte >= 0xC0).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    if good > bad {
        return Charset::Utf8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    if encoding == UTF_8 { Charset::Utf8 } else { Charset::Legacy(encoding) }
}

fn step_utf8(bytes: &[u8]) -> (Unit, usize) {
    let window = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return (Unit::Undecodable, error.error_len().unwrap_or(window.len())),
    };
    match valid.chars().next() {
        Some(char) => (Unit::Char(char), char.len_utf8()),
        None => (Unit::Undecodable, 1),
    }
}

fn step_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (Unit, usize) {
    let at = |index: usize| Some(unit([*bytes.get(index)?, *bytes.get(index + 1)?]));
    let Some(first) = at(0) else { return (Unit::Undecodable, bytes.len().min(1)) };
    let pair = [Some(first), at(2)];
    match char::decode_utf16(pair.into_iter().flatten()).next() {
        Some(Ok(char)) => (Unit::Char(char), char.len_utf16() * 2),
        _ => (Unit::Undecodable, 2),
    }
}

fn step_legacy(bytes: &[u8], encoding: &'static Encoding) -> (Unit, usize) {
    // In every encoding that the detector returns, an ASCII byte at the start of a unit is that ASCII character.
    if let Some(byte) = bytes.first().filter(|byte| byte.is_ascii()) {
        return (Unit::Char(char::from(*byte)), 1);
    }
    let longest = if encoding.is_single_byte() { 1 } else { 4 };
    for len in 1..=bytes.len().min(longest) {
        let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(&bytes[..len]) else {
            continue;
        };
        let mut chars = text.chars();
        return match (chars.next(), chars.next()) {
            (Some(char), None) => (Unit::Char(char), len),
            (None, _) => (Unit::Undecodable, len),
            // Not one unit of several characters, but an incomplete unit and the one behind it.
            (Some(_), Some(_)) if len > 2 => (Unit::Undecodable, 1),
            _ => (Unit::Chars(text.into_owned()), len),
        };
    }
    (Unit::Undecodable, 1)
}

fn encode_legacy(text: &str, encoding: &'static Encoding) -> Result<Vec<u8>, char> {
    let mut out = Vec::with_capacity(text.len());
    let mut utf8 = [0; 4];
    for char in text.chars() {
        let (bytes, _, unmappable) = encoding.encode(char.encode_utf8(&mut utf8));
        // Some encodings map a character to the bytes of another one; decode it again to check.
        let (unit, len) = step_legacy(&bytes, encoding);
        if unmappable || unit != Unit::Char(char) || len != bytes.len() {
            return Err(char);
        }
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}
