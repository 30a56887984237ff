//! Converts a server's results to replies. Bounds the metadata (names, URIs, media types); the content itself is cut by
//! the engine's limits for every reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft_core::replies::{Audience, Block, Body, Content};
use haft_core::{Fault, Reply};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Resource, ResourceContents, Role};
use serde_json::Value;

use super::bounds;

/// Converts the result of a call. A result with `isError` is a fault.
pub(super) fn reply(server: &str, result: CallToolResult) -> Result<Reply, Fault> {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let structured = structured_content.filter(|value| !value.is_null());
    let blocks: Vec<Block> = content.into_iter().map(block).collect();
    let reply = match (blocks.is_empty(), &structured) {
        (true, Some(value)) => Reply::object(value.clone()),
        (true, None) => Reply::text("(the tool answered nothing)"),
        (false, Some(value)) => Reply::blocks(blocks).structured(value),
        (false, None) => Reply::blocks(blocks),
    };
    if is_error == Some(true) { Err(failed(server, &reply, structured)) } else { Ok(reply) }
}

/// Decodes a result that the SDK could not: each malformed part becomes a line of text.
pub(super) fn lenient(mut result: Value) -> Option<CallToolResult> {
    let Value::Array(parts) = result.get_mut("content")?.take() else { return None };
    result["content"] = Value::Array(Vec::new());
    let mut result: CallToolResult = serde_json::from_value(result).ok()?;
    let part = |part: Value| {
        let placeholder = placeholder(part.get("type").and_then(Value::as_str));
        serde_json::from_value(part).unwrap_or_else(|_| ContentBlock::text(placeholder))
    };
    result.content = parts.into_iter().map(part).collect();
    Some(result)
}

/// The text that replaces a malformed part.
fn placeholder(kind: Option<&str>) -> String {
    const KNOWN: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
    match kind {
        Some(kind) if KNOWN.contains(&kind) => format!("[a part of type `{kind}` cannot be read]"),
        Some(kind) => format!("[a part of type `{}` is not shown]", bounds::word(kind)),
        None => "[a part without a type is not shown]".to_owned(),
    }
}

/// The fault of a tool that reports a failure.
fn failed(server: &str, reply: &Reply, structured: Option<Value>) -> Fault {
    let text = reply.full_text();
    let message = match text.trim() {
        "" => "the tool failed, and did not say why",
        text => text,
    };
    let fault = Fault::failed(message).with("server", server);
    match structured {
        Some(value) => fault.with("structured", value),
        None => fault,
    }
}

fn block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => for_audience(Block::text(text.text), text.annotations.as_ref()),
        ContentBlock::Image(image) => {
            let block = decode(&image.data, &image.mime_type, Block::image);
            for_audience(block, image.annotations.as_ref())
        }
        ContentBlock::Audio(audio) => {
            let block = decode(&audio.data, &audio.mime_type, Block::audio);
            for_audience(block, audio.annotations.as_ref())
        }
        ContentBlock::Resource(embedded) => {
            for_audience(contents(embedded.resource), embedded.annotations.as_ref())
        }
        ContentBlock::ResourceLink(link) => Block::from(Content::Link {
            uri: bounds::word(&link.uri),
            name: bounds::word(link.title.as_deref().unwrap_or(&link.name)),
            media_type: link.mime_type.as_deref().map(bounds::word),
            description: link.description.map(|about| bounds::text(&about, bounds::MAX_MESSAGE)),
        }),
        _ => Block::text(UNKNOWN),
    }
}

/// Replaces content of a kind that haft does not know.
const UNKNOWN: &str = "(something that haft does not know)";

/// Marks a block that is for the model only.
fn for_audience(mut block: Block, annotations: Option<&Annotations>) -> Block {
    let audience = annotations.and_then(|annotations| annotations.audience.as_deref());
    if audience == Some(&[Role::Assistant]) {
        block.audience = Audience::Model;
    }
    block
}

/// The contents of a resource as a block.
pub(super) fn contents(contents: ResourceContents) -> Block {
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Block::from(Content::Resource {
                uri: bounds::word(&uri),
                media_type: mime_type.as_deref().map(bounds::word),
                body: Body::Text(text),
            })
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            match kind.starts_with("image/") {
                true => decode(&blob, &kind, Block::image),
                false => decode(&blob, &kind, |kind, data| {
                    let (uri, media_type, body) = (bounds::word(&uri), Some(kind), Body::Bytes(data));
                    Block::from(Content::Resource { uri, media_type, body })
                }),
            }
        }
        _ => Block::text(UNKNOWN),
    }
}

/// One line about a resource, for a listing.
pub(super) fn describe(resource: &Resource) -> String {
    let mut text = bounds::word(&resource.uri);
    let name = resource.title.as_deref().unwrap_or(&resource.name);
    if !name.is_empty() {
        text = format!("{text} ({})", bounds::word(name));
    }
    if let Some(kind) = &resource.mime_type {
        text = format!("{text}, {}", bounds::word(kind));
    }
    if let Some(size) = resource.size {
        text = format!("{text}, {size} bytes");
    }
    match &resource.description {
        Some(about) => format!("{text}: {}", bounds::text(about, bounds::MAX_MESSAGE)),
        None => text,
    }
}

/// Decodes base64 into a block.
fn decode(data: &str, kind: &str, block: impl FnOnce(String, Vec<u8>) -> Block) -> Block {
    let kind = bounds::word(kind);
    match BASE64.decode(data.trim()) {
        Ok(bytes) => block(kind, bytes),
        Err(_) => Block::text(format!("({kind} that cannot be read: it is no base64)")),
    }
}
