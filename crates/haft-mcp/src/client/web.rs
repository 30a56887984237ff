//! Headers and URLs of servers over HTTP. Keeps secrets out of messages. The client itself is that of haft-sandbox.

use std::collections::{BTreeMap, HashMap};

use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

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
