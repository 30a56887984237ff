//! Structured replies for people at a terminal: values by name, lists as tables. Programs get the JSON.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::style::{NAME, one_line, sanitize};
use crate::table::Rows;

/// How far values are indented below their name.
const INDENT: u16 = 2;

/// A value as text with colours, sanitized.
pub(crate) fn render(value: &Value) -> String {
    render_at(0, value)
}

/// A value that is indented by so many columns afterwards.
fn render_at(indent: u16, value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) => object(&mut text, indent, fields),
        Value::Array(list) => array(&mut text, indent, list),
        other => {
            let _ = writeln!(text, "{}", sanitize(&plain(other)));
        }
    }
    text
}

fn object(text: &mut String, indent: u16, fields: &Map<String, Value>) {
    let fields: Vec<(&String, &Value)> =
        fields.iter().filter(|(name, value)| says_something(name, value)).collect();
    // `{"ok": true, "value": …}` is an envelope.
    if let [(name, value @ (Value::Object(_) | Value::Array(_)))] = fields[..]
        && name == "value"
    {
        text.push_str(&render_at(indent, value));
        return;
    }
    for (name, value) in fields {
        let name = one_line(&name.replace('_', " "));
        let _ = match value {
            Value::Object(_) | Value::Array(_) => {
                write!(text, "{NAME}{name}{NAME:#}:\n{}", indented(&render_at(indent + INDENT, value)))
            }
            Value::String(long) if long.trim_end().contains('\n') => {
                write!(text, "{NAME}{name}{NAME:#}:\n{}", indented(&sanitize(long.trim_end())))
            }
            value => writeln!(text, "{NAME}{name}{NAME:#}: {}", sanitize(plain(value).trim_end())),
        };
    }
}

/// Whether a value is more than a part of the form of a reply, such as an error that is empty.
fn says_something(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("success" | "ok", Value::Bool(true)) | (_, Value::Null) => false,
        (_, Value::String(text)) => !text.is_empty(),
        (_, Value::Array(list)) => !list.is_empty(),
        (_, Value::Object(fields)) => !fields.is_empty(),
        _ => true,
    }
}

/// A table if the entries are objects, else a line each.
fn array(text: &mut String, indent: u16, list: &[Value]) {
    let mut columns: Vec<&str> = Vec::new();
    for entry in list {
        let Value::Object(fields) = entry else {
            list.iter().for_each(|entry| {
                let _ = writeln!(text, "{}", sanitize(&plain(entry)));
            });
            return;
        };
        let names =
            fields.iter().filter(|(name, value)| says_something(name, value)).map(|(name, _)| name.as_str());
        for name in names {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    let is_long = |entry: &Value| {
        let values = entry.as_object().into_iter().flat_map(Map::values);
        values.into_iter().any(|value| value.as_str().is_some_and(|text| text.trim_end().contains('\n')))
    };
    if list.iter().any(is_long) {
        // Text of several lines, such as a diff, has no place in a table.
        let entries = list.iter().map(|entry| render_at(indent, entry)).collect::<Vec<_>>();
        text.push_str(&entries.join("\n"));
        return;
    }
    let header: Vec<String> = columns.iter().map(|name| name.replace('_', " ")).collect();
    let mut rows = Rows::indented(indent, &header.iter().map(String::as_str).collect::<Vec<_>>());
    for entry in list {
        rows.add(columns.iter().map(|name| plain(entry.get(name).unwrap_or(&Value::Null))));
    }
    let _ = write!(text, "{rows}");
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "{:1$}{line}", "", usize::from(INDENT));
        out
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> String {
        anstream::adapter::strip_str(&render(&value)).to_string()
    }

    #[test]
    fn a_list_of_objects_is_a_table() {
        let entries =
            json!([{"name": "src", "type": "directory"}, {"name": "a.txt", "type": "file", "size": 3}]);
        let text = shown(json!({"ok": true, "value": {"path": ".", "entries": entries}}));
        assert_eq!(
            text,
            "path: .\nentries:\n  name   type       size\n  src    directory\n  a.txt  file       3\n"
        );
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let text = shown(json!({"success": true, "error": "", "files": [], "note": null, "total_count": 0}));
        assert_eq!(text, "total count: 0\n");
    }

    #[test]
    fn text_of_several_lines_is_indented_and_cannot_control_the_terminal() {
        let text = shown(json!({"content": "a\n\u{1b}[2Jb\n", "changes": [{"file": "a", "diff": "-x\n+y"}]}));
        assert_eq!(text, "content:\n  a\n  \\u{1b}[2Jb\nchanges:\n  file: a\n  diff:\n    -x\n    +y\n");
    }
}
