//! Replacing in files that another process changes.

use std::sync::Arc;

use haft_core::{Call, Durability, Engine, Mode, Store, Workspace};
use haft_dialects as dialects;
use haft_journal::{Journal, Limits};
use serde_json::json;

#[tokio::test]
async fn nothing_is_replaced_when_a_file_has_changed_since_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("ws");
    std::fs::create_dir(&root).unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(root.join(name), "old\n").unwrap();
    }
    let workspace = Workspace::open(&root).unwrap();
    let journal =
        Journal::open(Store::at(dir.path().join("journal")), &workspace, Limits::default()).unwrap();
    let session = Engine::default().session(workspace).dialect(dialects::by_name("ally").unwrap());
    let session = session.mode(Mode::Bypass).journal(Arc::new(journal), Durability::Fast).start();
    let read = session.call(Call::new("1", "read", json!({"file_paths": ["a.txt", "b.txt"]}))).await;
    assert!(!read.is_error, "{}", read.full_text());
    std::fs::write(root.join("b.txt"), "old, and something new\n").unwrap();
    let replace = json!({"pattern": "old", "replace": "young"});
    let reply = session.call(Call::new("2", "grep", replace.clone())).await;
    assert!(reply.is_error && reply.full_text().contains("b.txt"), "{}", reply.full_text());
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "old\n");
    // After reading it again, everything is replaced.
    session.call(Call::new("3", "read", json!({"file_paths": ["b.txt"]}))).await;
    let reply = session.call(Call::new("4", "grep", replace)).await;
    assert!(!reply.is_error, "{}", reply.full_text());
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "young, and something new\n");
}
