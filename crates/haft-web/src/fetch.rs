//! Fetches one URL: from the session's cache or by requests through the egress, hop by hop where a page redirects within
//! its site. Another site is named in the result and not gone to.

mod redirect;

use std::time::{Duration, Instant};

use bytes::Bytes;
use haft_core::{BoxFuture, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::egress::{
    Bounds, EgressError, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header,
};
use std::sync::Arc;

use crate::cache::PageCache;
use crate::content::{self, Body, Content, media_type};
use crate::fence::scrub;
use crate::target::Target;
use crate::web::Web;
use redirect::Hop;
pub use redirect::Redirect;

/// The longest a fetch may take.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(120);
/// The most redirects within a site.
const MAX_HOPS: usize = 5;
/// The most bytes of the headers that a result has.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// What haft calls itself.
const USER_AGENT: &str =
    concat!("haft/", env!("CARGO_PKG_VERSION"), " (+", env!("CARGO_PKG_REPOSITORY"), ")");
/// The types that pages are wanted in.
const ACCEPT: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    #[default]
    Get,
    /// Sends something.
    Post,
}

impl Verb {
    /// The method of HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
        }
    }
}

/// In which form the body is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// As a page to read: HTML as Markdown, JSON indented, PDFs and pictures shown.
    #[default]
    Page,
    /// As text that is like what was sent.
    Raw,
}

/// Fetches a URL.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The URL.
    pub target: Target,
    /// What the request does.
    pub verb: Verb,
    /// Headers of the caller's own.
    pub headers: Vec<(String, String)>,
    /// The body, if any.
    pub body: Option<String>,
    /// How long everything may take. Default: 60 s.
    pub timeout: Option<Duration>,
    /// The form of the result.
    pub want: Want,
    /// What the caller wants to know of the page.
    pub prompt: Option<String>,
}

impl Fetch {
    /// A request that only reads, for a page.
    pub fn page(target: Target) -> Self {
        Self {
            target,
            verb: Verb::Get,
            headers: Vec::new(),
            body: None,
            timeout: None,
            want: Want::Page,
            prompt: None,
        }
    }

    /// Whether the request sends more than its URL.
    pub fn sends_more(&self) -> bool {
        self.verb != Verb::Get || !self.headers.is_empty() || self.body.is_some()
    }

    /// The request in full, for the person who approves it.
    pub fn in_full(&self) -> String {
        let mut text = format!("{} {}\n", self.verb.name(), self.target.url());
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\n"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("\n{body}\n"));
        }
        text
    }

    fn header_map(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        let accept = if self.want == Want::Page { ACCEPT } else { "*/*" };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        for (name, value) in &self.headers {
            let parsed = HeaderName::try_from(name.as_str())
                .map_err(|_| Fault::invalid(format!("`{name}` is no name of a header")))?;
            // These belong to the connection; a wrong one makes the server see another request than the person approved.
            if [
                header::HOST,
                header::CONTENT_LENGTH,
                header::TRANSFER_ENCODING,
                header::CONNECTION,
                header::UPGRADE,
            ]
            .contains(&parsed)
            {
                return Err(Fault::invalid(format!("the header `{parsed}` cannot be set"))
                    .hint("leave it out: it is sent as the URL and the body need it"));
            }
            let value = HeaderValue::try_from(value.as_str()).map_err(|_| {
                Fault::invalid(format!("the header `{parsed}` has a value that cannot be sent"))
            })?;
            headers.append(parsed, value);
        }
        Ok(headers)
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The URL that was requested.
    pub url: String,
    /// The URL that answered, after redirects within its site.
    pub final_url: String,
    /// The host that answered.
    pub host: String,
    /// The status.
    pub status: u16,
    /// The status in words.
    pub status_text: &'static str,
    /// The media type that the server names.
    pub content_type: Option<String>,
    /// The headers, scrubbed.
    pub headers: Vec<(String, String)>,
    /// The length of the body in bytes, after decompression, as far as it was read.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// Whether it comes from the session's cache.
    pub is_cached: bool,
    /// The content.
    pub content: Content,
    /// A redirect that was not followed.
    pub redirect: Option<Redirect>,
    /// What a model answered to the prompt, where the session has one for this.
    pub answer: Option<String>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Answers a question about a page, such as a small model that reads it instead of the one that asked.
pub trait PageReader: Send + Sync {
    /// The answer to `prompt` from the text of a page. The text is untrusted.
    fn answer<'a>(
        &'a self,
        prompt: &'a str,
        page: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<String, Fault>>;
}

/// Session extension: who answers questions about pages. Default: nobody, so that pages are shown themselves.
#[derive(Clone, Default)]
pub struct PageReaders(pub Option<Arc<dyn PageReader>>);

impl Operation for Fetch {
    type Output = Fetched;

    fn claims(&self) -> Claims {
        let host = Resource::Host(self.target.host());
        if self.sends_more() { Claims::none().write(host) } else { Claims::none().read(host) }
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let web = cx.session().extension::<Web>();
        self.header_map()?;
        web.egress.judge(self.target.url()).map_err(fault)?;
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Fault::invalid("`timeout` is 0: it must be 1 second at least"));
        }
        if self.body.is_some() && self.verb == Verb::Get {
            return Err(Fault::invalid("a GET request has no body").hint("send it with `method`: \"POST\""));
        }
        Ok(self.sends_more().then(|| Preview::new(self.in_full())))
    }

    async fn run(self, cx: &Context) -> Result<Fetched, Fault> {
        let cache = cx.session().extension::<PageCache>();
        let is_cacheable = !self.sends_more();
        let url = self.target.url().to_string();
        let cached = cache.get(&url, self.want).filter(|page| {
            // Redirected to another name of the site, about which rules may have changed.
            is_cacheable && (page.host == self.target.host() || redirect::is_permitted(&page.host, cx))
        });
        let mut fetched = match cached {
            Some(page) => page,
            None => {
                let work = self.fetch(cx);
                let fetched = tokio::select! {
                    fetched = work => fetched?,
                    () = cx.cancelled() => return Err(cx.cancelled_fault()),
                };
                if is_cacheable && fetched.status == 200 && !matches!(fetched.content, Content::Kept { .. }) {
                    cache.keep(&url, self.want, &fetched);
                }
                fetched
            }
        };
        let readers = cx.session().extension::<PageReaders>();
        if let (Some(reader), Some(prompt), Content::Text(page)) =
            (&readers.0, &self.prompt, &fetched.content)
        {
            match reader.answer(prompt, page, cx).await {
                Ok(answer) => fetched.answer = Some(scrub(&answer).0),
                // The page itself is a good answer, too.
                Err(fault) => {
                    fetched.notes.push(format!("nobody could answer from the page: {}", fault.message()))
                }
            }
        }
        Ok(fetched)
    }
}

impl Fetch {
    async fn fetch(&self, cx: &Context) -> Result<Fetched, Fault> {
        let start = Instant::now();
        let web = cx.session().extension::<Web>();
        let total = self.timeout.unwrap_or(Duration::from_secs(60)).min(MAX_TIMEOUT);
        let mut target = self.target.clone();
        let mut notes = target.notes().to_vec();
        let mut hops = 0;
        let (mut response, redirect) = loop {
            let left = total.saturating_sub(start.elapsed());
            let response = web.egress.send(self.request(&target, &web, left)?).await.map_err(fault)?;
            match redirect::next(self, &target, &response, &web, cx) {
                Hop::Arrived => break (response, None),
                Hop::Elsewhere(redirect) => break (response, Some(redirect)),
                Hop::Follow(_) if hops == MAX_HOPS => {
                    return Err(Fault::failed(format!(
                        "`{}` redirects more than {MAX_HOPS} times",
                        self.target.url()
                    ))
                    .hint("the site may want a login or cookies, which are not sent"));
                }
                Hop::Follow(next) => {
                    hops += 1;
                    target = *next;
                }
            }
        };
        let (bytes, is_cut) = read(&mut response, &web, &mut notes).await?;
        let content_type = header_text(response.headers(), &header::CONTENT_TYPE);
        let length = bytes.len() as u64;
        let body =
            Body { bytes: bytes.into(), content_type: content_type.as_deref(), url: target.url(), is_cut };
        let content = match redirect {
            // What a page that leads elsewhere shows is of no use.
            Some(_) => Content::Empty,
            None => content::convert(body, self.want, &mut notes, cx).await?,
        };
        let status = response.status();
        Ok(Fetched {
            url: self.target.url().to_string(),
            final_url: target.url().to_string(),
            host: target.host(),
            status: status.as_u16(),
            status_text: status.canonical_reason().unwrap_or("unknown"),
            content_type: content_type.as_deref().map(media_type).filter(|found| !found.is_empty()),
            headers: shown_headers(response.headers()),
            bytes: length,
            took: start.elapsed(),
            is_cached: false,
            content,
            redirect,
            answer: None,
            notes,
        })
    }

    fn request(&self, target: &Target, web: &Web, left: Duration) -> Result<Request, Fault> {
        let bounds = Bounds { total: Some(left), body: web.max_bytes, ..Bounds::default() };
        Ok(Request {
            method: match self.verb {
                Verb::Get => Method::GET,
                Verb::Post => Method::POST,
            },
            url: target.url().clone(),
            headers: self.header_map()?,
            body: self.body.clone().map(Bytes::from),
            bounds,
        })
    }
}

/// Reads a body up to its limit. A longer one is cut; one that breaks off is an error.
async fn read(response: &mut Response, web: &Web, notes: &mut Vec<String>) -> Result<(Vec<u8>, bool), Fault> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok((bytes, false)),
            Err(EgressError::TooLarge { .. }) => {
                notes.push(format!("only the first {} bytes are read; it goes on", web.max_bytes));
                return Ok((bytes, true));
            }
            Err(error) => return Err(fault(error)),
        }
    }
}

/// A header's value, as text.
fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(scrub(&String::from_utf8_lossy(value.as_bytes())).0)
}

/// The headers in a form for the model: scrubbed, bounded, without cookies.
fn shown_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut left = MAX_HEADER_BYTES;
    let mut shown: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        let value = scrub(&String::from_utf8_lossy(value.as_bytes())).0;
        let size = name.as_str().len() + value.len();
        if *name == header::SET_COOKIE || size > left {
            continue;
        }
        left -= size;
        match shown.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, values)) => *values = format!("{values}, {value}"),
            None => shown.push((name.as_str().to_owned(), value)),
        }
    }
    shown
}

/// The fault of a request that failed.
pub(crate) fn fault(error: EgressError) -> Fault {
    let kind = match &error {
        EgressError::Refused { .. } | EgressError::Tls { .. } => FaultKind::AccessDenied,
        EgressError::Unresolved { .. } => FaultKind::NotFound,
        EgressError::Timeout { .. } => FaultKind::Timeout,
        EgressError::TooLarge { .. } => FaultKind::TooLarge,
        EgressError::Scheme(_) | EgressError::NoHost => FaultKind::InvalidInput,
        _ => FaultKind::Failed,
    };
    let hint = match &error {
        EgressError::Refused { .. } => Some(
            "addresses of this machine and its networks are reached only if the user lists them in `web.allow_private`",
        ),
        EgressError::Unresolved { .. } => Some(
            "check the name; if other names fail as well, there may be no network here, and commands have none either",
        ),
        EgressError::Connect { .. } | EgressError::Timeout { .. } => {
            Some("try again later; if other hosts fail as well, there may be no network here")
        }
        EgressError::Tls { .. } => Some("it is not fetched without TLS instead; tell the user"),
        _ => None,
    };
    let fault = Fault::new(kind, error.to_string());
    match hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// Whether a status redirects.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
