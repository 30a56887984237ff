//! Bytes to text: by a byte order mark, the declared charset, the document's own declaration, or a guess. A declaration
//! that the bytes contradict is not followed.

use encoding_rs::{Encoding, REPLACEMENT, UTF_8};
use haft_text::{Charset, Guess};

/// Bytes at the start of a document in which its own declaration is looked for.
const HEAD_BYTES: usize = 4 * 1024;

/// Decodes a text; bytes that are no characters become U+FFFD. Says in `notes` what is unusual.
pub(super) fn decode(bytes: &[u8], declared: Option<&str>, notes: &mut Vec<String>) -> String {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned();
    }
    let known =
        |label: &str| Encoding::for_label(label.trim().as_bytes()).filter(|found| *found != REPLACEMENT);
    let declared_encoding = declared.and_then(known);
    if let (Some(label), None) = (declared, declared_encoding) {
        let label: String = label.chars().take(40).collect();
        notes.push(format!(
            "it says that its charset is `{}`, which does not exist",
            crate::fence::scrub(&label).0
        ));
    }
    let encoding = declared_encoding.or_else(|| own_declaration(bytes).and_then(|label| known(&label)));
    let guessed = || match haft_text::guess(bytes) {
        Guess::Text(Charset::Utf8, _) | Guess::Binary => UTF_8,
        Guess::Text(Charset::Utf16Le, _) => encoding_rs::UTF_16LE,
        Guess::Text(Charset::Utf16Be, _) => encoding_rs::UTF_16BE,
        Guess::Text(Charset::Legacy(encoding), _) => encoding,
    };
    let Some(encoding) = encoding else {
        return guessed().decode_without_bom_handling(bytes).0.into_owned();
    };
    let (text, is_broken) = encoding.decode_without_bom_handling(bytes);
    if !is_broken {
        return text.into_owned();
    }
    let better = guessed();
    let (again, is_still_broken) = better.decode_without_bom_handling(bytes);
    if better != encoding && !is_still_broken {
        notes.push(format!(
            "it says that its charset is {}, and is read as {}",
            encoding.name(),
            better.name()
        ));
        return again.into_owned();
    }
    notes.push(format!("some bytes are no {} and are shown as \u{fffd}", encoding.name()));
    text.into_owned()
}

/// The charset that a document names itself: in `<meta charset>`, `<meta http-equiv>` or `<?xml encoding?>`.
fn own_declaration(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let name = if head.trim_start().starts_with("<?xml") { "encoding" } else { "charset" };
    let declared = head.find(name).and_then(|at| {
        let rest = head[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let rest = rest.trim_start_matches(['"', '\'']);
        Some(rest[..rest.find(['"', '\'', ' ', ';', '>', '/', '?'])?].to_owned())
    });
    // A declaration that can be read as ASCII is not in UTF-16, whatever it says.
    declared.filter(|label| !label.starts_with("utf-16") && !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], declared: Option<&str>) -> (String, usize) {
        let mut notes = Vec::new();
        (decode(bytes, declared, &mut notes), notes.len())
    }

    #[test]
    fn charsets_are_declared_marked_or_guessed() {
        assert_eq!(decoded("né".as_bytes(), None), ("né".into(), 0));
        assert_eq!(decoded(b"n\xe9", Some("ISO-8859-1")), ("né".into(), 0));
        assert_eq!(decoded(b"\x93\xfa\x96\x7b", Some("shift_jis")), ("日本".into(), 0));
        assert_eq!(decoded(b"\xff\xfea\0", Some("utf-8")), ("a".into(), 0));
        assert_eq!(decoded(b"<meta charset=windows-1251>\xcf", None).0, "<meta charset=windows-1251>П");
        let xml = b"<?xml version=\"1.0\" encoding=\"koi8-r\"?>\xf0";
        assert_eq!(decoded(xml, None).0, "<?xml version=\"1.0\" encoding=\"koi8-r\"?>П");
    }

    #[test]
    fn lies_about_charsets_do_no_harm() {
        assert_eq!(decoded("né".as_bytes(), Some("bogus-8")), ("né".into(), 1));
        assert_eq!(decoded(b"<meta charset=utf-16>x", None).0, "<meta charset=utf-16>x");
        assert_eq!(decoded(b"x", Some("iso-2022-kr")), ("x".into(), 1));
        let japanese = "\u{65e5}\u{672c}\u{8a9e}の文章です。".repeat(20);
        let (shift_jis, _, _) = encoding_rs::SHIFT_JIS.encode(&japanese);
        assert_eq!(decoded(&shift_jis, Some("utf-8")), (japanese, 1));
        let (text, notes) = decoded(b"a\xff\xfe\xfdb", Some("utf-8"));
        assert!(text.starts_with('a') && text.ends_with('b') && notes == 1, "{text}");
    }
}
