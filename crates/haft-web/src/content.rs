//! The body of a response in a form that a model can see: what it is, by its first bytes and then by its declared type,
//! and its text. Declared types and charsets are hints that may be wrong.

mod charset;
mod json;
pub mod markdown;

use std::path::PathBuf;

use bytes::Bytes;
use haft_core::{Context, Fault};
use haft_ops::{DocumentKind, Piece};
use haft_sandbox::egress::Url;
use haft_text::Guess;

use crate::fence::scrub;
use crate::fetch::Want;

/// Bytes to look at for the start of a page.
const SNIFF_BYTES: usize = 1024;

/// The content of a response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Nothing.
    Empty,
    /// Text, scrubbed.
    Text(String),
    /// Texts and pictures, such as the pages of a PDF.
    Pieces(Vec<Piece>),
    /// Something that cannot be shown, kept in a file.
    Kept {
        /// The file; `None` if there is no place to keep it.
        path: Option<PathBuf>,
    },
}

impl Content {
    /// How much memory the content takes, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Content::Empty | Content::Kept { .. } => 0,
            Content::Text(text) => text.len(),
            Content::Pieces(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.len(),
                    Piece::Picture(picture) => picture.bytes.len(),
                })
                .sum(),
        }
    }
}

/// A body with what its response says about it.
pub(crate) struct Body<'a> {
    pub(crate) bytes: Bytes,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) url: &'a Url,
    /// Whether the body goes on after these bytes.
    pub(crate) is_cut: bool,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Document(DocumentKind),
    Html,
    Json,
    Text,
    Other,
}

/// Converts a body. Remarks for the model are added to `notes`.
pub(crate) async fn convert(
    body: Body<'_>,
    want: Want,
    notes: &mut Vec<String>,
    cx: &Context,
) -> Result<Content, Fault> {
    if body.bytes.is_empty() {
        return Ok(Content::Empty);
    }
    let kind = kind_of(&body);
    match kind {
        Kind::Other => return Ok(keep(&body.bytes, cx)),
        Kind::Document(kind) if want == Want::Page && !body.is_cut => {
            match haft_ops::show_document(kind, body.bytes.clone(), body.url.as_str(), cx).await {
                Ok(pieces) => return Ok(Content::Pieces(pieces.into_iter().map(scrubbed).collect())),
                Err(fault) => {
                    notes.push(format!("{}; it is kept as a file", fault.message()));
                    return Ok(keep(&body.bytes, cx));
                }
            }
        }
        Kind::Document(_) => return Ok(keep(&body.bytes, cx)),
        Kind::Html | Kind::Json | Kind::Text => {}
    }
    let label = body.content_type.and_then(charset_label);
    let text = charset::decode(&body.bytes, label, notes);
    let text = match (kind, want) {
        (Kind::Html, Want::Page) => {
            let converted = markdown::convert(text, body.url.clone()).await?;
            notes.extend(converted.notes);
            match converted.title.filter(|title| !title.is_empty()) {
                Some(title) => format!("title: {title}\n\n{}", converted.markdown),
                None => converted.markdown,
            }
        }
        (Kind::Json, Want::Page) => json::indented(&text).unwrap_or(text),
        _ => text,
    };
    let (text, removed) = scrub(&text);
    if removed > 0 {
        notes.push(format!(
            "{} that cannot be seen were removed",
            haft_text::count_of(removed as u64, "character")
        ));
    }
    Ok(Content::Text(text))
}

fn scrubbed(piece: Piece) -> Piece {
    match piece {
        Piece::Text(text) => Piece::Text(scrub(&text).0),
        picture => picture,
    }
}

/// Keeps bytes in a file of the session's results.
fn keep(bytes: &[u8], cx: &Context) -> Content {
    let path = cx.keep_output().map(|mut file| {
        file.add(bytes);
        file.path().to_owned()
    });
    Content::Kept { path }
}

fn kind_of(body: &Body<'_>) -> Kind {
    let bytes = &body.bytes;
    if let Some(kind) = haft_ops::document_kind(bytes) {
        return Kind::Document(kind);
    }
    let declared = body.content_type.map(media_type).unwrap_or_default();
    let has_charset = body.content_type.is_some_and(|value| charset_label(value).is_some());
    let is_text = has_charset || matches!(haft_text::guess(bytes), Guess::Text(..));
    let is_xml = declared.ends_with("/xml") || declared.ends_with("+xml");
    match declared.as_str() {
        _ if !is_text => Kind::Other,
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" | "text/plain" if begins_like_html(bytes) => Kind::Html,
        json if json == "application/json" || json.ends_with("+json") || json == "text/json" => Kind::Json,
        _ if declared.starts_with("text/") || is_xml => Kind::Text,
        // A type says no more than that it is text, which the bytes say as well.
        _ if !declared.starts_with("image/")
            && !declared.starts_with("audio/")
            && !declared.starts_with("video/") =>
        {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            if declared.is_empty() && matches!(first, Some(b'{' | b'[')) { Kind::Json } else { Kind::Text }
        }
        _ => Kind::Other,
    }
}

/// The media type of a `Content-Type`, in lower case.
pub(crate) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The charset that a `Content-Type` names.
fn charset_label(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

fn begins_like_html(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(SNIFF_BYTES)];
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let begins = |with: &str| start.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    begins("<!doctype html") || begins("<html") || begins("<head") || begins("<body")
}
