//! From the JSON that a model sent to an input that fits the tool's schema. What is safely repairable is
//! repaired and noted; everything else is a fault that names the field, what was expected and what came.

mod repair;

use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Fault, Spec, json, spec, suggest};

/// How many problems a fault lists; all missing fields of an object are one.
const MAX_PROBLEMS: usize = 5;
/// A value of more parts than this is large.
const LARGE: usize = 20_000;
/// How many problems are looked at to find those.
const MAX_LOOKED_AT: usize = 64;

/// Checks inputs against one tool's schema, which is compiled when the first call comes.
#[derive(Default)]
pub(crate) struct Decoder {
    validator: OnceLock<Option<Validator>>,
}

impl Decoder {
    /// Makes an input fit, and tells what was repaired to do so.
    pub(crate) fn decode(&self, value: &mut Value, spec: &Spec) -> Result<Vec<String>, Fault> {
        let mut notes = Vec::new();
        match value {
            Value::String(text) => {
                *value = object_in(text, spec)?;
                notes.push("the input came as a string of JSON and was read as the object in it".to_owned());
            }
            Value::Null => *value = Value::Object(Map::new()),
            _ => {}
        }
        // A schema that cannot be compiled is a foreign tool's own; that tool then judges its input itself.
        let validator = self.validator.get_or_init(|| jsonschema::validator_for(spec.input_schema()).ok());
        if let Some(validator) = validator
            && !validator.is_valid(value)
        {
            notes.extend(repair::repair(value, spec.input_schema()));
            let problems = problems(value, validator);
            if !problems.is_empty() {
                return Err(explain(&problems, spec));
            }
        }
        repair::integral(value, spec.input_schema());
        Ok(notes)
    }
}

/// Whether inputs can be checked against a schema, and why not.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    jsonschema::validator_for(schema).map(drop).map_err(|error| error.to_string())
}

/// What is wrong with a value. All that is wrong is found at once, however much it is, so of a large value
/// only the first problem is looked for.
fn problems<'v>(value: &'v Value, validator: &'v Validator) -> Vec<ValidationError<'v>> {
    if is_large(value, &mut { LARGE }) {
        validator.validate(value).err().into_iter().collect()
    } else {
        validator.iter_errors(value).take(MAX_LOOKED_AT).collect()
    }
}

/// Whether a value has more parts than are `left`; stops counting as soon as it has.
fn is_large(value: &Value, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return true };
    *left = fewer;
    match value {
        Value::Array(items) => items.iter().any(|item| is_large(item, left)),
        Value::Object(fields) => fields.values().any(|field| is_large(field, left)),
        _ => false,
    }
}

/// Turns an input that fits the schema into the tool's own type.
pub(crate) fn typed<T: DeserializeOwned>(input: &Value, spec: &Spec) -> Result<T, Fault> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let path = error.path().to_string();
        let problem = match path.as_str() {
            "." => abbreviate(&error.inner().to_string(), 300),
            field if beyond_counting(input, error.path()) => {
                format!("`{}` must be a number that can be counted to, such as 1000", abbreviate(field, 100))
            }
            field => format!("`{}`: {}", abbreviate(field, 100), abbreviate(&error.inner().to_string(), 300)),
        };
        with_example(Fault::invalid(problem), spec)
    })
}

/// Whether a value is a whole number that no integer holds. A schema takes it, and serde does not.
fn beyond_counting(input: &Value, path: &serde_path_to_error::Path) -> bool {
    let value = path.iter().try_fold(input, |value, step| match step {
        serde_path_to_error::Segment::Map { key } => value.get(key),
        serde_path_to_error::Segment::Seq { index } => value.get(index),
        _ => None,
    });
    value.and_then(Value::as_f64).is_some_and(|number| number.fract() == 0.0 && number.abs() >= 9e15)
}

fn object_in(text: &str, spec: &Spec) -> Result<Value, Fault> {
    json::parse(text).map_err(|fault| with_example(fault, spec))
}

fn explain(problems: &[ValidationError<'_>], spec: &Spec) -> Fault {
    let (missing, wrong): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| matches!(problem.kind(), ValidationErrorKind::Required { .. }));
    let missing: Vec<String> = missing.iter().map(|problem| field(&place(problem))).collect();
    let mut texts = Vec::new();
    match missing.as_slice() {
        [] => {}
        [only] => texts.push(format!("`{only}` is missing")),
        several => texts.push(format!("{} are missing", listed(several))),
    }
    texts.extend(wrong.iter().take(MAX_PROBLEMS).map(|problem| describe(problem, spec)));
    let wrong = wrong.iter().take(MAX_PROBLEMS).map(|problem| field(&place(problem)));
    let fields: Vec<String> = missing.into_iter().chain(wrong).collect();
    with_example(Fault::invalid(texts.join("; ")).with("fields", fields), spec)
}

/// Names for a message: the first few, and how many more.
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

/// Where the problem is, the missing or unknown field included.
fn place(problem: &ValidationError<'_>) -> String {
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
    let name = field(&place(problem));
    let came = brief(problem.instance());
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
            format!("`{name}` must be {}, not {came}", wanted.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options.as_array().into_iter().flatten().map(brief).collect();
            format!("`{name}` must be one of {}, not {came}", options.join(", "))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("`{name}` must be {expected_value}, not {came}")
        }
        ValidationErrorKind::Minimum { limit } => format!("`{name}` must be at least {limit}, not {came}"),
        ValidationErrorKind::Maximum { limit } => format!("`{name}` must be at most {limit}, not {came}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("`{name}` must be more than {limit}, not {came}")
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("`{name}` must be less than {limit}, not {came}")
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
        ValidationErrorKind::Pattern { pattern } => format!("`{name}` must match `{pattern}`, not {came}"),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match nearest_branch(context) {
                Some(branch) => branch
                    .iter()
                    .map(|inner| describe_inside(inner, problem, spec))
                    .collect::<Vec<_>>()
                    .join("; "),
                None => format!("`{name}` has none of the forms it may have: {came}"),
            }
        }
        _ => format!("`{name}`: {}", abbreviate(&problem.to_string(), 200)),
    }
}

/// The errors of a branch carry paths of their own when they lie deeper; at the branch itself they do not.
fn describe_inside(inner: &ValidationError<'_>, outer: &ValidationError<'_>, spec: &Spec) -> String {
    let text = describe(inner, spec);
    let outer = field(outer.instance_path().as_str());
    if inner.instance_path().as_str().is_empty() && !outer.is_empty() {
        text.replacen("`input`", &format!("`{outer}`"), 1)
    } else {
        text
    }
}

/// The branch that the value comes nearest to: not of another type, the right tag, the fewest problems.
fn nearest_branch<'a>(
    context: &'a [Vec<ValidationError<'static>>],
) -> Option<&'a Vec<ValidationError<'static>>> {
    context.iter().filter(|branch| !branch.is_empty()).min_by_key(|branch| {
        let shallowest =
            branch.iter().map(|e| e.instance_path().as_str().matches('/').count()).min().unwrap_or(0);
        let wrong_sort = branch.iter().any(|error| {
            let here = error.instance_path().as_str().matches('/').count() == shallowest;
            here && matches!(
                error.kind(),
                ValidationErrorKind::Type { .. } | ValidationErrorKind::Constant { .. }
            )
        });
        (wrong_sort, branch.len())
    })
}

fn known_fields(problem: &ValidationError<'_>, spec: &Spec) -> Vec<String> {
    let keyword = problem.schema_path().as_str();
    let object = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = spec.input_schema().pointer(object).and_then(|schema| schema.get("properties"));
    properties.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

/// A JSON pointer as people write it: `/edits/0/new` is `edits[0].new`.
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
    match kind {
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "boolean" => "a boolean",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
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

/// A value, short enough for a message.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 8 => format!("an array of {} items", items.len()),
        Value::String(text) if text.len() > 200 => {
            format!("{}… ({} characters)", abbreviate(text, 40), text.chars().count())
        }
        other => abbreviate(&other.to_string(), 60),
    }
}

/// The beginning of a text, if it is longer than a message can bear.
fn abbreviate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Whether a property of a tool's input takes a plain string.
pub fn takes_string(spec: &Spec, property: &str) -> bool {
    let schema = spec.input_schema().get("properties").and_then(|all| all.get(property));
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(kind)) => kind == "string",
        kinds @ Some(Value::Array(_)) => spec::strings(kinds).iter().any(|kind| kind == "string"),
        _ => false,
    }
}
