//! A client for the protocol's conformance suite, on the public API alone: connects a session to the server at the URL in
//! its last argument, logs in if required, and calls every tool with an example of its input.
//! `conformance/run` runs it.

use std::process::ExitCode;

use haft_core::questions::{Answer, QuestionSet, Respondent};
use haft_core::{BoxFuture, Call, Engine, Mode, Session, Workspace};
use haft_mcp::client::{LoginBrowser, OAuth, Protocol, Server, ServerState, ServerTransport, Servers};
use haft_sandbox::egress::{Egress, EgressOptions, Reach, Request, Url};
use serde_json::Value;

/// What the suite calls the server.
const SERVER: &str = "suite";
/// The most logins, for a server that asks for more scopes each time.
const MAX_LOGINS: usize = 3;
/// The client metadata document that the suite expects.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let url =
        std::env::args().next_back().filter(|last| last.starts_with("http")).ok_or("no address was given")?;
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|context| serde_json::from_str(&context).ok())
        .unwrap_or_default();
    let known = |name: &str| context[name].as_str().map(str::to_owned);
    let oauth = OAuth {
        client_id: known("client_id"),
        client_secret: known("client_secret"),
        scopes: Vec::new(),
        client_metadata_url: Some(METADATA.to_owned()),
    };
    let access = ServerTransport::Http { url, headers: Default::default(), bearer: None, oauth };
    let mut server = Server::new(SERVER, access);
    let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    if version.as_str() >= "2026" {
        server.protocol = Protocol::Discover;
    }
    let folder = tempfile::tempdir()?;
    let session = Engine::builder()
        .respondent(First)
        .build()
        .session(Workspace::open(folder.path())?)
        .mode(Mode::Bypass)
        .start();
    let servers = Servers::new(vec![server], folder.path());
    servers.join(&session);
    let outcome = call_all_tools(&servers, &session).await;
    servers.close().await;
    outcome
}

async fn call_all_tools(servers: &Servers, session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    let mut logins = 0;
    while let Err(fault) = servers.start(SERVER).await {
        if logins == MAX_LOGINS || !fault.message().contains("haft mcp login") {
            return Err(fault.into());
        }
        logins += 1;
        servers.login(SERVER, &Browser).await?;
    }
    for (number, tool) in session.tools().all().iter().enumerate() {
        let spec = tool.spec();
        if spec.category != haft_core::Category::Mcp || !spec.name.starts_with("mcp__") {
            continue;
        }
        loop {
            let call = Call::new(number.to_string(), spec.name.clone(), spec.example());
            let reply = session.call(call).await;
            if !reply.is_error || logins == MAX_LOGINS || !reply.full_text().contains("haft mcp login") {
                break;
            }
            // This tool needs more scopes.
            logins += 1;
            servers.login(SERVER, &Browser).await?;
        }
    }
    match servers.status().remove(0).state {
        ServerState::Down(fault) => Err(fault.into()),
        _ => Ok(()),
    }
}

/// Chooses the first option of every question, or answers 1.
struct First;

impl Respondent for First {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, haft_core::Fault>> {
        let answer = |options: usize| if options == 0 { Answer::other("1") } else { Answer::option(0) };
        let answers = set.questions.iter().map(|question| answer(question.options.len())).collect();
        Box::pin(std::future::ready(Ok(answers)))
    }
}

/// Visits the login page itself: the suite's login redirects at once.
struct Browser;

impl LoginBrowser for Browser {
    fn redirect(&self) -> String {
        "http://localhost:3000/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a str) -> BoxFuture<'a, Result<String, haft_core::Fault>> {
        Box::pin(async move {
            let egress = Egress::new(EgressOptions { reach: Reach::Anywhere, ..EgressOptions::default() });
            let page = Url::parse(page).map_err(|error| error.to_string())?;
            let answer = egress.send(Request::get(page)).await.map_err(|error| error.to_string())?;
            let back = answer.headers().get("location").and_then(|back| back.to_str().ok());
            back.map(str::to_owned)
                .ok_or_else(|| format!("the page sends nowhere: {}", answer.status()).into())
        })
    }
}
