//! Forms in the words of the protocol version that a client speaks. Choices with titles and choices of several came with
//! 2025-11-25: before that, a choice is an `enum` with `enumNames`, and one of several is a yes or no for each. Knows
//! nothing of what a form asks.

use rmcp::model::{CustomRequest, ElicitRequest, ProtocolVersion, ServerRequest};
use serde_json::{Map, Value, json};

/// The first version that has `oneOf` and arrays in forms, and other questions than forms.
const WITH_CHOICES: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Whether a version has questions of several kinds, and so a `mode` that tells which it is.
pub(super) fn has_modes(version: Option<&ProtocolVersion>) -> bool {
    version.is_some_and(|version| version.as_str() >= WITH_CHOICES.as_str())
}

/// A question as it was before there were several kinds of them. The SDK has no type for that.
pub(super) fn without_mode(request: &ElicitRequest) -> ServerRequest {
    let mut params = serde_json::to_value(&request.params).unwrap_or_default();
    if let Value::Object(params) = &mut params {
        params.remove("mode");
    }
    ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(params)))
}

/// A form, and how its answer is read.
pub(super) struct Form {
    /// The schema for the client.
    pub(super) schema: Map<String, Value>,
    /// Fields of several choices that became one field for each choice.
    split: Vec<Split>,
}

struct Split {
    /// The field of the original form.
    field: String,
    /// The field of each choice, and its value.
    choices: Vec<(String, Value)>,
}

impl Form {
    /// The form for a client of this version; one that did not say its version gets the oldest words.
    pub(super) fn for_version(mut schema: Map<String, Value>, version: Option<&ProtocolVersion>) -> Self {
        let mut split = Vec::new();
        if !has_modes(version)
            && let Some(Value::Object(fields)) = schema.get_mut("properties")
        {
            for (name, field) in std::mem::take(fields) {
                match (choices(&field, "oneOf"), field.get("items").and_then(|items| choices(items, "anyOf")))
                {
                    (Some(choices), _) => drop(fields.insert(name, as_enum(field, &choices))),
                    (_, Some(choices)) => split.push(as_switches(&name, &field, choices, fields)),
                    _ => drop(fields.insert(name, field)),
                }
            }
        }
        Self { schema, split }
    }

    /// The content of an answer, in the words of the original form.
    pub(super) fn read(&self, mut content: Value) -> Value {
        let Value::Object(fields) = &mut content else { return content };
        for Split { field, choices } in &self.split {
            let is_chosen = |(name, _): &&(String, Value)| fields.get(name) == Some(&Value::Bool(true));
            let chosen: Vec<Value> =
                choices.iter().filter(is_chosen).map(|(_, value)| value.clone()).collect();
            choices.iter().for_each(|(name, _)| drop(fields.remove(name)));
            fields.insert(field.clone(), Value::Array(chosen));
        }
        content
    }
}

/// The choices of a field: the value and the title of each.
fn choices(field: &Value, key: &str) -> Option<Vec<(Value, Value)>> {
    let choice = |choice: &Value| {
        let value = choice.get("const")?;
        Some((value.clone(), choice.get("title").unwrap_or(value).clone()))
    };
    field.get(key)?.as_array()?.iter().map(choice).collect()
}

fn as_enum(mut field: Value, choices: &[(Value, Value)]) -> Value {
    if let Value::Object(field) = &mut field {
        field.remove("oneOf");
        field.insert("enum".to_owned(), choices.iter().map(|(value, _)| value.clone()).collect());
        field.insert("enumNames".to_owned(), choices.iter().map(|(_, title)| title.clone()).collect());
    }
    field
}

/// Adds a field with yes or no for each choice.
fn as_switches(
    name: &str,
    field: &Value,
    choices: Vec<(Value, Value)>,
    fields: &mut Map<String, Value>,
) -> Split {
    let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut switches = Vec::new();
    for (at, (value, title)) in choices.into_iter().enumerate() {
        let own = format!("{name}_{}", at + 1);
        let title = title.as_str().unwrap_or_default();
        let title =
            if text("title").is_empty() { title.to_owned() } else { format!("{}: {title}", text("title")) };
        let switch =
            json!({"type": "boolean", "title": title, "description": text("description"), "default": false});
        fields.insert(own.clone(), switch);
        switches.push((own, value));
    }
    Split { field: name.to_owned(), choices: switches }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Map<String, Value> {
        let choices = json!([{"const": "a", "title": "A: it"}, {"const": "b", "title": "B: it"}]);
        let form = json!({"type": "object", "properties": {
            "one": {"type": "string", "title": "One", "description": "?", "oneOf": choices},
            "many": {"type": "array", "title": "Many", "description": "?", "items": {"anyOf": choices}},
            "other": {"type": "string", "title": "Other"},
        }});
        form.as_object().unwrap().clone()
    }

    #[test]
    fn an_old_client_gets_enums_and_switches() {
        let form = Form::for_version(form(), Some(&ProtocolVersion::V_2025_06_18));
        let fields = &form.schema["properties"];
        assert_eq!(fields["one"]["enum"], json!(["a", "b"]));
        assert_eq!(fields["one"]["enumNames"], json!(["A: it", "B: it"]));
        assert!(fields["one"].get("oneOf").is_none() && fields.get("many").is_none(), "{fields}");
        let switch = json!({"type": "boolean", "title": "Many: B: it", "description": "?", "default": false});
        assert_eq!(fields["many_2"], switch);
        let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
        assert_eq!(names, ["one", "many_1", "many_2", "other"]);
        let read = form.read(json!({"one": "b", "many_1": false, "many_2": true}));
        assert_eq!(read, json!({"one": "b", "many": ["b"]}));
    }

    #[test]
    fn a_client_of_today_gets_the_form_as_it_is() {
        let today = Form::for_version(form(), Some(&ProtocolVersion::V_2025_11_25));
        assert_eq!(today.schema, form());
        assert_eq!(today.read(json!({"many": ["a"]})), json!({"many": ["a"]}));
    }
}
