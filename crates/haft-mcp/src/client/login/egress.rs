//! The requests of a login, through haft's egress: to a server's own host, and to the public hosts that it names. Private
//! addresses that a server names are reached only if it is at such an address itself, so that a server on the web cannot send
//! haft into the user's network.

use std::time::Duration;

use haft_sandbox::egress::{
    Bounds, Egress, EgressError, EgressOptions, Method, Private, Proxies, Reach, Request, Response, header,
    plain_host,
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::{Host, Url};

/// Most redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// The limits of a request.
const BOUNDS: Bounds =
    Bounds { idle: Duration::from_secs(15), total: Some(Duration::from_secs(30)), body: 1 << 20 };

/// Networks that are this machine's own.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];
/// Networks that are the user's own.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// Makes the requests of a login to one server.
pub(super) struct LoginEgress(Egress);

impl LoginEgress {
    pub(super) fn new(server: &Url) -> Self {
        let proxies = Proxies::of_environment().clone();
        Self(Egress::new(EgressOptions { reach: reach(server), proxies, ..EgressOptions::default() }))
    }

    /// Sends a request, and follows its redirects if it asks for nothing but a page.
    async fn send(
        &self,
        mut request: Request,
        follow: OAuthHttpRedirectPolicy,
    ) -> Result<Response, EgressError> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.0.send(request.clone()).await?;
            let target =
                response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
            let target = target.and_then(|target| request.url.join(target.to_str().ok()?).ok());
            match target
                .filter(|_| follow == OAuthHttpRedirectPolicy::Follow && request.method == Method::GET)
            {
                None => return Ok(response),
                Some(target) => {
                    if target.origin() != request.url.origin() {
                        request.headers.remove(header::AUTHORIZATION);
                    }
                    request.url = target;
                }
            }
        }
        self.0.send(request).await
    }
}

/// The addresses that a login to this server may reach.
fn reach(server: &Url) -> Reach {
    let networks: &[&str] = match server.host() {
        Some(Host::Domain(name)) if plain_host(name) == "localhost" => &LOOPBACK,
        Some(Host::Ipv4(address)) if address.is_loopback() => &LOOPBACK,
        Some(Host::Ipv6(address)) if address.is_loopback() => &LOOPBACK,
        Some(Host::Ipv4(address)) if address.is_private() => &PRIVATE,
        Some(Host::Ipv6(address)) if address.is_unique_local() => &PRIVATE,
        _ => &[],
    };
    let own = server.host_str().map(|host| Private::Host(plain_host(host)));
    Reach::Public { and: networks.iter().filter_map(|network| network.parse().ok()).chain(own).collect() }
}

impl OAuthHttpClient for LoginEgress {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, .. } = request;
            let (head, body) = request.into_parts();
            let request = Request {
                method: head.method,
                url: Url::parse(&head.uri.to_string())?,
                headers: head.headers,
                body: (!body.is_empty()).then(|| body.into()),
                bounds: BOUNDS,
            };
            let response = self.send(request, redirect_policy).await?;
            let mut answer = http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            Ok::<_, OAuthHttpClientError>(answer.body(response.bytes().await?)?)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Whether a login to a server may go to a URL without a name.
    fn may(server: &str, url: &str) -> bool {
        LoginEgress::new(&Url::parse(server).unwrap()).0.judge(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn a_server_of_the_web_does_not_lead_into_the_network() {
        let server = "https://mcp.example.org/mcp";
        for inside in ["http://127.0.0.1/", "http://10.1.2.3/", "http://169.254.169.254/", "http://[::1]/"] {
            assert!(!may(server, inside), "{inside}");
        }
        assert!(may(server, "https://8.8.8.8/") && may(server, "https://login.example.org/"));
    }

    #[test]
    fn a_server_of_the_own_network_may_name_its_like() {
        assert!(may("http://127.0.0.1:9000/mcp", "http://127.0.0.1:9001/token"));
        assert!(may("http://localhost:9000/mcp", "http://localhost:9001/token"));
        assert!(may("http://10.0.0.5/mcp", "http://192.168.1.2/token"));
        assert!(!may("http://10.0.0.5/mcp", "http://127.0.0.1/token"));
        assert!(!may("http://127.0.0.1/mcp", "http://169.254.169.254/"));
    }
}
