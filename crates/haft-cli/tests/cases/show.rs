//! Formats replies for case files: short ones exactly, long ones folded with a hash of the folded part.

use std::fmt::Write as _;

use serde_json::Value;

/// A longer text is folded.
const MAX_LINES: usize = 90;
const FIRST_LINES: usize = 25;
const LAST_LINES: usize = 12;
/// A longer line is folded.
const MAX_CHARS: usize = 400;
const FIRST_CHARS: usize = 100;
const LAST_CHARS: usize = 60;

/// Text with control characters visible and long parts folded.
pub(crate) fn text(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.len() <= MAX_LINES {
        return lines.into_iter().map(line).collect();
    }
    let (first, rest) = lines.split_at(FIRST_LINES);
    let (middle, last) = rest.split_at(rest.len() - LAST_LINES);
    let mut out: String = first.iter().copied().map(line).collect();
    let _ = writeln!(out, "⋮ {} lines, digest {}", middle.len(), digest(&middle.concat()));
    out.extend(last.iter().copied().map(line));
    out
}

fn line(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= MAX_CHARS {
        return visible(&chars);
    }
    let (first, rest) = chars.split_at(FIRST_CHARS);
    let (middle, last) = rest.split_at(rest.len() - LAST_CHARS);
    let digest = digest(&middle.iter().collect::<String>());
    format!("{}⟨{} characters, digest {digest}⟩{}", visible(first), middle.len(), visible(last))
}

fn visible(chars: &[char]) -> String {
    let mut out = String::with_capacity(chars.len());
    for &c in chars {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{feff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// FNV-1a, which is the same on every machine.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Indented JSON, with multi-line strings between `"""`.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    push_json(&mut out, value, 0);
    out.push('\n');
    out
}

fn push_json(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth + 1);
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    let items: Vec<(Option<&String>, &Value)> = match value {
        Value::String(text) if text.contains('\n') && !text.contains("\"\"\"") => {
            out.push_str("\"\"\"\n");
            for line in text.split('\n') {
                // No trailing blanks, which editors remove.
                let _ = writeln!(out, "{}{line}", if line.is_empty() { "" } else { &indent });
            }
            out.push_str(&indent);
            return out.push_str("\"\"\"");
        }
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().map(|(name, field)| (Some(name), field)).collect()
        }
        // Short lists read better on one line.
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().map(|item| (None, item)).collect()
        }
        other => return out.push_str(&other.to_string()),
    };
    out.push(open);
    for (at, (name, item)) in items.iter().enumerate() {
        let _ = write!(out, "{}\n{indent}", if at == 0 { "" } else { "," });
        if let Some(name) = name {
            let _ = write!(out, "{}: ", Value::from(name.as_str()));
        }
        push_json(out, item, depth + 1);
    }
    let _ = write!(out, "\n{}{close}", "  ".repeat(depth));
}

/// A diff of two texts: everything from the first to the last difference, with some lines of context.
pub(crate) fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let mut out = String::new();
    for line in &old[same.saturating_sub(3)..same] {
        let _ = writeln!(out, "  {line}");
    }
    for line in &old[same..old.len() - tail] {
        let _ = writeln!(out, "- {line}");
    }
    for line in &new[same..new.len() - tail] {
        let _ = writeln!(out, "+ {line}");
    }
    for line in new[new.len() - tail..].iter().take(3) {
        let _ = writeln!(out, "  {line}");
    }
    out
}
