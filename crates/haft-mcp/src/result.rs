//! A reply as the result of a `tools/call` request.

use haft::Reply;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// The result: `content`, `isError`, and `structuredContent` where there is an object to send.
pub fn call_result(reply: &Reply) -> CallToolResult {
    let content = match reply.to_json()["content"].take() {
        Value::Array(blocks) => {
            blocks.into_iter().filter_map(|block| serde_json::from_value(block).ok()).collect()
        }
        _ => Vec::<ContentBlock>::new(),
    };
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = reply.structured.clone().filter(Value::is_object);
    result
}

#[cfg(test)]
mod tests {
    use haft::Block;
    use serde_json::json;

    use super::*;

    fn told(reply: &Reply) -> Value {
        let mut result = serde_json::to_value(call_result(reply)).unwrap();
        result.as_object_mut().unwrap().remove("resultType");
        result
    }

    #[test]
    fn a_reply_in_the_words_of_the_protocol() {
        let reply = Reply::text("seen")
            .structured(json!({"lines": 1}))
            .block(Block::image("image/png", vec![0]))
            .internal("note: more");
        assert_eq!(
            told(&reply),
            json!({
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "data": "AA==", "mimeType": "image/png"},
                    {"type": "text", "text": "note: more", "annotations": {"audience": ["assistant"]}},
                ],
                "structuredContent": {"lines": 1},
                "isError": false,
            })
        );
    }

    #[test]
    fn only_an_object_is_structured_content() {
        let result = told(&Reply::error("no").structured(json!([1])));
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
    }
}
