//! Fitting images to the limits of models: decodes them to be sure that they are intact, applies the EXIF orientation, and
//! scales large ones down. An image that already fits stays byte for byte. Pixels and memory are bounded, because a few
//! bytes can claim an image of any size. Knows nothing of replies.

#[cfg(test)]
mod tests;

use std::io::Cursor;

use ::image::codecs::jpeg::JpegEncoder;
use ::image::codecs::png::PngEncoder;
use ::image::metadata::Orientation;
use ::image::{
    DynamicImage, GenericImageView as _, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits,
};
use haft_core::images::{MAX_IMAGE_BYTES as MAX_BYTES, image_type};

use super::{Fitted, ImageProblem, MAX_MEMORY, MAX_PIXELS, MAX_SIDE};

/// Longest side in pixels of an image to decode.
const MAX_DECODED_SIDE: u32 = 40_000;
/// JPEG qualities, tried in turn until the file is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];
/// An image with more colours than this among the sampled pixels counts as a photograph.
const FEW_COLOURS: usize = 1024;
/// Number of sampled pixels along each side.
const SAMPLES: u32 = 128;

/// Kind of content, which decides the format: PNG for drawings, JPEG for photographs.
#[derive(Clone, Copy, PartialEq)]
enum ContentKind {
    Drawing,
    Photograph,
}

/// Fits an image to the limits of models. CPU-bound: call it on a blocking thread.
pub(crate) fn fit(bytes: Vec<u8>) -> Result<Fitted, ImageProblem> {
    let format = format_of(&bytes).ok_or(ImageProblem::Unknown)?;
    let (picture, orientation) = decode(&bytes, format)?;
    let upright = rotated(picture, orientation);
    let (width, height) = upright.dimensions();
    let fits = width.max(height) <= MAX_SIDE && bytes.len() <= MAX_BYTES;
    if fits && orientation == Orientation::NoTransforms {
        let media_type = type_of(format);
        let (original_width, original_height) = (width, height);
        return Ok(Fitted { media_type, bytes, width, height, original_width, original_height });
    }
    let kind = if !upright.color().has_alpha() && has_many_colours(&upright) {
        ContentKind::Photograph
    } else {
        ContentKind::Drawing
    };
    let mut side = MAX_SIDE;
    loop {
        let small = if width.max(height) > side { upright.thumbnail(side, side) } else { upright.clone() };
        let (small_width, small_height) = small.dimensions();
        if let Some((format, bytes)) = encode(&small, kind)? {
            return Ok(Fitted {
                media_type: type_of(format),
                bytes,
                width: small_width,
                height: small_height,
                original_width: width,
                original_height: height,
            });
        }
        // Terminates: halved often enough, any image is small enough.
        side = side.min(width.max(height)) / 2;
    }
}

fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    image_type(bytes).and_then(ImageFormat::from_mime_type)
}

fn type_of(format: ImageFormat) -> &'static str {
    format.to_mime_type()
}

/// Decodes the first frame, and reads the orientation from the metadata.
fn decode(bytes: &[u8], format: ImageFormat) -> Result<(DynamicImage, Orientation), ImageProblem> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(problem)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS || width.max(height) > MAX_DECODED_SIDE {
        return Err(ImageProblem::TooLarge { width, height });
    }
    if pixels == 0 {
        return Err(ImageProblem::Broken(format!("it claims to be {width}x{height} pixels")));
    }
    limits.reserve(decoder.total_bytes()).map_err(problem)?;
    decoder.set_limits(limits).map_err(problem)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((DynamicImage::from_decoder(decoder).map_err(problem)?, orientation))
}

fn problem(error: ImageError) -> ImageProblem {
    match error {
        ImageError::Limits(_) => ImageProblem::TooMuchMemory,
        error => ImageProblem::Broken(error.to_string()),
    }
}

fn rotated(mut picture: DynamicImage, orientation: Orientation) -> DynamicImage {
    picture.apply_orientation(orientation);
    picture
}

/// Heuristic for photographs: a screenshot or a drawing has few colours, and text that JPEG would blur.
fn has_many_colours(picture: &DynamicImage) -> bool {
    let (width, height) = picture.dimensions();
    let mut colours = std::collections::HashSet::new();
    for y in 0..SAMPLES.min(height) {
        for x in 0..SAMPLES.min(width) {
            let (x, y) = (sample_position(x, width), sample_position(y, height));
            colours.insert(picture.get_pixel(x, y).0);
        }
    }
    colours.len() > FEW_COLOURS
}

/// Coordinate of a sample along a side of this length.
fn sample_position(at: u32, length: u32) -> u32 {
    let samples = SAMPLES.min(length);
    (u64::from(at) * u64::from(length) / u64::from(samples)) as u32
}

/// Encodes an image; `None` if no format and quality make it small enough.
fn encode(picture: &DynamicImage, kind: ContentKind) -> Result<Option<(ImageFormat, Vec<u8>)>, ImageProblem> {
    if kind == ContentKind::Drawing {
        let mut bytes = Vec::new();
        let plain = if picture.color().has_alpha() {
            DynamicImage::ImageRgba8(picture.to_rgba8())
        } else {
            DynamicImage::ImageRgb8(picture.to_rgb8())
        };
        plain.write_with_encoder(PngEncoder::new(&mut bytes)).map_err(problem)?;
        if bytes.len() <= MAX_BYTES {
            return Ok(Some((ImageFormat::Png, bytes)));
        }
    }
    let plain = on_white(picture);
    for quality in QUALITIES {
        let mut bytes = Vec::new();
        plain.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, quality)).map_err(problem)?;
        if bytes.len() <= MAX_BYTES {
            return Ok(Some((ImageFormat::Jpeg, bytes)));
        }
    }
    Ok(None)
}

/// Blends transparent pixels with white, as JPEG has no transparency.
fn on_white(picture: &DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return DynamicImage::ImageRgb8(picture.to_rgb8());
    }
    let source = picture.to_rgba8();
    let mixed = ::image::RgbImage::from_fn(source.width(), source.height(), |x, y| {
        let [red, green, blue, alpha] = source.get_pixel(x, y).0;
        let mix = |colour: u8| {
            let alpha = u32::from(alpha);
            ((u32::from(colour) * alpha + 255 * (255 - alpha)) / 255) as u8
        };
        ::image::Rgb([mix(red), mix(green), mix(blue)])
    });
    DynamicImage::ImageRgb8(mixed)
}
