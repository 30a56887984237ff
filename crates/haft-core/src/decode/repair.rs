//! Repairs an input along its schema where only one meaning is possible: a number, a boolean or JSON inside of a string,
//! a value instead of an array of such values, a word in other letters, `null` or nothing for an optional field; a
//! number just beyond the limit of an optional field, and a timeout of zero. One pass over the input, however much is wrong with it. Does not
//! validate: the caller checks whether the result fits.

use serde_json::{Map, Value};

use super::{field, show_short};
use crate::{Category, Spec, json, spec};

/// The most repairs in one input; beyond them it is not a slip but another format.
const MAX_REPAIRS: usize = 64;
/// The most strings that are parsed in search of a repair.
const MAX_TRIES: usize = 1024;
/// The most values that are visited in search of floats that stand for integers.
const MAX_VISITS: usize = 4_000_000;
/// The deepest nesting of references; deeper ones are circular.
const MAX_DEPTH: usize = 128;

/// Repairs a value in place, and returns a note for each repair.
pub(super) fn repair(value: &mut Value, spec: &Spec) -> Vec<String> {
    let root = spec.full_input_schema();
    let clamp = Clamp {
        // What a foreign tool does with a number is not known.
        down: spec.category != Category::Mcp,
        // More than was asked for does no harm where nothing is changed.
        up: spec.category != Category::Mcp && spec.read_only,
    };
    let mut repair = Repair { root, clamp, path: Vec::new(), notes: Vec::new(), tries: 0, depth: 0 };
    repair.value(value, root);
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
    clamp: Clamp,
    path: Vec<Step>,
    notes: Vec<String>,
    tries: usize,
    depth: usize,
}

/// Whether numbers of optional fields are moved to the limit that they exceed.
#[derive(Clone, Copy)]
struct Clamp {
    down: bool,
    up: bool,
}

/// A step of a JSON pointer.
enum Step {
    Item(usize),
    Field(String),
}

impl<'a> Repair<'a> {
    fn value(&mut self, value: &mut Value, schema: &'a Value) {
        if value.is_null() || self.notes.len() >= MAX_REPAIRS || self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let schema = resolve(schema, self.root);
        if let Some(meant) = self.meant(value, schema) {
            let came = if value.is_string() && !meant.is_string() {
                "a string".to_owned()
            } else {
                show_short(value)
            };
            let (name, read) = (self.field_name(), show_short(&meant));
            self.notes.push(format!("`{name}` came as {came} and was read as {read}"));
            *value = meant;
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
            let is_left_out = |schema: &Value| match value {
                Value::Null => kinds(schema, root, 0).is_some_and(|kinds| !kinds.contains(&"null")),
                // The schema wants at least one character.
                Value::String(text) if text.is_empty() && limit(schema, root, "minLength") > Some(0.0) => {
                    true
                }
                Value::String(text) => {
                    is_nothing(text) && kinds(schema, root, 0).is_some_and(|kinds| !kinds.contains(&"string"))
                }
                _ => false,
            };
            let own = schema.get("properties").and_then(|all| all.get(name));
            required.contains(name) || !own.is_some_and(is_left_out)
        });
        self.without_zero_timeout(fields, schema, &required);
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = field_schema(schema, name) {
                self.path.push(Step::Field(name.clone()));
                self.value(value, schema);
                if !required.contains(name) {
                    self.clamp(value, schema);
                }
                self.path.pop();
            }
        }
    }

    /// Leaves a timeout out that is zero or less, where the schema wants more: it means that there is none, and never that
    /// the call ends at once.
    fn without_zero_timeout(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: &'a Value,
        required: &[String],
    ) {
        const NAME: &str = "timeout";
        let Some(own) = field_schema(schema, NAME).filter(|_| self.clamp.down) else { return };
        let least = limit(own, self.root, "minimum");
        let given = fields.get(NAME).and_then(|value| match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        });
        if least > Some(0.0)
            && given.is_some_and(|given| given <= 0.0)
            && !required.iter().any(|name| name == NAME)
        {
            fields.remove(NAME);
            self.path.push(Step::Field(NAME.to_owned()));
            let name = self.field_name();
            self.path.pop();
            self.notes.push(format!("`{name}` must be more than 0; the usual one was taken"));
        }
    }

    /// Moves a number to the limit that it exceeds.
    fn clamp(&mut self, value: &mut Value, schema: &'a Value) {
        let Some(number) = value.as_f64() else { return };
        let bound = |key| limit(schema, self.root, key);
        let (word, taken) = match (bound("minimum"), bound("maximum")) {
            (Some(least), _) if self.clamp.up && number < least => ("at least", least),
            (_, Some(most)) if self.clamp.down && number > most => ("at most", most),
            _ => return,
        };
        let taken = if taken.fract() == 0.0 { Value::from(taken as i64) } else { Value::from(taken) };
        let (name, came) = (self.field_name(), show_short(value));
        self.notes.push(format!("`{name}` must be {word} {taken}, which was taken instead of {came}"));
        *value = taken;
    }

    /// What a value stands for, where the schema does not accept the value itself.
    fn meant(&mut self, value: &Value, schema: &'a Value) -> Option<Value> {
        if let Value::String(text) = value {
            return self.parse_string(text, schema);
        }
        let kinds = kinds(schema, self.root, 0)?;
        if has_kind(value, &kinds) {
            return None;
        }
        let wants = |kind: &str| kinds.contains(&kind);
        let takes = |text: &str| wants("string") && takes_text(schema, text, self.root, 0);
        match value {
            Value::Number(number) if wants("boolean") => match number.as_i64() {
                Some(0) => return Some(Value::Bool(false)),
                Some(1) => return Some(Value::Bool(true)),
                _ => {}
            },
            // A float has lost how it was written: `3.10` is 3.1.
            Value::Number(number) if number.is_f64() => {}
            Value::Number(_) | Value::Bool(_) if takes(&value.to_string()) => {
                return Some(Value::String(value.to_string()));
            }
            Value::Array(items) if wants("string") => return self.joined(items, schema),
            _ => {}
        }
        // The only item may itself be repaired next.
        let is_whole = value.is_i64() || value.is_u64();
        let as_text = is_whole && self.fits_items(&Value::String(String::new()), schema);
        let is_item = as_text || self.fits_items(value, schema);
        (wants("array") && is_item).then(|| Value::Array(vec![value.clone()]))
    }

    /// The string that an array of strings stands for: its only item, or a list with commas where the example is one.
    fn joined(&self, items: &[Value], schema: &Value) -> Option<Value> {
        let texts: Vec<&str> = items.iter().map(Value::as_str).collect::<Option<_>>()?;
        let is_list = list(schema, "examples").filter_map(Value::as_str).any(|example| example.contains(','));
        match texts[..] {
            [only] if takes_text(schema, only, self.root, 0) => Some(only.into()),
            [_, _, ..] if is_list => Some(texts.join(",").into()),
            _ => None,
        }
    }

    /// Whether a value has the type of an array's items.
    fn fits_items(&self, value: &Value, schema: &Value) -> bool {
        let arrays = std::iter::once(schema).chain(list(schema, "anyOf")).chain(list(schema, "oneOf"));
        let mut items = arrays.filter_map(|schema| item_schema(resolve(schema, self.root), 0));
        items.any(|items| kinds(items, self.root, 0).is_some_and(|kinds| has_kind(value, &kinds)))
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
        if let Some(word) = nearest_word(schema, trimmed, self.root) {
            return Some(word.into());
        }
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
        if wants("boolean")
            && let Some(meant) = boolean(trimmed)
        {
            return Some(Value::Bool(meant));
        }
        if let Some(parsed) = parsed.filter(|parsed| wants("array") && self.fits_items(parsed, schema)) {
            return Some(Value::Array(vec![parsed]));
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

/// The boolean that a word stands for.
fn boolean(word: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    match (is(&["true", "yes", "on", "1"]), is(&["false", "no", "off", "0"])) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Whether a text in place of another type stands for no value.
fn is_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || ["null", "none", "undefined"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The one word of an enum that differs from a text only in case, `-`, `_` and spaces.
fn nearest_word<'a>(schema: &'a Value, text: &str, root: &'a Value) -> Option<&'a str> {
    let mut words = Vec::new();
    collect_words(schema, root, 0, &mut words);
    let fold = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
    };
    let wanted = fold(text);
    let mut near = words.into_iter().filter(|word| fold(word) == wanted);
    near.next().filter(|_| near.next().is_none())
}

/// The words that a schema accepts, of all its branches.
fn collect_words<'a>(schema: &'a Value, root: &'a Value, depth: usize, words: &mut Vec<&'a str>) {
    let schema = resolve(schema, root);
    words.extend(list(schema, "enum").chain(schema.get("const")).filter_map(Value::as_str));
    // Words lie no deeper than in the branches of an optional field.
    if depth < 3 {
        for branch in list(schema, "anyOf").chain(list(schema, "oneOf")) {
            collect_words(branch, root, depth + 1, words);
        }
    }
}

/// A limit that a schema sets, or the only branch of it that is not `null`.
fn limit(schema: &Value, root: &Value, key: &str) -> Option<f64> {
    let schema = resolve(schema, root);
    let branches = || list(schema, "anyOf").map(|branch| resolve(branch, root));
    let own = schema.get(key).or_else(|| branches().find_map(|branch| branch.get(key)));
    own.and_then(Value::as_f64)
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
