//! Formats text with line numbers.

use super::clusters::clip;

/// Format of numbered lines.
pub struct Numbered<'a> {
    /// Text between the number and the line.
    pub separator: &'a str,
    /// The number of the first line.
    pub first: u64,
    /// Most characters of a line that are shown; a cut line ends with a mark.
    pub max_chars: usize,
}

/// Mark at the end of a cut line.
const CUT_MARK: &str = "… [line cut]";

/// Writes lines as `     1\tline`: the number six wide, then the separator. No line end after the last.
pub fn number(text: &str, numbered: &Numbered<'_>) -> String {
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    let mut out = String::with_capacity(text.len() + lines * (6 + numbered.separator.len()));
    let mut number = Number::new(numbered.first, numbered.separator);
    // A byte order mark is not part of the first line; elsewhere it is an ordinary character.
    let mut start =
        if numbered.first == 1 && text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut ends = memchr::memchr_iter(b'\n', text.as_bytes());
    while start < text.len() || (start > 0 && out.is_empty()) {
        let end = ends.next().unwrap_or(text.len());
        let line = &text[start..end];
        let has_more = end + 1 < text.len();
        out.push_str(number.next());
        if has_more && line.len() <= numbered.max_chars && !line.ends_with('\r') {
            out.push_str(&text[start..=end]);
        } else {
            push_line(&mut out, line.strip_suffix('\r').unwrap_or(line), numbered.max_chars);
            out.push_str(if has_more { "\n" } else { "" });
        }
        start = end + 1;
    }
    out
}

fn push_line(out: &mut String, line: &str, max_chars: usize) {
    if line.len() > max_chars
        && let Some(shown) = clip(line, max_chars)
    {
        out.push_str(shown);
        out.push_str(CUT_MARK);
    } else {
        out.push_str(line);
    }
}

/// A line number in decimal digits, right-aligned to six places, with the separator behind it. Increments the digits in
/// place instead of formatting every number anew.
struct Number {
    text: Vec<u8>,
    start: usize,
}

impl Number {
    const DIGITS: usize = 20;

    fn new(mut value: u64, separator: &str) -> Self {
        let mut text = vec![b' '; Self::DIGITS];
        text.extend_from_slice(separator.as_bytes());
        let mut start = Self::DIGITS;
        // One less, because `next` increments first.
        value = value.saturating_sub(1);
        while value > 0 {
            start -= 1;
            text[start] = b'0' + (value % 10) as u8;
            value /= 10;
        }
        Self { text, start }
    }

    fn next(&mut self) -> &str {
        let mut at = Self::DIGITS;
        loop {
            at -= 1;
            match self.text[at] {
                b'9' => self.text[at] = b'0',
                b' ' => {
                    self.text[at] = b'1';
                    break;
                }
                _ => {
                    self.text[at] += 1;
                    break;
                }
            }
        }
        self.start = self.start.min(at);
        let from = self.start.min(Self::DIGITS - 6);
        std::str::from_utf8(&self.text[from..]).unwrap_or_default()
    }
}

/// A count with its noun in the singular or plural: `1 line`, `2 lines`.
pub fn count_of(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tabbed(text: &str, first: u64, max_chars: usize) -> String {
        number(text, &Numbered { separator: "\t", first, max_chars })
    }

    #[test]
    fn numbers_are_six_wide_and_grow() {
        assert_eq!(tabbed("a\nb\n", 1, 10), "     1\ta\n     2\tb");
        assert_eq!(tabbed("a\nb", 999_999, 10), "999999\ta\n1000000\tb");
        assert_eq!(tabbed("a\nb\nc", 9, 10), "     9\ta\n    10\tb\n    11\tc");
    }

    #[test]
    fn empty_lines_and_carriage_returns() {
        assert_eq!(tabbed("\n\nx\r\n", 1, 10), "     1\t\n     2\t\n     3\tx");
        assert_eq!(tabbed("", 1, 10), "");
    }

    #[test]
    fn a_byte_order_mark_is_left_out_of_the_first_line_only() {
        assert_eq!(tabbed("\u{feff}a\n\u{feff}b\n", 1, 10), "     1\ta\n     2\t\u{feff}b");
        assert_eq!(tabbed("\u{feff}b\n", 2, 10), "     2\t\u{feff}b");
        assert_eq!(tabbed("\u{feff}", 1, 10), "     1\t");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(tabbed("ae\u{301}b\n", 1, 2), "     1\ta… [line cut]");
        assert_eq!(tabbed("ae\u{301}b\n", 1, 3), "     1\tae\u{301}… [line cut]");
        assert_eq!(tabbed("äöü\n", 1, 2), "     1\täö… [line cut]");
        assert_eq!(tabbed("äö\n", 1, 2), "     1\täö");
    }
}
