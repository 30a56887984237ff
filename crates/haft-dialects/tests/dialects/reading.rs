//! What a read shows of a text, in whichever form the text is.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use haft_core::replies::Content;
use haft_core::{Call, Engine, Reply, Session, Workspace};
use proptest::prelude::*;
use serde_json::{Value, json};

use haft_dialects::Claude;

fn session(folder: &Path) -> Session {
    Engine::default().session(Workspace::open(folder).unwrap()).dialect(Arc::new(Claude)).start()
}

fn read(session: &Session, input: Value) -> Reply {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(session.call(Call::new("1", "Read", input)))
}

fn first_text(reply: &Reply) -> &str {
    match &reply.content[0].content {
        Content::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The expected reply for a window of lines.
fn window(text: &str, start: usize, count: usize) -> String {
    let mut out = String::new();
    for (at, line) in text.split_terminator('\n').enumerate().skip(start - 1).take(count) {
        let _ = writeln!(out, "{:6}\t{line}", at + 1);
    }
    out.pop();
    out
}

fn in_utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(unit).collect()
}

fn any_text() -> impl Strategy<Value = String> {
    let line = "[^\\x00-\\x08\\x0a-\\x1f\\x7f\u{feff}\u{fffe}]{0,30}";
    (prop::collection::vec(line, 1..30), 1_usize..200).prop_map(|(lines, times)| {
        let mut text = lines.join("\n");
        text.insert_str(0, "first ");
        text.push_str(" é\n");
        text.repeat(times)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every form of Unicode, in files smaller and larger than a chunk.
    #[test]
    fn lines_come_back_as_they_were_written(
        text in any_text(),
        form in 0..4,
        crlf in any::<bool>(),
        start in any::<prop::sample::Index>(),
        count in 1_usize..50,
    ) {
        let written = if crlf { text.replace('\n', "\r\n") } else { text.clone() };
        let bytes = match form {
            0 => written.into_bytes(),
            1 => format!("\u{feff}{written}").into_bytes(),
            2 => in_utf16(&written, u16::to_le_bytes),
            _ => in_utf16(&written, u16::to_be_bytes),
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), &bytes).unwrap();
        let start = start.index(text.split_terminator('\n').count()) + 1;
        let reply = read(&session(folder.path()), json!({"file_path": "f", "offset": start, "limit": count}));
        prop_assert_eq!(first_text(&reply), window(&text, start, count));
        let name = ["UTF-8", "UTF-8", "UTF-16LE", "UTF-16BE"][form as usize];
        prop_assert_eq!(&reply.structured.unwrap()["encoding"], name);
    }

    /// Legacy encodings, which are detected from the content.
    #[test]
    fn legacy_lines_come_back_as_they_were_written(which in 0..4_usize, times in 1_usize..3000, start in 1_usize..4, count in 1_usize..20) {
        let (encoding, text) = [
            (encoding_rs::WINDOWS_1251, "Съешь ещё этих мягких французских булок,\nда выпей чаю.\nВторая строка текста\n"),
            (encoding_rs::WINDOWS_1252, "Le cœur déçu mais l'âme plutôt naïve,\nLouÿs rêva de crapaüter en canoë\nau delà des îles\n"),
            (encoding_rs::SHIFT_JIS, "いろはにほへと ちりぬるを\nわかよたれそ つねならむ\nうゐのおくやま けふこえて\n"),
            (encoding_rs::GBK, "天地玄黄，宇宙洪荒。\n日月盈昃，辰宿列张。\n寒来暑往，秋收冬藏。\n"),
        ][which];
        let text = text.repeat(times);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), encoding.encode(&text).0).unwrap();
        let reply = read(&session(folder.path()), json!({"file_path": "f", "offset": start, "limit": count}));
        let expected = window(&text, start, count);
        if !expected.is_empty() {
            prop_assert_eq!(first_text(&reply), expected);
        }
    }
}

#[test]
fn a_terabyte_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, head, told) in [
        ("zeros", &b""[..], "is a binary file"),
        ("large.pdf", b"%PDF-1.7\n", "at most 67108864 can be read"),
        ("large.png", b"\x89PNG\r\n\x1a\n", "at most 67108864 can be read"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, head).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // Not every file system supports files this large.
        if file.set_len(1 << 40).is_ok() {
            let reply = read(&session(folder.path()), json!({"file_path": name}));
            assert!(first_text(&reply).contains(told), "{}", reply.full_text());
        }
    }
}
