//! From the JSON that a model sent to an input that fits the tool's schema. What is safely repairable is
//! repaired and noted; everything else is a fault that names the field, what was expected and what came.

use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Fault, Input, Spec, json, spec, suggest};

/// More repairs than this in one input are no slip any more.
const MAX_REPAIRS: usize = 64;
/// How many problems a fault lists.
const MAX_PROBLEMS: usize = 5;

/// Checks inputs against one tool's schema, which is compiled when the first call comes.
#[derive(Default)]
pub(crate) struct Decoder {
    validator: OnceLock<Option<Validator>>,
}

/// An input that fits, and what was repaired to make it fit.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) notes: Vec<String>,
}

impl Decoder {
    pub(crate) fn decode(&self, input: Input, spec: &Spec) -> Result<Decoded, Fault> {
        let mut notes = Vec::new();
        let mut value = match input {
            Input::Value(Value::String(text)) => {
                let value = object_in(&text, spec)?;
                notes.push("the input came as a string of JSON and was read as the object in it".to_owned());
                value
            }
            Input::Value(Value::Null) => Value::Object(Map::new()),
            Input::Value(value) => value,
            // An API that sends arguments as text sends nothing at all for a tool without parameters.
            Input::Text(text) if text.trim().is_empty() => Value::Object(Map::new()),
            Input::Text(text) => object_in(&text, spec)?,
        };
        // A schema that cannot be compiled is a foreign tool's own; that tool then judges its input itself.
        let validator = self.validator.get_or_init(|| jsonschema::validator_for(spec.input_schema()).ok());
        if let Some(validator) = validator
            && !validator.is_valid(&value)
        {
            repair(&mut value, validator, &mut notes);
            let problems: Vec<ValidationError<'_>> =
                validator.iter_errors(&value).take(MAX_PROBLEMS).collect();
            if !problems.is_empty() {
                return Err(explain(&problems, spec));
            }
        }
        integral(&mut value);
        Ok(Decoded { value, notes })
    }
}

/// Turns an input that fits the schema into the tool's own type.
pub(crate) fn typed<T: DeserializeOwned>(input: &Value, spec: &Spec) -> Result<T, Fault> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let path = error.path().to_string();
        let problem = match path.as_str() {
            "." => error.inner().to_string(),
            field if beyond_counting(input, error.path()) => {
                format!("`{field}` must be a number that can be counted to, such as 1000")
            }
            field => format!("`{field}`: {}", error.inner()),
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

/// Mends what can only have been meant one way, until nothing is left to mend.
fn repair(value: &mut Value, validator: &Validator, notes: &mut Vec<String>) {
    for _ in 0..MAX_REPAIRS {
        let found = validator.iter_errors(value).take(MAX_REPAIRS).find_map(|error| {
            let at = error.instance_path().as_str().to_owned();
            candidates(&error).into_iter().find_map(|candidate| {
                let mut mended = value.clone();
                apply(&mut mended, &at, candidate.clone());
                let fits = !validator
                    .iter_errors(&mended)
                    .any(|left| is_at_or_below(left.instance_path().as_str(), &at));
                fits.then_some((at.clone(), candidate, mended))
            })
        });
        let Some((at, candidate, mended)) = found else { return };
        if let Some(now) = &candidate {
            let before = value.pointer(&at).map_or("nothing", json::kind_of);
            notes.push(format!("`{}` came as {before} and was read as {}", field(&at), brief(now)));
        }
        *value = mended;
    }
}

/// Whether a JSON pointer leads to a place or into it.
fn is_at_or_below(pointer: &str, place: &str) -> bool {
    pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a value of the wrong type may have been meant to be; `None` stands for leaving it out.
fn candidates(error: &ValidationError<'_>) -> Vec<Option<Value>> {
    let instance = error.instance().as_ref();
    let wanted = wanted_types(error);
    let wants = |kind: &str| wanted.iter().any(|wanted| wanted == kind);
    match instance {
        Value::Null => vec![None],
        Value::String(text) => {
            let mut candidates = Vec::new();
            let trimmed = text.trim();
            if let Ok(parsed) = json::parse(trimmed) {
                let fits = match &parsed {
                    Value::Number(_) => wants("integer") || wants("number"),
                    Value::Bool(_) => wants("boolean"),
                    Value::Array(_) => wants("array"),
                    Value::Object(_) => wants("object"),
                    _ => false,
                };
                if fits {
                    candidates.push(Some(parsed));
                }
            } else if wants("boolean") && trimmed.eq_ignore_ascii_case("true") {
                candidates.push(Some(Value::Bool(true)));
            } else if wants("boolean") && trimmed.eq_ignore_ascii_case("false") {
                candidates.push(Some(Value::Bool(false)));
            }
            if wants("array") && candidates.is_empty() {
                candidates.push(Some(Value::Array(vec![instance.clone()])));
            }
            candidates
        }
        _ => Vec::new(),
    }
}

fn wanted_types(error: &ValidationError<'_>) -> Vec<String> {
    match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => vec![kind.to_string()],
        ValidationErrorKind::Type { kind: TypeKind::Multiple(kinds) } => {
            kinds.iter().map(|kind| kind.to_string()).collect()
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context.iter().flatten().flat_map(wanted_types).collect()
        }
        _ => Vec::new(),
    }
}

fn apply(value: &mut Value, at: &str, candidate: Option<Value>) {
    match candidate {
        Some(candidate) => {
            if let Some(place) = value.pointer_mut(at) {
                *place = candidate;
            }
        }
        None => {
            if let Some((parent, key)) = at.rsplit_once('/')
                && let Some(Value::Object(parent)) = value.pointer_mut(parent)
            {
                parent.shift_remove(&unescape(key));
            }
        }
    }
}

/// Writes `5.0` as `5`: to JSON they are the same integer, to serde they are not.
fn integral(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() < 9_007_199_254_740_992.0
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(integral),
        Value::Object(fields) => fields.values_mut().for_each(integral),
        _ => {}
    }
}

fn explain(problems: &[ValidationError<'_>], spec: &Spec) -> Fault {
    let texts: Vec<String> = problems.iter().map(|problem| describe(problem, spec)).collect();
    let mut fault = Fault::invalid(texts.join("; "));
    let fields: Vec<String> = problems.iter().map(|problem| field(&place(problem))).collect();
    fault = fault.with("fields", fields);
    with_example(fault, spec)
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
            let near =
                unexpected.first().map(|first| suggest::nearest(first, known.iter().map(String::as_str), 1));
            let unknown = match unexpected.as_slice() {
                [_] => format!("unknown field `{name}`"),
                _ => format!("unknown fields `{}`", unexpected.join("`, `")),
            };
            match (near.as_deref(), known.is_empty()) {
                (Some([near]), _) => format!("{unknown} (did you mean `{near}`?)"),
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
            text.push_str(&unescape(part));
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
