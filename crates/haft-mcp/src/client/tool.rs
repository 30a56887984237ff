//! A tool of a server as a tool of a session. It goes the way of every tool; here it is only said what a call touches,
//! and how it is made.

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

use super::connect::Live;
use super::link::Link;
use super::listing::{Hints, Offered};
use super::paths::{self, Touch};
use super::server::ServerTransport;
use super::{answer, handler};
use crate::wire;

/// The category of tools that other servers offer.
pub(super) const CATEGORY: haft_core::Category = haft_core::Category::Mcp;
/// A server that wants to know more before it answers may ask so often.
const MAX_ROUNDS: usize = 10;

/// A tool of a server.
pub(super) struct Remote {
    spec: Spec,
    own_name: Arc<str>,
    hints: Hints,
    link: Arc<Link>,
}

impl Remote {
    pub(super) fn new(offered: &Offered, link: Arc<Link>) -> Self {
        let Offered { name, own_name, description, schema, output, hints } = offered;
        let mut spec = Spec::from_schema(name.as_str(), description.clone(), schema.clone())
            .category(CATEGORY)
            .timeout(link.server.limits.call);
        if let Some(output) = output {
            spec = spec.output_from_schema(output.clone());
        }
        // A server's word is a hint: it needs permission unless the user takes its word.
        if hints.read_only && link.server.believed {
            spec = spec.read_only();
        } else {
            spec = spec.sensitivity(Sensitivity::Sensitive);
        }
        Self { spec, own_name: own_name.as_str().into(), hints: *hints, link }
    }

    /// What a call touches, as far as that can be known: a tool that only reads may run beside others, and any other may
    /// change everything.
    fn claims(&self, input: &Value, cx: &Context) -> Result<Claims, Fault> {
        let (mut claims, touch) = match self.hints.read_only {
            true => (Claims::none().read(Resource::Everything), Touch::Reads),
            false => (Claims::everything(), Touch::Changes),
        };
        if let ServerTransport::Http { url, .. } = &self.link.server.access
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

impl DynTool for Remote {
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
            arguments,
            claims,
        }))
    }
}

struct RemoteCall {
    link: Arc<Link>,
    own_name: Arc<str>,
    hints: Hints,
    arguments: Map<String, Value>,
    claims: Claims,
}

impl Prepared for RemoteCall {
    fn claims(&self) -> Claims {
        self.claims.clone()
    }

    fn approval(&self, cx: &Context) -> Approval {
        let (server, tool) = (&self.link.server.name, cx.tool());
        match self.hints {
            Hints { read_only: true, .. } if self.link.server.believed => Approval::BySensitivity,
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
            let Self { link, own_name, arguments, .. } = *self;
            let live = link.live().await?;
            live.tell_folders(&link.surroundings).await;
            let params = CallToolRequestParams::new(own_name.to_string()).with_arguments(arguments);
            let result = call(&link, &live, params, &cx).await?;
            answer::reply(&link.server.name, result)
        })
    }
}

/// Makes a call, and answers what the server wants to know meanwhile.
async fn call(
    link: &Link,
    live: &Live,
    mut params: CallToolRequestParams,
    cx: &Context,
) -> Result<CallToolResult, Fault> {
    let server = &link.server.name;
    for _ in 0..MAX_ROUNDS {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        let answered = match ask(live.peer(), request, link, cx).await {
            Ok(answered) => answered,
            Err(error) => return Err(live.failed(server, error).await),
        };
        match answered {
            ServerResult::CallToolResult(result) => return Ok(result),
            ServerResult::CustomResult(result) => match answer::salvaged(result.0) {
                Some(result) => return Ok(result),
                None => return Err(live.failed(server, ServiceError::UnexpectedResponse).await),
            },
            ServerResult::InputRequiredResult(wanted) => {
                let InputRequiredResult { input_requests, request_state, .. } = wanted;
                let known = handler::fulfil(live, input_requests.unwrap_or_default()).await;
                let unknown = |error: ErrorData| {
                    let told =
                        format!("the MCP server `{server}` wants to know what it cannot: {}", error.message);
                    Fault::failed(told).with("server", server)
                };
                params.input_responses = Some(known.map_err(unknown)?);
                params.request_state = request_state;
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(Fault::failed(format!(
                    "the MCP server `{server}` has made a task of the call, which was not asked for"
                )));
            }
            _ => return Err(live.failed(server, ServiceError::UnexpectedResponse).await),
        }
    }
    Err(Fault::failed(format!(
        "the MCP server `{server}` has asked {MAX_ROUNDS} times for more, and answered nothing"
    )))
}

/// Asks, and tells on what the server says meanwhile. What nobody waits for any more is taken back.
async fn ask(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    link: &Link,
    cx: &Context,
) -> Result<ServerResult, ServiceError> {
    let listening = link.surroundings.listen(cx.clone());
    let asked = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    listening.by(&asked.progress_token);
    wire::response(asked).await
}
