//! Pictures that a model can be shown. What decodes them is a feature of its own; without it they are refused.

#[cfg(feature = "images")]
mod decode;

use haft_core::Fault;
pub(crate) use haft_core::images::image_type;
use haft_core::images::{FittedImage, ImageFitter};

#[cfg(feature = "images")]
pub(crate) use decode::fit;

/// The longest side, in pixels, of a picture that is shown as it is; larger ones are scaled by models anyway.
#[cfg(any(feature = "images", feature = "pdf"))]
pub(crate) const MAX_SIDE: u32 = 1568;
/// More pixels are not decoded.
const MAX_PIXELS: u64 = 64_000_000;
/// More memory is not taken for decoding.
const MAX_MEMORY: u64 = 512 * 1024 * 1024;

/// A picture that fits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// Such as `image/png`.
    pub media_type: &'static str,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Its width before, turned upright.
    pub original_width: u32,
    /// Its height before, turned upright.
    pub original_height: u32,
}

/// Why a picture cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageProblem {
    /// It is nothing that can be shown.
    #[error("it is no PNG, JPEG, GIF or WebP picture")]
    Unknown,
    /// It claims to be larger than anything that is decoded.
    #[error("it claims to be {width}x{height} pixels, and at most {} million are decoded", MAX_PIXELS / 1_000_000)]
    TooLarge {
        /// How wide it says it is.
        width: u32,
        /// How high it says it is.
        height: u32,
    },
    /// Decoding it would take too much memory.
    #[error("decoding it would take more than {} MB of memory", MAX_MEMORY / 1024 / 1024)]
    TooMuchMemory,
    /// There is nothing here to decode it.
    #[error("this program was built without the feature `images`")]
    Unsupported,
    /// It is not whole, or not well-formed.
    #[error("it is broken: {0}")]
    Broken(String),
}

/// Says that nothing here decodes pictures.
#[cfg(not(feature = "images"))]
pub(crate) fn fit(_bytes: Vec<u8>) -> Result<Fitted, ImageProblem> {
    Err(ImageProblem::Unsupported)
}

impl From<Fitted> for FittedImage {
    fn from(picture: Fitted) -> Self {
        Self { media_type: picture.media_type.to_owned(), data: picture.bytes }
    }
}

/// Decodes the pictures in the replies of all tools, and makes them smaller where they are too large.
pub struct Images;

impl ImageFitter for Images {
    fn fit(&self, data: Vec<u8>) -> Result<FittedImage, Fault> {
        fit(data).map(FittedImage::from).map_err(|problem| Fault::failed(problem.to_string()))
    }
}
