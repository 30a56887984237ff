//! A strict JSON parser for input from models, with limits on size and depth. It rejects duplicate keys, which other
//! parsers may read differently.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{Fault, FaultKind};

/// The longest JSON text of one call, in bytes.
pub const MAX_INPUT_BYTES: usize = 32 * 1024 * 1024;

/// The most values in the JSON of one call, including nested ones: a parsed value takes many times the memory of its
/// text.
pub const MAX_VALUES: usize = 2_000_000;

/// Parses one JSON text. `serde_json` limits nesting to 128 levels.
pub fn parse(text: &str) -> Result<Value, Fault> {
    if text.len() > MAX_INPUT_BYTES {
        return Err(too_long(text.len() as u64));
    }
    let mut source = serde_json::Deserializer::from_str(text);
    let left = Cell::new(MAX_VALUES);
    let value = Strict(&left).deserialize(&mut source).and_then(|value| source.end().map(|()| value));
    value.map_err(|error| match left.get() {
        0 => Fault::new(FaultKind::TooLarge, format!("the input has more than {MAX_VALUES} values"))
            .hint("send less in one call")
            .with("limit", MAX_VALUES),
        _ => Fault::invalid(format!("not valid JSON: {error}")),
    })
}

/// The fault for an input that is longer than [`MAX_INPUT_BYTES`].
pub fn too_long(bytes: u64) -> Fault {
    Fault::new(
        FaultKind::TooLarge,
        format!("the input is {bytes} bytes long; at most {MAX_INPUT_BYTES} are taken"),
    )
    .hint("send less in one call, for example by writing a file in parts")
    .with("limit", MAX_INPUT_BYTES)
}

/// The type of a value with its article, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Deserializes a value, and counts down the number of values that are still allowed.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        self.0.set(self.0.get().saturating_sub(1));
        if self.0.get() == 0 {
            return Err(D::Error::custom("too many values"));
        }
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                let shown: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format_args!("duplicate key `{shown}`")));
            }
            object.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}
