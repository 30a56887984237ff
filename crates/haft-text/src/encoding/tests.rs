use encoding_rs::{GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};

use super::*;

fn source(bytes: &[u8]) -> Source {
    Source::new(bytes.to_vec()).unwrap()
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn unicode_is_detected_by_its_mark_or_its_content() {
    let text = "plain text, é and 日本 \u{1f600}\n";
    for (bytes, charset, marked) in [
        (text.as_bytes().to_vec(), Charset::Utf8, false),
        ([b"\xEF\xBB\xBF", text.as_bytes()].concat(), Charset::Utf8, true),
        ([b"\xFF\xFE".to_vec(), utf16(text, u16::to_le_bytes)].concat(), Charset::Utf16Le, true),
        ([b"\xFE\xFF".to_vec(), utf16(text, u16::to_be_bytes)].concat(), Charset::Utf16Be, true),
        (utf16(&"plain text\r\n".repeat(9), u16::to_le_bytes), Charset::Utf16Le, false),
        (utf16(&"plain text\r\n".repeat(9), u16::to_be_bytes), Charset::Utf16Be, false),
    ] {
        let source = source(&bytes);
        assert_eq!((source.charset(), source.marked(), source.undecodable()), (charset, marked, 0));
        assert!(source.text().starts_with("plain text"));
        assert_eq!(source.bytes(), bytes);
    }
}

#[test]
fn legacy_encodings_are_guessed_and_written() {
    for (encoding, text) in [
        (WINDOWS_1252, "Le café est très bon, déjà goûté à Besançon\n"),
        (WINDOWS_1251, "Съешь ещё этих мягких французских булок\n"),
        (SHIFT_JIS, "これは日本語のテキストです。ソフトウェア表示\n"),
        (GBK, "这是一个中文文本文件，用于测试编码检测\n"),
    ] {
        let source = source(&encoding.encode(text).0);
        assert_eq!(source.charset().to_string(), encoding.name());
        assert_eq!(source.text(), text);
        assert_eq!(source.encode(text).unwrap(), source.bytes());
        let far = source.encode("\u{1f600}").unwrap_err();
        assert!(far.to_string().contains("cannot be written in"), "{far}");
    }
}

#[test]
fn a_character_written_as_another_one_is_refused() {
    let source = source(&SHIFT_JIS.encode("これは日本語のテキストです。\n").0);
    assert!(matches!(source.encode("\u{a5}"), Err(Unwritable::Character { char: '\u{a5}', .. })));
}

#[test]
fn damaged_utf8_stays_utf8() {
    let source = source("naïve café\nbro\u{0}ken\n".replace('\0', "").as_bytes());
    assert_eq!(source.undecodable(), 0);
    let source = Source::new(b"na\xC3\xAFve caf\xC3\xA9 bro\xFFken\n".to_vec()).unwrap();
    assert_eq!((source.charset(), source.undecodable()), (Charset::Utf8, 1));
    assert_eq!(source.text(), "naïve café bro\u{fffd}ken\n");
    assert_eq!(source.encode("é").unwrap(), "é".as_bytes());
    assert!(matches!(source.encode("\u{fffd}"), Err(Unwritable::Guessed { char: '\u{fffd}', .. })));
}

#[test]
fn binary_data_is_no_text() {
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0".to_vec();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01".to_vec();
    let nul = b"text with\0a NUL\n".to_vec();
    let wide = b"\xFF\xFE\0\0a\0\0\0".to_vec();
    let noise: Vec<u8> = (0..400_u32).map(|n| (n * 37 % 31 + 1) as u8).collect();
    for bytes in [elf, png, nul, wide, noise, b"\xFF\xFEa\0\0\0b\0".to_vec()] {
        assert_eq!(Source::new(bytes.clone()).unwrap_err(), Binary(bytes));
    }
    assert_eq!(source(b"").text(), "");
    assert_eq!(source(b"\x1b[31mred\x1b[0m\n").charset(), Charset::Utf8);
}

#[test]
fn line_ends_are_counted() {
    let of = |text: &str| (source(text.as_bytes()).ending(), source(text.as_bytes()).final_newline());
    assert_eq!(of("a\r\nb\r\nc\n"), (Ending::CrLf, true));
    assert_eq!(of("a\nb\r\nc"), (Ending::Lf, false));
    assert_eq!(of("a\rb\r"), (Ending::Cr, true));
    assert_eq!(of("a\rb\n"), (Ending::Lf, true));
    assert_eq!(of(""), (Ending::Lf, false));
    assert!(source(b"a\r\nb\n").endings().mixed());
}
