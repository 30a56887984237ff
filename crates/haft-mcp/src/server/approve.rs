//! Approvals over MCP: asks the client's user with a form (elicitation). Control and invisible characters of the
//! model's text are escaped, so that nothing in the question can hide.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};

use haft_core::permissions::{ApprovalRequest, Approver, Decision, Scope};
use haft_core::{BoxFuture, Fault, Hash};
use serde_json::{Value, json};

use super::caller::{Caller, Callers, Elicited};

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const NO: &str = "no";

/// The most bytes of a diff, or of the arguments, that a question shows.
const MAX_SHOWN: usize = 12_000;

/// Asks the clients of one session. The session needs its approver before it exists, so `attach` comes later.
#[derive(Default)]
pub(super) struct ClientUser(OnceLock<Weak<Callers>>);

impl ClientUser {
    /// Asks the clients of a session from now on.
    pub(super) fn attach(&self, callers: &Arc<Callers>) {
        let _ = self.0.set(Arc::downgrade(callers));
    }

    /// The client that made a call, if it supports forms.
    pub(super) fn caller(&self, call: &str) -> Option<Caller> {
        self.0.get()?.upgrade()?.of(call).filter(Caller::can_elicit)
    }
}

impl Approver for ClientUser {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        Box::pin(async move {
            let caller = self.caller(&request.call).ok_or("the client has gone")?;
            let message = question(&request);
            // Named after everything it shows: an answer never counts for other arguments or another diff.
            let name = format!("permission-{}", hash(&message));
            let answer = caller.elicit(&name, message, schema(&request)).await;
            Ok(match answer? {
                Elicited::Accepted(content) => decision(&request, &content),
                Elicited::Declined | Elicited::Dismissed => {
                    Decision::Deny { feedback: Some(unanswered(&request)) }
                }
            })
        })
    }

    fn is_there(&self, call: &str) -> bool {
        self.caller(call).is_some()
    }
}

/// Names a question by its content. An answer counts for every question of its name, so the hash must be collision
/// resistant.
pub(super) fn hash(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

fn schema(request: &ApprovalRequest) -> Value {
    let answers: &[&str] = if request.offered().is_empty() { &[ONCE, NO] } else { &[ONCE, SESSION, NO] };
    json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "title": "Answer", "enum": answers},
            "feedback": {
                "type": "string",
                "title": "Feedback",
                "description": "What to do instead, if the answer is no",
            },
        },
        "required": ["answer"],
    })
}

/// Anything but an explicit approval is a denial.
fn decision(request: &ApprovalRequest, content: &Value) -> Decision {
    let field = |name: &str| content.get(name).and_then(Value::as_str);
    match field("answer") {
        Some(ONCE) => Decision::AllowOnce,
        Some(SESSION) if !request.offered().is_empty() => {
            Decision::AllowAlways { rules: request.offered().to_vec(), scope: Scope::Session }
        }
        _ => {
            let feedback = field("feedback").filter(|text| !text.trim().is_empty());
            let denial = |text: &str| format!("the user denied `{}`: {text}", request.tool);
            Decision::Deny { feedback: feedback.map(denial) }
        }
    }
}

/// The denial after a form without an answer. Clients without a terminal decline or dismiss every form, and nobody has
/// seen it: so the denial says how the user can allow the call beforehand.
fn unanswered(request: &ApprovalRequest) -> String {
    let ApprovalRequest { tool, mode, .. } = request;
    let mut text =
        format!("the user, or the client without asking, declined `{tool}`; to be asked no more, ");
    let _ = write!(text, "the user can start haft with `--mode {}`", mode.name());
    if let [rule, rest @ ..] = request.offered() {
        let others = if rest.is_empty() { "" } else { " and the like" };
        let _ = write!(text, ", or allow the rule `{rule}`{others}");
    }
    text
}

fn question(request: &ApprovalRequest) -> String {
    let agent = request.works_for.as_ref().map(|_| format!(" to `{}`", visible(&request.session)));
    let agent = agent.unwrap_or_default();
    let mut text = format!("Allow `{}`{agent}? {}", visible(&request.tool), visible(&request.reason));
    match &request.preview {
        Some(preview) => write_part(&mut text, &preview.diff),
        None => write_part(&mut text, &format!("{:#}", request.input)),
    }
    if let [rule, rest @ ..] = request.offered() {
        let others = if rest.is_empty() { "" } else { " and the like" };
        let _ = write!(text, "\n\nFor this session means: {}{others}", visible(&rule.to_string()));
    }
    text
}

fn write_part(text: &mut String, part: &str) {
    let end = part.floor_char_boundary(MAX_SHOWN);
    let _ = write!(text, "\n\n{}", visible(&part[..end]));
    if end < part.len() {
        let _ = write!(text, "\n… {} more bytes are not shown", part.len() - end);
    }
}

/// Text with control and invisible characters escaped.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || haft_core::is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_shows_invisible_characters() {
        assert_eq!(visible("a\u{202e}b\u{1b}[2J\n\tc"), "a\\u{202e}b\\u{1b}[2J\n\tc");
    }

    #[test]
    fn a_long_part_says_what_is_missing() {
        let mut text = String::new();
        write_part(&mut text, &"é".repeat(MAX_SHOWN));
        assert!(
            text.ends_with(&format!("… {MAX_SHOWN} more bytes are not shown")),
            "{}",
            &text[text.len() - 60..]
        );
    }
}
