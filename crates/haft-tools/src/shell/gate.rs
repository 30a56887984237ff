//! What is looked at before and between the parser's steps, so that it can neither recurse without end nor take
//! exponential time: characters, length and nesting of the text, then the number of branches among its tokens.

use brush_parser::{Token, unquote_str};

use super::{DEEPEST, Doubt, LONGEST};

/// How many substitutions and groups may be in a text at all: whoever hides closing brackets in quotes to deceive
/// the count of depths comes no further than this. The parser's stack has room for it on any thread.
const MOST_OPENINGS: usize = 96;
/// Each nested subshell or `case` doubles the time that the parser takes.
const MOST_BRANCHES: usize = 10;
/// Nested keywords, braces and negations.
const MOST_KEYWORDS: usize = 64;
/// Longer numbers do not fit a file descriptor, and the parser insists that they do.
const LONGEST_NUMBER: usize = 9;

/// What keeps a text from being parsed at all.
pub(super) fn text(text: &str) -> Option<Doubt> {
    if text.len() > LONGEST {
        return Some(Doubt::TooLong);
    }
    if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
        return Some(Doubt::Character(c));
    }
    let (mut depth, mut openings, mut quotes) = (0_usize, 0_usize, 0_usize);
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
            '`' => quotes += 1,
            _ => {}
        }
        if depth > DEEPEST || openings + quotes / 2 > MOST_OPENINGS {
            return Some(Doubt::TooDeep);
        }
        before = c;
    }
    None
}

/// What keeps tokens from being parsed.
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
    (branches > MOST_BRANCHES || keywords > MOST_KEYWORDS).then_some(Doubt::TooDeep)
}

/// Whether a here-document ends at an empty line.
pub(super) fn has_empty_tag(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| match pair {
        [Token::Operator(operator, _), tag] if operator == "<<" || operator == "<<-" => {
            unquote_str(tag.to_str().trim_ascii_start()).is_empty()
        }
        _ => false,
    })
}

/// Whether a word may begin something that nests, or stand within it.
#[rustfmt::skip]
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "{" | "if" | "while" | "until" | "for" | "select" | "do" | "then" | "else" | "elif" | "function" | "coproc"
            | "!" | "time" | "[["
    )
}

fn is_long_number(word: &str) -> bool {
    word.len() > LONGEST_NUMBER && word.bytes().all(|c| c.is_ascii_digit())
}

/// Characters that a person does not see, or that a terminal obeys.
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
