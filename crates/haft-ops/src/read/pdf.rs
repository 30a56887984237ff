//! Reading PDFs: the text of each page, and images of pages without a text layer or with pictures beside their text. The PDF library panics on unexpected
//! input, recurses, and allocates as much memory as a file claims to need. So it runs as a worker process in the sandbox
//! with limits on memory and time, behind a guard that rejects documents that would never finish. The programs that
//! render pages run in the sandbox, too.

mod guard;
mod images;
mod renderer;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use haft_core::{Context, Fault, FaultKind};
use haft_sandbox::sandbox;
use pdf_extract::{
    ColorSpace, Document, MediaBox, OutputDev, OutputError, Path as VectorPath, PlainTextOutput, Transform,
    output_doc_page,
};
use serde::{Deserialize, Serialize};

use super::pages::Pages;
use super::{Paged, Piece};

pub use worker::PDF_WORKER;

/// Time limit for reading a document.
const TIME: Duration = Duration::from_secs(30);
/// Largest number of pages that one call reads.
pub(super) const MAX_PAGES: usize = 20;
/// Largest text of a page, in bytes; the rest of the page is cut off.
const MAX_PAGE_TEXT: usize = 256 * 1024;
/// Largest number of pages that one call renders as images.
const MAX_RENDERED: usize = 5;
/// Number of lines and areas from which on a page shows a drawing, and not only rules between its paragraphs.
const MANY_PATHS: usize = 40;
/// Stack size of the worker's thread, for the library's recursion up to the depth that the guard allows.
const STACK: usize = 64 * 1024 * 1024;

/// Why a PDF cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub(super) enum PdfProblem {
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

/// Text of the requested pages, and an error for each page that could not be read.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Extracted {
    pub(super) total: u32,
    pub(super) pages: Vec<(u32, Result<String, String>)>,
    /// The pages among them that show something besides their text.
    pub(super) with_pictures: Vec<u32>,
    /// First requested page that was not read because of [`MAX_PAGES`].
    pub(super) next: Option<u32>,
}

/// Reads a PDF. Renders pages without text as images if a renderer is installed.
pub(super) async fn read(
    bytes: Bytes,
    shown: &str,
    wanted: Option<&Pages>,
    cx: &Context,
) -> Result<Paged, Fault> {
    let fault = |problem: &PdfProblem| pdf_fault(problem, shown);
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
            return Err(Fault::failed(format!("`{shown}` cannot be read: {error}")).at(shown));
        }
        Err(_) => return Err(fault(&PdfProblem::Slow)),
    };
    Ok(lay_out(extracted, &bytes, cx).await)
}

fn pdf_fault(problem: &PdfProblem, shown: &str) -> Fault {
    let (kind, hint) = match problem {
        PdfProblem::Broken(_) | PdfProblem::Empty => {
            (FaultKind::Encoding, "look at its bytes with a command")
        }
        PdfProblem::Encrypted => (FaultKind::AccessDenied, "ask the user for a copy without a password"),
        PdfProblem::Bomb(_) | PdfProblem::Memory => {
            (FaultKind::TooLarge, "convert it with a command outside of this call")
        }
        PdfProblem::Slow => (FaultKind::Timeout, "ask for fewer pages with `pages`"),
        PdfProblem::NoSuchPage { .. } => (FaultKind::InvalidInput, "choose others with `pages`"),
    };
    Fault::new(kind, format!("`{shown}` cannot be read as a PDF: {problem}")).hint(hint).at(shown)
}

/// Puts a heading before each page, and renders pages without text as images.
async fn lay_out(extracted: Extracted, bytes: &Bytes, cx: &Context) -> Paged {
    let Extracted { total, pages, with_pictures, next } = extracted;
    let mut paged =
        Paged { total, next, read: pages.iter().map(|(number, _)| *number).collect(), pieces: Vec::new() };
    let mut text = String::new();
    let mut rendered = 0;
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
                if !with_pictures.contains(&number) {
                } else if rendered == MAX_RENDERED {
                    text.push_str(&format!(
                        "[page {number} has pictures, too; ask for it with `pages` to see it]\n"
                    ));
                } else {
                    match renderer::render(bytes, number, cx).await {
                        Ok(picture) => {
                            rendered += 1;
                            text.push_str(&format!(
                                "[page {number} has pictures, too; this is how it looks]\n"
                            ));
                            paged.pieces.push(Piece::Text(std::mem::take(&mut text)));
                            paged.pieces.push(Piece::Picture(picture));
                        }
                        Err(problem) => {
                            text.push_str(&format!("[page {number} has pictures, too, but {problem}]\n"));
                        }
                    }
                }
            }
            Ok(_) if rendered == MAX_RENDERED => {
                text.push_str(&format!(
                    "[page {number} has no text layer; ask for it with `pages` to see it]\n"
                ));
            }
            outcome => {
                let why = match &outcome {
                    Ok(_) => format!("page {number} has no text layer"),
                    Err(why) => format!("the text of page {number} cannot be read ({why})"),
                };
                match renderer::render(bytes, number, cx).await {
                    Ok(picture) => {
                        rendered += 1;
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

/// Time at which reading must stop.
pub(super) struct Deadline(pub(super) Instant);

impl Deadline {
    fn is_over(&self) -> bool {
        Instant::now() > self.0
    }
}

/// Extracts the text of the requested pages, in the worker. Checks the deadline between pages and within each page.
pub(super) fn extract(
    bytes: &[u8],
    wanted: Option<&Pages>,
    deadline: &Deadline,
) -> Result<Extracted, PdfProblem> {
    guard::check_packed_objects(bytes)?;
    let document = catch_panic(|| Document::load_mem(bytes)).map_err(PdfProblem::Broken)?;
    let mut document = document.map_err(|error| match error {
        pdf_extract::Error::Decryption(_) | pdf_extract::Error::InvalidPassword => PdfProblem::Encrypted,
        error => PdfProblem::Broken(error.to_string()),
    })?;
    if document.is_encrypted() && catch_panic(|| document.decrypt("").is_ok()) != Ok(true) {
        return Err(PdfProblem::Encrypted);
    }
    catch_panic(|| guard::check_streams(&mut document)).map_err(PdfProblem::Broken)??;
    let ids = catch_panic(|| document.get_pages()).map_err(PdfProblem::Broken)?;
    let total = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    if total == 0 {
        return Err(PdfProblem::Empty);
    }
    let mut numbers: Vec<u32> = match wanted {
        Some(wanted) => wanted.up_to(total),
        None => (1..=total).collect(),
    };
    let next = numbers.get(MAX_PAGES).copied();
    numbers.truncate(MAX_PAGES);
    if numbers.is_empty() {
        return Err(PdfProblem::NoSuchPage { total });
    }
    let mut pages = Vec::with_capacity(numbers.len());
    let mut with_pictures = Vec::new();
    for number in numbers {
        if deadline.is_over() {
            return Err(PdfProblem::Slow);
        }
        let mut drawn = 0;
        let page = match ids.get(&number) {
            Some(id) => catch_panic(|| guard::check_page(&document, *id))
                .flatten()
                .and_then(|()| page_text(&document, number, deadline, &mut drawn)),
            None => Err("it is not there".to_owned()),
        };
        let has_image = |id| catch_panic(|| images::on_page(&document, id)).unwrap_or_default();
        if drawn >= MANY_PATHS || ids.get(&number).is_some_and(|id| has_image(*id)) {
            with_pictures.push(number);
        }
        pages.push((number, page));
    }
    Ok(Extracted { total, pages, with_pictures, next })
}

fn page_text(
    document: &Document,
    number: u32,
    deadline: &Deadline,
    drawn: &mut usize,
) -> Result<String, String> {
    let mut text = String::new();
    let written = catch_panic(|| {
        let plain = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut Bounded { plain, deadline, left: MAX_PAGE_TEXT, drawn }, number)
    });
    match written {
        Ok(Ok(())) => Ok(text),
        // The text before the failure is still useful.
        _ if !text.trim().is_empty() => Ok(text + "\n[the rest of this page could not be read]"),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic),
    }
}

/// Text output that fails once the deadline or the size limit is reached.
struct Bounded<'a> {
    plain: PlainTextOutput<&'a mut String>,
    deadline: &'a Deadline,
    left: usize,
    /// Number of lines and areas that the page draws.
    drawn: &'a mut usize,
}

impl Bounded<'_> {
    fn check(&self) -> Result<(), OutputError> {
        if self.left == 0 || self.deadline.is_over() {
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

    fn stroke(
        &mut self,
        _: &Transform,
        _: &ColorSpace,
        _: &[f64],
        _: &VectorPath,
    ) -> Result<(), OutputError> {
        *self.drawn += 1;
        self.check()
    }

    fn fill(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &VectorPath) -> Result<(), OutputError> {
        *self.drawn += 1;
        self.check()
    }
}

/// Runs `work` and turns a panic of the library into an error.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "its structure is not understood".to_owned())
}

#[cfg(test)]
mod tests;
