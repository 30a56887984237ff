//! haft's own resources: the session's changes (`haft://journal`) and its replies that were too long to send whole
//! (`haft://results`). A client sees those of its own session only.

use haft_core::{AbsPath, Session};
use haft_journal::{Entry, EntryState};
use rmcp::ErrorData;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::host::SessionHost;

/// The URI of the session's list of changes.
pub(super) const JOURNAL: &str = "haft://journal";
const RESULTS: &str = "haft://results";
/// How many journal entries are searched for the session's own.
const MAX_ENTRIES: usize = 1000;
/// The largest result, in bytes, that is sent.
const MAX_RESULT: u64 = 4 * 1024 * 1024;

/// Runs file access on the blocking pool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorData> + Send + 'static,
) -> Result<T, ErrorData> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
    }
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("haft://journal/{number}", "change")
            .with_description("What a change did, as a diff")
            .with_mime_type("text/x-diff"),
        ResourceTemplate::new("haft://results/{name}", "result")
            .with_description("A reply that was too long, whole")
            .with_mime_type("text/plain"),
    ]
}

pub(super) fn list(host: &dyn SessionHost, session: &Session, id: &str) -> Result<Vec<Resource>, ErrorData> {
    let journal = Resource::new(JOURNAL, "journal")
        .with_description("What this session has changed, the newest first")
        .with_mime_type("application/json");
    let mut all = vec![journal];
    for entry in entries(session)? {
        let number = entry.number;
        all.push(
            Resource::new(format!("{JOURNAL}/{number}"), format!("change {number}"))
                .with_description(touched(session, &entry).join(" "))
                .with_mime_type("text/x-diff"),
        );
    }
    let mut results = host.results().entries().map_err(failed)?;
    results.retain(|result| is_own(&result.name, id));
    results.sort_by_key(|result| std::cmp::Reverse(result.modified));
    for result in results {
        all.push(
            Resource::new(format!("{RESULTS}/{}", result.name), result.name)
                .with_mime_type("text/plain")
                .with_size(result.size),
        );
    }
    Ok(all)
}

pub(super) fn read(
    host: &dyn SessionHost,
    session: &Session,
    id: &str,
    uri: &str,
) -> Result<ResourceContents, ErrorData> {
    let unknown = || unknown(uri);
    if uri == JOURNAL {
        let rows: Vec<Value> = entries(session)?.iter().map(|entry| row(session, entry)).collect();
        let text = serde_json::to_string_pretty(&rows).map_err(failed)?;
        return Ok(ResourceContents::text(text, uri).with_mime_type("application/json"));
    }
    if let Some(number) = uri.strip_prefix("haft://journal/") {
        let number: u64 = number.parse().map_err(|_| unknown())?;
        let entry = session.journal().and_then(|journal| journal.entry(number).ok()).ok_or_else(unknown)?;
        if entry.session != **session.id() {
            return Err(unknown());
        }
        let diff = host.diff(session, &entry).map_err(failed)?;
        return Ok(ResourceContents::text(diff, uri).with_mime_type("text/x-diff"));
    }
    let name = uri.strip_prefix("haft://results/").filter(|name| is_own(name, id)).ok_or_else(unknown)?;
    let results = host.results();
    let result = results.entries().map_err(failed)?.into_iter().find(|result| result.name == name);
    match result {
        None => Err(unknown()),
        Some(result) if result.size > MAX_RESULT => Err(ErrorData::invalid_params(
            format!("`{name}` has {} bytes: read a part of it with a tool", result.size),
            Some(json!({"path": results.path(name)})),
        )),
        Some(_) => {
            let bytes = results.read(name).map_err(failed)?.ok_or_else(unknown)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(ResourceContents::text(text, uri).with_mime_type("text/plain"))
        }
    }
}

/// The error for an unknown URI.
pub(super) fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("there is no `{uri}`"), Some(json!({"uri": uri})))
}

/// Whether a result belongs to a conversation: results are named after calls, and calls after the conversation.
fn is_own(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'))
}

fn entries(session: &Session) -> Result<Vec<Entry>, ErrorData> {
    let Some(journal) = session.journal() else { return Ok(Vec::new()) };
    let mut entries = journal.history(MAX_ENTRIES).map_err(failed)?;
    entries.retain(|entry| entry.session == **session.id());
    Ok(entries)
}

fn touched(session: &Session, entry: &Entry) -> Vec<String> {
    let paths = entry.touched.iter();
    paths.map(|touched| session.workspace().display(&AbsPath::lexical(&touched.path))).collect()
}

fn row(session: &Session, entry: &Entry) -> Value {
    let state = match entry.state {
        EntryState::Done => "done",
        EntryState::Undone(_) => "undone",
        EntryState::NotApplied => "not_applied",
        EntryState::External => "interrupted",
        EntryState::Open => "unfinished",
    };
    let time = entry.time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "number": entry.number,
        "time_ms": time.as_millis() as u64,
        "tool": entry.tool,
        "state": state,
        "undoes": entry.undoes,
        "files": touched(session, entry),
        "uri": format!("{JOURNAL}/{}", entry.number),
    })
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
