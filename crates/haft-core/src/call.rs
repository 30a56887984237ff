//! Calls: an id, a tool's name and JSON arguments. Parses the formats in which the APIs of models send calls; knows
//! nothing of tools.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::dialect::text_fault;
use crate::{Fault, Reply, json, suggest};

/// A tool call of a model.
#[derive(Clone, Debug)]
pub struct Call {
    /// The id of the call, which the reply repeats.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments.
    pub input: Input,
}

/// A call that cannot be parsed. It should be answered like a call that failed: see [`MalformedCall::reply`].
#[derive(Clone, Debug, PartialEq)]
pub struct MalformedCall {
    /// The id, if it has one.
    pub id: Option<Arc<str>>,
    /// The tool's name, if it has one.
    pub name: Option<Arc<str>>,
    /// Why it cannot be parsed.
    pub fault: Fault,
}

impl MalformedCall {
    /// The reply, in the plain form of no particular dialect. A missing id or name is empty.
    pub fn reply(&self) -> Reply {
        let mut reply = text_fault(&self.fault);
        reply.id = self.id.clone().unwrap_or_default();
        reply.name = self.name.clone().unwrap_or_default();
        reply
    }
}

/// The arguments of a call, as an API sent them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// Parsed JSON.
    Value(Value),
    /// JSON text, as the OpenAI APIs send it. The engine parses it strictly and within limits.
    Text(String),
}

impl Input {
    /// The arguments as a value. Text that cannot be parsed stays a string, so that the decoder reports why. Empty text is
    /// `null`: APIs that send arguments as text send none for a tool without parameters.
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
    /// A call of a tool with these arguments.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, input: impl Into<Input>) -> Self {
        Self { id: id.into(), name: name.into(), input: input.into() }
    }

    /// Parses one call, or the calls of a turn, from JSON text: a call object, an array of them, or a message or response
    /// of an assistant that contains them. An error means that the text is not JSON.
    ///
    /// A call may be in haft's own form (`id`, `name`, `input`), an Anthropic `tool_use` block, an OpenAI `tool_calls`
    /// entry or a Responses `function_call` item. Other items between calls, such as text and thinking, are skipped.
    ///
    /// Each call is parsed by itself: one that is invalid becomes a [`MalformedCall`] at its position, and the others can
    /// run. A call without an id gets a unique one. A call whose id an earlier one has already is malformed, since their
    /// replies could not be told apart.
    ///
    /// ```
    /// use haft_core::Call;
    ///
    /// let text = r#"[{"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "x"}}, {"id": "b"}]"#;
    /// let calls = Call::parse(text)?;
    /// assert_eq!(&*calls[0].as_ref().unwrap().name, "Read");
    /// assert!(calls[1].as_ref().unwrap_err().reply().full_text().contains("`name` is missing"));
    /// # Ok::<(), haft_core::Fault>(())
    /// ```
    pub fn parse(text: &str) -> Result<Vec<Result<Call, MalformedCall>>, Fault> {
        Ok(Self::from_json(json::parse(text)?))
    }

    /// Parses calls from a value, as [`parse`](Call::parse) does from text.
    pub fn from_json(value: Value) -> Vec<Result<Call, MalformedCall>> {
        let items = items(value);
        let mut taken: HashSet<String> = items.iter().filter_map(given_id).collect();
        let mut seen = HashSet::new();
        let mut calls = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            let id = given_id(&item);
            let name = given_name(&item);
            let read = Self::parse_one(item).and_then(|(name, input)| match &id {
                Some(id) if !seen.insert(id.clone()) => Err(duplicate_id(id)),
                Some(id) => Ok(Call::new(id.as_str(), name, input)),
                None => Ok(Call::new(fresh_id(at, &mut taken), name, input)),
            });
            calls.push(read.map_err(|fault| MalformedCall { id: id.map(Arc::from), name, fault }));
        }
        calls
    }

    /// The name and the arguments of a call in any of the formats.
    fn parse_one(value: Value) -> Result<(String, Input), Fault> {
        let Value::Object(mut object) = value else {
            return Err(not_a_call(&format!("{} instead of an object", json::kind_of(&value))));
        };
        let is_own_form = !object.contains_key("type") && !object.contains_key("function");
        if let Some(Value::Object(function)) = object.get_mut("function") {
            let function = std::mem::take(function);
            object.extend(function);
        }
        let name = match object.remove("name") {
            Some(Value::String(name)) => name,
            Some(other) => return Err(not_a_call(&format!("`name` is {}", json::kind_of(&other)))),
            None => return Err(not_a_call("`name` is missing")),
        };
        match object.remove("call_id").or_else(|| object.remove("id")) {
            None | Some(Value::String(_) | Value::Number(_) | Value::Null) => {}
            Some(other) => return Err(not_a_call(&format!("`id` is {}", json::kind_of(&other)))),
        }
        let input = match (object.remove("input"), object.remove("arguments")) {
            (Some(input), _) => Input::Value(input),
            (None, Some(Value::String(text))) => Input::Text(text),
            (None, Some(arguments)) => Input::Value(arguments),
            (None, None) => Input::Value(Value::Object(Map::new())),
        };
        match object.keys().find(|key| *key != "id") {
            Some(key) if is_own_form => Err(unknown_key(key)),
            _ => Ok((name, input)),
        }
    }
}

/// The items that should be calls.
fn items(value: Value) -> Vec<Value> {
    let lists = match value {
        Value::Array(items) => vec![items],
        Value::Object(mut message) if message.contains_key("role") => {
            let lists = [message.remove("content"), message.remove("tool_calls")];
            lists.into_iter().filter_map(list).collect()
        }
        Value::Object(mut response)
            if !response.contains_key("name") && response.get("output").is_some_and(Value::is_array) =>
        {
            list(response.remove("output")).into_iter().collect()
        }
        other => return vec![other],
    };
    lists.into_iter().flatten().filter(|item| !is_other_item(item)).collect()
}

fn list(value: Option<Value>) -> Option<Vec<Value>> {
    match value {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    }
}

/// Whether an item of a list has a type that is not a call's. An item without a type should be a call.
fn is_other_item(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| !matches!(kind, "tool_use" | "function" | "function_call"))
}

fn given_id(item: &Value) -> Option<String> {
    match item.get("call_id").or_else(|| item.get("id"))? {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

fn given_name(item: &Value) -> Option<Arc<str>> {
    let name = item.get("name").or_else(|| item.get("function")?.get("name"))?;
    name.as_str().map(Arc::from)
}

/// A unique id for the call at a position.
fn fresh_id(at: usize, taken: &mut HashSet<String>) -> String {
    let mut number = at + 1;
    loop {
        let id = format!("call_{number}");
        if taken.insert(id.clone()) {
            return id;
        }
        number += 1;
    }
}

fn duplicate_id(id: &str) -> Fault {
    Fault::invalid(format!("an earlier call of this turn has the id `{id}` already"))
        .hint("give each call of a turn an id of its own")
}

fn unknown_key(key: &str) -> Fault {
    let near = suggest::nearest(key, ["id", "name", "input", "arguments"], 1);
    let meant = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    not_a_call(&format!("unknown key `{key}`{meant}"))
}

fn not_a_call(what: &str) -> Fault {
    Fault::invalid(format!("not a tool call: {what}"))
        .hint(r#"a call looks like {"id":"1","name":"Read","input":{"file_path":"README.md"}}"#)
}
