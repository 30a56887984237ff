//! The protocol's requests, one method each: what haft answers to them. Knows nothing of transports.
#![expect(deprecated, reason = "clients of today have a log level, and subscribe to resources one by one")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use haft_core::{Format, Session};
use rmcp::ServerHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::caller::Caller;
use super::conversation::{Conversation, is_stateless};
use super::lines::NEWEST;
use super::page::page;
use super::resources::JOURNAL;
use super::{change_notifier, client_roots, resources, upstream};
use crate::wire::PROGRAM;

/// The newest protocol version in which a connection is a session and a server may send its client requests.
const NEWEST_WITH_SESSIONS: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// How long `tools/list` waits for servers of the session that are starting.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// One client with a session, or one request of a stateless client.
#[derive(Clone)]
pub(super) struct Connection {
    own: Arc<Conversation>,
    /// The conversation that all stateless requests share. Only over HTTP, where nothing identifies their clients.
    shared: Option<Arc<Conversation>>,
    /// Counts against the limit of sessions until the connection is dropped.
    _slot: Option<Arc<OwnedSemaphorePermit>>,
}

impl Connection {
    /// A client with a connection of its own (standard input and output).
    pub(super) fn new(own: Arc<Conversation>) -> Self {
        Self { own, shared: None, _slot: None }
    }

    /// A client of an HTTP server, or one stateless request to it.
    pub(super) fn over_http(
        own: Conversation,
        shared: Arc<Conversation>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { own: Arc::new(own), shared: Some(shared), _slot: slot.map(Arc::new) }
    }

    fn conversation(&self, context: &RequestContext<RoleServer>) -> &Conversation {
        match &self.shared {
            Some(shared) if is_stateless(context) => shared,
            _ => &self.own,
        }
    }

    /// The conversation of a request, and its session.
    async fn resolve(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<(&Conversation, &Session), ErrorData> {
        let conversation = self.conversation(context);
        Ok((conversation, conversation.session(&context.peer).await?))
    }

    /// Whether a resource exists.
    async fn has_resource(&self, uri: &str, context: &RequestContext<RoleServer>) -> Result<bool, ErrorData> {
        let (conversation, session) = self.resolve(context).await?;
        if !uri.starts_with("haft://")
            && let Some(offers) = conversation.host.offers()
        {
            if offers.resources(session).iter().any(|resource| resource.uri == uri) {
                return Ok(true);
            }
            let caller = conversation.caller(context, || format!("resources/subscribe {uri}"), None, None)?;
            return Ok(offers.read(uri, session, &caller).await?.is_some());
        }
        let (host, id, own) = (conversation.host.clone(), conversation.id.clone(), session.clone());
        let all = resources::blocking(move || resources::list(&*host, &own, &id)).await?;
        Ok(all.iter().any(|resource| resource.uri == uri))
    }
}

/// Converts a tool's definition to the SDK's type.
/// A tool as the protocol lists it. Some clients also validate the JSON in the text of a failure against the output
/// schema, and show their model that it does not fit instead of what failed: so the schema accepts failures.
fn definition(mut value: Value, failure: Option<&Value>) -> Result<Tool, ErrorData> {
    if let (Some(output), Some(failure)) = (value.get_mut("outputSchema"), failure) {
        let success = output.take();
        *output = json!({"type": "object", "anyOf": [success, failure]});
    }
    let name = value["name"].as_str().unwrap_or_default().to_owned();
    serde_json::from_value(value).map_err(|error| {
        let message = format!("the tool `{name}` cannot be written as the protocol has it: {error}");
        ErrorData::internal_error(message, None)
    })
}

/// Runs the work. None if it asks the client something, which then waits for the next round.
async fn unless_asked<T>(
    caller: &Caller,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Option<Result<T, ErrorData>> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = caller.asks_for_input() => None,
    }
}

fn expect_questions(questions: Option<InputRequiredResult>) -> Result<InputRequiredResult, ErrorData> {
    questions.ok_or_else(|| ErrorData::internal_error("there is no question", None))
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let mut can = ServerCapabilities::builder()
            .enable_logging()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        if self.own.host.offers().is_some() {
            can.completions = Some(JsonObject::new());
            let prompts = can.prompts.insert(PromptsCapability::default());
            prompts.list_changed = Some(true);
        }
        let mut info = ServerConfig::new(can);
        info.protocol_version = NEWEST_WITH_SESSIONS;
        info.server_info = Implementation::new(PROGRAM, env!("CARGO_PKG_VERSION"));
        info.instructions = Some(self.own.host.instructions());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A failure to open is reported by the first request that needs the session.
        let _ = self.own.session(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        let roots = client_roots::list(&context.peer).await;
        if let Some(session) = self.own.started() {
            self.own.host.roots_changed(session, roots);
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.own.set_level(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (_, session) = self.resolve(&context).await?;
        // A server that is slower adds its tools later, and the client gets a notification.
        let _ = tokio::time::timeout(UPSTREAM_TIMEOUT, upstream::start_all(session)).await;
        let definitions = session.tools().definitions(Format::Mcp, &session.context());
        let failure = session.dialect().failure_schema();
        let tools: Vec<Tool> = definitions
            .into_iter()
            .map(|tool| definition(tool, failure.as_ref()))
            .collect::<Result<_, _>>()?;
        let (tools, next) = page(tools, |tool| &tool.name, request.as_ref())?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let started = self.own.started().or_else(|| self.shared.as_ref()?.started());
        let session = started?;
        let tool = session.tools().get(name)?;
        let value = Format::Mcp.define(tool.spec(), &tool.describe(&session.context()));
        definition(value, session.dialect().failure_schema().as_ref()).ok()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Boxed, because the SDK moves the future around before it polls it.
        Box::pin(self.conversation(&context).call(request, context)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (conversation, session) = self.resolve(&context).await?;
        let (host, id, own) = (conversation.host.clone(), conversation.id.clone(), session.clone());
        let mut all = resources::blocking(move || resources::list(&*host, &own, &id)).await?;
        if let Some(offers) = conversation.host.offers() {
            all.extend(offers.resources(session));
        }
        let (resources, next) = page(all, |resource| &resource.uri, request.as_ref())?;
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all = resources::templates();
        if let Some(offers) = self.own.host.offers() {
            all.extend(offers.templates());
        }
        let (templates, next) = page(all, |template| &template.uri_template, request.as_ref())?;
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (conversation, session) = self.resolve(&context).await?;
        let uri = request.uri;
        if !uri.starts_with("haft://")
            && let Some(offers) = conversation.host.offers()
        {
            let identity = || format!("resources/read {uri}");
            let caller = conversation.caller(
                &context,
                identity,
                request.input_responses,
                request.request_state.as_deref(),
            )?;
            match unless_asked(&caller, offers.read(&uri, session, &caller)).await {
                Some(read) => {
                    let known = read?.ok_or_else(|| resources::unknown(&uri))?;
                    return Ok(known.into());
                }
                None => return Ok(expect_questions(conversation.questions(&caller, identity)?)?.into()),
            }
        }
        let (host, id, session) = (conversation.host.clone(), conversation.id.clone(), session.clone());
        let contents = resources::blocking(move || resources::read(&*host, &session, &id, &uri)).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.has_resource(&request.uri, &context).await? {
            return Err(resources::unknown(&request.uri));
        }
        match self.own.subscribed.add(request.uri) {
            true => Ok(()),
            false => Err(ErrorData::invalid_params("there are too many subscriptions", None)),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.own.subscribed.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let offers = self.own.host.offers().is_some();
        let may_change = |uri: &String| if uri.starts_with("haft://") { uri == JOURNAL } else { offers };
        let mut accepted = requested.clone();
        accepted.resource_subscriptions.iter_mut().for_each(|uris| uris.retain(may_change));
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let (conversation, session) = self.resolve(context.request_context()).await?;
        let uris = context.accepted().resource_subscriptions.iter().flatten();
        if uris.clone().any(|uri| uri == JOURNAL) {
            conversation.subscribed.add(JOURNAL.to_owned());
        }
        change_notifier::send_to_subscription(
            conversation.news.subscribe(session),
            &context,
            conversation.closed(),
        )
        .await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let Some(offers) = self.own.host.offers() else {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        };
        let (_, session) = self.resolve(&context).await?;
        let (prompts, next) = page(offers.prompts(session), |prompt| &prompt.name, request.as_ref())?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(offers) = self.own.host.offers() else {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        };
        let (conversation, session) = self.resolve(&context).await?;
        let (answers, state) = (request.input_responses.take(), request.request_state.take());
        let identity = {
            let (name, arguments) = (request.name.clone(), request.arguments.clone().unwrap_or_default());
            move || format!("prompts/get {name} {}", Value::Object(arguments.clone()))
        };
        let caller = conversation.caller(&context, &identity, answers, state.as_deref())?;
        match unless_asked(&caller, offers.prompt(request, session, &caller)).await {
            Some(prompt) => Ok(prompt?.into()),
            None => Ok(expect_questions(conversation.questions(&caller, identity)?)?.into()),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Some(offers) = self.own.host.offers() else {
            return Err(ErrorData::method_not_found::<CompleteRequestMethod>());
        };
        let (_, session) = self.resolve(&context).await?;
        Ok(CompleteResult::new(offers.complete(request, session).await?))
    }

    /// The SDK also routes known methods here when their parameters do not decode.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 6] = [
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "subscriptions/listen",
            "tools/call",
            "tools/list",
        ];
        const KNOWN_WITH_SESSIONS: [&str; 4] =
            ["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
        const KNOWN_WITH_OFFERS: [&str; 3] = ["completion/complete", "prompts/get", "prompts/list"];
        let method = request.method.as_str();
        let is_known = KNOWN.contains(&method)
            || (KNOWN_WITH_SESSIONS.contains(&method) && !is_stateless(&context))
            || (KNOWN_WITH_OFFERS.contains(&method) && self.own.host.offers().is_some());
        if is_known {
            let message = format!("the parameters of `{method}` are not what the protocol says");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("there is no method `{}`", request.method);
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}
