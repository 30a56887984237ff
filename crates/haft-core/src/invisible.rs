//! Invisible Unicode characters, which can hide text from a person or change its order.

use haft_sandbox::names;

/// Whether a character is invisible: Unicode's default-ignorable characters, including direction marks, and interlinear
/// annotations. The variation selectors for emoji (U+FE0F) and text (U+FE0E) do not count.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{fff9}'..='\u{fffb}') || (names::is_ignorable(c) && !matches!(c, '\u{fe0e}' | '\u{fe0f}'))
}

/// Whether a character looks like a blank or a line break and is neither for programs: a shell takes it for part of a word.
fn is_false_blank(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{2800}' | '\u{3164}')
        || (c != ' ' && !c.is_control() && c.is_whitespace())
}

/// A text as a person who decides about it must see it: control characters, invisible ones and those that only look like
/// blanks are escaped. Every front end shows what it asks about through this.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_invisible(c) || is_false_blank(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_what_is_asked_about() {
        let shown = visible("a\u{202e}b\u{1b}[2J\n\tc\u{a0}d\u{2028}e\u{3000}f\u{2800}g\u{200b}h i");
        let wanted = "a\\u{202e}b\\u{1b}[2J\n\tc\\u{a0}d\\u{2028}e\\u{3000}f\\u{2800}g\\u{200b}h i";
        assert_eq!(shown, wanted);
        assert_eq!(visible("größer 猫 ✔\u{fe0f}"), "größer 猫 ✔\u{fe0f}");
    }
}
