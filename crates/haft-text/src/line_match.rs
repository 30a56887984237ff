//! Matches a block of lines against a text, exactly or ignoring surrounding white space and look-alike punctuation, and
//! turns the change of such a block into splices line by line, so that unchanged lines keep their bytes.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::encoding::Ending;
use super::find::fold;
use super::line_index::LineIndex;
use super::reindent::{Reindent, indent_of};

/// How closely two lines must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closeness {
    /// Every character.
    Exact,
    /// Apart from white space at the end.
    Trailing,
    /// Apart from white space at both ends and look-alike punctuation.
    Loose,
}

/// One step of a line-by-line change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Keep the next line.
    Keep,
    /// Delete the next line.
    Delete,
    /// Insert this line.
    Insert(String),
}

/// A change of text, before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSplice {
    /// The byte range of the text to replace.
    pub range: Range<usize>,
    /// The replacement, with the line ends of the file.
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

/// The rows from `from` on where the block matches, at most `max` of them.
pub(crate) fn fits(
    rows: &LineIndex<'_>,
    block: &[&str],
    closeness: Closeness,
    from: usize,
    max: usize,
) -> Vec<usize> {
    // The longest line is probably the rarest, so comparing it first rejects most rows.
    let Some(key) = (0..block.len()).max_by_key(|at| block[*at].trim().len()) else { return Vec::new() };
    if closeness == Closeness::Loose && block[key].trim().is_empty() {
        return Vec::new();
    }
    let last = (rows.len() + 1).saturating_sub(block.len());
    let fits = |row: &usize| {
        same_line(rows.line(row + key), block[key], closeness)
            && block.iter().enumerate().all(|(at, line)| same_line(rows.line(row + at), line, closeness))
    };
    (from..last).filter(fits).take(max).collect()
}

/// Infers how the block's indentation becomes that of the rows it matches. Ignores a first line that begins in the
/// middle of a row.
pub(crate) fn reindent(rows: &LineIndex<'_>, row: usize, block: &[&str]) -> Reindent {
    let pairs: Vec<(&str, &str)> = block
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (indent_of(line), indent_of(rows.line(row + at))))
        .collect();
    let inferred = Reindent::infer(&pairs);
    let Some((("", file), others)) = pairs.split_first() else { return inferred };
    let begins_inside =
        matches!(inferred, Reindent::Pairs(_)) && others.iter().all(|(text, _)| !text.is_empty());
    if begins_inside && Reindent::infer(others) == Reindent::Same {
        return Reindent::Unindented((*file).to_owned());
    }
    inferred
}

/// The steps from old lines to new ones, with the new ones reindented.
pub(crate) fn steps(old: &[&str], new: &[&str], reindent: &Reindent) -> Vec<Step> {
    let mut steps = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        let (deleted, inserted) = match op {
            DiffOp::Equal { len, .. } => {
                steps.extend(std::iter::repeat_n(Step::Keep, len));
                continue;
            }
            op => (op.old_range(), op.new_range()),
        };
        steps.extend(deleted.map(|_| Step::Delete));
        steps.extend(inserted.map(|at| Step::Insert(reindent.line(new[at]))));
    }
    steps
}

/// The splices for steps that start at a row. Keeps the last line terminated or unterminated as it was.
pub(crate) fn rewrite(rows: &LineIndex<'_>, row: usize, steps: &[Step], ending: Ending) -> Vec<TextSplice> {
    let mut splices = Vec::new();
    let (mut row, mut at) = (row, 0);
    while at < steps.len() {
        if steps[at] == Step::Keep {
            (row, at) = (row + 1, at + 1);
            continue;
        }
        let run = steps[at..].iter().take_while(|step| **step != Step::Keep).count();
        let deleted = steps[at..at + run].iter().filter(|step| **step == Step::Delete).count();
        let inserted: Vec<&str> = steps[at..at + run]
            .iter()
            .filter_map(|step| if let Step::Insert(line) = step { Some(line.as_str()) } else { None })
            .collect();
        splices.extend(replace_rows(rows, row..row + deleted, &inserted, ending));
        (row, at) = (row + deleted, at + run);
    }
    splices
}

/// The splice that replaces rows by other lines. Equal lines at both ends are left out of it.
fn replace_rows(
    rows: &LineIndex<'_>,
    mut deleted: Range<usize>,
    mut inserted: &[&str],
    ending: Ending,
) -> Option<TextSplice> {
    while let [first, rest @ ..] = inserted
        && !deleted.is_empty()
        && rows.line(deleted.start) == *first
    {
        (deleted.start, inserted) = (deleted.start + 1, rest);
    }
    while let [rest @ .., last] = inserted
        && !deleted.is_empty()
        && rows.line(deleted.end - 1) == *last
    {
        (deleted.end, inserted) = (deleted.end - 1, rest);
    }
    let ending_at = |row: usize| rows.ending(row).unwrap_or(ending).as_str();
    match (deleted.is_empty(), inserted.is_empty()) {
        (true, true) => None,
        (false, false) => {
            let mut text = String::new();
            for (at, line) in inserted.iter().enumerate() {
                if at > 0 {
                    text.push_str(ending_at((deleted.start + at - 1).min(deleted.end - 1)));
                }
                text.push_str(line);
            }
            Some(TextSplice {
                range: rows.content(deleted.start).start..rows.content(deleted.end - 1).end,
                text,
            })
        }
        (false, true) => {
            let whole = rows.whole(deleted.start).start..rows.whole(deleted.end - 1).end;
            let unended = rows.ending(deleted.end - 1).is_none() && deleted.start > 0;
            let start = if unended { rows.content(deleted.start - 1).end } else { whole.start };
            Some(TextSplice { range: start..whole.end, text: String::new() })
        }
        (true, false) => {
            let place = rows.whole(deleted.start).start;
            let after_unended =
                deleted.start >= rows.len() && rows.len() > 0 && rows.ending(rows.len() - 1).is_none();
            let mut text = String::new();
            for line in inserted {
                let end = ending_at(deleted.start.min(rows.len().saturating_sub(1)));
                let parts = if after_unended { [end, line] } else { [line, end] };
                parts.iter().for_each(|part| text.push_str(part));
            }
            Some(TextSplice { range: place..place, text })
        }
    }
}
