//! Logging in, with a login that gives haft a secret and wants to see it whenever it gives a token.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use base64::Engine as _;
use haft_core::{BoxFuture, Store};
use haft_mcp::client::{OAuth, Visitor};

use super::*;

const SECRET: &str = "a-secret-that-was-given";

/// A server and its login in one.
#[derive(Clone)]
struct Place {
    address: String,
    /// What tokens were asked for with.
    asked: Arc<Mutex<Vec<String>>>,
}

type Answer = (StatusCode, [(header::HeaderName, String); 1], String);

fn answer(status: StatusCode, value: &Value) -> Answer {
    (status, [(header::CONTENT_TYPE, "application/json".to_owned())], value.to_string())
}

impl Place {
    async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let place = Self { address, asked: Arc::default() };
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/token", post(token))
            .route("/mcp", post(serve))
            .with_state(place.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        place
    }

    fn server(&self, oauth: OAuth) -> Server {
        let (url, headers) = (format!("{}/mcp", self.address), BTreeMap::new());
        Server::new("s", ServerTransport::Http { url, headers, bearer: None, oauth })
    }
}

async fn resource(State(place): State<Place>) -> Answer {
    let address = &place.address;
    let told = json!({"resource": format!("{address}/mcp"), "authorization_servers": [address]});
    answer(StatusCode::OK, &told)
}

async fn metadata(State(Place { address, .. }): State<Place>) -> Answer {
    let told = json!({
        "issuer": address,
        "authorization_endpoint": format!("{address}/authorize"),
        "token_endpoint": format!("{address}/token"),
        "registration_endpoint": format!("{address}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    });
    answer(StatusCode::OK, &told)
}

async fn register(body: String) -> Answer {
    let asked: Value = serde_json::from_str(&body).unwrap();
    let redirects = &asked["redirect_uris"];
    let told = json!({"client_id": "registered", "client_secret": SECRET, "redirect_uris": redirects});
    answer(StatusCode::CREATED, &told)
}

/// Gives a token that is as good as over, to who proves who it is.
async fn token(State(place): State<Place>, headers: HeaderMap, body: String) -> Answer {
    let proof =
        headers.get(header::AUTHORIZATION).and_then(|proof| proof.to_str().ok()?.strip_prefix("Basic "));
    let proof = proof.and_then(|proof| base64::engine::general_purpose::STANDARD.decode(proof).ok());
    let grant = body.split('&').find_map(|field| field.strip_prefix("grant_type=")).unwrap_or_default();
    place.asked.lock().unwrap().push(grant.to_owned());
    if !proof.is_some_and(|proof| proof.ends_with(format!(":{SECRET}").as_bytes())) {
        return answer(StatusCode::UNAUTHORIZED, &json!({"error": "invalid_client"}));
    }
    let told =
        json!({"access_token": "good", "token_type": "Bearer", "expires_in": 1, "refresh_token": "again"});
    answer(StatusCode::OK, &told)
}

async fn serve(State(place): State<Place>, headers: HeaderMap, body: String) -> Answer {
    if headers.get(header::AUTHORIZATION).is_none_or(|given| given != "Bearer good") {
        let page = format!("{}/.well-known/oauth-protected-resource/mcp", place.address);
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

/// Somebody who agrees to everything.
struct Agrees;

impl Visitor for Agrees {
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
async fn the_secret_that_a_login_gave_is_known_in_the_next_run() {
    let place = Place::open().await;
    let folder = tempfile::tempdir().unwrap();
    let logins = Store::at(folder.path().join("logins"));
    let run = || Servers::keeping_logins(vec![place.server(OAuth::default())], folder.path(), &logins);
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
    // Each run renews the token, and keeps what the next one needs.
    for _ in 0..2 {
        place.asked.lock().unwrap().clear();
        let again = run();
        again.start("s").await.unwrap();
        assert_eq!(place.asked.lock().unwrap()[0], "refresh_token");
        again.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_settings_is_used_in_the_next_run_and_not_copied() {
    let place = Place::open().await;
    let folder = tempfile::tempdir().unwrap();
    let logins = Store::at(folder.path().join("logins"));
    let oauth = OAuth {
        client_id: Some("mine".to_owned()),
        client_secret: Some(SECRET.to_owned()),
        ..OAuth::default()
    };
    let run = || Servers::keeping_logins(vec![place.server(oauth.clone())], folder.path(), &logins);
    run().login("s", &Agrees).await.unwrap();
    run().start("s").await.unwrap();
    assert!(place.asked.lock().unwrap().contains(&"refresh_token".to_owned()));
    for file in std::fs::read_dir(folder.path().join("logins")).unwrap().flatten() {
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains(SECRET));
    }
}
