//! Cuts a JSON value. One pass measures every part; a second pass distributes the available length from the top: small
//! parts stay whole, large ones get equal shares. Keys and short scalars are never cut.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::{Cut, dropped, joined};

/// A part of a JSON value that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutField {
    /// JSON pointer to the part in the value after the cut.
    pub path: String,
    /// What was removed there.
    pub lost: Removed,
}

/// What a cut has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// This many characters of a string.
    Chars(usize),
    /// This many items of an array.
    Items(usize),
    /// The whole value; `{"truncated":true}` replaces it.
    Everything,
}

/// A string whose JSON is no longer than this counts as a short scalar.
const SHORT: usize = 40;
/// An array of at most this many items counts as a record: its items are cut rather than dropped.
const RECORD: usize = 16;

/// Whether the compact text of a value has at most `max` characters.
pub(crate) fn json_fits(value: &Value, max: usize) -> bool {
    fits(value, &mut { max })
}

/// Cuts a value until its compact text has at most `max` characters, and returns what was cut; `None` if it already
/// fits.
///
/// Long strings are cut, with a `…` where something is missing, and long arrays lose items. The
/// keys of an object stay. Where even the keys and short scalars do not fit, all that remains is
/// `{"truncated":true}`.
pub fn cut_json(value: &mut Value, max: usize, keep: Cut) -> Option<Vec<CutField>> {
    if fits(value, &mut { max }) {
        return None;
    }
    let size = Size::of(value);
    let mut cutter = Cutter { keep, path: String::new(), cuts: Vec::new() };
    if size.min <= max {
        cutter.cut(value, &size, max);
    } else {
        *value = Value::Object(Map::from_iter([("truncated".to_owned(), Value::Bool(true))]));
        cutter.note(Removed::Everything);
    }
    Some(cutter.cuts)
}

/// Whether the compact text of a value has at most `left` characters; stops as soon as it has more.
fn fits(value: &Value, left: &mut usize) -> bool {
    match value {
        // A character has at most four bytes, so a huge text need not be counted.
        Value::String(text) => text.len() / 4 <= *left && take(left, string_length(text)),
        Value::Array(items) => {
            take(left, 2 + items.len().saturating_sub(1)) && items.iter().all(|item| fits(item, left))
        }
        Value::Object(fields) => {
            take(left, 2 + fields.len().saturating_sub(1))
                && fields.iter().all(|(key, field)| take(left, string_length(key) + 1) && fits(field, left))
        }
        scalar => take(left, scalar_length(scalar)),
    }
}

fn take(left: &mut usize, count: usize) -> bool {
    let rest = left.checked_sub(count);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

/// The length of a value's compact text, and the shortest it can be cut to.
struct Size {
    length: usize,
    min: usize,
    /// The sizes of its items or fields.
    parts: Vec<Size>,
}

impl Size {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => {
                let length = string_length(text);
                // A lone `…` in quotes.
                let min = if length <= SHORT { length } else { 3 };
                Self { length, min, parts: Vec::new() }
            }
            Value::Array(items) => {
                let parts: Vec<Size> = items.iter().map(Size::of).collect();
                let frame = 2 + items.len().saturating_sub(1);
                let length = frame + parts.iter().map(|part| part.length).sum::<usize>();
                Self { length, min: 2, parts }
            }
            Value::Object(fields) => {
                let parts: Vec<Size> = fields.values().map(Size::of).collect();
                let frame = object_frame(fields);
                let length = frame + parts.iter().map(|part| part.length).sum::<usize>();
                let min = frame + parts.iter().map(|part| part.min).sum::<usize>();
                Self { length, min, parts }
            }
            scalar => {
                let length = scalar_length(scalar);
                Self { length, min: length, parts: Vec::new() }
            }
        }
    }
}

struct Cutter {
    keep: Cut,
    path: String,
    cuts: Vec<CutField>,
}

impl Cutter {
    fn note(&mut self, lost: Removed) {
        self.cuts.push(CutField { path: self.path.clone(), lost });
    }

    /// Cuts the value to a length of at most `room`, which must be at least its minimum.
    fn cut(&mut self, value: &mut Value, size: &Size, room: usize) {
        if size.length <= room {
            return;
        }
        match value {
            Value::String(text) => self.cut_string(text, room),
            Value::Array(items) => self.cut_array(items, &size.parts, room),
            Value::Object(fields) => {
                let share = share(&size.parts, room - object_frame(fields));
                for ((key, field), part) in fields.iter_mut().zip(&size.parts) {
                    self.cut_at(key, field, part, share.max(part.min));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn cut_at(&mut self, step: &str, value: &mut Value, size: &Size, room: usize) {
        if size.length <= room {
            return;
        }
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&step.replace('~', "~0").replace('/', "~1"));
        self.cut(value, size, room);
        self.path.truncate(length);
    }

    fn cut_string(&mut self, text: &mut String, room: usize) {
        const MARKER: &str = "…";
        let dropped = dropped(text, room.saturating_sub(3), self.keep, escaped_length);
        self.note(Removed::Chars(text[dropped.clone()].chars().count()));
        *text = joined(text, dropped, MARKER);
    }

    fn cut_array(&mut self, items: &mut Vec<Value>, sizes: &[Size], room: usize) {
        let frame = 2 + items.len().saturating_sub(1);
        let min = frame + sizes.iter().map(|size| size.min).sum::<usize>();
        if items.len() <= RECORD && min <= room {
            let share = share(sizes, room - frame);
            for (at, (item, size)) in items.iter_mut().zip(sizes).enumerate() {
                self.cut_at(&at.to_string(), item, size, share.max(size.min));
            }
            return;
        }
        let mut left = room.saturating_sub(2);
        let (mut head, mut tail) = (0, 0);
        let mut partial = None;
        while head + tail < items.len() {
            let from_head = match self.keep {
                Cut::Start => true,
                Cut::End => false,
                Cut::Both => head <= tail,
            };
            let at = if from_head { head } else { items.len() - 1 - tail };
            let comma = usize::from(head + tail > 0);
            let fits = sizes[at].length + comma <= left;
            // One item may be cut instead of dropped, if a good part of the room is left for it.
            let worth = left > room / 4 && sizes[at].min + comma <= left;
            if !fits && !worth {
                break;
            }
            if from_head {
                head += 1
            } else {
                tail += 1
            }
            if !fits {
                partial = Some((at, from_head, left - comma));
                break;
            }
            left -= sizes[at].length + comma;
        }
        let lost = items.len() - head - tail;
        if lost > 0 {
            self.note(Removed::Items(lost));
        }
        if let Some((at, from_head, room)) = partial {
            let now = if from_head { at } else { at - lost };
            self.cut_at(&now.to_string(), &mut items[at], &sizes[at], room);
        }
        items.drain(head..head + lost);
    }
}

/// The largest length per part with which all parts fit into `room`, by binary search. Parts shorter than it stay whole.
fn share(parts: &[Size], room: usize) -> usize {
    let needed =
        |share: usize| -> usize { parts.iter().map(|part| part.length.min(share).max(part.min)).sum() };
    let (mut enough, mut too_large) = (0, room + 1);
    while too_large - enough > 1 {
        let middle = enough + (too_large - enough) / 2;
        if needed(middle) <= room { enough = middle } else { too_large = middle }
    }
    enough
}

fn object_frame(fields: &Map<String, Value>) -> usize {
    let keys: usize = fields.keys().map(|key| string_length(key) + 1).sum();
    2 + fields.len().saturating_sub(1) + keys
}

fn string_length(text: &str) -> usize {
    2 + text.chars().map(escaped_length).sum::<usize>()
}

/// The number of characters that serde_json writes for a character.
fn escaped_length(char: char) -> usize {
    match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

fn scalar_length(value: &Value) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // Counting cannot fail.
    let _ = write!(length, "{value}");
    length.0
}
