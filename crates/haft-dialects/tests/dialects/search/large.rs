//! Files that are too large to be held in memory.

use haft_ops::Searching;
use serde_json::json;

use super::{call, session};

/// A line that is too long is searched in parts, and the start of a part must not match `^`.
#[tokio::test]
async fn the_middle_of_a_long_line_is_not_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let part = "x".repeat(4 << 20);
    std::fs::write(dir.path().join("long.txt"), format!("{part}y{part}{part} end\nlast\n")).unwrap();
    let session = session(dir.path(), "claude", Searching::default());
    for (pattern, found) in [("^y", ""), ("\\by", ""), ("^last", "long.txt:2:last"), ("xy", "long.txt:1:")] {
        let input = json!({"pattern": pattern, "output_mode": "content"});
        let text = call(&session, "Grep", &input).await.full_text();
        let expected = if found.is_empty() { "no match" } else { found };
        assert!(text.starts_with(expected), "{pattern}: {text}");
    }
}

#[tokio::test]
async fn a_file_too_large_for_multiline_search_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("large.txt"), "one\ntwo\n".repeat(2 << 20)).unwrap();
    std::fs::write(dir.path().join("small.txt"), "one\ntwo\n").unwrap();
    let session = session(dir.path(), "claude", Searching::default());
    let text = call(&session, "Grep", &json!({"pattern": "one\\ntwo", "multiline": true})).await.full_text();
    assert!(text.starts_with("small.txt\n") && text.contains("`large.txt` (too large"), "{text}");
}
