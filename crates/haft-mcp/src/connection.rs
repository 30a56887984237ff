//! What each request of the protocol means.
#![expect(deprecated, reason = "clients of today have a log level, and subscribe to resources one by one")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use haft_core::{Format, Session};
use rmcp::ServerHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::Servers;
use crate::conversation::{Conversation, is_stateless};
use crate::lines::NEWEST;
use crate::page::page;
use crate::resources::JOURNAL;
use crate::{Caller, news, resources, roots};

/// The newest version of the protocol in which a connection is a session and a server may ask its client.
const NEWEST_WITH_SESSIONS: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// How long a list of tools waits for other servers whose tools are in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// One client, or one request of clients that are not told apart.
#[derive(Clone)]
pub(crate) struct Connection {
    own: Arc<Conversation>,
    /// The one that all requests which stand for themselves are part of, where they come by connections of their own.
    shared: Option<Arc<Conversation>>,
    /// Where there is not room for everybody, that of a client that stays.
    _seat: Option<Arc<OwnedSemaphorePermit>>,
}

impl Connection {
    /// A client with a connection of its own.
    pub(crate) fn new(own: Arc<Conversation>) -> Self {
        Self { own, shared: None, _seat: None }
    }

    /// One of many that come by the same way.
    pub(crate) fn one_of_many(
        own: Conversation,
        shared: Arc<Conversation>,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { own: Arc::new(own), shared: Some(shared), _seat: seat.map(Arc::new) }
    }

    fn conversation(&self, context: &RequestContext<RoleServer>) -> &Conversation {
        match &self.shared {
            Some(shared) if is_stateless(context) => shared,
            _ => &self.own,
        }
    }

    /// The conversation of a request, and its session.
    async fn at(&self, context: &RequestContext<RoleServer>) -> Result<(&Conversation, &Session), ErrorData> {
        let conversation = self.conversation(context);
        Ok((conversation, conversation.session(&context.peer).await?))
    }

    /// Whether there is something at an address.
    async fn has(&self, uri: &str, context: &RequestContext<RoleServer>) -> Result<bool, ErrorData> {
        let (at, session) = self.at(context).await?;
        if !uri.starts_with("haft://")
            && let Some(offers) = at.host.offers()
        {
            if offers.resources(session).iter().any(|resource| resource.uri == uri) {
                return Ok(true);
            }
            let caller = at.caller(context, || format!("resources/subscribe {uri}"), None, None)?;
            return Ok(offers.read(uri, session, &caller).await?.is_some());
        }
        let (host, id, own) = (at.host.clone(), at.id.clone(), session.clone());
        let all = resources::blocking(move || resources::list(&*host, &own, &id)).await?;
        Ok(all.iter().any(|resource| resource.uri == uri))
    }
}

fn definition(value: Value) -> Option<Tool> {
    serde_json::from_value(value).ok()
}

/// Does the work, unless it needs to know more first.
async fn unless_asked<T>(
    caller: &Caller,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Option<Result<T, ErrorData>> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = caller.wants() => None,
    }
}

fn needs_to_know(wants: Option<InputRequiredResult>) -> Result<InputRequiredResult, ErrorData> {
    wants.ok_or_else(|| ErrorData::internal_error("there is no question", None))
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
        info.server_info = Implementation::new(crate::host::PROGRAM, env!("CARGO_PKG_VERSION"));
        info.instructions = Some(self.own.host.instructions());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // What cannot be opened is told to whoever asks for something.
        let _ = self.own.session(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        let roots = roots::of(&context.peer).await;
        if let Some(session) = self.own.begun() {
            self.own.host.moved(session, roots);
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
        let (_, session) = self.at(&context).await?;
        // Whoever is slower comes later, and then the client is told that there are other tools.
        let starting = async {
            for servers in Servers::joined(session) {
                servers.start_all().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, starting).await;
        let definitions = session.tools().definitions(Format::Mcp, &session.context());
        let tools: Vec<Tool> = definitions.into_iter().filter_map(definition).collect();
        let (tools, next) = page(tools, |tool| &tool.name, request.as_ref())?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let begun = self.own.begun().or_else(|| self.shared.as_ref()?.begun());
        let session = begun?;
        let tool = session.tools().get(name)?;
        definition(Format::Mcp.define(tool.spec(), &tool.describe(&session.context())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The SDK moves what it polls from place to place.
        Box::pin(self.conversation(&context).call(request, context)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (at, session) = self.at(&context).await?;
        let (host, id, own) = (at.host.clone(), at.id.clone(), session.clone());
        let mut all = resources::blocking(move || resources::list(&*host, &own, &id)).await?;
        if let Some(offers) = at.host.offers() {
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
        let (at, session) = self.at(&context).await?;
        let uri = request.uri;
        if !uri.starts_with("haft://")
            && let Some(offers) = at.host.offers()
        {
            let same = || format!("resources/read {uri}");
            let caller =
                at.caller(&context, same, request.input_responses, request.request_state.as_deref())?;
            match unless_asked(&caller, offers.read(&uri, session, &caller)).await {
                Some(read) => {
                    let known = read?.ok_or_else(|| resources::unknown(&uri))?;
                    return Ok(known.into());
                }
                None => return Ok(needs_to_know(at.wants(&caller, same)?)?.into()),
            }
        }
        let (host, id, session) = (at.host.clone(), at.id.clone(), session.clone());
        let contents = resources::blocking(move || resources::read(&*host, &session, &id, &uri)).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.has(&request.uri, &context).await? {
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
        let (at, session) = self.at(context.request_context()).await?;
        let uris = context.accepted().resource_subscriptions.iter().flatten();
        if uris.clone().any(|uri| uri == JOURNAL) {
            at.subscribed.add(JOURNAL.to_owned());
        }
        news::tell_listener(at.news.listen(session), &context, at.gone()).await;
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
        let (_, session) = self.at(&context).await?;
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
        let (at, session) = self.at(&context).await?;
        let (answers, state) = (request.input_responses.take(), request.request_state.take());
        let same = {
            let (name, arguments) = (request.name.clone(), request.arguments.clone().unwrap_or_default());
            move || format!("prompts/get {name} {}", Value::Object(arguments.clone()))
        };
        let caller = at.caller(&context, &same, answers, state.as_deref())?;
        match unless_asked(&caller, offers.prompt(request, session, &caller)).await {
            Some(prompt) => Ok(prompt?.into()),
            None => Ok(needs_to_know(at.wants(&caller, same)?)?.into()),
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
        let (_, session) = self.at(&context).await?;
        Ok(CompleteResult::new(offers.complete(request, session).await?))
    }

    /// A request that is known but does not fit comes here, too.
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
            let told = format!("the parameters of `{method}` are not what the protocol says");
            return Err(ErrorData::invalid_params(told, None));
        }
        let told = format!("there is no method `{}`", request.method);
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, told, None))
    }
}
