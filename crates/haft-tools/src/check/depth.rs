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
    // An upper bound of how many brackets are open after each block. Counting them is many times quicker than following
    // them, and for most texts the bound is low enough.
    let mut most = 0_usize;
    let shallow = text.as_bytes().chunks(BLOCK).all(|block| {
        let (mut opened, mut closed) = (0_u8, 0_u8);
        for byte in block {
            // Square and curly brackets differ in one bit.
            opened += u8::from(*byte == b'(') + u8::from(byte | 0x20 == b'{');
            closed += u8::from(*byte == b')') + u8::from(byte | 0x20 == b'}');
        }
        let peak = most + usize::from(opened);
        most = usize::from(opened).max(peak.saturating_sub(closed.into()));
        peak <= MAX_OPEN
    });
    !shallow && is_deep(text)
}

/// Blocks in which brackets are counted; a count fits into a byte.
const BLOCK: usize = 128;

fn is_deep(text: &str) -> bool {
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

/// What a byte means to [`too_long`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    /// A sign that a parser may descend for.
    Sign,
    Other,
    /// A bracket, a separator or the end of a line.
    Structure,
}

const CLASSES: [Class; 256] = {
    // What is not ASCII is a part of a word.
    let mut classes = [Class::Word; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b';' | b',' | b'\n' => Class::Structure,
            b'/' | b'\\' | b'#' | b'\'' | b'"' | b'`' => Class::Other,
            b'_' => Class::Word,
            _ if byte.is_ascii_alphanumeric() => Class::Word,
            _ if byte.is_ascii_punctuation() => Class::Sign,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Whether a parser that descends for each operator, prefix or branch could get too deep.
pub(super) fn too_long(text: &str, ends: Ends) -> bool {
    let bytes = text.as_bytes();
    if branches(bytes) > MAX_ELSE {
        return true;
    }
    // What was counted when each open bracket opened.
    let mut open: Vec<usize> = Vec::new();
    let mut count = 0_usize;
    let mut last = Class::Other;
    for (at, &byte) in bytes.iter().enumerate() {
        let class = CLASSES[usize::from(byte)];
        // Without a branch: the processor could not predict it.
        count += usize::from(class == Class::Sign) + usize::from(class == Class::Word && last != Class::Word);
        last = class;
        if class != Class::Structure {
            continue;
        }
        if count > MAX_CHAIN {
            return true;
        }
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
            b'\n' if ends == Ends::Lines && open.is_empty() => count = 0,
            b'\n' => {}
            _ => count = open.last().copied().unwrap_or(0),
        }
    }
    count > MAX_CHAIN
}

/// How often `else` begins a word.
fn branches(bytes: &[u8]) -> usize {
    let begins =
        |at: &usize| at.checked_sub(1).is_none_or(|at| CLASSES[usize::from(bytes[at])] != Class::Word);
    memchr::memmem::find_iter(bytes, b"else").filter(begins).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counting_by_blocks_tells_what_following_brackets_tells(
            pieces in proptest::collection::vec(("[()\\[{} a]{0,9}", 1_usize..200), 0..20),
        ) {
            let text: String = pieces.iter().map(|(piece, times)| piece.repeat(*times)).collect();
            prop_assert_eq!(too_deep(&text), is_deep(&text));
        }
    }

    #[test]
    fn one_bracket_more_than_there_may_be_is_too_deep() {
        let text = |open: usize| format!("{}{}", "(".repeat(open), ")".repeat(open)).repeat(3);
        assert!(!too_deep(&text(MAX_OPEN)));
        assert!(too_deep(&text(MAX_OPEN + 1)));
    }
}
