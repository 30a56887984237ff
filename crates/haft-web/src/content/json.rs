//! JSON with one value a line. The values stay as they are written: numbers keep their digits and keys their order.

use serde::de::IgnoredAny;

/// Spaces of one level.
const INDENT: usize = 2;
/// How many times longer the text may get; a deep one is mostly indentation, and stays as it is.
const MAX_GROWTH: usize = 4;

/// A JSON text, indented; `None` if it is no JSON, or would get much longer.
pub(super) fn indented(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let bytes = text.as_bytes();
    let max = text.len().saturating_mul(MAX_GROWTH) + 1024;
    let mut out = String::with_capacity(text.len() * 2);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * INDENT));
    };
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = string_end(bytes, at);
                out.push_str(&text[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' => {
                out.push(char::from(*byte));
                let next = bytes[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace());
                match next.map(|next| at + 1 + next).filter(|next| matches!(bytes[*next], b'}' | b']')) {
                    Some(close) => {
                        out.push(char::from(bytes[close]));
                        at = close;
                    }
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(char::from(*byte));
            }
            b',' => {
                out.push(',');
                line(&mut out, depth);
            }
            b':' => out.push_str(": "),
            byte if byte.is_ascii_whitespace() => {}
            // Outside of strings, valid JSON is ASCII.
            byte => out.push(char::from(*byte)),
        }
        if out.len() > max {
            return None;
        }
        at += 1;
    }
    Some(out)
}

/// Where the string that begins at `start` ends.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are_written() {
        let json = r#"{"b":[1e999,12345678901234567890, {}],"a":"x, {y}: \"z\" ü","c":[ ] }"#;
        let expected = "{\n  \"b\": [\n    1e999,\n    12345678901234567890,\n    {}\n  ],\n  \"a\": \"x, {y}: \\\"z\\\" ü\",\n  \"c\": []\n}";
        assert_eq!(indented(json).as_deref(), Some(expected));
    }

    #[test]
    fn what_is_no_json_or_only_depth_stays() {
        assert_eq!(indented("{\"a\":"), None);
        assert_eq!(indented("<html>"), None);
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(indented(&deep), None);
    }

    proptest::proptest! {
        #[test]
        fn the_value_is_the_same(text in r#"(\{("[a-z\\]{0,3}": ?([0-9]{1,3}|"[^"\\]{0,4}"|\[[0-9, ]{0,6}\]),?){0,4}\}|[\[\]{},:"a0 ]{0,20})"#) {
            if let Some(shown) = indented(&text) {
                let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                proptest::prop_assert_eq!(value(&shown), value(&text));
            }
        }
    }
}
