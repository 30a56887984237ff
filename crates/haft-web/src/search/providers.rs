//! The requests and answers of each search provider, as their own documentation and clients have them.

use bytes::Bytes;
use haft_sandbox::egress::{HeaderName, HeaderValue, Method, Request, Url, header};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{MAX_SNIPPET, Search, SearchHit, provider_request};

/// A search provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A SearXNG server, which people run themselves.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Serper.
    Serper,
}

/// A parsed answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) hits: Vec<SearchHit>,
    pub(super) notes: Vec<String>,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Provider; 5] =
        [Provider::Searxng, Provider::Brave, Provider::Tavily, Provider::Exa, Provider::Serper];

    /// The provider's name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Searxng => "searxng",
            Provider::Brave => "brave",
            Provider::Tavily => "tavily",
            Provider::Exa => "exa",
            Provider::Serper => "serper",
        }
    }

    /// Where it is asked, unless a setting says otherwise.
    pub fn default_url(self) -> Option<&'static str> {
        match self {
            Provider::Searxng => None,
            Provider::Brave => Some("https://api.search.brave.com/res/v1/web/search"),
            Provider::Tavily => Some("https://api.tavily.com/search"),
            Provider::Exa => Some("https://api.exa.ai/search"),
            Provider::Serper => Some("https://google.serper.dev/search"),
        }
    }

    /// Whether it answers only to those who have a key.
    pub fn needs_key(self) -> bool {
        self != Provider::Searxng
    }

    /// The request for a search.
    pub(super) fn request(self, search: &Search, url: &Url, key: Option<&HeaderValue>) -> Request {
        let mut request = match self {
            Provider::Searxng => {
                let mut url = url.clone();
                if !url.path().ends_with("/search") {
                    let path = format!("{}/search", url.path().trim_end_matches('/'));
                    url.set_path(&path);
                }
                url.query_pairs_mut()
                    .append_pair("q", &search.with_operators())
                    .append_pair("format", "json");
                provider_request(Method::GET, url, None)
            }
            Provider::Brave => {
                let mut url = url.clone();
                url.query_pairs_mut()
                    .append_pair("q", &search.with_operators())
                    .append_pair("count", &search.count.to_string())
                    .append_pair("result_filter", "web")
                    .append_pair("text_decorations", "false");
                provider_request(Method::GET, url, None)
            }
            Provider::Tavily => posted(
                url,
                json!({
                    "query": search.query,
                    "search_depth": "basic",
                    "max_results": search.count,
                    "include_domains": search.allowed,
                    "exclude_domains": search.blocked,
                }),
            ),
            Provider::Exa => {
                let mut body = json!({
                    "query": search.query,
                    "type": "auto",
                    "numResults": search.count,
                    "contents": {"highlights": {"maxCharacters": MAX_SNIPPET}},
                });
                if !search.allowed.is_empty() {
                    body["includeDomains"] = json!(search.allowed);
                }
                if !search.blocked.is_empty() {
                    body["excludeDomains"] = json!(search.blocked);
                }
                posted(url, body)
            }
            Provider::Serper => posted(url, json!({"q": search.with_operators(), "num": search.count})),
        };
        if let Some(key) = key {
            let (name, value) = self.credentials(key);
            request.headers.insert(name, value);
        }
        request
    }

    /// The header with the key.
    fn credentials(self, key: &HeaderValue) -> (HeaderName, HeaderValue) {
        match self {
            Provider::Brave => (HeaderName::from_static("x-subscription-token"), key.clone()),
            Provider::Exa | Provider::Serper => (HeaderName::from_static("x-api-key"), key.clone()),
            Provider::Searxng | Provider::Tavily => {
                let mut value = b"Bearer ".to_vec();
                value.extend_from_slice(key.as_bytes());
                // A key that is a header's value stays one behind a word.
                let mut value = HeaderValue::from_bytes(&value).unwrap_or_else(|_| key.clone());
                value.set_sensitive(true);
                (header::AUTHORIZATION, value)
            }
        }
    }

    /// Parses an answer. The error says which field is not as it should be.
    pub(super) fn parse(self, answer: &[u8]) -> Result<Answer, String> {
        match self {
            Provider::Searxng => parsed(answer, |answer: SearxngAnswer| Answer {
                hits: answer.results.into_iter().map(|hit| hit.hit()).collect(),
                notes: silent_engines(&answer.unresponsive_engines),
            }),
            Provider::Brave => parsed(answer, |answer: BraveAnswer| {
                let results = answer.web.map(|web| web.results).unwrap_or_default();
                Answer { hits: results.into_iter().map(BraveHit::hit).collect(), notes: Vec::new() }
            }),
            Provider::Tavily => parsed(answer, |answer: TavilyAnswer| Answer {
                hits: answer.results.into_iter().map(TavilyHit::hit).collect(),
                notes: Vec::new(),
            }),
            Provider::Exa => parsed(answer, |answer: ExaAnswer| Answer {
                hits: answer.results.into_iter().map(ExaHit::hit).collect(),
                notes: Vec::new(),
            }),
            Provider::Serper => parsed(answer, |answer: SerperAnswer| Answer {
                hits: answer.organic.into_iter().map(SerperHit::hit).collect(),
                notes: Vec::new(),
            }),
        }
    }
}

fn posted(url: &Url, body: Value) -> Request {
    provider_request(Method::POST, url.clone(), Some(Bytes::from(body.to_string())))
}

fn parsed<T: for<'a> Deserialize<'a>>(
    answer: &[u8],
    convert: impl FnOnce(T) -> Answer,
) -> Result<Answer, String> {
    // The parser bounds the depth.
    serde_json::from_slice(answer).map(convert).map_err(|error| {
        let begin = answer.iter().find(|byte| !byte.is_ascii_whitespace());
        match begin {
            Some(b'{') => error.to_string(),
            _ => "it is no JSON object".to_owned(),
        }
    })
}

#[derive(Deserialize)]
struct SearxngAnswer {
    results: Vec<SearxngHit>,
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

#[derive(Deserialize)]
struct SearxngHit {
    url: String,
    title: String,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published: Option<String>,
}

impl SearxngHit {
    fn hit(self) -> SearchHit {
        let Self { url, title, content, published } = self;
        SearchHit { title, url, snippet: content.unwrap_or_default(), date: published }
    }
}

/// Engines that did not answer, which are pairs of a name and a reason.
fn silent_engines(engines: &[Value]) -> Vec<String> {
    let names: Vec<&str> =
        engines.iter().filter_map(|engine| engine.get(0).and_then(Value::as_str)).take(5).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => vec![format!("these engines did not answer: {}", names.join(", "))],
    }
}

#[derive(Deserialize)]
struct BraveAnswer {
    /// In every answer, whereas `web` is only in those that have results.
    #[serde(rename = "query")]
    _query: IgnoredAny,
    web: Option<BraveResults>,
}

#[derive(Deserialize)]
struct BraveResults {
    results: Vec<BraveHit>,
}

#[derive(Deserialize)]
struct BraveHit {
    title: String,
    url: String,
    description: Option<String>,
    age: Option<String>,
}

impl BraveHit {
    fn hit(self) -> SearchHit {
        let Self { title, url, description, age } = self;
        SearchHit { title, url, snippet: description.unwrap_or_default(), date: age }
    }
}

#[derive(Deserialize)]
struct TavilyAnswer {
    results: Vec<TavilyHit>,
}

#[derive(Deserialize)]
struct TavilyHit {
    title: String,
    url: String,
    content: Option<String>,
    published_date: Option<String>,
}

impl TavilyHit {
    fn hit(self) -> SearchHit {
        let Self { title, url, content, published_date } = self;
        SearchHit { title, url, snippet: content.unwrap_or_default(), date: published_date }
    }
}

#[derive(Deserialize)]
struct ExaAnswer {
    results: Vec<ExaHit>,
}

#[derive(Deserialize)]
struct ExaHit {
    title: Option<String>,
    url: String,
    #[serde(default)]
    highlights: Vec<String>,
    text: Option<String>,
    #[serde(rename = "publishedDate")]
    published: Option<String>,
}

impl ExaHit {
    fn hit(self) -> SearchHit {
        let Self { title, url, highlights, text, published } = self;
        let snippet = if highlights.is_empty() { text.unwrap_or_default() } else { highlights.join(" … ") };
        SearchHit { title: title.unwrap_or_default(), url, snippet, date: published }
    }
}

#[derive(Deserialize)]
struct SerperAnswer {
    organic: Vec<SerperHit>,
}

#[derive(Deserialize)]
struct SerperHit {
    title: String,
    link: String,
    snippet: Option<String>,
    date: Option<String>,
}

impl SerperHit {
    fn hit(self) -> SearchHit {
        let Self { title, link, snippet, date } = self;
        SearchHit { title, url: link, snippet: snippet.unwrap_or_default(), date }
    }
}
