//! A cancelled search ends; one that times out says so, and can be continued.

use std::time::Duration;

use haft_core::Call;
use haft_core::events::EventKind;
use haft_ops::Searching;
use serde_json::{Value, json};

use super::tree::Tree;
use super::{all_pages, call, lines, session};

fn no_time() -> Searching {
    Searching { time: Duration::ZERO, ..Searching::default() }
}

/// A tree that is slow to search and quick to create: one large file with many hard links.
fn long_search() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let line = "the quick brown fox jumps over the lazy dog, and over and over again\n";
    std::fs::write(dir.path().join("0.txt"), line.repeat(500_000)).unwrap();
    for copy in 1..500 {
        std::fs::hard_link(dir.path().join("0.txt"), dir.path().join(format!("{copy}.txt"))).unwrap();
    }
    dir
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_is_cancelled_ends() {
    let dir = long_search();
    for (dialect, tool) in [("claude", "Grep"), ("ally", "grep"), ("cdd", "grep")] {
        let session = session(dir.path(), dialect, Searching::default());
        let mut progress = session.engine().activity().subscribe_to(&[EventKind::Progress]);
        let mut turn = session.turn();
        let handle = turn.submit(Call::new("call", tool, json!({"pattern": "(q|d)\\w+ .*[0-9]$"})));
        turn.seal();
        let told = progress.next().await.unwrap();
        let haft_core::events::EventPayload::Progress(told) = &told.payload else { panic!("{told:?}") };
        assert!(told.done < 500 && told.message.ends_with("files searched"), "{told:?}");
        handle.cancel();
        let reply = turn.finish().await.remove(0);
        assert!(reply.is_error && reply.full_text().contains("cancelled"), "{}", reply.full_text());
    }
}

/// Continuing to the end gives every match exactly once, even with a time limit of zero.
#[tokio::test]
async fn a_search_without_time_gets_to_the_end() {
    let tree = Tree::new(7);
    let searches = [
        ("claude", "Grep", json!({"pattern": "a", "output_mode": "content", "-C": 1})),
        ("claude", "Grep", json!({"pattern": "a"})),
        ("claude", "Grep", json!({"pattern": "a", "output_mode": "count"})),
        ("claude", "Grep", json!({"pattern": "there is no such text"})),
        ("ally", "grep", json!({"pattern": "a"})),
        ("cdd", "grep", json!({"pattern": "a"})),
    ];
    for (dialect, tool, input) in searches {
        let whole = all_pages(&session(&tree.root(), dialect, Searching::default()), tool, &input).await;
        let hurried = session(&tree.root(), dialect, no_time());
        let first = call(&hurried, tool, &input).await;
        let (_, next) = lines(&first);
        assert!(next.is_some() && first.full_text().contains("the time was up"), "{}", first.full_text());
        assert_eq!(all_pages(&hurried, tool, &input).await, whole, "{dialect}: {input}");
    }
}

/// A file too large to be read whole is searched to its end, too.
#[tokio::test]
async fn a_large_file_is_searched_without_time() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(name), "some text\n".repeat(300_000) + name + " is found\n").unwrap();
    }
    let session = session(dir.path(), "claude", no_time());
    let found = all_pages(&session, "Grep", &json!({"pattern": "found", "output_mode": "content"})).await;
    assert_eq!(found, ["a", "b", "c"].map(|name| format!("{name}:300001:{name} is found")));
}

#[tokio::test]
async fn an_incomplete_search_for_names_says_so() {
    let tree = Tree::new(8);
    for (dialect, tool) in [("claude", "Glob"), ("ally", "glob"), ("cdd", "glob")] {
        let reply = call(&session(&tree.root(), dialect, no_time()), tool, &json!({"pattern": "**/*"})).await;
        assert!(reply.full_text().contains("the time was up"), "{}", reply.full_text());
    }
}

#[tokio::test]
async fn nothing_is_replaced_when_there_is_no_time_to_see_everything() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["a", "b", "c"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join("x.txt"), "old\n").unwrap();
    }
    let session = session(dir.path(), "ally", no_time());
    let input: Value = json!({"pattern": "old", "replace": "new", "preview_replace": true});
    let reply = session.call(Call::new("call", "grep", input)).await;
    assert!(reply.is_error && reply.full_text().contains("not finished in time"), "{}", reply.full_text());
}
