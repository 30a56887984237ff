//! The client behind a request, for what a tool may want of it besides arguments: to ask its user or its model, to know
//! its folders, to write into its log. Where the protocol lets a server ask, it asks. Where it does not, from 2026-07-28
//! on, the request is answered with what was asked and made again with the answers: a tool is then run from its
//! beginning, so it should ask before it does anything.
#![expect(deprecated, reason = "clients of today can be asked for their model, their roots and have a log")]

use std::collections::HashMap;
use std::sync::Arc;

use haft::{Context, Fault, FaultKind};
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{
    ClientCapabilities, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams,
    ElicitationAction, ElicitationSchema, InputRequest, ListRootsRequest, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, Root, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer, ServiceError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rounds::Rounds;
use crate::withdraw;

/// Who made a request, and can be asked something while it is worked on.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    peer: Peer<RoleServer>,
    can: ClientCapabilities,
    /// The least that is written into its log.
    level: Option<LoggingLevel>,
    /// Where a server may not ask.
    rounds: Option<Rounds>,
    /// What was wanted of it that it cannot do.
    lacks: Mutex<Option<ClientCapabilities>>,
}

/// What somebody said to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    /// It is filled in so.
    Accepted(Value),
    /// No.
    Declined,
    /// Neither yes nor no.
    Dismissed,
}

impl Caller {
    pub(crate) fn new(
        peer: Peer<RoleServer>,
        can: ClientCapabilities,
        level: Option<LoggingLevel>,
        rounds: Option<Rounds>,
    ) -> Self {
        Self(Arc::new(Inner { peer, can, level, rounds, lacks: Mutex::default() }))
    }

    /// The client that made a call, if one did.
    pub fn of(cx: &Context) -> Option<Self> {
        cx.session().extension::<Callers>().of(cx.call())
    }

    /// Whether it can have its user fill in a form.
    pub fn can_elicit(&self) -> bool {
        // One that says nothing of forms and of addresses has forms.
        self.0.can.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Whether it can ask its model.
    pub fn can_sample(&self) -> bool {
        self.0.can.sampling.is_some()
    }

    /// Whether it has folders that it works in.
    pub fn has_roots(&self) -> bool {
        self.0.can.roots.is_some()
    }

    /// How often the same request was answered with questions before.
    pub fn round(&self) -> usize {
        self.0.rounds.as_ref().map_or(0, Rounds::number)
    }

    /// Has the user fill in a form: an object of plain fields, as a JSON schema. The name tells questions of one request
    /// apart.
    pub async fn elicit(
        &self,
        name: &str,
        message: impl Into<String>,
        form: Value,
    ) -> Result<Elicited, Fault> {
        if !self.can_elicit() {
            return Err(self.lacks(ClientCapabilities::builder().enable_elicitation().build(), "its user"));
        }
        let wanted = fields(&form);
        let Value::Object(form) = form else { return Err(Fault::invalid("a form is an object")) };
        let requested_schema = ElicitationSchema::from_json_schema(form)
            .map_err(|error| Fault::invalid(format!("this is no form: {error}")))?;
        let message = message.into();
        let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        let request = InputRequest::Elicitation(ElicitRequest::new(params));
        self.ask(name, request, |answer| elicited(answer, &wanted)).await
    }

    /// Asks the client's model. The parameters, and the answer, are those of `sampling/createMessage`.
    pub async fn sample(&self, name: &str, params: Value) -> Result<Value, Fault> {
        if !self.can_sample() {
            return Err(self.lacks(ClientCapabilities::builder().enable_sampling().build(), "its model"));
        }
        let params = CreateMessageRequestParams::deserialize(params)
            .map_err(|error| Fault::invalid(format!("this is nothing to ask a model: {error}")))?;
        let request = InputRequest::CreateMessage(CreateMessageRequest::new(params));
        self.ask(name, request, |answer| answer.get("content").is_some().then(|| answer.clone())).await
    }

    /// The folders that the client works in.
    pub async fn roots(&self, name: &str) -> Result<Vec<Root>, Fault> {
        if !self.has_roots() {
            return Err(self.lacks(ClientCapabilities::builder().enable_roots().build(), "its folders"));
        }
        let request = InputRequest::ListRoots(ListRootsRequest::default());
        let roots = |answer: &Value| ListRootsResult::deserialize(answer).ok().map(|listed| listed.roots);
        self.ask(name, request, roots).await
    }

    /// Writes into the client's log, if it wants to hear that.
    pub async fn log(&self, level: LoggingLevel, logger: &str, data: Value) {
        if self.0.level.is_some_and(|least| rank(level) >= rank(least)) {
            let message = LoggingMessageNotificationParam::new(level, data).with_logger(logger);
            // One that hears nothing more hears of no log either.
            let _ = self.0.peer.notify_logging_message(message).await;
        }
    }

    /// Asks until there is an answer that makes sense.
    async fn ask<T>(
        &self,
        name: &str,
        request: InputRequest,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, Fault> {
        if let Some(rounds) = &self.0.rounds {
            return match rounds.answer(name).and_then(read) {
                Some(answer) => Ok(answer),
                None => rounds.ask(name, request).await,
            };
        }
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(Fault::new(FaultKind::Internal, "this cannot be asked")),
        };
        let failed = |error: ServiceError| Fault::failed(format!("the client did not answer: {error}"));
        let asked = self.0.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        // A question that is settled otherwise is taken back.
        let answer = withdraw::answered(asked.map_err(failed)?).await.map_err(failed)?;
        let answer = serde_json::to_value(answer).unwrap_or_default();
        read(&answer).ok_or_else(|| Fault::failed("the client answered something else than it was asked"))
    }

    fn lacks(&self, what: ClientCapabilities, whom: &str) -> Fault {
        *self.0.lacks.lock() = Some(what);
        Fault::new(FaultKind::Disabled, format!("the client does not let {whom} be asked"))
            .hint("use a client that does, or do without")
    }

    /// What was wanted of the client that it cannot do.
    pub(crate) fn take_lacks(&self) -> Option<ClientCapabilities> {
        self.0.lacks.lock().take()
    }

    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        self.0.rounds.as_ref()
    }

    /// Waits until something is asked that only the next round can answer.
    pub(crate) async fn wants(&self) {
        match &self.0.rounds {
            Some(rounds) => rounds.wanted().await,
            None => std::future::pending().await,
        }
    }
}

fn rank(level: LoggingLevel) -> u8 {
    level as u8
}

/// The fields that a form must have.
fn fields(form: &Value) -> Vec<String> {
    let required = form.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn elicited(answer: &Value, wanted: &[String]) -> Option<Elicited> {
    let action = ElicitationAction::deserialize(answer.get("action")?).ok()?;
    Some(match action {
        ElicitationAction::Accept => {
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            let filled = |name: &String| content.get(name).is_some();
            if !content.is_object() || !wanted.iter().all(filled) {
                return None;
            }
            Elicited::Accepted(content)
        }
        ElicitationAction::Decline => Elicited::Declined,
        _ => Elicited::Dismissed,
    })
}

/// Who made the calls of a session that are under way.
#[derive(Default)]
pub(crate) struct Callers(Mutex<HashMap<Arc<str>, Caller>>);

impl Callers {
    pub(crate) fn of(&self, call: &str) -> Option<Caller> {
        self.known().get(call).cloned()
    }

    /// Knows who made a call until the guard is dropped.
    pub(crate) fn introduce(self: &Arc<Self>, call: Arc<str>, caller: Caller) -> Introduced {
        self.known().insert(call.clone(), caller);
        Introduced(self.clone(), call)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Caller>> {
        self.0.lock()
    }
}

pub(crate) struct Introduced(Arc<Callers>, Arc<str>);

impl Drop for Introduced {
    fn drop(&mut self) {
        self.0.known().remove(&self.1);
    }
}
