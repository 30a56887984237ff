//! Incremental parsing with parsers that know only whole texts: parses the top-level statements around a change. Where
//! statements begin comes from a parse of the whole text before the change, never from how its lines look.
//!
//! Why this is sound: between two top-level statements a parser and its lexer are in the state in which they start. So
//! parsing may begin at any statement before the change. As soon as it arrives at the beginning of a statement after the
//! change, it is in the same state as before the change and has the same text ahead, so the rest parses as it did before.
//! One unchanged statement on each side is parsed again: a parser may look ahead, and some things may stand only at the
//! start of a file.

use super::{Checker, Problem};
use crate::text::{common_end, common_start};

/// What a parser says of a text.
pub(super) struct Parsed {
    pub(super) problems: Vec<Problem>,
    /// Where the top-level statements begin, in order. `None` if the text has errors, or has none only when it is parsed
    /// another way than first tried, such as in another edition of the language: a part of it could be right in both.
    pub(super) statements: Option<Vec<usize>>,
}

impl Parsed {
    /// The problems of a text, without its statements.
    pub(super) fn wrong(problems: Vec<Problem>) -> Self {
        Self { problems, statements: None }
    }

    /// A text without errors.
    pub(super) fn right(statements: Vec<usize>) -> Self {
        Self { problems: Vec::new(), statements: Some(statements) }
    }
}

/// A checker that says where statements begin.
pub(super) trait Statements: Checker {
    /// Parses a text. `None` where the checker cannot tell whether it has errors.
    fn parse(&self, text: &str) -> Option<Parsed>;
}

/// The statements at which parsing can begin: those with nothing before them on their line.
pub(super) fn at_line_starts(text: &str, mut statements: Vec<usize>) -> Vec<usize> {
    statements.retain(|start| start.checked_sub(1).is_none_or(|end| text.as_bytes()[end] == b'\n'));
    statements
}

/// Where the statements of a text begin after a change, if parsing those around the change, at most `max` bytes, proves
/// that the text has no errors. `known` are the statements of the text before, which has none. `None` where the whole
/// text has to be parsed.
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
    // The last statement that begins before the change may hold it; the one before that is unchanged.
    let first = known.partition_point(|start| *start <= same_start).checked_sub(2);
    let from = first.map_or(0, |first| known[first]);
    // The first statement that begins after the change is unchanged, too, and is parsed to its end.
    let next = known.partition_point(|start| *start < old.len() - same_end);
    let to = known.get(next + 1).map_or(new.len(), |end| in_new(*end));
    if to - from > max {
        return None;
    }
    let around = after.get(from..to)?;
    let around = at_line_starts(around, checker.parse(around)?.statements?);
    // Without a statement where there was one, what is after the change may have become a part of something else.
    if known.get(next).is_some_and(|next| around.last() != Some(&(in_new(*next) - from))) {
        return None;
    }
    let front = known[..first.unwrap_or(0)].iter().copied();
    let around = around.into_iter().map(|start| start + from);
    let back = known.iter().skip(next + 1).map(|start| in_new(*start));
    Some(front.chain(around).chain(back).collect())
}
