//! Limits on the length of replies: cuts texts and JSON values to a number of characters, never inside of a character,
//! and offloads the full text to a file ([`ResultStore`]). Knows nothing of replies or dialects: the caller's marker says
//! what was cut and where the full text is.

mod json;
mod result_store;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use json::json_fits;
pub use json::{CutField, Removed, cut_json};
pub use result_store::{OffloadFile, ResultStore, Swept};

/// Which part of a text remains when it is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The beginning.
    Start,
    /// The end.
    #[default]
    End,
    /// The beginning and the end, half each, without the middle.
    Both,
}

/// Cuts a text to at most `max` characters; `None` if it already fits.
///
/// `marker` gets the number of dropped characters; its text replaces them and counts against `max`. It is left out
/// only where it does not fit into `max` itself. The cut is never inside of a character, a CRLF or (as far as is cheaply
/// known) before a combining mark, and falls on a line boundary if there is one within a tenth of what remains.
///
/// ```
/// use haft_core::limits::{Cut, cut_text};
///
/// let cut = cut_text("abcdefghij", 6, Cut::Both, &|dropped| format!("<{dropped}>"));
/// assert_eq!(cut.as_deref(), Some("ab<7>j"));
/// assert_eq!(cut_text("short", 6, Cut::Both, &|_| String::new()), None);
/// ```
pub fn cut_text(text: &str, max: usize, keep: Cut, marker: &dyn Fn(usize) -> String) -> Option<String> {
    // A character has at least one byte, so most texts need no counting.
    if text.len() <= max {
        return None;
    }
    let total = text.chars().count();
    if total <= max {
        return None;
    }
    // The marker's length depends on the number in it, which depends on the room that the marker leaves: iterate.
    let mut room = max.checked_sub(marker(total - max).chars().count());
    for _ in 0..4 {
        let Some(wanted) = room else { break };
        let dropped = dropped(text, wanted, keep, |_| 1);
        let count = text[dropped.clone()].chars().count();
        let marker = marker(count);
        let length = total - count + marker.chars().count();
        if length <= max {
            return Some(joined(text, dropped, &marker));
        }
        room = wanted.checked_sub(length - max);
    }
    Some(joined(text, dropped(text, max, keep, |_| 1), ""))
}

/// Replaces a part of a text by the marker.
fn joined(text: &str, dropped: Range<usize>, marker: &str) -> String {
    [&text[..dropped.start], marker, &text[dropped.end..]].concat()
}

/// The bytes to drop so that the rest costs at most `room`. The whole text must cost more than that.
fn dropped(text: &str, room: usize, keep: Cut, cost: impl Fn(char) -> usize) -> Range<usize> {
    let (head, tail) = match keep {
        Cut::Start => (room, 0),
        Cut::End => (0, room),
        Cut::Both => (room - room / 2, room / 2),
    };
    let start = head_end(text, head, &cost);
    start..tail_start(text, tail, &cost).max(start)
}

fn head_end(text: &str, room: usize, cost: &impl Fn(char) -> usize) -> usize {
    let (mut used, mut end, mut line) = (0, 0, (0, 0));
    for (at, char) in text.char_indices() {
        used += cost(char);
        if used > room {
            break;
        }
        end = at + char.len_utf8();
        if char == '\n' {
            line = (end, used);
        }
    }
    if line.0 > 0 && is_near(line.1, room) {
        return line.0;
    }
    for _ in 0..LONGEST_CLUSTER {
        match (text[..end].chars().next_back(), text[end..].chars().next()) {
            (Some(before), Some(after)) if belongs_together(before, after) => end -= before.len_utf8(),
            _ => break,
        }
    }
    end
}

fn tail_start(text: &str, room: usize, cost: &impl Fn(char) -> usize) -> usize {
    let (mut used, mut start, mut line) = (0, text.len(), None);
    for (at, char) in text.char_indices().rev() {
        if char == '\n' && start < text.len() {
            line = Some((start, used));
        }
        used += cost(char);
        if used > room {
            break;
        }
        start = at;
    }
    if let Some((line, used)) = line
        && is_near(used, room)
    {
        return line;
    }
    for _ in 0..LONGEST_CLUSTER {
        match (text[..start].chars().next_back(), text[start..].chars().next()) {
            (Some(before), Some(after)) if belongs_together(before, after) => start += after.len_utf8(),
            _ => break,
        }
    }
    start
}

/// Whether a line boundary at `used` is near enough to `room` to cut there.
fn is_near(used: usize, room: usize) -> bool {
    used >= room - room / 10
}

/// A run of combining marks longer than this may be split: it is not real text.
const LONGEST_CLUSTER: usize = 16;

/// Whether two characters belong to one grapheme cluster: a heuristic for the common cases, not all of Unicode's rules.
fn belongs_together(before: char, after: char) -> bool {
    const JOINER: char = '\u{200d}';
    match after {
        '\n' => before == '\r',
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}'
        | JOINER => true,
        _ => before == JOINER,
    }
}
