//! The JSON formats in which the APIs of models write tools and replies. The only module that knows them, except for
//! the parsing of calls in `call`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::replies::{Block, Content};
use crate::{Category, Reply, Sensitivity, Spec};

/// The `_meta` key of a tool for MCP under which Claude Code looks for the length of its longest result.
const MAX_RESULT: &str = "anthropic/maxResultSizeChars";
/// The highest value that Claude Code accepts there.
const MAX_RESULT_LIMIT: usize = 500_000;

/// The JSON format of an API for tools and replies. [`Call::parse`](crate::Call::parse) reads calls in all of them.
///
/// ```
/// use haft_core::{Format, Reply};
/// use serde_json::json;
///
/// let mut reply = Reply::text("3 words");
/// reply.id = "toolu_1".into();
/// assert_eq!(
///     Format::Anthropic.reply(&reply),
///     json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "3 words"}]}),
/// );
/// assert_eq!(
///     Format::OpenAi.reply(&reply),
///     json!({"role": "tool", "tool_call_id": "toolu_1", "content": "3 words"}),
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI's Chat Completions.
    OpenAi,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// The Model Context Protocol.
    Mcp,
    /// haft's own format, with everything it knows of a tool.
    Haft,
}

impl Format {
    /// The definition of a tool in this format.
    pub fn define(self, spec: &Spec, description: &str) -> Value {
        let (name, schema) = (&*spec.name, spec.input_schema());
        match self {
            Format::OpenAi => {
                json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
            }
            Format::OpenAiResponses => json!({
                "type": "function", "name": name, "description": description, "parameters": schema, "strict": false,
            }),
            Format::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
            Format::Mcp => {
                let is_open = match spec.category {
                    Category::File | Category::Search | Category::Git => false,
                    Category::Planning | Category::Utility => false,
                    Category::Web => true,
                    // Programs may reach beyond the machine, unless the tool is one that needs no approval.
                    Category::Shell
                    | Category::Code
                    | Category::Project
                    | Category::Mcp
                    | Category::Other => !spec.read_only && spec.sensitivity != Sensitivity::Safe,
                };
                let mut tool = json!({
                    "name": name,
                    "title": spec.title(),
                    "description": description,
                    "inputSchema": schema,
                    "annotations": {
                        "readOnlyHint": spec.read_only,
                        "destructiveHint": !spec.read_only && spec.sensitivity != Sensitivity::Safe,
                        "idempotentHint": spec.read_only,
                        "openWorldHint": is_open,
                    },
                });
                // Claude Code hands its model the first 2 kB of a longer result. It counts the characters of the result as
                // JSON, in which a line break is two.
                let longest = spec.max_result.saturating_mul(2).min(MAX_RESULT_LIMIT);
                tool["_meta"] = json!({MAX_RESULT: longest});
                // The protocol allows only objects.
                if let Some(output) = spec.output_schema().filter(|schema| schema["type"] == "object") {
                    tool["outputSchema"] = output.clone();
                }
                tool
            }
            Format::Haft => json!({
                "name": name,
                "description": description,
                "category": spec.category,
                "read_only": spec.read_only,
                "sensitivity": spec.sensitivity,
                "max_result": spec.max_result,
                "cut": spec.cut,
                "timeout_ms": spec.timeout.map(|timeout| timeout.as_millis() as u64),
                "shows_progress": spec.shows_progress,
                "input_schema": schema,
                "output_schema": spec.output_schema(),
            }),
        }
    }

    /// A reply in this format.
    pub fn reply(self, reply: &Reply) -> Value {
        match self {
            Format::OpenAi => {
                json!({"role": "tool", "tool_call_id": &*reply.id, "content": joined_text(reply)})
            }
            Format::OpenAiResponses => {
                let has_image =
                    reply.content.iter().any(|block| matches!(block.content, Content::Image { .. }));
                let output = match has_image {
                    false => Value::String(joined_text(reply)),
                    true => reply.content.iter().map(responses_part).collect(),
                };
                json!({"type": "function_call_output", "call_id": &*reply.id, "output": output})
            }
            Format::Anthropic => {
                let content: Vec<Value> = reply.content.iter().map(anthropic_part).collect();
                let mut result =
                    json!({"type": "tool_result", "tool_use_id": &*reply.id, "content": content});
                if reply.is_error {
                    result["is_error"] = Value::Bool(true);
                }
                result
            }
            Format::Mcp => json!({
                "content": reply.content.iter().map(Block::to_json).collect::<Vec<_>>(),
                "isError": reply.is_error,
            }),
            Format::Haft => reply.to_json(),
        }
    }
}

/// All content as one text, with a summary for each block that is not text.
fn joined_text(reply: &Reply) -> String {
    let all: Vec<String> = reply.content.iter().map(|block| text_of(&block.content)).collect();
    all.join("\n")
}

fn text_of(content: &Content) -> String {
    match (content.text(), content.summary()) {
        (Some(text), _) => text.to_owned(),
        (None, summary) => summary.unwrap_or_default(),
    }
}

fn anthropic_part(block: &Block) -> Value {
    match &block.content {
        Content::Image { media_type, data } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": BASE64.encode(data)},
        }),
        content => json!({"type": "text", "text": text_of(content)}),
    }
}

fn responses_part(block: &Block) -> Value {
    match &block.content {
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{}", BASE64.encode(data));
            json!({"type": "input_image", "image_url": url})
        }
        content => json!({"type": "input_text", "text": text_of(content)}),
    }
}
