//! Collects a window of lines from the chunks of a file; lines before the window are counted but not kept. Knows nothing
//! of files and, apart from line ends, nothing of encodings.

use super::{Caps, NUMBER_BYTES};

/// Lines of a window, not yet decoded.
#[derive(Debug, Default)]
pub(super) struct WindowLines {
    /// The lines. Each ends with `\n`, except perhaps the last one.
    pub(super) text: Vec<u8>,
    /// Number of lines.
    pub(super) count: u64,
    /// Number of lines that were cut because of their length.
    pub(super) cut: u64,
    /// Whether the file continues after the window.
    pub(super) more: bool,
    /// Number of lines of the file, where the window reached its end.
    pub(super) total: Option<u64>,
}

/// Line end convention of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Breaks {
    /// At `\n`, with or without a `\r` before it.
    Lf,
    /// At `\r`, in a file that begins without any `\n`.
    Cr,
}

impl Breaks {
    /// Detects the convention from the first bytes of a file.
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

    /// Skips `lines` line ends and returns the rest of the chunk, or the number of line ends if there are fewer.
    fn skip(self, chunk: &[u8], lines: u64) -> Result<&[u8], u64> {
        match self {
            Self::Lf => skip(chunk, lines, || memchr::memchr_iter(b'\n', chunk)),
            Self::Cr => skip(chunk, lines, || memchr::memchr2_iter(b'\r', b'\n', chunk)),
        }
    }
}

/// Counts before it searches: counting is vectorized, so chunks before the window cost little.
fn skip<I: Iterator<Item = usize>>(chunk: &[u8], lines: u64, ends: impl Fn() -> I) -> Result<&[u8], u64> {
    let found = ends().count() as u64;
    if found < lines {
        return Err(found);
    }
    let last = ends().nth(lines as usize - 1).unwrap_or(chunk.len() - 1);
    Ok(&chunk[last + 1..])
}

/// Collector of the lines of a window.
pub(super) struct Window {
    breaks: Breaks,
    /// Lines still to skip before the window.
    before: u64,
    /// Lines skipped so far.
    skipped: u64,
    /// Lines that the window still lacks; unlimited if there is none.
    left: Option<u64>,
    line_bytes: usize,
    window_bytes: usize,
    lines: WindowLines,
    /// Length of the current line in bytes, including what was cut.
    line: usize,
    /// Whether the current line was cut.
    cut: bool,
    /// Whether the last byte ended a line.
    at_start: bool,
}

/// Whether a window needs more chunks.
#[derive(PartialEq)]
pub(super) enum Flow {
    /// The window takes more.
    More,
    /// The window is complete, and the file continues after it.
    Full,
}

impl Window {
    pub(super) fn new(start: u64, count: Option<u64>, caps: Caps, breaks: Breaks) -> Self {
        Self {
            breaks,
            before: start.saturating_sub(1),
            skipped: 0,
            left: count,
            // A character is at most four bytes, so this keeps at least `line_chars` characters.
            line_bytes: caps.line_chars.saturating_mul(4).saturating_add(4).min(caps.window_bytes),
            window_bytes: caps.window_bytes,
            lines: WindowLines::default(),
            line: 0,
            cut: false,
            at_start: true,
        }
    }

    /// Adds a chunk.
    pub(super) fn take(&mut self, mut chunk: &[u8]) -> Flow {
        if self.before > 0 {
            match self.breaks.skip(chunk, self.before) {
                Ok(rest) => {
                    self.skipped += self.before;
                    self.before = 0;
                    chunk = rest;
                    self.at_start = true;
                }
                Err(found) => {
                    self.before -= found;
                    self.skipped += found;
                    self.at_start = chunk.last().is_some_and(|last| self.breaks.is_end(*last));
                    return Flow::More;
                }
            }
        }
        if self.lines.text.is_empty() {
            self.lines.text.reserve(chunk.len().min(self.window_bytes));
        }
        while !chunk.is_empty() {
            let size = self.lines.text.len() + self.lines.count as usize * NUMBER_BYTES;
            if self.at_start && (self.left == Some(0) || size >= self.window_bytes) {
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

    /// The lines, where the file continues after the window.
    pub(super) fn full(mut self) -> WindowLines {
        self.lines.more = true;
        self.lines
    }

    /// The lines, where the file ended within the window or before it.
    pub(super) fn end(mut self) -> WindowLines {
        if !self.at_start {
            if self.before > 0 {
                self.skipped += 1;
            } else {
                self.line_done();
            }
        }
        self.lines.total = Some(self.skipped + self.lines.count);
        self.lines
    }
}

/// Removes an incomplete character at the end, whose last bytes were cut off.
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
