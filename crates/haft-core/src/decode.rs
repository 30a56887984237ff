//! Decodes the JSON that a model sent into an input that fits the tool's schema. Unambiguous mistakes are repaired, with a
//! note for the model; everything else is a fault that names the field, the expected type and the actual value.

mod repair;

use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Fault, Spec, json, spec, suggest};

/// The most problems that a fault lists; all missing fields of an object count as one.
const MAX_PROBLEMS: usize = 5;
/// In a value of more parts than this, validation stops at the first problem.
const LARGE: usize = 20_000;
/// The most problems that validation collects.
const MAX_COLLECTED: usize = 64;

/// Validates inputs against one tool's schema, which is compiled lazily.
#[derive(Default)]
pub(crate) struct Decoder {
    validator: OnceLock<Option<Validator>>,
}

impl Decoder {
    /// Validates and repairs an input, and returns a note for each repair.
    pub(crate) fn decode(&self, value: &mut Value, spec: &Spec) -> Result<Vec<String>, Fault> {
        let mut notes = Vec::new();
        match value {
            Value::String(text) => {
                *value = parse_object(text, spec)?;
                notes.push("the input came as a string of JSON and was read as the object in it".to_owned());
            }
            Value::Null => *value = Value::Object(Map::new()),
            _ => {}
        }
        // Only a foreign tool, such as one of an MCP server, has a schema that cannot be compiled. It then validates its
        // input itself.
        let validator =
            self.validator.get_or_init(|| jsonschema::validator_for(spec.full_input_schema()).ok());
        if let Some(validator) = validator
            && !validator.is_valid(value)
        {
            notes.extend(repair::repair(value, spec));
            let problems = problems(value, validator);
            if !problems.is_empty() {
                return Err(explain(&problems, spec));
            }
        }
        repair::integral(value, spec.full_input_schema());
        Ok(notes)
    }
}

/// Compiles a JSON schema, to check that inputs can be validated against it. The error says why not.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    jsonschema::validator_for(schema).map(drop).map_err(|error| error.to_string())
}

/// The problems of a value. The validator collects all of them before it returns the first, so for a large value only
/// the first is searched.
fn problems<'v>(value: &'v Value, validator: &'v Validator) -> Vec<ValidationError<'v>> {
    if is_large(value, &mut { LARGE }) {
        validator.validate(value).err().into_iter().collect()
    } else {
        validator.iter_errors(value).take(MAX_COLLECTED).collect()
    }
}

/// Whether a value has more parts than `left`; stops counting as soon as it has.
fn is_large(value: &Value, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return true };
    *left = fewer;
    match value {
        Value::Array(items) => items.iter().any(|item| is_large(item, left)),
        Value::Object(fields) => fields.values().any(|field| is_large(field, left)),
        _ => false,
    }
}

/// Deserializes an input that fits the schema into the tool's own type.
pub(crate) fn typed<T: DeserializeOwned>(input: &Value, spec: &Spec) -> Result<T, Fault> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let path = error.path().to_string();
        let problem = match path.as_str() {
            "." => abbreviate(&error.inner().to_string(), 300),
            field if exceeds_integers(input, error.path()) => {
                format!("`{}` must be a number that can be counted to, such as 1000", abbreviate(field, 100))
            }
            field => format!("`{}`: {}", abbreviate(field, 100), abbreviate(&error.inner().to_string(), 300)),
        };
        with_example(Fault::invalid(problem), spec)
    })
}

/// Whether a value is a whole number too large for an integer type. A schema accepts it, and serde does not.
fn exceeds_integers(input: &Value, path: &serde_path_to_error::Path) -> bool {
    let value = path.iter().try_fold(input, |value, step| match step {
        serde_path_to_error::Segment::Map { key } => value.get(key),
        serde_path_to_error::Segment::Seq { index } => value.get(index),
        _ => None,
    });
    value.and_then(Value::as_f64).is_some_and(|number| number.fract() == 0.0 && number.abs() >= 9e15)
}

fn parse_object(text: &str, spec: &Spec) -> Result<Value, Fault> {
    json::parse(text).map_err(|fault| with_example(fault, spec))
}

fn explain(problems: &[ValidationError<'_>], spec: &Spec) -> Fault {
    let (missing, wrong): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| matches!(problem.kind(), ValidationErrorKind::Required { .. }));
    let missing: Vec<String> = missing.iter().map(|problem| field(&pointer(problem))).collect();
    let mut texts = Vec::new();
    match missing.as_slice() {
        [] => {}
        [only] => texts.push(format!("`{only}` is missing")),
        several => texts.push(format!("{} are missing", listed(several))),
    }
    texts.extend(wrong.iter().take(MAX_PROBLEMS).map(|problem| describe(problem, spec)));
    let wrong = wrong.iter().take(MAX_PROBLEMS).map(|problem| field(&pointer(problem)));
    let fields: Vec<String> = missing.into_iter().chain(wrong).collect();
    with_example(Fault::invalid(texts.join("; ")).with("fields", fields), spec)
}

/// Names for a message: the first few, and the number of further ones.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(MAX_PROBLEMS).map(|name| format!("`{}`", abbreviate(name, 60))).collect();
    match names.len().saturating_sub(MAX_PROBLEMS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn with_example(fault: Fault, spec: &Spec) -> Fault {
    let example = spec.example();
    fault.hint(format!("an example call: {} {example}", spec.name)).with("example", example)
}

/// The JSON pointer of a problem, including the missing or unknown field.
fn pointer(problem: &ValidationError<'_>) -> String {
    let at = problem.instance_path().as_str();
    match problem.kind() {
        ValidationErrorKind::Required { property } => {
            format!("{at}/{}", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("{at}/{}", unexpected.first().map_or("", String::as_str))
        }
        _ => at.to_owned(),
    }
}

fn describe(problem: &ValidationError<'_>, spec: &Spec) -> String {
    let name = field(&pointer(problem));
    let actual = show_short(problem.instance());
    match problem.kind() {
        ValidationErrorKind::Required { .. } => format!("`{name}` is missing"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = known_fields(problem, spec);
            let near: Vec<&str> = unexpected
                .iter()
                .filter_map(|one| suggest::nearest(one, known.iter().map(String::as_str), 1).pop())
                .collect();
            let unknown = match unexpected.as_slice() {
                [_] => format!("unknown field `{name}`"),
                several => format!("unknown fields {}", listed(several)),
            };
            match (near.is_empty(), known.is_empty()) {
                (false, _) => format!("{unknown} (did you mean `{}`?)", near.join("`, `")),
                (_, false) => {
                    format!("{unknown} (the fields are `{}`)", known.join("`, `"))
                }
                (_, true) => format!("{unknown} (no fields are taken)"),
            }
        }
        ValidationErrorKind::Type { kind } => {
            let wanted: Vec<String> = match kind {
                TypeKind::Single(kind) => vec![kind.to_string()],
                TypeKind::Multiple(kinds) => kinds.iter().map(|kind| kind.to_string()).collect(),
            };
            let wanted: Vec<&str> = wanted.iter().map(|kind| with_article(kind)).collect();
            format!("`{name}` must be {}, not {actual}", wanted.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options.as_array().into_iter().flatten().map(show_short).collect();
            format!("`{name}` must be one of {}, not {actual}", options.join(", "))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("`{name}` must be {expected_value}, not {actual}")
        }
        ValidationErrorKind::Minimum { limit } => format!("`{name}` must be at least {limit}, not {actual}"),
        ValidationErrorKind::Maximum { limit } => format!("`{name}` must be at most {limit}, not {actual}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("`{name}` must be more than {limit}, not {actual}")
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("`{name}` must be less than {limit}, not {actual}")
        }
        ValidationErrorKind::MinItems { limit } => {
            format!(
                "`{name}` must have at least {}, not {}",
                counted(*limit, "item"),
                count(problem.instance())
            )
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!(
                "`{name}` must have at most {}, not {}",
                counted(*limit, "item"),
                count(problem.instance())
            )
        }
        ValidationErrorKind::MinLength { limit } => {
            format!(
                "`{name}` must have at least {}, not {}",
                counted(*limit, "character"),
                count(problem.instance())
            )
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!(
                "`{name}` must have at most {}, not {}",
                counted(*limit, "character"),
                count(problem.instance())
            )
        }
        ValidationErrorKind::Pattern { pattern } => format!("`{name}` must match `{pattern}`, not {actual}"),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match nearest_branch(context) {
                _ if let Some(wanted) = wanted_types(context, problem) => {
                    format!("`{name}` must be {}, not {actual}", wanted.join(" or "))
                }
                Some(branch) => branch
                    .iter()
                    .map(|inner| describe_inside(inner, problem, spec))
                    .collect::<Vec<_>>()
                    .join("; "),
                None => format!("`{name}` has none of the forms it may have: {actual}"),
            }
        }
        _ => format!("`{name}`: {}", abbreviate(&problem.to_string(), 200)),
    }
}

/// Describes a problem inside of an `anyOf` branch. Its path is relative to the branch, and empty at the branch itself;
/// the name of the outer field then takes its place.
fn describe_inside(inner: &ValidationError<'_>, outer: &ValidationError<'_>, spec: &Spec) -> String {
    let text = describe(inner, spec);
    let outer = field(outer.instance_path().as_str());
    let name = field(&pointer(inner));
    match inner.instance_path().as_str() {
        _ if outer == "input" => text,
        "" if name == "input" => text.replacen("`input`", &format!("`{outer}`"), 1),
        _ if name.starts_with(&outer) => text,
        _ => {
            let dot = if name.starts_with('[') { "" } else { "." };
            text.replacen(&format!("`{name}`"), &format!("`{outer}{dot}{name}`"), 1)
        }
    }
}

/// The types that the branches want, if the value has none of them.
fn wanted_types(
    context: &[Vec<ValidationError<'static>>],
    outer: &ValidationError<'_>,
) -> Option<Vec<&'static str>> {
    let is_outer = |at: &str| at.is_empty() || at == outer.instance_path().as_str();
    let mut wanted = Vec::new();
    for branch in context {
        let [only] = branch.as_slice() else { return None };
        match only.kind() {
            ValidationErrorKind::Type { kind: TypeKind::Single(kind) }
                if is_outer(only.instance_path().as_str()) =>
            {
                wanted.push(type_with_article(&kind.to_string())?);
            }
            _ => return None,
        }
    }
    wanted.dedup();
    (!wanted.is_empty()).then_some(wanted)
}

/// The branch that is nearest to the value, as a heuristic: the right type and tag, then the fewest problems.
fn nearest_branch<'a>(
    context: &'a [Vec<ValidationError<'static>>],
) -> Option<&'a Vec<ValidationError<'static>>> {
    let depth = |error: &ValidationError<'_>| error.instance_path().as_str().matches('/').count();
    let top = context.iter().flatten().map(depth).min().unwrap_or(0);
    context.iter().filter(|branch| !branch.is_empty()).min_by_key(|branch| {
        let shallowest = branch.iter().map(depth).min().unwrap_or(0);
        let wrong_type = branch.iter().any(|error| match error.kind() {
            ValidationErrorKind::Type { .. } => depth(error) == top,
            ValidationErrorKind::Constant { .. } => depth(error) == shallowest,
            _ => false,
        });
        (wrong_type, branch.len())
    })
}

fn known_fields(problem: &ValidationError<'_>, spec: &Spec) -> Vec<String> {
    let keyword = problem.schema_path().as_str();
    let object = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = spec.input_schema().pointer(object).and_then(|schema| schema.get("properties"));
    properties.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

/// A JSON pointer in the usual notation: `/edits/0/new` is `edits[0].new`.
fn field(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&abbreviate(&unescape(part), 60));
        }
    }
    if text.is_empty() { "input".to_owned() } else { text }
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

fn with_article(kind: &str) -> &str {
    type_with_article(kind).unwrap_or(kind)
}

fn type_with_article(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "boolean" => "a boolean",
        "array" => "an array",
        "object" => "an object",
        _ => return None,
    })
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::String(text) => text.chars().count(),
        _ => 0,
    }
}

/// A value as text, shortened for a message.
fn show_short(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 8 => format!("an array of {} items", items.len()),
        Value::String(text) if text.len() > 200 => {
            format!("{}… ({} characters)", abbreviate(text, 40), text.chars().count())
        }
        other => abbreviate(&other.to_string(), 60),
    }
}

/// A text, cut to at most `max` characters for a message.
fn abbreviate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Whether a property of a tool's input accepts a string.
pub fn takes_string(spec: &Spec, property: &str) -> bool {
    let schema = spec.full_input_schema().get("properties").and_then(|all| all.get(property));
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(kind)) => kind == "string",
        kinds @ Some(Value::Array(_)) => spec::strings(kinds).iter().any(|kind| kind == "string"),
        _ => false,
    }
}
