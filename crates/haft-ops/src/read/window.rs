//! A window of lines, kept from chunks of a file as they come: lines before it are counted, not kept. Knows
//! nothing of files and, besides where lines end, nothing of encodings.

use super::{Caps, NUMBER_BYTES};

/// Lines as they were taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The lines, each ended by `\n` but perhaps the last.
    pub(super) text: Vec<u8>,
    pub(super) count: u64,
    pub(super) cut: u64,
    pub(super) more: bool,
    pub(super) total: Option<u64>,
}

/// Where lines end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Breaks {
    /// At `\n`, with or without a `\r` before it.
    Lf,
    /// At `\r`, in a file that begins without any `\n`.
    Cr,
}

impl Breaks {
    /// What the beginning of a file says.
    pub(super) fn of(head: &[u8]) -> Self {
        match memchr::memchr2(b'\n', b'\r', head) {
            Some(first) if head[first] == b'\r' && memchr::memchr(b'\n', &head[first..]).is_none() => {
                Self::Cr
            }
            _ => Self::Lf,
        }
    }

    fn find(self, chunk: &[u8]) -> Option<usize> {
        match self {
            Self::Lf => memchr::memchr(b'\n', chunk),
            Self::Cr => memchr::memchr2(b'\r', b'\n', chunk),
        }
    }

    fn is_end(self, byte: u8) -> bool {
        byte == b'\n' || (self == Self::Cr && byte == b'\r')
    }

    /// What follows `lines` line ends, or how many there are if there are fewer.
    fn skip(self, chunk: &[u8], lines: u64) -> Result<&[u8], u64> {
        match self {
            Self::Lf => skip(chunk, lines, || memchr::memchr_iter(b'\n', chunk)),
            Self::Cr => skip(chunk, lines, || memchr::memchr2_iter(b'\r', b'\n', chunk)),
        }
    }
}

fn skip<I: Iterator<Item = usize>>(chunk: &[u8], lines: u64, ends: impl Fn() -> I) -> Result<&[u8], u64> {
    let found = ends().count() as u64;
    if found < lines {
        return Err(found);
    }
    let last = ends().nth(lines as usize - 1).unwrap_or(chunk.len() - 1);
    Ok(&chunk[last + 1..])
}

/// Takes chunks of a file and keeps the lines that are wanted.
pub(super) struct Window {
    breaks: Breaks,
    /// Lines still to be passed over.
    before: u64,
    /// Lines passed over, those of the window not counted.
    passed: u64,
    left: Option<u64>,
    line_bytes: usize,
    window_bytes: usize,
    lines: Taken,
    /// Bytes of the line that is being taken, those that were cut included.
    line: usize,
    cut: bool,
    /// Whether the last byte seen ended a line.
    at_start: bool,
}

#[derive(PartialEq)]
pub(super) enum Flow {
    More,
    Full,
}

impl Window {
    pub(super) fn new(start: u64, count: Option<u64>, caps: Caps, breaks: Breaks) -> Self {
        Self {
            breaks,
            before: start.saturating_sub(1),
            passed: 0,
            left: count,
            // A character is at most four bytes, so this keeps at least the characters that are wanted.
            line_bytes: caps.line_chars.saturating_mul(4).saturating_add(4).min(caps.window_bytes),
            window_bytes: caps.window_bytes,
            lines: Taken::default(),
            line: 0,
            cut: false,
            at_start: true,
        }
    }

    pub(super) fn take(&mut self, mut chunk: &[u8]) -> Flow {
        if self.before > 0 {
            match self.breaks.skip(chunk, self.before) {
                Ok(rest) => {
                    self.passed += self.before;
                    self.before = 0;
                    chunk = rest;
                    self.at_start = true;
                }
                Err(found) => {
                    self.before -= found;
                    self.passed += found;
                    self.at_start = chunk.last().is_some_and(|last| self.breaks.is_end(*last));
                    return Flow::More;
                }
            }
        }
        if self.lines.text.is_empty() {
            self.lines.text.reserve(chunk.len().min(self.window_bytes));
        }
        while !chunk.is_empty() {
            let taken = self.lines.text.len() + self.lines.count as usize * NUMBER_BYTES;
            if self.at_start && (self.left == Some(0) || taken >= self.window_bytes) {
                return Flow::Full;
            }
            let end = self.breaks.find(chunk);
            let (piece, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
            let room = self.line_bytes.saturating_sub(self.line);
            self.lines.text.extend_from_slice(&piece[..piece.len().min(room)]);
            self.cut |= piece.len() > room;
            self.line += piece.len();
            self.at_start = false;
            chunk = rest;
            if end.is_some() {
                chunk = &rest[1..];
                self.line_done();
                self.lines.text.push(b'\n');
            }
        }
        Flow::More
    }

    fn line_done(&mut self) {
        if self.cut {
            drop_split_character(&mut self.lines.text);
        }
        self.lines.count += 1;
        self.lines.cut += u64::from(self.cut);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.line = 0;
        self.cut = false;
        self.at_start = true;
    }

    /// The file goes on after the window.
    pub(super) fn full(mut self) -> Taken {
        self.lines.more = true;
        self.lines
    }

    /// The file ended in the window or before it.
    pub(super) fn end(mut self) -> Taken {
        if !self.at_start {
            if self.before > 0 {
                self.passed += 1;
            } else {
                self.line_done();
            }
        }
        self.lines.total = Some(self.passed + self.lines.count);
        self.lines
    }
}

/// Drops the first bytes of a character whose last bytes were cut off.
fn drop_split_character(text: &mut Vec<u8>) {
    let tail = text.len().saturating_sub(4);
    let start = text[tail..].iter().rposition(|byte| byte & 0xC0 != 0x80).map(|at| tail + at);
    if let Some(start) = start
        && let Err(error) = std::str::from_utf8(&text[start..])
        && error.error_len().is_none()
    {
        text.truncate(start);
    }
}
