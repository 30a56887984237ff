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
    // How many brackets are open after each block, at the most. That can be told by counting alone, which is many times
    // quicker than to follow them, and for most texts it is enough.
    let mut most = 0_usize;
    let shallow = text.as_bytes().chunks(BLOCK).all(|block| {
        let count = |brackets: [u8; 3]| {
            usize::from(block.iter().map(|byte| u8::from(brackets.contains(byte))).sum::<u8>())
        };
        let (opened, closed) = (count(*b"([{"), count(*b")]}"));
        let peak = most + opened;
        most = opened.max(peak.saturating_sub(closed));
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
    Opens,
    Closes,
    ClosesBlock,
    Separates,
    EndsLine,
    /// A sign that a parser may descend for.
    Sign,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Word; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        classes[byte as usize] = match byte {
            b'_' => Class::Word,
            b'(' | b'[' | b'{' => Class::Opens,
            b')' | b']' => Class::Closes,
            b'}' => Class::ClosesBlock,
            b';' | b',' => Class::Separates,
            b'\n' => Class::EndsLine,
            b'/' | b'\\' | b'#' | b'\'' | b'"' | b'`' => Class::Other,
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
    // What was counted when each open bracket opened.
    let mut open: Vec<usize> = Vec::new();
    let mut count = 0_usize;
    let mut branches = 0_usize;
    let mut in_word = false;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let class = CLASSES[usize::from(byte)];
        let began = class == Class::Word && !in_word;
        in_word = class == Class::Word;
        match class {
            Class::Word if began => {
                count += 1;
                branches += usize::from(byte == b'e' && bytes[at..].starts_with(b"else"));
            }
            Class::Word | Class::Other => continue,
            Class::Opens => {
                count += 1;
                open.push(count);
            }
            Class::Closes => count = open.pop().unwrap_or(count),
            Class::ClosesBlock => {
                count = open.pop().unwrap_or(count);
                let next = bytes[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
                if !next.is_some_and(|byte| b"+-*&|.?=:%^!<>".contains(byte)) {
                    count = open.last().copied().unwrap_or(0);
                }
            }
            Class::Separates => count = open.last().copied().unwrap_or(0),
            Class::EndsLine if ends == Ends::Lines && open.is_empty() => count = 0,
            Class::EndsLine => continue,
            Class::Sign => count += 1,
        }
        if count > MAX_CHAIN || branches > MAX_ELSE {
            return true;
        }
    }
    false
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
