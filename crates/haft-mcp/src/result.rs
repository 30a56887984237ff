//! A reply as the result of a `tools/call` request.

use haft::{Audience, Block, Content, Reply};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Role, TextContent};
use serde_json::Value;

/// The result: `content`, `isError`, and `structuredContent` where there is an object to send.
pub fn call_result(reply: Reply) -> CallToolResult {
    let content = reply.content.into_iter().filter_map(block).collect();
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = reply.structured.filter(Value::is_object);
    result
}

/// Most replies are one long text, which is not copied.
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
    use haft::Body;
    use serde_json::json;

    use super::*;

    fn told(reply: Reply) -> Value {
        let mut result = serde_json::to_value(call_result(reply)).unwrap();
        result.as_object_mut().unwrap().remove("resultType");
        result
    }

    #[test]
    fn a_reply_in_the_words_of_the_protocol() {
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
            told(reply),
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
                "structuredContent": {"lines": 1},
                "isError": false,
            })
        );
    }

    #[test]
    fn only_an_object_is_structured_content() {
        let result = told(Reply::error("no").structured(json!([1])));
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
    }
}
