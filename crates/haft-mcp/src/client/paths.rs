//! A heuristic for which arguments of a server's tool are paths, by their names and values, so that rules about files
//! apply to the tool as to every other. URLs of other machines are no paths.

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Resource};
use serde_json::Value;
use url::Url;

/// The most paths in one input.
const MAX_PATHS: usize = 200;

/// Argument names that end with one of these words hold paths.
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
/// Argument names that hold paths if they match as a whole.
const NAMES: [&str; 5] = ["source", "destination", "src", "dest", "cwd"];

/// How a tool may access its paths.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Touch {
    Reads,
    Changes,
}

/// Adds the paths of an input to the claims of a call.
pub(super) fn claim(mut claims: Claims, input: &Value, touch: Touch, cx: &Context) -> Result<Claims, Fault> {
    let mut named = Vec::new();
    find(input, None, &mut named);
    if named.len() > MAX_PATHS {
        return Err(Fault::invalid(format!("the input names more than {MAX_PATHS} paths"))
            .hint("make several calls, with fewer paths each"));
    }
    if let Some(text) = named.iter().find(|text| text.contains('\0')) {
        let message = format!("`{}` cannot be a path: it holds the character 0", text.replace('\0', "\\0"));
        return Err(Fault::invalid(message));
    }
    for path in named.into_iter().flat_map(|text| resolve(text, cx)) {
        if touch == Touch::Changes && cx.workspace().is_guarded(&path) {
            let message =
                format!("`{}` is haft's own, and no tool may change it", cx.workspace().display(&path));
            return Err(Fault::new(FaultKind::AccessDenied, message).hint("ask the user to change it"));
        }
        claims = match touch {
            Touch::Reads => claims.read(Resource::Path(path)),
            Touch::Changes => claims.write(Resource::Path(path)),
        };
    }
    Ok(claims)
}

/// Collects the strings of an input that may be paths. Stops at one more than allowed, so that the caller can tell.
fn find<'v>(value: &'v Value, name: Option<&str>, into: &mut Vec<&'v str>) {
    if into.len() > MAX_PATHS {
        return;
    }
    match value {
        Value::String(text) if !text.is_empty() && (is_file_url(text) || name.is_some_and(is_path_name)) => {
            into.push(text);
        }
        Value::Array(items) => items.iter().for_each(|item| find(item, name, into)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| find(field, Some(name), into)),
        _ => {}
    }
}

fn is_file_url(text: &str) -> bool {
    text.trim().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// Whether an argument name suggests a path: `path`, `file_path`, `targetFile`, `allowed-dir`.
fn is_path_name(name: &str) -> bool {
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

/// The files that a string may refer to. The server may trim the string, or normalize `..` before it follows links, so
/// each interpretation counts.
fn resolve(text: &str, cx: &Context) -> Vec<AbsPath> {
    let trimmed = text.trim();
    let candidates = match Url::parse(trimmed) {
        Ok(address) if address.scheme() == "file" => vec![percent_decoded(address.path())],
        // A URL of another machine.
        Ok(address) if address.scheme().len() > 1 && trimmed.contains("://") => Vec::new(),
        _ if trimmed == text => vec![text.to_owned()],
        _ => vec![text.to_owned(), trimmed.to_owned()],
    };
    let (workspace, base) = (cx.workspace(), cx.cwd());
    let mut paths: Vec<AbsPath> = Vec::new();
    for text in candidates {
        if let Ok((_, target)) = workspace.reaching(&base, &text, haft_sandbox::FolderAccess::Write) {
            paths.push(target.path);
        }
        // Rules apply to the name as written as well as to the resolved path.
        let named = workspace.lexical_path(&base, &text);
        if !paths.contains(&named) {
            paths.push(named);
        }
    }
    paths
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_names_are_recognized() {
        for name in
            ["path", "file_path", "filePath", "targetFile", "allowed-dir", "PATH", "source", "outputDir"]
        {
            assert!(is_path_name(name), "{name}");
        }
        for name in ["profile", "pathology", "query", "xpath", "data_source", "text", "empathy"] {
            assert!(!is_path_name(name), "{name}");
        }
    }

    #[test]
    fn paths_are_found_at_any_depth() {
        let input = json!({
            "paths": ["a", "b"], "edits": [{"file": "c", "text": "d"}], "uri": "file:///e", "query": "f",
        });
        let mut found = Vec::new();
        find(&input, None, &mut found);
        assert_eq!(found, ["a", "b", "c", "file:///e"]);
    }
}
