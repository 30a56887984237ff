//! The dialect `workspace`: list_directory, read_file and more. Every reply is an object: `{ok, value}` or
//! `{ok, error: {code, message, details}}`.

use std::sync::Arc;

use haft_core::dialect::Failed;
use haft_core::{Dialect, DynTool, Fault, FaultKind, Reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{note_in_object, tool, with_notes};

mod delete_file;
#[cfg(feature = "project")]
mod format_code;
#[cfg(feature = "git")]
mod git;
#[cfg(feature = "git")]
mod git_add;
#[cfg(feature = "git")]
mod git_branch;
#[cfg(feature = "git")]
mod git_commit;
#[cfg(feature = "git")]
mod git_diff;
#[cfg(feature = "git")]
mod git_log;
#[cfg(feature = "git")]
mod git_push;
#[cfg(feature = "git")]
mod git_show;
#[cfg(feature = "git")]
mod git_status;
#[cfg(feature = "project")]
mod install_package;
mod list_directory;
mod move_file;
mod read_file;
#[cfg(feature = "commands")]
mod run_code;
#[cfg(feature = "project")]
mod run_tests;
#[cfg(feature = "web")]
mod web_fetch;
#[cfg(feature = "web")]
mod web_search;
mod write_file;

pub(super) use delete_file::DeleteFile;
#[cfg(feature = "project")]
pub(super) use format_code::FormatCode;
#[cfg(feature = "git")]
pub(super) use git_add::GitAdd;
#[cfg(feature = "git")]
pub(super) use git_branch::GitBranch;
#[cfg(feature = "git")]
pub(super) use git_commit::GitCommit;
#[cfg(feature = "git")]
pub(super) use git_diff::GitDiff;
#[cfg(feature = "git")]
pub(super) use git_log::GitLog;
#[cfg(feature = "git")]
pub(super) use git_push::GitPush;
#[cfg(feature = "git")]
pub(super) use git_show::GitShow;
#[cfg(feature = "git")]
pub(super) use git_status::GitStatus;
#[cfg(feature = "project")]
pub(super) use install_package::InstallPackage;
pub(super) use list_directory::ListDirectory;
pub(super) use move_file::MoveFile;
pub(super) use read_file::ReadFile;
#[cfg(feature = "commands")]
pub(super) use run_code::RunCode;
#[cfg(feature = "project")]
pub(super) use run_tests::RunTests;
#[cfg(feature = "web")]
pub(super) use web_fetch::WebFetch;
#[cfg(feature = "web")]
pub(super) use web_search::WebSearch;
pub(super) use write_file::WriteFile;

/// The dialect `workspace`.
pub struct Workspace;

impl Dialect for Workspace {
    fn name(&self) -> &'static str {
        "workspace"
    }

    fn summary(&self) -> &'static str {
        "list_directory, read_file, write_file and their kin: replies as objects with `ok` and `value`"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![
            tool::<ListDirectory>(),
            tool::<ReadFile>(),
            tool::<WriteFile>(),
            tool::<DeleteFile>(),
            tool::<MoveFile>(),
            #[cfg(feature = "commands")]
            tool::<RunCode>(),
            #[cfg(feature = "project")]
            tool::<RunTests>(),
            #[cfg(feature = "project")]
            tool::<FormatCode>(),
            #[cfg(feature = "project")]
            tool::<InstallPackage>(),
            #[cfg(feature = "git")]
            tool::<GitStatus>(),
            #[cfg(feature = "git")]
            tool::<GitDiff>(),
            #[cfg(feature = "git")]
            tool::<GitLog>(),
            #[cfg(feature = "git")]
            tool::<GitShow>(),
            #[cfg(feature = "git")]
            tool::<GitAdd>(),
            #[cfg(feature = "git")]
            tool::<GitCommit>(),
            #[cfg(feature = "git")]
            tool::<GitBranch>(),
            #[cfg(feature = "git")]
            tool::<GitPush>(),
            #[cfg(feature = "web")]
            tool::<WebFetch>(),
            #[cfg(feature = "web")]
            tool::<WebSearch>(),
        ]
    }

    fn present(&self, _failed: &Failed<'_>, fault: &Fault) -> Reply {
        let mut details: Map<String, Value> = fault.details().clone();
        if let Some(hint) = fault.hint_text() {
            details.insert("hint".into(), json!(hint));
        }
        let error = json!({"code": code(fault), "message": fault.message(), "details": details});
        Reply::object(json!({"ok": false, "error": error})).failed()
    }

    fn complete(&self, reply: Reply) -> Reply {
        let is_text = reply.content.iter().all(|block| block.content.text().is_some());
        let text = reply.full_text();
        match &reply.structured {
            Some(Value::Object(own)) if own.contains_key("ok") => reply,
            Some(value) if reply.is_object() && !reply.is_error => ok(value),
            // Pictures and the like have no place in an object.
            _ if !is_text => reply,
            _ if reply.is_error => {
                let error = json!({"code": "EXECUTION_ERROR", "message": text, "details": {}});
                Reply::object(json!({"ok": false, "error": error})).failed()
            }
            _ => ok(text),
        }
    }

    fn failure_schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "ok": {"const": false},
                "error": {
                    "type": "object",
                    "properties": {
                        "code": {"type": "string"},
                        "message": {"type": "string", "description": "What failed"},
                        "details": {"type": "object"},
                    },
                    "required": ["code", "message"],
                },
            },
            "required": ["ok", "error"],
        }))
    }

    fn note(&self, reply: &mut Reply, notes: &[String]) {
        note_in_object(reply, notes);
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

/// How content is given.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

/// The dialect's code for a kind of fault.
fn code(fault: &Fault) -> &'static str {
    match fault.kind() {
        // A branch or a program, and no file.
        FaultKind::NotFound if fault.path().is_none() => "NOT_FOUND",
        FaultKind::Exists if fault.path().is_none() => "ALREADY_EXISTS",
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
        FaultKind::Unread => "NOT_READ",
        FaultKind::Conflict => "CONFLICT",
        FaultKind::Exists => "FILE_EXISTS",
        FaultKind::NoMatch => "NO_MATCH",
        FaultKind::Io => "IO_ERROR",
        _ => "EXECUTION_ERROR",
    }
}
