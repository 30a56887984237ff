//! Syntax checks after a change: what is wrong with a file now that was not wrong before. A check is a
//! help, never a judge: where a checker cannot tell, it says nothing. This module knows texts and names,
//! no files and no dialect; which language is checked how is in `table`.

mod balance;
mod data;
mod depth;
mod exact;
mod grammar;
mod parts;
mod prepare;
mod python;
mod recent;
mod rust;
mod scan;
mod script;
mod shown;
mod stack;
mod statements;
mod table;
mod tags;
#[cfg(test)]
mod tests;
mod tokens;
mod yaml;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
pub use shown::Found;
use stack::with_stack;

/// How many errors are told at the most; the rest is counted.
pub const MAX_SHOWN: usize = 10;
/// How many errors a checker need not go beyond.
pub const MAX_PROBLEMS: usize = 1000;
/// Files larger than this are not checked.
pub const MAX_BYTES: usize = 1024 * 1024;
/// A file with a longer line than this is made by a machine, and not checked.
pub const MAX_LINE: usize = 20_000;

/// Finds what is wrong with the syntax of one kind of file.
pub trait Checker: Send + Sync + 'static {
    /// What the language is called.
    fn name(&self) -> &'static str;

    /// All errors, in order, or the first [`MAX_PROBLEMS`] of them; `None` where the checker cannot tell. The text
    /// has no byte order mark, and its lines end as they do in the file.
    fn check(&self, text: &str) -> Option<Vec<Problem>>;

    /// Whether a text without errors has none either, as a rule, when a part that begins at the margin is left out of it.
    /// Then a change of a text that has an error is checked without the part that holds the error. Default: false.
    fn can_leave_out_parts(&self) -> bool {
        false
    }

    /// Whether [`prepare`](Self::prepare) makes the check of the next change quicker. Default: false.
    fn can_prepare(&self) -> bool {
        false
    }

    /// Parses a text that may be changed next, to keep what its checks can use. A background thread calls it. By default
    /// it does nothing.
    fn prepare(&self, _text: &str) {}

    /// Checks a small change incrementally, in a fraction of a millisecond, if the checker has cached what it needs of
    /// the text before. `None` where the whole text has to be parsed, which is also so for a change that breaks it.
    /// Default: `None`.
    fn recheck(&self, _before: &str, _after: &str) -> Option<Introduced> {
        None
    }

    /// The errors that came with a change; `before` is `None` for a new file. By default, an error was there
    /// before if the same message was told of the same line, wherever it stood.
    fn introduced(&self, before: Option<&str>, after: &str) -> Option<Introduced> {
        let problems = self.check(after)?;
        // A text without errors has no new ones, so the text before need not be parsed.
        let Some(before) = before.filter(|_| !problems.is_empty()) else {
            return Some(Introduced { problems, existing: 0 });
        };
        let known = self.check(before)?;
        // Beyond so many, nobody can say which are new.
        (known.len() < MAX_PROBLEMS).then(|| Introduced::between(&known, before, problems, after))
    }
}

/// An error in the syntax of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// On which line, from one.
    pub line: usize,
    /// At which character of the line, from one.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// What a change brought in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduced {
    /// The new errors, in order.
    pub problems: Vec<Problem>,
    /// How many errors the text has that it had before, as far as it was read.
    pub existing: usize,
}

impl Introduced {
    /// Which of the problems of a text are not known from the text before.
    pub fn between(known: &[Problem], before: &str, problems: Vec<Problem>, after: &str) -> Self {
        let (old_lines, new_lines) = (lines(before), lines(after));
        let mut left: HashMap<(String, &str), usize> = HashMap::new();
        for problem in known {
            *left.entry(problem.identity(&old_lines)).or_default() += 1;
        }
        let all = problems.len();
        let mut problems = problems;
        problems.retain(|problem| match left.get_mut(&problem.identity(&new_lines)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        Self { existing: all - problems.len(), problems }
    }
}

impl Problem {
    /// What stays the same when lines move: the message without line numbers, and the text of the line.
    fn identity<'a>(&self, lines: &[&'a str]) -> (String, &'a str) {
        let mut message = String::new();
        for (at, part) in self.message.split("line ").enumerate() {
            message += if at == 0 { part } else { part.trim_start_matches(|c: char| c.is_ascii_digit()) };
        }
        (message, lines.get(self.line.saturating_sub(1)).map_or("", |line| line.trim()))
    }
}

/// The checkers, by the names of files. Cheap to clone.
#[derive(Clone)]
pub struct Checkers {
    entries: Arc<Vec<Entry>>,
}

#[derive(Clone)]
struct Entry {
    names: Vec<Pattern>,
    checker: Option<Arc<dyn Checker>>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What the checker is called.
    pub checker: &'static str,
    /// The errors that the change brought in, at most [`MAX_SHOWN`].
    pub errors: Vec<Found>,
    /// How many more it brought in.
    pub more: usize,
    /// How many errors were there before the change, as far as the file was read.
    pub existing: usize,
}

impl Checked {
    /// The result for a checker and what it found in the text after a change.
    fn new(checker: &'static str, introduced: Introduced, after: &str) -> Self {
        let Introduced { mut problems, existing } = introduced;
        let lines = if problems.is_empty() { Vec::new() } else { lines(after) };
        // A parser may stop on the line after the last.
        problems.iter_mut().for_each(|problem| problem.line = problem.line.clamp(1, lines.len()));
        let errors = problems.iter().take(MAX_SHOWN).map(|problem| Found::new(problem, &lines)).collect();
        Self { checker, errors, more: problems.len().saturating_sub(MAX_SHOWN), existing }
    }

    /// Whether the change brought in no errors.
    pub fn passed(&self) -> bool {
        self.errors.is_empty()
    }
}

impl Default for Checkers {
    fn default() -> Self {
        Self::standard()
    }
}

impl Checkers {
    /// No checkers: nothing is checked.
    pub fn none() -> Self {
        Self { entries: Arc::default() }
    }

    /// The checkers that come with haft.
    pub fn standard() -> Self {
        static STANDARD: LazyLock<Checkers> = LazyLock::new(table::checkers);
        STANDARD.clone()
    }

    /// Adds a checker for files of these names. A name is matched as a whole; one `*` in it stands for anything
    /// (`*.py`, `tsconfig*.json`), and with a `/` it is matched with the folder (`.vscode/*.json`). The checker
    /// that was added last is asked.
    #[must_use]
    pub fn with(self, names: &[&str], checker: impl Checker) -> Self {
        self.add(names, Some(Arc::new(checker)))
    }

    /// Leaves files of these names unchecked.
    #[must_use]
    pub fn without(self, names: &[&str]) -> Self {
        self.add(names, None)
    }

    fn add(mut self, names: &[&str], checker: Option<Arc<dyn Checker>>) -> Self {
        let names = names.iter().map(|name| Pattern::of(name)).collect();
        Arc::make_mut(&mut self.entries).push(Entry { names, checker });
        self
    }

    /// What a change of a file brought in; `before` is `None` for a new file. `None` where no checker can help: the
    /// kind is unknown, or the text is too large, too deep or made by a machine. It takes up to some milliseconds.
    pub fn compare(&self, file_name: &str, before: Option<&str>, after: &str) -> Option<Checked> {
        let checker = self.find(file_name)?;
        let quick = before.and_then(|before| self.recheck(file_name, before, after));
        quick.or_else(|| {
            let after = readable(after)?;
            // A file that could not be checked before had errors that nobody knows.
            let before = before.map(readable).map_or(Some(None), |text| text.map(Some))?;
            let bytes = before.map_or(0, str::len).max(after.len());
            let introduced = with_stack(bytes, || introduced(&**checker, before, after))?;
            Some(Checked::new(checker.name(), introduced, after))
        })
    }

    /// Checks a small change incrementally, in a fraction of a millisecond. `None` unless the text before was checked or
    /// [prepared](Self::prepare) and the change brings nothing in: then [`compare`](Self::compare) can tell.
    pub fn recheck(&self, file_name: &str, before: &str, after: &str) -> Option<Checked> {
        let checker = self.find(file_name)?;
        // A checker caches only what is readable, so that is known of the text before.
        let (before, after) = (unmarked(before), readable(after)?);
        let bytes = before.len().max(after.len());
        let introduced = with_stack(bytes, || checker.recheck(before, after))?;
        Some(Checked::new(checker.name(), introduced, after))
    }

    /// Parses a file's text on a background thread, if that makes the check of its next change quicker. The call returns
    /// at once. When too many texts wait for the thread already, it skips this one.
    pub fn prepare(&self, file_name: &str, text: Bytes) {
        if !prepare::is_worthwhile(&text) {
            return;
        }
        if let Some(checker) = self.find(file_name).filter(|checker| checker.can_prepare()) {
            prepare::in_background(checker.clone(), text);
        }
    }

    /// Whether there is a checker for files of this name.
    pub fn knows(&self, file_name: &str) -> bool {
        self.find(file_name).is_some()
    }

    fn find(&self, file_name: &str) -> Option<&Arc<dyn Checker>> {
        let path = file_name.replace('\\', "/");
        let entry =
            self.entries.iter().rev().find(|entry| entry.names.iter().any(|name| name.fits(&path)))?;
        entry.checker.as_ref()
    }
}

/// What a change brought in, also where an old error hides it.
fn introduced(checker: &dyn Checker, before: Option<&str>, after: &str) -> Option<Introduced> {
    let mut introduced = checker.introduced(before, after)?;
    let hidden = introduced.existing > 0 && introduced.problems.is_empty() && checker.can_leave_out_parts();
    if let Some(before) = before.filter(|_| hidden) {
        introduced.problems = parts::introduced(checker, before, after);
    }
    Some(introduced)
}

/// A name with at most one `*`.
#[derive(Clone)]
struct Pattern {
    /// What is before the `*`, if there is one.
    front: Option<Box<str>>,
    back: Box<str>,
    folders: usize,
}

impl Pattern {
    fn of(name: &str) -> Self {
        let (front, back) =
            name.split_once('*').map_or((None, name), |(front, back)| (Some(front.into()), back));
        Self { front, back: back.into(), folders: name.matches('/').count() }
    }

    /// Whether the end of a path fits.
    fn fits(&self, path: &str) -> bool {
        // Most names differ in how they end.
        if !path.ends_with(&*self.back) {
            return false;
        }
        let start = path.rmatch_indices('/').nth(self.folders).map_or(0, |(at, _)| at + 1);
        let path = &path[start..];
        match &self.front {
            None => *path == *self.back,
            Some(front) => path.len() >= front.len() + self.back.len() && path.starts_with(&**front),
        }
    }
}

/// The text without its byte order mark, if it is one that a checker can take.
fn readable(text: &str) -> Option<&str> {
    let text = unmarked(text);
    (text.len() <= MAX_BYTES && !has_long_line(text) && !depth::too_deep(text)).then_some(text)
}

/// Whether a line is longer than a person writes.
fn has_long_line(text: &str) -> bool {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
    ends.into_iter().any(|end| end - std::mem::replace(&mut start, end + 1) > MAX_LINE)
}

/// The text without its byte order mark.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

/// Where in a text a byte is.
struct Places {
    starts: Vec<usize>,
}

impl Places {
    fn new(text: &str) -> Self {
        Self {
            starts: std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
                .collect(),
        }
    }

    /// The problem that there is at a byte of a text.
    fn problem(&self, text: &str, at: usize, message: impl Into<String>) -> Problem {
        let at = text.floor_char_boundary(at.min(text.len()));
        let line = self.starts.partition_point(|&start| start <= at);
        let start = self.starts[line - 1];
        Problem { line, column: text[start..at].chars().count() + 1, message: message.into() }
    }
}

/// A message as haft words it: lower case, code in backticks, no full stop.
fn worded(message: &str) -> String {
    let mut words = String::new();
    let mut rest = message.trim().trim_end_matches('.');
    // 'x' becomes `x`.
    while let Some((front, tail)) = rest.split_once('\'') {
        words += front;
        match tail.split_once('\'') {
            Some((code, tail)) if !code.is_empty() && !front.ends_with(char::is_alphanumeric) => {
                words += &format!("`{code}`");
                rest = tail;
            }
            _ => {
                words.push('\'');
                rest = tail;
            }
        }
    }
    words += rest;
    let mut chars = words.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => words,
    }
}
