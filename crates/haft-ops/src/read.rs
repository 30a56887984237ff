//! The read operation: a window of lines of a text file of any size and encoding, a whole file as bytes, or an
//! image, a PDF or a notebook converted to a form that a model can see. Reading is incremental: lines before the window
//! are counted but not kept, and the rest of the file after the window is not read. Knows nothing of how a dialect
//! formats the result.

mod budget;
mod document;
mod outcome;
mod pages;
#[cfg(feature = "pdf")]
mod pdf;
mod text;
mod window;

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};

use bytes::Bytes;
use haft_core::sessions::Seen;
use haft_core::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Operation, Resource};
use haft_sandbox::{OpenFile, Stat};

use super::change::file_name;
use super::{Editing, MAX_HASHED, SMALL};
use budget::TokenTally;
pub use document::{DocumentKind, document_kind, show_document};
pub use outcome::{Body, Encoding, FileRead, Lines, Paged, Piece, Sheet};
pub use pages::Pages;
#[cfg(feature = "pdf")]
pub use pdf::PDF_WORKER;
use text::LineRequest;

/// Bytes per read call.
const CHUNK: usize = 256 * 1024;
/// Smallest read buffer. Files in `/proc` report size 0 but have content.
const MIN_ROOM: u64 = 64;
/// Largest number of causes in the error of a call in which every file failed.
const MAX_REASONS: usize = 5;
/// Bytes that a line number and a line end add to each line of the reply.
const NUMBER_BYTES: usize = 8;

/// Reads one or more files.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The files. A path that could not be resolved is the fault that says why.
    pub files: Vec<Result<AbsPath, Fault>>,
    /// The part of each file to read.
    pub part: Part,
    /// How to interpret the bytes of each file.
    pub reading: Reading,
    /// Pages to read of a PDF. Default: the first pages, up to the limit of one call.
    pub pages: Option<Pages>,
    /// Size limits of the result.
    pub caps: Caps,
}

/// How a read of lines interprets a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As UTF-8; other content is reported as [`Body::NotUtf8`].
    Utf8,
    /// As text in an encoding that is detected from the bytes.
    Text,
    /// As an image, a PDF or a notebook if the file is one, and as text otherwise.
    Anything,
}

/// The part of a file to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A range of lines.
    Lines {
        /// Number of the first line; the file's first line is 1.
        start: u64,
        /// Number of lines. Default: up to the end of the file.
        count: Option<u64>,
    },
    /// Every byte.
    Bytes,
}

/// Size limits of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Largest file size in bytes; the read of a larger file fails.
    pub file_bytes: Option<u64>,
    /// Longest line in characters; longer lines are cut.
    pub line_chars: usize,
    /// Largest window in bytes, including the line numbers. The window ends with the line that reaches it.
    pub window_bytes: usize,
    /// Number of leading bytes to search for a NUL, which marks a file as binary.
    pub sniff_bytes: usize,
    /// Token budget of all files of the call together.
    pub tokens: Option<TokenBudget>,
}

/// Token budget of all files of one read call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBudget {
    /// Largest number of tokens.
    pub max: usize,
    /// Tokens that each line number costs.
    pub per_line: usize,
}

impl Operation for Read {
    type Output = Vec<Result<FileRead, Fault>>;

    fn claims(&self) -> Claims {
        let files = self.files.iter().flatten();
        files.fold(Claims::none(), |claims, file| claims.read(Resource::Path(file.clone())))
    }

    fn missing(&self) -> Vec<String> {
        let faults = self.files.iter().filter_map(|file| file.as_ref().err());
        faults.filter_map(Fault::missing).map(str::to_owned).collect()
    }

    fn fingerprint(&self, cx: &Context) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        for file in self.files.iter().flatten() {
            cx.workspace().stat(file).ok().map(|stat| stat.stamp).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    async fn run(self, cx: &Context) -> Result<Self::Output, Fault> {
        let request =
            ReadRequest { part: self.part, reading: self.reading, pages: self.pages, caps: self.caps };
        let mut read = Vec::with_capacity(self.files.len());
        let mut budget = self.caps.tokens.map(TokenTally::new);
        for file in self.files {
            let outcome = match file {
                Ok(path) => read_one(path, &request, cx).await,
                Err(fault) => Err(fault),
            };
            if let (Some(tally), Ok(file)) = (&mut budget, &outcome) {
                tally.add(file, cx)?;
            }
            read.push(outcome);
        }
        if read.iter().all(Result::is_err) { Err(all_failed(read)) } else { Ok(read) }
    }
}

/// Extracts the result of a call that reads exactly one file.
pub fn only(output: Vec<Result<FileRead, Fault>>) -> Result<FileRead, Fault> {
    let first = output.into_iter().next();
    first.unwrap_or_else(|| Err(Fault::invalid("no file was named")))
}

/// Combines the faults of a call in which no file could be read into the fault of the call.
fn all_failed(read: Vec<Result<FileRead, Fault>>) -> Fault {
    let mut faults: Vec<Fault> = read.into_iter().filter_map(Result::err).collect();
    match faults.len() {
        0 => Fault::invalid("no file was named"),
        1 => faults.remove(0),
        _ => {
            let why: Vec<&str> = faults.iter().take(MAX_REASONS).map(Fault::message).collect();
            let more = match faults.len().saturating_sub(MAX_REASONS) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let fault = Fault::new(
                faults[0].kind(),
                format!("none of the files can be read: {}{more}", why.join("; ")),
            );
            match faults.iter().find_map(Fault::hint_text) {
                Some(hint) => fault.hint(hint),
                None => fault,
            }
        }
    }
}

/// Options of a call, which apply to each of its files.
struct ReadRequest {
    part: Part,
    reading: Reading,
    pages: Option<Pages>,
    caps: Caps,
}

async fn read_one(path: AbsPath, request: &ReadRequest, cx: &Context) -> Result<FileRead, Fault> {
    if cx.is_cancelled() {
        return Err(cx.cancelled_fault());
    }
    let ReadRequest { part, reading, caps, .. } = *request;
    let OpenFile { file, stat } = cx.workspace().open_file(&path)?;
    if let Some(max) = caps.file_bytes.filter(|max| stat.size > *max) {
        return Err(too_large(&path, stat.size, max, cx));
    }
    let options = BodyOptions { part, reading, caps };
    let found = if stat.size <= SMALL {
        read_body(file, &path, &stat, options, cx)
    } else {
        let (cx, path) = (cx.clone(), path.clone());
        let reading = tokio::task::spawn_blocking(move || read_body(file, &path, &stat, options, &cx));
        reading.await.map_err(|error| Fault::failed(error.to_string()))?
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => cx.cancelled_fault(),
        _ => Fault::new(
            FaultKind::Io,
            format!("`{}` could not be read: {error}", cx.workspace().display(&path)),
        )
        .at(cx.workspace().display(&path)),
    };
    let ReadContent { content, whole } = found.map_err(failed)?;
    let mut notes = Vec::new();
    let body = match content {
        FileContent::Body(body) => body,
        FileContent::TooLarge => return Err(too_large(&path, stat.size, document::MAX_BYTES, cx)),
        FileContent::Document(DocumentKind::Notebook, bytes) => match document::notebook(bytes.clone()).await
        {
            Ok(sheet) => Body::Notebook(sheet),
            Err(why) => {
                if !bytes.is_empty() {
                    notes.push(format!("it is no notebook that can be read ({why}), and is shown as text"));
                }
                let lines = options.lines().map(|lines| text::lines(&bytes, io::empty(), &lines, cx));
                lines.transpose().map_err(failed)?.unwrap_or(Body::Binary)
            }
        },
        FileContent::Document(kind, bytes) => {
            // Boxed: the future of a document is large, and every read of plain lines would carry its size.
            let shown = cx.workspace().display(&path);
            Box::pin(document::render(kind, bytes, &shown, request.pages.as_ref(), cx)).await?
        }
    };
    if let Some(whole) = whole.as_ref().filter(|_| cx.session().journal().is_some()) {
        // An edit often follows a read: the checker can parse the file in the meantime.
        let editing = cx.session().extension::<Editing>();
        editing.checkers.prepare(&file_name(&path), whole.clone());
    }
    if body.is_shown() {
        let seen = seen_version(&path, &stat, whole, cx).await.only(body.shown_lines(part, &caps));
        cx.effect(Effect::Read { path: path.clone(), seen });
    }
    Ok(FileRead { path, size: stat.size, modified: stat.modified, body, notes })
}

/// Options that turn a file's bytes into a body.
#[derive(Clone, Copy)]
struct BodyOptions {
    part: Part,
    reading: Reading,
    caps: Caps,
}

impl BodyOptions {
    /// The lines to read; nothing where every byte is.
    fn lines(self) -> Option<LineRequest> {
        let Part::Lines { start, count } = self.part else { return None };
        Some(LineRequest { start, count, caps: self.caps, reading: self.reading })
    }
}

/// Version of a file that the model has seen: by its content where that is in memory, otherwise by its hash or by its
/// stamp alone.
async fn seen_version(path: &AbsPath, stat: &Stat, whole: Option<Bytes>, cx: &Context) -> Seen {
    match whole {
        Some(content) => Seen::content(stat.stamp, content),
        // A change within the clock's granularity leaves the stamp as it is, so a recent stamp proves nothing.
        None if stat.stamp.is_fresh() && stat.size <= MAX_HASHED => {
            let (hashed, inside) = (path.clone(), cx.clone());
            let hash = move || {
                let open = inside.workspace().open_file(&hashed).ok()?;
                haft_core::Hash::of_reader(open.file.take(MAX_HASHED)).ok()
            };
            let hash = tokio::task::spawn_blocking(hash).await.ok().flatten();
            // The hash counts only if the file is still the version whose lines the model gets.
            let same = cx.workspace().stat(path).is_ok_and(|now| now.stamp == stat.stamp);
            match hash.filter(|_| same) {
                Some(hash) => Seen::hash(stat.stamp, hash),
                None => Seen::part(stat.stamp),
            }
        }
        None => Seen::part(stat.stamp),
    }
}

/// Result of [`read_body`]: the content, and all bytes of the file where they are in memory anyway.
struct ReadContent {
    content: FileContent,
    whole: Option<Bytes>,
}

/// Content of a file, by what remains to be done with it.
enum FileContent {
    /// Content that needs no conversion.
    Body(Body),
    /// All bytes of a document, which still has to be converted.
    Document(DocumentKind, Bytes),
    /// A document that is too large to convert.
    TooLarge,
}

/// Reads a file's bytes, as far as the options need them. Blocks.
fn read_body(
    mut file: File,
    path: &AbsPath,
    stat: &Stat,
    options: BodyOptions,
    cx: &Context,
) -> io::Result<ReadContent> {
    let small =
        |bytes: &Bytes| (bytes.len() as u64 == stat.size && stat.size <= SMALL).then(|| bytes.clone());
    let Some(lines) = options.lines() else {
        let mut bytes = Vec::with_capacity(stat.size.min(CHUNK as u64 * 64) as usize + 1);
        // The limit also ends the read of a file that grows meanwhile.
        let max = options.caps.file_bytes.unwrap_or(u64::MAX);
        file.take(max).read_to_end(&mut bytes)?;
        let bytes = Bytes::from(bytes);
        return Ok(ReadContent { whole: small(&bytes), content: FileContent::Body(Body::Bytes(bytes)) });
    };
    // One byte more than the size, so that a file that has grown since does not count as read whole.
    let mut head = vec![0; (stat.size + 1).clamp(MIN_ROOM, CHUNK as u64) as usize];
    let read = file.read(&mut head)?;
    head.truncate(read);
    if options.reading == Reading::Anything
        && let Some(kind) = document::kind_of(&head, path)
    {
        if stat.size <= document::MAX_BYTES {
            file.take(document::MAX_BYTES).read_to_end(&mut head)?;
            let bytes = Bytes::from(head);
            return Ok(ReadContent { whole: small(&bytes), content: FileContent::Document(kind, bytes) });
        }
        // A notebook that is too large is still readable as text.
        if kind != DocumentKind::Notebook {
            return Ok(ReadContent { content: FileContent::TooLarge, whole: None });
        }
    }
    if stat.size <= SMALL && read as u64 == stat.size {
        let whole = Bytes::from(head);
        let body = text::lines(&whole, io::empty(), &lines, cx)?;
        return Ok(ReadContent { content: FileContent::Body(body), whole: Some(whole) });
    }
    Ok(ReadContent { content: FileContent::Body(text::lines(&head, file, &lines, cx)?), whole: None })
}

fn too_large(path: &AbsPath, size: u64, max: u64, cx: &Context) -> Fault {
    let shown = cx.workspace().display(path);
    Fault::new(FaultKind::TooLarge, format!("`{shown}` is {size} bytes; at most {max} can be read"))
        .hint("search it for what you need instead")
        .at(shown)
        .with("size", size)
        .with("limit", max)
}
