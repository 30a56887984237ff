//! Requests through a proxy: only one that the user has set, and no way around the judgement of addresses.

use super::*;
use haft_sandbox::egress::{Proxies, ProxyLookup};
use haft_testing::http::{HttpServer, response};

fn through(proxy: &HttpServer, names: Names, proxy_lookup: ProxyLookup) -> Egress {
    Egress::new(EgressOptions {
        proxies: Proxies::all(&format!("http://me:pass@localhost:{}", proxy.address().port())).unwrap(),
        proxy_lookup,
        // The proxy is found by its name, and may be on this machine.
        resolver: Some(Arc::new(names.with("localhost", &[&["127.0.0.1"]]))),
        ..EgressOptions::default()
    })
}

#[tokio::test]
async fn a_proxy_gets_the_whole_url_and_its_credentials() {
    let proxy = HttpServer::fixed(response("200 OK", &[], "by proxy"));
    let egress = through(&proxy, Names::default().with("site.example", &[&[PUBLIC]]), ProxyLookup::Here);
    assert_eq!(body(&egress, "http://site.example/a?b").await.unwrap(), "by proxy");
    let got = &proxy.received()[0];
    assert_eq!(got.target, "http://site.example/a?b");
    assert_eq!(got.header("proxy-authorization"), Some("Basic bWU6cGFzcw=="));
}

#[tokio::test]
async fn a_proxy_is_no_way_to_private_addresses() {
    let proxy = HttpServer::fixed(response("200 OK", &[], "by proxy"));
    let names = Names::default().with("inside.example", &[&["10.0.0.1"]]);
    let egress = through(&proxy, names, ProxyLookup::Here);
    for url in [
        "http://inside.example/",
        "http://10.0.0.1/",
        "http://gone.example/",
        "http://localhost/",
        "http://127.1/",
    ] {
        assert!(body(&egress, url).await.is_err(), "{url}");
    }
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_proxy_may_be_trusted_with_the_lookup_of_names_but_not_with_addresses() {
    let proxy = HttpServer::fixed(response("200 OK", &[], "by proxy"));
    let egress = through(&proxy, Names::default(), ProxyLookup::Proxy);
    assert_eq!(body(&egress, "http://only-the-proxy-knows.example/").await.unwrap(), "by proxy");
    assert!(body(&egress, "http://10.0.0.1/").await.is_err());
}
