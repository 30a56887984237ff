//! Logging in to a server that wants to know for whom haft acts: OAuth, as the protocol has it. What comes of it is kept,
//! so that the user is sent to a page once, and renewed by itself.

use std::sync::Arc;

use async_trait::async_trait;
use haft::{BoxFuture, Fault, Store};
use parking_lot::{Mutex, MutexGuard};
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

use super::bounds;
use super::server::{Access, OAuth, Server};
use super::web;

/// Somebody who can be sent to a page, and is sent back from there.
pub trait Visitor: Send + Sync {
    /// The address to be sent back to.
    fn redirect(&self) -> String;

    /// Sends the user to a page, and waits for the address that they are sent back to.
    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, String>>;
}

/// Sends the user to a page and waits for them at an address of this machine.
pub struct Loopback<F> {
    listener: TcpListener,
    redirect: String,
    tell: F,
}

impl<F: Fn(&str) + Send + Sync> Loopback<F> {
    /// Waits at an address that is free. `tell` tells the user which page to open.
    pub async fn open(tell: F) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect = format!("http://{}/callback", listener.local_addr()?);
        Ok(Self { listener, redirect, tell })
    }
}

impl<F: Fn(&str) + Send + Sync> Visitor for Loopback<F> {
    fn redirect(&self) -> String {
        self.redirect.clone()
    }

    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, String>> {
        (self.tell)(page);
        Box::pin(async move {
            loop {
                let (stream, _) = self.listener.accept().await.map_err(|error| error.to_string())?;
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                let reading = tokio::time::timeout(READING, stream.read_line(&mut line)).await;
                let target = line.split_whitespace().nth(1).filter(|target| target.starts_with("/callback?"));
                let (status, said) = match target {
                    Some(_) => ("200 OK", "You are logged in, and can close this page."),
                    None => ("404 Not Found", "There is nothing here."),
                };
                let length = said.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{said}"
                );
                // Whoever does not read it is not told.
                let _ = stream.get_mut().write_all(answer.as_bytes()).await;
                if let (Ok(Ok(_)), Some(target)) = (reading, target) {
                    let base = self.redirect.trim_end_matches("/callback");
                    return Ok(format!("{base}{target}"));
                }
            }
        })
    }
}

/// How long a browser may take to say what it wants.
const READING: std::time::Duration = std::time::Duration::from_secs(5);

/// How haft has logged in to a server, over all of its connections.
#[derive(Clone, Default)]
pub(super) struct Logins(Arc<Login>);

#[derive(Default)]
struct Login {
    kept: Kept,
    manager: Mutex<Option<Arc<AsyncMutex<AuthorizationManager>>>>,
    challenge: Mutex<Option<String>>,
}

impl Logins {
    pub(super) fn new(store: Option<&Store>, server: &Server) -> Self {
        Self(Arc::new(Login { kept: Kept::new(store, server), ..Login::default() }))
    }

    /// What authorizes requests, if there was a login.
    pub(super) async fn authorized(
        &self,
        url: &str,
        web: reqwest::Client,
    ) -> Result<Option<AuthClient<reqwest::Client>>, String> {
        let known = self.0.manager.lock().clone();
        let manager = match known {
            Some(manager) => manager,
            None if !self.0.kept.is_there() => return Ok(None),
            None => {
                let manager = resumed(url, &self.0.kept).await.map_err(|error| error.to_string())?;
                self.remember(manager)
            }
        };
        // A client is made with a manager of its own, and then shares the one there is.
        let spare = AuthorizationManager::new(url).await.map_err(|error| error.to_string())?;
        let mut client = AuthClient::new(web, spare);
        client.auth_manager = manager;
        Ok(Some(client))
    }

    fn remember(&self, manager: AuthorizationManager) -> Arc<AsyncMutex<AuthorizationManager>> {
        let manager = Arc::new(AsyncMutex::new(manager));
        *self.0.manager.lock() = Some(manager.clone());
        manager
    }

    pub(super) fn challenged(&self, challenge: Option<&str>) {
        if let Some(challenge) = challenge {
            *self.0.challenge.lock() = Some(challenge.to_owned());
        }
    }

    /// Logs in anew.
    pub(super) async fn login(&self, server: &Server, visitor: &dyn Visitor) -> Result<(), Fault> {
        web::install_tls();
        let challenge = self.0.challenge.lock().clone();
        let manager = login(server, challenge.as_deref(), &self.0.kept, visitor).await?;
        self.remember(manager);
        Ok(())
    }
}

/// What is kept of a login: in a file, if there is a place for it.
#[derive(Clone, Default)]
struct Kept {
    file: Option<(Store, String)>,
    here: Arc<Mutex<Option<StoredCredentials>>>,
    /// The secret that the settings have.
    given: Option<Secret>,
    /// The secret that haft was given when it made itself known. It is kept with the rest.
    registered: Arc<Mutex<Option<Secret>>>,
}

/// What haft proves with that it is the client that it says it is.
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

/// The key of the secret beside those of the credentials.
const SECRET: &str = "client_secret";

impl Kept {
    fn new(store: Option<&Store>, server: &Server) -> Self {
        let Access::Http { url, oauth, .. } = &server.access else { return Self::default() };
        let name = haft::Hash::of(url.as_bytes()).to_string();
        Self {
            file: store.map(|store| (store.clone(), format!("{name}.json"))),
            given: Secret::of(oauth.client_id.as_ref(), oauth.client_secret.as_ref()),
            ..Self::default()
        }
    }

    fn registered(&self) -> MutexGuard<'_, Option<Secret>> {
        self.registered.lock()
    }

    fn read(&self) -> Result<Option<StoredCredentials>, String> {
        let Some((store, name)) = &self.file else {
            return Ok(self.here.lock().clone());
        };
        let Some(bytes) = store.read(name).map_err(|error| error.to_string())? else { return Ok(None) };
        let kept: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let secret = kept.get(SECRET).and_then(Value::as_str).map(str::to_owned);
        let kept: StoredCredentials = serde_json::from_value(kept).map_err(|error| error.to_string())?;
        if let Some(secret) = Secret::of(Some(&kept.client_id), secret.as_ref()) {
            *self.registered() = Some(secret);
        }
        Ok(Some(kept))
    }

    /// The secret of a client, if there is one.
    fn secret_of(&self, client_id: &str) -> Option<String> {
        let known = [self.registered().clone(), self.given.clone()];
        let mut known = known.into_iter().flatten().filter(|known| known.client_id == client_id);
        known.next().map(|known| known.secret)
    }

    fn write(&self, credentials: Option<StoredCredentials>) -> Result<(), String> {
        let Some((store, name)) = &self.file else {
            *self.here.lock() = credentials;
            return Ok(());
        };
        let written = match credentials {
            Some(credentials) => {
                let mut kept = serde_json::to_value(&credentials).map_err(|error| error.to_string())?;
                let registered = self.registered().clone();
                if let Some(secret) = registered.filter(|known| known.client_id == credentials.client_id) {
                    kept[SECRET] = Value::String(secret.secret);
                }
                store.make().and_then(|()| store.write(name, kept.to_string().as_bytes()))
            }
            None => store.remove(name),
        };
        written.map_err(|error| error.to_string())
    }

    /// Whether there is anything to log in with.
    fn is_there(&self) -> bool {
        self.read().is_ok_and(|kept| kept.is_some())
    }
}

#[async_trait]
impl CredentialStore for Kept {
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

/// What authorizes requests, with what was kept of an earlier login.
async fn resumed(url: &str, kept: &Kept) -> Result<AuthorizationManager, AuthError> {
    let mut manager = AuthorizationManager::new(url).await?;
    manager.set_credential_store(kept.clone());
    // The SDK knows the client again, but not its secret.
    if manager.initialize_from_store().await?
        && let Some(client_id) = kept.load().await?.map(|kept| kept.client_id)
        && let Some(secret) = kept.secret_of(&client_id)
    {
        manager.configure_client(OAuthClientConfig::new(client_id, url).with_client_secret(secret))?;
    }
    Ok(manager)
}

/// Logs in. The challenge is what the server answered to somebody it does not know.
async fn login(
    server: &Server,
    challenge: Option<&str>,
    kept: &Kept,
    visitor: &dyn Visitor,
) -> Result<AuthorizationManager, Fault> {
    let name = &server.name;
    let failed = |why: String| {
        let why = bounds::text(&why, bounds::MAX_MESSAGE);
        Fault::failed(format!("there was no login to the MCP server `{name}`: {why}")).with("server", name)
    };
    let Access::Http { url, oauth, .. } = &server.access else {
        return Err(failed("it is started by haft, and knows for whom".to_owned()));
    };
    let wrong = |error: AuthError| failed(error.to_string());
    let mut manager = AuthorizationManager::new(url.as_str()).await.map_err(wrong)?;
    manager.set_credential_store(kept.clone());
    let resolved = manager.resolve_metadata_from_challenge(challenge).await.map_err(wrong)?;
    manager.set_metadata(resolved.metadata.clone());
    let mut request = request(url, oauth, challenge, kept, visitor.redirect());
    if is_unknown(oauth, &resolved.metadata) {
        let client = register(&mut manager, &mut request, &resolved.metadata).await.map_err(wrong)?;
        *kept.registered() = Secret::of(Some(&client.client_id), client.client_secret.as_ref());
        request = request.with_preregistered_client(client.client_id);
        if let Some(secret) = client.client_secret {
            request = request.with_client_secret(secret);
        }
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| wrong(error))?;
    let back = visitor.visit(session.get_authorization_url()).await.map_err(failed)?;
    session.handle_callback_url(&back).await.map_err(wrong)?;
    Ok(session.auth_manager)
}

/// Whether haft is known to a login neither by the settings nor by a document.
fn is_unknown(oauth: &OAuth, login: &AuthorizationMetadata) -> bool {
    let reads = login.additional_fields.get("client_id_metadata_document_supported");
    let is_told = oauth.client_metadata_url.is_some() && reads == Some(&Value::Bool(true));
    oauth.client_id.is_none() && !is_told
}

/// Makes haft known to a login, as the SDK would: but that keeps the secret to itself.
async fn register(
    manager: &mut AuthorizationManager,
    request: &mut AuthorizationRequest,
    login: &AuthorizationMetadata,
) -> Result<OAuthClientConfig, AuthError> {
    const LASTS: &str = "offline_access";
    if request.scopes.is_empty() {
        request.scopes = manager.select_initial_scopes(&[]).await;
    } else if login.scopes_supported.iter().flatten().any(|scope| scope == LASTS)
        && !request.scopes.iter().any(|scope| scope == LASTS)
    {
        request.scopes.push(LASTS.to_owned());
    }
    let scopes: Vec<&str> = request.scopes.iter().map(String::as_str).collect();
    manager.register_client(CLIENT_NAME, &request.redirect_uri, &scopes).await
}

/// What haft calls itself where it logs in.
const CLIENT_NAME: &str = "haft";

fn request(
    url: &str,
    oauth: &OAuth,
    challenge: Option<&str>,
    kept: &Kept,
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
        // Whoever may do too little asks for what is missing besides what it may do already.
        if let Some(params) = params.filter(WWWAuthenticateParams::is_insufficient_scope) {
            let granted = kept.read().ok().flatten().map(|kept| kept.granted_scopes).unwrap_or_default();
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

/// What the server answered to somebody whom it does not know, or does not allow enough.
pub(super) fn challenge(error: &DynamicTransportError) -> Option<&str> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&*error.error);
    while let Some(cause) = next {
        if let Some(unknown) = cause.downcast_ref::<AuthRequiredError>() {
            return Some(&unknown.www_authenticate_header);
        }
        if let Some(too_little) = cause.downcast_ref::<InsufficientScopeError>() {
            return Some(&too_little.www_authenticate_header);
        }
        next = cause.source();
    }
    None
}

#[cfg(test)]
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
    async fn a_user_is_waited_for_until_they_come_back() {
        let told = Arc::new(Mutex::new(String::new()));
        let page = told.clone();
        let loopback = Loopback::open(move |url| page.lock().push_str(url)).await.unwrap();
        let redirect = loopback.redirect();
        let browser = async {
            assert!(browse(&redirect, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
            assert!(browse(&redirect, "/callback?code=a&state=b").await.contains("You are logged in"));
        };
        let (back, ()) = tokio::join!(loopback.visit("https://login.example/page"), browser);
        assert_eq!(back, Ok(format!("{redirect}?code=a&state=b")));
        assert_eq!(*told.lock(), "https://login.example/page");
    }

    #[tokio::test]
    async fn a_login_is_kept_for_its_server_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("logins"));
        let server = |url: &str| {
            let (headers, url) = (Default::default(), url.to_owned());
            Server::new("s", Access::Http { url, headers, bearer: None, oauth: OAuth::default() })
        };
        let kept = Kept::new(Some(&store), &server("https://a.example/mcp"));
        kept.save(StoredCredentials::new("id".to_owned(), None, vec!["read".to_owned()], None))
            .await
            .unwrap();
        let again = Kept::new(Some(&store), &server("https://a.example/mcp"));
        assert_eq!(again.load().await.unwrap().unwrap().granted_scopes, ["read"]);
        assert!(!Kept::new(Some(&store), &server("https://b.example/mcp")).is_there());
        again.clear().await.unwrap();
        assert!(!kept.is_there());
    }
}
