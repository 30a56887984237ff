//! A reply as the result of a `tools/call` request.

use haft::Reply;
use serde_json::{Map, Value};

/// The result object: `content`, `isError`, and `structuredContent` where there is an object to send.
pub fn call_result(reply: &Reply) -> Value {
    let mut result = Map::new();
    let mut json = reply.to_json();
    result.insert("content".into(), json["content"].take());
    if let Some(structured @ Value::Object(_)) = &reply.structured {
        result.insert("structuredContent".into(), structured.clone());
    }
    result.insert("isError".into(), Value::Bool(reply.is_error));
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use haft::Reply;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_in_the_words_of_the_protocol() {
        let reply = Reply::text("seen").structured(json!({"lines": 1})).internal("note: more");
        assert_eq!(
            call_result(&reply),
            json!({
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "text", "text": "note: more", "annotations": {"audience": ["assistant"]}},
                ],
                "structuredContent": {"lines": 1},
                "isError": false,
            })
        );
    }

    #[test]
    fn only_an_object_is_structured_content() {
        let result = call_result(&Reply::error("no").structured(json!([1])));
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
    }
}
