//! `workspace`: list_directory, read_file and their kin. Every reply is an object: `{ok, value}` or
//! `{ok, error: {code, message, details}}`.

use std::sync::Arc;

use haft_core::dialect::Failed;
use haft_core::{Dialect, DynTool, Fault, FaultKind, Reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{note_in_object, noted, tool};

mod delete_file;
mod format_code;
mod git;
mod git_add;
mod git_branch;
mod git_commit;
mod git_diff;
mod git_log;
mod git_show;
mod git_status;
mod install_package;
mod list_directory;
mod move_file;
mod read_file;
mod run_code;
mod run_tests;
mod write_file;

pub(super) use delete_file::DeleteFile;
pub(super) use format_code::FormatCode;
pub(super) use git_add::GitAdd;
pub(super) use git_branch::GitBranch;
pub(super) use git_commit::GitCommit;
pub(super) use git_diff::GitDiff;
pub(super) use git_log::GitLog;
pub(super) use git_show::GitShow;
pub(super) use git_status::GitStatus;
pub(super) use install_package::InstallPackage;
pub(super) use list_directory::ListDirectory;
pub(super) use move_file::MoveFile;
pub(super) use read_file::ReadFile;
pub(super) use run_code::RunCode;
pub(super) use run_tests::RunTests;
pub(super) use write_file::WriteFile;

/// The dialect.
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
            tool::<RunCode>(),
            tool::<RunTests>(),
            tool::<FormatCode>(),
            tool::<InstallPackage>(),
            tool::<GitStatus>(),
            tool::<GitDiff>(),
            tool::<GitLog>(),
            tool::<GitShow>(),
            tool::<GitAdd>(),
            tool::<GitCommit>(),
            tool::<GitBranch>(),
        ]
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
        FaultKind::Unread => "NOT_READ",
        FaultKind::Conflict => "CONFLICT",
        FaultKind::Exists => "FILE_EXISTS",
        FaultKind::NoMatch => "NO_MATCH",
        FaultKind::Io => "IO_ERROR",
        _ => "EXECUTION_ERROR",
    }
}
