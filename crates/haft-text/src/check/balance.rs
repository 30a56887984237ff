//! Finds the delimiter that has no partner. Where the count alone would blame the wrong one, the
//! indentation tells which was meant. Knows pairs, not where they come from.

use super::{Places, Problem};

/// A delimiter in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delimiter<'a> {
    /// Its first byte.
    pub(super) at: usize,
    /// How it is written.
    pub(super) word: &'a str,
    /// What it does.
    pub(super) role: Role,
}

/// What a delimiter does. What closes with the same word is one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Opens what this closes.
    Opens(&'static str),
    /// Closes.
    Closes,
}

/// The role of a bracket.
pub(super) fn bracket(word: &str) -> Option<Role> {
    Some(match word {
        "(" => Role::Opens(")"),
        "[" => Role::Opens("]"),
        "{" => Role::Opens("}"),
        ")" | "]" | "}" => Role::Closes,
        _ => return None,
    })
}

/// The first delimiter without a partner.
pub(super) fn unbalanced(text: &str, delimiters: &[Delimiter<'_>]) -> Option<Problem> {
    let places = Places::new(text);
    let mut open: Vec<(Delimiter<'_>, &'static str)> = Vec::new();
    // An opener whose closer stands further left, and a closer that stands further right than its opener.
    let mut left: Vec<Delimiter<'_>> = Vec::new();
    let mut right: Option<Delimiter<'_>> = None;
    let unclosed = |one: Delimiter<'_>| places.problem(text, one.at, format!("unclosed `{}`", one.word));
    let unexpected = |one: Delimiter<'_>| places.problem(text, one.at, format!("unexpected `{}`", one.word));
    for &delimiter in delimiters {
        if let Role::Opens(closer) = delimiter.role {
            open.push((delimiter, closer));
            continue;
        }
        match open.last() {
            Some(&(opener, closer)) if closer == delimiter.word => {
                open.pop();
                let (from, to) = (indent(text, opener.at), indent(text, delimiter.at));
                if text[opener.at..delimiter.at].contains('\n') && to.first {
                    if to.width < from.width {
                        left.push(opener);
                    } else if to.width > from.width {
                        right = Some(delimiter);
                    }
                }
            }
            Some(_) if open.iter().any(|(_, closer)| *closer == delimiter.word) => {
                return open.last().map(|&(opener, _)| unclosed(meant(opener, &left)));
            }
            Some(_) => return Some(unexpected(delimiter)),
            None => {
                return Some(unexpected(right.filter(|one| one.word == delimiter.word).unwrap_or(delimiter)));
            }
        }
    }
    open.last().map(|&(opener, _)| unclosed(meant(opener, &left)))
}

/// Of an opener that is not closed and those inside it whose closers stand too far left, the one to blame.
fn meant<'a>(opener: Delimiter<'a>, left: &[Delimiter<'a>]) -> Delimiter<'a> {
    left.iter().find(|one| one.at > opener.at && one.role == opener.role).copied().unwrap_or(opener)
}

struct Indent {
    width: usize,
    /// Whether nothing but blanks stands before the place.
    first: bool,
}

fn indent(text: &str, at: usize) -> Indent {
    let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at];
    let width = line.len() - line.trim_start().len();
    Indent { width, first: width == line.len() }
}
