//! What a `tools/call` request means.
#![expect(deprecated, reason = "clients of today have a log level")]

use haft::{Call, FaultKind, Session};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, LoggingLevel};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::caller::Callers;
use crate::client::Servers;
use crate::conversation::{Conversation, is_stateless};
use crate::lines::Arrival;
use crate::relay::{self, Listener};
use crate::resources::JOURNAL;
use crate::result::call_result;

impl Conversation {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context.peer).await?;
        let input = Value::Object(request.arguments.unwrap_or_default());
        let same = {
            let (name, input) =
                (request.name.clone(), if is_stateless(&context) { input.clone() } else { Value::Null });
            move || format!("tools/call {name} {input}")
        };
        let caller =
            self.caller(&context, &same, request.input_responses, request.request_state.as_deref())?;
        let call = Call::new(self.next_call(), &*request.name, input);
        let _known = session.extension::<Callers>().introduce(call.id.clone(), caller.clone());
        let listener = self.listener(&context).map(|listener| listener.listen(session, &call));
        for servers in Servers::joined(session).iter().filter(|servers| servers.may_have(&request.name)) {
            // Others are not kept waiting by a server that starts.
            if let Some(arrival) = context.extensions.get::<Arrival>() {
                arrival.pass();
            }
            servers.start_for(&[&request.name]).await;
        }
        let turn = match context.extensions.get::<Arrival>() {
            Some(arrival) => Some(arrival.turn().await),
            None => None,
        };
        let changes = self.changes(session);
        let (handle, work) = session.take_on(call);
        drop(turn);
        let stopped = async {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = self.gone().cancelled() => {}
                () = caller.wants() => {}
            }
        };
        let reply = relay::carry(&handle, work, stopped, listener, &context.peer).await;
        if changes != self.changes(session) {
            self.news.resource_updated(JOURNAL);
        }
        let kind = reply.fault().map(haft::Fault::kind);
        if kind == Some(FaultKind::Cancelled)
            && let Some(wants) = self.wants(&caller, same)?
        {
            return Ok(wants.into());
        }
        if kind == Some(FaultKind::UnknownTool) {
            let tool = json!({"tool": &*request.name});
            return Err(ErrorData::invalid_params(reply.full_text(), Some(tool)));
        }
        if is_stateless(&context)
            && reply.is_error
            && let Some(lacks) = caller.take_lacks()
        {
            return Err(ErrorData::missing_required_client_capability(lacks));
        }
        let mut result = call_result(reply);
        // A failure has not the form that is promised for what works, and clients hold a server to that.
        if result.is_error == Some(true)
            && session.tools().get(&request.name).is_some_and(|tool| tool.spec().output_schema().is_some())
        {
            result.structured_content = None;
        }
        Ok(result.into())
    }

    fn listener(&self, context: &RequestContext<RoleServer>) -> Option<Listener> {
        match context.meta.get_progress_token() {
            Some(token) => Some(Listener::Progress(token)),
            None if matches!(self.level(context), Some(LoggingLevel::Debug | LoggingLevel::Info)) => {
                Some(Listener::Log)
            }
            None => None,
        }
    }

    /// The number of the latest change, where somebody wants to hear of changes.
    fn changes(&self, session: &Session) -> Option<u64> {
        if !self.subscribed.has(JOURNAL) {
            return None;
        }
        session.journal()?.history(1).ok()?.first().map(|entry| entry.number)
    }
}
