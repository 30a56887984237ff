//! The one way out to the network: nothing else builds an HTTP client or opens an outgoing connection (held by
//! `clippy.toml`). Every address is judged before a connection is made, and the connection goes to what was judged;
//! redirects are the caller's decision; time, connections and bytes are bounded. Knows nothing of pages, models or rules.

mod address;
mod client;
mod error;
mod proxy;
mod resolver;
mod route;
mod stand_ins;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::Client;
pub use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode, Url};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Host;

pub use address::{Private, Reach, plain_host};
pub use client::{install_tls, library_client};
pub use error::EgressError;
pub use proxy::Proxies;
pub use resolver::{Lookup, Resolver};
pub use route::has_public_route;
pub use stand_ins::StandIns;

use client::CONNECT_TIMEOUT;
use resolver::{JudgedResolver, SystemResolver};

/// The most requests to one host at a time; others wait.
pub const MAX_PER_HOST: usize = 6;
/// The most requests at a time.
pub const MAX_AT_ONCE: usize = 64;

/// Makes HTTP requests. Cheap to clone; clones share their connections and their limits.
#[derive(Clone)]
pub struct Egress(Arc<Inner>);

struct Inner {
    judged: JudgedResolver,
    proxies: Proxies,
    proxy_lookup: ProxyLookup,
    stand_ins: Option<Arc<StandIns>>,
    direct: Mutex<Option<Client>>,
    proxied: Mutex<Option<Client>>,
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Who looks up the names of hosts that are reached through a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyLookup {
    /// This machine as well: a name that it cannot find, or whose address must not be reached, is refused. The proxy may
    /// still find another address.
    #[default]
    Here,
    /// The proxy alone: only literal addresses are judged.
    Proxy,
}

/// How an [`Egress`] connects.
#[derive(Clone, Default)]
pub struct EgressOptions {
    /// The addresses it connects to.
    pub reach: Reach,
    /// The proxies it uses.
    pub proxies: Proxies,
    /// Who looks up the names behind a proxy.
    pub proxy_lookup: ProxyLookup,
    /// The resolver. Default: the system's.
    pub resolver: Option<Arc<dyn Resolver>>,
    /// Servers that play public hosts, in tests.
    pub stand_ins: Option<StandIns>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL. A user and a password in it are not sent.
    pub url: Url,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, if any.
    pub body: Option<Bytes>,
    /// The limits.
    pub bounds: Bounds,
}

impl Request {
    /// A `GET` request with the usual limits.
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None, bounds: Bounds::default() }
    }
}

/// The limits of a request. Connecting has a limit of its own, the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long the server may send nothing.
    pub idle: Duration,
    /// How long everything may take, from the call to the last byte; `None` for streams that end when they end.
    pub total: Option<Duration>,
    /// The longest body in bytes, after decompression.
    pub body: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { idle: Duration::from_secs(15), total: Some(Duration::from_secs(60)), body: 10 * 1024 * 1024 }
    }
}

impl Egress {
    /// An egress with these options. Connects to nothing yet.
    pub fn new(options: EgressOptions) -> Self {
        let EgressOptions { reach, proxies, proxy_lookup, resolver, stand_ins } = options;
        let resolver = resolver.unwrap_or_else(|| Arc::new(SystemResolver));
        let stand_ins = stand_ins.map(Arc::new);
        Self(Arc::new(Inner {
            judged: JudgedResolver { reach, resolver, stand_ins: stand_ins.clone() },
            proxies,
            proxy_lookup,
            stand_ins,
            direct: Mutex::default(),
            proxied: Mutex::default(),
            all: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            hosts: Mutex::default(),
        }))
    }

    /// The addresses that it connects to.
    pub fn reach(&self) -> &Reach {
        &self.0.judged.reach
    }

    /// The proxy that a request to a URL goes through, if any.
    pub fn proxy_for(&self, url: &Url) -> Option<&Url> {
        self.0.proxies.for_url(url)
    }

    /// Judges a URL as far as that is possible without a lookup: its scheme, and an address in any spelling.
    pub fn judge(&self, url: &Url) -> Result<(), EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::Scheme(url.scheme().to_owned()));
        }
        let address: IpAddr = match url.host() {
            None => return Err(EgressError::NoHost),
            Some(Host::Domain("")) => return Err(EgressError::NoHost),
            Some(Host::Domain(name)) => return self.judge_name(name),
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
        };
        self.reach().judge(address).map_err(|kind| EgressError::Refused {
            host: url.host_str().unwrap_or_default().to_owned(),
            address,
            kind: kind.to_owned(),
        })
    }

    /// Names that stand for this machine or its network whatever a name server says.
    fn judge_name(&self, name: &str) -> Result<(), EgressError> {
        const LOCAL: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "localdomain"];
        let plain = plain_host(name);
        let is_local = LOCAL
            .iter()
            .any(|local| plain.strip_suffix(local).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')));
        let may_be_local = match self.reach() {
            Reach::Anywhere => true,
            // Its addresses are judged; a setting may allow them.
            Reach::Public { and } => and.iter().any(|allowed| matches!(allowed, Private::Network { .. })),
        };
        match is_local && !may_be_local && !self.reach().names(name) {
            true => Err(EgressError::Unresolved {
                host: name.to_owned(),
                why: "it is a name of this machine or of its network, which are not reached".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Makes a request, and returns when the head of the response is there. Waits while there are too many requests to the
    /// same host. Dropping the future or the response ends the request.
    pub async fn send(&self, request: Request) -> Result<Response, EgressError> {
        let Request { method, mut url, headers, body, bounds } = request;
        self.judge(&url)?;
        // Credentials are sent in headers or not at all. Fails for URLs without a host alone.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let host = url.host_str().unwrap_or_default().to_owned();
        let clock = Clock { host: host.clone(), bounds, start: Instant::now() };
        let slots = clock.total(self.slots(&host)).await?;
        let client = match self.0.proxies.for_url(&url) {
            None => self.direct()?,
            Some(_) => {
                if let (Some(Host::Domain(name)), ProxyLookup::Here) = (url.host(), self.0.proxy_lookup) {
                    clock.total(self.0.judged.addresses(name)).await??;
                }
                self.proxied()?
            }
        };
        let mut built = client.request(method, url).headers(headers);
        if let Some(body) = body {
            built = built.body(body);
        }
        let sent = clock.total(clock.idle("does not answer", built.send())).await??;
        let sent = sent.map_err(|error| EgressError::of(error, &host, CONNECT_TIMEOUT))?;
        Ok(Response { inner: sent, clock, read: 0, _slots: slots })
    }

    async fn slots(&self, host: &str) -> Slots {
        let of_host = {
            let mut hosts = self.0.hosts.lock();
            hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
            let known = hosts.get(host).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let made = Arc::new(Semaphore::new(MAX_PER_HOST));
                hosts.insert(host.to_owned(), Arc::downgrade(&made));
                made
            })
        };
        // The host's first: requests that wait for a slow host hold no place that others could use. Neither is closed.
        let of_host = of_host.acquire_owned().await.ok();
        let of_all = self.0.all.clone().acquire_owned().await.ok();
        Slots { _of_host: of_host, _of_all: of_all }
    }

    fn direct(&self) -> Result<Client, EgressError> {
        made(&self.0.direct, || client::build(self.0.judged.clone(), None, self.0.stand_ins.as_deref()))
    }

    /// The client for requests through a proxy. It resolves the proxies' own names alone, which the user has chosen.
    fn proxied(&self) -> Result<Client, EgressError> {
        made(&self.0.proxied, || {
            let and = self.0.proxies.hosts().map(|host| Private::Host(plain_host(host))).collect();
            let judged = JudgedResolver { reach: Reach::Public { and }, ..self.0.judged.clone() };
            client::build(judged, Some(&self.0.proxies), self.0.stand_ins.as_deref())
        })
    }
}

/// The client in its place, made when it is first needed: the system's certificates take memory.
fn made(
    place: &Mutex<Option<Client>>,
    make: impl FnOnce() -> Result<Client, EgressError>,
) -> Result<Client, EgressError> {
    let mut place = place.lock();
    match &*place {
        Some(client) => Ok(client.clone()),
        None => Ok(place.insert(make()?).clone()),
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("judged", &self.0.judged).finish_non_exhaustive()
    }
}

/// Places among the requests that are made at a time.
struct Slots {
    _of_host: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// The time limits of a request that was begun.
struct Clock {
    host: String,
    bounds: Bounds,
    start: Instant,
}

impl Clock {
    /// Bounds work by what is left of the total time.
    async fn total<T>(&self, work: impl Future<Output = T>) -> Result<T, EgressError> {
        let Some(limit) = self.bounds.total else { return Ok(work.await) };
        let left = limit.saturating_sub(self.start.elapsed());
        tokio::time::timeout(left, work).await.map_err(|_| self.timeout("has not sent everything", limit))
    }

    /// Bounds work by the time in which the server may send nothing.
    async fn idle<T>(&self, what: &'static str, work: impl Future<Output = T>) -> Result<T, EgressError> {
        let limit = self.bounds.idle;
        tokio::time::timeout(limit, work).await.map_err(|_| self.timeout(what, limit))
    }

    fn timeout(&self, what: &'static str, limit: Duration) -> EgressError {
        EgressError::Timeout { host: self.host.clone(), what, limit }
    }
}

/// A response whose body is still to be read. Dropping it ends the request.
pub struct Response {
    inner: reqwest::Response,
    clock: Clock,
    read: u64,
    _slots: Slots,
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The URL that was requested.
    pub fn url(&self) -> &Url {
        self.inner.url()
    }

    /// The next bytes of the body, decompressed; `None` at its end. Fails once the body is longer than its limit.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        let next = self.clock.idle("has stopped sending", self.inner.chunk());
        let chunk = self.clock.total(next).await??;
        let Some(chunk) = chunk.map_err(|error| EgressError::of(error, &self.clock.host, CONNECT_TIMEOUT))?
        else {
            return Ok(None);
        };
        self.read = self.read.saturating_add(chunk.len() as u64);
        match self.read > self.clock.bounds.body {
            true => {
                Err(EgressError::TooLarge { host: self.clock.host.clone(), limit: self.clock.bounds.body })
            }
            false => Ok(Some(chunk)),
        }
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Result<Vec<u8>, EgressError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status())
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}
