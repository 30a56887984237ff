//! Which arguments of a foreign tool are paths, by their names and what is said of them. Rules about files then hold for
//! the tool as they hold for every other. What is no path of this machine touches nothing here.

use haft::{AbsPath, Claims, Context, Fault, FaultKind, Resource};
use serde_json::Value;

/// No more arguments are looked at.
const MAX_PATHS: usize = 200;

/// Names whose last word says that a path is meant.
const WORDS: [&str; 12] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filepath",
    "directory",
    "directories",
    "dir",
    "folder",
    "folders",
    "filenames",
];
/// Names that mean a path only as a whole.
const NAMES: [&str; 5] = ["source", "destination", "src", "dest", "cwd"];

/// How a tool may touch what it is given.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Touch {
    Reads,
    Changes,
}

/// Adds the places that an input names to the claims of a call.
pub(super) fn claim(mut claims: Claims, input: &Value, touch: Touch, cx: &Context) -> Result<Claims, Fault> {
    let mut named = Vec::new();
    find(input, None, &mut named);
    for text in named {
        let Some(path) = place(text, cx) else { continue };
        if touch == Touch::Changes && cx.workspace().is_guarded(&path) {
            let told =
                format!("`{}` is haft's own, and no tool may change it", cx.workspace().display(&path));
            return Err(Fault::new(FaultKind::AccessDenied, told).hint("ask the user to change it"));
        }
        claims = match touch {
            Touch::Reads => claims.read(Resource::Path(path)),
            Touch::Changes => claims.write(Resource::Path(path)),
        };
    }
    Ok(claims)
}

/// The texts of an input that stand where a path is meant.
fn find<'v>(value: &'v Value, name: Option<&str>, into: &mut Vec<&'v str>) {
    if into.len() >= MAX_PATHS {
        return;
    }
    match value {
        Value::String(text) => {
            let is_address = text.starts_with("file:");
            if (is_address || name.is_some_and(is_path)) && !text.is_empty() && !text.contains(['\n', '\0']) {
                into.push(text);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find(item, name, into)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| find(field, Some(name), into)),
        _ => {}
    }
}

/// Whether a name says that a path is meant: `path`, `file_path`, `targetFile`, `allowed-dir`.
fn is_path(name: &str) -> bool {
    let mut last = String::new();
    for c in name.chars() {
        if matches!(c, '_' | '-' | '.' | ' ') {
            last.clear();
        } else {
            if c.is_uppercase() && !last.chars().all(char::is_uppercase) {
                last.clear();
            }
            last.push(c);
        }
    }
    let (last, whole) = (last.to_lowercase(), name.to_lowercase());
    WORDS.contains(&last.as_str()) || NAMES.contains(&whole.as_str())
}

/// The place that a text names, if it can be one of this machine.
fn place(text: &str, cx: &Context) -> Option<AbsPath> {
    let address = url::Url::parse(text).ok().filter(|address| address.scheme().len() > 1);
    let file = match address {
        Some(address) if address.scheme() == "file" => Some(address.to_file_path().ok()?),
        Some(_) => return None,
        None => None,
    };
    let text = match &file {
        Some(file) => file.to_str()?,
        None => text,
    };
    let (workspace, base) = (cx.workspace(), cx.cwd());
    match workspace.reaching(&base, text, haft_sandbox::Access::Write) {
        Ok((_, place)) => Some(place.path),
        // What cannot be looked at is judged by its name.
        Err(_) => Some(workspace.as_named(&base, text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_paths_are_known() {
        for name in
            ["path", "file_path", "filePath", "targetFile", "allowed-dir", "PATH", "source", "outputDir"]
        {
            assert!(is_path(name), "{name}");
        }
        for name in ["profile", "pathology", "query", "xpath", "data_source", "text", "empathy"] {
            assert!(!is_path(name), "{name}");
        }
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        let input = json!({
            "paths": ["a", "b"], "edits": [{"file": "c", "text": "d"}], "uri": "file:///e", "query": "f",
        });
        let mut found = Vec::new();
        find(&input, None, &mut found);
        assert_eq!(found, ["a", "b", "c", "file:///e"]);
    }
}
