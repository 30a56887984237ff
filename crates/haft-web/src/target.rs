//! The URL of a fetch, in the form in which it is judged, shown and requested. Resolves nothing.

use haft_core::Fault;
use haft_sandbox::egress::{Reach, Url, plain_host};

/// The longest URL, in bytes.
const MAX_BYTES: usize = 8 * 1024;

/// A URL that can be fetched. Its host is in ASCII (punycode), lower case and without a final dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
    notes: Vec<String>,
}

impl Target {
    /// Parses a URL. Rewrites what is better fetched elsewhere, so that rules, question and request name the same host:
    /// pages of files at GitHub become the files, and `http` becomes `https` unless the host is an address or one that the
    /// user has allowed as a private host.
    pub fn parse(text: &str, reach: &Reach) -> Result<Self, Fault> {
        let text = text.trim();
        if text.len() > MAX_BYTES {
            return Err(Fault::invalid(format!(
                "the URL has {} bytes, and at most {MAX_BYTES} are sent",
                text.len()
            )));
        }
        if let Some(odd) = text.chars().find(|c| c.is_control() || haft_core::is_invisible(*c)) {
            return Err(Fault::invalid(format!(
                "the URL contains {}, which cannot be seen",
                odd.escape_unicode()
            ))
            .hint("write it percent-encoded if it belongs there"));
        }
        let url = Url::parse(text).map_err(|error| {
            Fault::invalid(format!("`{text}` is no URL: {error}"))
                .hint("write it whole, as `https://example.org/page`")
        })?;
        Self::new(url, reach)
    }

    /// Checks and rewrites a parsed URL.
    pub(crate) fn new(mut url: Url, reach: &Reach) -> Result<Self, Fault> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Fault::invalid(format!("`{}:` URLs are not fetched", url.scheme())).hint(
                "only `http` and `https` are; files of the workspace are read with the tools for files",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Fault::invalid("the URL contains a user name or a password")
                .hint("leave them out: they are not sent, and would show up in logs"));
        }
        let Some(host) = url.host_str().map(plain_host).filter(|host| !host.is_empty()) else {
            return Err(Fault::invalid(format!("`{url}` names no host")));
        };
        let mut notes = Vec::new();
        url.set_fragment(None);
        if url.host_str() != Some(&host) {
            url.set_host(Some(&host))
                .map_err(|error| Fault::invalid(format!("`{host}` is no host: {error}")))?;
        }
        if let Some(raw) = raw_file(&url) {
            notes.push(format!("`{url}` is a page about a file; the file itself is fetched"));
            url = raw;
        }
        let is_name = url.domain().is_some();
        if url.scheme() == "http" && url.port().is_none() && is_name && !reach.names(&host) {
            // Neither fails: both schemes are known and have hosts.
            let _ = url.set_scheme("https");
            notes.push("fetched over `https` instead of `http`".to_owned());
        }
        Ok(Self { url, notes })
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host as rules name it.
    pub fn host(&self) -> String {
        plain_host(self.url.host_str().unwrap_or_default())
    }

    /// What was rewritten.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The file behind a page of GitHub about it: `github.com/OWNER/REPO/blob/REF/PATH`.
fn raw_file(url: &Url) -> Option<Url> {
    if !matches!(url.host_str()?, "github.com" | "www.github.com") || url.port().is_some() {
        return None;
    }
    let mut parts = url.path().strip_prefix('/')?.splitn(4, '/');
    let (owner, repository, blob, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (reference, path) = rest.split_once('/')?;
    if blob != "blob" || [owner, repository, reference, path].iter().any(|part| part.is_empty()) {
        return None;
    }
    Url::parse(&format!("https://raw.githubusercontent.com/{owner}/{repository}/{reference}/{path}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<String, String> {
        let parsed = Target::parse(url, &Reach::default());
        parsed.map(|target| target.url.to_string()).map_err(|fault| fault.message().to_owned())
    }

    #[test]
    fn urls_are_rewritten_before_they_are_judged() {
        for (written, fetched) in [
            ("http://example.org/a?b#c", "https://example.org/a?b"),
            ("http://example.org:8080/", "http://example.org:8080/"),
            ("HTTPS://EXAMPLE.org./x", "https://example.org/x"),
            ("http://93.184.216.34/", "http://93.184.216.34/"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            (
                "https://github.com/a/b/blob/main/src/lib.rs",
                "https://raw.githubusercontent.com/a/b/main/src/lib.rs",
            ),
            ("https://github.com/a/b/blob/main", "https://github.com/a/b/blob/main"),
            ("https://github.com/a/b/issues/1", "https://github.com/a/b/issues/1"),
            ("https://github.com.evil.example/a/b/blob/m/x", "https://github.com.evil.example/a/b/blob/m/x"),
        ] {
            assert_eq!(target(written).as_deref(), Ok(fetched), "{written}");
        }
    }

    #[test]
    fn hosts_that_the_user_has_allowed_stay_without_tls() {
        let reach = Reach::Public { and: vec!["wiki.example".parse().unwrap()] };
        assert_eq!(Target::parse("http://wiki.example/", &reach).unwrap().url.scheme(), "http");
    }

    #[test]
    fn what_cannot_be_fetched_is_refused() {
        for url in [
            "",
            "example.org",
            "/etc/passwd",
            "file:///etc/passwd",
            "ftp://a/",
            "gopher://127.0.0.1:70/_x",
            "data:text/html,x",
            "javascript:alert(1)",
            "unix:/x",
            "jar:http://x/",
            "blob:http://x/y",
            "https://user@example.org/",
            "https://docs.python.org@evil.test/",
            "https://:pass@example.org/",
            "http://",
            "https:///",
            "https://exa mple.org/",
            "https://example.org/\u{202e}x",
            "https://a\nb/",
        ] {
            assert!(target(url).is_err(), "{url}: {:?}", target(url));
        }
        assert!(target(&format!("https://example.org/{}", "a".repeat(9000))).is_err());
    }
}
