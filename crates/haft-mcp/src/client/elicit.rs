//! A server's questions to the user (elicitation), as questions of haft. The user first sees which server asks and why,
//! and may decline; then each field of the form is one question. A form that cannot be shown, or is not answered, is
//! declined.

use haft_core::Context;
use haft_core::questions::{Answer, AnswerOption, Selection, UserQuestion};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Number, Value};

use super::bounds;

/// The most fields of a form.
const MAX_FIELDS: usize = 30;
/// How often a field is asked when the answer does not fit its type.
const MAX_ATTEMPTS: usize = 3;
/// The most choices of a field.
const MAX_OPTIONS: usize = 100;

/// Asks the user a server's question.
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

/// Asks a form's fields one by one. None if the user declines or gives up.
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

/// Asks whether the user wants to answer the server.
async fn agrees(server: &str, message: &str, yes: &str, cx: &Context) -> bool {
    let option =
        |label: &str, about: &str| AnswerOption { label: label.to_owned(), description: about.to_owned() };
    let question = UserQuestion {
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
        choosing: Selection::One,
    };
    cx.ask_user(vec![question])
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
    Boolean,
    /// One of these choices, each with its label and value.
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
            (Some("boolean"), _) => Kind::Boolean,
            (Some("integer"), _) => Kind::Integer,
            (Some("number"), _) => Kind::Number,
            (Some("string"), _) => Kind::Text,
            _ => return None,
        };
        let prose = |key: &str| field[key].as_str().map(|text| bounds::text(text, bounds::MAX_WORD));
        let title = prose("title").unwrap_or_else(|| bounds::word(name));
        let text = match prose("description") {
            Some(about) => format!("{title}: {about}"),
            None => title,
        };
        Some(Self { name: name.to_owned(), text, kind, required, default: field.get("default").cloned() })
    }

    /// The choices to show, with their values; None omits the field.
    fn options(&self) -> Vec<(String, Option<Value>)> {
        let mut options: Vec<(String, Option<Value>)> = Vec::new();
        let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match &self.kind {
            Kind::One(choices) | Kind::Several(choices) => {
                options.extend(choices.iter().map(|(label, value)| (label.clone(), Some(value.clone()))));
            }
            Kind::Boolean => {
                options.extend([("yes".to_owned(), Some(true.into())), ("no".to_owned(), Some(false.into()))])
            }
            Kind::Text | Kind::Number | Kind::Integer => {}
        }
        // The default comes first.
        if let Some(default) = &self.default
            && !matches!(self.kind, Kind::Several(_))
        {
            options.retain(|(_, value)| value.as_ref() != Some(default));
            options.insert(0, (label(default), Some(default.clone())));
        }
        if !self.required && !matches!(self.kind, Kind::Several(_)) {
            options.push(("(leave out)".to_owned(), None));
        }
        options
    }

    /// Asks the user. The outer None ends the form, the inner one omits the field.
    async fn ask(&self, server: &str, cx: &Context) -> Option<Option<Value>> {
        let options = self.options();
        let labels = options
            .iter()
            .map(|(label, _)| AnswerOption { label: bounds::word(label), description: String::new() });
        let question = UserQuestion {
            header: bounds::word(server),
            text: self.text.clone(),
            options: labels.collect(),
            choosing: if matches!(self.kind, Kind::Several(_)) { Selection::Several } else { Selection::One },
        };
        for _ in 0..MAX_ATTEMPTS {
            let answer = cx.ask_user(vec![question.clone()]).await.ok()?.pop()?;
            if let Some(value) = self.value(&answer, &options) {
                return Some(value);
            }
        }
        None
    }

    /// The value of an answer. The outer None means that it does not fit the field.
    fn value(&self, answer: &Answer, options: &[(String, Option<Value>)]) -> Option<Option<Value>> {
        let chosen = || answer.chosen.iter().filter_map(|index| options.get(*index));
        if matches!(self.kind, Kind::Several(_)) {
            let values = chosen().filter_map(|(_, value)| value.clone()).collect();
            return answer.other.is_none().then_some(Some(Value::Array(values)));
        }
        let Some(text) = &answer.other else { return chosen().next().map(|(_, value)| value.clone()) };
        let value = match self.kind {
            Kind::Text => Value::String(text.clone()),
            Kind::Integer => Value::Number(text.trim().parse::<i64>().ok()?.into()),
            Kind::Number => Value::Number(Number::from_f64(text.trim().parse().ok()?)?),
            Kind::Boolean | Kind::One(_) | Kind::Several(_) => return None,
        };
        Some(Some(value))
    }
}

/// The labels and values of a field's choices, if it has any.
fn choices(field: &Value) -> Option<Vec<(String, Value)>> {
    let plain = field["enum"].as_array().map(|values| {
        let names = field["enumNames"].as_array();
        let name = |index: usize| names.and_then(|names| names.get(index)?.as_str());
        let all = values
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((name(index).or(value.as_str())?.to_owned(), value.clone())));
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
        let other = |field: &Field, text: &str| field.value(&Answer::other(text), &field.options());
        assert_eq!(other(&field(json!({"type": "integer"}), true), "7"), Some(Some(json!(7))));
        assert_eq!(other(&field(json!({"type": "integer"}), true), "x"), None);
        assert_eq!(other(&field(json!({"type": "number"}), true), "1.5"), Some(Some(json!(1.5))));
        assert_eq!(other(&field(json!({"type": "string"}), true), "7"), Some(Some(json!("7"))));
        assert_eq!(other(&field(json!({"type": "boolean"}), true), "perhaps"), None);
    }

    #[test]
    fn the_first_option_is_the_default() {
        for (default, kind) in [(json!("a"), "string"), (json!(3), "integer"), (json!(false), "boolean")] {
            let field = field(json!({"type": kind, "default": default}), false);
            assert_eq!(field.value(&Answer::option(0), &field.options()), Some(Some(default)));
        }
        let one = field(json!({"type": "string", "enum": ["a", "b"], "default": "b"}), true);
        assert_eq!(one.value(&Answer::option(0), &one.options()), Some(Some(json!("b"))));
        assert_eq!(one.value(&Answer::option(1), &one.options()), Some(Some(json!("a"))));
    }

    #[test]
    fn an_optional_field_can_be_omitted() {
        let field = field(json!({"type": "string"}), false);
        assert_eq!(field.value(&Answer::option(0), &field.options()), Some(None));
    }

    #[test]
    fn several_can_be_chosen_by_their_titles() {
        let items = json!({"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]});
        let field = field(json!({"type": "array", "items": items}), true);
        assert_eq!(field.options()[1].0, "Green");
        let answer = Answer { chosen: vec![0, 1], other: None };
        assert_eq!(field.value(&answer, &field.options()), Some(Some(json!(["r", "g"]))));
    }
}
