//! Plans replacements of text in one file, one after another, all or nothing. A plan is a list of byte splices, so bytes
//! outside of a replacement stay untouched. Reads and writes no files.

use std::collections::BTreeSet;
use std::ops::Range;

use super::artifacts::{placeholder, without_numbers};
use super::clusters::clip;
use super::draft::{Draft, EditPlan, Follows, IgnoredDifference, Note};
use super::encoding::{Ending, Source};
use super::find::{CharMatch, Search, find, forward, normalize_line_ends};
use super::line_index::{LineIndex, line_number};
use super::line_match::{Closeness, TextSplice, fits, reindent, rewrite, same_line, steps};
use super::mismatch::{Mismatch, Problem};
use super::nearest::{Nearest, nearest};
use super::options::{EditOptions, Leniency};
use super::reindent::{Reindent, indent_of};

/// Most places shown if the old text is ambiguous.
const MAX_SHOWN: usize = 10;
/// Most occurrences that one edit replaces.
const MAX_PLACES: usize = 200_000;
/// Most characters shown of a line.
const MAX_SHOWN_CHARS: usize = 120;
/// Largest text, in bytes, that is searched for lenient matches and similar places.
const MAX_LENIENT: usize = 32 * 1024 * 1024;

/// Replaces one text by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// The old text. Its line ends may differ from those of the file.
    pub old: String,
    /// The new text, written exactly except for line ends, which follow the file.
    pub new: String,
    /// Which occurrences to replace.
    pub occurrences: Occurrences,
}

/// Which occurrences of a text are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// The only occurrence; several are an error.
    Only,
    /// Every occurrence.
    All,
}

/// Plans edits, each on the result of the ones before.
pub fn plan(
    source: &Source,
    edits: &[Replace],
    options: impl Into<EditOptions>,
) -> Result<EditPlan, Mismatch> {
    let options = options.into();
    let mut draft = Draft::new(source);
    for (at, edit) in edits.iter().enumerate() {
        let fail = |problem| Mismatch { edit: at + 1, of: edits.len(), problem };
        let change = plan_one(draft.current(), edit, options).map_err(fail)?;
        if !change.overlooked.is_empty() {
            let line = line_number(draft.current().text(), change.at, draft.current().ending());
            let note = |overlooked| Note { edit: at + 1, line, overlooked };
            draft.planned.notes.extend(change.overlooked.into_iter().map(note));
        }
        draft.planned.replaced += change.count;
        draft.apply(change.splices, Follows::after(at, edits.len())).map_err(fail)?;
    }
    Ok(draft.done())
}

/// The effect of one edit.
struct Change {
    /// Start of the first match; the splices may begin later, since they leave out equal text.
    at: usize,
    splices: Vec<TextSplice>,
    count: usize,
    overlooked: BTreeSet<IgnoredDifference>,
}

fn plan_one(source: &Source, edit: &Replace, options: EditOptions) -> Result<Change, Problem> {
    if edit.old.is_empty() {
        return Err(Problem::Empty);
    }
    if edit.old == edit.new {
        return Err(Problem::Same);
    }
    let (old, new) =
        (normalize_line_ends(&edit.old, source.ending()), normalize_line_ends(&edit.new, source.ending()));
    if old == new {
        return Err(Problem::SameButLineEnds);
    }
    if let Some((line, text)) = placeholder(&old, &new, options) {
        return Err(Problem::Placeholder { line, text });
    }
    if let Some(change) = exact(source, &old, &new, edit.occurrences)? {
        return Ok(change);
    }
    let stripped = without_numbers(&old);
    if options.leniency == Leniency::Lenient {
        if let Some(change) = lenient(source, &old, &new)? {
            return Ok(change);
        }
        if let Some(old) = &stripped
            && let Some(mut change) = without_copied_numbers(source, old, &new)?
        {
            change.overlooked.insert(IgnoredDifference::LineNumbers);
            return Ok(change);
        }
    }
    let numbered = stripped.is_some();
    let wanted = stripped.as_deref().unwrap_or(&old);
    let near = match source.text().len() {
        0 => Nearest::EmptyFile,
        len if len > MAX_LENIENT => Nearest::NotSought,
        _ => nearest(&LineIndex::new(source.text(), source.ending()), wanted),
    };
    Err(Problem::NotFound { near, numbered })
}

fn exact(source: &Source, old: &str, new: &str, occurrences: Occurrences) -> Result<Option<Change>, Problem> {
    let search = match occurrences {
        Occurrences::Only => Search::Candidates(MAX_SHOWN),
        Occurrences::All => Search::Disjoint,
    };
    let found = find(source.text(), old, source.endings(), CharMatch::Exact, search);
    match (found.total, occurrences) {
        (0, _) => Ok(None),
        (total, Occurrences::All) if total > MAX_PLACES => Err(Problem::TooMany { total, most: MAX_PLACES }),
        (1, _) | (_, Occurrences::All) => {
            let splice = |place| replace(source, place, old, new, CharMatch::Exact);
            let at = found.ranges.first().map_or(0, |place| place.start);
            let splices = found.ranges.into_iter().map(splice).collect();
            Ok(Some(Change { at, splices, count: found.total, overlooked: BTreeSet::new() }))
        }
        (total, Occurrences::Only) => {
            let starts = found.ranges.iter().map(|place| place.start);
            Err(ambiguous(source, starts, total, Looseness::Exact))
        }
    }
}

/// Plans an edit whose old text had copied line numbers; removes them from the new text as well if it has them.
fn without_copied_numbers(source: &Source, old: &str, new: &str) -> Result<Option<Change>, Problem> {
    let new = without_numbers(new).unwrap_or_else(|| new.to_owned());
    if old.trim().is_empty() || old == new {
        return Ok(None);
    }
    match exact(source, old, &new, Occurrences::Only)? {
        Some(change) => Ok(Some(change)),
        None => lenient(source, old, &new),
    }
}

/// The only place that matches if surrounding white space and look-alike punctuation are ignored. Several are an error:
/// leniency never chooses between places.
fn lenient(source: &Source, old: &str, new: &str) -> Result<Option<Change>, Problem> {
    let text = source.text();
    if text.len() > MAX_LENIENT {
        return Ok(None);
    }
    let alike = find(text, old, source.endings(), CharMatch::LookAlike, Search::Candidates(MAX_SHOWN));
    let rows = LineIndex::new(text, source.ending());
    let (old_lines, new_lines) = (block(old), block(new));
    let loose = fits(&rows, &old_lines, Closeness::Loose, 0, MAX_SHOWN);
    let mut places: BTreeSet<usize> = loose.iter().map(|row| rows.content(*row).start).collect();
    let in_rows: BTreeSet<usize> = loose.iter().copied().collect();
    let elsewhere = alike.ranges.iter().filter(|place| !in_rows.contains(&rows.row_at(place.start)));
    places.extend(elsewhere.map(|place| place.start));
    let total = places.len().max(alike.total);
    if total > 1 {
        return Err(ambiguous(source, places.into_iter(), total, Looseness::Loose));
    }
    if let [place] = &alike.ranges[..] {
        let splices = vec![replace(source, place.clone(), old, new, CharMatch::LookAlike)];
        let overlooked = [IgnoredDifference::Punctuation].into();
        return Ok(Some(Change { at: place.start, splices, count: 1, overlooked }));
    }
    let [row] = loose[..] else { return Ok(None) };
    // A lenient match replaces whole lines, so it cannot join the last one with the text behind it.
    if old.ends_with('\n') && !new.is_empty() && !new.ends_with('\n') {
        return Ok(None);
    }
    let new_lines =
        if old.ends_with('\n') || !new.ends_with('\n') { new_lines } else { new.split('\n').collect() };
    let indentation = reindent(&rows, row, &old_lines);
    if indentation == Reindent::Unclear {
        return Ok(None);
    }
    let splices = rewrite(&rows, row, &steps(&old_lines, &new_lines, &indentation), source.ending());
    if splices.is_empty() {
        return Ok(None);
    }
    let (at, overlooked) = (rows.content(row).start, ignored_differences(&rows, row, &old_lines));
    Ok(Some(Change { at, splices, count: 1, overlooked }))
}

/// The lines of a text; a final line end adds no empty line.
fn block(text: &str) -> Vec<&str> {
    match text.strip_suffix('\n') {
        Some(text) => text.split('\n').collect(),
        None if text.is_empty() => Vec::new(),
        None => text.split('\n').collect(),
    }
}

/// The kinds of difference between a block and the rows that it matched.
fn ignored_differences(rows: &LineIndex<'_>, row: usize, block: &[&str]) -> BTreeSet<IgnoredDifference> {
    let mut all = BTreeSet::new();
    for (at, line) in block.iter().enumerate() {
        let there = rows.line(row + at);
        if indent_of(there) != indent_of(line) && !line.trim().is_empty() {
            all.insert(IgnoredDifference::Indentation);
        }
        if !same_line(there.trim(), line.trim(), Closeness::Exact) {
            all.insert(IgnoredDifference::Punctuation);
        }
        if there[there.trim_end().len()..] != line[line.trim_end().len()..] {
            all.insert(IgnoredDifference::TrailingSpace);
        }
    }
    // If all lines are equal, the exact search can only have failed at a missing final line end.
    if all.is_empty() {
        all.insert(IgnoredDifference::FinalNewline);
    }
    all
}

/// How the places matched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looseness {
    Exact,
    Loose,
}

/// The error for an ambiguous old text.
fn ambiguous(
    source: &Source,
    starts: impl Iterator<Item = usize>,
    total: usize,
    looseness: Looseness,
) -> Problem {
    let text = source.text();
    let (mut line, mut at) = (1, 0);
    let places = starts
        .take(MAX_SHOWN)
        .map(|start| {
            line += count_line_ends(&text[at..start], source.ending());
            at = start;
            (line, line_at(text, start))
        })
        .collect();
    Problem::Several { total, places, loosely: looseness == Looseness::Loose }
}

fn count_line_ends(text: &str, ending: Ending) -> usize {
    line_number(text, text.len(), ending) - 1
}

/// The line that contains a position, trimmed and cut if it is long.
fn line_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let line = text[start..].trim_start_matches(['\n', '\r']);
    let line = line.split(['\n', '\r']).next().unwrap_or_default().trim();
    match clip(line, MAX_SHOWN_CHARS) {
        Some(start) => format!("{start}…"),
        None => line.to_owned(),
    }
}

/// The splice for one match, without the prefix and suffix that both texts share: unchanged text keeps its bytes.
fn replace(source: &Source, place: Range<usize>, old: &str, new: &str, char_match: CharMatch) -> TextSplice {
    let ending = source.ending();
    let there = &source.text()[place.clone()];
    let prefix: usize =
        old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let ends = old_rest.chars().rev().zip(new_rest.chars().rev());
    let suffix: usize = ends.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let middle = prefix..old.len() - suffix;
    let changed_range = || {
        let start = forward(there, &old[..middle.start], ending, char_match)?;
        let len = forward(&there[start..], &old[middle.clone()], ending, char_match)?;
        let range = place.start + start..place.start + start + len;
        source.byte_range(&range).is_some().then_some(range)
    };
    let (range, text) = match changed_range() {
        Some(range) => (range, &new_rest[..new_rest.len() - suffix]),
        None => (place, new),
    };
    let text = ending_near(source, range.start).apply(text);
    TextSplice { range, text }
}

/// The line ending at a position of a file with mixed ones; the file's ending otherwise.
fn ending_near(source: &Source, at: usize) -> Ending {
    if !source.endings().mixed() {
        return source.ending();
    }
    let text = source.text();
    match memchr::memchr(b'\n', &text.as_bytes()[at..]).map(|end| at + end) {
        Some(end) if text[..end].ends_with('\r') => Ending::CrLf,
        Some(_) => Ending::Lf,
        None => source.ending(),
    }
}

#[cfg(test)]
mod tests;
