//! Asking a client's user what may happen, with a form. Everything that comes from a model is shown so that nothing of
//! it can hide.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};

use haft_core::permissions::{ApprovalRequest, Approver, Decision, Scope};
use haft_core::{BoxFuture, Fault, Hash};
use serde_json::{Value, json};

use crate::Caller;
use crate::caller::{Callers, Elicited};

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const NO: &str = "no";

/// No more of a diff, or of the arguments, is shown.
const MAX_SHOWN: usize = 12_000;

/// The clients of a session, which is not there yet when it is said who is asked in it.
#[derive(Default)]
pub(crate) struct Asks(OnceLock<Weak<Callers>>);

impl Asks {
    /// Asks the clients of a session from now on.
    pub(crate) fn begin(&self, callers: &Arc<Callers>) {
        let _ = self.0.set(Arc::downgrade(callers));
    }

    /// Who made a call, if they can be asked.
    pub(crate) fn whom(&self, call: &str) -> Option<Caller> {
        self.0.get()?.upgrade()?.of(call).filter(Caller::can_elicit)
    }
}

impl Approver for Asks {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        Box::pin(async move {
            let caller = self.whom(&request.call).ok_or("the client has gone")?;
            let message = question(&request);
            // The answer to a question is not one to another: of other arguments, or with another diff.
            let name = format!("permission-{}", hash(&message));
            let answer = caller.elicit(&name, message, schema(&request)).await;
            Ok(match answer? {
                Elicited::Accepted(content) => decision(&request, &content),
                Elicited::Declined | Elicited::Dismissed => Decision::Deny { feedback: None },
            })
        })
    }

    fn is_there(&self, call: &str) -> bool {
        self.whom(call).is_some()
    }
}

/// A name for a question, by what it is. An answer counts for the question of its name, so nobody may find another text
/// with the same one.
pub(crate) fn hash(text: &str) -> Hash {
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

/// Only a clear yes is one.
fn decision(request: &ApprovalRequest, content: &Value) -> Decision {
    let said = |name: &str| content.get(name).and_then(Value::as_str);
    match said("answer") {
        Some(ONCE) => Decision::AllowOnce,
        Some(SESSION) if !request.offered().is_empty() => {
            Decision::AllowAlways { rules: request.offered().to_vec(), scope: Scope::Session }
        }
        _ => {
            let feedback = said("feedback").filter(|text| !text.trim().is_empty());
            let told = |text: &str| format!("the user denied `{}`: {text}", request.tool);
            Decision::Deny { feedback: feedback.map(told) }
        }
    }
}

fn question(request: &ApprovalRequest) -> String {
    let asks = request.works_for.as_ref().map(|_| format!(" to `{}`", shown(&request.session)));
    let asks = asks.unwrap_or_default();
    let mut text = format!("Allow `{}`{asks}? {}", shown(&request.tool), shown(&request.reason));
    match &request.preview {
        Some(preview) => write_part(&mut text, &preview.diff),
        None => write_part(&mut text, &format!("{:#}", request.input)),
    }
    if let [rule, rest @ ..] = request.offered() {
        let others = if rest.is_empty() { "" } else { " and the like" };
        let _ = write!(text, "\n\nFor this session means: {}{others}", shown(&rule.to_string()));
    }
    text
}

fn write_part(text: &mut String, part: &str) {
    let end = part.floor_char_boundary(MAX_SHOWN);
    let _ = write!(text, "\n\n{}", shown(&part[..end]));
    if end < part.len() {
        let _ = write!(text, "\n… {} more bytes are not shown", part.len() - end);
    }
}

/// Text in which every character can be seen.
pub(crate) fn shown(text: &str) -> String {
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
    fn nothing_hides_in_a_question() {
        assert_eq!(shown("a\u{202e}b\u{1b}[2J\n\tc"), "a\\u{202e}b\\u{1b}[2J\n\tc");
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
