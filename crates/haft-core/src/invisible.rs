//! Characters that are not seen but change, or carry, what is read.

use haft_sandbox::names;

/// Whether a character is not seen where it stands: what Unicode lets programs ignore, marks of a text's direction among
/// it, and notes between lines. What makes a sign a picture (U+FE0F) or a letter (U+FE0E) is no secret.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{fff9}'..='\u{fffb}') || (names::is_ignorable(c) && !matches!(c, '\u{fe0e}' | '\u{fe0f}'))
}
