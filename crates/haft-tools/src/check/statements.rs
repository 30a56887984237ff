//! Parses only the top-level statements around a change. Where these begin was told by a parse of the whole text before the
//! change, never by how its lines look.
//!
//! Why that is enough: between two top-level statements a parser and its lexer are in the state they start in. So parsing
//! may begin with any statement before the change, and once it comes to the beginning of a statement after the change,
//! everything from there on is read as it was before. One whole statement on each side is read again, so that what a parser
//! looks ahead at, and what may stand only at the start of a file, is the same as in the whole text.

use super::{Checker, Problem};
use crate::text::{common_end, common_start};

/// What a parser says of a text.
pub(super) struct Parsed {
    pub(super) problems: Vec<Problem>,
    /// Where the top-level statements begin, in order. `None` if there are problems, or none only because the text was
    /// read in another way than most are, such as another edition of the language.
    pub(super) statements: Option<Vec<usize>>,
}

impl Parsed {
    /// What is wrong with a text, or that nothing is when it is read in another way.
    pub(super) fn wrong(problems: Vec<Problem>) -> Self {
        Self { problems, statements: None }
    }

    /// A text without errors.
    pub(super) fn right(statements: Vec<usize>) -> Self {
        Self { problems: Vec::new(), statements: Some(statements) }
    }
}

/// A checker that can tell where statements begin.
pub(super) trait Statements: Checker {
    /// Parses a whole text. `None` where the checker cannot tell what is wrong with it.
    fn parse(&self, text: &str) -> Option<Parsed>;
}

/// Those statements of a text with which parsing can begin: where something else stands before them on their line, that
/// may be a part of them.
pub(super) fn at_line_starts(text: &str, mut statements: Vec<usize>) -> Vec<usize> {
    statements.retain(|start| start.checked_sub(1).is_none_or(|end| text.as_bytes()[end] == b'\n'));
    statements
}

/// Where the statements of a text begin after a change, if parsing those around it, which are at most so many bytes, shows
/// that the text has no errors. `known` are those of the text before, which has none. `None` where the whole text has to
/// be parsed.
pub(super) fn after_change(
    checker: &dyn Statements,
    (before, known): (&str, &[usize]),
    after: &str,
    max: usize,
) -> Option<Vec<usize>> {
    let (old, new) = (before.as_bytes(), after.as_bytes());
    let same_start = common_start(old, new);
    let same_end = common_end(old, new).min(old.len().min(new.len()) - same_start);
    let in_new = |at: usize| new.len() - (old.len() - at);
    // The change may be in the last statement that begins before it; the one before that is whole.
    let first = known.partition_point(|start| *start <= same_start).checked_sub(2);
    let from = first.map_or(0, |first| known[first]);
    // The first statement that begins after the change, and where it ends.
    let next = known.partition_point(|start| *start < old.len() - same_end);
    let to = known.get(next + 1).map_or(new.len(), |end| in_new(*end));
    if to - from > max {
        return None;
    }
    let around = after.get(from..to)?;
    let around = at_line_starts(around, checker.parse(around)?.statements?);
    if known.get(next).is_some_and(|next| around.last() != Some(&(in_new(*next) - from))) {
        return None;
    }
    let front = known[..first.unwrap_or(0)].iter().copied();
    let around = around.into_iter().map(|start| start + from);
    let back = known.iter().skip(next + 1).map(|start| in_new(*start));
    Some(front.chain(around).chain(back).collect())
}
