//! The text of a PDF by page, and pictures of pages that have none. The library that reads PDFs panics on much of what it
//! does not expect, recurses, and takes memory as a file asks for it. So it runs as a worker in the sandbox, with limits on
//! memory and time, behind a guard that refuses what would never end; the programs that draw pages run there, too.

mod guard;
mod renderer;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_sandbox::sandbox;
use pdf_extract::{
    ColorSpace, Document, MediaBox, OutputDev, OutputError, Path as Drawn, PlainTextOutput, Transform,
    output_doc_page,
};
use serde::{Deserialize, Serialize};

use super::pages::Pages;
use super::{Paged, Piece};

pub use worker::PDF_WORKER;

/// How long reading may take.
const TIME: Duration = Duration::from_secs(30);
/// How many pages are read at once.
pub(super) const MAX_PAGES: usize = 20;
/// How much text of a page is kept.
const MAX_PAGE_TEXT: usize = 256 * 1024;
/// How many pages without text are drawn at once.
const MAX_DRAWN: usize = 5;
/// The library recurses, at most as deep as the guard allows.
const STACK: usize = 64 * 1024 * 1024;

/// Why a PDF cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub(super) enum Problem {
    #[error("it is broken: {0}")]
    Broken(String),
    #[error("it is encrypted, and needs a password")]
    Encrypted,
    #[error("a part of it unpacks to more than {0} MB")]
    Bomb(usize),
    #[error("it took longer than {} s to read", TIME.as_secs())]
    Slow,
    #[error("reading it takes more memory than {} MB", worker::MEMORY >> 20)]
    Memory,
    #[error("it has no pages")]
    Empty,
    #[error("it has {total} pages, and none of those that were asked for")]
    NoSuchPage { total: u32 },
}

/// The text of some pages.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Extracted {
    pub(super) total: u32,
    pub(super) pages: Vec<(u32, Result<String, String>)>,
    /// The first page that was asked for and not read, because there were too many.
    pub(super) next: Option<u32>,
}

/// Reads a PDF. Pages without text are drawn, if there is a program that can.
pub(super) async fn read(
    bytes: Bytes,
    path: &AbsPath,
    wanted: Option<&Pages>,
    cx: &Context,
) -> Result<Paged, Fault> {
    let shown = cx.workspace().display(path);
    let fault = |problem: &Problem| told(problem, &shown);
    if !sandbox::has_worker(PDF_WORKER.name) {
        return Err(Fault::new(
            FaultKind::Disabled,
            format!("`{shown}` is a PDF, which is read in the sandbox, and this program has not set that up"),
        )
        .hint("call `haft::arm()` first in `main`"));
    }
    let extracted = match tokio::time::timeout(TIME, worker::extract(&bytes, wanted)).await {
        Ok(Ok(extracted)) => extracted.map_err(|problem| fault(&problem))?,
        Ok(Err(error)) => {
            return Err(Fault::failed(format!("`{shown}` cannot be read: {error}")).at(&shown));
        }
        Err(_) => return Err(fault(&Problem::Slow)),
    };
    Ok(laid_out(extracted, &bytes, cx).await)
}

fn told(problem: &Problem, shown: &str) -> Fault {
    let (kind, hint) = match problem {
        Problem::Broken(_) | Problem::Empty => (FaultKind::Encoding, "look at its bytes with a command"),
        Problem::Encrypted => (FaultKind::AccessDenied, "ask the user for a copy without a password"),
        Problem::Bomb(_) | Problem::Memory => {
            (FaultKind::TooLarge, "convert it with a command outside of this call")
        }
        Problem::Slow => (FaultKind::Timeout, "ask for fewer pages with `pages`"),
        Problem::NoSuchPage { .. } => (FaultKind::InvalidInput, "choose others with `pages`"),
    };
    Fault::new(kind, format!("`{shown}` cannot be read as a PDF: {problem}")).hint(hint).at(shown)
}

/// Pages under headings, with pictures of those that have no text.
async fn laid_out(extracted: Extracted, bytes: &Bytes, cx: &Context) -> Paged {
    let Extracted { total, pages, next } = extracted;
    let mut paged =
        Paged { total, next, read: pages.iter().map(|(number, _)| *number).collect(), pieces: Vec::new() };
    let mut text = String::new();
    let mut drawn = 0;
    for (number, page) in pages {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("--- page {number} of {total} ---\n"));
        match page {
            Ok(page) if !page.trim().is_empty() => {
                for line in page.trim_matches('\n').lines() {
                    text.push_str(line.trim_end());
                    text.push('\n');
                }
            }
            Ok(_) if drawn == MAX_DRAWN => {
                text.push_str(&format!(
                    "[page {number} has no text layer; ask for it with `pages` to see it]\n"
                ));
            }
            outcome => {
                let why = match &outcome {
                    Ok(_) => format!("page {number} has no text layer"),
                    Err(why) => format!("the text of page {number} cannot be read ({why})"),
                };
                match renderer::draw(bytes, number, cx).await {
                    Ok(picture) => {
                        drawn += 1;
                        text.push_str(&format!("[{why}; this is a picture of it]\n"));
                        paged.pieces.push(Piece::Text(std::mem::take(&mut text)));
                        paged.pieces.push(Piece::Picture(picture));
                    }
                    Err(problem) => text.push_str(&format!("[{why}, and {problem}]\n")),
                }
            }
        }
    }
    if !text.is_empty() {
        paged.pieces.push(Piece::Text(text));
    }
    paged
}

/// When reading must end.
pub(super) struct Until(pub(super) Instant);

impl Until {
    fn is_over(&self) -> bool {
        Instant::now() > self.0
    }
}

pub(super) fn extract(bytes: &[u8], wanted: Option<&Pages>, until: &Until) -> Result<Extracted, Problem> {
    guard::check_packed_objects(bytes)?;
    let document = catch_panic(|| Document::load_mem(bytes)).map_err(Problem::Broken)?;
    let mut document = document.map_err(|error| match error {
        pdf_extract::Error::Decryption(_) | pdf_extract::Error::InvalidPassword => Problem::Encrypted,
        error => Problem::Broken(error.to_string()),
    })?;
    if document.is_encrypted() && catch_panic(|| document.decrypt("").is_ok()) != Ok(true) {
        return Err(Problem::Encrypted);
    }
    catch_panic(|| guard::check_streams(&mut document)).map_err(Problem::Broken)??;
    let ids = catch_panic(|| document.get_pages()).map_err(Problem::Broken)?;
    let total = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    if total == 0 {
        return Err(Problem::Empty);
    }
    let mut numbers: Vec<u32> = match wanted {
        Some(wanted) => wanted.up_to(total),
        None => (1..=total).collect(),
    };
    let next = numbers.get(MAX_PAGES).copied();
    numbers.truncate(MAX_PAGES);
    if numbers.is_empty() {
        return Err(Problem::NoSuchPage { total });
    }
    let mut pages = Vec::with_capacity(numbers.len());
    for number in numbers {
        if until.is_over() {
            return Err(Problem::Slow);
        }
        let page = match ids.get(&number) {
            Some(id) => catch_panic(|| guard::check_page(&document, *id))
                .flatten()
                .and_then(|()| page_text(&document, number, until)),
            None => Err("it is not there".to_owned()),
        };
        pages.push((number, page));
    }
    Ok(Extracted { total, pages, next })
}

fn page_text(document: &Document, number: u32, until: &Until) -> Result<String, String> {
    let mut text = String::new();
    let written = catch_panic(|| {
        let plain = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut Bounded { plain, until, left: MAX_PAGE_TEXT }, number)
    });
    match written {
        Ok(Ok(())) => Ok(text),
        // What came before it went wrong is better than nothing.
        _ if !text.trim().is_empty() => Ok(text + "\n[the rest of this page could not be read]"),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic),
    }
}

/// Text that ends when its time or its room does.
struct Bounded<'a> {
    plain: PlainTextOutput<&'a mut String>,
    until: &'a Until,
    left: usize,
}

impl Bounded<'_> {
    fn check(&self) -> Result<(), OutputError> {
        if self.left == 0 || self.until.is_over() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        Ok(())
    }
}

impl OutputDev for Bounded<'_> {
    fn begin_page(
        &mut self,
        number: u32,
        media: &MediaBox,
        art: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.plain.begin_page(number, media, art)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.plain.end_page()
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        spacing: f64,
        size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.left = self.left.saturating_sub(text.len());
        self.check()?;
        self.plain.output_character(place, width, spacing, size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.plain.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.plain.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.plain.end_line()
    }

    fn stroke(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Drawn) -> Result<(), OutputError> {
        self.check()
    }

    fn fill(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Drawn) -> Result<(), OutputError> {
        self.check()
    }
}

/// What the work comes to, or that it crashed.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "its structure is not understood".to_owned())
}

#[cfg(test)]
mod tests;
