//! Searching one file. Small files are read whole in one call, larger ones as a stream of bounded memory.
//! Text in other encodings is searched as the text it is.

use std::io::{self, Read as _, Seek as _};
use std::ops::Range;

use grep_matcher::Matcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use haft_sandbox::OpenFile;

use super::signal::{Signal, Stoppable};
use haft_text::Source;

/// Larger files are read as a stream.
const WHOLE: u64 = 1 << 20;
/// The longest line, and the longest file that is searched over several lines.
const MAX_HELD: usize = 8 << 20;
/// A file with a NUL this far in is no text.
const SNIFFED: usize = 1024;
/// How much of a line that is too long is searched at a time, and how long a match in it may be.
const WINDOW: usize = 4 << 20;
const OVERLAP: usize = 64 << 10;

/// What is wanted of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) what: LineMode,
    /// So many lines at the most, and one that goes beyond so many bytes.
    pub(super) lines: usize,
    pub(super) bytes: usize,
    /// Longer lines are cut around what matches.
    pub(super) chars: usize,
}

/// What is to be found out about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineMode {
    /// Whether anything matches.
    Any,
    /// How many lines match; where matches go over lines, how many matches there are.
    Count,
    /// The lines that match, with so many before and after.
    Lines {
        /// How many lines before.
        before: usize,
        /// How many lines after.
        after: usize,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// The character at which the match begins, from 1; none in a line around.
    pub column: Option<usize>,
    /// What it says, without its end.
    pub text: String,
    /// Whether lines are left out between it and the one before.
    pub gap: bool,
}

/// What came of searching a file.
#[derive(Debug, PartialEq)]
pub(super) enum Looked {
    Nothing,
    Binary,
    Unreadable,
    /// It cannot be held to be searched over several lines.
    TooLarge,
    /// The search was stopped in the middle.
    GivenUp,
    Hits(Hits),
}

/// What was found in a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Hits {
    /// How many lines match, as far as it was searched.
    pub(super) count: u64,
    /// How many lines come before those that are kept.
    pub(super) skipped: u64,
    pub(super) lines: Vec<Line>,
    bytes: usize,
}

impl Hits {
    /// Takes a line, if those that are to be left out are; whether more are wanted.
    fn push(&mut self, skip: u64, wants: Wants, line: impl FnOnce() -> Line) -> bool {
        if self.skipped < skip {
            self.skipped += 1;
            return true;
        }
        let line = line();
        self.bytes += line.text.len() + 1;
        self.lines.push(line);
        self.lines.len() < wants.lines && self.bytes <= wants.bytes
    }
}

/// What one thread searches with.
pub(super) struct Finder<'a, M> {
    matcher: M,
    /// Whether the pattern can match characters that are written differently in different encodings.
    foreign: bool,
    wants: Wants,
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
    pub(super) fn new(matcher: M, pattern: &super::Pattern, wants: Wants, signal: &'a Signal) -> Self {
        let mut builder = SearcherBuilder::new();
        let (before, after) = match wants.what {
            LineMode::Lines { before, after } => (before, after),
            _ => (0, 0),
        };
        builder
            .multi_line(pattern.span == super::Span::Lines)
            .line_terminator(matcher.line_terminator().unwrap_or_default())
            .line_number(wants.what.is_lines())
            .before_context(before)
            .after_context(after);
        let whole = builder.build();
        let stream = builder.heap_limit(Some(MAX_HELD)).binary_detection(BinaryDetection::quit(0)).build();
        let is_class = pattern.syntax == super::Syntax::Regex && pattern.text.contains(['.', '\\', '[']);
        let foreign = is_class || !pattern.text.is_ascii();
        Self { matcher, foreign, wants, signal, whole, stream, buffer: Vec::new(), skip: 0 }
    }

    /// Searches a file, of which so many lines are left out at the beginning.
    pub(super) fn search(&mut self, open: OpenFile, skip: u64) -> Looked {
        self.skip = skip;
        let length = match open.stat.size {
            WHOLE.. => None,
            _ => match self.read(&open) {
                Ok(length) => length,
                Err(_) => return Looked::Unreadable,
            },
        };
        let Some(length) = length else { return self.search_stream(open) };
        self.signal.count(1, length as u64);
        let bytes = &self.buffer[..length];
        let marked = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        if !marked && memchr::memchr(0, &bytes[..length.min(SNIFFED)]).is_some() {
            // Nearly always a binary file, but UTF-16 without a mark looks like this, too.
            return match Source::new(bytes.to_vec()) {
                Ok(source) => self.search_text(source.text().as_bytes()),
                Err(_) => Looked::Binary,
            };
        }
        let mut collect = Collect::new(&self.matcher, self.wants, self.skip);
        if self.whole.search_slice(&self.matcher, bytes, &mut collect).is_err() {
            return Looked::Unreadable;
        }
        let Collect { hits, undecodable, .. } = collect;
        if hits.count > 0 && !marked && memchr::memchr(0, bytes).is_some() {
            return Looked::Binary;
        }
        let other_encoding = undecodable || (self.foreign && std::str::from_utf8(bytes).is_err());
        if other_encoding && let Ok(source) = Source::new(bytes.to_vec()) {
            return self.search_text(source.text().as_bytes());
        }
        looked(hits)
    }

    fn search_text(&mut self, text: &[u8]) -> Looked {
        let mut collect = Collect::new(&self.matcher, self.wants, self.skip);
        match self.whole.search_slice(&self.matcher, text, &mut collect) {
            Ok(()) => looked(collect.hits),
            Err(_) => Looked::Unreadable,
        }
    }

    /// Reads a small file with one call, if it has not grown; nothing comes of one that has grown large.
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

    fn search_stream(&mut self, open: OpenFile) -> Looked {
        self.signal.count(1, open.stat.size);
        if (&open.file).rewind().is_err() {
            return Looked::Unreadable;
        }
        let mut collect = Collect::new(&self.matcher, self.wants, self.skip);
        let reader = Stoppable { inner: &open.file, signal: self.signal, read: 0 };
        match self.stream.search_reader(&self.matcher, reader, &mut collect) {
            Ok(()) if collect.binary => Looked::Binary,
            Ok(()) => looked(collect.hits),
            Err(error) if is_too_long(&error) => match self.stream.multi_line_with_matcher(&self.matcher) {
                true => Looked::TooLarge,
                false => self.search_windows(open),
            },
            Err(_) if self.signal.is_stopped() => Looked::GivenUp,
            Err(_) => Looked::Unreadable,
        }
    }

    /// Searches a file that has lines too long to be held.
    fn search_windows(&mut self, open: OpenFile) -> Looked {
        use std::os::unix::fs::FileExt as _;
        let mut window = vec![0; WINDOW + OVERLAP];
        let (mut base, mut lines_before, mut last) = (0_u64, 0_u64, 0_u64);
        let mut hits = Hits::default();
        while !self.signal.stops_after(base) {
            let mut length = 0;
            while length < window.len() {
                match open.file.read_at(&mut window[length..], base + length as u64) {
                    Ok(0) => break,
                    Ok(read) => length += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Looked::Unreadable,
                }
            }
            let part = &window[..length];
            if memchr::memchr(0, part).is_some() {
                return Looked::Binary;
            }
            let owned = if length == window.len() { WINDOW } else { length };
            // The last byte before comes along: what follows it is not the beginning of a line or a word.
            let lead = usize::from(base > 0);
            let mut at = lead;
            // How many lines end before `counted`: each part is looked at once, however much matches.
            let (mut ended, mut counted) = (lines_before, lead);
            while let Ok(Some(found)) = self.matcher.find_at(part, at)
                && found.start() < owned
            {
                if self.signal.stops_after(base) {
                    return Looked::GivenUp;
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
                let more = match self.wants.what {
                    LineMode::Any => false,
                    LineMode::Count => true,
                    LineMode::Lines { .. } => {
                        let gap = hits.lines.last().is_some_and(|before| before.number + 1 < number);
                        hits.push(self.skip, self.wants, || {
                            let place = found.start() - start..found.end() - start;
                            let (text, column) = shown(&part[start..at], Some(place), self.wants.chars);
                            Line { number, column, text, gap }
                        })
                    }
                };
                if !more {
                    return looked(hits);
                }
            }
            if owned == length {
                return looked(hits);
            }
            lines_before += memchr::memchr_iter(b'\n', &part[lead..owned]).count() as u64;
            base += owned as u64 - 1;
        }
        Looked::GivenUp
    }
}

fn is_too_long(error: &io::Error) -> bool {
    error.to_string().contains("allocation limit")
}

fn looked(hits: Hits) -> Looked {
    if hits.count == 0 { Looked::Nothing } else { Looked::Hits(hits) }
}

/// Takes what a search finds.
struct Collect<'a, M> {
    matcher: &'a M,
    wants: Wants,
    skip: u64,
    hits: Hits,
    gap: bool,
    binary: bool,
    undecodable: bool,
}

impl<'a, M: Matcher> Collect<'a, M> {
    fn new(matcher: &'a M, wants: Wants, skip: u64) -> Self {
        Self { matcher, wants, skip, hits: Hits::default(), gap: false, binary: false, undecodable: false }
    }

    fn push(&mut self, number: u64, line: &[u8], place: Option<Range<usize>>) -> bool {
        let gap = std::mem::take(&mut self.gap);
        let Self { hits, wants, skip, undecodable, .. } = self;
        hits.push(*skip, *wants, || {
            *undecodable |= std::str::from_utf8(line).is_err();
            let (text, column) = shown(line, place, wants.chars);
            Line { number, column, text, gap }
        })
    }
}

impl<M: Matcher> Sink for Collect<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.wants.what {
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
        // Where a match goes over several lines, only its beginning is in a line of its own.
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

/// A line as it is shown, cut around the match if it is long, and the character where the match begins.
fn shown(line: &[u8], place: Option<Range<usize>>, chars: usize) -> (String, Option<usize>) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = place.as_ref().map(|place| place.start.min(line.len()));
    let column = start.map(|start| String::from_utf8_lossy(&line[..start]).chars().count() + 1);
    if line.len() <= chars {
        return (String::from_utf8_lossy(line).into_owned(), column);
    }
    // A character has at most four bytes, so this much of the line is enough to show.
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
    // A third of what is shown comes before the match, unless the line ends before the rest is filled.
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
