//! A file on the way to what it will be: changes of its text become splices of its bytes, and all of them
//! together one plan. Every kind of edit ends here, so what holds for one holds for all.

use std::fmt;
use std::ops::RangeInclusive;

use super::encoding::{Source, Unwritable};
use super::fit::TextSplice;
use super::mismatch::Problem;
use super::rows::line_number;
use super::splice::{Splice, Splices};

/// Edits that can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// What happens to the bytes.
    pub splices: Splices,
    /// How many places are changed, over all edits.
    pub replaced: usize,
    /// Lines that changed, in the file as it will be. Where lines only went, the one that follows.
    pub changed: Vec<RangeInclusive<usize>>,
    /// What was not as it was asked for.
    pub notes: Vec<Note>,
}

/// Something that was done otherwise than asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which edit, counted from 1.
    pub edit: usize,
    /// The line it was made at.
    pub line: usize,
    /// What was overlooked.
    pub overlooked: Overlooked,
}

/// A difference that was overlooked to find a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overlooked {
    /// The new text was indented like the file.
    Indentation,
    /// White space at the end of lines.
    TrailingSpace,
    /// Quotes, dashes, spaces.
    Punctuation,
    /// Line numbers were taken off.
    LineNumbers,
    /// The last line is not ended.
    FinalNewline,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match self.overlooked {
            Overlooked::Indentation => {
                write!(
                    f,
                    "line {line} matched with different indentation; the new text was indented like the file"
                )
            }
            Overlooked::TrailingSpace => {
                write!(f, "line {line} matched with different white space at the end of lines")
            }
            Overlooked::Punctuation => {
                write!(f, "line {line} matched with different quotes, dashes or spaces")
            }
            Overlooked::FinalNewline => write!(f, "line {line} is the last and not ended, and stays so"),
            Overlooked::LineNumbers => write!(f, "line {line} matched without the copied line numbers"),
        }
    }
}

/// What comes after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Another one, which needs the file as it is then.
    More,
    /// Nothing, so that the changed file need not be made.
    Nothing,
}

impl Follows {
    /// After the change at a place in a list of so many.
    pub fn after(at: usize, of: usize) -> Self {
        if at + 1 < of { Self::More } else { Self::Nothing }
    }
}

/// A file on the way to what it will be.
pub struct Draft<'a> {
    source: &'a Source,
    now: Option<Source>,
    /// The changes so far.
    pub planned: Planned,
}

impl<'a> Draft<'a> {
    /// A draft of a file without changes.
    pub fn new(source: &'a Source) -> Self {
        Self { source, now: None, planned: Planned::default() }
    }

    /// The file as the edits so far leave it.
    pub fn current(&self) -> &Source {
        self.now.as_ref().unwrap_or(self.source)
    }

    /// Makes a change.
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
            // Where bytes are no text, new ones next to them could become one character with them.
            if !plain && next.text() != expected(current.text(), &splices) {
                let at = splices.first().map_or(0, |splice| splice.range.start);
                return Err(Problem::Undecodable { line: line_number(current.text(), at, current.ending()) });
            }
            self.now = Some(next);
        }
        self.planned.splices.then(self.source.bytes().len(), made);
        Ok(())
    }

    /// The changes together, in the places of the file as it was.
    pub fn done(mut self) -> Planned {
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

/// The lines that splices change, in the file as it will be.
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
