//! Where a block of lines fits into a text when white space at the ends of lines and look-alike
//! punctuation do not count, and how such a place is changed line by line, so that lines which stay are
//! not touched.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::encoding::Ending;
use super::find::fold;
use super::reindent::{Reindent, indent_of};
use super::rows::Rows;

/// What counts as the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closeness {
    /// Every character.
    Exact,
    /// All but white space at the end.
    Trailing,
    /// All but white space at both ends and look-alike punctuation.
    Loose,
}

/// What happens to lines, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next line stays.
    Keep,
    /// The next line goes.
    Cut,
    /// This line comes.
    Put(String),
}

/// A change of text, before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSplice {
    /// The bytes of the text that go.
    pub range: Range<usize>,
    /// With the line ends of the file.
    pub text: String,
}

pub(crate) fn same_line(a: &str, b: &str, closeness: Closeness) -> bool {
    match closeness {
        Closeness::Exact => a == b,
        Closeness::Trailing => a.trim_end() == b.trim_end(),
        Closeness::Loose => {
            let (a, b) = (a.trim(), b.trim());
            a == b || a.chars().map(fold).eq(b.chars().map(fold))
        }
    }
}

/// The rows from `from` on where the block fits, so many at the most.
pub(crate) fn fits(
    rows: &Rows<'_>,
    block: &[&str],
    closeness: Closeness,
    from: usize,
    most: usize,
) -> Vec<usize> {
    // The longest line is the rarest: it is looked for first.
    let Some(key) = (0..block.len()).max_by_key(|at| block[*at].trim().len()) else { return Vec::new() };
    if closeness == Closeness::Loose && block[key].trim().is_empty() {
        return Vec::new();
    }
    let last = (rows.len() + 1).saturating_sub(block.len());
    let fits = |row: &usize| {
        same_line(rows.line(row + key), block[key], closeness)
            && block.iter().enumerate().all(|(at, line)| same_line(rows.line(row + at), line, closeness))
    };
    (from..last).filter(fits).take(most).collect()
}

/// How the block's indentation becomes that of the rows it fits. A first line that begins in the middle
/// of a row says nothing about the others.
pub(crate) fn reindent(rows: &Rows<'_>, row: usize, block: &[&str]) -> Reindent {
    let pairs: Vec<(&str, &str)> = block
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (indent_of(line), indent_of(rows.line(row + at))))
        .collect();
    let learnt = Reindent::learn(&pairs);
    let Some((("", file), others)) = pairs.split_first() else { return learnt };
    let begins_inside =
        matches!(learnt, Reindent::Pairs(_)) && others.iter().all(|(text, _)| !text.is_empty());
    if begins_inside && Reindent::learn(others) == Reindent::Same {
        return Reindent::Unindented((*file).to_owned());
    }
    learnt
}

/// The steps from old lines to new ones, the new ones with another indentation.
pub(crate) fn steps(old: &[&str], new: &[&str], reindent: &Reindent) -> Vec<Step> {
    let mut steps = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        let (cut, put) = match op {
            DiffOp::Equal { len, .. } => {
                steps.extend(std::iter::repeat_n(Step::Keep, len));
                continue;
            }
            op => (op.old_range(), op.new_range()),
        };
        steps.extend(cut.map(|_| Step::Cut));
        steps.extend(put.map(|at| Step::Put(reindent.line(new[at]))));
    }
    steps
}

/// What steps from a row on do to the text. Whether the last line is ended stays as it was.
pub(crate) fn rewrite(rows: &Rows<'_>, row: usize, steps: &[Step], ending: Ending) -> Vec<TextSplice> {
    let mut splices = Vec::new();
    let (mut row, mut at) = (row, 0);
    while at < steps.len() {
        if steps[at] == Step::Keep {
            (row, at) = (row + 1, at + 1);
            continue;
        }
        let run = steps[at..].iter().take_while(|step| **step != Step::Keep).count();
        let cut = steps[at..at + run].iter().filter(|step| **step == Step::Cut).count();
        let put: Vec<&str> = steps[at..at + run]
            .iter()
            .filter_map(|step| if let Step::Put(line) = step { Some(line.as_str()) } else { None })
            .collect();
        splices.extend(exchange(rows, row..row + cut, &put, ending));
        (row, at) = (row + cut, at + run);
    }
    splices
}

/// Other lines in the place of rows.
fn exchange(rows: &Rows<'_>, mut cut: Range<usize>, mut put: &[&str], ending: Ending) -> Option<TextSplice> {
    while let [first, rest @ ..] = put
        && !cut.is_empty()
        && rows.line(cut.start) == *first
    {
        (cut.start, put) = (cut.start + 1, rest);
    }
    while let [rest @ .., last] = put
        && !cut.is_empty()
        && rows.line(cut.end - 1) == *last
    {
        (cut.end, put) = (cut.end - 1, rest);
    }
    let ending_at = |row: usize| rows.ending(row).unwrap_or(ending).as_str();
    match (cut.is_empty(), put.is_empty()) {
        (true, true) => None,
        (false, false) => {
            let mut text = String::new();
            for (at, line) in put.iter().enumerate() {
                if at > 0 {
                    text.push_str(ending_at((cut.start + at - 1).min(cut.end - 1)));
                }
                text.push_str(line);
            }
            Some(TextSplice { range: rows.content(cut.start).start..rows.content(cut.end - 1).end, text })
        }
        (false, true) => {
            let whole = rows.whole(cut.start).start..rows.whole(cut.end - 1).end;
            let unended = rows.ending(cut.end - 1).is_none() && cut.start > 0;
            let start = if unended { rows.content(cut.start - 1).end } else { whole.start };
            Some(TextSplice { range: start..whole.end, text: String::new() })
        }
        (true, false) => {
            let place = rows.whole(cut.start).start;
            let after_unended =
                cut.start >= rows.len() && rows.len() > 0 && rows.ending(rows.len() - 1).is_none();
            let mut text = String::new();
            for line in put {
                let end = ending_at(cut.start.min(rows.len().saturating_sub(1)));
                let parts = if after_unended { [end, line] } else { [line, end] };
                parts.iter().for_each(|part| text.push_str(part));
            }
            Some(TextSplice { range: place..place, text })
        }
    }
}
