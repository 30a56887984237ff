//! Asking a client's user, by elicitation. Everything that comes from a model is shown so that nothing of it can hide.

use std::fmt::Write as _;
use std::sync::Arc;

use haft::{ApprovalRequest, Approver, BoxFuture, Decision, Scope};
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::{ElicitationMode, Peer, PeerRequestOptions, RoleServer};
use serde_json::{Value, json};

use crate::withdraw;

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const NO: &str = "no";

/// No more of a diff, or of the arguments, is shown.
const MAX_SHOWN: usize = 12_000;

/// Somebody to ask, if the client offers that.
pub(crate) fn through(peer: &Peer<RoleServer>) -> Option<Arc<dyn Approver>> {
    let can_ask = peer.supported_elicitation_modes().contains(&ElicitationMode::Form);
    can_ask.then(|| Arc::new(Elicits(peer.clone())) as Arc<dyn Approver>)
}

struct Elicits(Peer<RoleServer>);

impl Approver for Elicits {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, String>> {
        Box::pin(async move {
            let Value::Object(schema) = schema(&request) else {
                return Err("there is no question".to_owned());
            };
            let requested_schema =
                ElicitationSchema::from_json_schema(schema).map_err(|error| error.to_string())?;
            let message = question(&request);
            let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
            let asked = ServerRequest::ElicitRequest(ElicitRequest::new(params));
            let asked = self.0.send_cancellable_request(asked, PeerRequestOptions::no_options()).await;
            let asked = asked.map_err(|error| error.to_string())?;
            // A question that is settled otherwise is taken back.
            let answer = withdraw::answered(asked).await.map_err(|error| error.to_string())?;
            let ClientResult::ElicitResult(answer) = answer else {
                return Err("the client answered something else".to_owned());
            };
            Ok(match answer.action {
                ElicitationAction::Accept => decision(&request, answer.content.as_ref()),
                _ => Decision::Deny { feedback: None },
            })
        })
    }
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
fn decision(request: &ApprovalRequest, content: Option<&Value>) -> Decision {
    let said = |name: &str| content.and_then(|content| content.get(name)).and_then(Value::as_str);
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
    let mut text = format!("Allow `{}`? {}", shown(&request.tool), shown(&request.reason));
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
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_hidden = matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        );
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_hidden => out.extend(c.escape_unicode()),
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
