//! Limits and sanitizing for what a server sends. Its texts go to a model and to terminals, so invisible and control
//! characters are removed; its schemas are compiled and traversed, so their size, depth and references are bounded.

use std::collections::HashMap;

use haft_core::is_invisible;
use serde_json::{Map, Value, json};

/// The most tools of one server.
pub(super) const MAX_TOOLS: usize = 500;
/// The most pages of one list.
pub(super) const MAX_PAGES: usize = 100;
/// The longest description of a tool, in characters.
pub(super) const MAX_DESCRIPTION: usize = 8_000;
/// The longest name, title or other single-line text, in characters.
pub(super) const MAX_WORD: usize = 200;
/// The longest message in characters, such as one of a log.
pub(super) const MAX_MESSAGE: usize = 4_000;
/// The largest schema, as bytes of JSON.
const MAX_SCHEMA: usize = 128 * 1024;
/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 40;
/// The most references that validating one value may follow, counting repeats. Two branches at each of 28 levels would be
/// 2^28.
const MAX_FOLLOWED: u64 = 10_000;
/// The longest chain of references.
const MAX_CHAIN: usize = 200;

/// A text without control and invisible characters, cut to `max` characters.
pub(super) fn text(text: &str, max: usize) -> String {
    let is_visible = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c));
    let mut out: String = text.chars().filter(is_visible).take(max + 1).collect();
    if out.chars().count() > max {
        let keep = max.saturating_sub(1);
        let end = out.char_indices().nth(keep).map_or(out.len(), |(at, _)| at);
        out.truncate(end);
        out.push('…');
    }
    out
}

/// A sanitized single-line text of at most [`MAX_WORD`] characters.
pub(super) fn word(word: &str) -> String {
    text(word, MAX_WORD).replace(['\n', '\t'], " ")
}

/// Checks and sanitizes the schema of an input. The error says why it is refused.
pub(super) fn schema(schema: &Map<String, Value>) -> Result<Value, String> {
    let mut value = Value::Object(schema.clone());
    let depth = depth(&value);
    if depth > MAX_DEPTH {
        return Err(format!("its schema is nested {depth} levels deep, and at most {MAX_DEPTH} are taken"));
    }
    let bytes = value.to_string().len();
    if bytes > MAX_SCHEMA {
        return Err(format!("its schema has {bytes} bytes, and at most {MAX_SCHEMA} are taken"));
    }
    if let Some(reference) = foreign_reference(&value) {
        return Err(format!("its schema refers to `{}`, which is not in it", word(reference)));
    }
    if is_circular(&value) {
        return Err("its schema refers to itself without an end".to_owned());
    }
    let mut references = Vec::new();
    collect_references(&value, &mut references);
    let mut known = HashMap::new();
    if references.iter().any(|reference| followed(reference, &value, 0, &mut known) > MAX_FOLLOWED) {
        return Err("its schema refers to more alternatives than can be tried".to_owned());
    }
    if let Some(hidden) = hidden(&value) {
        return Err(format!("a word of its schema has characters that cannot be seen: `{}`", word(hidden)));
    }
    sanitize(&mut value);
    haft_core::check_schema(&value).map_err(|why| format!("its schema is none: {}", word(&why)))?;
    let root = value.as_object_mut().ok_or("its schema is no object")?;
    match root.get("type") {
        None => {
            root.insert("type".to_owned(), json!("object"));
        }
        Some(kind) if kind == "object" => {}
        Some(other) => {
            return Err(format!(
                "its schema is not one of an object: its type is {}",
                word(&other.to_string())
            ));
        }
    }
    root.entry("properties").or_insert_with(|| json!({}));
    Ok(value)
}

/// Checks and sanitizes an output schema. Opens it to additional properties, because haft adds notes about what it cut.
pub(super) fn output_schema(output: &Map<String, Value>) -> Result<Value, String> {
    let mut value = schema(output)?;
    if let Some(root) = value.as_object_mut() {
        for key in ["additionalProperties", "unevaluatedProperties"] {
            if root.get(key) == Some(&Value::Bool(false)) {
                root.remove(key);
            }
        }
    }
    Ok(value)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The first reference to outside of the schema.
fn foreign_reference(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(foreign_reference),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match (key.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) if !to.starts_with('#') => {
                Some(to.as_str())
            }
            (_, value) => foreign_reference(value),
        }),
        _ => None,
    }
}

/// Whether a reference leads to itself through references and alternatives alone, without descending into the value:
/// validating against such a schema would never end.
fn is_circular(root: &Value) -> bool {
    let mut references = Vec::new();
    collect_references(root, &mut references);
    references.iter().any(|start| {
        let mut stack = vec![*start];
        let mut seen = Vec::new();
        while let Some(reference) = stack.pop() {
            let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
                continue;
            };
            for next in immediate(target) {
                if next == *start {
                    return true;
                }
                if !seen.contains(&next) {
                    seen.push(next);
                    stack.push(next);
                }
            }
        }
        false
    })
}

/// How many references validating one value against a reference's target follows. Memoized in `known`. Call only after
/// [`is_circular`] has ruled out cycles.
fn followed<'v>(reference: &'v str, root: &'v Value, chain: usize, known: &mut HashMap<&'v str, u64>) -> u64 {
    if let Some(known) = known.get(reference) {
        return *known;
    }
    if chain > MAX_CHAIN {
        return u64::MAX;
    }
    let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
    let next = target.map(immediate).unwrap_or_default();
    let count =
        next.iter().fold(1_u64, |count, next| count.saturating_add(followed(next, root, chain + 1, known)));
    known.insert(reference, count);
    count
}

fn collect_references<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref")
                && !into.contains(&to.as_str())
            {
                into.push(to);
            }
            fields.values().for_each(|field| collect_references(field, into));
        }
        _ => {}
    }
}

/// The references that apply to the same value as this schema, rather than to a part of it.
fn immediate(schema: &Value) -> Vec<&str> {
    let Value::Object(fields) = schema else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("$ref", Value::String(to)) => found.push(to.as_str()),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                found.extend(branches.iter().flat_map(immediate));
            }
            ("not" | "if" | "then" | "else", branch) => found.extend(immediate(branch)),
            ("dependentSchemas", Value::Object(branches)) => {
                found.extend(branches.values().flat_map(immediate))
            }
            _ => {}
        }
    }
    found
}

/// The first name or value of a schema with invisible characters. Removing them would change its meaning, so the schema is
/// refused.
fn hidden(value: &Value) -> Option<&str> {
    let is_hidden =
        |text: &str| text.chars().any(|c| !matches!(c, '\n' | '\t') && (c.is_control() || is_invisible(c)));
    match value {
        Value::String(text) => is_hidden(text).then_some(text),
        Value::Array(items) => items.iter().find_map(hidden),
        Value::Object(fields) => fields.iter().find_map(|(key, field)| match field {
            _ if is_hidden(key) => Some(key.as_str()),
            Value::String(_) if PROSE.contains(&key.as_str()) => None,
            field => hidden(field),
        }),
        _ => None,
    }
}

/// Keywords whose value is prose for people.
const PROSE: [&str; 3] = ["description", "title", "$comment"];

/// Sanitizes the prose of a schema.
fn sanitize(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sanitize),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match field {
                    Value::String(prose) if PROSE.contains(&key.as_str()) => {
                        *prose = text(prose, MAX_DESCRIPTION);
                    }
                    other => sanitize(other),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(value: Value) -> Result<Value, String> {
        schema(value.as_object().unwrap())
    }

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(text("a\u{1b}[2Jb\u{202e}c\u{e0041}\n\td", 100), "a[2Jbc\n\td");
        assert_eq!(text("ééééé", 3), "éé…");
        assert_eq!(word("a\nb"), "a b");
    }

    #[test]
    fn a_schema_must_be_an_object() {
        assert_eq!(checked(json!({})).unwrap(), json!({"type": "object", "properties": {}}));
        assert!(checked(json!({"type": "array"})).unwrap_err().contains("not one of an object"));
    }

    #[test]
    fn large_deep_and_foreign_schemas_are_refused() {
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"properties": {"a": deep}});
        }
        assert!(checked(deep).unwrap_err().contains("deep"));
        assert!(checked(json!({"description": "x".repeat(200_000)})).unwrap_err().contains("bytes"));
        let foreign = json!({"properties": {"a": {"$ref": "https://a.example/schema"}}});
        assert!(checked(foreign).unwrap_err().contains("https://a.example/schema"));
    }

    #[test]
    fn recursion_must_descend_into_the_value() {
        let tree = json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        });
        assert!(checked(tree).is_ok());
        assert!(checked(json!({"$ref": "#"})).is_err());
        let circle = json!({
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
        });
        assert!(checked(circle).unwrap_err().contains("without an end"));
    }

    #[test]
    fn branching_is_bounded() {
        let branching = |levels: usize| {
            let mut defs = Map::new();
            for level in 0..levels {
                let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
                defs.insert(format!("a{level}"), json!({"anyOf": [next, next]}));
            }
            defs.insert(format!("a{levels}"), json!({"type": "number"}));
            checked(json!({"properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": defs}))
        };
        assert!(branching(8).is_ok());
        assert!(branching(28).unwrap_err().contains("more alternatives"));
        assert!(branching(2_000).is_err());
    }

    #[test]
    fn hidden_characters_and_invalid_schemas_are_refused() {
        for hidden in ["\u{202e}", "\u{e0041}", "\u{1b}[2J"] {
            for schema in [
                json!({"properties": {hidden: {}}}),
                json!({"properties": {"a": {"enum": [hidden]}}}),
                json!({"properties": {"a": {"default": hidden}}}),
            ] {
                assert!(checked(schema).unwrap_err().contains("cannot be seen"));
            }
        }
        for schema in [
            json!({"properties": {"a": {"type": "zork"}}}),
            json!({"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}}),
        ] {
            assert!(checked(schema).unwrap_err().contains("its schema is none"));
        }
    }
}
