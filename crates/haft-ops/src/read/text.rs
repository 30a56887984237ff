//! Lines of a file in any encoding, from chunks as they come: however large the file is, one chunk and the
//! window are held. UTF-8 goes through untouched; UTF-16 is rewritten chunk by chunk, because its line ends
//! are not bytes; of anything else only the window is decoded.

use std::io::{self, Read};

use encoding_rs::Decoder;
use haft_core::Context;

use super::window::{Breaks, Flow, Taken, Window};
use super::{Body, CHUNK, Caps, Encoding, Lines, Reading};
use haft_text::{Charset, Guess, Source, guess};

/// A text is taken for binary data if more than one of so many characters could not be decoded.
const MOST_BAD: usize = 10;

/// Which lines are wanted, and how they are understood.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) start: u64,
    pub(super) count: Option<u64>,
    pub(super) caps: Caps,
    pub(super) reading: Reading,
}

/// The lines of a file whose beginning is `head`; nothing of `rest` is read once the window is full.
pub(super) fn lines(head: &[u8], rest: impl Read, wanted: &Wanted, cx: &Context) -> io::Result<Body> {
    if wanted.reading == Reading::Utf8 {
        let taken = take_raw(head, rest, wanted, cx)?;
        return Ok(match String::from_utf8(taken.text) {
            Ok(text) => {
                Body::Lines(Lines { text, ..Lines::of(taken.count, taken.cut, taken.more, taken.total) })
            }
            Err(_) => Body::NotUtf8,
        });
    }
    let sniffed = &head[..head.len().min(wanted.caps.sniff_bytes)];
    if let Some((charset, mark)) = utf16(head, sniffed) {
        return take_utf16(&head[mark..], rest, charset, wanted, cx);
    }
    if memchr::memchr(0, sniffed).is_some() {
        return Ok(Body::Binary);
    }
    let Taken { text, count, cut, more, total } = take_raw(head, rest, wanted, cx)?;
    let lines = Lines::of(count, cut, more, total);
    Ok(match String::from_utf8(text) {
        Ok(text) => Body::Lines(Lines { text, ..lines }),
        Err(error) => decoded(error.into_bytes(), head, lines),
    })
}

/// Which UTF-16 it is and how long its mark, if it is.
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

/// A window that is not UTF-8, in the encoding that the file seems to have.
fn decoded(text: Vec<u8>, head: &[u8], lines: Lines) -> Body {
    // A chunk may end in a character, so only whole lines are judged.
    let judged = &head[..memchr::memrchr(b'\n', head).map_or(head.len(), |end| end + 1)];
    let judged = if judged.is_ascii() { &text } else { judged };
    let charset = match guess(judged) {
        Guess::Text(charset, _) => charset,
        Guess::Binary => Charset::Utf8,
    };
    match Source::in_charset(text, charset, 0) {
        Ok(source) if source.undecodable() * MOST_BAD <= source.text().chars().count() => {
            let encoding = Encoding { charset: charset.name(), undecodable: source.undecodable() };
            Body::Lines(Lines { text: source.text().to_owned(), encoding, ..lines })
        }
        _ => Body::Binary,
    }
}

fn take_raw(head: &[u8], rest: impl Read, wanted: &Wanted, cx: &Context) -> io::Result<Taken> {
    let mut window = Window::new(wanted.start, wanted.count, wanted.caps, Breaks::of(head));
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
    wanted: &Wanted,
    cx: &Context,
) -> io::Result<Body> {
    let mut text = Utf16::new(charset);
    text.feed(head, Last::No);
    let sniffed = text.out.floor_char_boundary(wanted.caps.sniff_bytes);
    if memchr::memchr(0, &text.out.as_bytes()[..sniffed]).is_some() {
        return Ok(Body::Binary);
    }
    let breaks = Breaks::of(text.out.as_bytes());
    let mut window = Window::new(wanted.start, wanted.count, wanted.caps, breaks);
    let mut flow = window.take(text.out.as_bytes());
    if flow == Flow::More {
        flow = for_each_chunk(rest, head.len(), cx, |chunk| {
            text.feed(chunk, Last::No);
            window.take(text.out.as_bytes())
        })?;
    }
    if flow == Flow::More {
        // What is left of a character that the file ends in.
        text.feed(&[], Last::Yes);
        flow = window.take(text.out.as_bytes());
    }
    let Taken { text: window, count, cut, more, total } = match flow {
        Flow::Full => window.full(),
        Flow::More => window.end(),
    };
    let window = String::from_utf8(window)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let undecodable = if text.damaged { window.matches('\u{fffd}').count() } else { 0 };
    let encoding = Encoding { charset: charset.name(), undecodable };
    Ok(Body::Lines(Lines { text: window, encoding, ..Lines::of(count, cut, more, total) }))
}

/// Hands over chunks until no more are wanted or there are none.
fn for_each_chunk(
    mut rest: impl Read,
    at_first: usize,
    cx: &Context,
    mut take: impl FnMut(&[u8]) -> Flow,
) -> io::Result<Flow> {
    let mut buffer = Vec::new();
    loop {
        if cx.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if buffer.is_empty() {
            // A small file is most likely at its end already.
            buffer = vec![0; at_first.clamp(4096, CHUNK)];
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

/// UTF-16 rewritten as UTF-8. Characters that a chunk ends in wait for the next one.
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
