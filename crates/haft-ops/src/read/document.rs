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
pub(super) enum DocumentKind {
    Picture,
    Pdf,
    Notebook,
}

/// Detects the kind of a document from its first bytes and its path; nothing if the file is plain text or unknown.
pub(super) fn kind_of(head: &[u8], path: &AbsPath) -> Option<DocumentKind> {
    if head.first() == Some(&b'%') && head.starts_with(b"%PDF-") {
        return Some(DocumentKind::Pdf);
    }
    // The signature of some image formats is plain letters, with which a text may begin as well.
    if image::image_type(head).is_some() && is_binary(head) {
        return Some(DocumentKind::Picture);
    }
    if path.as_path().extension().is_some_and(|extension| extension == "ipynb") {
        return Some(DocumentKind::Notebook);
    }
    let early = &head[..head.len().min(PDF_HEAD)];
    (memchr::memmem::find(early, b"%PDF-").is_some() && is_binary(head)).then_some(DocumentKind::Pdf)
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
    path: &AbsPath,
    pages: Option<&Pages>,
    cx: &Context,
) -> Result<Body, Fault> {
    match kind {
        #[cfg(feature = "pdf")]
        DocumentKind::Pdf => super::pdf::read(bytes, path, pages, cx).await.map(Body::Pdf),
        #[cfg(not(feature = "pdf"))]
        DocumentKind::Pdf => {
            let _ = pages;
            Err(Fault::new(
                FaultKind::Disabled,
                format!(
                    "`{}` is a PDF, and this program was built without the feature `pdf`",
                    cx.workspace().display(path)
                ),
            ))
        }
        DocumentKind::Picture => {
            let fitted = fit(Vec::from(bytes)).await;
            fitted.map(Body::Picture).map_err(|problem| image_fault(&problem, path, cx))
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

fn image_fault(problem: &image::ImageProblem, path: &AbsPath, cx: &Context) -> Fault {
    let shown = cx.workspace().display(path);
    let kind = match problem {
        image::ImageProblem::Broken(_) | image::ImageProblem::Unknown => FaultKind::Encoding,
        _ => FaultKind::TooLarge,
    };
    Fault::new(kind, format!("`{shown}` cannot be shown as a picture: {problem}"))
        .hint("look at it with a command, or ask the user for another copy")
        .at(shown)
}
