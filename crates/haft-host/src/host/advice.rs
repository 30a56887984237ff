//! How a user can allow a call that needs approval: the command to run, or the option to start with. The model gets this
//! with a denial, so that it can tell the user.

use haft_core::Mode;
use haft_core::permissions::ApprovalRequest;

/// The advice for a call, the narrowest way first.
pub(super) fn advice(request: &ApprovalRequest) -> Option<String> {
    let mut ways: Vec<String> = request.advice.iter().cloned().collect();
    let rules: Vec<String> = request.offered().iter().map(|rule| quoted(&rule.0)).collect();
    if !rules.is_empty() {
        ways.push(format!("the user can allow it with `haft rules allow {}`", rules.join(" ")));
    }
    if ways.is_empty() || (request.mode == Mode::AcceptEdits && request.advice.is_none()) {
        ways.push(format!("the user can allow it by starting with `--mode {}`", request.mode.name()));
    }
    let short = |way: &String| way.strip_prefix("the user can allow it ").unwrap_or(way).to_owned();
    let (first, others) = ways.split_first()?;
    Some(others.iter().fold(first.clone(), |text, way| format!("{text}, or {}", short(way))))
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
