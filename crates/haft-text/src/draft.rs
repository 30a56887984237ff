//! The working copy of a file under edits: turns splices of its text into splices of its bytes and merges them into one
//! plan. Every kind of edit ends here, so that all share the same guarantees.

use std::fmt;
use std::ops::RangeInclusive;

use super::encoding::{Source, Unwritable};
use super::line_index::line_number;
use super::line_match::TextSplice;
use super::mismatch::Problem;
use super::splice::{Splice, Splices};

/// A plan of edits to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditPlan {
    /// The changes to the bytes.
    pub splices: Splices,
    /// Number of replacements, over all edits.
    pub replaced: usize,
    /// Line numbers that changed, in the new content. For deleted lines, the one that follows.
    pub changed: Vec<RangeInclusive<usize>>,
    /// Differences that were ignored to find a match.
    pub notes: Vec<Note>,
}

/// An edit that was made although its old text did not match exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Number of the edit, from 1.
    pub edit: usize,
    /// Number of the line that matched.
    pub line: usize,
    /// The difference that was ignored.
    pub overlooked: IgnoredDifference,
}

/// A difference that was ignored to find a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IgnoredDifference {
    /// Indentation; the new text is reindented like the file.
    Indentation,
    /// White space at the end of lines.
    TrailingSpace,
    /// Quotes, dashes or spaces that look alike.
    Punctuation,
    /// Line numbers copied from a reply.
    LineNumbers,
    /// A missing line end on the last line.
    FinalNewline,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match self.overlooked {
            IgnoredDifference::Indentation => {
                write!(
                    f,
                    "line {line} matched with different indentation; the new text was indented like the file"
                )
            }
            IgnoredDifference::TrailingSpace => {
                write!(f, "line {line} matched with different white space at the end of lines")
            }
            IgnoredDifference::Punctuation => {
                write!(f, "line {line} matched with different quotes, dashes or spaces")
            }
            IgnoredDifference::FinalNewline => {
                write!(f, "line {line} is the last and not ended, and stays so")
            }
            IgnoredDifference::LineNumbers => {
                write!(f, "line {line} matched without the copied line numbers")
            }
        }
    }
}

/// Whether another change follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Another change follows, which needs the content in between.
    More,
    /// No change follows, so the new content need not be built.
    Nothing,
}

impl Follows {
    /// What follows the change at index `at` in a list of `of`.
    pub fn after(at: usize, of: usize) -> Self {
        if at + 1 < of { Self::More } else { Self::Nothing }
    }
}

/// The working copy of a file under edits.
pub struct Draft<'a> {
    source: &'a Source,
    /// The content after the changes so far; `None` without changes.
    edited: Option<Source>,
    /// The changes so far.
    pub planned: EditPlan,
}

impl<'a> Draft<'a> {
    /// A draft without changes.
    pub fn new(source: &'a Source) -> Self {
        Self { source, edited: None, planned: EditPlan::default() }
    }

    /// The content after the changes so far.
    pub fn current(&self) -> &Source {
        self.edited.as_ref().unwrap_or(self.source)
    }

    /// Adds a change to the current content.
    pub fn apply(&mut self, splices: Vec<TextSplice>, follows: Follows) -> Result<(), Problem> {
        let current = self.current();
        let before = current.bytes();
        let mut made = Vec::with_capacity(splices.len());
        for splice in &splices {
            let line = || line_number(current.text(), splice.range.start, current.ending());
            let range =
                current.byte_range(&splice.range).ok_or_else(|| Problem::Undecodable { line: line() })?;
            made.push(Splice { range, bytes: current.encode(&splice.text).map_err(Problem::Unwritable)? });
        }
        let plain = current.is_plain();
        if follows == Follows::More || !plain {
            let mut step = Splices::default();
            step.then(before.len(), made.clone());
            let next =
                current.with_bytes(step.apply(before)).map_err(|_| Problem::Unwritable(Unwritable::Nul))?;
            // New bytes next to undecodable ones could form a character with them: check that the result decodes to
            // the expected text.
            if !plain && next.text() != expected(current.text(), &splices) {
                let at = splices.first().map_or(0, |splice| splice.range.start);
                return Err(Problem::Undecodable { line: line_number(current.text(), at, current.ending()) });
            }
            self.edited = Some(next);
        }
        self.planned.splices.then(self.source.bytes().len(), made);
        Ok(())
    }

    /// Finishes the plan.
    pub fn done(mut self) -> EditPlan {
        self.planned.changed = changed(self.source, &self.planned.splices);
        self.planned
    }
}

fn expected(text: &str, splices: &[TextSplice]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for splice in splices {
        out.push_str(&text[at..splice.range.start]);
        out.push_str(&splice.text);
        at = splice.range.end;
    }
    out + &text[at..]
}

/// The line numbers that splices change, in the new content.
fn changed(source: &Source, splices: &Splices) -> Vec<RangeInclusive<usize>> {
    let mut changed: Vec<RangeInclusive<usize>> = Vec::new();
    let (mut at, mut line) = (0, 1);
    for splice in splices.iter() {
        line += source.breaks_in(&source.bytes()[at..splice.range.start]);
        at = splice.range.end;
        let breaks = source.breaks_in(&splice.bytes);
        let width = source.charset().encode(source.ending().as_str()).map_or(1, |end| end.len());
        let tail = &splice.bytes[splice.bytes.len().saturating_sub(width)..];
        let last = line + breaks - usize::from(breaks > 0 && source.breaks_in(tail) > 0);
        match changed.last_mut() {
            Some(before) if *before.end() + 1 >= line => *before = *before.start()..=last.max(*before.end()),
            _ => changed.push(line..=last),
        }
        line += breaks;
    }
    changed
}
