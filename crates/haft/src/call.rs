//! What the model asked: an id, a tool's name and JSON. Reads the forms in which the APIs send calls;
//! knows nothing of tools.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Fault, json};

/// One tool call of a model.
#[derive(Clone, Debug)]
pub struct Call {
    /// Names the call; the reply carries it back.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments.
    pub input: Input,
}

/// The arguments of a call, as they came.
#[derive(Clone, Debug)]
pub enum Input {
    /// Parsed.
    Value(Value),
    /// JSON text, as the OpenAI APIs send it. It is parsed, strictly and within limits, by the engine.
    Text(String),
}

impl Input {
    /// The arguments as a value. Text that cannot be parsed stays a string, so that whoever decodes it says
    /// why; an API that sends arguments as text sends nothing at all for a tool without parameters.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Input::Value(value) => value,
            Input::Text(text) if text.trim().is_empty() => Value::Null,
            Input::Text(text) => json::parse(&text).unwrap_or(Value::String(text)),
        }
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        Input::Value(value)
    }
}

impl Call {
    /// A call.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, input: impl Into<Input>) -> Self {
        Self { id: id.into(), name: name.into(), input: input.into() }
    }

    /// Reads one call, or the calls of a turn, from JSON text: a call object, an array of them, or an
    /// assistant message that holds them.
    ///
    /// A call may be in haft's own form (`id`, `name`, `input`), an Anthropic `tool_use` block, an OpenAI
    /// `tool_calls` entry or a Responses `function_call` item.
    pub fn parse(text: &str) -> Result<Vec<Call>, Fault> {
        Self::from_json(json::parse(text)?)
    }

    /// Reads calls from a value, as [`parse`](Call::parse) does from text.
    pub fn from_json(value: Value) -> Result<Vec<Call>, Fault> {
        match value {
            Value::Array(items) => {
                items.into_iter().enumerate().map(|(at, item)| Self::one(item, at)).collect()
            }
            Value::Object(mut message) if message.contains_key("role") => {
                let blocks = [message.remove("content"), message.remove("tool_calls")];
                let calls = blocks.into_iter().flatten().filter_map(|value| match value {
                    Value::Array(items) => Some(items),
                    _ => None,
                });
                calls
                    .flatten()
                    .filter(|item| item.get("type").is_none_or(|kind| kind != "text" && kind != "thinking"))
                    .enumerate()
                    .map(|(at, item)| Self::one(item, at))
                    .collect()
            }
            other => Ok(vec![Self::one(other, 0)?]),
        }
    }

    fn one(value: Value, position: usize) -> Result<Call, Fault> {
        let Value::Object(mut object) = value else {
            return Err(not_a_call(&format!("{} instead of an object", json::kind_of(&value))));
        };
        if let Some(Value::Object(function)) = object.get_mut("function") {
            let function = std::mem::take(function);
            object.extend(function);
        }
        let name = match object.remove("name") {
            Some(Value::String(name)) => name,
            Some(other) => return Err(not_a_call(&format!("`name` is {}", json::kind_of(&other)))),
            None => return Err(not_a_call("`name` is missing")),
        };
        let id = match object.remove("call_id").or_else(|| object.remove("id")) {
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            None | Some(Value::Null) => format!("call_{}", position + 1),
            Some(other) => return Err(not_a_call(&format!("`id` is {}", json::kind_of(&other)))),
        };
        let input = match (object.remove("input"), object.remove("arguments")) {
            (Some(input), _) => Input::Value(input),
            (None, Some(Value::String(text))) => Input::Text(text),
            (None, Some(arguments)) => Input::Value(arguments),
            (None, None) => Input::Value(Value::Object(Map::new())),
        };
        Ok(Call::new(id, name, input))
    }
}

fn not_a_call(what: &str) -> Fault {
    Fault::invalid(format!("not a tool call: {what}"))
        .hint(r#"a call looks like {"id":"1","name":"Read","input":{"file_path":"README.md"}}"#)
}
