//! Short previews of replies for people.

use serde_json::Value;

use crate::Reply;
use crate::replies::Audience;

/// The fields in which structured replies usually hold their main content, best first.
const BODY_FIELDS: [&str; 5] = ["content", "output", "result", "data", "value"];

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

fn body(value: &Value) -> Option<String> {
    if value.get("success") == Some(&Value::Bool(false)) || value.get("ok") == Some(&Value::Bool(false)) {
        return failure(value.get("error")?, value);
    }
    BODY_FIELDS
        .iter()
        .find_map(|field| match value.get(field)? {
            Value::String(text) => Some(text.clone()),
            nested @ Value::Object(_) => body(nested),
            _ => None,
        })
        .or_else(|| matches(value))
        .or_else(|| names(value))
}

fn failure(error: &Value, reply: &Value) -> Option<String> {
    let message = error.get("message").unwrap_or(error).as_str()?;
    let hint = reply.get("suggestion").or_else(|| error.get("details")?.get("hint"));
    Some(match hint.and_then(Value::as_str) {
        Some(hint) => format!("{message}\nhint: {hint}"),
        None => message.to_owned(),
    })
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

/// The names in the first array of objects with a `name`: the entries of a listing.
fn names(value: &Value) -> Option<String> {
    let lists = value.as_object()?.values().filter_map(Value::as_array);
    lists.into_iter().find_map(|list| {
        let named = list.iter().map(|item| {
            let name = item.get("name")?.as_str()?;
            let mark = if item.get("type").is_some_and(|kind| kind == "directory") { "/" } else { "" };
            Some(format!("{name}{mark}"))
        });
        named.collect::<Option<Vec<String>>>().map(|names| names.join("\n"))
    })
}
