//! Builds HTTP clients: TLS with the system's certificates, no redirects, no proxy but the given ones.

use std::sync::{Arc, Once};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Proxy};

use super::address::Reach;
use super::error::EgressError;
use super::proxy::Proxies;
use super::resolver::{JudgedResolver, SystemResolver};
use super::stand_ins::StandIns;

/// How long connecting may take, with lookup and TLS.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection stays open.
const POOL_TIMEOUT: Duration = Duration::from_secs(30);
/// The most unused connections to one host.
const MAX_IDLE: usize = 2;
/// The most headers of a response.
const MAX_HEADERS: usize = 128;
/// The most redirects that [`library_client`] follows.
const MAX_REDIRECTS: usize = 10;

/// A client that connects to judged addresses, directly or through proxies.
pub(super) fn build(
    resolver: JudgedResolver,
    proxies: Option<&Proxies>,
    stand_ins: Option<&StandIns>,
) -> Result<Client, EgressError> {
    let mut builder = with_proxies(bare(), proxies)
        .redirect(Policy::none())
        .referer(false)
        .pool_idle_timeout(POOL_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .http1_max_headers(MAX_HEADERS)
        .dns_resolver(resolver);
    if let Some(stand_ins) = stand_ins {
        let certificates: Result<Vec<Certificate>, _> =
            stand_ins.certificates().iter().map(|der| Certificate::from_der(der)).collect();
        builder = builder.tls_certs_merge(certificates.map_err(failed)?);
    }
    builder.build().map_err(failed)
}

/// A client for a library with a protocol of its own, to servers that the user has configured: any address, through the
/// proxies of the environment. Follows redirects to the same origin only, and only those that keep method and body (307,
/// 308), since requests carry secrets.
pub fn library_client() -> Result<Client, EgressError> {
    let follow = Policy::custom(|attempt| {
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
        if is_same && keeps_body && attempt.previous().len() < MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let resolver =
        JudgedResolver { reach: Reach::Anywhere, resolver: Arc::new(SystemResolver), stand_ins: None };
    // No pool: a connection left open would be reused too early, and the request would stall. No decompression: the
    // library does not bound what it reads.
    with_proxies(bare(), Some(Proxies::of_environment()))
        .no_gzip()
        .pool_max_idle_per_host(0)
        .redirect(follow)
        .dns_resolver(resolver)
        .build()
        .map_err(failed)
}

#[allow(clippy::disallowed_methods)] // the lint sends all other crates here
fn bare() -> ClientBuilder {
    install_tls();
    Client::builder().connect_timeout(CONNECT_TIMEOUT)
}

/// Uses these proxies, and none that the library would find by itself.
fn with_proxies(builder: ClientBuilder, proxies: Option<&Proxies>) -> ClientBuilder {
    let builder = builder.no_proxy();
    match proxies.cloned() {
        None => builder,
        Some(proxies) => builder.proxy(Proxy::custom(move |url| proxies.for_url(url).cloned())),
    }
}

fn failed(error: reqwest::Error) -> EgressError {
    EgressError::Client(error.to_string())
}

/// Installs the process-wide TLS provider, without which no TLS connection can be made.
pub fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails if the program has installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
