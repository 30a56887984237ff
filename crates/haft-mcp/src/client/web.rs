//! The HTTP client for servers: TLS, redirects, headers. Keeps secrets out of messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Once;

use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

/// The most redirects of a request.
const MAX_REDIRECTS: usize = 10;

/// The HTTP client. Follows redirects only to the same origin and with the method and body unchanged (307, 308), since
/// requests carry secrets.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    install_tls();
    let follow = reqwest::redirect::Policy::custom(|attempt| {
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
        if is_same && keeps_body && attempt.previous().len() < MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    // No pool: a connection left open would be reused too early, and the request would stall.
    reqwest::Client::builder().pool_max_idle_per_host(0).redirect(follow).build()
}

/// Installs the process-wide TLS provider, without which no TLS connection can be made.
pub(super) fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails if the program has installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Parses headers.
pub(super) fn headers(
    configured: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let one = |(name, value): (&String, &String)| {
        let header =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` cannot be a header"))?;
        // The value may be secret, so the error does not show it.
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the header `{name}` has a value that cannot be sent"))?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    configured.iter().map(one).collect()
}

/// A URL for messages, without the parts that may be secret.
pub(super) fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Fails for URLs that cannot have a user part.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_url_are_redacted() {
        let url = Url::parse("https://me:pass@a.example/mcp?key=secret#x").unwrap();
        assert_eq!(redacted(&url), "https://a.example/mcp");
    }
}
