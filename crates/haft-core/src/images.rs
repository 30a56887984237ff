//! Images in replies. Before a model sees an image, an [`ImageFitter`] checks it and scales it down. The engine's default
//! fitter does not decode images: it accepts those of a known format that are not too large.

use crate::Fault;

/// The largest image file in a reply, in bytes. In base64 it is a third larger, which is the limit of model APIs.
pub const MAX_IMAGE_BYTES: usize = 3_932_160;

/// An image that fits into the limits of model APIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedImage {
    /// Such as `image/png`.
    pub media_type: String,
    /// The file's bytes, at most [`MAX_IMAGE_BYTES`].
    pub data: Vec<u8>,
}

/// Checks and converts images so that they fit into the limits of model APIs.
///
/// ```
/// use haft_core::images::{FittedImage, ImageFitter, image_type};
/// use haft_core::{Engine, Fault};
///
/// /// Accepts only small images.
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
    /// Converts an image file. The engine calls it on a blocking thread.
    fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault>;
}

/// The media type of an image, by the first bytes of the file; `None` if models do not accept the format.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The default fitter: checks the first bytes and the size, and decodes nothing.
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
