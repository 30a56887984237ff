//! What setup wants to be in a document, and the steps that lead there. Knows nothing of clients and of text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ENTRY;
use super::document::{Problem, Step, at, not_a};

/// Something that must be in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Edit {
    /// A value at a path. If both the wanted and the present value are tables, other keys of the present one stay.
    Set { path: Vec<String>, value: Value },
    /// A text in the list at a path.
    Item { path: Vec<String>, text: String },
    /// A table at a path where a text is shorthand for a table with that text under a key. Where there is nothing, or a
    /// table already, nothing has to be done.
    Widen { path: Vec<String>, key: String },
}

/// An edit that was made, with what is needed to take it back when the file has changed since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) edit: Edit,
    /// The value that was there before.
    pub(super) replaced: Option<Value>,
    /// The outermost table or list that had to be made for it: how many keys of the path lead there.
    pub(super) made_from: Option<usize>,
}

impl Edit {
    pub(super) fn set(path: &[&str], value: Value) -> Self {
        Edit::Set { path: owned(path), value }
    }

    pub(super) fn item(path: &[&str], text: &str) -> Self {
        Edit::Item { path: owned(path), text: text.to_owned() }
    }

    pub(super) fn widen(path: &[&str], key: &str) -> Self {
        Edit::Widen { path: owned(path), key: key.to_owned() }
    }

    /// Whether it brings a value into the document, and not only another form of one.
    pub(super) fn is_about_value(&self) -> bool {
        !matches!(self, Edit::Widen { .. })
    }

    pub(super) fn path(&self) -> &[String] {
        match self {
            Edit::Set { path, .. } | Edit::Item { path, .. } | Edit::Widen { path, .. } => path,
        }
    }

    /// Whether both are about the same key, or the same text of the same list.
    pub(super) fn is_same_place(&self, other: &Edit) -> bool {
        match (self, other) {
            (Edit::Set { path: one, .. }, Edit::Set { path: other, .. }) => one == other,
            _ => self == other,
        }
    }

    /// Whether it is about haft by its own name, and so nobody else's.
    pub(super) fn names_haft(&self) -> bool {
        match self {
            Edit::Set { path, .. } => path.iter().any(|key| key.contains(ENTRY)),
            Edit::Item { text, .. } => text.contains(ENTRY),
            Edit::Widen { .. } => false,
        }
    }

    /// Whether the document has it already.
    pub(super) fn is_in(&self, document: &Value) -> bool {
        match self {
            Edit::Set { path, value } => at(document, path).is_some_and(|found| includes(found, value)),
            Edit::Item { path, text } => has_item(document, path, text),
            Edit::Widen { path, .. } => !at(document, path).is_some_and(Value::is_string),
        }
    }

    /// The steps that bring it into a document; none if it is there.
    pub(super) fn steps(&self, document: &Value) -> Result<Vec<Step>, Problem> {
        if self.is_in(document) {
            return Ok(Vec::new());
        }
        match self {
            Edit::Set { path, value } => set_steps(document, path, value),
            Edit::Item { path, text } => match at(document, path) {
                Some(Value::Array(_)) => Ok(vec![Step::Push { path: path.clone(), text: text.clone() }]),
                Some(_) => Err(not_a("list", path)),
                None => set_steps(document, path, &Value::Array(vec![Value::String(text.clone())])),
            },
            Edit::Widen { path, key } => {
                let text = at(document, path).cloned().unwrap_or_default();
                let value = Value::Object(Map::from_iter([(key.clone(), text)]));
                Ok(vec![Step::Replace { path: path.clone(), value }])
            }
        }
    }

    /// What taking it back needs to know, if it is made in this document.
    pub(super) fn made_in(&self, document: &Value) -> Made {
        let path = self.path();
        let replaced = match self {
            Edit::Set { path, .. } | Edit::Widen { path, .. } => at(document, path).cloned(),
            Edit::Item { .. } => None,
        };
        // A list is made with the item; a value is not a container of anything else.
        let containers = if matches!(self, Edit::Item { .. }) { path.len() } else { path.len() - 1 };
        let made_from = (1..=containers).find(|depth| at(document, &path[..*depth]).is_none());
        Made { edit: self.clone(), replaced, made_from }
    }
}

impl Made {
    /// The steps that take it back from a document; none if it is not there as it was made. The entry named haft is removed
    /// whatever it has become.
    pub(super) fn removal(&self, document: &Value) -> Vec<Step> {
        let path = self.edit.path();
        let is_entry =
            matches!(&self.edit, Edit::Set { path, .. } if path.last().is_some_and(|key| key == ENTRY));
        let first = match &self.edit {
            Edit::Set { path, .. } if is_entry => {
                at(document, path).map(|_| Step::Remove { path: path.clone() })
            }
            Edit::Set { path, value } if at(document, path) == Some(value) => Some(match &self.replaced {
                Some(old) => Step::Replace { path: path.clone(), value: old.clone() },
                None => Step::Remove { path: path.clone() },
            }),
            Edit::Item { path, text } if has_item(document, path, text) => {
                Some(Step::Take { path: path.clone(), text: text.clone() })
            }
            // The shorthand comes back, unless others put more into the table.
            Edit::Widen { path, key } => self.replaced.as_ref().and_then(|old| {
                let found =
                    at(document, path).filter(|table| size(table) == 1 && table.get(key) == Some(old));
                found.map(|_| Step::Replace { path: path.clone(), value: old.clone() })
            }),
            _ => None,
        };
        let Some(first) = first else { return Vec::new() };
        let Some(made_from) = self.made_from else { return vec![first] };
        // What was made for it goes with it, as far as nothing else is in there.
        let innermost = if matches!(self.edit, Edit::Item { .. }) { path.len() } else { path.len() - 1 };
        let outermost = (made_from..=innermost)
            .rev()
            .take_while(|depth| at(document, &path[..*depth]).is_some_and(|found| size(found) == 1))
            .last();
        vec![match outermost {
            Some(depth) => Step::Remove { path: path[..depth].to_vec() },
            None => first,
        }]
    }
}

fn size(value: &Value) -> usize {
    value.as_object().map(Map::len).or(value.as_array().map(Vec::len)).unwrap_or_default()
}

fn has_item(document: &Value, path: &[String], text: &str) -> bool {
    let list = at(document, path).and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(text)))
}

/// Whether a value is, or as a table includes, another.
fn includes(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| includes(found, wanted)))
        }
        _ => found == wanted,
    }
}

fn set_steps(document: &Value, path: &[String], value: &Value) -> Result<Vec<Step>, Problem> {
    match (at(document, path), value) {
        (Some(Value::Object(_)), Value::Object(wanted)) => {
            let mut steps = Vec::new();
            for (key, value) in wanted {
                let below = [path, std::slice::from_ref(key)].concat();
                if !at(document, &below).is_some_and(|found| includes(found, value)) {
                    steps.extend(set_steps(document, &below, value)?);
                }
            }
            Ok(steps)
        }
        (Some(_), _) => Ok(vec![Step::Replace { path: path.to_vec(), value: value.clone() }]),
        (None, _) => {
            let exists = (0..path.len()).rev().find(|depth| at(document, &path[..*depth]).is_some());
            let depth = exists.unwrap_or_default();
            let table = &path[..depth];
            if !at(document, table).is_some_and(Value::is_object) {
                return Err(not_a("table", table));
            }
            let nested = path[depth + 1..]
                .iter()
                .rev()
                .fold(value.clone(), |value, key| Value::Object(Map::from_iter([(key.clone(), value)])));
            Ok(vec![Step::Insert { table: table.to_vec(), key: path[depth].clone(), value: nested }])
        }
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}
