//! OAuth logins, with an authorization server that issues a client secret and requires it for every token.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use base64::Engine as _;
use haft_core::{BoxFuture, Store};
use haft_mcp::client::{LoginBrowser, OAuth};

use super::*;

const SECRET: &str = "a-secret-that-was-given";

/// A server that is its own authorization server.
#[derive(Clone)]
struct Provider {
    address: String,
    /// The credentials of each token request.
    asked: Arc<Mutex<Vec<String>>>,
}

type Answer = (StatusCode, [(header::HeaderName, String); 1], String);

fn answer(status: StatusCode, value: &Value) -> Answer {
    (status, [(header::CONTENT_TYPE, "application/json".to_owned())], value.to_string())
}

impl Provider {
    async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let provider = Self { address, asked: Arc::default() };
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/token", post(token))
            .route("/mcp", post(serve))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    fn server(&self, oauth: OAuth) -> Server {
        let (url, headers) = (format!("{}/mcp", self.address), BTreeMap::new());
        Server::new("s", ServerTransport::Http { url, headers, bearer: None, oauth })
    }
}

async fn resource(State(provider): State<Provider>) -> Answer {
    let address = &provider.address;
    let body = json!({"resource": format!("{address}/mcp"), "authorization_servers": [address]});
    answer(StatusCode::OK, &body)
}

async fn metadata(State(Provider { address, .. }): State<Provider>) -> Answer {
    let body = json!({
        "issuer": address,
        "authorization_endpoint": format!("{address}/authorize"),
        "token_endpoint": format!("{address}/token"),
        "registration_endpoint": format!("{address}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    });
    answer(StatusCode::OK, &body)
}

async fn register(body: String) -> Answer {
    let asked: Value = serde_json::from_str(&body).unwrap();
    let redirects = &asked["redirect_uris"];
    let body = json!({"client_id": "registered", "client_secret": SECRET, "redirect_uris": redirects});
    answer(StatusCode::CREATED, &body)
}

/// Issues a token that is about to expire, if the client authenticates.
async fn token(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Answer {
    let proof =
        headers.get(header::AUTHORIZATION).and_then(|proof| proof.to_str().ok()?.strip_prefix("Basic "));
    let proof = proof.and_then(|proof| base64::engine::general_purpose::STANDARD.decode(proof).ok());
    let grant = body.split('&').find_map(|field| field.strip_prefix("grant_type=")).unwrap_or_default();
    provider.asked.lock().unwrap().push(grant.to_owned());
    if !proof.is_some_and(|proof| proof.ends_with(format!(":{SECRET}").as_bytes())) {
        return answer(StatusCode::UNAUTHORIZED, &json!({"error": "invalid_client"}));
    }
    let body =
        json!({"access_token": "good", "token_type": "Bearer", "expires_in": 1, "refresh_token": "again"});
    answer(StatusCode::OK, &body)
}

async fn serve(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Answer {
    if headers.get(header::AUTHORIZATION).is_none_or(|given| given != "Bearer good") {
        let page = format!("{}/.well-known/oauth-protected-resource/mcp", provider.address);
        let challenge = format!("Bearer resource_metadata=\"{page}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], String::new());
    }
    let asked: Value = serde_json::from_str(&body).unwrap();
    let result = match asked["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}}),
        "tools/list" => json!({"tools": []}),
        _ => return answer(StatusCode::ACCEPTED, &Value::Null),
    };
    answer(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

/// A user who agrees to everything.
struct Agrees;

impl LoginBrowser for Agrees {
    fn redirect(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, haft_core::Fault>> {
        let state = page.split(['?', '&']).find_map(|field| field.strip_prefix("state=")).unwrap_or_default();
        let back = format!("{}?code=c&state={state}", self.redirect());
        Box::pin(std::future::ready(Ok(back)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_secret_is_used_in_the_next_run() {
    let provider = Provider::open().await;
    let folder = tempfile::tempdir().unwrap();
    let logins = Store::at(folder.path().join("logins"));
    let run = || Servers::with_login_store(vec![provider.server(OAuth::default())], folder.path(), &logins);
    let first = run();
    let unknown = first.start("s").await.unwrap_err();
    assert!(unknown.message().contains("haft mcp login"), "{unknown}");
    first.login("s", &Agrees).await.unwrap();
    first.start("s").await.unwrap();
    first.close().await;
    for file in std::fs::read_dir(folder.path().join("logins")).unwrap().flatten() {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{file:?}");
        assert!(std::fs::read_to_string(file.path()).unwrap().contains(SECRET));
    }
    // Each run refreshes the token, and stores what the next one needs.
    for _ in 0..2 {
        provider.asked.lock().unwrap().clear();
        let again = run();
        again.start("s").await.unwrap();
        assert_eq!(provider.asked.lock().unwrap()[0], "refresh_token");
        again.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_secret_is_used_in_the_next_run_and_not_stored() {
    let provider = Provider::open().await;
    let folder = tempfile::tempdir().unwrap();
    let logins = Store::at(folder.path().join("logins"));
    let oauth = OAuth {
        client_id: Some("mine".to_owned()),
        client_secret: Some(SECRET.to_owned()),
        ..OAuth::default()
    };
    let run = || Servers::with_login_store(vec![provider.server(oauth.clone())], folder.path(), &logins);
    run().login("s", &Agrees).await.unwrap();
    run().start("s").await.unwrap();
    assert!(provider.asked.lock().unwrap().contains(&"refresh_token".to_owned()));
    for file in std::fs::read_dir(folder.path().join("logins")).unwrap().flatten() {
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains(SECRET));
    }
}
