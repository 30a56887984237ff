//! Diffs of planned changes in large files. Compares only the lines around each splice, so that the cost depends on the
//! change and not on the file. Knows nothing of files or plans.

use std::ops::Range;

use haft_text::{Diff, DiffLimits, Side, Splices, count_of, unified_and_short};

/// Largest file in bytes that is compared as a whole, and farthest distance of changes that are compared together.
const MAX_COMPARED: usize = 8 << 20;
/// Largest number of separate places in a diff.
const MAX_APART: usize = 20;

/// Unified and short diff of the splices in a large file; `None` if the file is small enough to compare as a whole.
pub(super) fn of_splices(named: &str, old: &[u8], splices: &Splices, after: u64) -> Option<(Diff, Diff)> {
    if (old.len() as u64).max(after) <= MAX_COMPARED as u64 {
        return None;
    }
    let limits = DiffLimits::default();
    if let Some(around) = Around::new(old, splices, limits.context) {
        return Some(around.compared(named, old, limits));
    }
    let parts = apart(old, splices);
    let (mut diff, mut short_diff) = (Diff::default(), Diff::default());
    for part in parts.iter().take(MAX_APART) {
        let (unified, short) = part.compared(named, old, limits);
        // The header with the names appears once, above all places.
        let body = unified.text.find("@@").filter(|_| !diff.text.is_empty()).unwrap_or(0);
        diff.text.push_str(&unified.text[body..]);
        short_diff.text.push_str(&short.text);
        diff.cut += unified.cut;
        short_diff.cut += short.cut;
    }
    let more = parts.len().saturating_sub(MAX_APART);
    for shown in [&mut diff, &mut short_diff] {
        shown.removed = parts.iter().map(|part| lines(&old[part.range.clone()])).sum();
        shown.added = parts.iter().map(|part| lines(&part.after)).sum();
        shown.cut += more;
        if more > 0 {
            shown.text.push_str(&format!("… {} not shown\n", count_of(more as u64, "more place")));
        }
    }
    Some((diff, short_diff))
}

/// Number of lines; the last one need not have a line end.
fn lines(bytes: &[u8]) -> usize {
    breaks(bytes) + usize::from(!whole(bytes))
}

/// Whether the bytes end with a complete line.
fn whole(bytes: &[u8]) -> bool {
    bytes.last().is_none_or(|last| *last == b'\n')
}

fn breaks(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// A part of a large file that a change touches, with some lines of context.
struct Around {
    /// The part in the file before the change.
    range: Range<usize>,
    /// New content of the part.
    after: Vec<u8>,
    /// Lines before the part, in the file before and after the change.
    lines_before: [usize; 2],
}

impl Around {
    /// One part for all splices, if they are close enough together and the lines around them are not too long.
    fn new(old: &[u8], splices: &Splices, context: usize) -> Option<Self> {
        let (first, last) = (splices.iter().next()?.range.start, splices.iter().last()?.range.end);
        if last - first > MAX_COMPARED {
            return None;
        }
        let back = &old[first.saturating_sub(MAX_COMPARED)..first];
        let start = memchr::memrchr_iter(b'\n', back).nth(context).map(|at| first - back.len() + at + 1);
        let start = start.or((back.len() == first).then_some(0))?;
        let ahead = &old[last..old.len().min(last + MAX_COMPARED)];
        let end = memchr::memchr_iter(b'\n', ahead).nth(context).map(|at| last + at + 1);
        let end = end.or((last + ahead.len() == old.len()).then_some(old.len()))?;
        let mut after = Vec::new();
        let mut at = start;
        for splice in splices.iter() {
            after.extend_from_slice(&old[at..splice.range.start]);
            after.extend_from_slice(&splice.bytes);
            at = splice.range.end;
        }
        after.extend_from_slice(&old[at..end]);
        Some(Self { range: start..end, after, lines_before: [breaks(&old[..start]); 2] })
    }

    fn compared(&self, named: &str, old: &[u8], limits: DiffLimits) -> (Diff, Diff) {
        let limits = DiffLimits { lines_before: self.lines_before, ..limits };
        let before = &old[self.range.clone()];
        let side = |bytes| Side { name: named, bytes };
        unified_and_short(side(before), side(&self.after), limits)
    }
}

/// One part per group of touched lines; splices in the same line share a part. Linear: examines every byte once, however
/// many splices there are and however long the lines are.
fn apart(old: &[u8], splices: &Splices) -> Vec<Around> {
    let mut parts: Vec<Around> = Vec::new();
    // Position up to which the last part is copied, and the lines of both files before its start.
    let (mut copied, mut counted) = (0, [0, 0]);
    for splice in splices.iter() {
        let Range { start, end } = splice.range;
        let ended = parts.last().map_or(0, |part| part.range.end);
        // Without a line end between them, two splices are in the same line.
        let joined = start < ended || (start == ended && !whole(&old[..start]));
        if parts.is_empty() || !joined {
            if let Some(part) = parts.last_mut() {
                part.after.extend_from_slice(&old[copied..ended]);
                counted = [counted[0] + breaks(&old[part.range.clone()]), counted[1] + breaks(&part.after)];
            }
            let from = memchr::memrchr(b'\n', &old[ended..start]).map_or(ended, |at| ended + at + 1);
            counted = counted.map(|lines| lines + breaks(&old[ended..from]));
            parts.push(Around { range: from..from, after: Vec::new(), lines_before: counted });
            copied = from;
        }
        let Some(part) = parts.last_mut() else { continue };
        part.after.extend_from_slice(&old[copied..start]);
        part.after.extend_from_slice(&splice.bytes);
        copied = end;
        if end >= part.range.end {
            // A splice of complete lines ends its part; any other needs the rest of its last line.
            let lines_only = whole(&old[..end]) && whole(&part.after);
            let rest = || memchr::memchr(b'\n', &old[end..]).map_or(old.len(), |at| end + at + 1);
            part.range.end = if lines_only { end } else { rest() };
        }
    }
    if let Some(part) = parts.last_mut() {
        part.after.extend_from_slice(&old[copied..part.range.end]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use haft_text::splice::Splice;

    fn spliced(old: &[u8], changes: &[(usize, usize, String)]) -> Splices {
        let mut splices = Splices::default();
        let later = changes
            .iter()
            .map(|(start, end, text)| Splice { range: *start..*end, bytes: text.clone().into_bytes() });
        splices.then(old.len(), later.collect());
        splices
    }

    proptest! {
        #[test]
        fn parts_and_the_bytes_between_them_form_the_new_file(
            old in "[ab\n]{0,30}", cuts in proptest::collection::btree_set(0..30_usize, 0..6), text in "[c\n]{0,3}",
        ) {
            let cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= old.len()).collect();
            let changes: Vec<_> =
                cuts.chunks_exact(2).map(|pair| (pair[0], pair[1], text.clone())).collect();
            let splices = spliced(old.as_bytes(), &changes);
            let (mut made, mut at) = (Vec::new(), 0);
            for part in apart(old.as_bytes(), &splices) {
                made.extend_from_slice(&old.as_bytes()[at..part.range.start]);
                prop_assert_eq!(part.lines_before, [breaks(&old.as_bytes()[..part.range.start]), breaks(&made)]);
                made.extend_from_slice(&part.after);
                at = part.range.end;
            }
            made.extend_from_slice(&old.as_bytes()[at..]);
            prop_assert_eq!(made, splices.apply(old.as_bytes()));
        }
    }

    #[test]
    fn a_change_in_a_file_of_one_long_line_has_a_short_diff() {
        let old = [b"a".repeat(9 << 20), b"one".to_vec(), b"a".repeat(9 << 20)].concat();
        let splices = spliced(&old, &[(9 << 20, (9 << 20) + 3, "two".to_owned())]);
        let (diff, short) = of_splices("f", &old, &splices, old.len() as u64).unwrap();
        assert_eq!((diff.added, diff.removed), (1, 1));
        for text in [diff.text, short.text] {
            assert!(text.contains("aonea") && text.contains("atwoa") && text.len() < 3000, "{text}");
        }
    }

    #[test]
    fn places_far_apart_have_the_right_line_numbers() {
        let old = [b"x\n".to_vec(), b"a\n".repeat(9 << 20), b"x\n".to_vec()].concat();
        let splices = spliced(&old, &[(0, 1, "y".to_owned()), (old.len() - 2, old.len(), String::new())]);
        let (diff, short) = of_splices("f", &old, &splices, old.len() as u64).unwrap();
        assert_eq!((diff.added, diff.removed), (1, 2));
        assert_eq!(diff.text, "--- f\n+++ f\n@@ -1 +1 @@\n-x\n+y\n@@ -9437186 +9437185,0 @@\n-x\n");
        assert_eq!(short.text, "  -x\n1 +y\n        -x\n");
    }
}
