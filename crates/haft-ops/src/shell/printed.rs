//! What a command prints: its beginning and its end, however much there is in between.

use std::collections::VecDeque;
use std::path::Path;

use haft_core::limits::OffloadFile;

/// As much is held of the beginning, and as much of the end.
const HELD: usize = 2 << 20;
/// The same for a command in the background, of which there may be many.
const HELD_BEHIND: usize = 256 << 10;

/// The beginning and the end of what was printed. All of it is in a file, if it was more than that.
#[derive(Debug)]
pub struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    held: usize,
    whole: Option<OffloadFile>,
    /// How many bytes in all.
    pub total: u64,
}

impl Default for Printed {
    fn default() -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), held: HELD, whole: None, total: 0 }
    }
}

impl Printed {
    pub(super) fn behind() -> Self {
        Self { held: HELD_BEHIND, ..Self::default() }
    }

    /// Adds to it. `keep` begins a file for all of it, when it becomes too much to be held.
    pub(super) fn add(&mut self, bytes: &[u8], keep: impl FnOnce() -> Option<OffloadFile>) {
        let held = (self.head.len() + self.tail.len()) as u64;
        if self.whole.is_none() && held == self.total && held + bytes.len() as u64 > 2 * self.held as u64 {
            // From here on something is lost that is not kept elsewhere.
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

    /// The file in which all of it is, or as many bytes from its beginning, if it was too much to be held.
    pub fn whole(&self) -> Option<(&Path, u64)> {
        self.whole.as_ref().map(|whole| (whole.path(), whole.bytes()))
    }

    /// The end of it.
    pub(super) fn end(&mut self) -> &[u8] {
        if self.tail.is_empty() { &self.head } else { self.tail.make_contiguous() }
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many bytes were not kept.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// What was printed as text that does nothing to a terminal: without escapes, and of a line that was written
    /// over only what was last there.
    pub fn text(&self) -> String {
        let mut bytes = self.head.clone();
        let dropped = self.dropped();
        if dropped > 0 {
            bytes.extend(format!("\n… {dropped} bytes left out …\n").into_bytes());
        }
        bytes.extend(&self.tail);
        harmless(&String::from_utf8_lossy(&bytes))
    }

    /// What was printed to the byte, as far as it is kept.
    #[cfg(feature = "git")]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend(&self.tail);
        bytes
    }

    /// The same from a byte on, as far as it is kept, and where that ends.
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
        (harmless(&String::from_utf8_lossy(&bytes)), self.total)
    }
}

/// Text without what would move a cursor, change colours or ring.
pub(super) fn harmless(text: &str) -> String {
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
            // What follows is written over what is there, unless the line ends here.
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

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        // A sequence that ends with a letter or its like.
        Some('[') => {
            for char in chars.by_ref() {
                if ('@'..='~').contains(&char) {
                    break;
                }
            }
        }
        // A text for the terminal, which ends with a bell or another escape.
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
    fn beginning_and_end_are_kept() {
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
    fn terminals_are_left_in_peace() {
        assert_eq!(harmless("\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}(B"), "red x");
        assert_eq!(harmless("10%\r50%\rdone\r\nnext"), "done\nnext");
        assert_eq!(harmless("ab\u{8}c\u{7}\u{0}\u{1b}"), "ac");
        assert_eq!(harmless("\u{1b}]52;c;aGk=\u{1b}\\after"), "after");
    }
}
