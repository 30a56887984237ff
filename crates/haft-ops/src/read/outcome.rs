//! What reading a file came to, in the operation's own words; a dialect makes a reply of it.

use bytes::Bytes;
use std::time::SystemTime;

use crate::image::Fitted;
use haft_core::AbsPath;

use haft_text::count_of;

/// What was read of one file.
#[derive(Debug, PartialEq)]
pub struct FileRead {
    /// The file.
    pub path: AbsPath,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed.
    pub modified: SystemTime,
    /// What was read.
    pub body: Body,
    /// What else there is to say of it.
    pub notes: Vec<String>,
}

/// What was read.
#[derive(Debug, PartialEq)]
pub enum Body {
    /// Lines of text.
    Lines(Lines),
    /// Nothing: the file is not text.
    Binary,
    /// Nothing: the lines that were wanted are not UTF-8, and nothing else was allowed.
    NotUtf8,
    /// Every byte.
    Bytes(Bytes),
    /// A picture that a model can be shown.
    Picture(Fitted),
    /// Pages of a PDF.
    Pdf(Paged),
    /// A notebook.
    Notebook(Sheet),
}

impl Body {
    /// Whether the model is shown something of the file, or that there is nothing in it.
    pub(super) fn is_shown(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.count > 0 || lines.total == Some(0),
            Self::Binary | Self::NotUtf8 => false,
            Self::Bytes(_) | Self::Picture(_) | Self::Pdf(_) | Self::Notebook(_) => true,
        }
    }
}

/// Text, or a picture between texts.
#[derive(Debug, PartialEq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// A picture that a model can be shown.
    Picture(Fitted),
}

/// Pages of a document.
#[derive(Debug, PartialEq)]
pub struct Paged {
    /// How many it has.
    pub total: u32,
    /// Those that were read.
    pub read: Vec<u32>,
    /// The first one that was wanted and not read, because there were too many.
    pub next: Option<u32>,
    /// What they say.
    pub pieces: Vec<Piece>,
}

/// A notebook, all of it.
#[derive(Debug, PartialEq)]
pub struct Sheet {
    /// How many cells it has.
    pub cells: usize,
    /// What its code is written in.
    pub language: Option<String>,
    /// What they say.
    pub pieces: Vec<Piece>,
}

/// A window of lines.
#[derive(Debug, Default, PartialEq)]
pub struct Lines {
    /// The lines, each ended by `\n` but perhaps the last; no longer than the cap.
    pub text: String,
    /// How they are written in the file.
    pub encoding: Encoding,
    /// How many there are.
    pub count: u64,
    /// How many of them were cut.
    pub cut: u64,
    /// Whether the file goes on after them.
    pub more: bool,
    /// How many lines the file has, where the window reached its end.
    pub total: Option<u64>,
}

impl Lines {
    pub(super) fn of(count: u64, cut: u64, more: bool, total: Option<u64>) -> Self {
        Self { count, cut, more, total, ..Self::default() }
    }
}

/// How text is written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Its name, such as `UTF-8` or `windows-1252`.
    pub charset: &'static str,
    /// How many places could not be decoded, and are `\u{fffd}` in the text.
    pub undecodable: usize,
}

impl Default for Encoding {
    fn default() -> Self {
        Self { charset: "UTF-8", undecodable: 0 }
    }
}

impl Encoding {
    /// What is to be said of it, if anything is.
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
    /// What is to be said of pages that were not read.
    pub fn note(&self) -> Option<String> {
        let next = self.next?;
        let (read, total) = (count_of(self.read.len() as u64, "page"), self.total);
        Some(format!("these are {read} of {total}; go on from page {next} with `pages`: \"{next}-\""))
    }
}
