//! File names as text. A name may be any bytes, text must be UTF-8: other bytes are escaped as `\xNN`, and the workspace
//! finds the file again by that text.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The name or path as text: unchanged where it is UTF-8, each other byte as `\xNN`.
pub fn show(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    if let Some(text) = name.to_str() {
        return text.to_owned();
    }
    let mut text = String::with_capacity(name.len() + 16);
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The name or path as text on one line: control characters are escaped as `\xNN`, too.
pub fn show_on_a_line(name: impl AsRef<OsStr>) -> String {
    let text = show(name);
    if !text.contains(|c: char| c.is_ascii_control()) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c.is_ascii_control() {
            true => {
                let _ = write!(line, "\\x{:02x}", u32::from(c));
            }
            false => line.push(c),
        }
    }
    line
}

/// Decodes text of [`show`] or [`show_on_a_line`]; `None` if it holds no `\xNN` that these could have written. They never
/// escape other bytes below 0x80, and decoding leaves those alone, so it cannot produce a `/` or NUL.
pub(crate) fn decode(text: &str) -> Option<OsString> {
    if !text.contains("\\x") {
        return None;
    }
    let bytes = text.as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let mut found = false;
    while at < bytes.len() {
        if let Some(byte) = escaped(&bytes[at..]) {
            name.push(byte);
            at += 4;
            found = true;
        } else {
            name.push(bytes[at]);
            at += 1;
        }
    }
    found.then(|| OsString::from_vec(name))
}

fn escaped(bytes: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = *bytes else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    (byte >= 0x80 || (byte != 0 && byte.is_ascii_control())).then_some(byte)
}

/// Whether Unicode calls a character default ignorable: it is invisible.
pub fn is_ignorable(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_unchanged() {
        for name in ["a\nb", "\u{1b}[2J", "-rf", " lead", "trail ", "é", "\\xff"] {
            assert_eq!(show(name), name);
        }
    }

    #[test]
    fn other_bytes_are_shown_and_found_again() {
        let name = OsString::from_vec(b"a\xff\xfe/\xc3b".to_vec());
        assert_eq!(show(&name), "a\\xff\\xfe/\\xc3b");
        assert_eq!(decode(&show(&name)), Some(name));
    }

    #[test]
    fn control_characters_do_not_break_a_line() {
        let name = OsString::from_vec(b"a\nb\x1b[2J\xff\x7f".to_vec());
        assert_eq!(show_on_a_line(&name), "a\\x0ab\\x1b[2J\\xff\\x7f");
        assert_eq!(decode(&show_on_a_line(&name)), Some(name));
        assert_eq!(show_on_a_line("plain \u{e9}"), "plain \u{e9}");
    }

    #[test]
    fn decoding_never_makes_a_separator_or_a_nul() {
        assert_eq!(decode("a\\x2fb\\x00"), None);
        assert_eq!(decode("plain"), None);
        assert_eq!(decode("cut\\xf"), None);
    }
}
