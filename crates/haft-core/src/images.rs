//! Pictures in replies. Decoding them is somebody else's work: an engine is given an [`ImageFitter`] for it. Without one a
//! picture is passed on by what its first bytes say, if it is not too large.

use crate::Fault;

/// The largest file of a picture that is passed on; as base64 it is a third more, which is what model APIs take.
pub const MAX_IMAGE_BYTES: usize = 3_932_160;

/// A picture that a model can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedImage {
    /// Such as `image/png`.
    pub media_type: String,
    /// The file's bytes, at most [`MAX_IMAGE_BYTES`].
    pub data: Vec<u8>,
}

/// Makes pictures ones that a model can be shown: whole, upright, and not larger than models take.
///
/// ```
/// use haft_core::images::{FittedImage, ImageFitter, image_type};
/// use haft_core::{Engine, Fault};
///
/// /// Passes on what is small.
/// struct Small;
///
/// impl ImageFitter for Small {
///     fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault> {
///         match image_type(&data) {
///             Some(media_type) if data.len() < 10_000 => Ok(FittedImage { media_type: media_type.to_owned(), data }),
///             _ => Err(Fault::failed("it is no small picture")),
///         }
///     }
/// }
///
/// let engine = Engine::builder().images(Small).build();
/// # drop(engine);
/// ```
pub trait ImageFitter: Send + Sync {
    /// The picture as a model can be shown it. The engine calls it on a thread that may block.
    fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault>;
}

/// What the first bytes of a file say that it is, if it is a picture that models can be shown.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// What an engine does that was given no other: it trusts the first bytes.
pub(crate) struct BySignature;

impl ImageFitter for BySignature {
    fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault> {
        match image_type(&data) {
            None => Err(Fault::failed("it is no PNG, JPEG, GIF or WebP picture")),
            Some(_) if data.len() > MAX_IMAGE_BYTES => {
                Err(Fault::failed(format!("it has {} bytes, and {MAX_IMAGE_BYTES} are the most", data.len())))
            }
            Some(media_type) => Ok(FittedImage { media_type: media_type.to_owned(), data }),
        }
    }
}
