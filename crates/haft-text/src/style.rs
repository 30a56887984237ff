//! Chooses the encoding and line ends of a new file: from `.editorconfig` first, then from most of its sibling files.

use super::charset::Charset;
use super::editorconfig::{ConfigFile, Indent, NewCharset, properties};
use super::encoding::{Ending, Endings, Source, Unwritable};
use super::mismatch::listed;
use super::reindent::indent_of;

/// The style of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStyle {
    /// The line end.
    pub ending: Ending,
    /// Whether `.editorconfig` sets the line end.
    pub ending_ruled: bool,
    /// Whether the file must end with a line end; `None` leaves the text as it is.
    pub final_newline: Option<bool>,
    /// The encoding.
    pub charset: NewCharset,
    /// Indentation, for hints only.
    pub indent: Option<Indent>,
    /// Whether `.editorconfig` asks to trim trailing white space; reported only.
    pub trims: Option<bool>,
}

/// The style of a new file, from `.editorconfig` files (nearest first) and from sibling files of the same kind, whole or
/// their beginnings.
pub fn style_for_new(configs: &[ConfigFile<'_>], siblings: &[Source]) -> NewStyle {
    let configured = properties(configs);
    let mut lines = Endings::default();
    for endings in siblings.iter().map(Source::endings) {
        // One vote per file, so that a long file does not outvote the others.
        match endings.majority() {
            _ if endings == Endings::default() => {}
            Ending::Lf => lines.lf += 1,
            Ending::CrLf => lines.crlf += 1,
            Ending::Cr => {}
        }
    }
    NewStyle {
        ending: configured.end_of_line.unwrap_or_else(|| lines.majority()),
        ending_ruled: configured.end_of_line.is_some(),
        final_newline: configured.insert_final_newline,
        charset: configured.charset.unwrap_or_else(|| charset_of(siblings)),
        indent: configured.indent.or_else(|| indent_in(siblings)),
        trims: configured.trim_trailing_whitespace,
    }
}

impl NewStyle {
    /// The bytes of a new file, and a note on what was added to the text. A text whose lines all end in `\r\n` keeps these
    /// line ends.
    pub fn bytes(self, requested: &str) -> Result<(Vec<u8>, Option<String>), Unwritable> {
        if requested.contains('\0') {
            return Err(Unwritable::Nul);
        }
        let text = requested.strip_prefix('\u{feff}').unwrap_or(requested);
        if text.is_empty() {
            return Ok((Vec::new(), None));
        }
        let ending = match Endings::of(text) {
            endings if endings.crlf == 0 => Some(self.ending),
            endings if endings.mixed() && self.ending_ruled => Some(self.ending),
            _ => None,
        };
        let written = ending.map_or_else(|| text.to_owned(), |ending| ending.only(text));
        let mut added = Vec::new();
        if written != text {
            added.push(format!("{} line ends", self.ending));
        }
        let mut text = written;
        let end = ending.unwrap_or(Ending::CrLf).as_str();
        match self.final_newline {
            Some(true) if !text.ends_with(end) => {
                text.push_str(end);
                added.push("a final newline".to_owned());
            }
            Some(false) if text.ends_with(end) => {
                text.truncate(text.trim_end_matches(end).len());
                added.push("no final newline".to_owned());
            }
            _ => {}
        }
        let (charset, marked) = match self.charset {
            NewCharset::Utf8 => (Charset::Utf8, false),
            NewCharset::Utf8Marked => (Charset::Utf8, true),
            NewCharset::Utf16Le => (Charset::Utf16Le, true),
            NewCharset::Utf16Be => (Charset::Utf16Be, true),
            NewCharset::Latin1 => (Charset::Legacy(encoding_rs::WINDOWS_1252), false),
        };
        if charset != Charset::Utf8 {
            added.push(format!("the encoding {charset}"));
        } else if marked && !requested.starts_with('\u{feff}') {
            added.push("a byte order mark".to_owned());
        }
        let body = charset
            .encode(&text)
            .map_err(|char| Unwritable::Character { char, charset: charset.to_string() })?;
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        let note =
            format!("written with {}, as `.editorconfig` or the files beside it have it", listed(&added));
        let bytes = if marked { [charset.mark(), &body].concat() } else { body };
        Ok((bytes, (!added.is_empty()).then_some(note)))
    }
}

/// The encoding that all siblings share; UTF-8 if they differ.
fn charset_of(siblings: &[Source]) -> NewCharset {
    let one = |source: &Source| match (source.charset(), source.marked()) {
        (Charset::Utf8, true) => NewCharset::Utf8Marked,
        (Charset::Utf16Le, _) => NewCharset::Utf16Le,
        (Charset::Utf16Be, _) => NewCharset::Utf16Be,
        _ => NewCharset::Utf8,
    };
    let mut all = siblings.iter().map(one);
    match all.next() {
        Some(first) if all.all(|other| other == first) => first,
        _ => NewCharset::Utf8,
    }
}

/// The indentation of most indented lines of the siblings, with the most frequent step of spaces.
fn indent_in(siblings: &[Source]) -> Option<Indent> {
    let (mut tabs, mut spaces) = (0, 0);
    let mut steps = [0_usize; 9];
    for source in siblings {
        let mut before = 0;
        for line in source.text().lines().take(500).filter(|line| !line.trim().is_empty()) {
            let indent = indent_of(line);
            match indent.as_bytes().first() {
                Some(b'\t') => tabs += 1,
                Some(_) => spaces += 1,
                None => {}
            }
            if let Some(step) = indent.len().checked_sub(before)
                && let Some(count) = steps.get_mut(step).filter(|_| step > 1)
            {
                *count += 1;
            }
            before = indent.len();
        }
    }
    if tabs + spaces == 0 {
        return None;
    }
    let step = (2..9).max_by_key(|step| (steps[*step], 9 - step)).filter(|step| steps[*step] > 0);
    Some(if tabs > spaces { Indent::Tabs } else { Indent::Spaces(step) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: &[u8]) -> Source {
        Source::new(bytes.to_vec()).unwrap()
    }

    #[test]
    fn siblings_decide_what_editorconfig_does_not_set() {
        let siblings =
            [source(b"\xEF\xBB\xBFif:\r\n  x\r\n"), source(b"\xEF\xBB\xBFa\r\n"), source(b"\xEF\xBB\xBFb\n")];
        let style = style_for_new(&[], &siblings);
        assert_eq!((style.ending, style.charset), (Ending::CrLf, NewCharset::Utf8Marked));
        assert_eq!(style.indent, Some(Indent::Spaces(Some(2))));
        assert_eq!(style.bytes("a\nb").unwrap().0, b"\xEF\xBB\xBFa\r\nb");
        let config =
            ConfigFile { text: "[*]\nend_of_line=lf\ncharset=utf-8\ninsert_final_newline=true", path: "x" };
        let style = style_for_new(&[config], &siblings);
        assert_eq!(style.bytes("a\nb").unwrap().0, b"a\nb\n");
        assert_eq!(style_for_new(&[], &[]).bytes("a\nb").unwrap().0, b"a\nb");
    }

    #[test]
    fn editorconfig_applies_to_mixed_line_ends_and_empty_files_stay_empty() {
        let text = "[*]\nend_of_line=crlf\ncharset=utf-8-bom\n";
        let style = style_for_new(&[ConfigFile { text, path: "x" }], &[]);
        let (bytes, note) = style.bytes("a\r\nb\n").unwrap();
        assert_eq!(bytes, b"\xEF\xBB\xBFa\r\nb\r\n");
        assert!(note.unwrap().contains("with CRLF line ends and a byte order mark"));
        assert_eq!(style.bytes("").unwrap(), (Vec::new(), None));
        assert_eq!(style_for_new(&[], &[]).bytes("a\r\nb\n").unwrap().0, b"a\r\nb\n");
    }

    #[test]
    fn charsets_are_written_and_missing_characters_refused() {
        let config = |text: &'static str| style_for_new(&[ConfigFile { text, path: "x" }], &[]);
        assert_eq!(config("[*]\ncharset=utf-16le").bytes("a").unwrap().0, b"\xFF\xFEa\0");
        let latin = config("[*]\ncharset=latin1");
        assert_eq!(latin.bytes("é").unwrap().0, b"\xE9");
        assert!(matches!(latin.bytes("日"), Err(Unwritable::Character { char: '日', .. })));
    }
}
