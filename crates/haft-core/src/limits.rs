//! No reply exceeds its limit, splits a character or loses what it cut. Cuts texts and JSON values to a
//! number of characters and keeps whole what was cut. Knows nothing of replies or dialects: what a cut is
//! called and where the whole text went is said by the caller's marker.

mod json;
mod kept;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use json::json_fits;
pub use json::{CutField, Lost, cut_json};
pub use kept::{Keeping, KeptResults, Swept};

/// Which part of something too long is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The beginning.
    Start,
    /// The end.
    #[default]
    End,
    /// The beginning and the end, half each; the middle goes.
    Both,
}

/// The text cut to at most `max` characters, or nothing if it already fits.
///
/// `marker` says what was cut, given the number of characters dropped; it stands in their place and
/// counts against `max`. It is left out only where it does not fit into `max` itself. The cut is never
/// inside a character, a CRLF or (as far as is cheaply known) before a combining mark, and falls on a line
/// border if there is one within a tenth of what is kept.
pub fn cut_text(text: &str, max: usize, keep: Cut, marker: &dyn Fn(usize) -> String) -> Option<String> {
    // A character has at least one byte.
    if text.len() <= max {
        return None;
    }
    let total = text.chars().count();
    if total <= max {
        return None;
    }
    // The marker's length may depend on the number it tells, which depends on the room it leaves.
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

/// The text with a part replaced.
fn joined(text: &str, dropped: Range<usize>, marker: &str) -> String {
    [&text[..dropped.start], marker, &text[dropped.end..]].concat()
}

/// The bytes to drop so that what is kept costs at most `room`. The whole text must cost more than that.
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

/// Whether a cut that keeps `used` is as good as one that keeps `room`.
fn is_near(used: usize, room: usize) -> bool {
    used >= room - room / 10
}

/// A run of combining marks longer than this is split: it is no text.
const LONGEST_CLUSTER: usize = 16;

/// Whether a cut between the two would show: not all of what Unicode says of clusters, but what is common.
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
