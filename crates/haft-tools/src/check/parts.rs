//! Finds the errors of a change that an older error in the text hides: after a bracket that is not closed, for example,
//! checkers report nothing else. The parts that hold the old errors are left out of both texts, before and after the
//! change. If the checker finds no errors in the rest before, those that it finds in the rest after are new. How lines
//! look only suggests what to leave out; whether a text has errors is always up to the checker, which parses all the rest.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{Checker, Problem};

/// Words at the margin with which something goes on.
const CONTINUING: &[&str] = &[
    "else", "elif", "elsif", "except", "finally", "catch", "ensure", "rescue", "end", "case", "default",
    "when", "in", "then", "do", "done", "fi", "esac", "where", "while",
];

/// The errors of the text after a change, without the parts that hold old errors, if the text before has none without them.
pub(super) fn introduced(checker: &dyn Checker, before: &str, after: &str) -> Vec<Problem> {
    let (mut old, mut new) = (Parts::of(before), Parts::of(after));
    let twins = old.twins(&new);
    for problem in checker.check(before).unwrap_or_default() {
        let part = old.at_line(problem.line);
        // A part that the change touches stays: its errors are what this looks for.
        if let Some(twin) = twins.get(part).copied().flatten() {
            old.leave_out(part);
            new.leave_out(twin);
        }
    }
    // If that is not enough, leaving out more would prove nothing: the errors may come from what is missing, such as the
    // beginning of a comment.
    match checker.check(&old.text()) {
        Some(known) if known.is_empty() => checker.check(&new.text()).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A text in parts, each of which begins at the margin, without those that are left out.
struct Parts<'a> {
    parts: Vec<&'a str>,
    /// The first line of each, from one.
    lines: Vec<usize>,
    is_left_out: Vec<bool>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let starts: Vec<usize> = std::iter::once(0).chain(starts(text)).chain([text.len()]).collect();
        let ranges = starts.windows(2).map(|ends| Range { start: ends[0], end: ends[1] });
        let parts: Vec<&str> = ranges.map(|range| &text[range]).filter(|part| !part.is_empty()).collect();
        let next = |line: &mut usize, part: &&str| Some(std::mem::replace(line, *line + breaks(part)));
        let lines = parts.iter().scan(1, next).collect();
        Self { is_left_out: vec![false; parts.len()], parts, lines }
    }

    /// For each part, its place in another text, if that text has it too.
    fn twins(&self, other: &Self) -> Vec<Option<usize>> {
        let mut twins = vec![None; self.parts.len()];
        for change in capture_diff_slices(Algorithm::Myers, &self.parts, &other.parts) {
            if let (DiffTag::Equal, old, new) = change.as_tag_tuple() {
                old.zip(new).for_each(|(old, new)| twins[old] = Some(new));
            }
        }
        twins
    }

    /// The part that holds a line.
    fn at_line(&self, line: usize) -> usize {
        self.lines.partition_point(|first| *first <= line).saturating_sub(1)
    }

    fn leave_out(&mut self, part: usize) {
        self.is_left_out[part] = true;
    }

    /// The text without what is left out. The line ends stay, so that all other lines keep their numbers.
    fn text(&self) -> String {
        let parts = self.parts.iter().zip(&self.is_left_out);
        parts
            .map(|(part, left_out)| if *left_out { "\n".repeat(breaks(part)) } else { (*part).to_owned() })
            .collect()
    }
}

fn breaks(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

/// Where the parts of a text begin. Attributes and decorators belong to what comes after them.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    let (mut at, mut announced) = (0, false);
    text.split_inclusive('\n').filter_map(move |line| {
        let (start, was_announced) = (at, announced);
        at += line.len();
        announced = announces(line) || (announced && !begins(line));
        (begins(line) && !was_announced).then_some(start)
    })
}

/// Whether a line is an attribute or a decorator.
fn announces(line: &str) -> bool {
    line.starts_with('@') || line.starts_with("#[")
}

/// Whether a part may begin with a line.
fn begins(line: &str) -> bool {
    let word = line.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or("");
    (!word.is_empty() && !CONTINUING.contains(&word)) || line.starts_with('[') || announces(line)
}
