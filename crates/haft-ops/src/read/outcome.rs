//! The result of a read, as data. A dialect formats it as a reply; this module only has the notes that are worded alike
//! in every dialect.

use bytes::Bytes;
use std::time::SystemTime;

use super::{Caps, Part};
use crate::image::Fitted;
use haft_core::AbsPath;
use haft_core::sessions::ShownLines;

use haft_text::count_of;

/// Result of reading one file.
#[derive(Debug, PartialEq)]
pub struct FileRead {
    /// The file.
    pub path: AbsPath,
    /// Its size in bytes.
    pub size: u64,
    /// Time of its last modification.
    pub modified: SystemTime,
    /// The content that was read.
    pub body: Body,
    /// Remarks about the result for the model.
    pub notes: Vec<String>,
}

/// Content that was read from a file.
#[derive(Debug, PartialEq)]
pub enum Body {
    /// Lines of text.
    Lines(Lines),
    /// No content: the file is binary.
    Binary,
    /// No content: the requested lines are not UTF-8, and the call allows no other encoding.
    NotUtf8,
    /// All bytes of the file.
    Bytes(Bytes),
    /// An image in a size and format that models accept.
    Picture(Fitted),
    /// Pages of a PDF.
    Pdf(Paged),
    /// The cells of a notebook.
    Notebook(Sheet),
}

impl Body {
    /// Whether the model learns something of the file's content from this, be it that the file is empty.
    pub(super) fn is_shown(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.count > 0 || lines.total == Some(0),
            Self::Binary | Self::NotUtf8 => false,
            Self::Bytes(_) | Self::Picture(_) | Self::Pdf(_) | Self::Notebook(_) => true,
        }
    }

    /// The lines of the file that the model gets to see by a read of a part. A line that was cut because of its length
    /// does not count.
    pub(super) fn shown_lines(&self, part: Part, caps: &Caps) -> ShownLines {
        let (Self::Lines(lines), Part::Lines { start, .. }) = (self, part) else { return ShownLines::all() };
        let start = start.max(1);
        let end = start.saturating_add(lines.count).saturating_sub(1);
        let is_cut = |line: &str| {
            line.len() > caps.line_chars && line.chars().nth(caps.line_chars).is_some()
                // The window itself cuts a line that is longer than all of it, perhaps within a character.
                || lines.cut > 0 && line.len().saturating_add(4) > caps.window_bytes
        };
        let (mut shown, mut next) = (ShownLines::none(), start);
        for (number, line) in (start..).zip(lines.text.lines()) {
            if is_cut(line) {
                shown = shown.with(&ShownLines::range(next, number.saturating_sub(1)));
                next = number.saturating_add(1);
            }
        }
        let rest = match lines.more {
            true => ShownLines::range(next, end),
            false => ShownLines::from(next),
        };
        shown.with(&rest)
    }
}

/// One piece of a document: text, or an image between texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// An image in a size and format that models accept.
    Picture(Fitted),
}

/// Pages that were read of a PDF.
#[derive(Debug, PartialEq)]
pub struct Paged {
    /// Number of pages of the document.
    pub total: u32,
    /// Numbers of the pages that were read.
    pub read: Vec<u32>,
    /// First requested page that was not read because the call reached its limit of pages.
    pub next: Option<u32>,
    /// Content of the pages, in order.
    pub pieces: Vec<Piece>,
}

/// Content of a whole notebook.
#[derive(Debug, PartialEq)]
pub struct Sheet {
    /// Number of cells.
    pub cells: usize,
    /// Programming language of its code cells.
    pub language: Option<String>,
    /// Content of the cells, in order.
    pub pieces: Vec<Piece>,
}

/// A window of lines of a text file.
#[derive(Debug, Default, PartialEq)]
pub struct Lines {
    /// The lines. Each ends with `\n`, except perhaps the last one; none is longer than [`Caps::line_chars`](super::Caps).
    pub text: String,
    /// The file's encoding.
    pub encoding: Encoding,
    /// Number of lines in the window.
    pub count: u64,
    /// Number of lines that were cut because of their length.
    pub cut: u64,
    /// Whether the file continues after the window.
    pub more: bool,
    /// Number of lines of the file. Known only where the window reached the end of the file.
    pub total: Option<u64>,
}

impl Lines {
    pub(super) fn of(count: u64, cut: u64, more: bool, total: Option<u64>) -> Self {
        Self { count, cut, more, total, ..Self::default() }
    }
}

/// Character encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Name of the encoding, such as `UTF-8` or `windows-1252`.
    pub charset: &'static str,
    /// Number of places that could not be decoded; the text has `\u{fffd}` there.
    pub undecodable: usize,
}

impl Default for Encoding {
    fn default() -> Self {
        Self { charset: "UTF-8", undecodable: 0 }
    }
}

impl Encoding {
    /// Note about an encoding other than UTF-8 or about bytes that could not be decoded.
    pub fn note(&self) -> Option<String> {
        let charset = self.charset;
        match (charset, self.undecodable) {
            ("UTF-8", 0) => None,
            ("UTF-8", _) => Some("some bytes are not UTF-8 and are shown as \u{fffd}".to_owned()),
            ("UTF-16LE" | "UTF-16BE", 0) => Some(format!("the file is in {charset}")),
            (_, 0) => Some(format!("the file is not UTF-8; its bytes look like {charset}")),
            _ => Some(format!(
                "the file is not UTF-8; its bytes look like {charset}, and those that are not are shown as \u{fffd}"
            )),
        }
    }
}

impl Paged {
    /// Note about requested pages that were not read.
    pub fn note(&self) -> Option<String> {
        let next = self.next?;
        let (read, total) = (count_of(self.read.len() as u64, "page"), self.total);
        Some(format!("these are {read} of {total}; go on from page {next} with `pages`: \"{next}-\""))
    }
}
