//! Why an edit cannot be made, with the message and the hint that a model needs to correct it.

use super::encoding::Unwritable;
use super::nearest::{Near, Nearest};

/// Why edits of a file cannot be made. None of them is made then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the edit, from 1.
    pub edit: usize,
    /// Number of edits.
    pub of: usize,
    /// The problem.
    pub problem: Problem,
}

/// A problem with an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The old text is empty.
    Empty,
    /// The new text equals the old one.
    Same,
    /// The new text differs from the old one in line ends only, and these follow the file.
    SameButLineEnds,
    /// The old text is not in the file.
    NotFound {
        /// The most similar place.
        near: Nearest,
        /// Whether the old text contains line numbers copied from a reply.
        numbered: bool,
    },
    /// The old text is in the file more than once.
    Several {
        /// Number of occurrences.
        total: usize,
        /// Line numbers and lines, at most ten.
        places: Vec<(usize, String)>,
        /// Whether they match only if white space and punctuation are ignored.
        loosely: bool,
    },
    /// More occurrences than one edit may replace.
    TooMany {
        /// Number of occurrences.
        total: usize,
        /// Most occurrences that one edit replaces.
        most: usize,
    },
    /// A line of the new text stands for omitted code.
    Placeholder {
        /// Number of the line in the new text.
        line: usize,
        /// The line.
        text: String,
    },
    /// The new text cannot be written in the file's encoding.
    Unwritable(Unwritable),
    /// The new text would merge with undecodable bytes.
    Undecodable {
        /// Number of the line in the file.
        line: usize,
    },
}

impl Mismatch {
    /// One-line error message.
    pub fn message(&self) -> String {
        let message = self.problem.message();
        if self.of > 1 { format!("edit {} of {}: {message}", self.edit, self.of) } else { message }
    }

    /// Advice on how to correct the edit; several lines if it shows a place.
    pub fn hint(&self) -> Option<String> {
        self.problem.hint()
    }
}

impl Problem {
    /// One-line error message.
    pub fn message(&self) -> String {
        match self {
            Self::Empty => "the text to replace is empty".to_owned(),
            Self::Same => "the new text is the same as the text to replace".to_owned(),
            Self::SameButLineEnds => {
                "the new text differs from the text to replace in line ends only, and those follow the file"
                    .to_owned()
            }
            Self::NotFound { near, .. } => not_found_message(near),
            Self::Several { total, loosely: false, .. } => {
                format!("the text to replace is there {total} times")
            }
            Self::Several { total, loosely: true, .. } => format!(
                "the text to replace was not found, and {total} places come as near, white space and punctuation aside"
            ),
            Self::TooMany { total, most } => {
                format!("the text to replace is there {total} times; at most {most} are replaced at once")
            }
            Self::Placeholder { line, text } => {
                format!("line {line} of the new text, `{text}`, stands for code that is left out")
            }
            Self::Unwritable(unwritable) => unwritable.to_string(),
            Self::Undecodable { line } => {
                format!("line {line} has bytes that are no text, and the new text would merge with them")
            }
        }
    }

    /// Advice on how to correct the edit.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Empty => {
                "give the text that is there now; to fill an empty file, write all of it".to_owned()
            }
            Self::Same | Self::SameButLineEnds => return None,
            Self::NotFound { near, numbered, .. } => return Some(not_found_hint(near, *numbered)),
            Self::Several { places, total, .. } => {
                let mut hint =
                    "give more of the text around it, or replace every occurrence; it begins at".to_owned();
                places.iter().for_each(|(line, text)| hint.push_str(&format!("\n{line}: {text}")));
                if *total > places.len() {
                    hint.push_str(&format!("\nand {} more", total - places.len()));
                }
                hint
            }
            Self::TooMany { .. } => "replace them with a command".to_owned(),
            Self::Placeholder { .. } => "write the new text out in full: nothing is filled in".to_owned(),
            Self::Unwritable(unwritable) => unwritable.hint().to_owned(),
            Self::Undecodable { .. } => "leave the line as it is".to_owned(),
        })
    }
}

fn not_found_message(near: &Nearest) -> String {
    let what = "the text to replace was not found";
    match near {
        Nearest::EmptyFile => format!("{what}: the file is empty"),
        Nearest::Nothing => format!("{what}, nor anything like it"),
        Nearest::NotSought => format!("{what}, and the file is too large to look for what comes near"),
        Nearest::Place(near) => {
            let names: Vec<&str> = near.differences.iter().map(|kind| kind.name()).collect();
            let names = listed(&names);
            if near.first == near.last {
                format!("{what}; line {} differs from it in {names}", near.first)
            } else {
                format!("{what}; lines {}-{} differ from it in {names}", near.first, near.last)
            }
        }
    }
}

fn not_found_hint(near: &Nearest, numbered: bool) -> String {
    let mut parts = Vec::new();
    if numbered {
        parts.push("the line numbers in front of lines are not in the file; leave them out".to_owned());
    }
    match near {
        Nearest::Place(near) => parts.push(shown(near)),
        Nearest::EmptyFile => parts.push("write the file instead".to_owned()),
        Nearest::NotSought => parts.push("search the file for a part of the text".to_owned()),
        Nearest::Nothing if numbered => {}
        Nearest::Nothing => {
            parts.push("read the part of the file that is meant, and copy the text from there".to_owned())
        }
    }
    parts.join("\n")
}

fn shown(near: &Near) -> String {
    let mut hint = "there it says (· is a space, → a tab)".to_owned();
    for (line, text) in (near.first..).zip(&near.lines) {
        hint.push_str(&format!("\n{line}: {text}"));
    }
    let more = (near.last + 1 - near.first).saturating_sub(near.lines.len());
    if more > 0 {
        hint.push_str(&format!("\nand {} more", super::lines::count_of(more as u64, "line")));
    }
    for (line, there, wanted) in &near.words {
        hint.push_str(&format!("\nline {line} is `{there}`, not `{wanted}`"));
    }
    hint
}

/// Joins names as in a sentence: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
