//! A `tools/call` request: from the request to a call of the session, and from its reply to the result.
#![expect(deprecated, reason = "clients of today have a log level")]

use std::sync::Arc;

use haft_core::{Call, DynTool, FaultKind, Session};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, LoggingLevel};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::caller::Callers;
use super::conversation::{Conversation, is_stateless};
use super::lines::Arrival;
use super::relay::{self, Channel};
use super::resources::JOURNAL;
use super::result::{OutputSchema, call_result};
use super::upstream;

impl Conversation {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context.peer).await?;
        let input = Value::Object(request.arguments.unwrap_or_default());
        // Identifies the request when the client repeats it in the next round.
        let identity = {
            let (name, input) =
                (request.name.clone(), if is_stateless(&context) { input.clone() } else { Value::Null });
            move || format!("tools/call {name} {input}")
        };
        let caller =
            self.caller(&context, &identity, request.input_responses, request.request_state.as_deref())?;
        let call = Call::new(self.next_call(), &*request.name, input);
        let _registered = session.extension::<Callers>().register(call.id.clone(), caller.clone());
        let updates = self.channel(&context).map(|channel| channel.subscribe(session, &call));
        let arrival = context.extensions.get::<Arrival>();
        // Later calls do not wait for a server that starts.
        let give_up_turn = || arrival.into_iter().for_each(Arrival::pass);
        upstream::start_for(session, &request.name, give_up_turn).await;
        let turn = match arrival {
            Some(arrival) => Some(arrival.turn().await),
            None => None,
        };
        let last_change = self.last_change(session);
        let (handle, work) = session.start_call(call);
        drop(turn);
        let stopped = async {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = self.closed().cancelled() => {}
                () = caller.asks_for_input() => {}
            }
        };
        let reply = relay::run(&handle, work, stopped, updates, &context.peer).await;
        if last_change != self.last_change(session) {
            self.news.resource_updated(JOURNAL);
        }
        let kind = reply.fault().map(haft_core::Fault::kind);
        if kind == Some(FaultKind::Cancelled)
            && let Some(questions) = self.questions(&caller, identity)?
        {
            return Ok(questions.into());
        }
        if kind == Some(FaultKind::UnknownTool) {
            let tool = json!({"tool": &*request.name});
            return Err(ErrorData::invalid_params(reply.full_text(), Some(tool)));
        }
        if is_stateless(&context)
            && reply.is_error
            && let Some(missing) = caller.take_missing_capability()
        {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
        let declares = |tool: Arc<dyn DynTool>| {
            tool.spec().output_schema().is_some_and(|schema| schema["type"] == "object")
        };
        let schema = match session.tools().get(&request.name).is_some_and(declares) {
            true => OutputSchema::Declared,
            false => OutputSchema::Undeclared,
        };
        Ok(call_result(reply, schema).into())
    }

    /// How the client receives output and progress of a call, if it wants them.
    fn channel(&self, context: &RequestContext<RoleServer>) -> Option<Channel> {
        match context.meta.get_progress_token() {
            Some(token) => Some(Channel::Progress(token)),
            None if matches!(self.level(context), Some(LoggingLevel::Debug | LoggingLevel::Info)) => {
                Some(Channel::Log)
            }
            None => None,
        }
    }

    /// The number of the session's latest change. None unless the client has subscribed to the journal.
    fn last_change(&self, session: &Session) -> Option<u64> {
        if !self.subscribed.has(JOURNAL) {
            return None;
        }
        session.journal()?.history(1).ok()?.first().map(|entry| entry.number)
    }
}
