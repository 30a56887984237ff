//! A changed file and what that did to its syntax, as several dialects tell it.

use haft::Context;
use serde_json::{Value, json};

use crate::check::Checked;
use crate::ops::{Changed, Fate};
use crate::text::count_of;

/// What a program wants to know of a changed file, beside a reply that is text.
pub(super) fn structured(changed: &Changed, cx: &Context) -> Value {
    json!({
        "file_path": cx.workspace().display(&changed.path),
        "created": changed.fate == Fate::Created,
        "patch": changed.number,
        "replaced": changed.replaced,
        "diff": changed.diff.text,
        "checks": changed.checked.as_ref().map(json),
    })
}

/// For replies that are objects, and for programs.
pub(super) fn json(checked: &Checked) -> Value {
    let errors: Vec<Value> = checked
        .errors
        .iter()
        .map(|error| {
            json!({
                "line": error.line,
                "message": error.message,
                "source": error.source,
                "marker": error.marker,
            })
        })
        .collect();
    let mut told = json!({
        "checker": checked.checker,
        "passed": checked.errors.is_empty(),
        "errors": errors,
    });
    if checked.more > 0 {
        let (shown, all) = (checked.errors.len(), checked.errors.len() + checked.more);
        told["additional_errors"] = json!(checked.more);
        told["message"] = json!(format!("{shown} of {all} errors are listed; see to these first"));
    }
    told
}

/// For replies that are text.
pub(super) fn text(checked: &Checked) -> String {
    let all = (checked.errors.len() + checked.more) as u64;
    let mut told =
        format!("note: this change brought in {} ({}):", count_of(all, "syntax error"), checked.checker);
    for error in &checked.errors {
        told.push_str(&format!(
            "\nline {}: {}\n  {}\n  {}",
            error.line, error.message, error.source, error.marker
        ));
    }
    if checked.more > 0 {
        told.push_str(&format!("\nand {} more", checked.more));
    }
    told
}
