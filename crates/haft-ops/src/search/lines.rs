//! Searching one open file. Small files are read whole in one call, larger ones as a stream of bounded memory. Text in
//! encodings other than UTF-8 is decoded first. Knows nothing of folders, order or pages.

use std::io::{self, Read as _, Seek as _};
use std::ops::Range;

use grep_matcher::Matcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use haft_sandbox::OpenFile;

use super::signal::{Signal, Stoppable};
use haft_text::Source;

/// Size from which files are searched as a stream.
const WHOLE: u64 = 1 << 20;
/// Longest line that is held in memory, and largest file for a multi-line search.
const MAX_HELD: usize = 8 << 20;
/// Bytes at the beginning of a file in which a NUL means that it is binary.
const SNIFFED: usize = 1024;
/// Bytes that are searched at a time where a line exceeds [`MAX_HELD`].
const WINDOW: usize = 4 << 20;
/// Overlap of two windows, and so the longest match that is sure to be found there.
const OVERLAP: usize = 64 << 10;

/// What to collect from a file, and how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct CollectOptions {
    pub(super) mode: LineMode,
    /// Maximum number of lines.
    pub(super) lines: usize,
    /// Size in bytes of the collected lines after which the search of the file ends.
    pub(super) bytes: usize,
    /// Maximum characters of a line; a longer one is truncated around the match.
    pub(super) line_chars: usize,
}

/// What a content search reports of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineMode {
    /// Only whether it matches.
    Any,
    /// The number of matching lines; in a multi-line search, the number of matches.
    Count,
    /// The matching lines, with context.
    Lines {
        /// Number of context lines before a match.
        before: usize,
        /// Number of context lines after a match.
        after: usize,
    },
}

/// A line of a search result: a match or its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number, from 1.
    pub number: u64,
    /// Character at which the match begins, from 1; none in a context line.
    pub column: Option<usize>,
    /// Text without the line terminator, truncated if it is long.
    pub text: String,
    /// Whether lines are missing between the previous line of the result and this one.
    pub gap: bool,
}

/// Result of searching one file.
#[derive(Debug, PartialEq)]
pub(super) enum FileResult {
    NoMatch,
    Binary,
    Unreadable,
    /// The file exceeds [`MAX_HELD`], and a multi-line search needs all of it.
    TooLarge,
    /// The search was stopped before the end of the file.
    Interrupted,
    Matches(FileMatches),
}

/// The matches of one file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileMatches {
    /// Number of matching lines, as far as the file was searched.
    pub(super) count: u64,
    /// Number of lines that were skipped before the collected ones.
    pub(super) skipped: u64,
    pub(super) lines: Vec<Line>,
    /// Size of `lines`.
    bytes: usize,
}

impl FileMatches {
    /// Adds a line, or skips it while fewer than `skip` are skipped. Returns whether there is room for more.
    fn push(&mut self, skip: u64, options: CollectOptions, line: impl FnOnce() -> Line) -> bool {
        if self.skipped < skip {
            self.skipped += 1;
            return true;
        }
        let line = line();
        self.bytes += line.text.len() + 1;
        self.lines.push(line);
        self.lines.len() < options.lines && self.bytes <= options.bytes
    }
}

/// Searches files, one after the other. Each thread has its own, with its buffer.
pub(super) struct Finder<'a, M> {
    matcher: M,
    /// Whether the pattern can match characters whose bytes depend on the encoding.
    non_ascii: bool,
    options: CollectOptions,
    signal: &'a Signal,
    whole: Searcher,
    stream: Searcher,
    buffer: Vec<u8>,
    skip: u64,
}

impl LineMode {
    pub(super) fn is_lines(self) -> bool {
        matches!(self, Self::Lines { .. })
    }
}

impl<'a, M: Matcher> Finder<'a, M> {
    pub(super) fn new(
        matcher: M,
        pattern: &super::Pattern,
        options: CollectOptions,
        signal: &'a Signal,
    ) -> Self {
        let mut builder = SearcherBuilder::new();
        let (before, after) = match options.mode {
            LineMode::Lines { before, after } => (before, after),
            _ => (0, 0),
        };
        builder
            .multi_line(pattern.span == super::Span::Lines)
            .line_terminator(matcher.line_terminator().unwrap_or_default())
            .line_number(options.mode.is_lines())
            .before_context(before)
            .after_context(after);
        let whole = builder.build();
        let stream = builder.heap_limit(Some(MAX_HELD)).binary_detection(BinaryDetection::quit(0)).build();
        let is_class = pattern.syntax == super::Syntax::Regex && pattern.text.contains(['.', '\\', '[']);
        let non_ascii = is_class || !pattern.text.is_ascii();
        Self { matcher, non_ascii, options, signal, whole, stream, buffer: Vec::new(), skip: 0 }
    }

    /// Searches a file and skips the first `skip` lines of its result.
    pub(super) fn search(&mut self, open: OpenFile, skip: u64) -> FileResult {
        self.skip = skip;
        let length = match open.stat.size {
            WHOLE.. => None,
            _ => match self.read(&open) {
                Ok(length) => length,
                Err(_) => return FileResult::Unreadable,
            },
        };
        let Some(length) = length else { return self.search_stream(open) };
        self.signal.count(1, length as u64);
        let bytes = &self.buffer[..length];
        let marked = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        if !marked && memchr::memchr(0, &bytes[..length.min(SNIFFED)]).is_some() {
            // Nearly always a binary file, but UTF-16 without a byte order mark also contains NULs.
            return match Source::new(bytes.to_vec()) {
                Ok(source) => self.search_text(source.text().as_bytes()),
                Err(_) => FileResult::Binary,
            };
        }
        let mut collect = Collect::new(&self.matcher, self.options, self.skip);
        if self.whole.search_slice(&self.matcher, bytes, &mut collect).is_err() {
            return FileResult::Unreadable;
        }
        let Collect { hits, undecodable, .. } = collect;
        if hits.count > 0 && !marked && memchr::memchr(0, bytes).is_some() {
            return FileResult::Binary;
        }
        // Most files are UTF-8: decoding is tried only where it can change the result.
        let other_encoding = undecodable || (self.non_ascii && std::str::from_utf8(bytes).is_err());
        if other_encoding && let Ok(source) = Source::new(bytes.to_vec()) {
            return self.search_text(source.text().as_bytes());
        }
        result_of(hits)
    }

    fn search_text(&mut self, text: &[u8]) -> FileResult {
        let mut collect = Collect::new(&self.matcher, self.options, self.skip);
        match self.whole.search_slice(&self.matcher, text, &mut collect) {
            Ok(()) => result_of(collect.hits),
            Err(_) => FileResult::Unreadable,
        }
    }

    /// Reads a small file into the buffer, with one call unless it has grown. Returns its length, or `None` if it has
    /// grown beyond [`WHOLE`].
    fn read(&mut self, open: &OpenFile) -> io::Result<Option<usize>> {
        let size = usize::try_from(open.stat.size).unwrap_or(0);
        let mut length = 0;
        loop {
            if self.buffer.len() <= size.max(length) {
                self.buffer.resize(size.max(2 * length) + 1, 0);
            }
            match (&open.file).read(&mut self.buffer[length..]) {
                Ok(read) if read == 0 || length + read <= size => return Ok(Some(length + read)),
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if length as u64 >= WHOLE {
                return Ok(None);
            }
        }
    }

    fn search_stream(&mut self, open: OpenFile) -> FileResult {
        self.signal.count(1, open.stat.size);
        if (&open.file).rewind().is_err() {
            return FileResult::Unreadable;
        }
        let mut collect = Collect::new(&self.matcher, self.options, self.skip);
        let reader = Stoppable { inner: &open.file, signal: self.signal, read: 0 };
        match self.stream.search_reader(&self.matcher, reader, &mut collect) {
            Ok(()) if collect.binary => FileResult::Binary,
            Ok(()) => result_of(collect.hits),
            Err(error) if is_too_long(&error) => match self.stream.multi_line_with_matcher(&self.matcher) {
                true => FileResult::TooLarge,
                false => self.search_windows(open),
            },
            Err(_) if self.signal.is_stopped() => FileResult::Interrupted,
            Err(_) => FileResult::Unreadable,
        }
    }

    /// Searches a file with lines that are too long to be held, in overlapping windows.
    fn search_windows(&mut self, open: OpenFile) -> FileResult {
        use std::os::unix::fs::FileExt as _;
        let mut window = vec![0; WINDOW + OVERLAP];
        let (mut base, mut lines_before, mut last) = (0_u64, 0_u64, 0_u64);
        let mut hits = FileMatches::default();
        while !self.signal.stops_after(base) {
            let mut length = 0;
            while length < window.len() {
                match open.file.read_at(&mut window[length..], base + length as u64) {
                    Ok(0) => break,
                    Ok(read) => length += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return FileResult::Unreadable,
                }
            }
            let part = &window[..length];
            if memchr::memchr(0, part).is_some() {
                return FileResult::Binary;
            }
            // Matches that begin in the overlap belong to the next window.
            let owned = if length == window.len() { WINDOW } else { length };
            // Each window but the first begins with the last byte of the one before: the matcher needs it to tell that
            // no line or word begins here.
            let lead = usize::from(base > 0);
            let mut at = lead;
            // Number of lines that end before `counted`. Incremental, so that line ends are counted once, however many
            // matches there are.
            let (mut ended, mut counted) = (lines_before, lead);
            while let Ok(Some(found)) = self.matcher.find_at(part, at)
                && found.start() < owned
            {
                if self.signal.stops_after(base) {
                    return FileResult::Interrupted;
                }
                ended += memchr::memchr_iter(b'\n', &part[counted..found.start()]).count() as u64;
                counted = found.start();
                let number = ended + 1;
                at = memchr::memchr(b'\n', &part[found.end()..]).map_or(length, |end| found.end() + end + 1);
                if number == last {
                    continue;
                }
                last = number;
                hits.count += 1;
                let start = memchr::memrchr(b'\n', &part[..found.start()]).map_or(0, |end| end + 1);
                let more = match self.options.mode {
                    LineMode::Any => false,
                    LineMode::Count => true,
                    LineMode::Lines { .. } => {
                        let gap = hits.lines.last().is_some_and(|before| before.number + 1 < number);
                        hits.push(self.skip, self.options, || {
                            let place = found.start() - start..found.end() - start;
                            let (text, column) =
                                truncated(&part[start..at], Some(place), self.options.line_chars);
                            Line { number, column, text, gap }
                        })
                    }
                };
                if !more {
                    return result_of(hits);
                }
            }
            if owned == length {
                return result_of(hits);
            }
            lines_before += memchr::memchr_iter(b'\n', &part[lead..owned]).count() as u64;
            base += owned as u64 - 1;
        }
        FileResult::Interrupted
    }
}

/// Whether the searcher failed because a line exceeds its heap limit. It has no error type of its own for this.
fn is_too_long(error: &io::Error) -> bool {
    error.to_string().contains("allocation limit")
}

fn result_of(hits: FileMatches) -> FileResult {
    if hits.count == 0 { FileResult::NoMatch } else { FileResult::Matches(hits) }
}

/// A [`Sink`] that collects matches and context lines.
struct Collect<'a, M> {
    matcher: &'a M,
    options: CollectOptions,
    skip: u64,
    hits: FileMatches,
    /// Whether lines are missing before the next one.
    gap: bool,
    /// Whether a NUL was found.
    binary: bool,
    /// Whether a collected line is not UTF-8.
    undecodable: bool,
}

impl<'a, M: Matcher> Collect<'a, M> {
    fn new(matcher: &'a M, options: CollectOptions, skip: u64) -> Self {
        Self {
            matcher,
            options,
            skip,
            hits: FileMatches::default(),
            gap: false,
            binary: false,
            undecodable: false,
        }
    }

    fn push(&mut self, number: u64, line: &[u8], place: Option<Range<usize>>) -> bool {
        let gap = std::mem::take(&mut self.gap);
        let Self { hits, options, skip, undecodable, .. } = self;
        hits.push(*skip, *options, || {
            *undecodable |= std::str::from_utf8(line).is_err();
            let (text, column) = truncated(line, place, options.line_chars);
            Line { number, column, text, gap }
        })
    }
}

impl<M: Matcher> Sink for Collect<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.options.mode {
            LineMode::Any => {
                self.hits.count = 1;
                return Ok(false);
            }
            LineMode::Count if searcher.multi_line_with_matcher(self.matcher) => {
                let count = &mut self.hits.count;
                let counted = self.matcher.find_iter(found.bytes(), |_| {
                    *count += 1;
                    true
                });
                return counted.map(|()| true).map_err(|error| io::Error::other(error.to_string()));
            }
            LineMode::Count => {
                self.hits.count += 1;
                return Ok(true);
            }
            LineMode::Lines { .. } => {}
        }
        // A match over several lines has a column in its first line only.
        let mut start =
            self.matcher.find(found.bytes()).ok().flatten().map(|found| found.start()..found.end());
        for (number, line) in (found.line_number().unwrap_or(1)..).zip(found.lines()) {
            let place = match start.take() {
                Some(place) if place.start < line.len() => Some(place.start..place.end.min(line.len())),
                Some(place) => {
                    start = Some(place.start - line.len()..place.end - line.len());
                    None
                }
                None => None,
            };
            self.hits.count += 1;
            if !self.push(number, line, Some(place.unwrap_or(0..0))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(around.line_number().unwrap_or(1), around.bytes(), None))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// The text of a line, truncated around the match if it is long, and the column of the match in the whole line.
fn truncated(line: &[u8], place: Option<Range<usize>>, chars: usize) -> (String, Option<usize>) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = place.as_ref().map(|place| place.start.min(line.len()));
    let column = start.map(|start| String::from_utf8_lossy(&line[..start]).chars().count() + 1);
    if line.len() <= chars {
        return (String::from_utf8_lossy(line).into_owned(), column);
    }
    // A character has at most four bytes, so a window of this many bytes holds enough characters. Its ends move to the
    // next character boundary.
    let around = start.unwrap_or(0);
    let inside = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let from = around.saturating_sub(4 * chars);
    let from = (from..from + 3).find(|at| !inside(at)).unwrap_or(from).min(around);
    let to = line.len().min(around + 4 * chars);
    let to = (to..to + 3).find(|at| !inside(at)).unwrap_or(to);
    let text = String::from_utf8_lossy(&line[from..to]);
    let before = String::from_utf8_lossy(&line[from..around]).chars().count();
    let all: Vec<char> = text.chars().collect();
    if from == 0 && to == line.len() && all.len() <= chars {
        return (text.into_owned(), column);
    }
    // A third of the shown characters comes before the match, or more if the line ends early.
    let first = before.saturating_sub(chars / 3).min(all.len().saturating_sub(chars));
    let last = (first + chars).min(all.len());
    let mut cut = String::new();
    if first > 0 || from > 0 {
        cut.push('…');
    }
    cut.extend(&all[first..last]);
    if last < all.len() || to < line.len() {
        cut.push('…');
    }
    (cut, column)
}
