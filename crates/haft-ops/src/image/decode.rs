//! Pictures that a model can be shown: decoded to be sure that they are whole, turned upright, and made
//! smaller where they are larger than models take. What already fits stays byte for byte. Everything is
//! bounded, because a few bytes of file may claim to be a picture of any size. Knows no replies.

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

/// A longer side is not decoded.
const MAX_DECODED_SIDE: u32 = 40_000;
/// How good a JPEG is made, at first and where the file is still too large.
const QUALITIES: [u8; 3] = [85, 70, 50];
/// A picture with more colours than this among those looked at is a photograph.
const FEW_COLOURS: usize = 1024;
/// How many pixels are looked at.
const LOOKED_AT: u32 = 128;

/// What a picture looks like, which says how it is best written.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    Drawing,
    Photograph,
}

/// The picture as a model can be shown it. Takes its time: call it where blocking is no harm.
pub(crate) fn fit(bytes: Vec<u8>) -> Result<Fitted, ImageProblem> {
    let format = format_of(&bytes).ok_or(ImageProblem::Unknown)?;
    let (picture, orientation) = decode(&bytes, format)?;
    let upright = turned(picture, orientation);
    let (width, height) = upright.dimensions();
    let fits = width.max(height) <= MAX_SIDE && bytes.len() <= MAX_BYTES;
    if fits && orientation == Orientation::NoTransforms {
        let media_type = type_of(format);
        let (original_width, original_height) = (width, height);
        return Ok(Fitted { media_type, bytes, width, height, original_width, original_height });
    }
    let look = if !upright.color().has_alpha() && has_many_colours(&upright) {
        Look::Photograph
    } else {
        Look::Drawing
    };
    let mut side = MAX_SIDE;
    loop {
        let small = if width.max(height) > side { upright.thumbnail(side, side) } else { upright.clone() };
        let (small_width, small_height) = small.dimensions();
        if let Some((format, bytes)) = encode(&small, look)? {
            return Ok(Fitted {
                media_type: type_of(format),
                bytes,
                width: small_width,
                height: small_height,
                original_width: width,
                original_height: height,
            });
        }
        // At so few pixels nothing is too large, so this ends.
        side = side.min(width.max(height)) / 2;
    }
}

fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    image_type(bytes).and_then(ImageFormat::from_mime_type)
}

fn type_of(format: ImageFormat) -> &'static str {
    format.to_mime_type()
}

/// The first frame, and how it is to be turned.
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

fn turned(mut picture: DynamicImage, orientation: Orientation) -> DynamicImage {
    picture.apply_orientation(orientation);
    picture
}

/// A screenshot or a drawing has few colours, and letters in it that JPEG would smear.
fn has_many_colours(picture: &DynamicImage) -> bool {
    let (width, height) = picture.dimensions();
    let mut colours = std::collections::HashSet::new();
    for y in 0..LOOKED_AT.min(height) {
        for x in 0..LOOKED_AT.min(width) {
            let (x, y) = (place(x, width), place(y, height));
            colours.insert(picture.get_pixel(x, y).0);
        }
    }
    colours.len() > FEW_COLOURS
}

/// Where one of the places that are looked at lies.
fn place(at: u32, length: u32) -> u32 {
    let places = LOOKED_AT.min(length);
    (u64::from(at) * u64::from(length) / u64::from(places)) as u32
}

/// The picture as a file, or nothing if there is no way to write it that is small enough.
fn encode(picture: &DynamicImage, look: Look) -> Result<Option<(ImageFormat, Vec<u8>)>, ImageProblem> {
    if look == Look::Drawing {
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

/// JPEG has no transparency: what is transparent becomes white, as on paper.
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
