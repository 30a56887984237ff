use ::image::codecs::gif::GifEncoder;
use ::image::codecs::webp::WebPEncoder;
use ::image::{ExtendedColorType, ImageEncoder as _, Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

fn written(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgb([(state >> 8) as u8, (state >> 16) as u8, (state >> 24) as u8])
    })
}

#[test]
fn an_image_that_fits_stays_byte_for_byte() {
    let plain = RgbImage::from_pixel(30, 20, Rgb([1, 2, 3]));
    let mut webp = Vec::new();
    WebPEncoder::new_lossless(&mut webp).write_image(&plain, 30, 20, ExtendedColorType::Rgb8).unwrap();
    let mut gif = Vec::new();
    GifEncoder::new(&mut gif).encode(&plain, 30, 20, ExtendedColorType::Rgb8).unwrap();
    for (bytes, media_type) in [
        (written(plain.clone(), ImageFormat::Png), "image/png"),
        (written(plain, ImageFormat::Jpeg), "image/jpeg"),
        (gif, "image/gif"),
        (webp, "image/webp"),
    ] {
        let fitted = fit(bytes.clone()).unwrap();
        assert_eq!((fitted.media_type, fitted.width, fitted.height), (media_type, 30, 20));
        assert_eq!(fitted.bytes, bytes);
    }
}

#[test]
fn a_large_image_is_scaled_and_keeps_its_aspect_ratio() {
    let drawing = written(RgbImage::from_pixel(4000, 100, Rgb([9, 9, 9])), ImageFormat::Png);
    let fitted = fit(drawing).unwrap();
    assert_eq!((fitted.media_type, fitted.width, fitted.height), ("image/png", 1568, 39));
    assert_eq!((fitted.original_width, fitted.original_height), (4000, 100));
    let photograph = fit(written(noise(1700, 300), ImageFormat::Png)).unwrap();
    assert_eq!((photograph.media_type, photograph.width), ("image/jpeg", 1568));
    assert!(photograph.bytes.len() <= MAX_BYTES);
    let clear = RgbaImage::from_pixel(2000, 10, Rgba([1, 2, 3, 0]));
    assert_eq!(fit(written(clear, ImageFormat::Png)).unwrap().media_type, "image/png");
}

#[test]
fn a_large_file_is_encoded_again_even_if_its_sides_fit() {
    let bytes = written(noise(1500, 900), ImageFormat::Png);
    assert!(bytes.len() > MAX_BYTES);
    let fitted = fit(bytes).unwrap();
    assert!(fitted.bytes.len() <= MAX_BYTES);
    assert_eq!((fitted.media_type, fitted.width), ("image/jpeg", 1500));
}

#[test]
fn exif_orientation_is_applied() {
    let jpeg = written(RgbImage::from_pixel(40, 20, Rgb([200, 0, 0])), ImageFormat::Jpeg);
    // APP1 with one EXIF entry: orientation 6, a quarter turn.
    let exif = b"\xFF\xE1\0\x22Exif\0\0MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let bytes = [&jpeg[..2], exif, &jpeg[2..]].concat();
    let fitted = fit(bytes).unwrap();
    assert_eq!((fitted.width, fitted.height), (20, 40));
}

#[test]
fn decompression_bombs_are_refused_before_decoding() {
    let mut png = written(RgbImage::from_pixel(1, 1, Rgb([0, 0, 0])), ImageFormat::Png);
    png[16..20].copy_from_slice(&50_000_u32.to_be_bytes());
    png[20..24].copy_from_slice(&50_000_u32.to_be_bytes());
    let checksum = crc(&png[12..29]);
    png[29..33].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(fit(png), Err(ImageProblem::TooLarge { width: 50_000, height: 50_000 }));
    let mut gif = b"GIF89a\xFF\xFF\xFF\xFF\0\0\0".to_vec();
    gif.extend_from_slice(b",\0\0\0\0\xFF\xFF\xFF\xFF\0\x02\x02L\x01\0;");
    assert_eq!(fit(gif), Err(ImageProblem::TooLarge { width: 65_535, height: 65_535 }));
}

#[test]
fn truncated_images_are_broken_and_other_files_unknown() {
    let png = written(noise(60, 60), ImageFormat::Png);
    for broken in [&png[..png.len() / 2], &png[..20], b"GIF89a", b"\xFF\xD8\xFF", b"RIFF\0\0\0\0WEBP"] {
        assert!(matches!(fit(broken.to_vec()), Err(ImageProblem::Broken(_))), "{:?}", fit(broken.to_vec()));
    }
    assert_eq!(fit(b"<svg/>".to_vec()), Err(ImageProblem::Unknown));
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_file_with_only_an_image_signature_is_broken() {
    for bytes in [b"\x89PNG\r\n\x1a\n rest".as_slice(), b"GIF89a"] {
        assert!(matches!(fit(bytes.to_vec()), Err(ImageProblem::Broken(_))));
    }
}

#[tokio::test]
async fn images_in_the_reply_of_any_tool_are_scaled_down() {
    use haft_core::replies::Content;
    use haft_core::{Call, Engine, Reply, Workspace, function};

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    let show = function("show", "Shows a picture", async |_: Nothing, _cx| {
        Reply::image("image/jpeg", written(noise(3000, 150), ImageFormat::Png))
    });
    let folder = tempfile::tempdir().unwrap();
    let session = Engine::builder()
        .images(crate::Images)
        .build()
        .session(Workspace::open(folder.path()).unwrap())
        .tool(show.read_only())
        .start();
    let reply = session.call(Call::new("1", "show", serde_json::json!({}))).await;
    let Content::Image { data, .. } = &reply.content[0].content else { panic!("{reply:?}") };
    let again = fit(data.clone()).unwrap();
    assert_eq!((again.width, again.height, again.original_width), (1568, 78, 1568));
}
