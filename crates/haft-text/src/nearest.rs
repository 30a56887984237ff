//! Finds the place in a text that is most similar to a block of lines which has no match, and classifies the differences
//! for the error message. Fuzzy search over whole lines; edits never use its result.

use std::collections::HashMap;

use rapidfuzz::distance::indel::BatchComparator;

use super::clusters::clip;
use super::find::fold;
use super::line_index::LineIndex;

/// Most lines of a text that is searched.
const MAX_LINES: usize = 1_000_000;
/// Most comparisons of two lines.
const MAX_COMPARISONS: usize = 4_000_000;
/// Most lines of a block that are compared; more hardly change the result.
const MAX_BLOCK: usize = 48;
/// Most bytes of a line that are compared.
const MAX_LINE: usize = 400;
/// Most lines of the place that are shown.
const MAX_SHOWN: usize = 40;
/// Most characters of a line that are shown.
const MAX_SHOWN_CHARS: usize = 200;
/// Lines with a lower similarity count as unrelated.
const MIN_LINE_SIMILARITY: f64 = 0.4;
/// Places with a lower weighted similarity are not shown.
const MIN_PLACE_SIMILARITY: f64 = 0.5;

/// A kind of difference between two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    Indentation,
    TrailingSpace,
    InnerSpace,
    BlankLines,
    Punctuation,
    Case,
    LineEnds,
    LookAlikes,
    NormalForm,
    Words,
}

impl Difference {
    const ALL: [Self; 9] = [
        Self::LineEnds,
        Self::BlankLines,
        Self::Indentation,
        Self::TrailingSpace,
        Self::Punctuation,
        Self::InnerSpace,
        Self::NormalForm,
        Self::LookAlikes,
        Self::Case,
    ];

    /// Name of the difference in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Indentation => "indentation",
            Self::TrailingSpace => "white space at the end of lines",
            Self::InnerSpace => "white space inside of lines",
            Self::BlankLines => "blank lines",
            Self::Punctuation => "quotes, dashes or spaces that look alike",
            Self::Case => "upper and lower case",
            Self::LineEnds => "line ends",
            Self::LookAlikes => "letters that look alike or cannot be seen",
            Self::NormalForm => "how accented letters are composed",
            Self::Words => "some words",
        }
    }
}

/// The result of the search for a similar place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// The most similar place.
    Place(Box<Near>),
    /// No place is similar enough.
    Nothing,
    /// The file is empty.
    EmptyFile,
    /// The file is too large to search.
    NotSought,
}

/// The most similar place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// Number of its first line, from 1.
    pub first: usize,
    /// Number of its last line.
    pub last: usize,
    /// Its first lines, with white space made visible.
    pub lines: Vec<String>,
    /// The kinds of difference from the text.
    pub differences: Vec<Difference>,
    /// Lines with other words or letters: line number, the line in the file, the line of the text.
    pub words: Vec<(usize, String, String)>,
}

/// Finds the most similar place to a text with `\n` line ends.
pub(crate) fn nearest(rows: &LineIndex<'_>, wanted: &str) -> Nearest {
    match rows.len() {
        0 => Nearest::EmptyFile,
        lines if lines > MAX_LINES => Nearest::NotSought,
        _ => near(rows, wanted).map_or(Nearest::Nothing, |near| Nearest::Place(Box::new(near))),
    }
}

fn near(rows: &LineIndex<'_>, wanted: &str) -> Option<Near> {
    let block: Vec<&str> = wanted.split('\n').collect();
    let from = block.iter().position(|line| !line.trim().is_empty())?;
    let to = block.iter().rposition(|line| !line.trim().is_empty())? + 1;
    let block = &block[from..to];
    let range = best_window(rows, block)?;
    let there: Vec<&str> = range.clone().map(|row| rows.line(row)).collect();
    let differences = differences(&block.join("\n"), &there.join("\n"));
    let words = if differences == [Difference::Words] {
        words(&range, &there, block, visible)
    } else if differences.contains(&Difference::LookAlikes) {
        words(&range, &there, block, escape_look_alikes)
    } else if differences.contains(&Difference::NormalForm) {
        words(&range, &there, block, escape_accents)
    } else {
        Vec::new()
    };
    let lines = there.iter().take(MAX_SHOWN).map(|line| visible(line)).collect();
    Some(Near { first: range.start + 1, last: range.end, lines, differences, words })
}

/// The rows that are most similar to a block. Every window of the block's length gets the weighted sum of its lines'
/// similarities; equal lines of the file are compared only once.
fn best_window(rows: &LineIndex<'_>, block: &[&str]) -> Option<std::ops::Range<usize>> {
    let mut ids_by_line: HashMap<&str, u32> = HashMap::new();
    let mut unique: Vec<&str> = Vec::new();
    let ids: Vec<u32> = rows
        .iter()
        .map(|line| {
            let line = line.trim();
            *ids_by_line.entry(line).or_insert_with(|| {
                unique.push(line);
                unique.len() as u32 - 1
            })
        })
        .collect();
    let max = (MAX_COMPARISONS / unique.len().max(1)).clamp(1, MAX_BLOCK);
    // The longest lines are the most distinctive.
    let mut chosen: Vec<usize> = (0..block.len()).filter(|at| !block[*at].trim().is_empty()).collect();
    chosen.sort_by_key(|at| std::cmp::Reverse(block[*at].trim().len()));
    chosen.truncate(max);
    chosen.sort_unstable();
    let mut sums = vec![0_f64; ids.len()];
    let mut total = 0.0;
    // Scores of the block's first and last line, to adjust the edges of the window.
    let mut edges: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for &at in &chosen {
        let line = block[at].trim();
        let weight = 1.0 + line.len().min(40) as f64;
        total += weight;
        let scores = scores(line, &unique, block.len());
        let score = |row: usize| ids.get(row).map_or(0.0, |id| scores[*id as usize]);
        for (row, sum) in sums.iter_mut().enumerate() {
            let middle = row + at;
            // A missing or additional line shifts the ones behind it by one, so the neighbours count almost as much.
            let around = score(middle.wrapping_sub(1)).max(score(middle + 1)) * 0.98;
            *sum += weight * score(middle).max(around);
        }
        if at == 0 {
            edges[0].clone_from(&scores);
        }
        if at + 1 == block.len() {
            edges[1] = scores;
        }
    }
    let (best, sum) =
        sums.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(&a.0)))?;
    if *sum < total * MIN_PLACE_SIMILARITY {
        return None;
    }
    // The window's first and last line may be off by one: move each edge to the best match among its neighbours.
    let adjust = |row: usize, scores: &[f64]| {
        let score =
            |row: &usize| ids.get(*row).and_then(|id| scores.get(*id as usize)).copied().unwrap_or(0.0);
        let around = [row, row.wrapping_sub(1), row + 1];
        let best = around.iter().map(score).fold(0.0, f64::max);
        around.into_iter().find(|row| score(row) >= best && ids.get(*row).is_some()).unwrap_or(row)
    };
    let start = adjust(best, &edges[0]).min(ids.len() - 1);
    let end = adjust(best + block.len() - 1, &edges[1]).min(ids.len() - 1);
    Some(start.min(end)..end.max(start) + 1)
}

/// Similarity of a line to each of the others, from 0 to 1. `block` is the number of lines in the block.
fn scores(line: &str, others: &[&str], block: usize) -> Vec<f64> {
    let clip = |line: &str| line.as_bytes()[..line.len().min(MAX_LINE)].to_vec();
    let line_bytes = clip(line);
    let compare = BatchComparator::new(line_bytes.iter().copied());
    let (len, single) = (line_bytes.len(), block == 1);
    let score = |other: &&str| {
        let other_bytes = &other.as_bytes()[..other.len().min(MAX_LINE)];
        let (short, long) = (len.min(other_bytes.len()), len.max(other_bytes.len()));
        // The text of a one-line block may be only a part of a line.
        if short == 0 || (long > short * 3 && !(single && other_bytes.len() > len)) {
            return 0.0;
        }
        let whole = compare.normalized_similarity(other_bytes.iter().copied());
        let part = if single && other_bytes.len() > len {
            let common = whole * (len + other_bytes.len()) as f64 / 2.0;
            0.8 * common / len as f64 + 0.2 * whole
        } else {
            0.0
        };
        let score = whole.max(part);
        if score < MIN_LINE_SIMILARITY { 0.0 } else { score }
    };
    others.iter().map(score).collect()
}

/// A minimal set of differences that explains why a text is not in another one: without them, it is. `Words` if no set
/// explains it.
pub(crate) fn differences(wanted: &str, there: &str) -> Vec<Difference> {
    let explains = |kinds: &[Difference]| normalize(there, kinds).contains(&normalize(wanted, kinds));
    let mut kinds = Difference::ALL.to_vec();
    if !explains(&kinds) {
        return vec![Difference::Words];
    }
    for kind in Difference::ALL.into_iter().rev() {
        let fewer: Vec<Difference> = kinds.iter().copied().filter(|other| *other != kind).collect();
        if explains(&fewer) {
            kinds = fewer;
        }
    }
    if kinds.is_empty() { vec![Difference::Words] } else { kinds }
}

/// Removes some kinds of difference from a text.
fn normalize(text: &str, kinds: &[Difference]) -> String {
    let has = |kind| kinds.contains(&kind);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut line: String = match has(Difference::LineEnds) {
            true => line.replace('\r', ""),
            false => line.to_owned(),
        };
        if has(Difference::NormalForm) {
            line = mask_accents(&line);
        }
        if has(Difference::LookAlikes) {
            line = line.chars().filter_map(skeleton).collect();
        }
        if has(Difference::Punctuation) {
            line = line.chars().map(fold).collect();
        }
        if has(Difference::Case) {
            line = line.to_lowercase();
        }
        if has(Difference::InnerSpace) {
            let indent = line.len() - line.trim_start().len();
            let end = line.trim_end().len().max(indent);
            let inner: String = line[indent..end].chars().filter(|char| !char.is_whitespace()).collect();
            line = format!("{}{inner}{}", &line[..indent], &line[end..]);
        }
        let line = if has(Difference::Indentation) { line.trim_start() } else { &line };
        let line = if has(Difference::TrailingSpace) { line.trim_end() } else { line };
        if !(has(Difference::BlankLines) && line.trim().is_empty()) {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Replaces letters with accents, composed or decomposed, by one sign. Which accent it is does not matter here.
fn mask_accents(line: &str) -> String {
    const ACCENTED: char = '\u{1}';
    let mut out = String::with_capacity(line.len());
    for char in line.chars() {
        match char {
            accent if is_accent(accent) => {
                // Replaces the letter before the accent, or the sign that already replaced it.
                out.pop();
                out.push(ACCENTED);
            }
            '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => out.push(ACCENTED),
            other => out.push(other),
        }
    }
    out
}

/// The ASCII letter that a character looks like; `None` for an invisible character.
fn skeleton(char: char) -> Option<char> {
    const FROM: &str = "АВЕКМНОРСТУХІЈЅасеорхуіјѕΑΒΕΖΗΙΚΜΝΟΡΤΥΧορν";
    const TO: &str = "ABEKMHOPCTYXIJSaceopxyijsABEZHIKMNOPTYXopv";
    match char {
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => None,
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(char) - 0xFEE0),
        _ => match FROM.chars().position(|from| from == char) {
            Some(at) => TO.chars().nth(at),
            None => Some(char),
        },
    }
}

/// Shows a line with look-alike and invisible characters as Unicode escapes.
fn escape_look_alikes(line: &str) -> String {
    let written = |char: char| match skeleton(char) == Some(char) && !is_accent(char) {
        true => char.to_string(),
        false => char.escape_unicode().to_string(),
    };
    visible(&line.chars().map(written).collect::<String>())
}

/// Shows a line with combining accents as Unicode escapes.
fn escape_accents(line: &str) -> String {
    let written = |char: char| match is_accent(char) {
        true => char.escape_unicode().to_string(),
        false => char.to_string(),
    };
    visible(&line.chars().map(written).collect::<String>())
}

/// Whether a character is a combining accent.
fn is_accent(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}')
}

/// The lines that differ, at most three.
fn words(
    range: &std::ops::Range<usize>,
    there: &[&str],
    block: &[&str],
    shown: fn(&str) -> String,
) -> Vec<(usize, String, String)> {
    let pairs = range.clone().zip(there.iter().zip(block));
    pairs
        .filter(|(_, (there, wanted))| there.trim() != wanted.trim())
        .map(|(row, (there, wanted))| (row + 1, shown(there.trim()), shown(wanted.trim())))
        .take(3)
        .collect()
}

/// Shows a line with visible white space: all of it at both ends, and inside all but plain spaces. Cuts a long line.
pub(crate) fn visible(line: &str) -> String {
    let start = line.len() - line.trim_start().len();
    let end = line.trim_end().len().max(start);
    let mut out = String::with_capacity(line.len());
    let clipped = clip(line, MAX_SHOWN_CHARS);
    for (at, char) in clipped.unwrap_or(line).char_indices() {
        match char {
            ' ' if at < start || at >= end => out.push('·'),
            '\t' => out.push('→'),
            '\r' => out.push('␍'),
            '\u{a0}' => out.push('⍽'),
            other => out.push(other),
        }
    }
    if clipped.is_some() {
        out.push('…');
    }
    out
}
