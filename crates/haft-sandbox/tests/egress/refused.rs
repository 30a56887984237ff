//! What is not connected to, in every spelling, and by every trick of name servers and redirects.

use super::*;
use haft_sandbox::egress::{Private, Reach};
use haft_testing::http::{HttpServer, response};

/// A server on loopback that nothing may reach.
fn canary() -> HttpServer {
    HttpServer::fixed(response("200 OK", &[], "secret"))
}

#[tokio::test]
async fn loopback_is_refused_in_every_spelling() {
    let canary = canary();
    let port = canary.address().port();
    let egress = Egress::new(EgressOptions::default());
    let hosts = [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "a.localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "%31%32%37.0.0.1",
    ];
    let spellings = hosts.iter().map(|host| format!("http://{host}:{port}/"));
    let odd = [format!("http:127.0.0.1:{port}/"), format!("http:\\\\127.0.0.1:{port}/")];
    for url in spellings.chain(odd) {
        let refused = egress.send(get(&url)).await.unwrap_err();
        let is_named = matches!(refused, EgressError::Refused { .. } | EgressError::Unresolved { .. });
        assert!(is_named, "{url}: {refused}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn metadata_services_and_private_networks_are_refused() {
    let egress = Egress::new(EgressOptions::default());
    for host in [
        "169.254.169.254",
        "169.254.43518",
        "0251.0376.0251.0376",
        "[::ffff:a9fe:a9fe]",
        "metadata.google.internal",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "168.63.129.16",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "[fe80::1]",
        "printer.local",
        "router.home.arpa",
    ] {
        let refused = egress.judge(&Url::parse(&format!("http://{host}/latest")).unwrap()).unwrap_err();
        assert!(matches!(refused, EgressError::Refused { .. } | EgressError::Unresolved { .. }), "{host}");
    }
}

#[test]
fn other_schemes_are_refused() {
    let egress = Egress::new(EgressOptions::default());
    for url in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:70/_x",
        "data:text/plain,x",
        "javascript:alert(1)",
        "unix:/x",
        "jar:http://x/",
        "blob:http://x/y",
        "ws://site.example/",
    ] {
        let refused = egress.judge(&Url::parse(url).unwrap()).unwrap_err();
        assert!(matches!(refused, EgressError::Scheme(_)), "{url}: {refused}");
    }
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused_even_beside_a_public_one() {
    let canary = canary();
    let names = Names::default()
        .with("inside.example", &[&["127.0.0.1"]])
        .with("both.example", &[&[PUBLIC, "10.0.0.1"]])
        .with("six.example", &[&["::ffff:127.0.0.1"]]);
    let stand_ins = ["127.0.0.1", PUBLIC, "10.0.0.1"]
        .iter()
        .fold(StandIns::new(), |all, address| all.server(address.parse().unwrap(), canary.address()));
    let egress = with_names(names, stand_ins);
    for name in ["inside.example", "both.example", "six.example"] {
        let refused = body(&egress, &format!("http://{name}/")).await.unwrap_err();
        assert!(matches!(&refused, EgressError::Refused { host, .. } if host == name), "{refused}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_second_answer_of_the_name_server_is_never_used_unjudged() {
    let (public, canary) = (HttpServer::fixed(response("200 OK", &[], "public")), canary());
    let names = Names::default().with("rebind.example", &[&[PUBLIC], &["127.0.0.1"]]);
    let stand_ins = StandIns::new()
        .server(PUBLIC.parse().unwrap(), public.address())
        .server("127.0.0.1".parse().unwrap(), canary.address());
    let egress = with_names(names, stand_ins);
    // One lookup, one connection: to what was judged.
    assert_eq!(body(&egress, "http://rebind.example/").await.unwrap(), "public");
    // The connection was closed; the next one looks up again, and is judged again.
    let refused = body(&egress, "http://rebind.example/").await.unwrap_err();
    assert!(matches!(refused, EgressError::Refused { .. }), "{refused}");
    assert_eq!((public.connections(), canary.connections()), (1, 0));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let canary = canary();
    let target = canary.url("/secret");
    let server = HttpServer::fixed(response("302 Found", &[("Location", &target)], ""));
    let egress = playing(server.address());
    let answer = egress.send(get("http://site.example/")).await.unwrap();
    assert_eq!(answer.status(), 302);
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_an_error() {
    let egress = with_names(Names::default().with("empty.example", &[&[]]), StandIns::new());
    for (url, why) in [("http://gone.example/", "no such name"), ("http://empty.example/", "no address")] {
        let failed = body(&egress, url).await.unwrap_err().to_string();
        assert!(failed.contains("cannot be found") && failed.contains(why), "{failed}");
    }
}

/// A name server that never answers.
struct Silent;

impl Resolver for Silent {
    fn lookup(&self, _name: &str) -> Lookup {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_does_not_answer_is_an_error() {
    let egress = Egress::new(EgressOptions { resolver: Some(Arc::new(Silent)), ..EgressOptions::default() });
    let failed = body(&egress, "http://slow.example/").await.unwrap_err();
    assert!(matches!(failed, EgressError::Unresolved { .. }), "{failed}");
}

#[tokio::test]
async fn private_addresses_are_reached_where_the_user_allows_them() {
    let server = HttpServer::fixed(response("200 OK", &[], "inside"));
    let allowed = |what: &str| {
        let and = vec![what.parse::<Private>().unwrap()];
        Egress::new(EgressOptions { reach: Reach::Public { and }, ..EgressOptions::default() })
    };
    assert_eq!(body(&allowed("127.0.0.0/8"), &server.url("/")).await.unwrap(), "inside");
    let by_name = format!("http://localhost:{}/", server.address().port());
    assert_eq!(body(&allowed("localhost"), &by_name).await.unwrap(), "inside");
    assert!(body(&allowed("localhost"), &server.url("/")).await.is_err(), "a name allows no address");
    assert!(body(&allowed("10.0.0.0/8"), &server.url("/")).await.is_err());
}

#[tokio::test]
async fn credentials_in_a_url_are_not_sent() {
    let server = HttpServer::fixed(response("200 OK", &[], "x"));
    body(&playing(server.address()), "http://user:pass@site.example/").await.unwrap();
    assert_eq!(server.received()[0].header("authorization"), None);
}
