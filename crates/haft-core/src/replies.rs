//! Replies: the result of a call, as blocks of content for the model and a structured value for programs. A tool builds
//! one; the engine adds the id of the call and cuts it to its limit.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Fault;
use crate::images::FittedImage;

/// The result of a call: content for the model, a structured value for programs, and whether the call failed.
///
/// ```
/// use haft_core::Reply;
/// use serde_json::json;
///
/// let reply = Reply::text("3 words").structured(json!({"words": 3})).internal("counted by spaces");
/// assert_eq!(reply.display_text(), "3 words");
/// assert_eq!(reply.full_text(), "3 words\ncounted by spaces");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The id of the call; set by the engine.
    pub id: Arc<str>,
    /// The name of the tool that was called; set by the engine.
    pub name: Arc<str>,
    /// The content, which the model reads.
    pub content: Vec<Block>,
    /// The structured value, which programs read.
    pub structured: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether the text is the JSON of the structured value, which the engine writes once the value is final.
    pub(crate) is_object: bool,
    /// The fault that the reply presents.
    pub(crate) fault: Option<Fault>,
}

/// A block of content with its audience.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The content.
    pub content: Content,
    /// Who reads it.
    pub audience: Audience,
    /// Whether the content is an image that was checked and fits into the limits of model APIs.
    pub(crate) fits: bool,
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// The file's bytes.
        data: Vec<u8>,
    },
    /// An audio file.
    Audio {
        /// Such as `audio/wav`.
        media_type: String,
        /// The file's bytes.
        data: Vec<u8>,
    },
    /// A resource with its content.
    Resource {
        /// The resource's address.
        uri: String,
        /// Such as `text/plain`.
        media_type: Option<String>,
        /// The resource's content.
        body: Body,
    },
    /// A link to a resource.
    Link {
        /// The resource's address.
        uri: String,
        /// The resource's name.
        name: String,
        /// Such as `text/plain`.
        media_type: Option<String>,
        /// A description in one sentence.
        description: Option<String>,
    },
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// Text.
    Text(String),
    /// Binary data.
    Bytes(Vec<u8>),
}

impl Content {
    /// The text, if the content is text.
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

    /// The binary data, if the content is binary.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Content::Image { data, .. } | Content::Audio { data, .. } => Some(data),
            Content::Resource { body: Body::Bytes(data), .. } => Some(data),
            _ => None,
        }
    }

    /// A summary in a few words, if the content is not text.
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

/// Who reads a block of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// The model and the user.
    #[default]
    Everyone,
    /// The model only; the block is not displayed.
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

    /// A reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::with_content(vec![Block::text(text)])
    }

    /// A reply of one image.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Self::with_content(vec![Block::image(media_type, data)])
    }

    /// A reply of several blocks.
    pub fn blocks(blocks: Vec<Block>) -> Self {
        Self::with_content(blocks)
    }

    /// A reply of a structured value, whose JSON is also the text that the model reads.
    pub fn object(value: Value) -> Self {
        Self { structured: Some(value), is_object: true, ..Self::text("") }
    }

    /// Whether the text that the model reads is the JSON of the structured value.
    pub fn is_object(&self) -> bool {
        self.is_object
    }

    /// The structured value, if its JSON is the text that the model reads: see [`Reply::object`].
    pub fn as_object(&self) -> Option<&Value> {
        self.structured.as_ref().filter(|_| self.is_object)
    }

    /// A reply that reports a failure as text.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Marks the reply as a failure.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Sets the structured value.
    pub fn structured(mut self, value: impl Serialize) -> Self {
        self.structured = serde_json::to_value(value).ok();
        self
    }

    /// Adds a text block that only the model reads.
    pub fn internal(mut self, text: impl Into<String>) -> Self {
        self.content.push(Block { audience: Audience::Model, ..Block::text(text) });
        self
    }

    /// Adds a block.
    pub fn block(mut self, block: impl Into<Block>) -> Self {
        self.content.push(block.into());
        self
    }

    /// Restricts the whole reply to the model: none of it is displayed.
    pub fn internal_only(mut self) -> Self {
        for block in &mut self.content {
            block.audience = Audience::Model;
        }
        self
    }

    /// The fault, if the call failed with one.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// All text of the reply, as the model reads it.
    pub fn full_text(&self) -> String {
        self.texts(|_| true)
    }

    /// The text that is displayed to the user.
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
    /// A text block for everyone.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// An image block for everyone.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Content::Image { media_type: media_type.into(), data }.into()
    }

    /// An audio block for everyone.
    pub fn audio(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Content::Audio { media_type: media_type.into(), data }.into()
    }

    /// The block in the JSON format of the Model Context Protocol.
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

/// Types that the closure of a [`function`](crate::function) may return: text, JSON, a [`Reply`], and results of these.
///
/// ```
/// use haft_core::replies::IntoReply;
/// use haft_core::{Fault, Reply};
///
/// struct Celsius(f64);
///
/// impl IntoReply for Celsius {
///     fn into_reply(self) -> Result<Reply, Fault> {
///         Ok(Reply::text(format!("{:.1} °C", self.0)))
///     }
/// }
///
/// assert_eq!(Celsius(21.46).into_reply()?.full_text(), "21.5 °C");
/// # Ok::<(), Fault>(())
/// ```
pub trait IntoReply {
    /// Converts the value into a reply, or a fault that the dialect presents.
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
