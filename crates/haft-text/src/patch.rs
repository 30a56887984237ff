//! Plans patches of several files, all or nothing. Files are looked up by the names in the patch, through
//! a function, and what a patch does to each is a plan like that of an edit. Knows no paths.

mod parse;

use std::collections::BTreeSet;

use super::draft::{Draft, Follows, Note, Overlooked, Planned};
use super::encoding::Source;
use super::fit::{Closeness, Step, fits, reindent, rewrite, same_line};
use super::gutter::placeholder;
use super::manner::{EditOptions, Leniency};
use super::mismatch::Problem;
use super::nearest::nearest;
use super::reindent::Reindent;
use super::rows::Rows;

/// How many places are shown when there are several.
const SHOWN: usize = 10;

/// What a patch does to one file.
#[derive(Clone, Debug)]
pub struct Patched {
    /// The file, as the patch names it.
    pub path: String,
    /// What happens to it.
    pub outcome: Outcome,
}

/// What happens to a file.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is made, with this text; line ends are `\n`.
    Create {
        /// The text.
        text: String,
    },
    /// It is changed, and perhaps moved.
    Update {
        /// The file as it was.
        source: Box<Source>,
        /// The changes.
        planned: Planned,
        /// Where it is moved to.
        to: Option<String>,
    },
    /// It goes.
    Delete,
}

/// Why a patch cannot be applied. None of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchProblem<E> {
    /// There is no patch.
    Nothing,
    /// It cannot be understood.
    Syntax {
        /// The line of the patch, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A file is changed in two ways.
    Twice {
        /// The file.
        path: String,
    },
    /// A file could not be looked up.
    Lookup {
        /// The file.
        path: String,
        /// Why not.
        error: E,
    },
    /// A file to change is not there.
    Missing {
        /// The file.
        path: String,
    },
    /// A file to make is there.
    Exists {
        /// The file.
        path: String,
    },
    /// A part of a file is not as the patch says.
    Hunk {
        /// The file.
        path: String,
        /// Which part of the patch for that file, from 1.
        hunk: usize,
        /// How many parts there are.
        of: usize,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Two parts of a patch change the same lines.
    Overlap {
        /// The file.
        path: String,
        /// The later part, from 1.
        hunk: usize,
        /// How many parts there are.
        of: usize,
    },
}

impl<E: std::fmt::Display> PatchProblem<E> {
    /// What went wrong, in a line.
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

    /// What to do about it.
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

/// What a patch says about a file.
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

    /// The file that is there only after the change.
    fn makes(&self) -> Option<&str> {
        match self {
            Self::Add { path, .. } => Some(path),
            Self::Update { to, .. } => to.as_deref(),
            Self::Delete { .. } => None,
        }
    }
}

/// Whether the last line is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalNewline {
    Present,
    Absent,
}

/// A part of a file and what becomes of it.
#[derive(Clone, Debug, Default)]
struct Hunk {
    /// Lines that come before it, each after the one before.
    context: Vec<String>,
    /// Where it begins, counted from 1, if the patch says so and counted right.
    start: Option<usize>,
    /// Whether it reaches to the end of the file.
    at_end: bool,
    lines: Vec<HunkLine>,
}

#[derive(Clone, Debug)]
enum HunkLine {
    Keep(String),
    Cut(String),
    Put(String),
}

/// The files that a patch names.
pub fn paths(patch: &str) -> Result<BTreeSet<String>, PatchProblem<String>> {
    let mut paths = BTreeSet::new();
    for change in parse::parse(patch)? {
        paths.insert(change.path().to_owned());
        paths.extend(change.makes().map(str::to_owned));
    }
    Ok(paths)
}

/// Plans a patch in either form.
pub fn plan_patch<E>(
    patch: &str,
    manner: impl Into<EditOptions>,
    lookup: &mut dyn FnMut(&str) -> Result<Option<Source>, E>,
) -> Result<Vec<Patched>, PatchProblem<E>> {
    let manner = manner.into();
    let mut patched: Vec<Patched> = Vec::new();
    let mut find =
        |path: &str| lookup(path).map_err(|error| PatchProblem::Lookup { path: path.to_owned(), error });
    let mut made: BTreeSet<String> = BTreeSet::new();
    for change in parse::parse(patch)? {
        let path = change.path().to_owned();
        // Two changes must not end in one file.
        if let Some(made_here) = change.makes()
            && !made.insert(made_here.to_owned())
        {
            return Err(PatchProblem::Twice { path: made_here.to_owned() });
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
                let planned = update(&source, &path, &hunks, final_newline, manner)?;
                Outcome::Update { source: Box::new(source), planned, to }
            }
        };
        patched.push(Patched { path, outcome });
    }
    Ok(patched)
}

/// A hunk with its place.
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
    manner: EditOptions,
) -> Result<Planned, PatchProblem<E>> {
    let rows = Rows::new(source.text(), source.ending());
    let of = hunks.len();
    let fail =
        |at: usize| move |problem| PatchProblem::Hunk { path: path.to_owned(), hunk: at + 1, of, problem };
    let mut placed: Vec<Placed> = Vec::new();
    let mut notes = Vec::new();
    let mut cursor = 0;
    for (at, hunk) in hunks.iter().enumerate() {
        let (place, overlooked) = place(&rows, hunk, cursor, manner).map_err(fail(at))?;
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
    // Not read off the text: a last line that is blank and not ended looks like an end.
    let ends = source.text().is_empty() || source.final_newline();
    let count = |kind: fn(&Step) -> bool| {
        placed.iter().flat_map(|place| &place.steps).filter(|step| kind(step)).count()
    };
    let lines_left =
        rows.len() + count(|step| matches!(step, Step::Put(_))) - count(|step| *step == Step::Cut);
    let (text, end) = (draft.current().text(), draft.current().ending().as_str());
    let (end_of_text, cut) = (text.len(), text.len() - if text.ends_with(end) { end.len() } else { 0 });
    let splice = match final_newline {
        Some(FinalNewline::Present) if !ends && lines_left > 0 => Some((end_of_text..end_of_text, end)),
        Some(FinalNewline::Absent) if ends => Some((cut..end_of_text, "")),
        _ => None,
    };
    if let Some((range, text)) = splice {
        let splice = super::fit::TextSplice { range, text: text.to_owned() };
        draft.apply(vec![splice], Follows::Nothing).map_err(fail(last))?;
    }
    Ok(draft.done())
}

/// Where a hunk goes and what it does there.
fn place(
    rows: &Rows<'_>,
    hunk: &Hunk,
    cursor: usize,
    manner: EditOptions,
) -> Result<(Placed, Option<Overlooked>), Problem> {
    let from = after_context(rows, &hunk.context, cursor, manner)?;
    let old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Keep(line) | HunkLine::Cut(line) => Some(line.as_str()),
            HunkLine::Put(_) => None,
        })
        .collect();
    let put = |line: &HunkLine| if let HunkLine::Put(line) = line { Some(line.clone()) } else { None };
    let new: Vec<String> = hunk.lines.iter().filter_map(put).collect();
    if let Some((line, text)) = placeholder(&old.join("\n"), &new.join("\n"), manner) {
        return Err(Problem::Placeholder { line, text });
    }
    if old.is_empty() {
        let row = match (hunk.start, hunk.context.is_empty()) {
            (_, false) => from,
            (Some(start), true) => start.min(rows.len()),
            (None, true) => rows.len(),
        };
        let steps = new.into_iter().map(Step::Put).collect();
        return Ok((Placed { row, rows: 0, hunk: 0, steps }, None));
    }
    let (row, closeness) = locate(rows, hunk, &old, from, manner)?;
    let learnt = if closeness == Closeness::Loose { reindent(rows, row, &old) } else { Reindent::Same };
    if learnt == Reindent::Unclear {
        return Err(Problem::NotFound { near: nearest(rows, &old.join("\n")), numbered: false });
    }
    let step = |line: &HunkLine| match line {
        HunkLine::Keep(_) => Step::Keep,
        HunkLine::Cut(_) => Step::Cut,
        HunkLine::Put(line) => Step::Put(learnt.line(line)),
    };
    let steps = hunk.lines.iter().map(step).collect();
    let overlooked = match closeness {
        Closeness::Exact => None,
        Closeness::Trailing => Some(Overlooked::TrailingSpace),
        Closeness::Loose if learnt == Reindent::Same => Some(Overlooked::Punctuation),
        Closeness::Loose => Some(Overlooked::Indentation),
    };
    Ok((Placed { row, rows: old.len(), hunk: 0, steps }, overlooked))
}

fn closenesses(manner: EditOptions) -> &'static [Closeness] {
    match manner.leniency {
        Leniency::Exact => &[Closeness::Exact],
        Leniency::Lenient => &[Closeness::Exact, Closeness::Trailing, Closeness::Loose],
    }
}

/// The row after the lines that are to come before a hunk.
fn after_context(
    rows: &Rows<'_>,
    context: &[String],
    cursor: usize,
    manner: EditOptions,
) -> Result<usize, Problem> {
    let mut from = cursor;
    for line in context {
        let found = closenesses(manner).iter().find_map(|closeness| {
            let is = |row: &usize| same_line(rows.line(*row), line, *closeness);
            (from..rows.len()).find(is).or_else(|| (0..from.min(rows.len())).find(is))
        });
        from = 1 + found.ok_or_else(|| not_found(rows, line))?;
    }
    Ok(from)
}

fn locate(
    rows: &Rows<'_>,
    hunk: &Hunk,
    old: &[&str],
    from: usize,
    manner: EditOptions,
) -> Result<(usize, Closeness), Problem> {
    for closeness in closenesses(manner) {
        let all = fits(rows, old, *closeness, 0, usize::MAX);
        let ends = |row: &usize| !hunk.at_end || row + old.len() == rows.len();
        let all: Vec<usize> = all.into_iter().filter(ends).collect();
        let after: Vec<usize> = all.iter().copied().filter(|row| *row >= from).collect();
        let expected = hunk.start.map(|start| start.saturating_sub(1));
        let row = match (&all[..], &after[..]) {
            ([], _) => continue,
            ([row], _) | (_, [row]) => *row,
            // The first after the lines that were named, or the one at the number that was given.
            (_, [first, ..]) if !hunk.context.is_empty() && *closeness == Closeness::Exact => *first,
            _ => match expected.filter(|row| all.contains(row) && *closeness == Closeness::Exact) {
                Some(row) => row,
                None => {
                    let shown = all.iter().take(SHOWN);
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

fn not_found(rows: &Rows<'_>, wanted: &str) -> Problem {
    Problem::NotFound { near: nearest(rows, wanted), numbered: false }
}

#[cfg(test)]
pub(super) use tests::check_unified;

#[cfg(test)]
mod tests;
