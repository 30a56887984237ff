//! Writes JSON in the style of the file that it goes into: indentation, line ends, spaces and escapes.

use std::fmt::Write as _;

use serde_json::Value;

/// The style of a JSON file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonStyle {
    /// Indentation of one level; `None` if everything is on one line.
    indent: Option<String>,
    ending: &'static str,
    /// Space after a colon.
    colon: &'static str,
    /// Space after a comma on one line.
    comma: &'static str,
    /// Whether non-ASCII characters are escaped.
    escapes: bool,
}

impl JsonStyle {
    /// Detects the style of a notebook.
    pub(super) fn detect(text: &str) -> Self {
        let after_brace = text.trim_start().strip_prefix('{').unwrap_or_default();
        let blank = &after_brace[..after_brace.len() - after_brace.trim_start().len()];
        let indent = blank.contains('\n').then(|| blank.rsplit('\n').next().unwrap_or_default().to_owned());
        let spaced = |what: &str| if text.contains(what) { " " } else { "" };
        Self {
            comma: if indent.is_some() { "" } else { spaced("\", \"") },
            colon: if text.contains("\":") { spaced("\": ") } else { " " },
            ending: if text.contains("\r\n") { "\r\n" } else { "\n" },
            escapes: text.is_ascii() && escaped_letters(text),
            indent: indent.map(|indent| if indent.is_empty() { " ".to_owned() } else { indent }),
        }
    }

    /// Text before an item at a depth: a line end and the indentation, unless everything is on one line.
    pub(super) fn before(&self, depth: usize) -> String {
        match &self.indent {
            Some(indent) => format!("{}{}", self.ending, indent.repeat(depth)),
            None => String::new(),
        }
    }

    /// Text between two items at a depth: a comma, and the text before an item.
    pub(super) fn between(&self, depth: usize) -> String {
        format!(",{}{}", self.comma, self.before(depth))
    }

    /// Writes a value at a depth.
    pub(super) fn write(&self, value: &Value, depth: usize) -> String {
        let mut out = String::new();
        self.push(&mut out, value, depth);
        out
    }

    fn push(&self, out: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    out.push_str(&if at == 0 {
                        format!("[{}", self.before(depth + 1))
                    } else {
                        self.between(depth + 1)
                    });
                    self.push(out, item, depth + 1);
                }
                let _ = write!(out, "{}]", self.before(depth));
            }
            Value::Object(fields) if !fields.is_empty() => {
                for (at, (name, field)) in fields.iter().enumerate() {
                    out.push_str(&if at == 0 {
                        format!("{{{}", self.before(depth + 1))
                    } else {
                        self.between(depth + 1)
                    });
                    self.string(out, name);
                    let _ = write!(out, ":{}", self.colon);
                    self.push(out, field, depth + 1);
                }
                let _ = write!(out, "{}}}", self.before(depth));
            }
            Value::String(text) => self.string(out, text),
            other => out.push_str(&other.to_string()),
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        let plain = Value::from(text).to_string();
        if !self.escapes {
            return out.push_str(&plain);
        }
        for char in plain.chars() {
            if char.is_ascii() {
                out.push(char);
            } else {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// Whether a text contains escaped non-ASCII characters.
fn escaped_letters(text: &str) -> bool {
    text.match_indices("\\u").any(|(at, _)| {
        let digits = text.get(at + 2..at + 6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // `\\u` is an escaped backslash and a letter.
        let slashes = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        slashes % 2 == 0 && digits.is_some_and(|code| code >= 0x80)
    })
}
