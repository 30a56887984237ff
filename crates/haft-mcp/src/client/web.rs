//! What requests to servers go through.

use std::collections::{BTreeMap, HashMap};
use std::sync::Once;

use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

/// No request is sent on more often.
const MAX_REDIRECTS: usize = 10;

/// What makes requests. A redirect is followed only where the message stays what it is and goes to the same server.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    install_tls();
    let follow = reqwest::redirect::Policy::custom(|attempt| {
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps = matches!(attempt.status().as_u16(), 307 | 308);
        if is_same && keeps && attempt.previous().len() < MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    // What is left open would be used again too early, and stall.
    reqwest::Client::builder().pool_max_idle_per_host(0).redirect(follow).build()
}

/// Chooses, once, how connections are secured. Without that none could be made at all.
pub(super) fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Failing means that somebody has chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Headers as they are sent.
pub(super) fn headers(
    written: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let one = |(name, value): (&String, &String)| {
        let header =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` cannot be a header"))?;
        // What it is may be a secret.
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the header `{name}` has a value that cannot be sent"))?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    written.iter().map(one).collect()
}

/// An address as it may be told: without what may be secret in it.
pub(super) fn shown(address: &Url) -> String {
    let mut shown = address.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Failing means that there is nobody in it.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_in_an_address_is_not_told() {
        let address = Url::parse("https://me:pass@a.example/mcp?key=secret#x").unwrap();
        assert_eq!(shown(&address), "https://a.example/mcp");
    }
}
