//! Plans patches of several files, all or nothing. A callback looks files up by their names in the patch; the plan for
//! each file is that of an edit. Knows no paths and reads no files.

mod parse;

use std::collections::BTreeSet;

use super::artifacts::placeholder;
use super::draft::{Draft, EditPlan, Follows, IgnoredDifference, Note};
use super::encoding::Source;
use super::line_index::LineIndex;
use super::line_match::{Closeness, Step, fits, reindent, rewrite, same_line};
use super::mismatch::Problem;
use super::nearest::nearest;
use super::options::{EditOptions, Leniency};
use super::reindent::Reindent;

/// Most places shown if a hunk is ambiguous.
const MAX_SHOWN: usize = 10;

/// The effect of a patch on one file.
#[derive(Clone, Debug)]
pub struct Patched {
    /// Name of the file in the patch.
    pub path: String,
    /// The effect on the file.
    pub outcome: Outcome,
}

/// The effect of a patch on a file.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Creates the file.
    Create {
        /// Its content, with `\n` line ends.
        text: String,
    },
    /// Changes the file, and perhaps moves it.
    Update {
        /// The file before the patch.
        source: Box<Source>,
        /// The changes.
        planned: EditPlan,
        /// New name, if the patch moves it.
        to: Option<String>,
    },
    /// Deletes the file.
    Delete,
}

/// Why a patch cannot be applied. No part of it is applied then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchProblem<E> {
    /// The patch changes no file.
    Nothing,
    /// Invalid syntax.
    Syntax {
        /// Line number in the patch, from 1.
        line: usize,
        /// The error.
        message: String,
    },
    /// Contradictory changes to one file.
    Twice {
        /// The file.
        path: String,
    },
    /// The look-up of a file failed.
    Lookup {
        /// The file.
        path: String,
        /// The error of the look-up.
        error: E,
    },
    /// A file to change does not exist.
    Missing {
        /// The file.
        path: String,
    },
    /// A file to create exists.
    Exists {
        /// The file.
        path: String,
    },
    /// A hunk does not match the file.
    Hunk {
        /// The file.
        path: String,
        /// Number of the hunk within the file, from 1.
        hunk: usize,
        /// Number of hunks for the file.
        of: usize,
        /// The problem.
        problem: Problem,
    },
    /// Two hunks change the same lines.
    Overlap {
        /// The file.
        path: String,
        /// Number of the later hunk, from 1.
        hunk: usize,
        /// Number of hunks for the file.
        of: usize,
    },
}

impl<E: std::fmt::Display> PatchProblem<E> {
    /// One-line error message.
    pub fn message(&self) -> String {
        match self {
            Self::Nothing => "the patch changes no file".to_owned(),
            Self::Syntax { line, message } => format!("line {line} of the patch: {message}"),
            Self::Twice { path } => format!("the patch changes `{path}` in two ways"),
            Self::Lookup { error, .. } => error.to_string(),
            Self::Missing { path } => format!("`{path}`, which the patch changes, does not exist"),
            Self::Exists { path } => format!("`{path}`, which the patch makes, exists already"),
            Self::Hunk { path, hunk, of, problem } => {
                format!("hunk {hunk} of {of} for `{path}`: {}", problem.message())
            }
            Self::Overlap { path, hunk, of } => {
                format!("hunk {hunk} of {of} for `{path}` changes lines that another one changes")
            }
        }
    }

    /// Advice on how to correct the patch.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Hunk { problem, .. } => problem.hint(),
            Self::Nothing => Some(
                "write it between `*** Begin Patch` and `*** End Patch`, or as a unified diff".to_owned(),
            ),
            Self::Exists { .. } => Some("update it, or delete it first".to_owned()),
            Self::Twice { .. } => Some("write all changes of a file in one part".to_owned()),
            _ => None,
        }
    }
}

/// A parsed change to one file.
enum Change {
    Add { path: String, text: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk>, final_newline: Option<FinalNewline> },
}

impl Change {
    fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }

    /// The file that the change creates.
    fn creates(&self) -> Option<&str> {
        match self {
            Self::Add { path, .. } => Some(path),
            Self::Update { to, .. } => to.as_deref(),
            Self::Delete { .. } => None,
        }
    }
}

/// Whether the file must end with a line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalNewline {
    Present,
    Absent,
}

/// A hunk of a patch.
#[derive(Clone, Debug, Default)]
struct Hunk {
    /// Lines that must occur before the hunk, in this order.
    context: Vec<String>,
    /// Line number from the hunk's header, from 1. Only a hint, since models miscount.
    start: Option<usize>,
    /// Whether the hunk must end at the end of the file.
    at_end: bool,
    lines: Vec<HunkLine>,
}

#[derive(Clone, Debug)]
enum HunkLine {
    Context(String),
    Delete(String),
    Insert(String),
}

/// Names of all files in a patch.
pub fn paths(patch: &str) -> Result<BTreeSet<String>, PatchProblem<String>> {
    let mut paths = BTreeSet::new();
    for change in parse::parse(patch)? {
        paths.insert(change.path().to_owned());
        paths.extend(change.creates().map(str::to_owned));
    }
    Ok(paths)
}

/// Plans a patch in either format: `*** Begin Patch`, or a unified diff.
pub fn plan_patch<E>(
    patch: &str,
    options: impl Into<EditOptions>,
    lookup: &mut dyn FnMut(&str) -> Result<Option<Source>, E>,
) -> Result<Vec<Patched>, PatchProblem<E>> {
    let options = options.into();
    let mut patched: Vec<Patched> = Vec::new();
    let mut find =
        |path: &str| lookup(path).map_err(|error| PatchProblem::Lookup { path: path.to_owned(), error });
    let mut created: BTreeSet<String> = BTreeSet::new();
    for change in parse::parse(patch)? {
        let path = change.path().to_owned();
        // Two changes must not create the same file.
        if let Some(name) = change.creates()
            && !created.insert(name.to_owned())
        {
            return Err(PatchProblem::Twice { path: name.to_owned() });
        }
        let there = find(&path)?;
        let outcome = match (change, there) {
            (Change::Add { .. }, Some(_)) => return Err(PatchProblem::Exists { path }),
            (Change::Add { text, .. }, None) => Outcome::Create { text },
            (_, None) => return Err(PatchProblem::Missing { path }),
            (Change::Delete { .. }, Some(_)) => Outcome::Delete,
            (Change::Update { to, hunks, final_newline, .. }, Some(source)) => {
                let to = to.filter(|to| *to != path);
                if let Some(to) = &to
                    && find(to)?.is_some()
                {
                    return Err(PatchProblem::Exists { path: to.clone() });
                }
                let planned = update(&source, &path, &hunks, final_newline, options)?;
                Outcome::Update { source: Box::new(source), planned, to }
            }
        };
        patched.push(Patched { path, outcome });
    }
    Ok(patched)
}

/// A hunk with its position in the file.
struct Placed {
    row: usize,
    rows: usize,
    hunk: usize,
    steps: Vec<Step>,
}

fn update<E>(
    source: &Source,
    path: &str,
    hunks: &[Hunk],
    final_newline: Option<FinalNewline>,
    options: EditOptions,
) -> Result<EditPlan, PatchProblem<E>> {
    let rows = LineIndex::new(source.text(), source.ending());
    let of = hunks.len();
    let fail =
        |at: usize| move |problem| PatchProblem::Hunk { path: path.to_owned(), hunk: at + 1, of, problem };
    let mut placed: Vec<Placed> = Vec::new();
    let mut notes = Vec::new();
    let mut cursor = 0;
    for (at, hunk) in hunks.iter().enumerate() {
        let (place, overlooked) = place(&rows, hunk, cursor, options).map_err(fail(at))?;
        notes.extend(overlooked.map(|overlooked| Note { edit: at + 1, line: place.row + 1, overlooked }));
        cursor = place.row + place.rows;
        placed.push(Placed { hunk: at, ..place });
    }
    placed.sort_by_key(|place| (place.row, place.rows));
    if let Some(pair) = placed.windows(2).find(|pair| pair[0].row + pair[0].rows > pair[1].row) {
        return Err(PatchProblem::Overlap { path: path.to_owned(), hunk: pair[1].hunk + 1, of });
    }
    let mut draft = Draft::new(source);
    draft.planned.replaced = of;
    draft.planned.notes = notes;
    let splices = placed.iter().flat_map(|place| rewrite(&rows, place.row, &place.steps, source.ending()));
    let last = of.saturating_sub(1);
    draft.apply(splices.collect(), Follows::More).map_err(fail(last))?;
    // Computed from the source, not from the new text, where a blank unterminated last line looks like a line end.
    let has_final_newline = source.text().is_empty() || source.final_newline();
    let count = |kind: fn(&Step) -> bool| {
        placed.iter().flat_map(|place| &place.steps).filter(|step| kind(step)).count()
    };
    let lines_left =
        rows.len() + count(|step| matches!(step, Step::Insert(_))) - count(|step| *step == Step::Delete);
    let (text, end) = (draft.current().text(), draft.current().ending().as_str());
    let (end_of_text, cut) = (text.len(), text.len() - if text.ends_with(end) { end.len() } else { 0 });
    let splice = match final_newline {
        Some(FinalNewline::Present) if !has_final_newline && lines_left > 0 => {
            Some((end_of_text..end_of_text, end))
        }
        Some(FinalNewline::Absent) if has_final_newline => Some((cut..end_of_text, "")),
        _ => None,
    };
    if let Some((range, text)) = splice {
        let splice = super::line_match::TextSplice { range, text: text.to_owned() };
        draft.apply(vec![splice], Follows::Nothing).map_err(fail(last))?;
    }
    Ok(draft.done())
}

/// Finds the position of a hunk and the steps that it makes there.
fn place(
    rows: &LineIndex<'_>,
    hunk: &Hunk,
    cursor: usize,
    options: EditOptions,
) -> Result<(Placed, Option<IgnoredDifference>), Problem> {
    let from = after_context(rows, &hunk.context, cursor, options)?;
    let old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Context(line) | HunkLine::Delete(line) => Some(line.as_str()),
            HunkLine::Insert(_) => None,
        })
        .collect();
    let put = |line: &HunkLine| if let HunkLine::Insert(line) = line { Some(line.clone()) } else { None };
    let new: Vec<String> = hunk.lines.iter().filter_map(put).collect();
    if let Some((line, text)) = placeholder(&old.join("\n"), &new.join("\n"), options) {
        return Err(Problem::Placeholder { line, text });
    }
    if old.is_empty() {
        let row = match (hunk.start, hunk.context.is_empty()) {
            (_, false) => from,
            (Some(start), true) => start.min(rows.len()),
            (None, true) => rows.len(),
        };
        let steps = new.into_iter().map(Step::Insert).collect();
        return Ok((Placed { row, rows: 0, hunk: 0, steps }, None));
    }
    let (row, closeness) = locate(rows, hunk, &old, from, options)?;
    let indentation = if closeness == Closeness::Loose { reindent(rows, row, &old) } else { Reindent::Same };
    if indentation == Reindent::Unclear {
        return Err(Problem::NotFound { near: nearest(rows, &old.join("\n")), numbered: false });
    }
    let step = |line: &HunkLine| match line {
        HunkLine::Context(_) => Step::Keep,
        HunkLine::Delete(_) => Step::Delete,
        HunkLine::Insert(line) => Step::Insert(indentation.line(line)),
    };
    let steps = hunk.lines.iter().map(step).collect();
    let overlooked = match closeness {
        Closeness::Exact => None,
        Closeness::Trailing => Some(IgnoredDifference::TrailingSpace),
        Closeness::Loose if indentation == Reindent::Same => Some(IgnoredDifference::Punctuation),
        Closeness::Loose => Some(IgnoredDifference::Indentation),
    };
    Ok((Placed { row, rows: old.len(), hunk: 0, steps }, overlooked))
}

/// The levels of closeness to try, strictest first.
fn closeness_levels(options: EditOptions) -> &'static [Closeness] {
    match options.leniency {
        Leniency::Exact => &[Closeness::Exact],
        Leniency::Lenient => &[Closeness::Exact, Closeness::Trailing, Closeness::Loose],
    }
}

/// The row behind the lines that must occur before a hunk.
fn after_context(
    rows: &LineIndex<'_>,
    context: &[String],
    cursor: usize,
    options: EditOptions,
) -> Result<usize, Problem> {
    let mut from = cursor;
    for line in context {
        let found = closeness_levels(options).iter().find_map(|closeness| {
            let is = |row: &usize| same_line(rows.line(*row), line, *closeness);
            (from..rows.len()).find(is).or_else(|| (0..from.min(rows.len())).find(is))
        });
        from = 1 + found.ok_or_else(|| not_found(rows, line))?;
    }
    Ok(from)
}

fn locate(
    rows: &LineIndex<'_>,
    hunk: &Hunk,
    old: &[&str],
    from: usize,
    options: EditOptions,
) -> Result<(usize, Closeness), Problem> {
    for closeness in closeness_levels(options) {
        let all = fits(rows, old, *closeness, 0, usize::MAX);
        let ends = |row: &usize| !hunk.at_end || row + old.len() == rows.len();
        let all: Vec<usize> = all.into_iter().filter(ends).collect();
        let after: Vec<usize> = all.iter().copied().filter(|row| *row >= from).collect();
        let expected = hunk.start.map(|start| start.saturating_sub(1));
        let row = match (&all[..], &after[..]) {
            ([], _) => continue,
            ([row], _) | (_, [row]) => *row,
            // Among several exact matches, the first one behind the context lines wins, or the one at the line number
            // from the header.
            (_, [first, ..]) if !hunk.context.is_empty() && *closeness == Closeness::Exact => *first,
            _ => match expected.filter(|row| all.contains(row) && *closeness == Closeness::Exact) {
                Some(row) => row,
                None => {
                    let shown = all.iter().take(MAX_SHOWN);
                    let places = shown.map(|row| (row + 1, rows.line(*row).trim().to_owned())).collect();
                    let loosely = *closeness != Closeness::Exact;
                    return Err(Problem::Several { total: all.len(), places, loosely });
                }
            },
        };
        return Ok((row, *closeness));
    }
    Err(not_found(rows, &old.join("\n")))
}

fn not_found(rows: &LineIndex<'_>, wanted: &str) -> Problem {
    Problem::NotFound { near: nearest(rows, wanted), numbered: false }
}

#[cfg(test)]
pub(super) use tests::check_unified;

#[cfg(test)]
mod tests;
