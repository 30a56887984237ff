//! Searches a text for a needle, with any line ends and optionally with look-alike punctuation. Searches the text in
//! place, without a normalized copy of the size of the file.

use std::ops::Range;

use memchr::memmem::Finder;

use super::encoding::{Ending, Endings};

/// Which characters match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharMatch {
    /// Equal ones only.
    Exact,
    /// Equal ones, and punctuation and spaces that look alike.
    LookAlike,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    /// The matches, at most as many as requested.
    pub ranges: Vec<Range<usize>>,
    /// Total number of matches.
    pub total: usize,
}

/// Which matches a search returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// All matches, overlapping ones included, but at most this many ranges.
    Candidates(usize),
    /// All matches from left to right that do not overlap the one before.
    Disjoint,
}

/// Converts the line ends of a needle to `\n`.
pub(crate) fn normalize_line_ends(text: &str, ending: Ending) -> String {
    let text = text.replace("\r\n", "\n");
    if ending == Ending::Cr { text.replace('\r', "\n") } else { text }
}

/// Finds a needle with `\n` line ends in a text with any line ends.
pub(crate) fn find(
    text: &str,
    needle: &str,
    endings: Endings,
    char_match: CharMatch,
    search: Search,
) -> Matches {
    if needle.is_empty() {
        return Matches::default();
    }
    if char_match == CharMatch::Exact && (!endings.mixed() || !needle.contains('\n')) {
        let needle = endings.majority().apply(needle);
        let finder = Finder::new(needle.as_bytes());
        let step = |at: usize| finder.find(&text.as_bytes()[at..]).map(|hit| at + hit);
        return collect(text, search, step, |hit| Some(hit..hit + needle.len()));
    }
    let ending = endings.majority();
    // Search for the longest part of the needle that has only one spelling, then match the rest around each hit.
    let Some(anchor) = anchor(needle, char_match) else { return Matches::default() };
    let (before, after) = (&needle[..anchor.start], &needle[anchor.end..]);
    let finder = Finder::new(&needle.as_bytes()[anchor.clone()]);
    let step = |at: usize| finder.find(&text.as_bytes()[at..]).map(|hit| at + hit);
    collect(text, search, step, |hit| {
        // An anchor that is a line end matches only the `\n` of `\r\n`; the match must include the `\r`.
        let whole = if text.as_bytes()[hit] == b'\n' && text[..hit].ends_with('\r') { hit - 1 } else { hit };
        let start = backward(&text[..whole], before, ending, char_match)?;
        let end = hit + anchor.len();
        Some(start..end + forward(&text[end..], after, ending, char_match)?)
    })
}

/// Length of the needle in the text, if the text begins with it.
pub(crate) fn forward(text: &str, needle: &str, ending: Ending, char_match: CharMatch) -> Option<usize> {
    let mut rest = text;
    for char in needle.chars() {
        rest = match char {
            '\n' => strip_break(rest, ending)?,
            char => {
                let there = rest.chars().next().filter(|there| alike(*there, char, char_match))?;
                &rest[there.len_utf8()..]
            }
        };
    }
    Some(text.len() - rest.len())
}

/// Start of the needle in the text, if the text ends with it.
fn backward(text: &str, needle: &str, ending: Ending, char_match: CharMatch) -> Option<usize> {
    let mut rest = text;
    for char in needle.chars().rev() {
        rest = match (char, ending) {
            ('\n', Ending::Cr) => rest.strip_suffix('\r')?,
            ('\n', _) => rest.strip_suffix("\r\n").or_else(|| rest.strip_suffix('\n'))?,
            _ => {
                let there = rest.chars().next_back().filter(|there| alike(*there, char, char_match))?;
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
    search: Search,
    next: impl Fn(usize) -> Option<usize>,
    place: impl Fn(usize) -> Option<Range<usize>>,
) -> Matches {
    let mut found = Matches::default();
    let (mut at, mut free) = (0, 0);
    while let Some(hit) = next(at) {
        let width = text[hit..].chars().next().map_or(1, char::len_utf8);
        at = hit + width;
        let Some(range) = place(hit) else { continue };
        // A match must not begin or end between `\r` and `\n`.
        if splits(text, range.start) || splits(text, range.end) {
            continue;
        }
        match search {
            Search::Disjoint if range.start < free => continue,
            Search::Disjoint => {
                (free, at) = (range.end, at.max(range.end));
                found.ranges.push(range);
            }
            Search::Candidates(max) => {
                if found.ranges.len() < max {
                    found.ranges.push(range);
                }
            }
        }
        found.total += 1;
    }
    found
}

/// Whether a position is between `\r` and `\n`.
fn splits(text: &str, at: usize) -> bool {
    at > 0 && text.as_bytes()[at - 1] == b'\r' && text.as_bytes().get(at) == Some(&b'\n')
}

/// The longest part of a needle that has only one spelling: no line ends, and no look-alikes if these match.
fn anchor(needle: &str, char_match: CharMatch) -> Option<Range<usize>> {
    let breaks = |char: char| char == '\n' || (char_match == CharMatch::LookAlike && is_foldable(char));
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
        true if char_match == CharMatch::Exact => needle.find('\n').map(|at| at..at + 1),
        true => None,
    }
}

fn alike(a: char, b: char, char_match: CharMatch) -> bool {
    a == b || (char_match == CharMatch::LookAlike && fold(a) == fold(b))
}

fn is_foldable(char: char) -> bool {
    matches!(char, '\'' | '"' | '-' | ' ') || fold(char) != char
}

/// Maps typographic punctuation and spaces to their ASCII form.
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

    fn ranges(text: &str, needle: &str, char_match: CharMatch) -> Vec<Range<usize>> {
        find(text, needle, Endings::of(text), char_match, Search::Candidates(10)).ranges
    }

    #[test]
    fn any_line_end_matches_a_line_end() {
        for text in ["a\nb\nc", "a\r\nb\r\nc", "a\rb\rc"] {
            assert_eq!(ranges(text, "a\nb", CharMatch::Exact).len(), 1, "{text:?}");
        }
        assert_eq!(ranges("a\r\nb\nc\r\n", "a\nb\nc\n", CharMatch::Exact), [0..8]);
        assert_eq!(ranges("x\n\r\ny\n", "\n\n", CharMatch::Exact), [1..4]);
        assert_eq!(ranges("x\r\n\ny\n", "\n\n", CharMatch::Exact), [1..4]);
        assert_eq!(ranges("x\r\n\ny\n", "\n", CharMatch::Exact), [1..3, 3..4, 5..6]);
    }

    #[test]
    fn places_that_overlap_are_both_candidates() {
        assert_eq!(ranges("x\nx\nx", "x\nx", CharMatch::Exact), [0..3, 2..5]);
        let endings = Endings::of("aaaa");
        assert_eq!(find("aaaa", "aa", endings, CharMatch::Exact, Search::Disjoint).ranges, [0..2, 2..4]);
    }

    #[test]
    fn look_alikes_match_only_on_request() {
        let text = "say(\u{201c}it\u{2019}s\u{201d},\u{a0}a \u{2013} b)";
        assert!(ranges(text, "say(\"it's\", a - b)", CharMatch::Exact).is_empty());
        let whole = 0..text.len();
        assert_eq!(ranges(text, "say(\"it's\", a - b)", CharMatch::LookAlike), [whole]);
    }
}
