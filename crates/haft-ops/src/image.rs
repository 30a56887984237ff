//! Images for the model: the limits, the error type, and the fitter that the engine applies to every reply. Decoding is
//! the feature `images`; without it, images are refused.

#[cfg(feature = "images")]
mod decode;

use haft_core::Fault;
pub(crate) use haft_core::images::image_type;
use haft_core::images::{FittedImage, ImageFitter};

#[cfg(feature = "images")]
pub(crate) use decode::fit;

/// Longest side in pixels of an image that is sent unscaled; model APIs scale larger ones down themselves.
#[cfg(any(feature = "images", feature = "pdf"))]
pub(crate) const MAX_SIDE: u32 = 1568;
/// Maximum number of pixels of an image to decode.
const MAX_PIXELS: u64 = 64_000_000;
/// Maximum memory in bytes for decoding.
const MAX_MEMORY: u64 = 512 * 1024 * 1024;

/// An image that fits the limits of a model, scaled down if necessary.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// Media type, such as `image/png`.
    pub media_type: &'static str,
    /// The encoded image.
    pub bytes: Vec<u8>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Width before scaling, after applying the EXIF orientation.
    pub original_width: u32,
    /// Height before scaling, after applying the EXIF orientation.
    pub original_height: u32,
}

/// Why an image cannot be shown to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageProblem {
    /// The format is not supported.
    #[error("it is no PNG, JPEG, GIF or WebP picture")]
    Unknown,
    /// The header claims more pixels than are decoded.
    #[error("it claims to be {width}x{height} pixels, and at most {} million are decoded", MAX_PIXELS / 1_000_000)]
    TooLarge {
        /// Width in the header.
        width: u32,
        /// Height in the header.
        height: u32,
    },
    /// Decoding it would take too much memory.
    #[error("decoding it would take more than {} MB of memory", MAX_MEMORY / 1024 / 1024)]
    TooMuchMemory,
    /// The feature `images` is off.
    #[error("this program was built without the feature `images`")]
    Unsupported,
    /// The file is truncated or malformed.
    #[error("it is broken: {0}")]
    Broken(String),
}

/// Refuses every image: the feature `images` is off.
#[cfg(not(feature = "images"))]
pub(crate) fn fit(_bytes: Vec<u8>) -> Result<Fitted, ImageProblem> {
    Err(ImageProblem::Unsupported)
}

impl From<Fitted> for FittedImage {
    fn from(picture: Fitted) -> Self {
        Self { media_type: picture.media_type.to_owned(), data: picture.bytes }
    }
}

/// Fitter for the images in the replies of all tools: checks that they decode, and scales large ones down.
pub struct Images;

impl ImageFitter for Images {
    fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault> {
        fit(data).map(FittedImage::from).map_err(|problem| Fault::failed(problem.to_string()))
    }
}
