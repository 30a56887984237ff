//! Searching through the public interface: against ripgrep itself, page by page, and stopped on the way.

mod against_rg;
mod large;
mod pages;
mod replacing;
mod stopping;
mod tree;

use std::path::Path;

use haft_core::{Call, Engine, Mode, Reply, Session, Workspace};
use haft_dialects as dialects;
use haft_ops::Searching;
use serde_json::Value;

/// A session that speaks a dialect in a folder.
fn session(folder: &Path, dialect: &str, searching: Searching) -> Session {
    let workspace = Workspace::open(folder).unwrap();
    let dialect = dialects::by_name(dialect).unwrap();
    let session = Engine::default().session(workspace).dialect(dialect).mode(Mode::Bypass);
    session.extension(searching).start()
}

async fn call(session: &Session, tool: &str, input: &Value) -> Reply {
    let reply = session.call(Call::new("call", tool, input.clone())).await;
    assert!(!reply.is_error, "{input}: {}", reply.full_text());
    reply
}

/// The lines of a reply without notes, and the offset to continue with.
fn lines(reply: &Reply) -> (Vec<String>, Option<u64>) {
    let structured = reply.structured.as_ref().unwrap();
    let next = structured["next_offset"].as_u64();
    let entries = |name: &str| structured[name].as_array().cloned().unwrap_or_default();
    let found: Vec<String> = match structured["mode"].as_str() {
        Some("files_with_matches" | "count") => entries("files").iter().map(ToString::to_string).collect(),
        Some(_) if structured["entries"] == 0 => Vec::new(),
        Some(_) => reply.display_text().lines().filter(|line| *line != "--").map(str::to_owned).collect(),
        None => entries("matches").iter().map(ToString::to_string).collect(),
    };
    (found, next)
}

/// All pages of a search.
async fn all_pages(session: &Session, tool: &str, input: &Value) -> Vec<String> {
    let mut input = input.clone();
    let mut all = Vec::new();
    loop {
        let (found, next) = lines(&call(session, tool, &input).await);
        all.extend(found);
        match next {
            Some(next) => input["offset"] = next.into(),
            None => return all,
        }
    }
}
