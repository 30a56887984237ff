//! Output of a command: keeps the beginning and the end in memory and offloads the whole to a file once it exceeds both.
//! Knows nothing of processes.

use std::collections::VecDeque;
use std::path::Path;

use haft_core::limits::OffloadFile;

/// Bytes to keep of the beginning, and again of the end.
const HELD: usize = 2 << 20;
/// Bytes to keep of each end of a background command's output; less, because there may be many of them.
const HELD_IN_BACKGROUND: usize = 256 << 10;

/// Beginning and end of an output. If there is more in between, a file has the whole.
#[derive(Debug)]
pub struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    held: usize,
    whole: Option<OffloadFile>,
    /// Length of the whole output in bytes.
    pub total: u64,
}

impl Default for Printed {
    fn default() -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), held: HELD, whole: None, total: 0 }
    }
}

impl Printed {
    /// Output of a background command.
    pub(super) fn background() -> Self {
        Self { held: HELD_IN_BACKGROUND, ..Self::default() }
    }

    /// Appends bytes. Once the output exceeds what memory keeps, `keep` opens the file for the whole.
    pub(super) fn add(&mut self, bytes: &[u8], keep: impl FnOnce() -> Option<OffloadFile>) {
        let held = (self.head.len() + self.tail.len()) as u64;
        if self.whole.is_none() && held == self.total && held + bytes.len() as u64 > 2 * self.held as u64 {
            // From here on, memory drops bytes: this is the last moment at which the file can get all of them.
            self.whole = keep();
            if let Some(whole) = &mut self.whole {
                whole.add(&self.head);
                whole.add(self.tail.make_contiguous());
            }
        }
        if let Some(whole) = &mut self.whole {
            whole.add(bytes);
        }
        self.total += bytes.len() as u64;
        let room = self.held - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.held)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.held);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The file with the offloaded output, and its length in bytes, which is less than the total if its size limit ended it.
    pub fn whole(&self) -> Option<(&Path, u64)> {
        self.whole.as_ref().map(|whole| (whole.path(), whole.bytes()))
    }

    /// The kept end of the output.
    pub(super) fn end(&mut self) -> &[u8] {
        if self.tail.is_empty() { &self.head } else { self.tail.make_contiguous() }
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Bytes that memory did not keep.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The kept output as text without terminal control sequences. Of a line that the program has overwritten, as progress
    /// bars do, only the last version remains.
    pub fn text(&self) -> String {
        let mut bytes = self.head.clone();
        let dropped = self.dropped();
        if dropped > 0 {
            bytes.extend(format!("\n… {dropped} bytes left out …\n").into_bytes());
        }
        bytes.extend(&self.tail);
        without_controls(&String::from_utf8_lossy(&bytes))
    }

    /// The kept output as bytes.
    #[cfg(feature = "git")]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend(&self.tail);
        bytes
    }

    /// The kept output from byte `from` on, as text without terminal control sequences, and the position after it.
    pub(super) fn since(&self, from: u64) -> (String, u64) {
        let tail_begins = self.total - self.tail.len() as u64;
        let mut bytes: Vec<u8> = Vec::new();
        if let Ok(from) = usize::try_from(from)
            && from < self.head.len()
        {
            bytes.extend_from_slice(&self.head[from..]);
        }
        let skipped = usize::try_from(from.saturating_sub(tail_begins)).unwrap_or(usize::MAX);
        if tail_begins > from.max(self.head.len() as u64) {
            bytes.extend(
                format!("\n… {} bytes left out …\n", tail_begins - from.max(self.head.len() as u64))
                    .into_bytes(),
            );
        }
        bytes.extend(self.tail.iter().skip(skipped));
        (without_controls(&String::from_utf8_lossy(&bytes)), self.total)
    }
}

/// Removes terminal control sequences, and applies carriage returns and backspaces.
pub(super) fn without_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut line = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => {
                out.push('\n');
                line = out.len();
            }
            '\t' => out.push('\t'),
            // A carriage return starts the line anew, unless it is part of a line end.
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' if chars.peek().is_some() => out.truncate(line),
            '\r' => {}
            '\u{8}' => {
                if out.len() > line {
                    out.pop();
                }
            }
            '\u{1b}' => skip_escape(&mut chars),
            char if char.is_control() => {}
            char => out.push(char),
        }
    }
    out
}

/// Skips the rest of an escape sequence.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        // A control sequence (CSI) ends with a character of this range.
        Some('[') => {
            for char in chars.by_ref() {
                if ('@'..='~').contains(&char) {
                    break;
                }
            }
        }
        // A string for the terminal, such as a title (OSC), ends with a bell or an escape sequence.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(char) = chars.next() {
                match char {
                    '\u{7}' | '\u{9c}' => break,
                    '\u{1b}' => {
                        chars.next();
                        break;
                    }
                    _ => {}
                }
            }
        }
        Some(' '..='/') => {
            chars.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_and_the_end() {
        let mut printed = Printed::default();
        for round in 0..100_000 {
            printed
                .add(format!("line {round} of what is printed, and some more of it\n").as_bytes(), || None);
        }
        let text = printed.text();
        assert!(text.starts_with("line 0 ") && text.ends_with("some more of it\n"));
        assert!(text.contains("bytes left out") && text.len() <= 2 * HELD + 100);
        assert!(text.contains("line 99999 "));
        let (rest, end) = printed.since(printed.total - 10);
        assert_eq!((rest.as_str(), end), ("more of it\n"[1..].into(), printed.total));
    }

    #[test]
    fn removes_terminal_control_sequences() {
        assert_eq!(without_controls("\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}(B"), "red x");
        assert_eq!(without_controls("10%\r50%\rdone\r\nnext"), "done\nnext");
        assert_eq!(without_controls("ab\u{8}c\u{7}\u{0}\u{1b}"), "ac");
        assert_eq!(without_controls("\u{1b}]52;c;aGk=\u{1b}\\after"), "after");
    }
}
