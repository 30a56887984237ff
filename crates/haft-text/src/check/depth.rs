//! How deep a text is nested, told before a parser recurses into it. An estimate from above: it reads
//! brackets and words, and does not know what is in a string or a comment.

/// How many brackets may be open at a time.
const MAX_OPEN: usize = 500;
/// How many words and signs there may be one after the other in which a parser could descend.
const MAX_CHAIN: usize = 5000;
/// How many branches a file may have: each may be inside the one before.
const MAX_ELSE: usize = 3000;

/// What ends a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// A line's end, outside of brackets.
    Lines,
    /// A semicolon or a closing brace.
    Semicolons,
}

/// Whether more brackets are open at a time than a person writes.
pub(super) fn too_deep(text: &str) -> bool {
    let mut open = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > MAX_OPEN
    })
}

/// Whether a parser that descends for each operator, prefix or branch could get too deep.
pub(super) fn too_long(text: &str, ends: Ends) -> bool {
    // What was counted when each open bracket opened.
    let mut open: Vec<usize> = Vec::new();
    let mut count = 0_usize;
    let mut branches = 0_usize;
    let mut in_word = false;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let word = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        let began = word && !in_word;
        in_word = word;
        let base = open.last().copied().unwrap_or(0);
        match byte {
            b'(' | b'[' | b'{' => {
                count += 1;
                open.push(count);
            }
            b')' | b']' => count = open.pop().unwrap_or(count),
            b'}' => {
                count = open.pop().unwrap_or(count);
                let next = bytes[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
                if !next.is_some_and(|byte| b"+-*&|.?=:%^!<>".contains(byte)) {
                    count = open.last().copied().unwrap_or(0);
                }
            }
            b';' | b',' => count = base,
            b'\n' if ends == Ends::Lines && open.is_empty() => count = 0,
            _ if began => {
                count += 1;
                branches += usize::from(bytes[at..].starts_with(b"else"));
            }
            _ if byte.is_ascii_punctuation() && !word && !b"/\\#'\"`".contains(&byte) => count += 1,
            _ => {}
        }
        if count > MAX_CHAIN || branches > MAX_ELSE {
            return true;
        }
    }
    false
}
