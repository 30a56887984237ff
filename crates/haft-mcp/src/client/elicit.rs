//! A server's questions to the user, as questions of haft. The user first hears who asks and what for, and may decline;
//! then each field is one question. What cannot be asked, or is not answered, is declined.

use haft_core::Context;
use haft_core::questions::{Answer, AnswerOption, Choosing, Inquiry};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Number, Value};

use super::bounds;

/// No form has more fields.
const MAX_FIELDS: usize = 30;
/// A field that is answered wrongly is asked again so often.
const TRIES: usize = 3;
/// No field offers more answers.
const MAX_OPTIONS: usize = 100;

/// Asks the user what a server wants to know.
pub(super) async fn ask(server: &str, request: ElicitRequestParams, cx: &Context) -> ElicitResult {
    let action = |action| ElicitResult::new(action);
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let Ok(schema) = serde_json::to_value(requested_schema) else {
                return action(ElicitationAction::Decline);
            };
            match form(server, &message, &schema, cx).await {
                Some(content) => action(ElicitationAction::Accept).with_content(Value::Object(content)),
                None => action(ElicitationAction::Decline),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let text = format!("{message}\nIt is answered at {url}");
            match agrees(server, &text, "I will go there", cx).await {
                true => action(ElicitationAction::Accept),
                false => action(ElicitationAction::Decline),
            }
        }
        _ => action(ElicitationAction::Decline),
    }
}

async fn form(server: &str, message: &str, schema: &Value, cx: &Context) -> Option<Map<String, Value>> {
    let fields: Vec<Field> = Field::all(schema)?;
    if !agrees(server, message, "Answer", cx).await {
        return None;
    }
    let mut content = Map::new();
    for field in &fields {
        if let Some(value) = field.ask(server, cx).await? {
            content.insert(field.name.clone(), value);
        }
    }
    Some(content)
}

async fn agrees(server: &str, message: &str, yes: &str, cx: &Context) -> bool {
    let option =
        |label: &str, about: &str| AnswerOption { label: label.to_owned(), description: about.to_owned() };
    let question = Inquiry {
        header: bounds::word(server),
        text: format!(
            "The MCP server `{}` asks: {}",
            bounds::word(server),
            bounds::text(message, bounds::MAX_MESSAGE)
        ),
        options: vec![
            option(yes, "What you say goes to the server"),
            option("Decline", "The server is told no"),
        ],
        choosing: Choosing::One,
    };
    cx.inquire(vec![question])
        .await
        .is_ok_and(|answers| answers.first().is_some_and(|first| first.chosen == [0]))
}

/// One field of a form.
struct Field {
    name: String,
    text: String,
    kind: Kind,
    required: bool,
    default: Option<Value>,
}

enum Kind {
    Text,
    Number,
    Integer,
    Yes,
    /// One of these: what it is called, and the value.
    One(Vec<(String, Value)>),
    Several(Vec<(String, Value)>),
}

impl Field {
    fn all(schema: &Value) -> Option<Vec<Self>> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object()?;
        if properties.len() > MAX_FIELDS {
            return None;
        }
        properties
            .iter()
            .map(|(name, field)| Self::read(name, field, required.contains(&name.as_str())))
            .collect()
    }

    fn read(name: &str, field: &Value, required: bool) -> Option<Self> {
        let kind = match (field["type"].as_str(), choices(field)) {
            (Some("array"), _) => Kind::Several(choices(&field["items"])?),
            (_, Some(choices)) => Kind::One(choices),
            (Some("boolean"), _) => Kind::Yes,
            (Some("integer"), _) => Kind::Integer,
            (Some("number"), _) => Kind::Number,
            (Some("string"), _) => Kind::Text,
            _ => return None,
        };
        let said = |key: &str| field[key].as_str().map(|said| bounds::text(said, bounds::MAX_WORD));
        let title = said("title").unwrap_or_else(|| bounds::word(name));
        let text = match said("description") {
            Some(about) => format!("{title}: {about}"),
            None => title,
        };
        Some(Self { name: name.to_owned(), text, kind, required, default: field.get("default").cloned() })
    }

    /// The answers that are offered, with what they stand for; nothing stands for leaving the field out.
    fn offered(&self) -> Vec<(String, Option<Value>)> {
        let mut offered: Vec<(String, Option<Value>)> = Vec::new();
        let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match &self.kind {
            Kind::One(choices) | Kind::Several(choices) => {
                offered.extend(choices.iter().map(|(label, value)| (label.clone(), Some(value.clone()))));
            }
            Kind::Yes => {
                offered.extend([("yes".to_owned(), Some(true.into())), ("no".to_owned(), Some(false.into()))])
            }
            Kind::Text | Kind::Number | Kind::Integer => {}
        }
        // What is so unless something else is said comes first.
        if let Some(default) = &self.default
            && !matches!(self.kind, Kind::Several(_))
        {
            offered.retain(|(_, value)| value.as_ref() != Some(default));
            offered.insert(0, (label(default), Some(default.clone())));
        }
        if !self.required && !matches!(self.kind, Kind::Several(_)) {
            offered.push(("(leave out)".to_owned(), None));
        }
        offered
    }

    /// What the user says: a value, or nothing for a field that is left out. No answer at all ends the form.
    async fn ask(&self, server: &str, cx: &Context) -> Option<Option<Value>> {
        let offered = self.offered();
        let options = offered
            .iter()
            .map(|(label, _)| AnswerOption { label: bounds::word(label), description: String::new() });
        let question = Inquiry {
            header: bounds::word(server),
            text: self.text.clone(),
            options: options.collect(),
            choosing: if matches!(self.kind, Kind::Several(_)) { Choosing::Several } else { Choosing::One },
        };
        for _ in 0..TRIES {
            let answer = cx.inquire(vec![question.clone()]).await.ok()?.pop()?;
            if let Some(value) = self.value(&answer, &offered) {
                return Some(value);
            }
        }
        None
    }

    fn value(&self, answer: &Answer, offered: &[(String, Option<Value>)]) -> Option<Option<Value>> {
        let chosen = || answer.chosen.iter().filter_map(|index| offered.get(*index));
        if matches!(self.kind, Kind::Several(_)) {
            let values = chosen().filter_map(|(_, value)| value.clone()).collect();
            return answer.other.is_none().then_some(Some(Value::Array(values)));
        }
        let Some(text) = &answer.other else { return chosen().next().map(|(_, value)| value.clone()) };
        let value = match self.kind {
            Kind::Text => Value::String(text.clone()),
            Kind::Integer => Value::Number(text.trim().parse::<i64>().ok()?.into()),
            Kind::Number => Value::Number(Number::from_f64(text.trim().parse().ok()?)?),
            Kind::Yes | Kind::One(_) | Kind::Several(_) => return None,
        };
        Some(Some(value))
    }
}

/// The values that a field can have, each with what it is called.
fn choices(field: &Value) -> Option<Vec<(String, Value)>> {
    let plain = field["enum"].as_array().map(|values| {
        let names = field["enumNames"].as_array();
        let name = |at: usize| names.and_then(|names| names.get(at)?.as_str());
        let all = values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((name(at).or(value.as_str())?.to_owned(), value.clone())));
        all.collect::<Vec<_>>()
    });
    let titled = || {
        let branches = field.get("oneOf").or_else(|| field.get("anyOf"))?.as_array()?;
        let all = branches.iter().filter_map(|branch| {
            let value = branch.get("const")?;
            Some((branch["title"].as_str().or(value.as_str())?.to_owned(), value.clone()))
        });
        Some(all.collect::<Vec<_>>())
    };
    plain.or_else(titled).filter(|choices| !choices.is_empty() && choices.len() <= MAX_OPTIONS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(field: Value, required: bool) -> Field {
        Field::read("name", &field, required).unwrap()
    }

    #[test]
    fn an_answer_becomes_a_value_of_the_fields_type() {
        let other = |field: &Field, text: &str| field.value(&Answer::other(text), &field.offered());
        assert_eq!(other(&field(json!({"type": "integer"}), true), "7"), Some(Some(json!(7))));
        assert_eq!(other(&field(json!({"type": "integer"}), true), "x"), None);
        assert_eq!(other(&field(json!({"type": "number"}), true), "1.5"), Some(Some(json!(1.5))));
        assert_eq!(other(&field(json!({"type": "string"}), true), "7"), Some(Some(json!("7"))));
        assert_eq!(other(&field(json!({"type": "boolean"}), true), "perhaps"), None);
    }

    #[test]
    fn the_first_answer_is_the_default() {
        for (default, kind) in [(json!("a"), "string"), (json!(3), "integer"), (json!(false), "boolean")] {
            let field = field(json!({"type": kind, "default": default}), false);
            assert_eq!(field.value(&Answer::option(0), &field.offered()), Some(Some(default)));
        }
        let one = field(json!({"type": "string", "enum": ["a", "b"], "default": "b"}), true);
        assert_eq!(one.value(&Answer::option(0), &one.offered()), Some(Some(json!("b"))));
        assert_eq!(one.value(&Answer::option(1), &one.offered()), Some(Some(json!("a"))));
    }

    #[test]
    fn what_is_optional_can_be_left_out() {
        let field = field(json!({"type": "string"}), false);
        assert_eq!(field.value(&Answer::option(0), &field.offered()), Some(None));
    }

    #[test]
    fn several_can_be_chosen_by_their_titles() {
        let items = json!({"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]});
        let field = field(json!({"type": "array", "items": items}), true);
        assert_eq!(field.offered()[1].0, "Green");
        let answer = Answer { chosen: vec![0, 1], other: None };
        assert_eq!(field.value(&answer, &field.offered()), Some(Some(json!(["r", "g"]))));
    }
}
