//! Edits of TOML with a parser that keeps comments, order and layout. A text that it would not reproduce as it is is refused.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::document::{Problem, Step, not_a};

/// The meaning of a text.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| error.to_string().trim().to_owned())
}

/// A text with one change.
pub(super) fn apply(text: &str, step: &Step) -> Result<String, Problem> {
    let document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.to_string().trim().to_owned())?;
    let lines = LineBreaks::of(text);
    if lines.restore(document.to_string()) != text {
        return Err("its line breaks are not all of one kind".to_owned());
    }
    let mut document = document;
    match step {
        Step::Insert { table, key, value } => {
            let found = table_at(document.as_table_mut(), table)?;
            found.insert(key, item(value, table.len()));
        }
        Step::Replace { path, value } => {
            let (key, table) = path.split_last().ok_or("a path is empty")?;
            let found = table_at(document.as_table_mut(), table)?;
            let present = found.get_mut(key).ok_or_else(|| not_a("key of this file", path))?;
            let mut new = item(value, table.len());
            if let (Some(old), Some(new)) = (present.as_value(), new.as_value_mut()) {
                *new.decor_mut() = old.decor().clone();
            }
            *present = new;
        }
        Step::Remove { path } => {
            let (key, table) = path.split_last().ok_or("a path is empty")?;
            let found = table_at(document.as_table_mut(), table)?;
            found.remove(key).ok_or_else(|| not_a("key of this file", path))?;
        }
        Step::Push { path, text } => list_at(document.as_table_mut(), path)?.push(text.as_str()),
        Step::Take { path, text } => {
            list_at(document.as_table_mut(), path)?.retain(|item| item.as_str() != Some(text));
        }
    }
    Ok(lines.restore(document.to_string()))
}

/// The line breaks of a text; the parser knows one kind only.
enum LineBreaks {
    Unix,
    Dos,
}

impl LineBreaks {
    fn of(text: &str) -> Self {
        if text.contains("\r\n") { Self::Dos } else { Self::Unix }
    }

    fn restore(&self, text: String) -> String {
        match self {
            Self::Unix => text,
            Self::Dos => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        }
    }
}

fn table_at<'a>(root: &'a mut Table, path: &[String]) -> Result<&'a mut dyn TableLike, Problem> {
    let mut table: &mut dyn TableLike = root;
    for key in path {
        table = table.get_mut(key).and_then(Item::as_table_like_mut).ok_or_else(|| not_a("table", path))?;
    }
    Ok(table)
}

fn list_at<'a>(root: &'a mut Table, path: &[String]) -> Result<&'a mut Array, Problem> {
    let (key, table) = path.split_last().ok_or("a path is empty")?;
    let found = table_at(root, table)?.get_mut(key).and_then(Item::as_array_mut);
    found.ok_or_else(|| not_a("list", path))
}

/// A value as it is written: tables of the first two levels with headers of their own, others inline.
fn item(value: &Value, depth: usize) -> Item {
    match value {
        Value::Object(entries) if depth < 2 => {
            let mut table = Table::new();
            // A table of tables alone needs no header.
            table.set_implicit(entries.values().all(Value::is_object));
            for (key, value) in entries {
                table.insert(key, item(value, depth + 1));
            }
            Item::Table(table)
        }
        value => Item::Value(plain(value)),
    }
}

fn plain(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::Array(list) => toml_edit::Value::Array(list.iter().map(plain).collect()),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.as_str(), plain(value)));
            toml_edit::Value::InlineTable(InlineTable::from_iter(entries))
        }
        Value::String(text) => text.as_str().into(),
        Value::Null => "".into(),
    }
}
