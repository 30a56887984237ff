//! What a change did to the syntax of a file, as the dialects tell it.

use serde_json::{Value, json};

use crate::check::Checked;
use crate::text::count_of;

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
