//! The lines of a file that the model was shown. Ranges of several reads add up, and follow the lines when an edit moves
//! them. Knows nothing of files or encodings: lines end at `\n`, as in the numbers that reads show.

use serde::{Deserialize, Serialize};

/// Stands for the last line of a file whose number of lines is not known.
const END: u64 = u64::MAX;

/// Lines of a file, as sorted ranges that do not touch. Both ends of a range belong to it; the first line is 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLines(Vec<(u64, u64)>);

impl ShownLines {
    /// Every line.
    pub fn all() -> Self {
        Self(vec![(1, END)])
    }

    /// No line.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The lines from `start` to `end`, both included.
    pub fn range(start: u64, end: u64) -> Self {
        match start <= end {
            true => Self(vec![(start.max(1), end)]),
            false => Self::none(),
        }
    }

    /// The lines from `start` to the end of the file.
    pub fn from(start: u64) -> Self {
        Self::range(start, END)
    }

    /// Whether these are all lines.
    pub fn is_all(&self) -> bool {
        self.0 == [(1, END)]
    }

    /// These lines and those of `other`.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut all: Vec<(u64, u64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    /// The lines that are not among these: `None` as the end of a range stands for the end of the file.
    pub fn missing(&self) -> Vec<(u64, Option<u64>)> {
        let mut missing = Vec::new();
        let mut next = 1;
        for (start, end) in &self.0 {
            if *start > next {
                missing.push((next, Some(start - 1)));
            }
            if *end == END {
                return missing;
            }
            next = end + 1;
        }
        missing.push((next, None));
        missing
    }

    /// These lines after `old` was replaced by `new`, in the numbers of `new`. Lines before the first and after the last
    /// difference keep their state. The lines between count as shown if all those that they replace were: a caller that
    /// knows more adds it.
    #[must_use]
    pub fn after_change(&self, old: &[u8], new: &[u8]) -> Self {
        if self.is_all() {
            return Self::all();
        }
        // In UTF-16 a byte of this value need not end a line, so the numbers would be wrong.
        if old.contains(&0) || new.contains(&0) {
            return Self::none();
        }
        let changed = ChangedLines::between(old, new);
        let mut after = self.within(1, changed.first.saturating_sub(1));
        if self.covers(changed.first, changed.old_last) {
            after = after.with(&Self::range(changed.first, changed.new_last));
        }
        let shifted = self.within(changed.old_last + 1, END).0.into_iter().map(|(start, end)| {
            let shift = |line: u64| line - changed.old_last + changed.new_last;
            (shift(start), if end == END { END } else { shift(end) })
        });
        after.with(&Self(shifted.collect()))
    }

    /// The part of these lines within a range.
    fn within(&self, first: u64, last: u64) -> Self {
        let parts = self.0.iter().map(|(start, end)| (*start.max(&first), *end.min(&last)));
        Self(parts.filter(|(start, end)| start <= end).collect())
    }

    /// Whether all lines of a range are among these. An empty range is.
    fn covers(&self, first: u64, last: u64) -> bool {
        first > last || self.0.iter().any(|(start, end)| *start <= first && last <= *end)
    }
}

/// The lines in which two texts differ, from the first to the last difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedLines {
    /// The first line that differs.
    pub first: u64,
    /// The last line of the old text that differs; before `first` if lines were only added.
    pub old_last: u64,
    /// The last line of the new text that differs; before `first` if lines were only removed.
    pub new_last: u64,
}

impl ChangedLines {
    /// Compares two texts.
    pub fn between(old: &[u8], new: &[u8]) -> Self {
        let same = old.iter().zip(new).take_while(|(one, other)| one == other).count();
        let start = old[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (old_rest, new_rest) = (&old[start..], &new[start..]);
        let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
        // The equal end counts from the first line that begins in it on both sides.
        let begins_line = |rest: &[u8]| rest.len() == tail || rest[rest.len() - tail - 1] == b'\n';
        let tail = match begins_line(old_rest) && begins_line(new_rest) {
            true => tail,
            false => {
                let equal = &old_rest[old_rest.len() - tail..];
                equal.iter().position(|byte| *byte == b'\n').map_or(0, |at| equal.len() - at - 1)
            }
        };
        let first = line_ends(&old[..start]) + 1;
        let last = |middle: &[u8]| first + line_count(middle) - 1;
        Self {
            first,
            old_last: last(&old_rest[..old_rest.len() - tail]),
            new_last: last(&new_rest[..new_rest.len() - tail]),
        }
    }
}

fn line_ends(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Number of lines, including one without a line end.
fn line_count(text: &[u8]) -> u64 {
    line_ends(text) + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(ranges: &[(u64, u64)]) -> ShownLines {
        ranges.iter().fold(ShownLines::none(), |all, (start, end)| all.with(&ShownLines::range(*start, *end)))
    }

    #[test]
    fn ranges_add_up() {
        let shown = lines(&[(5, 6), (1, 2), (3, 4)]);
        assert_eq!(shown, lines(&[(1, 6)]));
        assert_eq!(shown.missing(), [(7, None)]);
        assert!(shown.with(&ShownLines::from(7)).is_all());
        assert_eq!(lines(&[(3, 4), (9, 9)]).missing(), [(1, Some(2)), (5, Some(8)), (10, None)]);
        assert_eq!(ShownLines::none().missing(), [(1, None)]);
    }

    #[test]
    fn lines_move_with_a_change_above_them() {
        let shown = lines(&[(2, 2), (4, 5)]);
        // A line more between 2 and 3, one less, and another text in a line that was not shown.
        assert_eq!(
            shown.after_change(b"1\n2\n3\n4\n5\n6\n", b"1\n2\nx\n3\n4\n5\n6\n"),
            lines(&[(2, 3), (5, 6)])
        );
        assert_eq!(shown.after_change(b"1\n2\n3\n4\n5\n6\n", b"1\n2\n4\n5\n6\n"), lines(&[(2, 4)]));
        assert_eq!(
            shown.after_change(b"1\n2\n3\n4\n5\n6\n", b"1\n2\nx\n4\n5\n6\n"),
            lines(&[(2, 2), (4, 5)])
        );
        assert_eq!(shown.after_change(b"1\n2\n3\n4\n5\n6\n", b"1\ny\nx\n4\n5\n6\n"), lines(&[(4, 5)]));
        let tail = ShownLines::from(3);
        assert_eq!(tail.after_change(b"1\n2\n3\n4", b"0\n1\n2\n3\n4").missing(), [(2, Some(3))]);
    }

    #[test]
    fn equal_texts_have_no_changed_lines() {
        let same = ChangedLines::between(b"1\n2\n3", b"1\n2\n3");
        assert!(same.old_last == same.new_last);
        assert_eq!(lines(&[(1, 2)]).after_change(b"1\n2\n3\n", b"1\n2\n3\n"), lines(&[(1, 2)]));
        let repeated = ChangedLines::between(b"a\na\n", b"a\na\na\n");
        assert_eq!(repeated.new_last, repeated.old_last + 1);
    }
}
