//! What a person is shown of a reply when there is no room for all of it.

use serde_json::Value;

use crate::{Audience, Content, Reply};

/// The fields in which a structured reply carries what it is about, best first.
const BODY_FIELDS: [&str; 5] = ["content", "output", "result", "data", "value"];

/// The first lines of a reply. Content that is only for the model is left out; a reply that was cut ends
/// with a line that says how much more there is.
pub fn result(reply: &Reply, max_lines: usize) -> Vec<String> {
    if reply.content.iter().all(|block| block.audience == Audience::Model) {
        return Vec::new();
    }
    let images = reply.content.iter().filter_map(|block| match &block.content {
        Content::Image { media_type, data } => Some(format!("[{media_type}, {} bytes]", data.len())),
        Content::Text(_) => None,
    });
    let mut lines: Vec<String> = images.collect();
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
        let error = value.get("error")?;
        let message = error.get("message").unwrap_or(error);
        return message.as_str().map(str::to_owned);
    }
    BODY_FIELDS.iter().find_map(|field| match value.get(field)? {
        Value::String(text) => Some(text.clone()),
        nested @ Value::Object(_) => body(nested),
        _ => None,
    })
}
