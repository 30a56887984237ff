//! Mends an input along its schema where it can only have been meant one way: a number, a boolean or JSON
//! that came as a string, a bare string where an array of strings is wanted, `null` for what may be left
//! out. Goes through the input once, however much is wrong with it. Whether the result fits is for the
//! caller to see.

use serde_json::{Map, Value};

use super::{brief, field};
use crate::{json, spec};

/// More repairs than this in one input are no slip any more.
const MAX_REPAIRS: usize = 64;
/// Strings that are no slip: after this many, no further one is looked into.
const MAX_TRIES: usize = 1024;
/// References that lead deeper than this lead in a circle.
/// How many places of an input are looked at for floats that stand for integers.
const MAX_PLACES: usize = 4_000_000;
const MAX_DEPTH: usize = 128;

/// Mends what can be mended and says what was.
pub(super) fn repair(value: &mut Value, schema: &Value) -> Vec<String> {
    let mut repair = Repair { root: schema, path: Vec::new(), notes: Vec::new(), tries: 0, depth: 0 };
    repair.mend(value, schema);
    repair.notes
}

/// Writes `5.0` as `5` where an integer is wanted: to JSON they are the same, to serde they are not.
pub(super) fn integral(value: &mut Value, schema: &Value) {
    if has_float(value) {
        each_float(value, schema, schema, 0, &mut { MAX_PLACES });
    }
}

struct Repair<'a> {
    root: &'a Value,
    path: Vec<Step>,
    notes: Vec<String>,
    tries: usize,
    depth: usize,
}

/// A step on the way to a value.
enum Step {
    Item(usize),
    Field(String),
}

impl<'a> Repair<'a> {
    fn mend(&mut self, value: &mut Value, schema: &'a Value) {
        let is_mendable = matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_));
        if !is_mendable || self.notes.len() >= MAX_REPAIRS || self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let schema = resolve(schema, self.root);
        if let Value::String(text) = value
            && let Some(meant) = self.meant(text, schema)
        {
            self.notes.push(format!("`{}` came as a string and was read as {}", self.place(), brief(&meant)));
            *value = meant;
        }
        for part in list(schema, "allOf") {
            self.mend(value, part);
        }
        if let Some(branch) = self.branch(value, schema) {
            self.mend(value, branch);
        }
        match value {
            Value::Object(fields) => self.mend_fields(fields, schema),
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = item_schema(schema, at) {
                        self.path.push(Step::Item(at));
                        self.mend(item, schema);
                        self.path.pop();
                    }
                }
            }
            _ => {}
        }
        self.depth -= 1;
    }

    fn mend_fields(&mut self, fields: &mut Map<String, Value>, schema: &'a Value) {
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
                self.mend(value, schema);
                self.path.pop();
            }
        }
    }

    fn place(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Item(at) => format!("/{at}"),
            Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        });
        field(&steps.collect::<String>())
    }

    /// What a string was meant to be where no string is wanted.
    fn meant(&mut self, text: &str, schema: &'a Value) -> Option<Value> {
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
        // What begins like an array may be a name, or an array that was cut short.
        (wants("array") && of_strings && !trimmed.starts_with('[')).then(|| Value::Array(vec![text.into()]))
    }

    /// The one form, of those that the schema offers, that the value has or almost has.
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

/// Looks at every place where a float may stand for an integer. A schema that offers several forms at every
/// level has exponentially many such places, so only so many are looked at.
fn each_float(value: &mut Value, schema: &Value, root: &Value, depth: usize, left: &mut usize) {
    let Some(fewer) = left.checked_sub(1).filter(|_| depth < MAX_DEPTH) else { return };
    *left = fewer;
    let schema = resolve(schema, root);
    for part in ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| list(schema, key)) {
        each_float(value, part, root, depth + 1, left);
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
                    each_float(item, schema, root, depth + 1, left);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = field_schema(schema, name) {
                    each_float(value, schema, root, depth + 1, left);
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

/// Whether a number is a whole one that every reader reads alike.
fn is_integral(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|float| {
        !number.is_f64() || (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0)
    })
}

/// The kinds of value that a schema takes; `None` where it does not say.
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

/// Whether a schema that takes strings takes this one: a list of words takes only its words.
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

/// What a schema refers to, if it refers to another part of the same document.
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
