//! Reads only the parts of a text that changed: what begins at the margin can be read alone. So an error that
//! was there before does not hide a new one, and a small change of a large text costs little. Where a part
//! could not be read alone before, nothing is known.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{Checker, Problem};

/// Words at the margin with which something goes on.
const CONTINUING: &[&str] = &[
    "else", "elif", "elsif", "except", "finally", "catch", "ensure", "rescue", "end", "case", "default",
    "when", "in", "then", "do", "done", "fi", "esac", "where", "while",
];

/// The errors of the parts that changed, where what stood there was right.
pub(super) fn introduced(checker: &dyn Checker, before: &str, after: &str) -> Vec<Problem> {
    let right = |part: &str| checker.check(part).is_some_and(|problems| problems.is_empty());
    let (old, new) = (parts(before), parts(after));
    let known = changes(&old, &new, right).into_iter().filter(|change| change.was_right(&old, right));
    let found = known.flat_map(|Change { is, .. }| {
        let moved = count(&new[..is.start], '\n');
        let problems = checker.check(&new[is].concat()).unwrap_or_default();
        problems.into_iter().map(move |problem| Problem { line: problem.line + moved, ..problem })
    });
    found.collect()
}

/// Whether all that changed is a small piece, which was right and is.
pub(super) fn all_right(before: &str, after: &str, right: impl Fn(&str) -> bool + Copy) -> bool {
    let (old, new) = (parts(before), parts(after));
    let changes = changes(&old, &new, right);
    let length = |parts: &[&str]| parts.iter().map(|part| part.len()).sum::<usize>();
    let read: usize =
        changes.iter().map(|change| length(&old[change.was.clone()]) + length(&new[change.is.clone()])).sum();
    let mut changes = changes.into_iter();
    (1..after.len() / 2).contains(&read)
        && changes.all(|change| change.was_right(&old, right) && right(&new[change.is].concat()))
}

/// The lines, from one, of the parts that changed and were right before: an error there is a new one.
pub(super) fn fresh(before: &str, after: &str, right: impl Fn(&str) -> bool + Copy) -> Vec<Range<usize>> {
    let (old, new) = (parts(before), parts(after));
    let known = changes(&old, &new, right).into_iter().filter(|change| change.was_right(&old, right));
    let line = |part: usize| count(&new[..part], '\n') + 1;
    known.map(|change| line(change.is.start)..line(change.is.end)).collect()
}

/// Parts that took the place of others.
struct Change {
    was: Range<usize>,
    is: Range<usize>,
}

impl Change {
    /// Whether code stood there, and could be read alone.
    fn was_right(&self, old: &[&str], right: impl Fn(&str) -> bool) -> bool {
        let known = &old[self.was.clone()];
        let quoted = ['"', '`'].iter().any(|&quote| count(&old[..self.was.start], quote) % 2 == 1);
        !quoted && known.iter().any(|part| !part.trim().is_empty()) && right(&known.concat())
    }
}

/// What changed, each with its neighbours where these are right: what is put between them may belong to them,
/// and that they are right shows that code stands here.
fn changes(old: &[&str], new: &[&str], right: impl Fn(&str) -> bool) -> Vec<Change> {
    let changed = capture_diff_slices(Algorithm::Myers, old, new);
    let changed = changed.iter().map(|change| change.as_tag_tuple());
    let widened = changed.filter(|(tag, ..)| *tag != DiffTag::Equal).map(|(_, mut was, mut is)| {
        if was.start > 0 && is.start > 0 && right(old[was.start - 1]) {
            (was.start, is.start) = (was.start - 1, is.start - 1);
        }
        if was.end < old.len() && is.end < new.len() && right(old[was.end]) {
            (was.end, is.end) = (was.end + 1, is.end + 1);
        }
        Change { was, is }
    });
    widened.collect()
}

fn count(parts: &[&str], char: char) -> usize {
    parts.iter().map(|part| part.matches(char).count()).sum()
}

/// A text in parts, each of which begins at the margin. What is said of a definition before it belongs to it.
fn parts(text: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let mut at = 0;
    let mut announced = false;
    for line in text.split_inclusive('\n') {
        let announces = line.starts_with('@') || line.starts_with("#[");
        let word = line.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or("");
        let begins = (!word.is_empty() && !CONTINUING.contains(&word)) || line.starts_with('[') || announces;
        if begins && !announced {
            starts.push(at);
        }
        announced = announces || (announced && !begins);
        at += line.len();
    }
    starts.push(text.len());
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).filter(|part| !part.is_empty()).collect()
}
