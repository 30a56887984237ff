//! An error as it is shown: the line, and a mark under the place. Knows how wide characters are, nothing of
//! languages.

use unicode_width::UnicodeWidthChar;

use super::Problem;

/// How many characters of a line are shown.
const MAX_SOURCE: usize = 160;
/// How many of them stand before the place, if the line is cut.
const BEFORE: usize = 80;

/// An error, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// On which line, from one.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// The line, without its end; cut around the place if it is very long.
    pub source: String,
    /// What to write below the line: blanks, and `^` under the place. Tabs are kept.
    pub marker: String,
}

impl Finding {
    pub(super) fn new(problem: &Problem, lines: &[&str]) -> Self {
        let line = lines.get(problem.line.saturating_sub(1)).copied().unwrap_or("");
        let line: Vec<char> = line.trim_end_matches('\r').chars().collect();
        let column = problem.column.saturating_sub(1).min(line.len());
        let from = if line.len() > MAX_SOURCE { column.saturating_sub(BEFORE) } else { 0 };
        let to = line.len().min(from + MAX_SOURCE);
        let mut source = String::new();
        let mut marker = String::new();
        if from > 0 {
            source.push('…');
            marker.push(' ');
        }
        source.extend(&line[from..to]);
        for &char in &line[from..column] {
            match char {
                '\t' => marker.push('\t'),
                _ => marker.extend(std::iter::repeat_n(' ', char.width().unwrap_or(0))),
            }
        }
        marker.push('^');
        if to < line.len() {
            source.push('…');
        }
        Self { line: problem.line, message: problem.message.clone(), source, marker }
    }
}
