//! Approvals over MCP: asks the client's user with a form (elicitation). Control and invisible characters of the
//! model's text are escaped, so that nothing in the question can hide.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};

use haft_core::permissions::{ApprovalRequest, Approver, Choice, Decision, Scope, Stage};
use haft_core::{BoxFuture, Fault, Hash, Resource, visible};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Value, json};

use super::caller::{Caller, Callers, FormAnswer, can_elicit};

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const WITH_NETWORK: &str = "allow once, with the network";
const EDITED: &str = "allow with other arguments";
const TRY: &str = "try it, and ask about what it changes";
const KEEP_ALL: &str = "keep all";
const KEEP_SOME: &str = "keep some";
const NO: &str = "no";
const KEEP_NOTHING: &str = "keep nothing";
const UNDO: &str = "undo";

/// The most bytes of a diff, or of the arguments, that a question shows.
const MAX_SHOWN: usize = 12_000;

/// Asks the clients of one session. The session needs its approver before it exists, so `attach` comes later.
pub(super) struct ClientUser {
    callers: OnceLock<Weak<Callers>>,
    /// Whether the client shows forms, as far as is known before a call.
    is_reachable: bool,
}

impl ClientUser {
    /// The user of a client. A stateless client says only with each call whether it shows forms.
    pub(super) fn new(peer: &Peer<RoleServer>) -> Self {
        let is_reachable = peer.peer_info().is_none_or(|about| can_elicit(&about.capabilities));
        Self { callers: OnceLock::new(), is_reachable }
    }

    /// Asks the clients of a session from now on.
    pub(super) fn attach(&self, callers: &Arc<Callers>) {
        let _ = self.callers.set(Arc::downgrade(callers));
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.is_reachable
    }

    /// The client that made a call, if it supports forms.
    pub(super) fn caller(&self, call: &str) -> Option<Caller> {
        self.callers.get()?.upgrade()?.of(call).filter(Caller::can_elicit)
    }
}

impl Approver for ClientUser {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        Box::pin(async move {
            let caller = self.caller(&request.call).ok_or("the client has gone")?;
            let message = question(&request);
            // Named after everything it shows: an answer never counts for other arguments or another diff.
            let name = format!("permission-{}", hash(&message));
            let tool = visible(&request.tool);
            let denial = match caller.elicit(&name, message, schema(&request)).await? {
                FormAnswer::Accepted(content) => match chosen(&request, &content) {
                    Some(decision) => return Ok(decision),
                    None if content["answer"] == KEEP_SOME => return some(&caller, &name, &request).await,
                    None if content["answer"] == refusal(&request) => match feedback(&caller, &name, &tool).await {
                        Some(feedback) => format!("the user denied `{tool}`: {feedback}"),
                        None => format!("the user denied `{tool}`"),
                    },
                    None if content["answer"] == EDITED => return edited(&caller, &name, &request).await,
                    None => format!("the answer to whether `{tool}` is allowed is none of those offered"),
                },
                // Some clients answer without showing the form, so a refusal may not be the user's.
                FormAnswer::Declined => request.with_advice(format!(
                    "permission for `{tool}` was declined, by the user or by a client that declines every question"
                )),
                FormAnswer::Dismissed => request.with_advice(format!(
                    "the question whether to allow `{tool}` was dismissed: nobody answered it"
                )),
            };
            Ok(Decision::Deny { feedback: Some(denial) })
        })
    }

    fn is_there(&self, call: &str) -> bool {
        self.caller(call).is_some()
    }

    fn is_reachable(&self) -> bool {
        self.is_reachable()
    }
}

/// Names a question by its content. An answer counts for every question of its name, so the hash must be collision
/// resistant.
pub(super) fn hash(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

/// One field with a default: clients show it in two lines, and it can be sent as it is.
fn schema(request: &ApprovalRequest) -> Value {
    let offers = |choice: Choice, answer: &'static str| request.choices.contains(&choice).then_some(answer);
    let session = (!request.offered().is_empty()).then_some(SESSION);
    let answers: Vec<&str> = [agreement(request)]
        .into_iter()
        .chain(session)
        .chain(offers(Choice::AllowWithNetwork, WITH_NETWORK))
        .chain(offers(Choice::Try, TRY))
        .chain(offers(Choice::AllowParts, KEEP_SOME).filter(|_| request.stage == Stage::Tried))
        .chain(offers(Choice::Edit, EDITED))
        .chain([refusal(request)])
        .collect();
    let default = answers[0];
    json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Answer", "enum": answers, "default": default}},
        "required": ["answer"],
    })
}

/// The answer that agrees to what is asked.
fn agreement(request: &ApprovalRequest) -> &'static str {
    match request.stage {
        Stage::Tried | Stage::Done => KEEP_ALL,
        _ => ONCE,
    }
}

/// The answer that refuses it.
fn refusal(request: &ApprovalRequest) -> &'static str {
    match request.stage {
        Stage::Tried => KEEP_NOTHING,
        Stage::Done => UNDO,
        _ => NO,
    }
}

/// The approval that the form contains. Anything else is a denial.
fn chosen(request: &ApprovalRequest, content: &Value) -> Option<Decision> {
    match content.get("answer").and_then(Value::as_str) {
        Some(answer) if answer == agreement(request) => Some(Decision::AllowOnce),
        Some(TRY) if request.choices.contains(&Choice::Try) => Some(Decision::Try),
        Some(WITH_NETWORK) if request.choices.contains(&Choice::AllowWithNetwork) => {
            Some(Decision::AllowWithNetwork)
        }
        Some(SESSION) if !request.offered().is_empty() => {
            Some(Decision::AllowAlways { rules: request.offered().to_vec(), scope: Scope::Session })
        }
        _ => None,
    }
}

/// Asks in a second form for the arguments to run the call with. Anything but a JSON object approves nothing.
async fn edited(caller: &Caller, name: &str, request: &ApprovalRequest) -> Result<Decision, Fault> {
    let arguments = json!({"type": "string", "title": "Arguments", "default": request.input.to_string()});
    let form = json!({"type": "object", "properties": {"arguments": arguments}, "required": ["arguments"]});
    let message = format!("Arguments for `{}`, as a JSON object:", visible(&request.tool));
    let answer = caller.elicit(&format!("arguments-{name}"), message, form).await?;
    let text = match &answer {
        FormAnswer::Accepted(content) => content.get("arguments").and_then(Value::as_str),
        FormAnswer::Declined | FormAnswer::Dismissed => {
            let denial = format!("the user wanted other arguments for `{}`, but gave none", request.tool);
            return Ok(Decision::Deny { feedback: Some(denial) });
        }
    };
    Ok(match text.map(serde_json::from_str) {
        Some(Ok(input @ Value::Object(_))) => Decision::AllowEdited(input),
        _ => {
            let denial = "the user wanted other arguments, but gave no JSON object".to_owned();
            Decision::Deny { feedback: Some(denial) }
        }
    })
}

/// Asks in a second form which parts of the changes are kept. Anything but numbers of parts keeps nothing.
async fn some(caller: &Caller, name: &str, request: &ApprovalRequest) -> Result<Decision, Fault> {
    let parts = request.preview.as_ref().map(|preview| preview.parts.as_slice()).unwrap_or_default();
    let mut message = "Which changes to keep? Their numbers, such as 1,3-5:".to_owned();
    for (number, part) in parts.iter().enumerate() {
        let first = part.lines().next().unwrap_or_default().trim_start_matches("# ");
        let _ = write!(message, "\n{} {}", number + 1, visible(first));
    }
    let numbers = json!({"type": "string", "title": "Numbers"});
    let form = json!({"type": "object", "properties": {"numbers": numbers}, "required": ["numbers"]});
    let answer = caller.elicit(&format!("parts-{name}"), message, form).await?;
    let chosen = match &answer {
        FormAnswer::Accepted(content) => {
            content.get("numbers").and_then(Value::as_str).and_then(|text| numbers_in(text, parts.len()))
        }
        FormAnswer::Declined | FormAnswer::Dismissed => None,
    };
    Ok(match chosen {
        Some(chosen) => Decision::AllowParts(chosen),
        None => {
            let denial = "the user wanted to keep some of the changes, but named none of them".to_owned();
            Decision::Deny { feedback: Some(denial) }
        }
    })
}

/// The parts that a text such as `1,3-5` names, counted from 0; nothing if one of them does not exist.
fn numbers_in(text: &str, count: usize) -> Option<Vec<usize>> {
    let mut chosen = Vec::new();
    for piece in text.split([',', ' ']).filter(|piece| !piece.is_empty()) {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first == 0 || last > count || first > last {
            return None;
        }
        chosen.extend(first - 1..last);
    }
    Some(chosen).filter(|chosen| !chosen.is_empty())
}

/// Asks in a second form what the model should do instead. A text field beside the answer would keep some clients from
/// sending the form while it is empty.
async fn feedback(caller: &Caller, name: &str, tool: &str) -> Option<String> {
    let form = json!({
        "type": "object",
        "properties": {"feedback": {"type": "string", "title": "Feedback"}},
    });
    let message = format!("What should be done instead of `{tool}`? Dismiss this to say nothing.");
    match caller.elicit(&format!("feedback-{name}"), message, form).await {
        Ok(FormAnswer::Accepted(content)) => {
            let text = content.get("feedback").and_then(Value::as_str)?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        }
        _ => None,
    }
}

/// The question. The first line says what would happen, since some clients show little more; what changes comes next.
fn question(request: &ApprovalRequest) -> String {
    let headline = request.headline();
    let mut text = visible(&headline).replace(['\n', '\t'], " ");
    let command = command(request);
    // Never cut: a deletion must not hide behind many other changes.
    if let Some(preview) = request.preview.as_ref().filter(|preview| !preview.summary.is_empty()) {
        let _ = write!(text, "\n{}", visible(preview.summary.trim_end()));
    }
    match (&request.preview, command) {
        (Some(preview), _) if !preview.diff.is_empty() => write_part(&mut text, changed_lines(&preview.diff)),
        // The headline has only the beginning of a long command.
        (_, Some(command)) if !headline.ends_with(command) => write_part(&mut text, command),
        _ => {}
    }
    let danger = if request.is_dangerous { "DANGEROUS: " } else { "" };
    let _ = write!(text, "\n{danger}{}", visible(&request.reason));
    if let Some(parent) = &request.works_for {
        let _ =
            write!(text, "; asked by `{}`, which works for `{}`", visible(&request.session), visible(parent));
    }
    if request.preview.is_none() {
        write_arguments(&mut text, &request.input, command);
    }
    let rules: Vec<String> = request.offered().iter().map(|rule| format!("`{}`", visible(&rule.0))).collect();
    if !rules.is_empty() {
        let _ = write!(text, "\n\n\"{SESSION}\" means: {}", rules.join(", "));
    }
    text
}

/// The command line that a call runs, if it runs one.
fn command(request: &ApprovalRequest) -> Option<&str> {
    request.claims.iter().find_map(|(_, resource)| match resource {
        Resource::Command(line) => Some(line.text().trim()),
        _ => None,
    })
}

/// The arguments, one per line, without the command that is shown already.
fn write_arguments(text: &mut String, input: &Value, command: Option<&str>) {
    let Value::Object(fields) = input else { return write_part(text, &input.to_string()) };
    let mut part = String::new();
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if command != Some(value.trim()) {
            let _ = writeln!(part, "{name}: {value}");
        }
    }
    if !part.is_empty() {
        write_part(text, &part);
    }
}

/// A diff without the lines that name its files, which the headline does.
fn changed_lines(diff: &str) -> &str {
    let header = |line: &str| line.starts_with("--- ") || line.starts_with("+++ ");
    let lines = diff.split_inclusive('\n').take_while(|line| header(line));
    diff.get(lines.map(str::len).sum()..).unwrap_or(diff)
}

fn write_part(text: &mut String, part: &str) {
    let end = part.floor_char_boundary(MAX_SHOWN);
    let _ = write!(text, "\n{}", visible(part[..end].trim_end()));
    if end < part.len() {
        let _ = write!(text, "\n… {} more bytes are not shown", part.len() - end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_parts() {
        assert_eq!(numbers_in("1, 3-4", 4), Some(vec![0, 2, 3]));
        for wrong in ["", "0", "5", "2-1", "all", "1,x"] {
            assert_eq!(numbers_in(wrong, 4), None, "{wrong}");
        }
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
