//! The client behind a request, for tools: ask its user or its model, list its folders, write to its log. Up to protocol
//! 2025-11-25 the server sends the client a request. From 2026-07-28 on it may not: the call is answered with the
//! questions, and the client repeats it with the answers (`rounds`). The tool then runs from its start again, so it should
//! ask before it changes anything.
#![expect(deprecated, reason = "clients of today can be asked for their model, their roots and have a log")]

use std::collections::HashMap;
use std::sync::Arc;

use haft_core::{Context, Fault, FaultKind};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams,
    ElicitationAction, ElicitationSchema, InputRequest, ListRootsRequest, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, ProtocolVersion, Root, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer, ServiceError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::form::{self, Form};
use super::rounds::Round;
use crate::wire;

/// The client that made a request, and can be asked something while the request is in progress.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    peer: Peer<RoleServer>,
    can: ClientCapabilities,
    /// The protocol version of the request.
    version: Option<ProtocolVersion>,
    /// The lowest level that goes to its log.
    level: Option<LoggingLevel>,
    /// Set where a server may not send requests.
    round: Option<Round>,
    /// The capability that a tool asked for and the client does not have.
    missing: Mutex<Option<ClientCapabilities>>,
}

/// A user's answer to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormAnswer {
    /// The user filled in the form: its fields.
    Accepted(Value),
    /// The user declined.
    Declined,
    /// The user closed the form without an answer.
    Dismissed,
}

impl Caller {
    pub(super) fn new(
        peer: Peer<RoleServer>,
        can: ClientCapabilities,
        version: Option<ProtocolVersion>,
        level: Option<LoggingLevel>,
        round: Option<Round>,
    ) -> Self {
        Self(Arc::new(Inner { peer, can, version, level, round, missing: Mutex::default() }))
    }

    /// The client that made a call. None for calls that did not come over the protocol.
    pub fn of(cx: &Context) -> Option<Self> {
        cx.session().extension::<Callers>().of(cx.call())
    }

    /// Whether the client can show its user a form.
    pub fn can_elicit(&self) -> bool {
        can_elicit(&self.0.can)
    }

    /// Whether the client lets servers ask its model.
    pub fn can_sample(&self) -> bool {
        self.0.can.sampling.is_some()
    }

    /// Whether the client lists the folders it works in.
    pub fn has_roots(&self) -> bool {
        self.0.can.roots.is_some()
    }

    /// How many times this request was answered with questions before: 0 on the first run.
    pub fn round(&self) -> usize {
        self.0.round.as_ref().map_or(0, Round::number)
    }

    /// Shows the user a form. `form` is a JSON schema as the protocol has it from 2025-11-25 on: an object of primitive
    /// fields, choices (`oneOf`) and choices of several (`items` with `anyOf`). A client of an earlier version gets it in
    /// the words of that version. `name` identifies the question within the request.
    pub async fn elicit(
        &self,
        name: &str,
        message: impl Into<String>,
        form: Value,
    ) -> Result<FormAnswer, Fault> {
        if !self.can_elicit() {
            return Err(self.missing(ClientCapabilities::builder().enable_elicitation().build(), "its user"));
        }
        let required = required_fields(&form);
        let Value::Object(form) = form else { return Err(Fault::invalid("a form is an object")) };
        let form = Form::for_version(form, self.0.version.as_ref());
        let requested_schema = ElicitationSchema::from_json_schema(form.schema.clone())
            .map_err(|error| Fault::invalid(format!("this is no form: {error}")))?;
        let message = message.into();
        let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        let request = InputRequest::Elicitation(ElicitRequest::new(params));
        self.ask(name, request, |answer| elicited(answer, &required, &form)).await
    }

    /// Asks the client's model. Parameters and answer are those of `sampling/createMessage`.
    pub async fn sample(&self, name: &str, params: Value) -> Result<Value, Fault> {
        if !self.can_sample() {
            return Err(self.missing(ClientCapabilities::builder().enable_sampling().build(), "its model"));
        }
        let params = CreateMessageRequestParams::deserialize(params)
            .map_err(|error| Fault::invalid(format!("this is nothing to ask a model: {error}")))?;
        let request = InputRequest::CreateMessage(CreateMessageRequest::new(params));
        self.ask(name, request, |answer| answer.get("content").is_some().then(|| answer.clone())).await
    }

    /// The folders that the client works in.
    pub async fn roots(&self, name: &str) -> Result<Vec<Root>, Fault> {
        if !self.has_roots() {
            return Err(self.missing(ClientCapabilities::builder().enable_roots().build(), "its folders"));
        }
        let request = InputRequest::ListRoots(ListRootsRequest::default());
        let roots = |answer: &Value| ListRootsResult::deserialize(answer).ok().map(|listed| listed.roots);
        self.ask(name, request, roots).await
    }

    /// Writes to the client's log, if the level is high enough for it.
    pub async fn log(&self, level: LoggingLevel, logger: &str, data: Value) {
        if self.0.level.is_some_and(|lowest| level as u8 >= lowest as u8) {
            let message = LoggingMessageNotificationParam::new(level, data).with_logger(logger);
            // Sending fails only once the connection is closed.
            let _ = self.0.peer.notify_logging_message(message).await;
        }
    }

    /// Asks a question. In rounds, an answer that `read` refuses is asked for again.
    async fn ask<T>(
        &self,
        name: &str,
        request: InputRequest,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, Fault> {
        if let Some(round) = &self.0.round {
            return match round.answer(name).and_then(read) {
                Some(answer) => Ok(answer),
                None => round.ask(name, request).await,
            };
        }
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) if form::has_modes(self.0.version.as_ref()) => {
                ServerRequest::ElicitRequest(request)
            }
            InputRequest::Elicitation(request) => form::without_mode(&request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(Fault::new(FaultKind::Internal, "this cannot be asked")),
        };
        let failed = |error: ServiceError| Fault::failed(format!("the client did not answer: {error}"));
        let sent = self.0.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let answer = wire::response(sent.map_err(failed)?).await.map_err(failed)?;
        let answer = serde_json::to_value(answer).unwrap_or_default();
        read(&answer).ok_or_else(|| Fault::failed("the client answered something else than it was asked"))
    }

    fn missing(&self, capability: ClientCapabilities, target: &str) -> Fault {
        *self.0.missing.lock() = Some(capability);
        Fault::new(FaultKind::Disabled, format!("the client does not let {target} be asked"))
            .hint("use a client that does, or do without")
    }

    /// Takes the capability that a tool asked for and the client does not have.
    pub(super) fn take_missing_capability(&self) -> Option<ClientCapabilities> {
        self.0.missing.lock().take()
    }

    pub(super) fn round_state(&self) -> Option<&Round> {
        self.0.round.as_ref()
    }

    /// Waits until the tool asks a question that only the next round can answer.
    pub(super) async fn asks_for_input(&self) {
        match &self.0.round {
            Some(round) => round.asked().await,
            None => std::future::pending().await,
        }
    }
}

/// Whether a client with these capabilities can show its user a form.
pub(super) fn can_elicit(can: &ClientCapabilities) -> bool {
    // An empty capability means forms: that is all there was before 2025-11-25.
    can.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// The required fields of a form.
fn required_fields(form: &Value) -> Vec<String> {
    let required = form.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn elicited(answer: &Value, required: &[String], form: &Form) -> Option<FormAnswer> {
    let action = ElicitationAction::deserialize(answer.get("action")?).ok()?;
    Some(match action {
        ElicitationAction::Accept => {
            let content = form.read(answer.get("content").cloned().unwrap_or_else(|| json!({})));
            let filled = |name: &String| content.get(name).is_some();
            if !content.is_object() || !required.iter().all(filled) {
                return None;
            }
            FormAnswer::Accepted(content)
        }
        ElicitationAction::Decline => FormAnswer::Declined,
        _ => FormAnswer::Dismissed,
    })
}

/// The clients of a session's calls in progress, by call id.
#[derive(Default)]
pub(super) struct Callers(Mutex<HashMap<Arc<str>, Caller>>);

impl Callers {
    pub(super) fn of(&self, call: &str) -> Option<Caller> {
        self.0.lock().get(call).cloned()
    }

    /// Registers the client of a call until the guard is dropped.
    pub(super) fn register(self: &Arc<Self>, call: Arc<str>, caller: Caller) -> Registered {
        self.0.lock().insert(call.clone(), caller);
        Registered(self.clone(), call)
    }
}

pub(super) struct Registered(Arc<Callers>, Arc<str>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}
