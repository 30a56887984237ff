//! Reads a window of lines in any encoding, chunk by chunk: memory holds one chunk and the window, however large the file
//! is. UTF-8 passes through unchanged; UTF-16 is converted chunk by chunk, because its line ends are not single bytes; in
//! any other encoding only the window is decoded. Knows nothing of paths or of documents.

use std::io::{self, Read};

use encoding_rs::Decoder;
use haft_core::Context;

use super::window::{Breaks, Flow, Window, WindowLines};
use super::{Body, CHUNK, Caps, Encoding, Lines, Reading};
use haft_text::{Charset, Guess, Source, guess};

/// Heuristic for binary data: more than one of this number of characters could not be decoded.
const CHARS_PER_ERROR: usize = 10;

/// Range of lines to read, and how to interpret them.
#[derive(Clone, Copy)]
pub(super) struct LineRequest {
    pub(super) start: u64,
    pub(super) count: Option<u64>,
    pub(super) caps: Caps,
    pub(super) reading: Reading,
}

/// Reads the lines of a file that starts with `head` and continues with `rest`. Stops reading once the window is full.
pub(super) fn lines(head: &[u8], rest: impl Read, request: &LineRequest, cx: &Context) -> io::Result<Body> {
    if request.reading == Reading::Utf8 {
        let taken = take_raw(head, rest, request, cx)?;
        return Ok(match String::from_utf8(taken.text) {
            Ok(text) => {
                Body::Lines(Lines { text, ..Lines::of(taken.count, taken.cut, taken.more, taken.total) })
            }
            Err(_) => Body::NotUtf8,
        });
    }
    let sniffed = &head[..head.len().min(request.caps.sniff_bytes)];
    if let Some((charset, mark)) = utf16(head, sniffed) {
        return take_utf16(&head[mark..], rest, charset, request, cx);
    }
    if memchr::memchr(0, sniffed).is_some() {
        return Ok(Body::Binary);
    }
    let WindowLines { text, count, cut, more, total } = take_raw(head, rest, request, cx)?;
    let lines = Lines::of(count, cut, more, total);
    Ok(match String::from_utf8(text) {
        Ok(text) => Body::Lines(Lines { text, ..lines }),
        Err(error) => decoded(error.into_bytes(), head, lines),
    })
}

/// Detects UTF-16. Returns its byte order and the length of its byte order mark.
fn utf16(head: &[u8], sniffed: &[u8]) -> Option<(Charset, usize)> {
    let marked = head.starts_with(Charset::Utf16Le.mark()) || head.starts_with(Charset::Utf16Be.mark());
    if !marked && memchr::memchr(0, sniffed).is_none() {
        return None;
    }
    match guess(head) {
        Guess::Text(charset @ (Charset::Utf16Le | Charset::Utf16Be), mark) => Some((charset, mark)),
        _ => None,
    }
}

/// Decodes a window that is not UTF-8, in the encoding that the file most likely has.
fn decoded(text: Vec<u8>, head: &[u8], lines: Lines) -> Body {
    // A chunk may end within a character, so the guess looks at whole lines only. If they are plain ASCII, they say
    // nothing, and the window itself is the sample.
    let sample = &head[..memchr::memrchr(b'\n', head).map_or(head.len(), |end| end + 1)];
    let sample = if sample.is_ascii() { &text } else { sample };
    let charset = match guess(sample) {
        Guess::Text(charset, _) => charset,
        Guess::Binary => Charset::Utf8,
    };
    match Source::in_charset(text, charset, 0) {
        Ok(source) if source.undecodable() * CHARS_PER_ERROR <= source.text().chars().count() => {
            let encoding = Encoding { charset: charset.name(), undecodable: source.undecodable() };
            Body::Lines(Lines { text: source.text().to_owned(), encoding, ..lines })
        }
        _ => Body::Binary,
    }
}

fn take_raw(head: &[u8], rest: impl Read, request: &LineRequest, cx: &Context) -> io::Result<WindowLines> {
    let mut window = Window::new(request.start, request.count, request.caps, Breaks::of(head));
    if window.take(head) == Flow::Full {
        return Ok(window.full());
    }
    for_each_chunk(rest, head.len(), cx, |chunk| window.take(chunk)).map(|flow| match flow {
        Flow::Full => window.full(),
        Flow::More => window.end(),
    })
}

fn take_utf16(
    head: &[u8],
    rest: impl Read,
    charset: Charset,
    request: &LineRequest,
    cx: &Context,
) -> io::Result<Body> {
    let mut text = Utf16::new(charset);
    text.feed(head, Last::No);
    let sniffed = text.out.floor_char_boundary(request.caps.sniff_bytes);
    if memchr::memchr(0, &text.out.as_bytes()[..sniffed]).is_some() {
        return Ok(Body::Binary);
    }
    let breaks = Breaks::of(text.out.as_bytes());
    let mut window = Window::new(request.start, request.count, request.caps, breaks);
    let mut flow = window.take(text.out.as_bytes());
    if flow == Flow::More {
        flow = for_each_chunk(rest, head.len(), cx, |chunk| {
            text.feed(chunk, Last::No);
            window.take(text.out.as_bytes())
        })?;
    }
    if flow == Flow::More {
        // Flushes an incomplete character at the end of the file.
        text.feed(&[], Last::Yes);
        flow = window.take(text.out.as_bytes());
    }
    let WindowLines { text: window, count, cut, more, total } = match flow {
        Flow::Full => window.full(),
        Flow::More => window.end(),
    };
    let window = String::from_utf8(window)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let undecodable = if text.damaged { window.matches('\u{fffd}').count() } else { 0 };
    let encoding = Encoding { charset: charset.name(), undecodable };
    Ok(Body::Lines(Lines { text: window, encoding, ..Lines::of(count, cut, more, total) }))
}

/// Passes chunks to `take` until it needs no more or the file ends.
fn for_each_chunk(
    mut rest: impl Read,
    head_len: usize,
    cx: &Context,
    mut take: impl FnMut(&[u8]) -> Flow,
) -> io::Result<Flow> {
    let mut buffer = Vec::new();
    loop {
        if cx.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if buffer.is_empty() {
            // A small file has most likely ended with its head: no need for a large buffer to see that.
            buffer = vec![0; head_len.clamp(4096, CHUNK)];
        }
        let read = rest.read(&mut buffer)?;
        if read == 0 {
            return Ok(Flow::More);
        }
        if take(&buffer[..read]) == Flow::Full {
            return Ok(Flow::Full);
        }
    }
}

/// Converter from UTF-16 to UTF-8. Keeps a character that a chunk cuts in two until the next chunk.
struct Utf16 {
    decoder: Decoder,
    out: String,
    damaged: bool,
}

#[derive(PartialEq)]
enum Last {
    No,
    Yes,
}

impl Utf16 {
    fn new(charset: Charset) -> Self {
        let encoding =
            if charset == Charset::Utf16Be { encoding_rs::UTF_16BE } else { encoding_rs::UTF_16LE };
        let decoder = encoding.new_decoder_without_bom_handling();
        Self { decoder, out: String::new(), damaged: false }
    }

    fn feed(&mut self, bytes: &[u8], last: Last) {
        self.out.clear();
        let room = self.decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len() * 3 + 16);
        self.out.reserve(room);
        let (_, _, damaged) = self.decoder.decode_to_string(bytes, &mut self.out, last == Last::Yes);
        self.damaged |= damaged;
    }
}
