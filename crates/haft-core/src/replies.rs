//! What a call gets back. A tool builds one; the engine names it after its call and holds it to its limit.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Fault;
use crate::images::FittedImage;

/// What a call gets back: content for the model, a value for programs, and whether it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The id of the call; set by the engine.
    pub id: Arc<str>,
    /// The name of the tool that was called; set by the engine.
    pub name: Arc<str>,
    /// What the model reads.
    pub content: Vec<Block>,
    /// What a program reads.
    pub structured: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether the text is the structured value itself, written out by the engine once it is final.
    pub(crate) is_object: bool,
    /// The fault that the reply tells of, in the dialect's words.
    pub(crate) fault: Option<Fault>,
}

/// One piece of content and whom it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The content.
    pub content: Content,
    /// Whom it is for.
    pub audience: Audience,
    /// Whether it is known to be a picture that a model can be shown.
    pub(crate) fits: bool,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// The file's bytes.
        data: Vec<u8>,
    },
    /// A sound.
    Audio {
        /// Such as `audio/wav`.
        media_type: String,
        /// The file's bytes.
        data: Vec<u8>,
    },
    /// Something that has an address, with what is there.
    Resource {
        /// The address.
        uri: String,
        /// Such as `text/plain`.
        media_type: Option<String>,
        /// What is there.
        body: Body,
    },
    /// The address of something that can be looked at.
    Link {
        /// The address.
        uri: String,
        /// What it is called.
        name: String,
        /// Such as `text/plain`.
        media_type: Option<String>,
        /// What it is, in a sentence.
        description: Option<String>,
    },
}

/// What is at an address.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Content {
    /// The text, where it is text that the model reads.
    pub fn text(&self) -> Option<&str> {
        match self {
            Content::Text(text) | Content::Resource { body: Body::Text(text), .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Content::Text(text) | Content::Resource { body: Body::Text(text), .. } => Some(text),
            _ => None,
        }
    }

    /// Bytes that are passed on as they are.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Content::Image { data, .. } | Content::Audio { data, .. } => Some(data),
            Content::Resource { body: Body::Bytes(data), .. } => Some(data),
            _ => None,
        }
    }

    /// What it is in a few words, where it is not text.
    pub fn summary(&self) -> Option<String> {
        match self {
            Content::Text(_) | Content::Resource { body: Body::Text(_), .. } => None,
            Content::Image { media_type, data } | Content::Audio { media_type, data } => {
                Some(format!("[{media_type}, {} bytes]", data.len()))
            }
            Content::Resource { uri, body: Body::Bytes(data), .. } => {
                Some(format!("[{uri}, {} bytes]", data.len()))
            }
            Content::Link { uri, name, .. } => Some(format!("[{name}: {uri}]")),
        }
    }
}

/// Whom a piece of content is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The model and the person who watches.
    #[default]
    Everyone,
    /// The model alone: it is not displayed.
    Model,
}

impl Reply {
    fn with_content(content: Vec<Block>) -> Self {
        Self {
            id: "".into(),
            name: "".into(),
            content,
            structured: None,
            is_error: false,
            is_object: false,
            fault: None,
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::with_content(vec![Block::text(text)])
    }

    /// A picture.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Self::with_content(vec![Block::image(media_type, data)])
    }

    /// Texts and pictures in their order.
    pub fn blocks(blocks: Vec<Block>) -> Self {
        Self::with_content(blocks)
    }

    /// A value whose JSON is also the text that the model reads.
    pub fn object(value: Value) -> Self {
        Self { structured: Some(value), is_object: true, ..Self::text("") }
    }

    /// A text that tells of a failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Marks the reply as telling of a failure.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Adds what a program wants to know.
    pub fn structured(mut self, value: impl Serialize) -> Self {
        self.structured = serde_json::to_value(value).ok();
        self
    }

    /// Adds a text that only the model reads.
    pub fn internal(mut self, text: impl Into<String>) -> Self {
        self.content.push(Block { audience: Audience::Model, ..Block::text(text) });
        self
    }

    /// Adds a piece of content.
    pub fn block(mut self, block: impl Into<Block>) -> Self {
        self.content.push(block.into());
        self
    }

    /// Makes the whole reply one that only the model reads.
    pub fn internal_only(mut self) -> Self {
        for block in &mut self.content {
            block.audience = Audience::Model;
        }
        self
    }

    /// Why the call failed, where the engine or the tool said so with a fault.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// All text of the reply, as the model reads it.
    pub fn full_text(&self) -> String {
        self.texts(|_| true)
    }

    /// The text that is displayed to people.
    pub fn display_text(&self) -> String {
        self.texts(|block| block.audience == Audience::Everyone)
    }

    fn texts(&self, wanted: impl Fn(&Block) -> bool) -> String {
        let mut all = String::new();
        for block in self.content.iter().filter(|block| wanted(block)) {
            if let Some(text) = block.content.text() {
                if !all.is_empty() {
                    all.push('\n');
                }
                all.push_str(text);
            }
        }
        all
    }

    /// The reply as one JSON object: `id`, `name`, `is_error`, `content` and `structured`.
    pub fn to_json(&self) -> Value {
        json!({
            "id": &*self.id,
            "name": &*self.name,
            "is_error": self.is_error,
            "content": self.content.iter().map(Block::to_json).collect::<Vec<_>>(),
            "structured": self.structured,
        })
    }
}

impl Block {
    /// A text for everyone.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// A picture for everyone.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Content::Image { media_type: media_type.into(), data }.into()
    }

    /// A sound for everyone.
    pub fn audio(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Content::Audio { media_type: media_type.into(), data }.into()
    }

    /// The block as the Model Context Protocol writes it.
    pub fn to_json(&self) -> Value {
        let mut value = match &self.content {
            Content::Text(text) => json!({"type": "text", "text": text}),
            Content::Image { media_type, data } => {
                json!({"type": "image", "data": BASE64.encode(data), "mimeType": media_type})
            }
            Content::Audio { media_type, data } => {
                json!({"type": "audio", "data": BASE64.encode(data), "mimeType": media_type})
            }
            Content::Resource { uri, media_type, body } => {
                let mut resource = json!({"uri": uri});
                match body {
                    Body::Text(text) => resource["text"] = json!(text),
                    Body::Bytes(data) => resource["blob"] = json!(BASE64.encode(data)),
                }
                set(&mut resource, "mimeType", media_type.as_deref());
                json!({"type": "resource", "resource": resource})
            }
            Content::Link { uri, name, media_type, description } => {
                let mut link = json!({"type": "resource_link", "uri": uri, "name": name});
                set(&mut link, "mimeType", media_type.as_deref());
                set(&mut link, "description", description.as_deref());
                link
            }
        };
        if self.audience == Audience::Model {
            value["annotations"] = json!({"audience": ["assistant"]});
        }
        value
    }
}

fn set(object: &mut Value, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        object[name] = json!(text);
    }
}

impl From<Content> for Block {
    fn from(content: Content) -> Self {
        Self { content, audience: Audience::Everyone, fits: false }
    }
}

impl From<FittedImage> for Block {
    fn from(picture: FittedImage) -> Self {
        Self { fits: true, ..Self::image(picture.media_type, picture.data) }
    }
}

/// What a tool made of a closure may return.
pub trait IntoReply {
    /// The reply, or the fault to be presented by the dialect.
    fn into_reply(self) -> Result<Reply, Fault>;
}

impl IntoReply for Reply {
    fn into_reply(self) -> Result<Reply, Fault> {
        Ok(self)
    }
}

impl IntoReply for String {
    fn into_reply(self) -> Result<Reply, Fault> {
        Ok(Reply::text(self))
    }
}

impl IntoReply for &str {
    fn into_reply(self) -> Result<Reply, Fault> {
        Ok(Reply::text(self))
    }
}

impl IntoReply for Value {
    fn into_reply(self) -> Result<Reply, Fault> {
        Ok(Reply::object(self))
    }
}

impl<T: IntoReply, E: Into<Fault>> IntoReply for Result<T, E> {
    fn into_reply(self) -> Result<Reply, Fault> {
        self.map_err(Into::into)?.into_reply()
    }
}
