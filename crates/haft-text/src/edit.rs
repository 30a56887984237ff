//! Plans edits of one file: what is replaced by what, one after another, all or nothing. A plan is a list
//! of splices of bytes, so nothing outside of what changes can be touched. Reads and writes nothing.

use std::collections::BTreeSet;
use std::ops::Range;

use super::draft::{Draft, Follows, Note, Overlooked, Planned};
use super::encoding::{Ending, Source};
use super::find::{Sameness, Wanted, find, forward, normal};
use super::fit::{Closeness, TextSplice, fits, reindent, rewrite, same_line, steps};
use super::gutter::{placeholder, without_numbers};
use super::manner::{EditOptions, Leniency};
use super::mismatch::{Mismatch, Problem};
use super::nearest::{Nearest, nearest};
use super::reindent::{Reindent, indent_of};
use super::rows::{Rows, line_number};

/// How many places are shown when there are several.
const SHOWN: usize = 10;
/// More places are not changed at once.
const MAX_PLACES: usize = 200_000;
/// A longer line is shown by its beginning.
const SHOWN_CHARS: usize = 120;
/// Larger texts are not searched for places that come near.
const MAX_LENIENT: usize = 32 * 1024 * 1024;

/// One text for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// What is there now. Its line ends need not be those of the file.
    pub old: String,
    /// What comes instead, to the letter but for line ends, which follow the file.
    pub new: String,
    /// Where.
    pub occurrences: Occurrences,
}

/// Where a text is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// At the one place where it is.
    Only,
    /// Wherever it is.
    All,
}

/// Plans edits, each on what the ones before it leave.
pub fn plan(source: &Source, edits: &[Replace], manner: impl Into<EditOptions>) -> Result<Planned, Mismatch> {
    let manner = manner.into();
    let mut draft = Draft::new(source);
    for (at, edit) in edits.iter().enumerate() {
        let fail = |problem| Mismatch { edit: at + 1, of: edits.len(), problem };
        let change = one(draft.current(), edit, manner).map_err(fail)?;
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

/// What one edit does.
struct Change {
    /// Where the first place begins; what is spliced may begin later.
    at: usize,
    splices: Vec<TextSplice>,
    count: usize,
    overlooked: BTreeSet<Overlooked>,
}

fn one(source: &Source, edit: &Replace, manner: EditOptions) -> Result<Change, Problem> {
    if edit.old.is_empty() {
        return Err(Problem::Empty);
    }
    if edit.old == edit.new {
        return Err(Problem::Same);
    }
    let (old, new) = (normal(&edit.old, source.ending()), normal(&edit.new, source.ending()));
    if old == new {
        return Err(Problem::SameButLineEnds);
    }
    if let Some((line, text)) = placeholder(&old, &new, manner) {
        return Err(Problem::Placeholder { line, text });
    }
    if let Some(change) = exact(source, &old, &new, edit.occurrences)? {
        return Ok(change);
    }
    let stripped = without_numbers(&old);
    if manner.leniency == Leniency::Lenient {
        if let Some(change) = lenient(source, &old, &new)? {
            return Ok(change);
        }
        if let Some(old) = &stripped
            && let Some(mut change) = unnumbered(source, old, &new)?
        {
            change.overlooked.insert(Overlooked::LineNumbers);
            return Ok(change);
        }
    }
    let numbered = stripped.is_some();
    let wanted = stripped.as_deref().unwrap_or(&old);
    let near = match source.text().len() {
        0 => Nearest::EmptyFile,
        len if len > MAX_LENIENT => Nearest::NotSought,
        _ => nearest(&Rows::new(source.text(), source.ending()), wanted),
    };
    Err(Problem::NotFound { near, numbered })
}

fn exact(source: &Source, old: &str, new: &str, occurrences: Occurrences) -> Result<Option<Change>, Problem> {
    let wanted = match occurrences {
        Occurrences::Only => Wanted::Candidates(SHOWN),
        Occurrences::All => Wanted::Disjoint,
    };
    let found = find(source.text(), old, source.endings(), Sameness::Exact, wanted);
    match (found.total, occurrences) {
        (0, _) => Ok(None),
        (total, Occurrences::All) if total > MAX_PLACES => Err(Problem::TooMany { total, most: MAX_PLACES }),
        (1, _) | (_, Occurrences::All) => {
            let splice = |place| replace(source, place, old, new, Sameness::Exact);
            let at = found.places.first().map_or(0, |place| place.start);
            let splices = found.places.into_iter().map(splice).collect();
            Ok(Some(Change { at, splices, count: found.total, overlooked: BTreeSet::new() }))
        }
        (total, Occurrences::Only) => {
            let starts = found.places.iter().map(|place| place.start);
            Err(several(source, starts, total, Looseness::Exact))
        }
    }
}

/// Numbers in front of every line go from the old text, and from the new one if it has them.
fn unnumbered(source: &Source, old: &str, new: &str) -> Result<Option<Change>, Problem> {
    let new = without_numbers(new).unwrap_or_else(|| new.to_owned());
    if old.trim().is_empty() || old == new {
        return Ok(None);
    }
    match exact(source, old, &new, Occurrences::Only)? {
        Some(change) => Ok(Some(change)),
        None => lenient(source, old, &new),
    }
}

/// The one place that differs only in what does not count, if there is one.
fn lenient(source: &Source, old: &str, new: &str) -> Result<Option<Change>, Problem> {
    let text = source.text();
    if text.len() > MAX_LENIENT {
        return Ok(None);
    }
    let alike = find(text, old, source.endings(), Sameness::LookAlike, Wanted::Candidates(SHOWN));
    let rows = Rows::new(text, source.ending());
    let (old_lines, new_lines) = (block(old), block(new));
    let loose = fits(&rows, &old_lines, Closeness::Loose, 0, SHOWN);
    let mut places: BTreeSet<usize> = loose.iter().map(|row| rows.content(*row).start).collect();
    let in_rows: BTreeSet<usize> = loose.iter().copied().collect();
    let elsewhere = alike.places.iter().filter(|place| !in_rows.contains(&rows.row_at(place.start)));
    places.extend(elsewhere.map(|place| place.start));
    let total = places.len().max(alike.total);
    if total > 1 {
        return Err(several(source, places.into_iter(), total, Looseness::Loose));
    }
    if let [place] = &alike.places[..] {
        let splices = vec![replace(source, place.clone(), old, new, Sameness::LookAlike)];
        let overlooked = [Overlooked::Punctuation].into();
        return Ok(Some(Change { at: place.start, splices, count: 1, overlooked }));
    }
    let [row] = loose[..] else { return Ok(None) };
    // Lines can be exchanged for lines, but not joined with what follows them.
    if old.ends_with('\n') && !new.is_empty() && !new.ends_with('\n') {
        return Ok(None);
    }
    let new_lines =
        if old.ends_with('\n') || !new.ends_with('\n') { new_lines } else { new.split('\n').collect() };
    let learnt = reindent(&rows, row, &old_lines);
    if learnt == Reindent::Unclear {
        return Ok(None);
    }
    let splices = rewrite(&rows, row, &steps(&old_lines, &new_lines, &learnt), source.ending());
    if splices.is_empty() {
        return Ok(None);
    }
    let (at, overlooked) = (rows.content(row).start, overlooked(&rows, row, &old_lines));
    Ok(Some(Change { at, splices, count: 1, overlooked }))
}

/// The lines of a text; what follows the last line end is none.
fn block(text: &str) -> Vec<&str> {
    match text.strip_suffix('\n') {
        Some(text) => text.split('\n').collect(),
        None if text.is_empty() => Vec::new(),
        None => text.split('\n').collect(),
    }
}

fn overlooked(rows: &Rows<'_>, row: usize, block: &[&str]) -> BTreeSet<Overlooked> {
    let mut all = BTreeSet::new();
    for (at, line) in block.iter().enumerate() {
        let there = rows.line(row + at);
        if indent_of(there) != indent_of(line) && !line.trim().is_empty() {
            all.insert(Overlooked::Indentation);
        }
        if !same_line(there.trim(), line.trim(), Closeness::Exact) {
            all.insert(Overlooked::Punctuation);
        }
        if there[there.trim_end().len()..] != line[line.trim_end().len()..] {
            all.insert(Overlooked::TrailingSpace);
        }
    }
    // Lines that are all the same were missed for one reason only.
    if all.is_empty() {
        all.insert(Overlooked::FinalNewline);
    }
    all
}

/// How places were found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looseness {
    Exact,
    Loose,
}

fn several(
    source: &Source,
    starts: impl Iterator<Item = usize>,
    total: usize,
    looseness: Looseness,
) -> Problem {
    let text = source.text();
    let (mut line, mut at) = (1, 0);
    let places = starts
        .take(SHOWN)
        .map(|start| {
            line += source_breaks(&text[at..start], source.ending());
            at = start;
            (line, line_at(text, start))
        })
        .collect();
    Problem::Several { total, places, loosely: looseness == Looseness::Loose }
}

fn source_breaks(text: &str, ending: Ending) -> usize {
    line_number(text, text.len(), ending) - 1
}

/// The line around a place, cut if it is long.
fn line_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let line = text[start..].trim_start_matches(['\n', '\r']);
    let line = line.split(['\n', '\r']).next().unwrap_or_default().trim();
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

/// The new text at a place, without what both texts begin and end with.
fn replace(source: &Source, place: Range<usize>, old: &str, new: &str, same: Sameness) -> TextSplice {
    let ending = source.ending();
    let there = &source.text()[place.clone()];
    let prefix: usize =
        old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let ends = old_rest.chars().rev().zip(new_rest.chars().rev());
    let suffix: usize = ends.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let middle = prefix..old.len() - suffix;
    let spot = || {
        let start = forward(there, &old[..middle.start], ending, same)?;
        let len = forward(&there[start..], &old[middle.clone()], ending, same)?;
        let range = place.start + start..place.start + start + len;
        source.byte_range(&range).is_some().then_some(range)
    };
    let (range, text) = match spot() {
        Some(range) => (range, &new_rest[..new_rest.len() - suffix]),
        None => (place, new),
    };
    let text = ending_near(source, range.start).apply(text);
    TextSplice { range, text }
}

/// How the line at a place ends, where not all lines of the file end alike.
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
