//! A server's tool as a tool of a session: what a call claims, whether it needs approval, and the call itself. Everything
//! else is the engine's, as for every tool.

use std::sync::Arc;

use haft_core::permissions::Approval;
use haft_core::{BoxFuture, Claims, Context, DynTool, Fault, Prepared, Reply, Resource, Sensitivity, Spec};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorData, InputRequiredResult,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use url::Url;

use super::connect::OpenConnection;
use super::link::Link;
use super::listing::{Hints, ListedTool};
use super::paths::{self, Touch};
use super::pins::ToolPin;
use super::server::ServerTransport;
use super::{answer, handler};
use crate::wire;

/// The category of servers' tools.
pub(super) const CATEGORY: haft_core::Category = haft_core::Category::Mcp;
/// How often a server may answer a call with questions.
const MAX_ROUNDS: usize = 10;

/// A server's tool.
pub(super) struct RemoteTool {
    spec: Spec,
    own_name: Arc<str>,
    hints: Hints,
    pin: ToolPin,
    link: Arc<Link>,
}

impl RemoteTool {
    pub(super) fn new(listed: &ListedTool, link: Arc<Link>) -> Self {
        let ListedTool { name, own_name, description, schema, output, hints } = listed;
        let mut spec = Spec::from_schema(name.as_str(), description.clone(), schema.clone())
            .category(CATEGORY)
            .timeout(link.server.limits.call);
        if let Some(output) = output {
            spec = spec.output_from_schema(output.clone());
        }
        // `readOnlyHint` counts only if the user trusts the server.
        if hints.read_only && link.server.trusts_read_only {
            spec = spec.read_only();
        } else {
            spec = spec.sensitivity(Sensitivity::Sensitive);
        }
        Self { spec, own_name: own_name.as_str().into(), hints: *hints, pin: ToolPin::of(listed), link }
    }

    /// What a call claims: a read-only tool may run in parallel with others, any other may change everything.
    fn claims(&self, input: &Value, cx: &Context) -> Result<Claims, Fault> {
        let (mut claims, touch) = match self.hints.read_only {
            true => (Claims::none().read(Resource::Everything), Touch::Reads),
            false => (Claims::everything(), Touch::Changes),
        };
        if let ServerTransport::Http { url, .. } = &self.link.server.transport
            && let Some(host) = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned))
        {
            claims = match touch {
                Touch::Reads => claims.read(Resource::Host(host)),
                Touch::Changes => claims.write(Resource::Host(host)),
            };
        }
        paths::claim(claims, input, touch, cx)
    }
}

impl DynTool for RemoteTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn Prepared>, Fault> {
        let claims = self.claims(input, cx)?;
        let Value::Object(arguments) = input.clone() else {
            return Err(Fault::invalid("the input must be an object"));
        };
        Ok(Box::new(RemoteCall {
            link: self.link.clone(),
            own_name: self.own_name.clone(),
            hints: self.hints,
            pin: self.pin.clone(),
            arguments,
            claims,
        }))
    }
}

struct RemoteCall {
    link: Arc<Link>,
    own_name: Arc<str>,
    hints: Hints,
    pin: ToolPin,
    arguments: Map<String, Value>,
    claims: Claims,
}

impl Prepared for RemoteCall {
    fn claims(&self) -> Claims {
        self.claims.clone()
    }

    fn approval(&self, cx: &Context) -> Approval {
        let (server, tool) = (&self.link.server.name, cx.tool());
        match self.link.pins.changed(&self.own_name, &self.pin) {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => {
                return Approval::NeededRegardless(format!(
                    "the MCP server `{server}` has changed {} of `{tool}` since a call of it was last allowed",
                    changed.join(" and ")
                ));
            }
            Err(error) => {
                return Approval::NeededRegardless(format!(
                    "haft cannot tell whether the MCP server `{server}` has changed `{tool}`: {error}"
                ));
            }
        }
        match self.hints {
            Hints { read_only: true, .. } if self.link.server.trusts_read_only => Approval::BySensitivity,
            Hints { read_only: true, .. } => Approval::Needed(format!(
                "`{tool}` only reads, by the word of the MCP server `{server}` alone"
            )),
            Hints { destructive: true, .. } => {
                Approval::Needed(format!("`{tool}` can destroy things, says the MCP server `{server}`"))
            }
            _ => Approval::BySensitivity,
        }
    }

    fn run(self: Box<Self>, cx: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        Box::pin(async move {
            let Self { link, own_name, arguments, pin, .. } = *self;
            if let Err(error) = link.pins.accept(&own_name, &pin) {
                // Without a pin the next call is judged by the one before: it is asked about once more.
                cx.log(
                    &link.server.name,
                    "warning",
                    &format!("what it says about `{own_name}` is not kept: {error}"),
                );
            }
            let connection = link.connection().await?;
            connection.sync_roots(&link.shared).await;
            let params = CallToolRequestParams::new(own_name.to_string()).with_arguments(arguments);
            let result = call(&link, &connection, params, &cx).await?;
            answer::reply(&link.server.name, result)
        })
    }
}

/// Makes a call, and answers the server's questions in between.
async fn call(
    link: &Link,
    connection: &OpenConnection,
    mut params: CallToolRequestParams,
    cx: &Context,
) -> Result<CallToolResult, Fault> {
    let server = &link.server.name;
    for _ in 0..MAX_ROUNDS {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        let response = match send(connection.peer(), request, link, cx).await {
            Ok(response) => response,
            Err(error) => return Err(connection.failed(server, error).await),
        };
        match response {
            ServerResult::CallToolResult(result) => return Ok(result),
            ServerResult::CustomResult(result) => match answer::lenient(result.0) {
                Some(result) => return Ok(result),
                None => return Err(connection.failed(server, ServiceError::UnexpectedResponse).await),
            },
            ServerResult::InputRequiredResult(required) => {
                let InputRequiredResult { input_requests, request_state, .. } = required;
                let answers = handler::answer_questions(connection, input_requests.unwrap_or_default()).await;
                let unanswerable = |error: ErrorData| {
                    let message =
                        format!("the MCP server `{server}` wants to know what it cannot: {}", error.message);
                    Fault::failed(message).with("server", server)
                };
                params.input_responses = Some(answers.map_err(unanswerable)?);
                params.request_state = request_state;
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(Fault::failed(format!(
                    "the MCP server `{server}` has made a task of the call, which was not asked for"
                )));
            }
            _ => return Err(connection.failed(server, ServiceError::UnexpectedResponse).await),
        }
    }
    Err(Fault::failed(format!(
        "the MCP server `{server}` has asked {MAX_ROUNDS} times for more, and answered nothing"
    )))
}

/// Sends a request, and passes its progress on to the call. Dropping the future cancels the request.
async fn send(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    link: &Link,
    cx: &Context,
) -> Result<ServerResult, ServiceError> {
    let guard = link.shared.register(cx.clone());
    let request = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    guard.set_token(&request.progress_token);
    wire::response(request).await
}
