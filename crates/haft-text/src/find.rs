//! Where a text is found in another one: with any line ends, and if wanted with look-alike punctuation.
//! Works on the text as it is, so that nothing the size of a file is copied.

use std::ops::Range;

use memchr::memmem::Finder;

use super::encoding::{Ending, Endings};

/// What counts as the same character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    /// Only itself.
    Exact,
    /// Also punctuation and spaces that look alike.
    LookAlike,
}

/// Places that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The places, as many as were wanted.
    pub places: Vec<Range<usize>>,
    /// How many there are.
    pub total: usize,
}

/// Which places are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Each that could be meant, even where they overlap, but so many at the most.
    Candidates(usize),
    /// All, from the first on, none overlapping the one before.
    Disjoint,
}

/// Text as a needle: every line end is `\n`.
pub(crate) fn normal(text: &str, ending: Ending) -> String {
    let text = text.replace("\r\n", "\n");
    if ending == Ending::Cr { text.replace('\r', "\n") } else { text }
}

/// Finds a needle with `\n` line ends in a text with whatever line ends it has.
pub(crate) fn find(text: &str, needle: &str, endings: Endings, same: Sameness, wanted: Wanted) -> Found {
    if needle.is_empty() {
        return Found::default();
    }
    if same == Sameness::Exact && (!endings.mixed() || !needle.contains('\n')) {
        let needle = endings.majority().apply(needle);
        let ranges = Finder::new(needle.as_bytes());
        let step = |at: usize| ranges.find(&text.as_bytes()[at..]).map(|hit| at + hit);
        return collect(text, wanted, step, |hit| Some(hit..hit + needle.len()));
    }
    let ending = endings.majority();
    let Some(anchor) = anchor(needle, same) else { return Found::default() };
    let (before, after) = (&needle[..anchor.start], &needle[anchor.end..]);
    let finder = Finder::new(&needle.as_bytes()[anchor.clone()]);
    let step = |at: usize| finder.find(&text.as_bytes()[at..]).map(|hit| at + hit);
    collect(text, wanted, step, |hit| {
        // A line end as anchor is found without the `\r` before it, which belongs to it all the same.
        let whole = if text.as_bytes()[hit] == b'\n' && text[..hit].ends_with('\r') { hit - 1 } else { hit };
        let start = backward(&text[..whole], before, ending, same)?;
        let end = hit + anchor.len();
        Some(start..end + forward(&text[end..], after, ending, same)?)
    })
}

/// How much of a text the needle is, if the text begins with it.
pub(crate) fn forward(text: &str, needle: &str, ending: Ending, same: Sameness) -> Option<usize> {
    let mut rest = text;
    for char in needle.chars() {
        rest = match char {
            '\n' => strip_break(rest, ending)?,
            char => {
                let there = rest.chars().next().filter(|there| alike(*there, char, same))?;
                &rest[there.len_utf8()..]
            }
        };
    }
    Some(text.len() - rest.len())
}

/// Where the needle begins, if the text ends with it.
fn backward(text: &str, needle: &str, ending: Ending, same: Sameness) -> Option<usize> {
    let mut rest = text;
    for char in needle.chars().rev() {
        rest = match (char, ending) {
            ('\n', Ending::Cr) => rest.strip_suffix('\r')?,
            ('\n', _) => rest.strip_suffix("\r\n").or_else(|| rest.strip_suffix('\n'))?,
            _ => {
                let there = rest.chars().next_back().filter(|there| alike(*there, char, same))?;
                &rest[..rest.len() - there.len_utf8()]
            }
        };
    }
    Some(rest.len())
}

fn strip_break(text: &str, ending: Ending) -> Option<&str> {
    match ending {
        Ending::Cr => text.strip_prefix('\r'),
        _ => text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')),
    }
}

fn collect(
    text: &str,
    wanted: Wanted,
    next: impl Fn(usize) -> Option<usize>,
    place: impl Fn(usize) -> Option<Range<usize>>,
) -> Found {
    let mut found = Found::default();
    let (mut at, mut free) = (0, 0);
    while let Some(hit) = next(at) {
        let width = text[hit..].chars().next().map_or(1, char::len_utf8);
        at = hit + width;
        let Some(range) = place(hit) else { continue };
        // Half of a line end is no place to begin or to end.
        if splits(text, range.start) || splits(text, range.end) {
            continue;
        }
        match wanted {
            Wanted::Disjoint if range.start < free => continue,
            Wanted::Disjoint => {
                (free, at) = (range.end, at.max(range.end));
                found.places.push(range);
            }
            Wanted::Candidates(most) => {
                if found.places.len() < most {
                    found.places.push(range);
                }
            }
        }
        found.total += 1;
    }
    found
}

fn splits(text: &str, at: usize) -> bool {
    at > 0 && text.as_bytes()[at - 1] == b'\r' && text.as_bytes().get(at) == Some(&b'\n')
}

/// The longest part of a needle that is written one way only.
fn anchor(needle: &str, same: Sameness) -> Option<Range<usize>> {
    let breaks = |char: char| char == '\n' || (same == Sameness::LookAlike && is_foldable(char));
    let mut best = 0..0;
    let mut start = 0;
    for (at, char) in needle.char_indices().chain([(needle.len(), '\n')]) {
        if breaks(char) {
            if at - start > best.len() {
                best = start..at;
            }
            start = at + char.len_utf8();
        }
    }
    match best.is_empty() {
        false => Some(best),
        true if same == Sameness::Exact => needle.find('\n').map(|at| at..at + 1),
        true => None,
    }
}

fn alike(a: char, b: char, same: Sameness) -> bool {
    a == b || (same == Sameness::LookAlike && fold(a) == fold(b))
}

fn is_foldable(char: char) -> bool {
    matches!(char, '\'' | '"' | '-' | ' ') || fold(char) != char
}

/// The plain form of punctuation and spaces that people and programs replace by finer ones.
pub(crate) fn fold(char: char) -> char {
    match char {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{02bc}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    fn places(text: &str, needle: &str, same: Sameness) -> Vec<Range<usize>> {
        find(text, needle, Endings::of(text), same, Wanted::Candidates(10)).places
    }

    #[test]
    fn any_line_end_matches_a_line_end() {
        for text in ["a\nb\nc", "a\r\nb\r\nc", "a\rb\rc"] {
            assert_eq!(places(text, "a\nb", Sameness::Exact).len(), 1, "{text:?}");
        }
        assert_eq!(places("a\r\nb\nc\r\n", "a\nb\nc\n", Sameness::Exact), [0..8]);
        assert_eq!(places("x\n\r\ny\n", "\n\n", Sameness::Exact), [1..4]);
        assert_eq!(places("x\r\n\ny\n", "\n\n", Sameness::Exact), [1..4]);
        assert_eq!(places("x\r\n\ny\n", "\n", Sameness::Exact), [1..3, 3..4, 5..6]);
    }

    #[test]
    fn places_that_overlap_are_both_candidates() {
        assert_eq!(places("x\nx\nx", "x\nx", Sameness::Exact), [0..3, 2..5]);
        let endings = Endings::of("aaaa");
        assert_eq!(find("aaaa", "aa", endings, Sameness::Exact, Wanted::Disjoint).places, [0..2, 2..4]);
    }

    #[test]
    fn look_alikes_match_only_when_wanted() {
        let text = "say(\u{201c}it\u{2019}s\u{201d},\u{a0}a \u{2013} b)";
        assert!(places(text, "say(\"it's\", a - b)", Sameness::Exact).is_empty());
        let whole = 0..text.len();
        assert_eq!(places(text, "say(\"it's\", a - b)", Sameness::LookAlike), [whole]);
    }
}
