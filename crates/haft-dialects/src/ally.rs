//! The dialect `ally`: read, write, edit, ls and more. Every reply is an object with `success`, `error` and the tool's
//! fields.

use std::sync::Arc;

use haft_core::dialect::Failed;
use haft_core::{AbsPath, Context, Dialect, DynTool, Fault, FaultKind, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::checks::FileCheck;
use super::searches::spelt;
use super::{note_in_object, tool, with_notes};
use haft_ops::{Changed, Fate, Filter, Ignored};
use haft_text::{clip_for_reply, shorten_long_lines};

mod ally_write;
#[cfg(feature = "commands")]
mod bash;
mod cleanup_tool_call;
mod edit;
#[cfg(feature = "project")]
mod format;
mod glob;
mod grep;
mod habits;
mod line_edit;
#[cfg(feature = "project")]
mod lint;
mod ls;
mod read;
mod todo_add;
mod todo_clear;
mod todo_complete;
mod todos;
mod undo;
mod write;

pub(super) use ally_write::AllyWrite;
#[cfg(feature = "commands")]
pub(super) use bash::Bash;
pub(super) use cleanup_tool_call::CleanupToolCall;
pub(super) use edit::Edit;
#[cfg(feature = "project")]
pub(super) use format::Format;
pub(super) use glob::Glob;
pub(super) use grep::Grep;
pub(super) use line_edit::LineEdit;
#[cfg(feature = "project")]
pub(super) use lint::Lint;
pub(super) use ls::Ls;
pub(super) use read::Read;
pub(super) use todo_add::TodoAdd;
pub(super) use todo_clear::TodoClear;
pub(super) use todo_complete::TodoComplete;
pub(super) use undo::Undo;
pub(super) use write::Write;

/// How many recently modified files a reply names.
const MAX_RECENT: usize = 5;

/// The dialect `ally`.
pub struct Ally;

impl Dialect for Ally {
    fn name(&self) -> &'static str {
        "ally"
    }

    fn summary(&self) -> &'static str {
        "read, write, edit, ls and their kin: replies as objects with `success` and `error`"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![
            tool::<Read>(),
            tool::<Write>(),
            tool::<Edit>(),
            tool::<LineEdit>(),
            tool::<Glob>(),
            tool::<Grep>(),
            tool::<Ls>(),
            #[cfg(feature = "commands")]
            tool::<Bash>(),
            #[cfg(feature = "project")]
            tool::<Lint>(),
            #[cfg(feature = "project")]
            tool::<Format>(),
            tool::<Undo>(),
            tool::<TodoAdd>(),
            tool::<TodoComplete>(),
            tool::<TodoClear>(),
            tool::<CleanupToolCall>(),
            tool::<AllyWrite>(),
        ]
    }

    fn present(&self, failed: &Failed<'_>, fault: &Fault) -> Reply {
        let mut object = fault.details().clone();
        if let Some(number) = object.shift_remove("change") {
            object.insert("patch_number".into(), number);
        }
        let suggestion = match (fault.kind(), object.shift_remove("example")) {
            (FaultKind::InvalidInput, Some(example)) => {
                Some(format!("Example: {}", format_call(failed.tool, &example)))
            }
            _ => fault.hint_text().map(name_patches),
        };
        let message =
            format!("{}: {}", format_call(failed.tool, failed.input), name_patches(fault.message()));
        let mut all = Map::new();
        all.insert("success".into(), json!(false));
        all.insert("error".into(), json!(message));
        all.insert("error_type".into(), json!(error_type(fault)));
        if let Some(suggestion) = suggestion {
            all.insert("suggestion".into(), json!(suggestion));
        }
        for (name, value) in object {
            all.entry(name).or_insert(value);
        }
        Reply::object(Value::Object(all)).failed()
    }

    fn complete(&self, reply: Reply) -> Reply {
        let (success, text) = (!reply.is_error, reply.full_text());
        let error = if success { String::new() } else { text.clone() };
        let mut object =
            Map::from_iter([("success".to_owned(), json!(success)), ("error".to_owned(), json!(error))]);
        match &reply.structured {
            Some(Value::Object(own)) if own.contains_key("success") => return reply,
            Some(Value::Object(own)) if reply.is_object() => {
                own.iter().for_each(|(name, value)| drop(object.insert(name.clone(), value.clone())));
            }
            // Pictures and the like have no place in an object.
            _ if reply.content.iter().any(|block| block.content.text().is_none()) => return reply,
            _ if success => drop(object.insert("result".to_owned(), json!(text))),
            _ => {}
        }
        let object = Reply::object(Value::Object(object));
        if success { object } else { object.failed() }
    }

    fn failure_schema(&self) -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "success": {"const": false},
                "error": {"type": "string", "description": "What failed"},
                "error_type": {"type": "string"},
                "suggestion": {"type": "string", "description": "What to do next"},
            },
            "required": ["success", "error", "error_type"],
        }))
    }

    fn note(&self, reply: &mut Reply, notes: &[String]) {
        note_in_object(reply, notes);
    }

    fn refuses_repeats(&self) -> bool {
        true
    }
}

/// Which files a search covers: all but hidden ones, also those that git ignores.
fn filter() -> Filter {
    Filter { ignored: Ignored::Show, ..Filter::default() }
}

/// What every tool of the dialect replies: its own fields behind `success` and `error`.
#[derive(Serialize, JsonSchema)]
struct Success<T> {
    /// Whether the call succeeded
    success: bool,
    /// What went wrong; empty when nothing did
    error: &'static str,
    #[serde(flatten)]
    fields: T,
}

fn success(fields: impl Serialize) -> Reply {
    Reply::object(json!(Success { success: true, error: "", fields }))
}

/// The reply of `edit` and `line_edit`.
#[derive(Serialize, JsonSchema)]
struct Edited {
    /// How many edits were applied
    edits_applied: usize,
    #[serde(flatten)]
    file: ChangedFile,
}

fn edited(edits: usize, changed: Changed, cx: &Context) -> Reply {
    // Somebody may have agreed to some parts of the change only.
    let edits = if changed.in_part { changed.replaced.min(edits) } else { edits };
    with_file(changed, cx, |file| Edited { edits_applied: edits, file })
}

/// What is told of every file that was changed.
#[derive(Serialize, JsonSchema)]
struct ChangedFile {
    /// The absolute path of the file
    file_path: String,
    /// The number to undo this by; none where nothing changed
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_number: Option<u64>,
    /// What the syntax check found, for files that can be checked
    #[serde(skip_serializing_if = "Option::is_none")]
    file_check: Option<FileCheck>,
    /// Files that were modified last
    recently_modified: Vec<String>,
    /// How many lines are new
    lines_added: usize,
    /// How many lines are gone
    lines_removed: usize,
    /// What changed; left out for a new file
    #[serde(skip_serializing_if = "String::is_empty")]
    diff: String,
}

/// The reply to a change. `fields` wraps the file's fields in those of the tool.
fn with_file<T: Serialize>(changed: Changed, cx: &Context, fields: impl FnOnce(ChangedFile) -> T) -> Reply {
    let Changed { path, fate, number, diff, notes, checked, .. } = changed;
    let (lines_added, lines_removed) = (diff.added, diff.removed);
    // The model has just written all of a new file.
    let diff = if fate == Fate::Created { String::new() } else { shown_diff(&diff.text) };
    let file = ChangedFile {
        file_path: path.to_string(),
        patch_number: number,
        file_check: checked.map(FileCheck::from),
        recently_modified: recently_modified(number.and(Some(&path)), cx),
        lines_added,
        lines_removed,
        diff,
    };
    with_notes(success(fields(file)), notes)
}

/// A unified diff as a reply shows it.
fn shown_diff(diff: &str) -> String {
    clip_for_reply(&shorten_long_lines(diff)).into_owned()
}

/// The files of the session that were modified last, `current` first.
fn recently_modified(current: Option<&AbsPath>, cx: &Context) -> Vec<String> {
    let before = cx.session().modified();
    let before = before.iter().filter(|path| Some(*path) != current && cx.workspace().stat(path).is_ok());
    current.into_iter().chain(before).take(MAX_RECENT).map(|path| spelt(path, cx)).collect()
}

/// A path relative to the workspace's root, as the model writes it.
#[cfg(feature = "project")]
fn spelt_below_root(path: &str, cx: &Context) -> String {
    let root = cx.workspace().root();
    // The current folder is the root unless the session has a focus.
    if cx.cwd() == *root { path.to_owned() } else { spelt(&cx.workspace().lexical_path(root, path), cx) }
}

/// A message in which changes of the journal have the dialect's name: `change 3` is `patch 3`.
fn name_patches(message: &str) -> String {
    let mut parts = message.split("change ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        text.push_str(if is_number { "patch " } else { "change " });
        text.push_str(part);
    }
    text
}

/// The dialect's name for a kind of fault.
fn error_type(fault: &Fault) -> &'static str {
    match fault.kind() {
        // A command that is never run, whoever agrees.
        FaultKind::Denied if fault.details().contains_key("command") => "security_error",
        FaultKind::InvalidInput
        | FaultKind::BadPath
        | FaultKind::Redundant
        | FaultKind::TooLarge
        | FaultKind::Unread
        | FaultKind::Conflict
        | FaultKind::NoMatch
        | FaultKind::Exists => "validation_error",
        FaultKind::UnknownTool | FaultKind::Disabled | FaultKind::NotFound | FaultKind::WrongKind => {
            "user_error"
        }
        FaultKind::Encoding | FaultKind::Cancelled => "user_error",
        FaultKind::Outside => "security_error",
        FaultKind::OutsideFocus | FaultKind::Denied | FaultKind::AccessDenied => "permission_error",
        _ => "system_error",
    }
}

/// Formats a call as `read(file_paths=["a"], limit=5)`, without empty arguments. Long values and long lists are cut.
fn format_call(tool: &str, input: &Value) -> String {
    let fields = input.as_object().into_iter().flatten();
    let arguments = fields
        .filter(|(_, value)| !is_empty(value))
        .take(MAX_ARGUMENTS)
        .map(|(name, value)| format!("{}={}", truncate(name.clone(), 40), truncate(value.to_string(), 80)));
    format!("{}({})", truncate(tool.to_owned(), 100), arguments.collect::<Vec<_>>().join(", "))
}

/// The most arguments of a call that a message shows.
const MAX_ARGUMENTS: usize = 10;

fn truncate(mut text: String, max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
