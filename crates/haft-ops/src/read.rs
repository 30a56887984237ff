//! Reading files: a window of lines of a text of any size and encoding, a whole file as bytes, or a picture,
//! a PDF or a notebook in a form that a model can see. Costs what is asked: lines before the window are
//! counted, not kept, and what follows it is not read.

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
use budget::Spent;
use document::DocumentKind;
pub use outcome::{Body, Encoding, FileRead, Lines, Paged, Piece, Sheet};
pub use pages::Pages;
#[cfg(feature = "pdf")]
pub use pdf::PDF_WORKER;
use text::Wanted;

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;
/// How much is read of a file that says it is empty.
const MIN_ROOM: u64 = 64;
/// How many reasons are told when nothing could be read.
const MAX_REASONS: usize = 5;
/// What a line's number and its end take beside the line.
const NUMBER_BYTES: usize = 8;

/// Reads one or more files.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The files, or why one of them cannot be read.
    pub files: Vec<Result<AbsPath, Fault>>,
    /// What is read of each.
    pub part: Part,
    /// How it is understood.
    pub reading: Reading,
    /// Which pages, of what has pages; default: the first ones.
    pub pages: Option<Pages>,
    /// How much of it at the most.
    pub caps: Caps,
}

/// How a file's bytes are understood when its lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As UTF-8, or not at all.
    Utf8,
    /// As text in whatever encoding it is.
    Text,
    /// As a picture, a PDF or a notebook if it is one, and as text otherwise.
    Anything,
}

/// What is read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Lines, from a number on (the first is 1), up to a count.
    Lines {
        /// The first line.
        start: u64,
        /// How many; all that are left when there is none.
        count: Option<u64>,
    },
    /// Every byte.
    Bytes,
}

/// How much is read at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Larger files are refused.
    pub file_bytes: Option<u64>,
    /// Longer lines are cut.
    pub line_chars: usize,
    /// A longer window ends at the line where this is reached, a number before each line counted in.
    pub window_bytes: usize,
    /// A NUL in so many first bytes makes a file a binary one.
    pub sniff_bytes: usize,
    /// All files together, as a model counts.
    pub tokens: Option<TokenBudget>,
}

/// How many tokens all files together may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBudget {
    /// At the most.
    pub max: usize,
    /// What a line number costs.
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
        let asked =
            ReadRequest { part: self.part, reading: self.reading, pages: self.pages, caps: self.caps };
        let mut read = Vec::with_capacity(self.files.len());
        let mut budget = self.caps.tokens.map(Spent::new);
        for file in self.files {
            let outcome = match file {
                Ok(path) => one(path, &asked, cx).await,
                Err(fault) => Err(fault),
            };
            if let (Some(spent), Ok(file)) = (&mut budget, &outcome) {
                spent.add(file, cx)?;
            }
            read.push(outcome);
        }
        if read.iter().all(Result::is_err) { Err(none_read(read)) } else { Ok(read) }
    }
}

/// The file of a call that named one.
pub fn only(output: Vec<Result<FileRead, Fault>>) -> Result<FileRead, Fault> {
    let first = output.into_iter().next();
    first.unwrap_or_else(|| Err(Fault::invalid("no file was named")))
}

/// When not one of the files could be read, the operation has failed.
fn none_read(read: Vec<Result<FileRead, Fault>>) -> Fault {
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

/// What is asked of every file.
struct ReadRequest {
    part: Part,
    reading: Reading,
    pages: Option<Pages>,
    caps: Caps,
}

async fn one(path: AbsPath, asked: &ReadRequest, cx: &Context) -> Result<FileRead, Fault> {
    if cx.is_cancelled() {
        return Err(cx.cancelled_fault());
    }
    let ReadRequest { part, reading, caps, .. } = *asked;
    let OpenFile { file, stat } = cx.workspace().open_file(&path)?;
    if let Some(max) = caps.file_bytes.filter(|max| stat.size > *max) {
        return Err(too_large(&path, stat.size, max, cx));
    }
    let how = How { part, reading, caps };
    let found = if stat.size <= SMALL {
        read_body(file, &path, &stat, how, cx)
    } else {
        let (cx, path) = (cx.clone(), path.clone());
        let reading = tokio::task::spawn_blocking(move || read_body(file, &path, &stat, how, &cx));
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
    let ReadContent { what, whole } = found.map_err(failed)?;
    let mut notes = Vec::new();
    let body = match what {
        ContentKind::Body(body) => body,
        ContentKind::TooLarge => return Err(too_large(&path, stat.size, document::MAX_BYTES, cx)),
        ContentKind::Document(DocumentKind::Notebook, bytes) => match document::notebook(bytes.clone()).await
        {
            Ok(sheet) => Body::Notebook(sheet),
            Err(why) => {
                if !bytes.is_empty() {
                    notes.push(format!("it is no notebook that can be read ({why}), and is shown as text"));
                }
                let lines = how.wanted().map(|wanted| text::lines(&bytes, io::empty(), &wanted, cx));
                lines.transpose().map_err(failed)?.unwrap_or(Body::Binary)
            }
        },
        ContentKind::Document(sort, bytes) => {
            // Boxed, because what reads lines should not have to carry what reads these.
            Box::pin(document::seen(sort, bytes, &path, asked.pages.as_ref(), cx)).await?
        }
    };
    if let Some(whole) = whole.as_ref().filter(|_| cx.session().journal().is_some()) {
        // A file that was read may be edited next.
        let editing = cx.session().extension::<Editing>();
        editing.checkers.prepare(&file_name(&path), whole.clone());
    }
    if body.is_shown() {
        cx.effect(seen(path.clone(), &stat, whole, cx).await);
    }
    Ok(FileRead { path, size: stat.size, modified: stat.modified, body, notes })
}

/// How a file's bytes are read.
#[derive(Clone, Copy)]
struct How {
    part: Part,
    reading: Reading,
    caps: Caps,
}

impl How {
    fn wanted(self) -> Option<Wanted> {
        let Part::Lines { start, count } = self.part else { return None };
        Some(Wanted { start, count, caps: self.caps, reading: self.reading })
    }
}

/// What the session is to know of a file that the model has seen, and its content where that is at hand.
async fn seen(path: AbsPath, stat: &Stat, whole: Option<Bytes>, cx: &Context) -> Effect {
    let seen = match whole {
        Some(content) => Seen::content(stat.stamp, content),
        // The next change of a file that was changed just now may leave the same stamp.
        None if stat.stamp.is_fresh() && stat.size <= MAX_HASHED => {
            let (again, there) = (path.clone(), cx.clone());
            let (path, cx) = (path.clone(), cx.clone());
            let hash = move || {
                haft_core::Hash::of_reader(cx.workspace().open_file(&path).ok()?.file.take(MAX_HASHED)).ok()
            };
            let hash = tokio::task::spawn_blocking(hash).await.ok().flatten();
            // Only if it is still the file whose lines were shown.
            let same = there.workspace().stat(&again).is_ok_and(|now| now.stamp == stat.stamp);
            match hash.filter(|_| same) {
                Some(hash) => Seen::hash(stat.stamp, hash),
                None => Seen::part(stat.stamp),
            }
        }
        None => Seen::part(stat.stamp),
    };
    Effect::Read { path, seen }
}

/// What was found, and the whole file where it is in memory anyway.
struct ReadContent {
    what: ContentKind,
    whole: Option<Bytes>,
}

enum ContentKind {
    Body(Body),
    /// A document, all of it.
    Document(DocumentKind, Bytes),
    /// A document that is too large to be read.
    TooLarge,
}

fn read_body(mut file: File, path: &AbsPath, stat: &Stat, how: How, cx: &Context) -> io::Result<ReadContent> {
    let small =
        |bytes: &Bytes| (bytes.len() as u64 == stat.size && stat.size <= SMALL).then(|| bytes.clone());
    let Some(wanted) = how.wanted() else {
        let mut bytes = Vec::with_capacity(stat.size.min(CHUNK as u64 * 64) as usize + 1);
        // A file that grows while it is read is not followed for ever.
        let max = how.caps.file_bytes.unwrap_or(u64::MAX);
        file.take(max).read_to_end(&mut bytes)?;
        let bytes = Bytes::from(bytes);
        return Ok(ReadContent { whole: small(&bytes), what: ContentKind::Body(Body::Bytes(bytes)) });
    };
    // One byte more than there should be, so that a file that has grown is noticed.
    let mut head = vec![0; (stat.size + 1).clamp(MIN_ROOM, CHUNK as u64) as usize];
    let read = file.read(&mut head)?;
    head.truncate(read);
    if how.reading == Reading::Anything
        && let Some(sort) = document::sort_of(&head, path)
    {
        if stat.size <= document::MAX_BYTES {
            file.take(document::MAX_BYTES).read_to_end(&mut head)?;
            let bytes = Bytes::from(head);
            return Ok(ReadContent { whole: small(&bytes), what: ContentKind::Document(sort, bytes) });
        }
        if sort != DocumentKind::Notebook {
            return Ok(ReadContent { what: ContentKind::TooLarge, whole: None });
        }
    }
    if stat.size <= SMALL && read as u64 == stat.size {
        let whole = Bytes::from(head);
        let body = text::lines(&whole, io::empty(), &wanted, cx)?;
        return Ok(ReadContent { what: ContentKind::Body(body), whole: Some(whole) });
    }
    Ok(ReadContent { what: ContentKind::Body(text::lines(&head, file, &wanted, cx)?), whole: None })
}

fn too_large(path: &AbsPath, size: u64, max: u64, cx: &Context) -> Fault {
    let shown = cx.workspace().display(path);
    Fault::new(FaultKind::TooLarge, format!("`{shown}` is {size} bytes; at most {max} can be read"))
        .hint("search it for what you need instead")
        .at(shown)
        .with("size", size)
        .with("limit", max)
}
