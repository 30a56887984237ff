//! Reading files: a window of lines of a file of any size, or a whole file as bytes. Costs what is asked:
//! lines before the window are counted, not kept, and what follows it is not read.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::time::SystemTime;

use haft::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Operation, Resource, tokens};
use haft_sandbox::{OpenFile, Stat};

/// Files up to this size are read where the call runs; larger ones on a thread that may block.
const SMALL: u64 = 256 * 1024;
/// How much is read at a time.
const CHUNK: usize = 256 * 1024;
/// How many reasons are told when nothing could be read.
const MAX_REASONS: usize = 5;
/// What a line's number and its end take beside the line.
const NUMBER_BYTES: usize = 8;
/// How much of a text is tokenized to tell how dense it is.
const TOKEN_SAMPLE: usize = 10 * 1024;

/// Reads one or more files.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The files, or why one of them cannot be read.
    pub files: Vec<Result<AbsPath, Fault>>,
    /// What is read of each.
    pub part: Part,
    /// How much of it at the most.
    pub caps: Caps,
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
}

/// What was read.
#[derive(Debug, PartialEq)]
pub enum Body {
    /// Lines of text.
    Lines(Lines),
    /// Nothing: the file is not text.
    Binary,
    /// Every byte.
    Bytes(Vec<u8>),
}

/// A window of lines.
#[derive(Debug, Default, PartialEq)]
pub struct Lines {
    /// The lines, each ended by `\n` but perhaps the last; no longer than the cap.
    pub text: Vec<u8>,
    /// How many there are.
    pub count: u64,
    /// How many of them were cut.
    pub cut: u64,
    /// Whether the file goes on after them.
    pub more: bool,
    /// How many lines the file has, where the window reached its end.
    pub total: Option<u64>,
}

impl Operation for Read {
    type Output = Vec<Result<FileRead, Fault>>;

    fn claims(&self) -> Claims {
        let files = self.files.iter().flatten();
        files.fold(Claims::none(), |claims, file| claims.read(Resource::Path(file.clone())))
    }

    fn fingerprint(&self, cx: &Context) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        for file in self.files.iter().flatten() {
            cx.workspace().stat(file).ok().map(|stat| stat.stamp).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    async fn run(self, cx: &Context) -> Result<Self::Output, Fault> {
        let mut read = Vec::with_capacity(self.files.len());
        let mut budget = self.caps.tokens.map(|budget| Spent { budget, tokens: 0, files: Vec::new() });
        for file in self.files {
            let outcome = match file {
                Ok(path) => one(path, self.part, self.caps, cx).await,
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

async fn one(path: AbsPath, part: Part, caps: Caps, cx: &Context) -> Result<FileRead, Fault> {
    if cx.is_cancelled() {
        return Err(cx.cancelled_fault());
    }
    let OpenFile { file, stat } = cx.workspace().open_file(&path)?;
    if let Some(max) = caps.file_bytes.filter(|max| stat.size > *max) {
        return Err(too_large(&path, stat.size, max, cx));
    }
    let body = if stat.size <= SMALL {
        read_body(file, &stat, part, caps, cx)
    } else {
        let cx = cx.clone();
        let reading = tokio::task::spawn_blocking(move || read_body(file, &stat, part, caps, &cx));
        reading.await.map_err(|error| Fault::failed(error.to_string()))?
    };
    let body = body.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => cx.cancelled_fault(),
        _ => Fault::new(
            FaultKind::Io,
            format!("`{}` could not be read: {error}", cx.workspace().display(&path)),
        )
        .with("path", cx.workspace().display(&path)),
    })?;
    cx.effect(Effect::Read { path: path.clone(), seen: haft::Seen::part(stat.stamp) });
    Ok(FileRead { path, size: stat.size, modified: stat.modified, body })
}

fn read_body(mut file: File, stat: &Stat, part: Part, caps: Caps, cx: &Context) -> io::Result<Body> {
    match part {
        Part::Bytes => {
            let mut bytes = Vec::with_capacity(stat.size.min(CHUNK as u64 * 64) as usize + 1);
            // A file that grows while it is read is not followed for ever.
            let max = caps.file_bytes.unwrap_or(u64::MAX);
            file.take(max).read_to_end(&mut bytes)?;
            Ok(Body::Bytes(bytes))
        }
        Part::Lines { start, count } => {
            let room = (stat.size + 1).clamp(1, CHUNK as u64) as usize;
            let mut buffer = vec![0; room];
            let mut window = Window::new(start, count, caps);
            let mut first = true;
            loop {
                let read = file.read(&mut buffer)?;
                let chunk = &buffer[..read];
                if first && memchr::memchr(0, &chunk[..read.min(caps.sniff_bytes)]).is_some() {
                    return Ok(Body::Binary);
                }
                first = false;
                if read == 0 {
                    return Ok(Body::Lines(window.end()));
                }
                if window.take(chunk) == Flow::Full {
                    return Ok(Body::Lines(window.full()));
                }
                if cx.is_cancelled() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
        }
    }
}

/// Takes chunks of a file and keeps the lines that are wanted.
struct Window {
    /// Lines still to be passed over.
    before: u64,
    /// Lines passed over, those of the window not counted.
    passed: u64,
    left: Option<u64>,
    line_bytes: usize,
    window_bytes: usize,
    lines: Lines,
    /// Bytes of the line that is being taken, those that were cut included.
    line: usize,
    cut: bool,
    /// Whether the last byte seen ended a line.
    at_start: bool,
}

#[derive(PartialEq)]
enum Flow {
    More,
    Full,
}

impl Window {
    fn new(start: u64, count: Option<u64>, caps: Caps) -> Self {
        Self {
            before: start.saturating_sub(1),
            passed: 0,
            left: count,
            // A character is at most four bytes, so this keeps at least the characters that are wanted.
            line_bytes: caps.line_chars.saturating_mul(4).saturating_add(4).min(caps.window_bytes),
            window_bytes: caps.window_bytes,
            lines: Lines::default(),
            line: 0,
            cut: false,
            at_start: true,
        }
    }

    fn take(&mut self, mut chunk: &[u8]) -> Flow {
        if self.before > 0 {
            match skip(chunk, self.before) {
                Ok(rest) => {
                    self.passed += self.before;
                    self.before = 0;
                    chunk = rest;
                    self.at_start = true;
                }
                Err(found) => {
                    self.before -= found;
                    self.passed += found;
                    self.at_start = chunk.last() == Some(&b'\n');
                    return Flow::More;
                }
            }
        }
        while !chunk.is_empty() {
            let taken = self.lines.text.len() + self.lines.count as usize * NUMBER_BYTES;
            if self.at_start && (self.left == Some(0) || taken >= self.window_bytes) {
                return Flow::Full;
            }
            let end = memchr::memchr(b'\n', chunk);
            let (piece, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
            let room = self.line_bytes.saturating_sub(self.line);
            self.lines.text.extend_from_slice(&piece[..piece.len().min(room)]);
            self.cut |= piece.len() > room;
            self.line += piece.len();
            self.at_start = false;
            chunk = rest;
            if end.is_some() {
                chunk = &rest[1..];
                self.line_done();
                self.lines.text.push(b'\n');
            }
        }
        Flow::More
    }

    fn line_done(&mut self) {
        if self.cut {
            drop_split_character(&mut self.lines.text);
        }
        self.lines.count += 1;
        self.lines.cut += u64::from(self.cut);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.line = 0;
        self.cut = false;
        self.at_start = true;
    }

    /// The file goes on after the window.
    fn full(mut self) -> Lines {
        self.lines.more = true;
        self.lines
    }

    /// The file ended in the window or before it.
    fn end(mut self) -> Lines {
        if !self.at_start {
            if self.before > 0 {
                self.passed += 1;
            } else {
                self.line_done();
            }
        }
        self.lines.total = Some(self.passed + self.lines.count);
        self.lines
    }
}

/// Drops the first bytes of a character whose last bytes were cut off.
fn drop_split_character(text: &mut Vec<u8>) {
    let tail = text.len().saturating_sub(4);
    let start = text[tail..].iter().rposition(|byte| byte & 0xC0 != 0x80).map(|at| tail + at);
    if let Some(start) = start
        && let Err(error) = std::str::from_utf8(&text[start..])
        && error.error_len().is_none()
    {
        text.truncate(start);
    }
}

/// What follows `lines` line ends, or how many there are if there are fewer.
fn skip(chunk: &[u8], lines: u64) -> Result<&[u8], u64> {
    let found = memchr::memchr_iter(b'\n', chunk).count() as u64;
    if found < lines {
        return Err(found);
    }
    let last = memchr::memchr_iter(b'\n', chunk).nth(lines as usize - 1).unwrap_or(chunk.len() - 1);
    Ok(&chunk[last + 1..])
}

fn too_large(path: &AbsPath, size: u64, max: u64, cx: &Context) -> Fault {
    let shown = cx.workspace().display(path);
    Fault::new(FaultKind::TooLarge, format!("`{shown}` is {size} bytes; at most {max} can be read"))
        .hint("search it for what you need instead")
        .with("path", shown)
        .with("size", size)
        .with("limit", max)
}

/// What the files read so far cost.
struct Spent {
    budget: TokenBudget,
    tokens: usize,
    files: Vec<String>,
}

impl Spent {
    /// Counts a file in. The first one that goes beyond the budget ends the reading.
    fn add(&mut self, file: &FileRead, cx: &Context) -> Result<(), Fault> {
        let Body::Lines(lines) = &file.body else { return Ok(()) };
        let text = String::from_utf8_lossy(&lines.text);
        let numbers = lines.count as usize * self.budget.per_line;
        // Every token is at least a byte: a text this short fits without being counted.
        let tokens = if text.len() + numbers + self.tokens <= self.budget.max {
            text.len() / 3 + numbers
        } else {
            let sample = &text[..text.floor_char_boundary(TOKEN_SAMPLE)];
            let density = tokens::count(sample) as f64 / sample.len().max(1) as f64;
            (text.len() as f64 * density) as usize + numbers
        };
        self.tokens += tokens;
        self.files.push(format!("`{}` about {tokens}", cx.workspace().display(&file.path)));
        let max = self.budget.max;
        if self.tokens <= max {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::TooLarge,
            format!(
                "that is about {} tokens or more, and at most {max} can be read at once: {}",
                self.tokens,
                self.files.join(", ")
            ),
        )
        .hint("read fewer files at once, or a part of them with `limit` and `offset`")
        .with("estimated_tokens", self.tokens)
        .with("limit", max))
    }
}
