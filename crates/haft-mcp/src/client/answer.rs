//! What a server answers, as a reply. What is said of texts, pictures and sounds is bounded; they themselves are held to
//! the limits of every reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft_core::replies::{Audience, Block, Body, Content};
use haft_core::{Fault, Reply};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Resource, ResourceContents, Role};
use serde_json::Value;

use super::bounds;

/// The result of a call.
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

/// A result that has parts which are not as they should be: the others, and a line for each of these.
pub(super) fn salvaged(mut result: Value) -> Option<CallToolResult> {
    let Value::Array(parts) = result.get_mut("content")?.take() else { return None };
    result["content"] = Value::Array(Vec::new());
    let mut result: CallToolResult = serde_json::from_value(result).ok()?;
    let part = |part: Value| {
        let told = unknown(part.get("type").and_then(Value::as_str));
        serde_json::from_value(part).unwrap_or_else(|_| ContentBlock::text(told))
    };
    result.content = parts.into_iter().map(part).collect();
    Some(result)
}

/// What stands for a part that cannot be shown.
fn unknown(kind: Option<&str>) -> String {
    const KNOWN: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
    match kind {
        Some(kind) if KNOWN.contains(&kind) => format!("[a part of type `{kind}` cannot be read]"),
        Some(kind) => format!("[a part of type `{}` is not shown]", bounds::word(kind)),
        None => "[a part without a type is not shown]".to_owned(),
    }
}

/// A tool that says itself that it failed.
fn failed(server: &str, reply: &Reply, structured: Option<Value>) -> Fault {
    let said = reply.full_text();
    let told = match said.trim() {
        "" => "the tool failed, and did not say why",
        said => said,
    };
    let fault = Fault::failed(told).with("server", server);
    match structured {
        Some(value) => fault.with("structured", value),
        None => fault,
    }
}

fn block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => meant(Block::text(text.text), text.annotations.as_ref()),
        ContentBlock::Image(image) => {
            let block = decoded(&image.data, &image.mime_type, Block::image);
            meant(block, image.annotations.as_ref())
        }
        ContentBlock::Audio(audio) => {
            let block = decoded(&audio.data, &audio.mime_type, Block::audio);
            meant(block, audio.annotations.as_ref())
        }
        ContentBlock::Resource(embedded) => meant(contents(embedded.resource), embedded.annotations.as_ref()),
        ContentBlock::ResourceLink(link) => Block::from(Content::Link {
            uri: bounds::word(&link.uri),
            name: bounds::word(link.title.as_deref().unwrap_or(&link.name)),
            media_type: link.mime_type.as_deref().map(bounds::word),
            description: link.description.map(|about| bounds::text(&about, bounds::MAX_MESSAGE)),
        }),
        _ => Block::text(UNKNOWN),
    }
}

/// What stands for content that haft does not know.
const UNKNOWN: &str = "(something that haft does not know)";

/// A block for whom it is meant.
fn meant(mut block: Block, annotations: Option<&Annotations>) -> Block {
    let audience = annotations.and_then(|annotations| annotations.audience.as_deref());
    if audience == Some(&[Role::Assistant]) {
        block.audience = Audience::Model;
    }
    block
}

/// What a resource holds.
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
                true => decoded(&blob, &kind, Block::image),
                false => decoded(&blob, &kind, |kind, data| {
                    let (uri, media_type, body) = (bounds::word(&uri), Some(kind), Body::Bytes(data));
                    Block::from(Content::Resource { uri, media_type, body })
                }),
            }
        }
        _ => Block::text(UNKNOWN),
    }
}

/// A resource that could be read.
pub(super) fn described(resource: &Resource) -> String {
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

/// What was sent as base64.
fn decoded(data: &str, kind: &str, block: impl FnOnce(String, Vec<u8>) -> Block) -> Block {
    let kind = bounds::word(kind);
    match BASE64.decode(data.trim()) {
        Ok(bytes) => block(kind, bytes),
        Err(_) => Block::text(format!("({kind} that cannot be read: it is no base64)")),
    }
}
