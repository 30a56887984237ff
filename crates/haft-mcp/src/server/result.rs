//! Converts a reply to the result of a `tools/call` request.

use haft_core::Reply;
use haft_core::replies::{Audience, Block, Content};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Role, TextContent};
use serde_json::Value;

/// The `_meta` key of a structured value whose tool declares no output schema.
pub const STRUCTURED_META_KEY: &str = "haft/structured";

/// Whether a tool declares an output schema. The protocol allows schemas of objects only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputSchema {
    /// Declared: the structured value contains everything that the text says.
    Declared,
    /// Not declared: the structured value is an extra for programs.
    Undeclared,
}

/// Converts a reply to a result: `content`, `isError` and the structured value.
///
/// Many clients show their model `structuredContent` *instead of* `content` if a result has both. So it is sent only for
/// tools that declare an output schema, whose value is the whole reply; otherwise the value goes to `_meta`. Some clients
/// (Gemini CLI, Qwen Code) show their model the whole result of a failure: what its text says is not said again.
pub fn call_result(reply: Reply, schema: OutputSchema) -> CallToolResult {
    let content = reply.content.into_iter().filter_map(block).collect();
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    let structured = reply.structured.filter(Value::is_object);
    let structured =
        if reply.is_error { structured.and_then(|value| unsaid(value, &result)) } else { structured };
    match (structured, schema) {
        (Some(value), OutputSchema::Declared) if !reply.is_error => result.structured_content = Some(value),
        (Some(value), _) => {
            result.meta.get_or_insert_default().insert(STRUCTURED_META_KEY.to_owned(), value);
        }
        (None, _) => {}
    }
    result
}

/// The part of a failure's structured value that the text does not say: nothing if the text is the same value, and no
/// message and hint of a fault.
fn unsaid(mut value: Value, result: &CallToolResult) -> Option<Value> {
    let says_it = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => serde_json::from_str::<Value>(&text.text).is_ok_and(|said| said == value),
        _ => false,
    };
    if result.content.iter().any(says_it) {
        return None;
    }
    if let Some(fault) = value.get_mut("fault").and_then(Value::as_object_mut) {
        fault.remove("message");
        fault.remove("hint");
    }
    Some(value)
}

/// Converts a block. Text, which may be long, is moved rather than copied.
fn block(block: Block) -> Option<ContentBlock> {
    match block.content {
        Content::Text(text) => {
            let mut content = TextContent::new(text);
            if block.audience == Audience::Model {
                content.annotations = Some(Annotations::default().with_audience(vec![Role::Assistant]));
            }
            Some(ContentBlock::Text(content))
        }
        _ => serde_json::from_value(block.to_json()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use haft_core::replies::Body;
    use serde_json::json;

    use super::*;

    fn as_json(reply: Reply, schema: OutputSchema) -> Value {
        let mut result = serde_json::to_value(call_result(reply, schema)).unwrap();
        result.as_object_mut().unwrap().remove("resultType");
        result
    }

    #[test]
    fn every_kind_of_content_is_converted() {
        let reply = Reply::text("seen")
            .structured(json!({"lines": 1}))
            .block(Block::image("image/png", vec![0]))
            .block(Block::audio("audio/wav", vec![1]))
            .block(Content::Resource {
                uri: "a://b".to_owned(),
                media_type: Some("text/x".to_owned()),
                body: Body::Text("c".to_owned()),
            })
            .block(Content::Resource {
                uri: "a://d".to_owned(),
                media_type: None,
                body: Body::Bytes(vec![2]),
            })
            .block(Content::Link {
                uri: "a://e".to_owned(),
                name: "e".to_owned(),
                media_type: None,
                description: Some("An e".to_owned()),
            })
            .internal("note: more");
        assert_eq!(
            as_json(reply, OutputSchema::Undeclared),
            json!({
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "data": "AA==", "mimeType": "image/png"},
                    {"type": "audio", "data": "AQ==", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": {"uri": "a://b", "text": "c", "mimeType": "text/x"}},
                    {"type": "resource", "resource": {"uri": "a://d", "blob": "Ag=="}},
                    {"type": "resource_link", "uri": "a://e", "name": "e", "description": "An e"},
                    {"type": "text", "text": "note: more", "annotations": {"audience": ["assistant"]}},
                ],
                "_meta": {"haft/structured": {"lines": 1}},
                "isError": false,
            })
        );
    }

    #[test]
    fn structured_content_is_sent_only_in_the_declared_form() {
        let reply = || Reply::object(json!({"ok": true}));
        assert_eq!(as_json(reply(), OutputSchema::Declared)["structuredContent"], json!({"ok": true}));
        let undeclared = as_json(reply(), OutputSchema::Undeclared);
        assert!(undeclared.get("structuredContent").is_none(), "{undeclared}");
        assert_eq!(undeclared["_meta"][STRUCTURED_META_KEY], json!({"ok": true}));
    }

    #[test]
    fn a_failure_says_nothing_twice() {
        let fault =
            json!({"fault": {"kind": "failed", "message": "it broke", "hint": "mend it", "details": {}}});
        for schema in [OutputSchema::Declared, OutputSchema::Undeclared] {
            let result = as_json(Reply::error(r#"{"ok": false}"#).structured(json!({"ok": false})), schema);
            assert!(result.get("structuredContent").is_none() && result.get("_meta").is_none(), "{result}");
            let result = as_json(Reply::error("it broke\nhint: mend it").structured(fault.clone()), schema);
            assert!(result.get("structuredContent").is_none(), "{result}");
            assert_eq!(
                result["_meta"][STRUCTURED_META_KEY],
                json!({"fault": {"kind": "failed", "details": {}}})
            );
        }
    }

    #[test]
    fn only_an_object_is_structured_content() {
        let result = as_json(Reply::error("no").structured(json!([1])), OutputSchema::Declared);
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none() && result.get("_meta").is_none());
    }
}
