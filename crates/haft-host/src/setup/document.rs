//! One small change of a configuration file's text, whatever its form. Each change is checked: the new text must mean what
//! the old one meant with that change, or the file is not touched.

use serde_json::{Map, Value};

use super::{json, toml, yaml};

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON, with comments and trailing commas allowed.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// A change of a document. A path is the keys from the top level.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Adds a key, which must be missing, to a table, which must exist.
    Insert { table: Vec<String>, key: String, value: Value },
    /// Replaces the value of a key.
    Replace { path: Vec<String>, value: Value },
    /// Adds a text to a list, at its end.
    Push { path: Vec<String>, text: String },
    /// Removes a key.
    Remove { path: Vec<String> },
    /// Removes a text from a list.
    Take { path: Vec<String>, text: String },
}

/// Why a document cannot be read or changed.
pub(super) type Problem = String;

impl Form {
    /// The meaning of a text. A text without content is an empty table.
    pub(super) fn parse(self, text: &str) -> Result<Value, Problem> {
        let value = match self {
            Form::Json => json::parse(without_mark(text).1),
            Form::Toml => toml::parse(without_mark(text).1),
            Form::Yaml => yaml::parse(without_mark(text).1),
        }?;
        match value {
            Value::Null => Ok(Value::Object(Map::new())),
            Value::Object(_) => Ok(value),
            _ => Err("its top level is not a table of keys and values".to_owned()),
        }
    }

    /// The text with one change.
    pub(super) fn apply(self, text: &str, step: &Step) -> Result<String, Problem> {
        let mut expected = self.parse(text)?;
        step.change(&mut expected)?;
        let (mark, body) = without_mark(text);
        let body = match self {
            Form::Json => json::apply(body, step),
            Form::Toml => toml::apply(body, step),
            Form::Yaml => yaml::apply(body, step),
        }?;
        let after = format!("{mark}{body}");
        if self.parse(&after).as_ref() == Ok(&expected) {
            Ok(after)
        } else {
            Err("it is laid out in a way that cannot be edited safely".to_owned())
        }
    }
}

/// The byte order mark at the start of a text, and the rest.
fn without_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

/// The value at a path.
pub(super) fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

impl Step {
    /// Applies the change to the parsed value, to compare with what the text became.
    fn change(&self, document: &mut Value) -> Result<(), Problem> {
        match self {
            Step::Insert { table, key, value } => {
                table_at(document, table)?.insert(key.clone(), value.clone());
            }
            Step::Replace { path, value } => {
                let (key, table) = path.split_last().ok_or("a path is empty")?;
                table_at(document, table)?.insert(key.clone(), value.clone());
            }
            Step::Remove { path } => {
                let (key, table) = path.split_last().ok_or("a path is empty")?;
                table_at(document, table)?.shift_remove(key);
            }
            Step::Push { path, text } => list_at(document, path)?.push(Value::String(text.clone())),
            Step::Take { path, text } => {
                let list = list_at(document, path)?;
                if let Some(found) = list.iter().position(|item| item.as_str() == Some(text)) {
                    list.remove(found);
                }
            }
        }
        Ok(())
    }
}

fn value_at<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, key| value.get_mut(key))
}

fn table_at<'a>(document: &'a mut Value, path: &[String]) -> Result<&'a mut Map<String, Value>, Problem> {
    value_at(document, path).and_then(Value::as_object_mut).ok_or_else(|| not_a("table", path))
}

fn list_at<'a>(document: &'a mut Value, path: &[String]) -> Result<&'a mut Vec<Value>, Problem> {
    value_at(document, path).and_then(Value::as_array_mut).ok_or_else(|| not_a("list", path))
}

/// The problem of a value that has another type than it must have.
pub(super) fn not_a(what: &str, path: &[String]) -> Problem {
    format!("`{}` is not a {what}", path.join("."))
}
