//! Diffs between two contents of a file: as a unified diff, and in a short numbered form for replies. Skips the common
//! start and end first, so that the cost depends on the changed region; limits on time and size end with a note.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::clusters::{clip, floor};
use super::encoding::Source;

/// Chunk sizes for comparing bytes: first coarse, then fine within the first chunk that differs.
const CHUNKS: [usize; 2] = [4096, 32];
/// Most characters of a line that are shown; of a longer one, an excerpt.
const MAX_SHOWN_CHARS: usize = 500;
/// Characters before the change in such an excerpt.
const LEAD: usize = 100;

/// Most lines of a diff in a reply to a model, which knows most of what it changed.
pub const MAX_REPLY_LINES: usize = 100;
/// Most characters of a diff in a reply to a model.
pub const MAX_REPLY_CHARS: usize = 4000;

/// Limits of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLimits {
    /// Context lines around each change.
    pub context: usize,
    /// Most bytes of the diff; a longer one is cut at a line.
    pub bytes: usize,
    /// Time limit; after it, the diff is coarser.
    pub time: Duration,
    /// Number of lines before the compared parts, in the old and the new file, if these are not whole files.
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
    /// Name in the diff's header.
    pub name: &'a str,
    /// The content.
    pub bytes: &'a [u8],
}

/// A diff between two contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The diff as text; empty if nothing changed.
    pub text: String,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// Number of lines of the diff that are left out or shortened.
    pub cut: usize,
}

/// Computes a unified diff.
pub fn unified(before: Side<'_>, after: Side<'_>, limits: DiffLimits) -> Diff {
    let names = [before.name, after.name];
    let diff = |hunks: &Hunks<'_>| unified_text(hunks, names, limits);
    compare(before, after, limits, diff, |sizes| binary(names, sizes)).unwrap_or_default()
}

/// Computes a unified diff, and the short form: changed lines with context, numbered as in the new file; removed lines
/// have no number.
pub fn unified_and_short(before: Side<'_>, after: Side<'_>, limits: DiffLimits) -> (Diff, Diff) {
    let names = [before.name, after.name];
    let diffs = |hunks: &Hunks<'_>| (unified_text(hunks, names, limits), numbered_text(hunks, limits));
    let binaries = |sizes| (binary(names, sizes), binary(["the file"; 2], sizes));
    compare(before, after, limits, diffs, binaries).unwrap_or_default()
}

/// Compares two contents, and calls `text` with the hunks, or `binary` with the sizes of binary files. `None` if nothing
/// changed.
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
    Some(match ChangedRegion::new(before.bytes, after.bytes, limits.context) {
        Some(region) => text(&Hunks::new(&region, limits)),
        None => binary([before.bytes.len(), after.bytes.len()]),
    })
}

/// Formats hunks as a unified diff.
fn unified_text(hunks: &Hunks<'_>, [before, after]: [&str; 2], limits: DiffLimits) -> Diff {
    let mut out = BoundedText::new(limits.bytes);
    out.line(&format!("--- {before}\n+++ {after}\n"));
    for group in &hunks.groups {
        let (old, new) = span(group);
        let head = |range: Range<usize>, skipped: usize| match range.len() {
            // The header of an empty range names the line before it.
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
                    // A line that can never fit is shown as an excerpt.
                    match line.len() > limits.bytes {
                        true => out.excerpt(&signed_line(sign, &excerpt(line, others.get(at)))),
                        false => out.line(&signed_line(sign, line)),
                    }
                }
            }
        }
    }
    out.done(hunks)
}

/// Formats hunks in the short form.
fn numbered_text(hunks: &Hunks<'_>, limits: DiffLimits) -> Diff {
    let skipped = hunks.skipped[1];
    let width = (skipped + hunks.new.len()).max(1).ilog10() as usize + 1;
    let mut out = BoundedText::new(limits.bytes);
    for (at, group) in hunks.groups.iter().enumerate() {
        if at > 0 {
            out.line(&format!("{:width$} …\n", ""));
        }
        let ends = LineEndChanges::new(hunks, group);
        for op in group {
            let (sign_old, sign_new) = signs(op);
            let (old, new) = (&hunks.old[op.old_range()], &hunks.new[op.new_range()]);
            if sign_old == Some('-') {
                for (at, line) in old.iter().enumerate() {
                    out.line(&format!("{:width$} -{}\n", "", excerpt(&ends.shown(line), new.get(at))));
                }
            }
            let sign = sign_new.or(sign_old.filter(|sign| *sign == ' '));
            for (at, line) in new.iter().enumerate().filter(|_| sign.is_some()) {
                let sign = sign.unwrap_or(' ');
                let number = skipped + op.new_range().start + at + 1;
                let other = old.get(at).filter(|_| sign == '+');
                out.line(&format!("{number:width$} {sign}{}\n", excerpt(&ends.shown(line), other)));
            }
        }
    }
    out.done(hunks)
}

/// A unified diff for display: long lines become excerpts around the change.
pub fn shorten_long_lines(diff: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = diff.split_inclusive('\n').collect();
    if lines.iter().all(|line| line.len() <= MAX_SHOWN_CHARS) {
        return Cow::Borrowed(diff);
    }
    let mut out = String::new();
    for run in lines.chunk_by(|before, after| is_changed(before) && is_changed(after)) {
        let signed = |sign| run.iter().filter(move |line| line.starts_with(sign));
        let (mut removed, mut added) = (signed('-'), signed('+'));
        for line in run {
            let other = match line.as_bytes().first() {
                Some(b'-') => added.next(),
                Some(b'+') => removed.next(),
                _ => None,
            };
            let (sign, line) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
            out.push_str(sign);
            out.push_str(&excerpt(line, other.map(|other| &other[1..]).as_ref()));
        }
    }
    Cow::Owned(out)
}

/// The start of a diff, as much as a reply shows, and the number of further lines. A byte order mark is no part of the
/// text that a model sees.
pub fn clip_for_reply(diff: &str) -> Cow<'_, str> {
    if diff.contains('\u{FEFF}') {
        return Cow::Owned(clip_for_reply(&diff.replace('\u{FEFF}', "")).into_owned());
    }
    let mut chars = 0;
    let fits = |(at, line): &(usize, &str)| {
        chars += line.chars().count();
        *at < MAX_REPLY_LINES && chars <= MAX_REPLY_CHARS
    };
    let lines = || diff.split_inclusive('\n');
    let kept: usize = lines().enumerate().take_while(fits).map(|(_, line)| line.len()).sum();
    match diff[kept..].lines().count() {
        0 => Cow::Borrowed(diff),
        more => {
            let more = super::lines::count_of(more as u64, "more line");
            Cow::Owned(format!("{}… {more} of the diff\n", &diff[..kept]))
        }
    }
}

/// Whether a line of a diff is changed and not context.
fn is_changed(line: &str) -> bool {
    line.starts_with(['-', '+', '\\'])
}

/// A line, or of a long one the excerpt around its first difference from `other`, the line that it replaces.
fn excerpt<'a>(line: &'a str, other: Option<&&str>) -> Cow<'a, str> {
    let body = without_line_end(line);
    let Some((within, _)) = body.char_indices().nth(MAX_SHOWN_CHARS - LEAD) else {
        return Cow::Borrowed(line);
    };
    if body.char_indices().nth(MAX_SHOWN_CHARS).is_none() {
        return Cow::Borrowed(line);
    }
    let mut place = other.map_or(0, |other| common_start(body.as_bytes(), other.as_bytes()));
    while !body.is_char_boundary(place) {
        place -= 1;
    }
    let start = match place < within {
        true => 0,
        false => body[..place].char_indices().nth_back(LEAD - 1).map_or(0, |(at, _)| floor(body, at)),
    };
    let end = clip(&body[start..], MAX_SHOWN_CHARS).map_or(body.len(), |shown| start + shown.len());
    let dots = |cut: bool| if cut { "…" } else { "" };
    let (front, back) = (dots(start > 0), dots(end < body.len()));
    Cow::Owned(format!("{front}{}{back}{}", &body[start..end], &line[body.len()..]))
}

/// Lines of a change that are on both sides and differ only in their line ends.
struct LineEndChanges<'a>(HashSet<&'a str>);

impl<'a> LineEndChanges<'a> {
    fn new(hunks: &Hunks<'a>, group: &[DiffOp]) -> Self {
        let changed = || group.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
        let old = changed().flat_map(|op| &hunks.old[op.old_range()]);
        let new = changed().flat_map(|op| &hunks.new[op.new_range()]);
        let old: HashSet<&str> = old.map(|line| without_line_end(line)).collect();
        Self(new.map(|line| without_line_end(line)).filter(|line| old.contains(line)).collect())
    }

    /// A line for display: without its line end, unless that is the only difference.
    fn shown(&self, line: &str) -> String {
        match self.0.contains(without_line_end(line)) {
            true if !line.ends_with(['\n', '\r']) => format!("{line} (no newline at the end)"),
            true => line.trim_end_matches('\n').replace('\r', "␍"),
            false => without_line_end(line).to_owned(),
        }
    }
}

fn binary([before, after]: [&str; 2], [was, is]: [usize; 2]) -> Diff {
    let text = format!("Binary files {before} and {after} differ ({was} and {is} bytes)\n");
    Diff { text, ..Diff::default() }
}

/// The signs of an operation's lines, on the old and on the new side.
fn signs(op: &DiffOp) -> (Option<char>, Option<char>) {
    match op {
        DiffOp::Equal { .. } => (Some(' '), None),
        DiffOp::Delete { .. } => (Some('-'), None),
        DiffOp::Insert { .. } => (None, Some('+')),
        DiffOp::Replace { .. } => (Some('-'), Some('+')),
    }
}

fn signed_line(sign: char, line: &str) -> String {
    match line.ends_with('\n') {
        true => format!("{sign}{line}"),
        false => format!("{sign}{line}\n\\ No newline at end of file\n"),
    }
}

fn without_line_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

/// The ranges of rows that a group covers, on the old and on the new side.
fn span(group: &[DiffOp]) -> (Range<usize>, Range<usize>) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return (0..0, 0..0) };
    (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end)
}

/// The regions of two texts that differ, with context lines.
struct ChangedRegion<'a> {
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    /// Number of equal lines before the region.
    skipped: usize,
}

impl<'a> ChangedRegion<'a> {
    /// `None` if one side is binary.
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

/// Start of the changed lines, and their end on each side, with `context` lines around them.
fn trim(old: &[u8], new: &[u8], context: usize) -> (usize, usize, usize) {
    let shorter = old.len().min(new.len());
    let same = common_start(old, new);
    let mut ends = memchr::memrchr_iter(b'\n', &old[..same]);
    let from = ends.nth(context).map_or(0, |end| end + 1);
    let tail = common_end(old, new).min(shorter - same);
    // The common end may begin in the middle of a line, which then counts as changed.
    let after = &old[old.len() - tail..];
    let kept = memchr::memchr_iter(b'\n', after).nth(context).map_or(0, |end| after.len() - end - 1);
    (from, old.len() - kept, new.len() - kept)
}

/// Length of the common prefix.
pub fn common_start(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS {
        let pairs = a[same..].chunks_exact(size).zip(b[same..].chunks_exact(size));
        same += size * pairs.take_while(|(a, b)| a == b).count();
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// Length of the common suffix.
pub fn common_end(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS {
        let pairs = a[..a.len() - same].rchunks_exact(size).zip(b[..b.len() - same].rchunks_exact(size));
        same += size * pairs.take_while(|(a, b)| a == b).count();
    }
    let rest = a[..a.len() - same].iter().rev().zip(b[..b.len() - same].iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// The lines of both sides, and the operations on them in groups.
struct Hunks<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    groups: Vec<Vec<DiffOp>>,
    skipped: [usize; 2],
}

impl<'a> Hunks<'a> {
    fn new(region: &'a ChangedRegion<'_>, limits: DiffLimits) -> Self {
        let old: Vec<&str> = region.old.split_inclusive('\n').collect();
        let new: Vec<&str> = region.new.split_inclusive('\n').collect();
        let deadline = Instant::now().checked_add(limits.time);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
        Self {
            old,
            new,
            groups: group_diff_ops(ops, limits.context),
            skipped: limits.lines_before.map(|lines| lines + region.skipped),
        }
    }
}

/// Text that stops growing at a limit, and counts the lines beyond it.
struct BoundedText {
    text: String,
    max_bytes: usize,
    cut: usize,
    /// Number of lines that are excerpts.
    excerpts: usize,
}

impl BoundedText {
    fn new(max_bytes: usize) -> Self {
        Self { text: String::new(), max_bytes, cut: 0, excerpts: 0 }
    }

    /// Adds an excerpt of a line.
    fn excerpt(&mut self, line: &str) {
        self.excerpts += 1;
        self.line(line);
    }

    fn line(&mut self, line: &str) {
        if self.cut > 0 || self.text.len() + line.len() > self.max_bytes {
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
        Diff { text: self.text, added, removed, cut: self.cut + self.excerpts }
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
        unified_and_short(Side { name: "f", bytes: old }, Side { name: "f", bytes: new }, limits).1
    }

    #[test]
    fn a_reply_shows_the_start_of_a_long_diff_and_counts_the_rest() {
        let lines: String = (0..300).map(|n| format!("+{n}\n")).collect();
        let clipped = clip_for_reply(&lines);
        assert_eq!(clipped.lines().count(), MAX_REPLY_LINES + 1);
        assert!(clipped.ends_with("+99\n… 200 more lines of the diff\n"), "{clipped}");
        let wide = format!("{}\n", "é".repeat(1000)).repeat(5);
        let clipped = clip_for_reply(&wide);
        assert!(
            clipped.chars().count() <= MAX_REPLY_CHARS + 40
                && clipped.ends_with("… 2 more lines of the diff\n")
        );
        assert_eq!(clip_for_reply("+a\n"), "+a\n");
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
    fn a_missing_line_end_is_shown() {
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
    fn of_long_lines_the_change_is_shown() {
        let front = "é".repeat(100_000);
        let [old, new] = ["one", "two"].map(|word| format!("{front}{word}{front}"));
        let side = |text: &'static str| Side { name: "f", bytes: text.as_bytes() };
        let whole = DiffLimits { bytes: 1 << 20, ..DiffLimits::default() };
        let whole = unified(side(old.clone().leak()), side(new.clone().leak()), whole).text;
        let short = short(old.as_bytes(), new.as_bytes(), DiffLimits::default()).text;
        for shown in [&short, &*shorten_long_lines(&whole), &diff(&old, &new).text] {
            assert!(shown.contains("éone") && shown.contains("étwo") && shown.len() < 3000, "{shown}");
        }
    }

    #[test]
    fn an_excerpt_begins_and_ends_between_grapheme_clusters() {
        // Clusters of three code points, so that neither the lead nor the limit falls between two of them.
        let cluster = "e\u{301}\u{323}";
        let side = |word: &str| format!("{}{word}{}\n", cluster.repeat(400), cluster.repeat(400));
        let text = short(side("one").as_bytes(), side("two").as_bytes(), DiffLimits::default()).text;
        assert!(
            text.contains("…e\u{301}") && !text.contains("…\u{301}") && !text.contains("…\u{323}"),
            "{text}"
        );
        assert!(text.contains("\u{323}…") && !text.contains("e…") && !text.contains("\u{301}…"), "{text}");
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
