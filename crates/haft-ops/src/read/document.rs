//! Documents that are more than lines: images, PDFs and notebooks. Detects them by their content, and notebooks, which
//! are text, by their file name extension. Decoding runs on the pool of blocking threads. Knows nothing of the format of
//! PDFs, which `pdf` reads.

use crate::image::{self, Fitted};
use bytes::Bytes;
use haft_core::{AbsPath, Context, Fault, FaultKind};

use super::{Body, Pages, Piece, Sheet};
use haft_text::Source;
use haft_text::notebook::{self, Part};

/// Largest document that is converted, in bytes.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes at the start of a file in which readers of PDF accept the signature `%PDF-`.
const PDF_HEAD: usize = 1024;
/// Bytes to examine for signs of binary data.
const SNIFF_BYTES: usize = 8 * 1024;

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// An image.
    Picture,
    /// A PDF document.
    Pdf,
    /// A notebook.
    Notebook,
}

/// Detects the kind of a document from its first bytes; nothing if it is plain text or unknown. A notebook is text.
pub fn document_kind(head: &[u8]) -> Option<DocumentKind> {
    if head.first() == Some(&b'%') && head.starts_with(b"%PDF-") {
        return Some(DocumentKind::Pdf);
    }
    // The signature of some image formats is plain letters, with which a text may begin as well.
    if image::image_type(head).is_some() && is_binary(head) {
        return Some(DocumentKind::Picture);
    }
    let early = &head[..head.len().min(PDF_HEAD)];
    (memchr::memmem::find(early, b"%PDF-").is_some() && is_binary(head)).then_some(DocumentKind::Pdf)
}

/// Detects the kind of a document from its first bytes and its path.
pub(super) fn kind_of(head: &[u8], path: &AbsPath) -> Option<DocumentKind> {
    let is_notebook = || path.as_path().extension().is_some_and(|extension| extension == "ipynb");
    document_kind(head).or_else(|| is_notebook().then_some(DocumentKind::Notebook))
}

/// Shows a document that is not in a file: an image or a PDF. `shown` is its name in faults.
pub async fn show_document(
    kind: DocumentKind,
    bytes: Bytes,
    shown: &str,
    cx: &Context,
) -> Result<Vec<Piece>, Fault> {
    match kind {
        DocumentKind::Notebook => notebook(bytes).await.map(|sheet| sheet.pieces).map_err(Fault::failed),
        DocumentKind::Picture | DocumentKind::Pdf => Ok(match render(kind, bytes, shown, None, cx).await? {
            Body::Picture(picture) => vec![Piece::Picture(picture)],
            Body::Pdf(paged) => {
                let rest =
                    paged.next.map(|next| format!("[these are the pages before {next} of {}]", paged.total));
                paged.pieces.into_iter().chain(rest.map(Piece::Text)).collect()
            }
            _ => Vec::new(),
        }),
    }
}

fn is_binary(head: &[u8]) -> bool {
    let sniffed = &head[..head.len().min(SNIFF_BYTES)];
    // A character that the end of the sample cuts in two is no sign of binary data: it has no error length.
    let is_invalid = |error: std::str::Utf8Error| error.error_len().is_some();
    memchr::memchr(0, sniffed).is_some() || std::str::from_utf8(sniffed).is_err_and(is_invalid)
}

/// Converts an image or a PDF to a form that a model can see.
pub(super) async fn render(
    kind: DocumentKind,
    bytes: Bytes,
    shown: &str,
    pages: Option<&Pages>,
    cx: &Context,
) -> Result<Body, Fault> {
    match kind {
        #[cfg(feature = "pdf")]
        DocumentKind::Pdf => super::pdf::read(bytes, shown, pages, cx).await.map(Body::Pdf),
        #[cfg(not(feature = "pdf"))]
        DocumentKind::Pdf => {
            let _ = (pages, cx);
            Err(Fault::new(
                FaultKind::Disabled,
                format!("`{shown}` is a PDF, and this program was built without the feature `pdf`"),
            ))
        }
        DocumentKind::Picture => {
            let fitted = fit(Vec::from(bytes)).await;
            fitted.map(Body::Picture).map_err(|problem| image_fault(&problem, shown))
        }
        DocumentKind::Notebook => {
            Err(Fault::new(FaultKind::Internal, "a notebook was read as another document"))
        }
    }
}

/// Converts a notebook. The error says why the bytes are not a notebook.
pub(super) async fn notebook(bytes: Bytes) -> Result<Sheet, String> {
    let shown = tokio::task::spawn_blocking(move || {
        let source = Source::new(bytes.to_vec()).map_err(|_| "it is binary data".to_owned())?;
        notebook::show(source.text())
    });
    let shown = shown.await.map_err(|error| error.to_string())??;
    let mut pieces = Vec::with_capacity(shown.parts.len());
    for part in shown.parts {
        pieces.push(match part {
            Part::Text(text) => Piece::Text(text),
            Part::Picture(bytes) => match fit(bytes).await {
                Ok(picture) => Piece::Picture(picture),
                Err(problem) => Piece::Text(format!("[the picture is not shown: {problem}]\n")),
            },
        });
    }
    Ok(Sheet { cells: shown.cells, language: shown.language, pieces })
}

/// Scales an image to the size that models accept, on a blocking thread.
async fn fit(bytes: Vec<u8>) -> Result<Fitted, image::ImageProblem> {
    let fitted = tokio::task::spawn_blocking(move || image::fit(bytes)).await;
    fitted.unwrap_or_else(|_| Err(image::ImageProblem::Broken("it crashed what decodes it".to_owned())))
}

fn image_fault(problem: &image::ImageProblem, shown: &str) -> Fault {
    let kind = match problem {
        image::ImageProblem::Broken(_) | image::ImageProblem::Unknown => FaultKind::Encoding,
        _ => FaultKind::TooLarge,
    };
    Fault::new(kind, format!("`{shown}` cannot be shown as a picture: {problem}"))
        .hint("look at it with a command, or ask the user for another copy")
        .at(shown)
}
