//! Repairs an input along its schema where only one meaning is possible: a number, a boolean or JSON inside of a string,
//! a bare string instead of an array of strings, `null` for an optional field. One pass over the input, however much is
//! wrong with it. Does not validate: the caller checks whether the result fits.

use serde_json::{Map, Value};

use super::{field, show_short};
use crate::{json, spec};

/// The most repairs in one input; beyond them it is not a slip but another format.
const MAX_REPAIRS: usize = 64;
/// The most strings that are parsed in search of a repair.
const MAX_TRIES: usize = 1024;
/// The most values that are visited in search of floats that stand for integers.
const MAX_VISITS: usize = 4_000_000;
/// The deepest nesting of references; deeper ones are circular.
const MAX_DEPTH: usize = 128;

/// Repairs a value in place, and returns a note for each repair.
pub(super) fn repair(value: &mut Value, schema: &Value) -> Vec<String> {
    let mut repair = Repair { root: schema, path: Vec::new(), notes: Vec::new(), tries: 0, depth: 0 };
    repair.value(value, schema);
    repair.notes
}

/// Writes `5.0` as `5` where the schema wants an integer: JSON does not distinguish them, serde does.
pub(super) fn integral(value: &mut Value, schema: &Value) {
    if has_float(value) {
        convert_floats(value, schema, schema, 0, &mut { MAX_VISITS });
    }
}

struct Repair<'a> {
    root: &'a Value,
    path: Vec<Step>,
    notes: Vec<String>,
    tries: usize,
    depth: usize,
}

/// A step of a JSON pointer.
enum Step {
    Item(usize),
    Field(String),
}

impl<'a> Repair<'a> {
    fn value(&mut self, value: &mut Value, schema: &'a Value) {
        let is_repairable = matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_));
        if !is_repairable || self.notes.len() >= MAX_REPAIRS || self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let schema = resolve(schema, self.root);
        if let Value::String(text) = value
            && let Some(parsed) = self.parse_string(text, schema)
        {
            self.notes.push(format!(
                "`{}` came as a string and was read as {}",
                self.field_name(),
                show_short(&parsed)
            ));
            *value = parsed;
        }
        for part in list(schema, "allOf") {
            self.value(value, part);
        }
        if let Some(branch) = self.branch(value, schema) {
            self.value(value, branch);
        }
        match value {
            Value::Object(fields) => self.fields(fields, schema),
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = item_schema(schema, at) {
                        self.path.push(Step::Item(at));
                        self.value(item, schema);
                        self.path.pop();
                    }
                }
            }
            _ => {}
        }
        self.depth -= 1;
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, schema: &'a Value) {
        let root = self.root;
        let required = spec::strings(schema.get("required"));
        fields.retain(|name, value| {
            let unwanted = |schema| !kinds(schema, root, 0).is_some_and(|kinds| kinds.contains(&"null"));
            let left_out = value.is_null()
                && !required.contains(name)
                && schema
                    .get("properties")
                    .and_then(|all| all.get(name))
                    .is_some_and(|schema| kinds(schema, root, 0).is_some() && unwanted(schema));
            !left_out
        });
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = field_schema(schema, name) {
                self.path.push(Step::Field(name.clone()));
                self.value(value, schema);
                self.path.pop();
            }
        }
    }

    fn field_name(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Item(at) => format!("/{at}"),
            Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        });
        field(&steps.collect::<String>())
    }

    /// The value that a string stands for, where the schema does not accept the string itself.
    fn parse_string(&mut self, text: &str, schema: &'a Value) -> Option<Value> {
        if self.tries >= MAX_TRIES {
            return None;
        }
        let kinds = kinds(schema, self.root, 0)?;
        let wants = |kind: &str| kinds.contains(&kind);
        if wants("string") && takes_text(schema, text, self.root, 0) {
            return None;
        }
        self.tries += 1;
        let trimmed = text.trim();
        let parsed = json::parse(trimmed).ok();
        let fits = match &parsed {
            Some(Value::Number(number)) => wants("number") || (wants("integer") && is_integral(number)),
            Some(Value::Bool(_)) => wants("boolean"),
            Some(Value::Array(_)) => wants("array"),
            Some(Value::Object(_)) => wants("object"),
            Some(Value::Null | Value::String(_)) | None => false,
        };
        if fits {
            return parsed;
        }
        if wants("boolean") && trimmed.eq_ignore_ascii_case("true") {
            return Some(Value::Bool(true));
        }
        if wants("boolean") && trimmed.eq_ignore_ascii_case("false") {
            return Some(Value::Bool(false));
        }
        let items = item_schema(schema, 0).and_then(|items| self::kinds(items, self.root, 0));
        let of_strings = items.is_some_and(|kinds| kinds.contains(&"string"));
        // A text that starts with `[` is ambiguous: a name, or an array that was cut short.
        (wants("array") && of_strings && !trimmed.starts_with('[')).then(|| Value::Array(vec![text.into()]))
    }

    /// The one branch of `anyOf` or `oneOf` that the value matches by type, required fields and tags; `None` if there are
    /// several.
    fn branch(&self, value: &Value, schema: &'a Value) -> Option<&'a Value> {
        let branches =
            list(schema, "anyOf").chain(list(schema, "oneOf")).map(|branch| resolve(branch, self.root));
        let same_kind: Vec<&Value> = branches
            .filter(|branch| kinds(branch, self.root, 0).is_none_or(|kinds| has_kind(value, &kinds)))
            .collect();
        if let [only] = same_kind[..] {
            return Some(only);
        }
        let fields = value.as_object()?;
        let tagged = same_kind.into_iter().filter(|branch| {
            let known = branch.get("properties").and_then(Value::as_object);
            let tags =
                known.into_iter().flatten().filter_map(|(name, schema)| Some((name, schema.get("const")?)));
            let mut required = spec::strings(branch.get("required")).into_iter();
            required.all(|name| fields.contains_key(&name))
                && tags.into_iter().all(|(name, tag)| fields.get(name).is_none_or(|value| value == tag))
        });
        match tagged.collect::<Vec<_>>()[..] {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// Converts every float that stands for an integer. A schema with branches at every level leads to exponentially many
/// visits, so `left` limits them.
fn convert_floats(value: &mut Value, schema: &Value, root: &Value, depth: usize, left: &mut usize) {
    let Some(fewer) = left.checked_sub(1).filter(|_| depth < MAX_DEPTH) else { return };
    *left = fewer;
    let schema = resolve(schema, root);
    for part in ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| list(schema, key)) {
        convert_floats(value, part, root, depth + 1, left);
    }
    match value {
        Value::Number(number) if number.is_f64() && is_integral(number) => {
            let kinds = kinds(schema, root, 0);
            if let Some(float) = number.as_f64()
                && kinds.is_some_and(|kinds| kinds.contains(&"integer") && !kinds.contains(&"number"))
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                if let Some(schema) = item_schema(schema, at) {
                    convert_floats(item, schema, root, depth + 1, left);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = field_schema(schema, name) {
                    convert_floats(value, schema, root, depth + 1, left);
                }
            }
        }
        _ => {}
    }
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(fields) => fields.values().any(has_float),
        _ => false,
    }
}

/// Whether a number is a whole one that a float represents exactly.
fn is_integral(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|float| {
        !number.is_f64() || (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0)
    })
}

/// The JSON types that a schema accepts; `None` if it does not restrict them.
fn kinds<'a>(schema: &'a Value, root: &'a Value, depth: usize) -> Option<Vec<&'a str>> {
    let schema = resolve(schema, root);
    match schema.get("type") {
        Some(Value::String(kind)) => return Some(vec![kind]),
        Some(Value::Array(kinds)) => return Some(kinds.iter().filter_map(Value::as_str).collect()),
        _ => {}
    }
    let values = list(schema, "enum").chain(schema.get("const"));
    let mut kinds: Vec<&str> = values.map(kind).collect();
    if depth < MAX_DEPTH {
        for branch in list(schema, "anyOf").chain(list(schema, "oneOf")) {
            kinds.extend(self::kinds(branch, root, depth + 1)?);
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}

/// Whether a schema that accepts strings accepts this one: an enum accepts only its members.
fn takes_text(schema: &Value, text: &str, root: &Value, depth: usize) -> bool {
    let schema = resolve(schema, root);
    let words = || list(schema, "enum").chain(schema.get("const"));
    let mut branches = list(schema, "anyOf").chain(list(schema, "oneOf")).peekable();
    if words().next().is_some() {
        words().any(|word| word == text)
    } else if branches.peek().is_some() && depth < MAX_DEPTH {
        branches.any(|branch| takes_text(branch, text, root, depth + 1))
    } else {
        kinds(schema, root, depth).is_none_or(|kinds| kinds.contains(&"string"))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_integral(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_kind(value: &Value, kinds: &[&str]) -> bool {
    let kind = kind(value);
    kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"))
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn item_schema(schema: &Value, at: usize) -> Option<&Value> {
    schema.get("prefixItems").and_then(|items| items.get(at)).or_else(|| schema.get("items"))
}

fn field_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties").and_then(|all| all.get(name)).or_else(|| schema.get("additionalProperties"))
}

/// Follows references to other parts of the same document.
fn resolve<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_DEPTH {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}
