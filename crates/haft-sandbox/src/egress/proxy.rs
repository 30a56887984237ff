//! Which requests go through a proxy: that of the user's settings, or those that haft's own environment named when it
//! started. A workspace cannot set one.

use std::sync::LazyLock;

use reqwest::Url;

use super::address::{Private, plain_host};

/// Which proxy a request goes through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    /// Hosts that are reached without a proxy: names with their subdomains, networks, or `*` for all.
    except: Vec<String>,
}

impl Proxies {
    /// No proxy.
    pub fn none() -> Self {
        Self::default()
    }

    /// One proxy for every request: `http://…` or `https://…`, with a user and a password if it needs them.
    pub fn all(proxy: &str) -> Result<Self, String> {
        let proxy = parse(proxy)?;
        Ok(Self { http: Some(proxy.clone()), https: Some(proxy), except: Vec::new() })
    }

    /// The proxies of the environment as it was when the process started: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
    /// `NO_PROXY`, in small letters as well. A value that is no URL of a proxy is left out.
    pub fn of_environment() -> &'static Self {
        static ENVIRONMENT: LazyLock<Proxies> =
            LazyLock::new(|| Proxies::of(|name| std::env::var(name).ok()));
        &ENVIRONMENT
    }

    /// The proxies that variables name.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| {
            let small = variable(&name.to_ascii_lowercase());
            small
                .or_else(|| variable(name))
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let url = |name| value(name).and_then(|value| parse(&value).ok());
        let all = url("ALL_PROXY");
        // A web server passes a request's header `Proxy` to its programs as `HTTP_PROXY`.
        let is_request = variable("REQUEST_METHOD").is_some();
        let http = if is_request {
            variable("http_proxy").and_then(|value| parse(&value).ok())
        } else {
            url("HTTP_PROXY")
        };
        let except = value("NO_PROXY").unwrap_or_default();
        let except = except.split(',').map(|host| plain_host(host.trim().trim_start_matches('.')));
        Self {
            http: http.or_else(|| all.clone()),
            https: url("HTTPS_PROXY").or(all),
            except: except.filter(|host| !host.is_empty()).collect(),
        }
    }

    /// The proxy for a URL, if one applies.
    pub fn for_url(&self, url: &Url) -> Option<&Url> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let host = plain_host(url.host_str().unwrap_or_default());
        proxy.as_ref().filter(|_| !self.excepts(&host))
    }

    /// The hosts of the proxies themselves.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        [&self.http, &self.https].into_iter().flatten().filter_map(|proxy| proxy.host_str())
    }

    fn excepts(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        self.except.iter().any(|except| {
            let is_same = except == "*" || host == except;
            let is_below = host.strip_suffix(except.as_str()).is_some_and(|sub| sub.ends_with('.'));
            let is_in = || match (except.parse::<Private>(), address) {
                (Ok(network), Some(address)) => network.contains(address),
                _ => false,
            };
            is_same || is_below || is_in()
        })
    }
}

fn parse(proxy: &str) -> Result<Url, String> {
    // People write `proxy:3128`, too.
    let spelled = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    match Url::parse(&spelled) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        Ok(url) => Err(format!("a proxy is reached over `http` or `https`, not over `{}`", url.scheme())),
        Err(error) => Err(format!("it is no URL of a proxy: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.for_url(&Url::parse(url).unwrap()).map(Url::to_string)
    }

    #[test]
    fn the_environment_names_proxies_and_exceptions() {
        let proxies = Proxies::of(|name| match name {
            "HTTPS_PROXY" => Some("http://secure:3128".to_owned()),
            "all_proxy" => Some("other:8080".to_owned()),
            "NO_PROXY" => Some("localhost, .example.org,10.0.0.0/8".to_owned()),
            _ => None,
        });
        assert_eq!(through(&proxies, "https://a.example"), Some("http://secure:3128/".to_owned()));
        assert_eq!(through(&proxies, "http://a.example"), Some("http://other:8080/".to_owned()));
        for url in
            ["https://example.org", "https://www.EXAMPLE.org.", "http://localhost:1/", "http://10.9.9.9/"]
        {
            assert_eq!(through(&proxies, url), None, "{url}");
        }
        assert!(through(&proxies, "https://badexample.org").is_some());
    }

    #[test]
    fn a_header_of_a_request_is_no_proxy() {
        let proxies = Proxies::of(|name| match name {
            "HTTP_PROXY" => Some("http://evil:1".to_owned()),
            "REQUEST_METHOD" => Some("GET".to_owned()),
            _ => None,
        });
        assert_eq!(through(&proxies, "http://a.example"), None);
    }

    #[test]
    fn a_proxy_needs_a_scheme_that_is_spoken() {
        assert!(Proxies::all("socks5://proxy:1080").is_err());
        assert!(Proxies::all("http://").is_err());
        assert!(Proxies::all("proxy:3128").is_ok());
        assert_eq!(through(&Proxies::none(), "http://a.example"), None);
    }
}
