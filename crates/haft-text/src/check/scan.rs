//! The delimiters of a text, read without a grammar: strings, characters and comments are skipped, and that
//! is all it knows of Rust, JavaScript, Python, JSON and TOML. Good enough to blame a bracket, not to judge a text.

use super::balance::{Delimiter, Role, bracket};

/// How strings and comments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lexis {
    /// Lifetimes, raw strings, comments in comments.
    Rust,
    /// Templates and regular expressions.
    Script,
    /// `#` and triple quotes.
    Python,
    /// Double quotes, no comments.
    Json,
    /// As in Python, but nothing is escaped in single quotes.
    Toml,
}

/// All brackets that are code.
pub(super) fn delimiters(text: &str, lexis: Lexis) -> Vec<Delimiter<'_>> {
    let mut scan = Scan { text, at: 0, lexis, last: b'(', open: 0, templates: Vec::new(), found: Vec::new() };
    while scan.at < text.len() {
        scan.step();
    }
    scan.found
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    lexis: Lexis,
    /// The last byte that was neither blank nor comment.
    last: u8,
    /// How many brackets are open.
    open: usize,
    /// How many were open when each `${` opened.
    templates: Vec<usize>,
    found: Vec<Delimiter<'a>>,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn step(&mut self) {
        let rest = self.rest();
        let byte = rest[0];
        match (self.lexis, byte) {
            (Lexis::Rust | Lexis::Script, b'/') if rest.starts_with(b"//") => self.to(b"\n"),
            (Lexis::Rust, b'/') if rest.starts_with(b"/*") => self.nested_comment(),
            (Lexis::Script, b'/') if rest.starts_with(b"/*") => self.past(2, b"*/"),
            (Lexis::Script, b'/') if self.expects_value() => self.regex(),
            (Lexis::Python | Lexis::Toml, b'#') => self.to(b"\n"),
            (Lexis::Toml, b'\'') if rest.starts_with(b"'''") => self.past(3, b"'''"),
            (Lexis::Toml, b'\'') => self.literal(),
            (Lexis::Python | Lexis::Toml, b'"' | b'\'')
                if rest.len() > 2 && rest[1] == byte && rest[2] == byte =>
            {
                self.quoted(&[byte; 3], Lines::Many);
            }
            (Lexis::Python | Lexis::Script, b'"' | b'\'') => self.quoted(&[byte], Lines::One),
            (Lexis::Json | Lexis::Toml, b'"') => self.quoted(b"\"", Lines::One),
            (Lexis::Script, b'`') => self.template(1),
            (Lexis::Script, b'}') if self.templates.last() == Some(&self.open) => {
                self.templates.pop();
                self.template(1);
            }
            (Lexis::Rust, b'"') => self.quoted(b"\"", Lines::Many),
            (Lexis::Rust, b'r') if self.raw_string() => {}
            (Lexis::Rust, b'\'') => self.character(),
            _ => self.plain(byte),
        }
    }

    fn plain(&mut self, byte: u8) {
        let length =
            if byte.is_ascii() { 1 } else { self.text[self.at..].chars().next().map_or(1, char::len_utf8) };
        let word = &self.text[self.at..self.at + length];
        if let Some(role) = bracket(word) {
            self.open = if role == Role::Closes { self.open.saturating_sub(1) } else { self.open + 1 };
            self.found.push(Delimiter { at: self.at, word, role });
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        self.at += length;
    }

    fn to(&mut self, end: &[u8]) {
        let found = memchr::memmem::find(self.rest(), end);
        self.at += found.unwrap_or(self.rest().len());
    }

    fn past(&mut self, skip: usize, end: &[u8]) {
        self.at += skip;
        self.to(end);
        self.at = self.text.len().min(self.at + end.len());
    }

    fn nested_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest().is_empty() {
            let rest = self.rest();
            if rest.starts_with(b"/*") {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return;
                }
            } else {
                self.at += 1;
            }
        }
    }

    fn quoted(&mut self, quote: &[u8], lines: Lines) {
        self.last = b'"';
        self.at += quote.len();
        while let Some(&byte) = self.rest().first() {
            match byte {
                b'\\' => self.at += 2,
                b'\n' if lines == Lines::One => return,
                _ if self.rest().starts_with(quote) => {
                    self.at += quote.len();
                    return;
                }
                _ => self.at += 1,
            }
            self.settle();
        }
    }

    /// To the end of a quote in which nothing is escaped, or of the line.
    fn literal(&mut self) {
        self.at += 1;
        let end = memchr::memchr2(b'\'', b'\n', self.rest());
        self.at += end.map_or(self.rest().len(), |end| end + 1);
    }

    fn template(&mut self, skip: usize) {
        self.last = b'"';
        self.at += skip;
        while let Some(&byte) = self.rest().first() {
            match byte {
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    return;
                }
                b'$' if self.rest().starts_with(b"${") => {
                    self.at += 2;
                    self.last = b'(';
                    self.templates.push(self.open);
                    return;
                }
                _ => self.at += 1,
            }
            self.settle();
        }
    }

    fn regex(&mut self) {
        self.last = b'"';
        self.at += 1;
        let mut class = false;
        while let Some(&byte) = self.rest().first() {
            match byte {
                b'\n' => return,
                b'\\' => self.at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
            self.settle();
        }
    }

    /// Whether a value may begin here, so that a slash begins a regular expression. `</a>` never does.
    fn expects_value(&self) -> bool {
        b"(,=:[!&|?{};+-*%~^".contains(&self.last)
            || ["return", "typeof", "case", "in", "of"]
                .iter()
                .any(|word| self.text.as_bytes()[..self.at].trim_ascii_end().ends_with(word.as_bytes()))
    }

    fn raw_string(&mut self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.text.as_bytes()[at]);
        let inside_word =
            before.is_some_and(|byte| byte.is_ascii_alphanumeric() && byte != b'b' && byte != b'c');
        let hashes = self.rest()[1..].iter().take_while(|&&byte| byte == b'#').count();
        if inside_word || self.rest().get(1 + hashes) != Some(&b'"') {
            return false;
        }
        let end = [b"\"".as_slice(), "#".repeat(hashes).as_bytes()].concat();
        self.past(2 + hashes, &end);
        true
    }

    /// A character, or the quote of a lifetime.
    fn character(&mut self) {
        let mut chars = self.text[self.at + 1..].chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), _) => self.quoted(b"'", Lines::One),
            (Some(one), Some('\'')) => self.at += 2 + one.len_utf8(),
            _ => self.at += 1,
        }
    }

    /// After a jump over an escape, back to where a character begins.
    fn settle(&mut self) {
        self.at = self.at.min(self.text.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    One,
    Many,
}
