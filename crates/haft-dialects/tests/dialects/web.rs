//! The web tools through sessions: real servers on loopback play public hosts, by injection at the egress.

mod hostile;
mod pages;
mod permits;
mod searches;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};

use haft_core::limits::ResultStore;
use haft_core::permissions::{ApprovalRequest, Approver, Decision};
use haft_core::{BoxFuture, Call, Dialect, Engine, Fault, Mode, Reply, Session, Store, Workspace};
use haft_dialects::{Claude, Workspace as WorkspaceDialect};
use haft_rules::{Effect, RuleJudge};
use haft_sandbox::egress::{EgressOptions, Lookup, Resolver, StandIns};
use haft_testing::http::{Certificate, HttpServer, Received, Stream, response};
use haft_web::{DEFAULT_MAX_BYTES, Key, Provider, SearchAccount, Web};
use serde_json::{Value, json};

use crate::rules::book;

/// Hosts of the tests, and their public addresses. Nothing connects to these.
const HOSTS: [(&str, &str); 6] = [
    ("site.example", "93.184.216.1"),
    ("www.site.example", "93.184.216.2"),
    ("other.example", "93.184.216.3"),
    ("xn--bcher-kva.example", "93.184.216.4"),
    ("raw.githubusercontent.com", "93.184.216.5"),
    ("example.org", "93.184.216.6"),
];

static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| Certificate::new(&HOSTS.map(|(name, _)| name)));

/// A name server that knows the hosts of the tests, and names with addresses of a test's own.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    /// The answers for a name, in turn; the last one for good.
    fn with(self, name: &str, answers: &[&str]) -> Self {
        let answers = answers.iter().map(|answer| vec![answer.parse().unwrap()]).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
        self
    }
}

impl Resolver for Names {
    fn lookup(&self, name: &str) -> Lookup {
        let own = self.0.lock().unwrap().get_mut(name).map(|answers| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        let known = HOSTS.iter().find(|(host, _)| *host == name).map(|(_, ip)| vec![ip.parse().unwrap()]);
        Box::pin(std::future::ready(own.or(known).ok_or_else(|| io::Error::other("no such name"))))
    }
}

/// A server that plays all hosts of the tests, and tells them apart by the header `Host`.
fn public(
    answer: impl Fn(&Received, &mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
) -> HttpServer {
    HttpServer::start_tls(&CERTIFICATE, answer)
}

/// A server with one page for every URL.
fn page(content_type: &'static str, body: impl Into<Vec<u8>>) -> HttpServer {
    let body = body.into();
    public(move |_, stream| stream.write_all(&response("200 OK", &[("Content-Type", content_type)], &body)))
}

/// The web in which a server plays the public hosts.
fn web_of(server: &HttpServer, names: Names) -> Web {
    web_with(server, names, DEFAULT_MAX_BYTES, None)
}

fn web_with(server: &HttpServer, names: Names, max_bytes: u64, account: Option<SearchAccount>) -> Web {
    let stand_ins = HOSTS.iter().fold(StandIns::new().authority(CERTIFICATE.authority()), |all, (_, ip)| {
        all.server(ip.parse().unwrap(), server.address())
    });
    let options = EgressOptions {
        resolver: Some(Arc::new(names)),
        stand_ins: Some(stand_ins),
        ..EgressOptions::default()
    };
    Web::new(options, max_bytes, account)
}

/// The web for tests of all tools: a page at every host, and a search provider.
pub(crate) fn playing() -> Web {
    static SERVER: LazyLock<HttpServer> = LazyLock::new(|| page("text/plain", "a page"));
    static PROVIDER: LazyLock<HttpServer> = LazyLock::new(|| {
        let answer =
            r#"{"results": [{"url": "https://example.org/", "title": "Example", "content": "an example"}]}"#;
        HttpServer::fixed(response("200 OK", &[], answer))
    });
    let account = SearchAccount::new(Provider::Searxng, Some(&PROVIDER.url("/")), Key::None).unwrap();
    web_with(&SERVER, Names::default(), DEFAULT_MAX_BYTES, Some(account))
}

/// A person who gives one answer, and remembers the questions.
#[derive(Clone)]
struct Person {
    decision: Decision,
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Approver for Person {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(self.decision.clone())))
    }
}

/// A session with a web, rules and a person.
struct Visit {
    _folder: tempfile::TempDir,
    session: Session,
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Visit {
    /// A session in which everything is allowed that no rule denies.
    fn bypassing(web: Web) -> Self {
        Self::new(web, &[], Mode::Bypass, Arc::new(Claude))
    }

    /// A session with rules whose person denies.
    fn new(web: Web, rules: &[(Effect, &str)], mode: Mode, dialect: Arc<dyn Dialect>) -> Self {
        let person = Person { decision: Decision::Deny { feedback: None }, asked: Arc::default() };
        Self::with_person(web, rules, mode, dialect, person)
    }

    fn with_person(
        web: Web,
        rules: &[(Effect, &str)],
        mode: Mode,
        dialect: Arc<dyn Dialect>,
        person: Person,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        std::fs::create_dir_all(folder.path().join("ws")).unwrap();
        let store = ResultStore::new(Store::at(&results), std::time::Duration::from_secs(3600), 1 << 30);
        let asked = person.asked.clone();
        let judge = Arc::new(RuleJudge::new(book(rules), None));
        let engine = Engine::builder().judge(judge).approver(person).keep_results(store).build();
        let workspace = Workspace::open(&folder.path().join("ws")).unwrap();
        let session = engine.session(workspace).dialect(dialect).mode(mode).extension(web).start();
        Self { _folder: folder, session, asked }
    }

    async fn call(&self, tool: &str, input: Value) -> Reply {
        self.session.call(Call::new("call_1", tool, input)).await
    }

    /// A call of `WebFetch`.
    async fn fetch(&self, url: &str) -> Reply {
        self.call("WebFetch", json!({"url": url, "prompt": "What is it?"})).await
    }

    /// The reasons of the questions that were asked.
    fn reasons(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|request| request.reason.clone()).collect()
    }
}

/// The text between the marks of a reply.
fn between(reply: &Reply) -> String {
    let text = reply.full_text();
    let open = text.find("⟦web ").unwrap_or_else(|| panic!("no mark: {text}"));
    let end = text.rfind("⟦/web ").unwrap_or_else(|| panic!("no closing mark: {text}"));
    let mark = &text[open + "⟦web ".len()..][..16];
    assert!(text[end..].starts_with(&format!("⟦/web {mark}⟧")), "the marks differ: {text}");
    let inside = &text[open..end];
    inside[inside.find('\n').unwrap() + 1..].trim_end().to_owned()
}

fn workspace_dialect() -> Arc<dyn Dialect> {
    Arc::new(WorkspaceDialect)
}
