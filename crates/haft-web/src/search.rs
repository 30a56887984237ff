//! Searches the web with a provider that the user has an account at. Providers differ in the request and in the answer;
//! limits, domains, retries and faults are the same for all of them.

mod providers;

use std::time::{Duration, Instant};

use bytes::Bytes;
use haft_core::{Claims, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::egress::{
    Bounds, EgressError, HeaderMap, HeaderValue, Method, Request, Response, Url, header, plain_host,
};
use haft_sandbox::{Exit, Run};
use parking_lot::Mutex;

use crate::fence::scrub;
use crate::fetch::fault;
use crate::web::Web;
pub use providers::Provider;

/// The most results of one search.
pub const MAX_RESULTS: usize = 20;
/// The longest answer of a provider, in bytes.
const MAX_ANSWER: u64 = 1024 * 1024;
/// The longest query, in characters: the least that a provider takes.
const MAX_QUERY: usize = 400;
/// The longest title and the longest excerpt of a result, in characters.
const MAX_TITLE: usize = 300;
const MAX_SNIPPET: usize = 1000;
/// The longest URL of a result, in bytes.
const MAX_URL: usize = 2000;
/// The longest wait for a provider that wants to be asked later; a longer one is the caller's.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The most domains that a search can be limited to.
const MAX_DOMAINS: usize = 20;

/// An account at a provider.
pub struct SearchAccount {
    /// The provider.
    pub provider: Provider,
    /// Where it is asked. Default: the provider's own address.
    pub url: Url,
    key: Key,
    found_key: Mutex<Option<HeaderValue>>,
}

/// Where the key of an account comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// No key is needed.
    None,
    /// A variable of haft's own environment.
    Variable(String),
    /// What a command prints.
    Command(String),
}

impl SearchAccount {
    /// An account. Fails where the provider needs a URL or a key and there is none.
    pub fn new(provider: Provider, url: Option<&str>, key: Key) -> Result<Self, String> {
        let name = provider.name();
        let url = match url.or(provider.default_url()) {
            Some(url) => url,
            None => return Err(format!("`{name}` needs the `url` of its server")),
        };
        let parsed =
            Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = parsed else { return Err(format!("`{url}` is no URL of a server")) };
        if key == Key::None && provider.needs_key() {
            return Err(format!(
                "`{name}` needs a key: name its variable in `key_env`, or a command in `key_command`"
            ));
        }
        Ok(Self { provider, url, key, found_key: Mutex::default() })
    }

    /// The host that is asked.
    pub fn host(&self) -> String {
        plain_host(self.url.host_str().unwrap_or_default())
    }

    /// The key, as a header's value that is never logged.
    pub(crate) async fn key(&self) -> Result<Option<HeaderValue>, Fault> {
        if let Some(key) = self.found_key.lock().clone() {
            return Ok(Some(key));
        }
        let (text, origin) = match &self.key {
            Key::None => return Ok(None),
            Key::Variable(name) => {
                let value = std::env::var(name).unwrap_or_default();
                (value, format!("the variable `{name}`, which `web.search.key_env` names,"))
            }
            Key::Command(command) => {
                (printed(command).await?, "what `web.search.key_command` printed".to_owned())
            }
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(no_key(&format!("{origin} is empty")));
        }
        let mut key =
            HeaderValue::try_from(text).map_err(|_| no_key(&format!("{origin} cannot be a key")))?;
        key.set_sensitive(true);
        *self.found_key.lock() = Some(key.clone());
        Ok(Some(key))
    }
}

/// How long the command for a key may take.
const KEY_TIMEOUT: Duration = Duration::from_secs(20);

/// What the user's command for a key prints. It runs outside of any workspace, whose files could take its place.
async fn printed(command: &str) -> Result<String, Fault> {
    let run = Run {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), command.into()],
        dir: "/".into(),
        env: Vec::new(),
        stdin: Vec::new(),
        timeout: KEY_TIMEOUT,
        max_output: 16 * 1024,
    };
    let finished = haft_sandbox::run(run, std::future::pending()).await;
    let finished = finished.map_err(|error| no_key(&format!("`web.search.key_command`: {error}")))?;
    match finished.exit {
        Exit::Code(0) => Ok(String::from_utf8_lossy(&finished.stdout).into_owned()),
        // What it prints may be secret.
        exit => Err(no_key(&format!("`web.search.key_command` ended with {exit:?}"))),
    }
}

fn no_key(why: &str) -> Fault {
    Fault::new(FaultKind::Disabled, format!("there is no key for the search: {why}"))
        .hint("the user can set it; do without a search meanwhile")
}

/// Searches the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The words.
    pub query: String,
    /// Only results of these domains and their subdomains; of all if there are none.
    pub allowed: Vec<String>,
    /// No results of these domains and their subdomains.
    pub blocked: Vec<String>,
    /// How many results.
    pub count: usize,
    /// The host of the provider, for claims.
    host: String,
}

impl Search {
    /// A search with the session's provider.
    pub fn new(
        query: &str,
        allowed: &[String],
        blocked: &[String],
        count: usize,
        cx: &Context,
    ) -> Result<Self, Fault> {
        let web = cx.session().extension::<Web>();
        let Some(account) = &web.search else { return Err(unconfigured()) };
        let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
        if query.is_empty() {
            return Err(Fault::invalid("`query` is empty"));
        }
        if query.chars().count() > MAX_QUERY {
            return Err(Fault::invalid(format!("`query` is longer than {MAX_QUERY} characters"))
                .hint("use fewer words"));
        }
        if !allowed.is_empty() && !blocked.is_empty() {
            return Err(Fault::invalid("domains are either allowed or blocked, not both in one search"));
        }
        if allowed.len().max(blocked.len()) > MAX_DOMAINS {
            return Err(Fault::invalid(format!("at most {MAX_DOMAINS} domains fit into one search")));
        }
        let domains =
            |given: &[String]| given.iter().map(|domain| parse_domain(domain)).collect::<Result<_, _>>();
        Ok(Self {
            query,
            allowed: domains(allowed)?,
            blocked: domains(blocked)?,
            count: count.clamp(1, MAX_RESULTS),
            host: account.host(),
        })
    }

    /// Whether a result is of a domain that is wanted.
    fn wants(&self, url: &Url) -> bool {
        let host = plain_host(url.host_str().unwrap_or_default());
        let is_of = |domain: &String| {
            host.strip_suffix(domain.as_str()).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
        };
        (self.allowed.is_empty() || self.allowed.iter().any(is_of)) && !self.blocked.iter().any(is_of)
    }

    /// The words with the domains as operators, for providers that have no parameter for them.
    fn with_operators(&self) -> String {
        let sites: Vec<String> = self.allowed.iter().map(|domain| format!("site:{domain}")).collect();
        let mut query = self.query.clone();
        if !sites.is_empty() {
            query = format!("{query} {}", sites.join(" OR "));
        }
        for domain in &self.blocked {
            query = format!("{query} -site:{domain}");
        }
        query
    }
}

/// A domain as people write it, perhaps as a URL.
fn parse_domain(text: &str) -> Result<String, Fault> {
    let bare = text.trim().trim_start_matches("*.");
    let bare = bare.split_once("://").map_or(bare, |(_, rest)| rest);
    let bare = bare.split(['/', '?', '#']).next().unwrap_or_default();
    let url = Url::parse(&format!("https://{bare}/")).ok();
    let domain = url.as_ref().and_then(Url::domain).map(plain_host);
    domain.ok_or_else(|| Fault::invalid(format!("`{text}` is no domain")).hint("write it as `example.org`"))
}

/// One result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHit {
    /// The title of the page.
    pub title: String,
    /// Its URL.
    pub url: String,
    /// What the provider quotes of it.
    pub snippet: String,
    /// When it was published, as the provider says.
    pub date: Option<String>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The results, the best first.
    pub results: Vec<SearchHit>,
    /// The provider's name.
    pub provider: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Operation for Search {
    type Output = Found;

    fn unavailable(cx: &Context) -> Option<Fault> {
        cx.session().extension::<Web>().search.is_none().then(unconfigured)
    }

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Host(self.host.clone()))
    }

    async fn run(self, cx: &Context) -> Result<Found, Fault> {
        let web = cx.session().extension::<Web>();
        let Some(account) = web.search.clone() else { return Err(unconfigured()) };
        let start = Instant::now();
        let work = self.answer(&account, &web);
        let answer = tokio::select! {
            answer = work => answer?,
            () = cx.cancelled() => return Err(cx.cancelled_fault()),
        };
        let provider = account.provider.name();
        let parsed = account.provider.parse(&answer).map_err(|why| {
            Fault::failed(format!("`{provider}` has answered something that is not understood: {why}"))
                .hint("the user can check `web.search.url`")
        })?;
        let mut notes: Vec<String> = parsed.notes.iter().map(|note| clean(note, MAX_TITLE)).collect();
        let found = parsed.hits.len();
        let usable = |hit: SearchHit| {
            let url = Url::parse(&hit.url)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
            (url.as_str().len() <= MAX_URL && self.wants(&url)).then(|| SearchHit {
                title: clean(&hit.title, MAX_TITLE),
                url: url.into(),
                snippet: clean(&hit.snippet, MAX_SNIPPET),
                date: hit.date.map(|date| clean(&date, 40)).filter(|date| !date.is_empty()),
            })
        };
        let results: Vec<SearchHit> = parsed.hits.into_iter().filter_map(usable).take(self.count).collect();
        if results.is_empty() && found > 0 {
            notes.push(format!("the provider found {found}, but none of these domains"));
        }
        Ok(Found { results, provider, took: start.elapsed(), notes })
    }
}

impl Search {
    /// The provider's answer. Where it wants to be asked again soon, that is done once.
    async fn answer(&self, account: &SearchAccount, web: &Web) -> Result<Vec<u8>, Fault> {
        let key = account.key().await?;
        let provider = account.provider.name();
        let mut has_waited = false;
        loop {
            let request = account.provider.request(self, &account.url, key.as_ref());
            let response =
                web.search_egress.send(request).await.map_err(|error| unreachable(provider, error))?;
            let wait = retry_after(&response);
            match response.status().as_u16() {
                200 => return response.bytes().await.map_err(|error| unreachable(provider, error)),
                429 | 503 => match wait.filter(|wait| !has_waited && *wait <= MAX_WAIT) {
                    Some(wait) => {
                        has_waited = true;
                        drop(response);
                        tokio::time::sleep(wait).await;
                    }
                    None => return Err(later(provider, wait)),
                },
                status => return Err(refused(account.provider, status)),
            }
        }
    }
}

fn unreachable(provider: &str, error: EgressError) -> Fault {
    let inner = fault(error);
    Fault::new(inner.kind(), format!("the search provider `{provider}`: {}", inner.message()))
        .hint("try again later; the user can see with `haft doctor` whether it answers")
}

fn later(provider: &str, wait: Option<Duration>) -> Fault {
    let when = match wait {
        Some(wait) => format!("in {} s", wait.as_secs()),
        None => "later".to_owned(),
    };
    let fault = Fault::failed(format!("`{provider}` takes no more searches now; try again {when}"))
        .hint("go on without a search meanwhile");
    match wait {
        Some(wait) => fault.with("retry_after", wait.as_secs()),
        None => fault,
    }
}

fn refused(provider: Provider, status: u16) -> Fault {
    let name = provider.name();
    let hint = match (provider, status) {
        (Provider::Searxng, 403) => "its settings must list `json` among `search.formats`",
        (_, 401 | 403) => "the user can check the key that `web.search` names",
        (_, 402) => "the account has no searches left",
        (_, 404) => "the user can check `web.search.url`",
        _ => "try other words, or go on without a search",
    };
    Fault::failed(format!("`{name}` refuses the search with status {status}"))
        .hint(hint)
        .with("status", status)
}

/// How long a response asks to wait.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// A text of a provider in one line: scrubbed, without tags, bounded.
fn clean(text: &str, max: usize) -> String {
    let (text, _) = scrub(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The fault of a search without a provider.
fn unconfigured() -> Fault {
    Fault::new(FaultKind::Disabled, "no search provider is configured").hint(
        "the user can configure one in the settings: `[web.search]` with `provider` (searxng, brave, tavily, exa or serper) \
         and `key_env`, or `url` for searxng",
    )
}

/// A request to a provider, with the limits of searches.
fn provider_request(method: Method, url: Url, body: Option<Bytes>) -> Request {
    let bounds = Bounds { body: MAX_ANSWER, total: Some(Duration::from_secs(30)), ..Bounds::default() };
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("haft/", env!("CARGO_PKG_VERSION"))));
    if body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Request { method, url, headers, body, bounds }
}
