//! Invisible Unicode characters, which can hide text from a person or change its order.

use haft_sandbox::names;

/// Whether a character is invisible: Unicode's default-ignorable characters, including direction marks, and interlinear
/// annotations. The variation selectors for emoji (U+FE0F) and text (U+FE0E) do not count.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{fff9}'..='\u{fffb}') || (names::is_ignorable(c) && !matches!(c, '\u{fe0e}' | '\u{fe0f}'))
}
