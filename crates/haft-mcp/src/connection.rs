//! One client and its session: what each request of the protocol means. The session is started when it is first
//! needed, because a client says only then which folders it works in.
#![expect(deprecated, reason = "clients of today have a log level")]

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft::{Call, FaultKind, Format, Session};
use rmcp::ServerHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::client::Servers;
use crate::lines::Arrival;
use crate::page::page;
use crate::relay::{self, Listener};
use crate::result::call_result;
use crate::{Client, Host, approve, resources, roots};

/// The newest version of the protocol in which a connection is a session and a server may ask its client.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// How long a list of tools waits for other servers whose tools are in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// One client.
pub(crate) struct Connection {
    host: Arc<dyn Host>,
    id: Arc<str>,
    session: OnceCell<Session>,
    calls: AtomicU64,
    level: Mutex<Option<LoggingLevel>>,
    /// Cancelled when nobody waits for answers any more.
    gone: CancellationToken,
    /// Where there is not room for everybody.
    _seat: Option<OwnedSemaphorePermit>,
}

impl Connection {
    pub(crate) fn new(host: Arc<dyn Host>, gone: CancellationToken) -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            host,
            id: format!("mcp-{random:016x}").into(),
            session: OnceCell::new(),
            calls: AtomicU64::new(1),
            level: Mutex::new(None),
            gone,
            _seat: None,
        }
    }

    /// The same for one of those that there is room for.
    pub(crate) fn seated(host: Arc<dyn Host>, gone: CancellationToken, seat: OwnedSemaphorePermit) -> Self {
        let mut connection = Self::new(host, gone);
        connection._seat = Some(seat);
        connection
    }

    /// Stops everything that the session does.
    pub(crate) fn close(&self) {
        self.gone.cancel();
        if let Some(session) = self.session.get() {
            session.cancel();
        }
    }

    async fn session(&self, peer: &Peer<RoleServer>) -> Result<&Session, ErrorData> {
        let open = || async {
            let client = Client {
                id: self.id.clone(),
                roots: roots::of(peer).await,
                approver: approve::through(peer),
            };
            let session = self.host.open(client).map_err(|error| ErrorData::internal_error(error, None))?;
            tokio::spawn(tell_changes(session.tools().changes(), peer.clone(), self.gone.clone()));
            for servers in Servers::joined(&session) {
                tokio::spawn(async move { servers.start_all().await });
            }
            Ok(session)
        };
        self.session.get_or_try_init(open).await
    }

    fn listener(&self, context: &RequestContext<RoleServer>) -> Option<Listener> {
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        match context.meta.get_progress_token() {
            Some(token) => Some(Listener::Progress(token)),
            None if matches!(level, Some(LoggingLevel::Debug | LoggingLevel::Info)) => Some(Listener::Log),
            None => None,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
        if let Some(session) = self.session.get() {
            self.host.close(session);
        }
    }
}

/// Tells a client when there are other tools.
async fn tell_changes(
    mut changes: tokio::sync::watch::Receiver<()>,
    peer: Peer<RoleServer>,
    gone: CancellationToken,
) {
    let telling = async {
        while changes.changed().await.is_ok() {
            if peer.notify_tool_list_changed().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = gone.cancelled() => {}
    }
}

fn definition(value: Value) -> Option<Tool> {
    serde_json::from_value(value).ok()
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder()
            .enable_logging()
            .enable_resources()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        let mut info = ServerConfig::new(can);
        info.protocol_version = NEWEST;
        info.server_info = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(self.host.instructions());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // What cannot be opened is told to whoever asks for something.
        let _ = self.session(&context.peer).await;
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session(&context.peer).await?;
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
        let session = self.session.get()?;
        let tool = session.tools().get(name)?;
        definition(Format::Mcp.define(tool.spec(), &tool.describe(&session.context())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context.peer).await?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let input = Value::Object(request.arguments.unwrap_or_default());
        let call = Call::new(format!("{}-{number}", self.id), &*request.name, input);
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
        let (handle, work) = session.take_on(call);
        drop(turn);
        let stopped = async {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = self.gone.cancelled() => {}
            }
        };
        let reply = relay::carry(&handle, work, stopped, listener, &context.peer).await;
        match reply.fault() {
            Some(fault) if fault.kind() == FaultKind::UnknownTool => {
                Err(ErrorData::invalid_params(reply.full_text(), Some(json!({"tool": &*request.name}))))
            }
            _ => {
                let mut result = call_result(&reply);
                // A failure has not the form that is promised for what works, and clients hold a server to that.
                let promised = session
                    .tools()
                    .get(&request.name)
                    .is_some_and(|tool| tool.spec().output_schema().is_some());
                if reply.is_error && promised {
                    result.structured_content = None;
                }
                Ok(result.into())
            }
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let session = self.session(&context.peer).await?.clone();
        let (host, id) = (self.host.clone(), self.id.clone());
        let all = resources::blocking(move || resources::list(&*host, &session, &id)).await?;
        let (resources, next) = page(all, |resource| &resource.uri, request.as_ref())?;
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session(&context.peer).await?.clone();
        let (host, id) = (self.host.clone(), self.id.clone());
        let contents =
            resources::blocking(move || resources::read(&*host, &session, &id, &request.uri)).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// A request that is known but does not fit comes here, too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 7] = [
            "initialize",
            "logging/setLevel",
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "tools/call",
            "tools/list",
        ];
        let method = request.method;
        if KNOWN.contains(&method.as_str()) {
            let told = format!("the parameters of `{method}` are not what the protocol says");
            return Err(ErrorData::invalid_params(told, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}
