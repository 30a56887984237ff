//! Cutting a JSON value. One pass weighs every part, one pass shares the room out from the top: what is
//! light stays whole, what is heavy gets an equal share. Keys and short scalars are never touched.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::{Cut, dropped, joined};

/// A place in a value where something was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutField {
    /// The place as a JSON pointer into the value as it is now.
    pub path: String,
    /// What is missing there.
    pub lost: Lost,
}

/// What a cut took away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// That many characters of a string.
    Chars(usize),
    /// That many items of an array.
    Items(usize),
    /// The whole value; `{"truncated":true}` stands in its place.
    Everything,
}

/// A string that prints no longer than this is a short scalar.
const SHORT: usize = 40;
/// An array of no more items than this is a record: its items are cut rather than dropped.
const RECORD: usize = 16;

/// Whether the compact text of a value has at most `max` characters.
pub(crate) fn json_fits(value: &Value, max: usize) -> bool {
    fits(value, &mut { max })
}

/// Cuts the value until its compact text has at most `max` characters, and tells what was cut; nothing if
/// it already fits.
///
/// Long strings are cut, with a `…` where something is missing, and long arrays lose items. The
/// keys of an object stay. Where even the keys and short scalars do not fit, all that remains is
/// `{"truncated":true}`.
pub fn cut_json(value: &mut Value, max: usize, keep: Cut) -> Option<Vec<CutField>> {
    if fits(value, &mut { max }) {
        return None;
    }
    let weight = Weight::of(value);
    let mut shears = Shears { keep, path: String::new(), cuts: Vec::new() };
    if weight.least <= max {
        shears.cut(value, &weight, max);
    } else {
        *value = Value::Object(Map::from_iter([("truncated".to_owned(), Value::Bool(true))]));
        shears.note(Lost::Everything);
    }
    Some(shears.cuts)
}

/// Whether the value prints within what is `left`; stops looking as soon as it does not.
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

/// How long a value prints, and how short it can be made.
struct Weight {
    length: usize,
    least: usize,
    /// Of its items or fields.
    parts: Vec<Weight>,
}

impl Weight {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => {
                let length = string_length(text);
                // A lone `…` in quotes.
                let least = if length <= SHORT { length } else { 3 };
                Self { length, least, parts: Vec::new() }
            }
            Value::Array(items) => {
                let parts: Vec<Weight> = items.iter().map(Weight::of).collect();
                let frame = 2 + items.len().saturating_sub(1);
                let length = frame + parts.iter().map(|part| part.length).sum::<usize>();
                Self { length, least: 2, parts }
            }
            Value::Object(fields) => {
                let parts: Vec<Weight> = fields.values().map(Weight::of).collect();
                let frame = object_frame(fields);
                let length = frame + parts.iter().map(|part| part.length).sum::<usize>();
                let least = frame + parts.iter().map(|part| part.least).sum::<usize>();
                Self { length, least, parts }
            }
            scalar => {
                let length = scalar_length(scalar);
                Self { length, least: length, parts: Vec::new() }
            }
        }
    }
}

struct Shears {
    keep: Cut,
    path: String,
    cuts: Vec<CutField>,
}

impl Shears {
    fn note(&mut self, lost: Lost) {
        self.cuts.push(CutField { path: self.path.clone(), lost });
    }

    /// Makes the value print within `room`, which is no less than the least it can be.
    fn cut(&mut self, value: &mut Value, weight: &Weight, room: usize) {
        if weight.length <= room {
            return;
        }
        match value {
            Value::String(text) => self.cut_string(text, room),
            Value::Array(items) => self.cut_array(items, &weight.parts, room),
            Value::Object(fields) => {
                let share = share(&weight.parts, room - object_frame(fields));
                for ((key, field), part) in fields.iter_mut().zip(&weight.parts) {
                    self.cut_at(key, field, part, share.max(part.least));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn cut_at(&mut self, step: &str, value: &mut Value, weight: &Weight, room: usize) {
        if weight.length <= room {
            return;
        }
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&step.replace('~', "~0").replace('/', "~1"));
        self.cut(value, weight, room);
        self.path.truncate(length);
    }

    fn cut_string(&mut self, text: &mut String, room: usize) {
        const MARKER: &str = "…";
        let dropped = dropped(text, room.saturating_sub(3), self.keep, escaped_length);
        self.note(Lost::Chars(text[dropped.clone()].chars().count()));
        *text = joined(text, dropped, MARKER);
    }

    fn cut_array(&mut self, items: &mut Vec<Value>, weights: &[Weight], room: usize) {
        let frame = 2 + items.len().saturating_sub(1);
        let least = frame + weights.iter().map(|weight| weight.least).sum::<usize>();
        if items.len() <= RECORD && least <= room {
            let share = share(weights, room - frame);
            for (at, (item, weight)) in items.iter_mut().zip(weights).enumerate() {
                self.cut_at(&at.to_string(), item, weight, share.max(weight.least));
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
            let fits = weights[at].length + comma <= left;
            // One item may be cut, if what it can still have is worth having.
            let worth = left > room / 4 && weights[at].least + comma <= left;
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
            left -= weights[at].length + comma;
        }
        let lost = items.len() - head - tail;
        if lost > 0 {
            self.note(Lost::Items(lost));
        }
        if let Some((at, from_head, room)) = partial {
            let now = if from_head { at } else { at - lost };
            self.cut_at(&now.to_string(), &mut items[at], &weights[at], room);
        }
        items.drain(head..head + lost);
    }
}

/// How much each part may have so that all fit into `room` and the light ones stay whole.
fn share(parts: &[Weight], room: usize) -> usize {
    let needed =
        |share: usize| -> usize { parts.iter().map(|part| part.length.min(share).max(part.least)).sum() };
    let (mut enough, mut too_much) = (0, room + 1);
    while too_much - enough > 1 {
        let middle = enough + (too_much - enough) / 2;
        if needed(middle) <= room { enough = middle } else { too_much = middle }
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

/// How many characters serde_json prints for one.
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
