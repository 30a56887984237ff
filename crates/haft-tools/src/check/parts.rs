//! Looks past an old error. A parser that stops at an error, or knows only echoes after it, cannot tell what
//! a change brought in elsewhere; but what begins at the margin can be read alone, and so the part that
//! changed is. Where it could not be read alone before, nothing is told.

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{Checker, Problem};

/// Words at the margin with which something goes on.
const CONTINUING: &[&str] = &[
    "else", "elif", "elsif", "except", "finally", "catch", "ensure", "rescue", "end", "case", "default",
    "when", "in", "then", "do", "done", "fi", "esac", "where", "while",
];

/// The errors of the parts that changed, where what stood there was right.
pub(super) fn introduced(checker: &dyn Checker, before: &str, after: &str) -> Vec<Problem> {
    let (old, new) = (parts(before), parts(after));
    let right = |parts: &[&str]| checker.check(&parts.concat()).is_some_and(|problems| problems.is_empty());
    let mut found = Vec::new();
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (tag, mut was, mut is) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            continue;
        }
        // The neighbours are taken along: what is put between them may belong to them, and that they are right
        // shows that code stands here.
        let (front, back) = (was.start.saturating_sub(1), (was.end + 1).min(old.len()));
        if is.start > 0 && front < was.start && right(&old[front..was.start]) {
            (was.start, is.start) = (front, is.start - 1);
        }
        if is.end < new.len() && back > was.end && right(&old[was.end..back]) {
            (was.end, is.end) = (back, is.end + 1);
        }
        let known = &old[was.clone()];
        let quoted = ['"', '`'].iter().any(|&quote| count(&old[..was.start], quote) % 2 == 1);
        if quoted || known.iter().all(|part| part.trim().is_empty()) || !right(known) {
            continue;
        }
        let moved = count(&new[..is.start], '\n');
        let problems = checker.check(&new[is].concat()).unwrap_or_default();
        found.extend(problems.into_iter().map(|problem| Problem { line: problem.line + moved, ..problem }));
    }
    found
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
