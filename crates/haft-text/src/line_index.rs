//! Index of the lines of a text, by row: rows count from 0, line numbers in messages from 1. Built only for edits that
//! need lines.

use std::ops::Range;

use super::encoding::Ending;

/// Index of the lines of a text.
pub(crate) struct LineIndex<'a> {
    text: &'a str,
    /// Byte offset of the start of each line.
    starts: Vec<usize>,
    ending: Ending,
}

impl<'a> LineIndex<'a> {
    pub(crate) fn new(text: &'a str, ending: Ending) -> Self {
        let ends = memchr::memchr_iter(break_byte(ending), text.as_bytes());
        let mut starts = Vec::with_capacity(text.len() / 32);
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(ends.map(|at| at + 1).filter(|at| *at < text.len()));
        Self { text, starts, ending }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Byte range of a line, with its line end.
    pub(crate) fn whole(&self, row: usize) -> Range<usize> {
        let end = self.starts.get(row + 1).copied().unwrap_or(self.text.len());
        self.starts.get(row).copied().unwrap_or(self.text.len())..end
    }

    /// Byte range of a line, without its line end.
    pub(crate) fn content(&self, row: usize) -> Range<usize> {
        let whole = self.whole(row);
        let line = &self.text[whole.clone()];
        // A lone `\r` is a line end only in a text without `\n`.
        let line = match self.ending {
            Ending::Cr => line.strip_suffix('\r').unwrap_or(line),
            _ => line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line),
        };
        whole.start..whole.start + line.len()
    }

    /// Text of a line, without its line end.
    pub(crate) fn line(&self, row: usize) -> &'a str {
        &self.text[self.content(row)]
    }

    /// Line end of a line; `None` for an unterminated last line.
    pub(crate) fn ending(&self, row: usize) -> Option<Ending> {
        let end = self.content(row).end..self.whole(row).end;
        ending_of(&self.text[end])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> + '_ {
        (0..self.len()).map(|row| self.line(row))
    }

    /// The row that contains a byte offset.
    pub(crate) fn row_at(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }
}

/// The last byte of every line end in a text with this ending.
pub(crate) fn break_byte(ending: Ending) -> u8 {
    if ending == Ending::Cr { b'\r' } else { b'\n' }
}

/// The line number, from 1, that contains a byte offset.
pub(crate) fn line_number(text: &str, at: usize, ending: Ending) -> usize {
    memchr::memchr_iter(break_byte(ending), &text.as_bytes()[..at]).count() + 1
}

fn ending_of(text: &str) -> Option<Ending> {
    match text {
        "\n" => Some(Ending::Lf),
        "\r\n" => Some(Ending::CrLf),
        "\r" => Some(Ending::Cr),
        _ => None,
    }
}
