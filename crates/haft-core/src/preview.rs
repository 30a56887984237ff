//! Short previews of replies for people: the text of a reply, or the values of a structured one without its JSON.

use serde_json::{Map, Value};

use crate::Reply;
use crate::replies::Audience;

/// The fields in which structured replies usually hold their main content, best first.
const BODY_FIELDS: [&str; 6] = ["content", "output", "diff", "result", "data", "value"];

/// The first lines of a reply, without the content that is only for the model. If there are more, the last line says how
/// many.
pub fn result(reply: &Reply, max_lines: usize) -> Vec<String> {
    if reply.content.iter().all(|block| block.audience == Audience::Model) {
        return Vec::new();
    }
    let others = reply.content.iter().filter_map(|block| block.content.summary());
    let mut lines: Vec<String> = others.collect();
    let body = reply.structured.as_ref().filter(|_| reply.is_object).and_then(body);
    let text = body.unwrap_or_else(|| reply.display_text());
    lines.extend(text.lines().map(str::to_owned));
    if lines.len() > max_lines {
        let more = lines.len() - max_lines.saturating_sub(1);
        lines.truncate(max_lines.saturating_sub(1));
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// The main content of a structured reply; the other values where it has none.
fn body(value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    if fields.get("success") == Some(&Value::Bool(false)) || fields.get("ok") == Some(&Value::Bool(false)) {
        return failure(fields.get("error")?, value);
    }
    let main = BODY_FIELDS.iter().find_map(|field| match fields.get(*field)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        nested @ Value::Object(_) => body(nested),
        _ => None,
    });
    main.or_else(|| matches(value)).or_else(|| list(fields)).or_else(|| scalars(fields))
}

/// What failed: what was printed until then, the message, the exit code of a command, and a hint.
fn failure(error: &Value, reply: &Value) -> Option<String> {
    let message = error.get("message").unwrap_or(error).as_str()?;
    let detail = |name: &str| reply.get(name).or_else(|| error.get("details")?.get(name));
    let mut lines = Vec::new();
    let printed = detail("output").or_else(|| detail("stdout")).and_then(Value::as_str);
    lines.extend(printed.map(str::trim_end).filter(|text| !text.is_empty()).map(str::to_owned));
    lines.push(message.trim_end().to_owned());
    let code = detail("return_code").or_else(|| detail("exit_code")).and_then(Value::as_i64);
    lines
        .extend(code.map(|code| format!("exit code {code}")).filter(|code| !message.contains(code.as_str())));
    let hint = reply.get("suggestion").or_else(|| detail("hint")).and_then(Value::as_str);
    lines.extend(hint.map(|hint| format!("hint: {hint}")));
    Some(lines.join("\n"))
}

/// The number of matches of a search, and the matches: lines of files, or files.
fn matches(value: &Value) -> Option<String> {
    let count = value.get("total_matches")?.as_u64()?;
    let mut text = if count == 1 { "1 match".to_owned() } else { format!("{count} matches") };
    let line = |found: &Value| {
        let (file, content) = (found.get("file")?.as_str()?, found.get("content")?.as_str()?);
        Some(format!("{file}:{}: {content}", found.get("line")?))
    };
    let lines = value.get("matches").and_then(Value::as_array).into_iter().flatten().filter_map(line);
    let files: Vec<String> = match value.get("files") {
        Some(Value::Array(files)) => files.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::Object(files)) => files.keys().cloned().collect(),
        _ => Vec::new(),
    };
    for line in lines.chain(files) {
        text.push('\n');
        text.push_str(&line);
    }
    Some(text)
}

/// The first list with entries, a line each.
fn list(fields: &Map<String, Value>) -> Option<String> {
    let entries = fields.values().filter_map(Value::as_array).find(|list| !list.is_empty())?;
    Some(entries.iter().map(entry).collect::<Vec<_>>().join("\n"))
}

/// An entry of a list on one line: a name, a place with its text as searches print it, or its values. Text of several
/// lines, such as a diff, follows.
fn entry(value: &Value) -> String {
    let Value::Object(fields) = value else { return scalar(value).unwrap_or_else(|| value.to_string()) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if let Some(name) = text("name") {
        let mark = if text("type") == Some("directory") { "/" } else { "" };
        return format!("{name}{mark}");
    }
    if let (Some(file), Some(line), Some(content)) =
        (text("file"), fields.get("line").and_then(scalar), text("content"))
    {
        return format!("{file}:{line}: {content}");
    }
    let (long, short): (Vec<String>, Vec<String>) =
        fields.values().filter_map(scalar).partition(|text| text.contains('\n'));
    std::iter::once(short.join("  ")).chain(long).collect::<Vec<_>>().join("\n")
}

/// The single values, a line each, without those that say nothing.
fn scalars(fields: &Map<String, Value>) -> Option<String> {
    let told = |name: &str, value: &Value| !matches!((name, value), ("success" | "ok", Value::Bool(true)));
    let lines = fields.iter().filter(|(name, value)| told(name, value)).filter_map(|(name, value)| {
        let text = scalar(value).filter(|text| !text.is_empty())?;
        Some(format!("{}: {text}", name.replace('_', " ")))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> Vec<String> {
        result(&Reply::object(value), 8)
    }

    #[test]
    fn matches_are_shown_as_searches_print_them() {
        let found = json!({"file": "a.rs", "line": 3, "content": "fn a()"});
        let reply = json!({"success": true, "error": "", "matches": [found], "total_matches": 1});
        assert_eq!(shown(reply), ["1 match", "a.rs:3: fn a()"]);
        let none = json!({"success": true, "error": "", "matches": [], "total_matches": 0});
        assert_eq!(shown(none), ["0 matches"]);
    }

    #[test]
    fn lists_and_values_are_shown_without_json() {
        assert_eq!(shown(json!({"success": true, "files": ["a", "b"]})), ["a", "b"]);
        let todo = json!({"id": "1", "task": "sweep", "status": "open"});
        assert_eq!(shown(json!({"success": true, "todos": [todo]})), ["1  sweep  open"]);
        let replaced = json!({"file": "a", "count": 2, "diff": "-x\n+y\n"});
        assert_eq!(shown(json!({"replacements": [replaced]})), ["a  2", "-x", "+y"]);
        assert_eq!(
            shown(json!({"ok": true, "value": {"entries": [{"name": "d", "type": "directory"}]}})),
            ["d/"]
        );
    }

    #[test]
    fn a_failed_command_is_shown_with_its_output_and_exit_code() {
        let reply = json!({"success": false, "output": "half\n", "error": "broken\n", "return_code": 3});
        assert_eq!(shown(reply), ["half", "broken", "exit code 3"]);
        let reply = json!({"success": false, "output": "", "error": "exit code 3", "return_code": 3});
        assert_eq!(shown(reply), ["exit code 3"]);
        let reply = json!({"ok": false, "error": {"code": "X", "message": "no", "details": {"hint": "try"}}});
        assert_eq!(shown(reply), ["no", "hint: try"]);
    }
}
