//! What a server answers, as a reply: texts and pictures as they are, everything else in words. What a model cannot be
//! shown is kept in a file that the reply names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft::{Audience, Block, Context, Fault, Reply};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Resource, ResourceContents, Role};
use serde_json::Value;

use super::bounds;

/// The result of a call.
pub(super) fn reply(server: &str, result: CallToolResult, cx: &Context) -> Result<Reply, Fault> {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let structured = structured_content.filter(|value| !value.is_null());
    let blocks: Vec<Block> = content.into_iter().map(|content| block(content, cx)).collect();
    let reply = match (blocks.is_empty(), &structured) {
        (true, Some(value)) => Reply::object(value.clone()),
        (true, None) => Reply::text("(the tool answered nothing)"),
        (false, Some(value)) => Reply::blocks(blocks).structured(value),
        (false, None) => Reply::blocks(blocks),
    };
    if is_error == Some(true) { Err(failed(server, &reply, structured)) } else { Ok(reply) }
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

fn block(content: ContentBlock, cx: &Context) -> Block {
    match content {
        ContentBlock::Text(text) => meant(Block::text(text.text), text.annotations.as_ref()),
        ContentBlock::Image(image) => {
            meant(bytes(&image.mime_type, &image.data, "a picture", cx), image.annotations.as_ref())
        }
        ContentBlock::Audio(audio) => {
            meant(bytes(&audio.mime_type, &audio.data, "a recording", cx), audio.annotations.as_ref())
        }
        ContentBlock::Resource(embedded) => {
            meant(contents(embedded.resource, cx), embedded.annotations.as_ref())
        }
        ContentBlock::ResourceLink(link) => Block::text(described(&link)),
        _ => Block::text("(something that haft does not know)"),
    }
}

/// A block for whom it is meant.
fn meant(mut block: Block, annotations: Option<&Annotations>) -> Block {
    let audience = annotations.and_then(|annotations| annotations.audience.as_deref());
    if audience == Some(&[Role::Assistant]) {
        block.audience = Audience::Model;
    }
    block
}

/// What a resource holds.
pub(super) fn contents(contents: ResourceContents, cx: &Context) -> Block {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            Block::text(format!("{}:\n{text}", bounds::word(&uri)))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            bytes(&kind, &blob, &bounds::word(&uri), cx)
        }
        _ => Block::text("(something that haft does not know)"),
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

/// A picture, or what else was sent as bytes in words.
fn bytes(kind: &str, data: &str, what: &str, cx: &Context) -> Block {
    let kind = bounds::word(kind);
    let Ok(bytes) = BASE64.decode(data.trim()) else {
        return Block::text(format!("({what}, {kind}, that cannot be read: it is no base64)"));
    };
    if kind.starts_with("image/") && kind != "image/svg+xml" {
        return Block::image(kind, bytes);
    }
    let size = bytes.len();
    let kept = cx.keep_output().map(|mut keeping| {
        keeping.add(&bytes);
        format!(", kept in {}", keeping.path().display())
    });
    Block::text(format!("({what}, {kind}, {size} bytes{})", kept.unwrap_or_default()))
}
