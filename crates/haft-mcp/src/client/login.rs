//! OAuth logins to servers, as the protocol specifies them. Credentials are stored, so that the user visits the login page
//! once, and the SDK refreshes tokens by itself.

mod egress;

use std::sync::Arc;

use async_trait::async_trait;
use haft_core::{BoxFuture, Fault, Store};
use parking_lot::Mutex;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest,
    AuthorizationSession, CredentialStore, OAuthClientConfig, StoredCredentials, WWWAuthenticateParams,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Mutex as AsyncMutex;
use url::Url;

use self::egress::LoginEgress;
use super::bounds;
use super::server::{OAuth, Server, ServerTransport};

/// Sends the user to a login page, and receives the redirect from it.
pub trait LoginBrowser: Send + Sync {
    /// The redirect URL to register.
    fn redirect(&self) -> String;

    /// Sends the user to a page, and waits for the URL that it redirects to.
    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, Fault>>;
}

/// Receives the redirect with a web server on the loopback interface.
pub struct Loopback<F> {
    listener: TcpListener,
    redirect: String,
    show: F,
}

impl<F: Fn(&str) + Send + Sync> Loopback<F> {
    /// Listens at a free port. `show` shows the user which page to open.
    pub async fn open(show: F) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect = format!("http://{}/callback", listener.local_addr()?);
        Ok(Self { listener, redirect, show })
    }
}

impl<F: Fn(&str) + Send + Sync> LoginBrowser for Loopback<F> {
    fn redirect(&self) -> String {
        self.redirect.clone()
    }

    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, Fault>> {
        (self.show)(page);
        Box::pin(async move {
            loop {
                let (stream, _) = self.listener.accept().await.map_err(|error| error.to_string())?;
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                let reading = tokio::time::timeout(READ_TIMEOUT, stream.read_line(&mut line)).await;
                let target = line.split_whitespace().nth(1).filter(|target| target.starts_with("/callback?"));
                let (status, body) = match target {
                    Some(_) => ("200 OK", "You are logged in, and can close this page."),
                    None => ("404 Not Found", "There is nothing here."),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                // The browser may have closed the connection, which does not matter.
                let _ = stream.get_mut().write_all(answer.as_bytes()).await;
                if let (Ok(Ok(_)), Some(target)) = (reading, target) {
                    let base = self.redirect.trim_end_matches("/callback");
                    return Ok(format!("{base}{target}"));
                }
            }
        })
    }
}

/// How long a browser may take to send its request line.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The login to a server, which all of its connections share.
#[derive(Clone, Default)]
pub(super) struct Logins(Arc<Login>);

#[derive(Default)]
struct Login {
    credentials: Credentials,
    manager: Mutex<Option<Arc<AsyncMutex<AuthorizationManager>>>>,
    /// The server's latest `WWW-Authenticate` header.
    challenge: Mutex<Option<String>>,
}

impl Logins {
    pub(super) fn new(store: Option<&Store>, server: &Server) -> Self {
        Self(Arc::new(Login { credentials: Credentials::new(store, server), ..Login::default() }))
    }

    /// A client that authorizes its requests, if there was a login.
    pub(super) async fn authorized(
        &self,
        url: &str,
        web: reqwest::Client,
    ) -> Result<Option<AuthClient<reqwest::Client>>, String> {
        let known = self.0.manager.lock().clone();
        let manager = match known {
            Some(manager) => manager,
            None if !self.0.credentials.exist() => return Ok(None),
            None => {
                let manager = resume(url, &self.0.credentials).await.map_err(|error| error.to_string())?;
                self.remember(manager)
            }
        };
        // The SDK's constructor wants a manager, which is then replaced by the shared one.
        let placeholder = authorization(url).await.map_err(|error| error.to_string())?;
        let mut client = AuthClient::new(web, placeholder);
        client.auth_manager = manager;
        Ok(Some(client))
    }

    fn remember(&self, manager: AuthorizationManager) -> Arc<AsyncMutex<AuthorizationManager>> {
        let manager = Arc::new(AsyncMutex::new(manager));
        *self.0.manager.lock() = Some(manager.clone());
        manager
    }

    /// Remembers a challenge: it says where to log in, and for which scopes.
    pub(super) fn challenged(&self, challenge: Option<&str>) {
        if let Some(challenge) = challenge {
            *self.0.challenge.lock() = Some(challenge.to_owned());
        }
    }

    /// Logs in, even if there was a login before.
    pub(super) async fn login(&self, server: &Server, visitor: &dyn LoginBrowser) -> Result<(), Fault> {
        haft_sandbox::egress::install_tls();
        let challenge = self.0.challenge.lock().clone();
        let manager = login(server, challenge.as_deref(), &self.0.credentials, visitor).await?;
        self.remember(manager);
        Ok(())
    }
}

/// The credentials of a login: in a file if there is a store, else in memory.
#[derive(Clone, Default)]
struct Credentials {
    file: Option<(Store, String)>,
    memory: Arc<Mutex<Option<StoredCredentials>>>,
    /// The client secret from the settings.
    configured: Option<Secret>,
    /// The client secret from dynamic registration, stored with the credentials.
    registered: Arc<Mutex<Option<Secret>>>,
}

/// A client's secret, with which haft authenticates itself.
#[derive(Clone)]
struct Secret {
    client_id: String,
    secret: String,
}

impl Secret {
    fn of(client_id: Option<&String>, secret: Option<&String>) -> Option<Self> {
        Some(Self { client_id: client_id?.clone(), secret: secret?.clone() })
    }
}

/// The key of the client secret in the stored credentials.
const SECRET: &str = "client_secret";

impl Credentials {
    fn new(store: Option<&Store>, server: &Server) -> Self {
        let ServerTransport::Http { url, oauth, .. } = &server.transport else { return Self::default() };
        let name = haft_core::Hash::of(url.as_bytes()).to_string();
        Self {
            file: store.map(|store| (store.clone(), format!("{name}.json"))),
            configured: Secret::of(oauth.client_id.as_ref(), oauth.client_secret.as_ref()),
            ..Self::default()
        }
    }

    fn read(&self) -> Result<Option<StoredCredentials>, String> {
        let Some((store, name)) = &self.file else {
            return Ok(self.memory.lock().clone());
        };
        let Some(bytes) = store.read(name).map_err(|error| error.to_string())? else { return Ok(None) };
        let stored: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let secret = stored.get(SECRET).and_then(Value::as_str).map(str::to_owned);
        let stored: StoredCredentials = serde_json::from_value(stored).map_err(|error| error.to_string())?;
        if let Some(secret) = Secret::of(Some(&stored.client_id), secret.as_ref()) {
            *self.registered.lock() = Some(secret);
        }
        Ok(Some(stored))
    }

    /// The secret of a client, if it has one.
    fn secret_of(&self, client_id: &str) -> Option<String> {
        let known = [self.registered.lock().clone(), self.configured.clone()];
        let mut known = known.into_iter().flatten().filter(|known| known.client_id == client_id);
        known.next().map(|known| known.secret)
    }

    fn write(&self, credentials: Option<StoredCredentials>) -> Result<(), String> {
        let Some((store, name)) = &self.file else {
            *self.memory.lock() = credentials;
            return Ok(());
        };
        let written = match credentials {
            Some(credentials) => {
                let mut stored = serde_json::to_value(&credentials).map_err(|error| error.to_string())?;
                let registered = self.registered.lock().clone();
                if let Some(secret) = registered.filter(|known| known.client_id == credentials.client_id) {
                    stored[SECRET] = Value::String(secret.secret);
                }
                store.make().and_then(|()| store.write(name, stored.to_string().as_bytes()))
            }
            None => store.remove(name),
        };
        written.map_err(|error| error.to_string())
    }

    /// Whether there are stored credentials.
    fn exist(&self) -> bool {
        self.read().is_ok_and(|stored| stored.is_some())
    }
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read().map_err(AuthError::CredentialStoreError)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.write(Some(credentials)).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.write(None).map_err(AuthError::CredentialStoreError)
    }
}

/// An authorization whose requests go through haft's egress.
async fn authorization(url: &str) -> Result<AuthorizationManager, AuthError> {
    let url = Url::parse(url)?;
    let egress = Arc::new(LoginEgress::new(&url));
    AuthorizationManager::new_with_oauth_http_client(url.as_str(), egress).await
}

/// Restores the authorization of an earlier login.
async fn resume(url: &str, credentials: &Credentials) -> Result<AuthorizationManager, AuthError> {
    let mut manager = authorization(url).await?;
    manager.set_credential_store(credentials.clone());
    // The SDK stores the client's id, but not its secret.
    if manager.initialize_from_store().await?
        && let Some(client_id) = credentials.load().await?.map(|stored| stored.client_id)
        && let Some(secret) = credentials.secret_of(&client_id)
    {
        manager.configure_client(OAuthClientConfig::new(client_id, url).with_client_secret(secret))?;
    }
    Ok(manager)
}

/// Logs in. `challenge` is the server's response to an unauthorized request.
async fn login(
    server: &Server,
    challenge: Option<&str>,
    credentials: &Credentials,
    visitor: &dyn LoginBrowser,
) -> Result<AuthorizationManager, Fault> {
    let name = &server.name;
    let failed = |why: String| {
        let why = bounds::text(&why, bounds::MAX_MESSAGE);
        Fault::failed(format!("there was no login to the MCP server `{name}`: {why}")).with("server", name)
    };
    let ServerTransport::Http { url, oauth, .. } = &server.transport else {
        return Err(failed("it is started by haft, and knows for whom".to_owned()));
    };
    let auth_failed = |error: AuthError| failed(error.to_string());
    let mut manager = authorization(url.as_str()).await.map_err(auth_failed)?;
    manager.set_credential_store(credentials.clone());
    let resolved = manager.resolve_metadata_from_challenge(challenge).await.map_err(auth_failed)?;
    manager.set_metadata(resolved.metadata.clone());
    let mut request = request(url, oauth, challenge, credentials, visitor.redirect());
    if needs_registration(oauth, &resolved.metadata) {
        let client = register(&mut manager, &mut request, &resolved.metadata).await.map_err(auth_failed)?;
        *credentials.registered.lock() = Secret::of(Some(&client.client_id), client.client_secret.as_ref());
        request = request.with_preregistered_client(client.client_id);
        if let Some(secret) = client.client_secret {
            request = request.with_client_secret(secret);
        }
    }
    let session =
        AuthorizationSession::new(manager, request).await.map_err(|(_, error)| auth_failed(error))?;
    let redirect = visitor.visit(session.get_authorization_url()).await;
    let redirect = redirect.map_err(|fault| failed(fault.message().to_owned()))?;
    session.handle_callback_url(&redirect).await.map_err(auth_failed)?;
    Ok(session.auth_manager)
}

/// Whether haft must register: it has neither a client id nor a metadata document that the login supports.
fn needs_registration(oauth: &OAuth, login: &AuthorizationMetadata) -> bool {
    let supports = login.additional_fields.get("client_id_metadata_document_supported");
    let has_document = oauth.client_metadata_url.is_some() && supports == Some(&Value::Bool(true));
    oauth.client_id.is_none() && !has_document
}

/// Registers haft as a client. The SDK could do that, but would not hand out the secret.
async fn register(
    manager: &mut AuthorizationManager,
    request: &mut AuthorizationRequest,
    login: &AuthorizationMetadata,
) -> Result<OAuthClientConfig, AuthError> {
    const OFFLINE: &str = "offline_access";
    if request.scopes.is_empty() {
        request.scopes = manager.select_initial_scopes(&[]).await;
    } else if login.scopes_supported.iter().flatten().any(|scope| scope == OFFLINE)
        && !request.scopes.iter().any(|scope| scope == OFFLINE)
    {
        request.scopes.push(OFFLINE.to_owned());
    }
    let scopes: Vec<&str> = request.scopes.iter().map(String::as_str).collect();
    manager.register_client(CLIENT_NAME, &request.redirect_uri, &scopes).await
}

/// The client name that haft registers.
const CLIENT_NAME: &str = "haft";

fn request(
    url: &str,
    oauth: &OAuth,
    challenge: Option<&str>,
    credentials: &Credentials,
    redirect: String,
) -> AuthorizationRequest {
    let OAuth { client_id, client_secret, scopes, client_metadata_url } = oauth;
    let mut request =
        AuthorizationRequest::new(redirect).with_client_name(CLIENT_NAME).with_initial_scope_selection();
    if let Some(id) = client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(secret) = client_secret {
        request = request.with_client_secret(secret);
    }
    if let Some(document) = client_metadata_url {
        request = request.with_client_metadata_url(document);
    }
    let mut wanted = scopes.clone();
    if let Some(challenge) = challenge {
        request = request.with_challenge(challenge);
        let params = Url::parse(url).ok().map(|url| WWWAuthenticateParams::parse(challenge, &url));
        // With insufficient scope, ask for the missing scopes in addition to the granted ones.
        if let Some(params) = params.filter(WWWAuthenticateParams::is_insufficient_scope) {
            let granted =
                credentials.read().ok().flatten().map(|stored| stored.granted_scopes).unwrap_or_default();
            let missing = params.scope.unwrap_or_default();
            for scope in granted.into_iter().chain(missing.split_whitespace().map(str::to_owned)) {
                if !wanted.contains(&scope) {
                    wanted.push(scope);
                }
            }
        }
    }
    if wanted.is_empty() { request } else { request.with_scopes(wanted) }
}

/// The `WWW-Authenticate` header of an error about a missing login or insufficient scope.
pub(super) fn challenge(error: &DynamicTransportError) -> Option<&str> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&*error.error);
    while let Some(cause) = next {
        if let Some(required) = cause.downcast_ref::<AuthRequiredError>() {
            return Some(&required.www_authenticate_header);
        }
        if let Some(insufficient) = cause.downcast_ref::<InsufficientScopeError>() {
            return Some(&insufficient.www_authenticate_header);
        }
        next = cause.source();
    }
    None
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a browser that visits the listener
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpStream;

    use super::*;

    async fn browse(redirect: &str, target: &str) -> String {
        let address = Url::parse(redirect).unwrap().socket_addrs(|| None).unwrap()[0];
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_loopback_waits_for_the_redirect() {
        let shown = Arc::new(Mutex::new(String::new()));
        let page = shown.clone();
        let loopback = Loopback::open(move |url| page.lock().push_str(url)).await.unwrap();
        let redirect = loopback.redirect();
        let browser = async {
            assert!(browse(&redirect, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
            assert!(browse(&redirect, "/callback?code=a&state=b").await.contains("You are logged in"));
        };
        let (back, ()) = tokio::join!(loopback.visit("https://login.example/page"), browser);
        assert_eq!(back, Ok(format!("{redirect}?code=a&state=b")));
        assert_eq!(*shown.lock(), "https://login.example/page");
    }

    #[tokio::test]
    async fn credentials_are_stored_per_server() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("logins"));
        let server = |url: &str| {
            let (headers, url) = (Default::default(), url.to_owned());
            Server::new("s", ServerTransport::Http { url, headers, bearer: None, oauth: OAuth::default() })
        };
        let credentials = Credentials::new(Some(&store), &server("https://a.example/mcp"));
        credentials
            .save(StoredCredentials::new("id".to_owned(), None, vec!["read".to_owned()], None))
            .await
            .unwrap();
        let again = Credentials::new(Some(&store), &server("https://a.example/mcp"));
        assert_eq!(again.load().await.unwrap().unwrap().granted_scopes, ["read"]);
        assert!(!Credentials::new(Some(&store), &server("https://b.example/mcp")).exist());
        again.clear().await.unwrap();
        assert!(!credentials.exist());
    }
}
