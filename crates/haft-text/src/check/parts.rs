//! Reads only the parts of a text that changed: what begins at the margin can be read alone. So an error that
//! was there before does not hide a new one, and a small change of a large text costs little. Where a part
//! could not be read alone before, nothing is known.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{Checker, Problem};
use crate::{common_end, common_start};

/// Words at the margin with which something goes on.
const CONTINUING: &[&str] = &[
    "else", "elif", "elsif", "except", "finally", "catch", "ensure", "rescue", "end", "case", "default",
    "when", "in", "then", "do", "done", "fi", "esac", "where", "while",
];

/// Words with which something is said to all of a text.
const SHARING: &[&str] = &["import", "export"];

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
    let starts: Vec<usize> = std::iter::once(0).chain(starts(text)).chain([text.len()]).collect();
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).filter(|part| !part.is_empty()).collect()
}

/// Where the parts of a text begin, which itself begins with one.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    let (mut at, mut announced) = (0, false);
    text.split_inclusive('\n').filter_map(move |line| {
        let (start, was_announced) = (at, announced);
        at += line.len();
        announced = announces(line) || (announced && !begins(line));
        (begins(line) && !was_announced).then_some(start)
    })
}

/// Whether a line says something of what comes next.
fn announces(line: &str) -> bool {
    line.starts_with('@') || line.starts_with("#[")
}

/// Whether a part may begin with a line.
fn begins(line: &str) -> bool {
    let word = line.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or("");
    (!word.is_empty() && !CONTINUING.contains(&word)) || line.starts_with('[') || announces(line)
}

/// The whole parts around a change, with two before it and one after it where there are any, as they were and as they
/// are. Nothing where there are fewer before it, where the two texts disagree on where the parts end, or where the parts may
/// be inside something else or say something to it.
pub(super) fn around<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let (old, new) = (before.as_bytes(), after.as_bytes());
    let same = common_start(old, new);
    // Where there is something of the line before the change, both texts agree on how that line begins.
    let line = memchr::memrchr(b'\n', &old[..same])? + 1;
    let start = previous(before, previous(before, line)?)?;
    let same = common_end(old, new).min(old.len().min(new.len()) - same);
    // How far from the end the neighbour ends that comes after the change.
    let left = |text: &str| {
        let mut beyond = starts(&text[start..]).map(|at| text.len() - start - at).filter(|left| *left < same);
        beyond.nth(1).unwrap_or(0)
    };
    let end = left(before);
    let (was, is) = (&before[start..before.len() - end], after.get(start..after.len() - end)?);
    let (front, signs) = (Signs::of(&before[..start]), [was, is].map(Signs::of));
    let told = shared(was).eq(shared(is)) && !lists(was) && !lists(is);
    let alone = front.closes() && signs[0].mean_the_same(&signs[1]) && told;
    (end == left(after) && alone).then_some((was, is))
}

/// The lines that say something to all of a text.
fn shared(part: &str) -> impl Iterator<Item = &str> {
    part.lines().filter(|line| SHARING.iter().any(|word| line.contains(word)))
}

/// Whether a part lists what it says to all of a text, on lines that do not say so themselves.
fn lists(part: &str) -> bool {
    let lists = |word: &&str| part.split(*word).skip(1).any(|rest| rest.trim_start().starts_with('{'));
    SHARING.iter().any(lists)
}

/// How often there is what opens and closes something, whatever it may be inside of.
struct Signs {
    /// How many more brackets open than close, of each kind.
    brackets: [isize; 3],
    quotes: usize,
    /// Those that a reader who knows no more may take for others: after a backslash or between single ones.
    odd_quotes: usize,
    backticks: usize,
    triple: usize,
    opens_comment: usize,
    closes_comment: usize,
}

impl Signs {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let all = |sign: u8| memchr::memchr_iter(sign, bytes);
        let before = |at: usize| at.checked_sub(1).map(|at| bytes[at]);
        let open =
            |[open, close]: [u8; 2]| all(open).count().cast_signed() - all(close).count().cast_signed();
        Self {
            brackets: [*b"()", *b"[]", *b"{}"].map(open),
            quotes: all(b'"').count(),
            odd_quotes: all(b'"').filter(|at| matches!(before(*at), Some(b'\\' | b'\''))).count(),
            backticks: all(b'`').count(),
            triple: all(b'\'').filter(|at| bytes[*at..].starts_with(b"'''")).count(),
            opens_comment: all(b'*').filter(|at| before(*at) == Some(b'/')).count(),
            closes_comment: all(b'*').filter(|at| bytes.get(at + 1) == Some(&b'/')).count(),
        }
    }

    /// Whether whatever is opened is closed, as far as signs tell.
    fn closes(&self) -> bool {
        self.brackets == [0; 3]
            && self.odd_quotes == 0
            && [self.quotes, self.backticks, self.triple].iter().all(|count| count % 2 == 0)
            && self.opens_comment == self.closes_comment
    }

    /// Whether one part in place of another leaves what is around them as it was, should that be text.
    fn mean_the_same(&self, other: &Self) -> bool {
        let signs = |signs: &Self| (signs.backticks, signs.triple, signs.opens_comment, signs.closes_comment);
        signs(self) == signs(other)
    }
}

/// Where the part begins that ends before a line does.
fn previous(text: &str, line: usize) -> Option<usize> {
    let mut found = None;
    let mut end = line;
    while end > 0 {
        let start = memchr::memrchr(b'\n', &text.as_bytes()[..end - 1]).map_or(0, |at| at + 1);
        let line = &text[start..end];
        match found {
            // What was found belongs to what announces it.
            Some(_) if announces(line) => found = Some(start),
            Some(_) if begins(line) => break,
            None if begins(line) => found = Some(start),
            _ => {}
        }
        end = start;
    }
    found
}
