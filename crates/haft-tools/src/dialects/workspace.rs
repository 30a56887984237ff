//! `workspace`: list_directory, read_file and their kin. Every reply is an object: `{ok, value}` or
//! `{ok, error: {code, message, details}}`.

use std::sync::Arc;

use haft::{Dialect, DynTool, Failed, Fault, FaultKind, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::tool;

mod list_directory;
mod read_file;

pub(super) use list_directory::ListDirectory;
pub(super) use read_file::ReadFile;

/// The dialect.
pub struct Workspace;

impl Dialect for Workspace {
    fn name(&self) -> &'static str {
        "workspace"
    }

    fn summary(&self) -> &'static str {
        "list_directory, read_file and their kin: replies as objects with `ok` and `value`"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![tool::<ListDirectory>(), tool::<ReadFile>()]
    }

    fn present(&self, _failed: &Failed<'_>, fault: &Fault) -> Reply {
        let mut details: Map<String, Value> = fault.details().clone();
        if let Some(hint) = fault.hint_text() {
            details.insert("hint".into(), json!(hint));
        }
        let error = json!({"code": code(fault.kind()), "message": fault.message(), "details": details});
        Reply::object(json!({"ok": false, "error": error})).failed()
    }

    fn note(&self, reply: &mut Reply, notes: &[String]) {
        super::note_in_object(reply, notes);
    }
}

/// What every tool of the dialect replies: its value behind `ok`.
#[derive(Serialize, JsonSchema)]
struct Done<T> {
    /// Whether the call succeeded
    ok: bool,
    /// What came out
    value: T,
}

fn ok(value: impl Serialize) -> Reply {
    Reply::object(json!(Done { ok: true, value }))
}

fn code(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Outside | FaultKind::OutsideFocus | FaultKind::BadPath => "INVALID_PATH",
        FaultKind::NotFound => "FILE_NOT_FOUND",
        FaultKind::Denied | FaultKind::AccessDenied => "PERMISSION_DENIED",
        FaultKind::Timeout => "TIMEOUT",
        FaultKind::InvalidInput => "INVALID_ARGUMENT",
        FaultKind::UnknownTool => "UNKNOWN_TOOL",
        FaultKind::Disabled => "TOOL_DISABLED",
        FaultKind::WrongKind => "WRONG_FILE_TYPE",
        FaultKind::TooLarge => "TOO_LARGE",
        FaultKind::Encoding => "INVALID_ENCODING",
        FaultKind::Cancelled => "CANCELLED",
        FaultKind::Io => "IO_ERROR",
        _ => "EXECUTION_ERROR",
    }
}
