//! The syntax check of a changed file, as several dialects present it.

use haft_core::{Context, Reply};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use haft_ops::{Changed, Fate};
use haft_text::check::{Checked, Finding};
use haft_text::count_of;

/// The structured value of a change, for programs, beside a reply that is text.
pub(super) fn structured(changed: &Changed, cx: &Context) -> Value {
    json!({
        "file_path": cx.workspace().display(&changed.path),
        "created": changed.fate == Fate::Created,
        "patch": changed.number,
        "replaced": changed.replaced,
        "diff": changed.diff.text,
        "checks": changed.checked.clone().map(FileCheck::from),
    })
}

/// What a syntax check found that this change brought in, for replies that are objects and for programs.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileCheck {
    /// What was checked
    checker: &'static str,
    /// Whether there are no errors, neither new ones nor old ones
    passed: bool,
    /// The errors that this change brought in, ten at most
    errors: Vec<CheckError>,
    /// How many errors were there before, as far as the file was read
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_before: Option<usize>,
    /// How many more there are
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_errors: Option<usize>,
    /// How many are shown
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// A syntax error.
#[derive(Serialize, JsonSchema)]
struct CheckError {
    /// Line number
    line: usize,
    /// What is wrong
    message: String,
    /// The line
    source: String,
    /// A mark under the place in the line
    marker: String,
}

impl From<Checked> for FileCheck {
    fn from(checked: Checked) -> Self {
        let Checked { checker, errors, more, existing } = checked;
        let (shown, all) = (errors.len(), errors.len() + more);
        let error = |Finding { line, message, source, marker }| CheckError { line, message, source, marker };
        Self {
            checker,
            passed: errors.is_empty() && existing == 0,
            errors: errors.into_iter().map(error).collect(),
            errors_before: (existing > 0).then_some(existing),
            additional_errors: (more > 0).then_some(more),
            message: (more > 0).then(|| format!("{shown} of {all} errors are listed; see to these first")),
        }
    }
}

/// Appends the errors that a change introduced to a reply that is text.
pub(super) fn with_errors(reply: Reply, checked: Option<&Checked>) -> Reply {
    match checked.filter(|checked| !checked.passed()) {
        Some(checked) => reply.internal(text(checked)),
        None => reply,
    }
}

fn text(checked: &Checked) -> String {
    let all = (checked.errors.len() + checked.more) as u64;
    let mut text =
        format!("note: this change brought in {} ({}):", count_of(all, "syntax error"), checked.checker);
    for error in &checked.errors {
        text.push_str(&format!(
            "\nline {}: {}\n  {}\n  {}",
            error.line, error.message, error.source, error.marker
        ));
    }
    if checked.more > 0 {
        text.push_str(&format!("\nand {} more", checked.more));
    }
    text
}
