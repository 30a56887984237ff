//! What changed between two contents of a file, as a unified diff and in a short form for replies. Large
//! files cost what changed in them; what would take too long or too much room is cut, and says so.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::encoding::Source;

/// How much is compared at a time, and how much of what differs.
const CHUNKS: [usize; 2] = [4096, 32];
/// A line with more characters is shown in part.
const SHOWN_LINE: usize = 500;
/// So many characters before a change are shown of such a line.
const LEAD: usize = 100;

/// How much a diff may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLimits {
    /// Lines around each change.
    pub context: usize,
    /// A longer diff is cut at a line.
    pub bytes: usize,
    /// After this the diff is coarser than it could be.
    pub time: Duration,
    /// How many lines come before what is compared, in the file as it was and as it is.
    pub lines_before: [usize; 2],
}

impl Default for DiffLimits {
    fn default() -> Self {
        Self { context: 3, bytes: 64 * 1024, time: Duration::from_millis(500), lines_before: [0, 0] }
    }
}

/// One content of a file.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What the diff calls it.
    pub name: &'a str,
    /// The content.
    pub bytes: &'a [u8],
}

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// As text; empty where nothing changed.
    pub text: String,
    /// How many lines came.
    pub added: usize,
    /// How many lines went.
    pub removed: usize,
    /// How many lines of the diff were cut.
    pub cut: usize,
}

/// A unified diff.
pub fn unified(before: Side<'_>, after: Side<'_>, limits: DiffLimits) -> Diff {
    let names = [before.name, after.name];
    let diff = |hunks: &Hunks<'_>| in_full(hunks, names, limits);
    compare(before, after, limits, diff, |sizes| binary(names, sizes)).unwrap_or_default()
}

/// A unified diff, and the changed lines with a few around them, numbered as they are now; lines that went have no
/// number.
pub fn both(before: Side<'_>, after: Side<'_>, limits: DiffLimits) -> (Diff, Diff) {
    let names = [before.name, after.name];
    let diffs = |hunks: &Hunks<'_>| (in_full(hunks, names, limits), in_short(hunks, limits));
    let told = |sizes| (binary(names, sizes), binary(["the file"; 2], sizes));
    compare(before, after, limits, diffs, told).unwrap_or_default()
}

/// What is made of what changed; of what is no text, of its sizes. Nothing where nothing changed.
fn compare<T>(
    before: Side<'_>,
    after: Side<'_>,
    limits: DiffLimits,
    text: impl FnOnce(&Hunks<'_>) -> T,
    binary: impl FnOnce([usize; 2]) -> T,
) -> Option<T> {
    if before.bytes == after.bytes {
        return None;
    }
    Some(match Differing::new(before.bytes, after.bytes, limits.context) {
        Some(differing) => text(&Hunks::new(&differing, limits)),
        None => binary([before.bytes.len(), after.bytes.len()]),
    })
}

fn in_full(hunks: &Hunks<'_>, [before, after]: [&str; 2], limits: DiffLimits) -> Diff {
    let mut out = Limited::new(limits.bytes);
    out.line(&format!("--- {before}\n+++ {after}\n"));
    for group in &hunks.groups {
        let (old, new) = span(group);
        let head = |range: Range<usize>, skipped: usize| match range.len() {
            // An empty range is told by the line before it.
            0 => format!("{},0", skipped + range.start),
            1 => format!("{}", skipped + range.start + 1),
            len => format!("{},{len}", skipped + range.start + 1),
        };
        let [was, is] = hunks.skipped;
        out.line(&format!("@@ -{} +{} @@\n", head(old, was), head(new, is)));
        for op in group {
            let (sign_old, sign_new) = signs(op);
            let (old, new) = (&hunks.old[op.old_range()], &hunks.new[op.new_range()]);
            for (sign, lines, others) in [(sign_old, old, new), (sign_new, new, old)] {
                let Some(sign) = sign else { continue };
                for (at, line) in lines.iter().enumerate() {
                    // A part of what can never fit says more than nothing.
                    match line.len() > limits.bytes {
                        true => out.part(&marked(sign, &part(line, others.get(at)))),
                        false => out.line(&marked(sign, line)),
                    }
                }
            }
        }
    }
    out.done(hunks)
}

fn in_short(hunks: &Hunks<'_>, limits: DiffLimits) -> Diff {
    let skipped = hunks.skipped[1];
    let width = (skipped + hunks.new.len()).max(1).ilog10() as usize + 1;
    let mut out = Limited::new(limits.bytes);
    for (at, group) in hunks.groups.iter().enumerate() {
        if at > 0 {
            out.line(&format!("{:width$} …\n", ""));
        }
        let ends = Ends::new(hunks, group);
        for op in group {
            let (sign_old, sign_new) = signs(op);
            let (old, new) = (&hunks.old[op.old_range()], &hunks.new[op.new_range()]);
            if sign_old == Some('-') {
                for (at, line) in old.iter().enumerate() {
                    out.line(&format!("{:width$} -{}\n", "", part(&ends.shown(line), new.get(at))));
                }
            }
            let sign = sign_new.or(sign_old.filter(|sign| *sign == ' '));
            for (at, line) in new.iter().enumerate().filter(|_| sign.is_some()) {
                let sign = sign.unwrap_or(' ');
                let number = skipped + op.new_range().start + at + 1;
                let other = old.get(at).filter(|_| sign == '+');
                out.line(&format!("{number:width$} {sign}{}\n", part(&ends.shown(line), other)));
            }
        }
    }
    out.done(hunks)
}

/// A unified diff as replies show it: of long lines, what lies around the change.
pub fn shown(diff: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = diff.split_inclusive('\n').collect();
    if lines.iter().all(|line| line.len() <= SHOWN_LINE) {
        return Cow::Borrowed(diff);
    }
    let mut out = String::new();
    for run in lines.chunk_by(|before, after| is_changed(before) && is_changed(after)) {
        let signed = |sign| run.iter().filter(move |line| line.starts_with(sign));
        let (mut gone, mut come) = (signed('-'), signed('+'));
        for line in run {
            let other = match line.as_bytes().first() {
                Some(b'-') => come.next(),
                Some(b'+') => gone.next(),
                _ => None,
            };
            let (sign, line) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
            out.push_str(sign);
            out.push_str(&part(line, other.map(|other| &other[1..]).as_ref()));
        }
    }
    Cow::Owned(out)
}

/// Whether a line of a diff is none of those around a change.
fn is_changed(line: &str) -> bool {
    line.starts_with(['-', '+', '\\'])
}

/// A line, or of a long one the part around where it begins to differ from the one it takes the place of.
fn part<'a>(line: &'a str, other: Option<&&str>) -> Cow<'a, str> {
    let body = bare(line);
    let Some((within, _)) = body.char_indices().nth(SHOWN_LINE - LEAD) else { return Cow::Borrowed(line) };
    if body.char_indices().nth(SHOWN_LINE).is_none() {
        return Cow::Borrowed(line);
    }
    let mut place = other.map_or(0, |other| common_start(body.as_bytes(), other.as_bytes()));
    while !body.is_char_boundary(place) {
        place -= 1;
    }
    let start = match place < within {
        true => 0,
        false => body[..place].char_indices().nth_back(LEAD - 1).map_or(0, |(at, _)| at),
    };
    let end = body[start..].char_indices().nth(SHOWN_LINE).map_or(body.len(), |(at, _)| start + at);
    let dots = |cut: bool| if cut { "…" } else { "" };
    let (front, back) = (dots(start > 0), dots(end < body.len()));
    Cow::Owned(format!("{front}{}{back}{}", &body[start..end], &line[body.len()..]))
}

/// Lines of a change that are there on the other side too, but for their ends.
struct Ends<'a>(HashSet<&'a str>);

impl<'a> Ends<'a> {
    fn new(hunks: &Hunks<'a>, group: &[DiffOp]) -> Self {
        let changed = || group.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
        let old = changed().flat_map(|op| &hunks.old[op.old_range()]);
        let new = changed().flat_map(|op| &hunks.new[op.new_range()]);
        let old: HashSet<&str> = old.map(|line| bare(line)).collect();
        Self(new.map(|line| bare(line)).filter(|line| old.contains(line)).collect())
    }

    /// A line without its end, unless nothing but that makes the difference.
    fn shown(&self, line: &str) -> String {
        match self.0.contains(bare(line)) {
            true if !line.ends_with(['\n', '\r']) => format!("{line} (no newline at the end)"),
            true => line.trim_end_matches('\n').replace('\r', "␍"),
            false => bare(line).to_owned(),
        }
    }
}

fn binary([before, after]: [&str; 2], [was, is]: [usize; 2]) -> Diff {
    let text = format!("Binary files {before} and {after} differ ({was} and {is} bytes)\n");
    Diff { text, ..Diff::default() }
}

/// With which sign lines of an operation are written, of the old side and of the new one.
fn signs(op: &DiffOp) -> (Option<char>, Option<char>) {
    match op {
        DiffOp::Equal { .. } => (Some(' '), None),
        DiffOp::Delete { .. } => (Some('-'), None),
        DiffOp::Insert { .. } => (None, Some('+')),
        DiffOp::Replace { .. } => (Some('-'), Some('+')),
    }
}

fn marked(sign: char, line: &str) -> String {
    match line.ends_with('\n') {
        true => format!("{sign}{line}"),
        false => format!("{sign}{line}\n\\ No newline at end of file\n"),
    }
}

fn bare(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

fn span(group: &[DiffOp]) -> (Range<usize>, Range<usize>) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return (0..0, 0..0) };
    (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end)
}

/// The parts of two texts that differ, with lines around them.
struct Differing<'a> {
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    /// How many lines before them are the same.
    skipped: usize,
}

impl<'a> Differing<'a> {
    /// Nothing, if one of the two is no text.
    fn new(old: &'a [u8], new: &'a [u8], context: usize) -> Option<Self> {
        let (from, old_to, new_to) = trim(old, new, context);
        let skipped = memchr::memchr_iter(b'\n', &old[..from]).count();
        let slices = [&old[from..old_to], &new[from..new_to]];
        let wide =
            [old, new].iter().any(|side| side.starts_with(b"\xFF\xFE") || side.starts_with(b"\xFE\xFF"));
        let plain = |slice: &'a [u8]| std::str::from_utf8(slice).ok().filter(|text| !text.contains('\0'));
        if !wide && let (Some(old_text), Some(new_text)) = (plain(slices[0]), plain(slices[1])) {
            let by_cr = skipped == 0 && !old.contains(&b'\n') && !new.contains(&b'\n');
            let lines = |text: &'a str| match by_cr {
                true => Cow::Owned(text.replace('\r', "\n")),
                false => Cow::Borrowed(text),
            };
            return Some(Self { old: lines(old_text), new: lines(new_text), skipped });
        }
        let text = |bytes: &[u8]| Some(Source::new(bytes.to_vec()).ok()?.text().to_owned());
        let (old, new) = (text(old)?, text(new)?);
        let (from, old_to, new_to) = trim(old.as_bytes(), new.as_bytes(), context);
        let skipped = memchr::memchr_iter(b'\n', &old.as_bytes()[..from]).count();
        let (old, new) = (old[from..old_to].to_owned(), new[from..new_to].to_owned());
        Some(Self { old: Cow::Owned(old), new: Cow::Owned(new), skipped })
    }
}

/// Where the lines begin that differ, and where they end in each, with so many lines around them.
fn trim(old: &[u8], new: &[u8], context: usize) -> (usize, usize, usize) {
    let shorter = old.len().min(new.len());
    let same = common_start(old, new);
    let mut ends = memchr::memrchr_iter(b'\n', &old[..same]);
    let from = ends.nth(context).map_or(0, |end| end + 1);
    let tail = common_end(old, new).min(shorter - same);
    // The line in which the tail begins may differ before it.
    let after = &old[old.len() - tail..];
    let kept = memchr::memchr_iter(b'\n', after).nth(context).map_or(0, |end| after.len() - end - 1);
    (from, old.len() - kept, new.len() - kept)
}

/// How much two begin with alike.
pub fn common_start(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS {
        let pairs = a[same..].chunks_exact(size).zip(b[same..].chunks_exact(size));
        same += size * pairs.take_while(|(a, b)| a == b).count();
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// How much two end with alike.
pub fn common_end(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS {
        let pairs = a[..a.len() - same].rchunks_exact(size).zip(b[..b.len() - same].rchunks_exact(size));
        same += size * pairs.take_while(|(a, b)| a == b).count();
    }
    let rest = a[..a.len() - same].iter().rev().zip(b[..b.len() - same].iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Lines and what happened to them.
struct Hunks<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    groups: Vec<Vec<DiffOp>>,
    skipped: [usize; 2],
}

impl<'a> Hunks<'a> {
    fn new(differing: &'a Differing<'_>, limits: DiffLimits) -> Self {
        let old: Vec<&str> = differing.old.split_inclusive('\n').collect();
        let new: Vec<&str> = differing.new.split_inclusive('\n').collect();
        let deadline = Instant::now().checked_add(limits.time);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
        Self {
            old,
            new,
            groups: group_diff_ops(ops, limits.context),
            skipped: limits.lines_before.map(|lines| lines + differing.skipped),
        }
    }
}

/// Text that stops growing at a limit.
struct Limited {
    text: String,
    most: usize,
    cut: usize,
    /// How many lines are there in part.
    parts: usize,
}

impl Limited {
    fn new(most: usize) -> Self {
        Self { text: String::new(), most, cut: 0, parts: 0 }
    }

    /// What is left of a line.
    fn part(&mut self, line: &str) {
        self.parts += 1;
        self.line(line);
    }

    fn line(&mut self, line: &str) {
        if self.cut > 0 || self.text.len() + line.len() > self.most {
            self.cut += 1;
        } else {
            self.text.push_str(line);
        }
    }

    fn done(mut self, hunks: &Hunks<'_>) -> Diff {
        if self.cut > 0 {
            let _ = writeln!(
                self.text,
                "… {} of the diff left out",
                super::lines::count_of(self.cut as u64, "line")
            );
        }
        let (mut added, mut removed) = (0, 0);
        for op in hunks.groups.iter().flatten().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
            added += op.new_range().len();
            removed += op.old_range().len();
        }
        Diff { text: self.text, added, removed, cut: self.cut + self.parts }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn diff(old: &str, new: &str) -> Diff {
        let side = |name, text: &'static str| Side { name, bytes: text.as_bytes() };
        let leak = |text: &str| -> &'static str { text.to_owned().leak() };
        unified(side("a/f", leak(old)), side("b/f", leak(new)), DiffLimits::default())
    }

    fn short(old: &[u8], new: &[u8], limits: DiffLimits) -> Diff {
        both(Side { name: "f", bytes: old }, Side { name: "f", bytes: new }, limits).1
    }

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "line ten\nand more\n");
        let found = diff(&old, &new);
        let expected = "--- a/f\n+++ b/f\n@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n\
                        +and more\n line 11\n line 12\n line 13\n";
        assert_eq!((found.text.as_str(), found.added, found.removed), (expected, 2, 1));
        let found = short(old.as_bytes(), new.as_bytes(), DiffLimits { context: 1, ..DiffLimits::default() });
        assert_eq!(found.text, " 9  line 9\n   -line 10\n10 +line ten\n11 +and more\n12  line 11\n");
    }

    #[test]
    fn a_missing_line_end_is_told() {
        let text = diff("a\nb", "a\nb\n").text;
        let expected = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n";
        assert_eq!(text, expected);
        assert_eq!(diff("", "a\n").text, "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(diff("a", "a"), Diff::default());
    }

    #[test]
    fn line_ends_alone_can_be_seen() {
        assert_eq!(short(b"a\r\n", b"a\n", DiffLimits::default()).text, "  -a␍\n1 +a\n");
        let among_others = short(b"a\r\nb\r\n", b"a\nc\r\n", DiffLimits::default()).text;
        assert_eq!(among_others, "  -a␍\n  -b\n1 +a\n2 +c\n");
    }

    #[test]
    fn of_long_lines_the_place_is_shown() {
        let front = "é".repeat(100_000);
        let [old, new] = ["one", "two"].map(|word| format!("{front}{word}{front}"));
        let side = |text: &'static str| Side { name: "f", bytes: text.as_bytes() };
        let whole = DiffLimits { bytes: 1 << 20, ..DiffLimits::default() };
        let whole = unified(side(old.clone().leak()), side(new.clone().leak()), whole).text;
        let short = short(old.as_bytes(), new.as_bytes(), DiffLimits::default()).text;
        for shown in [&short, &*shown(&whole), &diff(&old, &new).text] {
            assert!(shown.contains("éone") && shown.contains("étwo") && shown.len() < 3000, "{shown}");
        }
    }

    #[test]
    fn other_encodings_and_binary_data() {
        let side = |bytes| Side { name: "f", bytes };
        let found = unified(side(b"caf\xE9 au lait\n"), side(b"th\xE9 au lait\n"), DiffLimits::default());
        assert!(found.text.ends_with("-café au lait\n+thé au lait\n"), "{}", found.text);
        let found = unified(side(b"\0\x01"), side(b"\0\x02"), DiffLimits::default());
        assert_eq!(found.text, "Binary files f and f differ (2 and 2 bytes)\n");
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line() {
        let new: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let found = unified(
            Side { name: "f", bytes: b"" },
            Side { name: "f", bytes: new.as_bytes() },
            DiffLimits { bytes: 100, ..DiffLimits::default() },
        );
        assert!(
            found.text.len() < 150 && found.text.ends_with("lines of the diff left out\n"),
            "{}",
            found.text
        );
        assert_eq!((found.added, found.removed), (1000, 0));
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_whole_files(
            old in proptest::collection::vec("[ab]{0,1}\n", 0..20), new in proptest::collection::vec("[ab]{0,1}\n", 0..20),
            start in 0..100_usize,
        ) {
            let front = "same\n".repeat(start);
            let (old, new) = (front.clone() + &old.concat(), front + &new.concat());
            let found = diff(&old, &new);
            let lines = |text: &str| text.lines().count() as isize;
            prop_assert_eq!(lines(&new) - lines(&old), found.added as isize - found.removed as isize);
            let planned = super::super::patch::check_unified(&old, &found.text);
            if old != new {
                prop_assert_eq!(planned, new);
            }
        }

        #[test]
        fn nothing_panics(old: Vec<u8>, new: Vec<u8>) {
            unified(Side { name: "a", bytes: &old }, Side { name: "b", bytes: &new }, DiffLimits::default());
            short(&old, &new, DiffLimits::default());
        }
    }
}
