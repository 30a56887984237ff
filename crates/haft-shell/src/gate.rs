//! Limits that hold before the parser runs, so that it neither overflows its stack nor takes exponential time: on the
//! characters, length and nesting of the text, then on the branches and keywords among its tokens. The counts ignore
//! quotes, so they reject some harmless text; that costs a doubt, not a wrong answer.

use brush_parser::{Token, unquote_str};

use super::{Doubt, MAX_COMMAND_BYTES, MAX_NESTING};

/// Most substitutions and groups in a whole text. Closing brackets in quotes can fool the depth count, so this bounds
/// the parser's recursion even then; its stack has room for this many on any thread.
const MAX_OPENINGS: usize = 96;
/// Most subshells and `case` statements: each nested one doubles the parser's time.
const MAX_BRANCHES: usize = 10;
/// Most keywords, braces and negations, all of which can nest.
const MAX_KEYWORDS: usize = 64;
/// Most digits of a file descriptor: the parser panics on numbers that do not fit.
const MAX_DESCRIPTOR_DIGITS: usize = 9;

/// The reason why a text must not be tokenized, if there is one.
pub(super) fn text(text: &str) -> Option<Doubt> {
    if text.len() > MAX_COMMAND_BYTES {
        return Some(Doubt::TooLong);
    }
    if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
        return Some(Doubt::Character(c));
    }
    let (mut depth, mut openings, mut backquotes) = (0_usize, 0_usize, 0_usize);
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '(' | '{' | '[' => {
                depth += 1;
                openings += usize::from(
                    c != '[' && matches!(before, '$' | '<' | '>' | '(' | '@' | '!' | '+' | '*' | '?'),
                );
            }
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            '`' => backquotes += 1,
            _ => {}
        }
        if depth > MAX_NESTING || openings + backquotes / 2 > MAX_OPENINGS {
            return Some(Doubt::TooDeep);
        }
        before = c;
    }
    None
}

/// The text with an ordinary character in place of each hidden one.
pub(super) fn without_hidden(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '_' } else { c }).collect()
}

/// The reason why tokens must not be parsed, if there is one.
pub(super) fn tokens(tokens: &[Token]) -> Option<Doubt> {
    let (mut branches, mut keywords) = (0, 0);
    for (n, token) in tokens.iter().enumerate() {
        match token {
            Token::Operator(operator, _) => branches += usize::from(operator == "("),
            Token::Word(word, _) if word == "case" => branches += 1,
            Token::Word(word, _) if is_keyword(word) => keywords += 1,
            Token::Word(word, _) if is_long_number(word) => {
                let next = tokens.get(n + 1).map(Token::to_str).unwrap_or_default();
                if next.starts_with(['<', '>']) {
                    return Some(Doubt::Syntax);
                }
            }
            Token::Word(..) => {}
        }
    }
    (branches > MAX_BRANCHES || keywords > MAX_KEYWORDS).then_some(Doubt::TooDeep)
}

/// Whether a here-document has an empty tag, and so ends at an empty line.
pub(super) fn has_empty_tag(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| match pair {
        [Token::Operator(operator, _), tag] if operator == "<<" || operator == "<<-" => {
            unquote_str(tag.to_str().trim_ascii_start()).is_empty()
        }
        _ => false,
    })
}

/// Whether a word is a keyword of a construct that nests.
#[rustfmt::skip]
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "{" | "if" | "while" | "until" | "for" | "select" | "do" | "then" | "else" | "elif" | "function" | "coproc"
            | "!" | "time" | "[["
    )
}

fn is_long_number(word: &str) -> bool {
    word.len() > MAX_DESCRIPTOR_DIGITS && word.bytes().all(|c| c.is_ascii_digit())
}

/// Whether a character is invisible, or a control character that a terminal acts on.
fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && !matches!(c, '\n' | '\t');
    }
    matches!(c,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
