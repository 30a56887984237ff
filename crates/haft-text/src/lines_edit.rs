//! Plans edits of one file by line numbers, each on the result of the ones before, all or nothing. New lines take the
//! line ends of the lines that they replace, and the last line stays terminated or unterminated.

use super::artifacts::placeholder;
use super::draft::{Draft, EditPlan, Follows};
use super::encoding::Source;
use super::find::normalize_line_ends;
use super::line_index::LineIndex;
use super::line_match::{Step, rewrite};
use super::mismatch::{Mismatch, Problem};
use super::options::EditOptions;

/// Lines of context shown before and after a wrong line number.
const CONTEXT: usize = 3;

/// Replaces a range of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineEdit {
    /// The first line, counted from 1.
    pub start: usize,
    /// The last line.
    pub end: usize,
    /// The replacement.
    pub content: LineContent,
}

impl LineEdit {
    /// The range of lines, for messages.
    fn lines(&self) -> String {
        match self.start == self.end {
            true => format!("line {}", self.start),
            false => format!("lines {}-{}", self.start, self.end),
        }
    }
}

/// The replacement of lines. An empty one deletes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineContent {
    /// Text of any number of lines; a final line end adds no line.
    Text(String),
    /// A list of lines.
    Lines(Vec<String>),
}

/// A plan of line edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinesPlanned {
    /// The changes to the file.
    pub planned: EditPlan,
    /// Warnings about edits that may be mistakes.
    pub warnings: Vec<String>,
}

/// Why line edits cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinesMismatch {
    /// An invalid line number, or one beyond the end of the file.
    Range {
        /// Number of the edit, from 1.
        edit: usize,
        /// Number of edits.
        of: usize,
        start: usize,
        end: usize,
        /// Number of lines in the file after the edits before this one.
        lines: usize,
        /// Nearby lines, with their numbers.
        around: Vec<(usize, String)>,
    },
    /// The replacement is refused or cannot be written.
    Content(Mismatch),
}

impl LinesMismatch {
    /// One-line error message.
    pub fn message(&self) -> String {
        let Self::Range { edit, of, start, end, lines, .. } = self else {
            let Self::Content(mismatch) = self else { return String::new() };
            return mismatch.message();
        };
        let which = if *of > 1 { format!("edit {edit} of {of}: ") } else { String::new() };
        if *start == 0 || *end == 0 {
            return format!("{which}line numbers begin at 1");
        }
        if start > end {
            return format!("{which}the first line, {start}, is after the last, {end}");
        }
        let has = match lines {
            0 => "no lines".to_owned(),
            _ => super::lines::count_of(*lines as u64, "line"),
        };
        let wrong = if start > lines { start } else { end };
        let when = if *edit > 1 { " after the edits before it" } else { "" };
        format!("{which}there is no line {wrong}: the file has {has}{when}")
    }

    /// Advice on how to correct the edit.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Content(mismatch) => mismatch.hint(),
            Self::Range { lines: 0, .. } => Some("write all of the file instead".to_owned()),
            Self::Range { around, .. } if around.is_empty() => None,
            Self::Range { around, .. } => {
                let mut hint = "the lines near by are".to_owned();
                around.iter().for_each(|(line, text)| hint.push_str(&format!("\n{line}: {text}")));
                Some(hint)
            }
        }
    }
}

/// Plans line edits, each on the result of the ones before.
pub fn plan_lines(
    source: &Source,
    edits: &[LineEdit],
    options: impl Into<EditOptions>,
) -> Result<LinesPlanned, LinesMismatch> {
    let mut draft = Draft::new(source);
    let of = edits.len();
    let options = options.into();
    for (at, edit) in edits.iter().enumerate() {
        let current = draft.current();
        let rows = LineIndex::new(current.text(), current.ending());
        let LineEdit { start, end, content } = edit;
        let (start, end) = (*start, *end);
        if start == 0 || start > end || end > rows.len() {
            let around = around(&rows, start, end);
            return Err(LinesMismatch::Range { edit: at + 1, of, start, end, lines: rows.len(), around });
        }
        let fail = |problem| LinesMismatch::Content(Mismatch { edit: at + 1, of, problem });
        let new = lines(content, current);
        let old = (start - 1..end).map(|row| rows.line(row)).collect::<Vec<_>>().join("\n");
        if let Some((line, text)) = placeholder(&old, &new.join("\n"), options) {
            return Err(fail(Problem::Placeholder { line, text }));
        }
        let cuts = std::iter::repeat_n(Step::Delete, end + 1 - start);
        let steps: Vec<Step> = cuts.chain(new.into_iter().map(Step::Insert)).collect();
        let splices = rewrite(&rows, start - 1, &steps, current.ending());
        draft.planned.replaced += 1;
        draft.apply(splices, Follows::after(at, of)).map_err(fail)?;
    }
    Ok(LinesPlanned { planned: draft.done(), warnings: warnings(edits, source) })
}

fn lines(content: &LineContent, source: &Source) -> Vec<String> {
    let split = |text: &str| {
        normalize_line_ends(text, source.ending()).split('\n').map(str::to_owned).collect::<Vec<_>>()
    };
    match content {
        LineContent::Text(text) if text.is_empty() => Vec::new(),
        LineContent::Text(text) => {
            let text = normalize_line_ends(text, source.ending());
            split(text.strip_suffix('\n').unwrap_or(&text))
        }
        LineContent::Lines(lines) => {
            lines.iter().flat_map(|line| split(line.strip_suffix('\n').unwrap_or(line))).collect()
        }
    }
}

fn around(rows: &LineIndex<'_>, start: usize, end: usize) -> Vec<(usize, String)> {
    let middle = if start > rows.len() || start == 0 { start } else { end };
    let middle = middle.clamp(1, rows.len().max(1));
    let shown = middle.saturating_sub(CONTEXT + 1)..(middle + CONTEXT).min(rows.len());
    shown.map(|row| (row + 1, super::nearest::visible(rows.line(row)))).collect()
}

/// Warnings about edits that overlap, or whose line numbers earlier edits have shifted: the model may have counted in
/// the original file.
fn warnings(edits: &[LineEdit], source: &Source) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        for (earlier, other) in edits[..at].iter().enumerate() {
            if other.start <= edit.end && edit.start <= other.end {
                warnings.push(format!(
                    "edits {} and {} overlap: {} and {}; the later one was made on what the earlier one left",
                    earlier + 1,
                    at + 1,
                    other.lines(),
                    edit.lines()
                ));
            }
        }
        let shift: isize = edits[..at]
            .iter()
            .filter(|other| other.end < edit.start)
            .map(|other| {
                lines(&other.content, source).len() as isize - (other.end + 1 - other.start) as isize
            })
            .sum();
        if shift != 0 {
            warnings.push(format!(
                "edit {} was made at {} as counted after the edits before it, which had moved what follows by {shift:+}",
                at + 1, edit.lines()
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(start: usize, end: usize, text: &str) -> LineEdit {
        LineEdit { start, end, content: LineContent::Text(text.to_owned()) }
    }

    fn edited(text: &str, edits: &[LineEdit]) -> String {
        let source = Source::new(text.into()).unwrap();
        let planned = plan_lines(&source, edits, EditOptions::default())
            .unwrap_or_else(|bad| panic!("{}", bad.message()));
        String::from_utf8(planned.planned.splices.apply(source.bytes())).unwrap()
    }

    #[test]
    fn lines_are_replaced_inserted_and_deleted() {
        assert_eq!(edited("a\nb\nc\n", &[edit(2, 2, "x")]), "a\nx\nc\n");
        assert_eq!(edited("a\nb\nc\n", &[edit(2, 2, "x\ny\n")]), "a\nx\ny\nc\n");
        assert_eq!(edited("a\nb\nc\n", &[edit(1, 2, "")]), "c\n");
        assert_eq!(edited("a\nb\nc", &[edit(3, 3, "")]), "a\nb");
        assert_eq!(edited("a\nb\nc", &[edit(3, 3, "x\n")]), "a\nb\nx");
        assert_eq!(edited("a\nb\n", &[edit(1, 2, "\n")]), "\n");
        let lines = LineContent::Lines(vec!["  if x:".to_owned(), "    y".to_owned()]);
        assert_eq!(edited("a\nb\n", &[LineEdit { start: 1, end: 1, content: lines }]), "  if x:\n    y\nb\n");
        let none = LineContent::Lines(Vec::new());
        assert_eq!(edited("a\nb\n", &[LineEdit { start: 1, end: 1, content: none }]), "b\n");
    }

    #[test]
    fn line_ends_are_kept() {
        assert_eq!(edited("a\r\nb\r\nc", &[edit(2, 2, "x\ny")]), "a\r\nx\r\ny\r\nc");
        assert_eq!(edited("a\rb\rc\r", &[edit(2, 2, "x\ny")]), "a\rx\ry\rc\r");
        assert_eq!(edited("a\r\nb\nc\n", &[edit(1, 2, "x\ny")]), "x\r\ny\nc\n");
    }

    #[test]
    fn dependent_edits_give_warnings() {
        let source = Source::new(String::from("a\nb\nc\nd\n").into()).unwrap();
        let planned =
            plan_lines(&source, &[edit(1, 1, "x\ny"), edit(2, 3, "z")], EditOptions::default()).unwrap();
        assert_eq!(planned.planned.splices.apply(source.bytes()), b"x\nz\nc\nd\n");
        assert_eq!(planned.warnings.len(), 1, "{:?}", planned.warnings);
        let planned =
            plan_lines(&source, &[edit(1, 2, "x"), edit(2, 3, "z")], EditOptions::default()).unwrap();
        assert!(planned.warnings[0].contains("overlap"), "{:?}", planned.warnings);
        assert!(
            plan_lines(&source, &[edit(1, 1, "x"), edit(3, 3, "z")], EditOptions::default())
                .unwrap()
                .warnings
                .is_empty()
        );
    }

    #[test]
    fn wrong_numbers_show_nearby_lines() {
        let source = Source::new(String::from("a\n\tb\n").into()).unwrap();
        let fault =
            |start, end| plan_lines(&source, &[edit(start, end, "x")], EditOptions::default()).unwrap_err();
        assert_eq!(fault(3, 3).message(), "there is no line 3: the file has 2 lines");
        assert_eq!(fault(3, 3).hint().unwrap(), "the lines near by are\n1: a\n2: →b");
        assert_eq!(fault(0, 1).message(), "line numbers begin at 1");
        assert_eq!(fault(2, 1).message(), "the first line, 2, is after the last, 1");
        let empty = plan_lines(
            &Source::new(String::from("").into()).unwrap(),
            &[edit(1, 1, "x")],
            EditOptions::default(),
        )
        .unwrap_err();
        assert_eq!(empty.message(), "there is no line 1: the file has no lines");
    }

    proptest! {
        #[test]
        fn lines_outside_of_the_range_are_identical(
            lines in proptest::collection::vec("[a-c]{0,3}", 1..8), start in 1..8_usize, len in 0..4_usize,
            new in "[a-c\n]{0,6}", end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], ended: bool,
        ) {
            let text = lines.join(end) + if ended { end } else { "" };
            let source = Source::new(text.clone().into()).unwrap();
            let rows = LineIndex::new(source.text(), source.ending());
            if let Ok(planned) = plan_lines(&source, &[edit(start, start + len, &new)], EditOptions::default()) {
                let after = planned.planned.splices.apply(source.bytes());
                let before: usize = (0..start - 1).map(|row| rows.whole(row).len()).sum();
                let behind: usize = (start + len..rows.len()).map(|row| rows.whole(row).len()).sum();
                // Without its last line, an unterminated file loses the line end before it.
                let kept = if behind == 0 && new.is_empty() { before.saturating_sub(2) } else { before };
                prop_assert_eq!(&after[..kept], &text.as_bytes()[..kept]);
                prop_assert_eq!(&after[after.len() - behind..], &text.as_bytes()[text.len() - behind..]);
            }
        }
    }
}
