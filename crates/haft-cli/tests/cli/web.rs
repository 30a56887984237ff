//! `haft fetch`, `haft search`, the settings of the web, and what `haft doctor` says of them. Servers are on loopback, which
//! the user's settings allow.

use super::*;
use haft_testing::http::{HttpServer, response};

const ALLOWED: &str = "[web]\nallow_private = [\"127.0.0.0/8\"]\n";

fn page(content_type: &str, body: &str) -> HttpServer {
    HttpServer::fixed(response("200 OK", &[("Content-Type", content_type)], body))
}

#[test]
fn fetch_prints_a_page_as_markdown() {
    let server = page("text/html", "<title>T</title><h1>Head</h1><p>Text\u{202e} <b>bold</b>");
    let fixture = Fixture::new(&[]);
    fixture.settings(ALLOWED);
    let output = fixture.run(&["fetch", &server.url("/")]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "title: T\n\n# Head\n\nText **bold**\n"),
        "{output:?}"
    );
    assert!(output.stderr.contains("cannot be seen"), "{output:?}");
    let value = fixture.run(&["--json", "fetch", &server.url("/")]).json();
    assert_eq!((&value["status"], &value["content_type"]), (&json!(200), &json!("text/html")));
}

#[test]
fn fetch_fails_where_the_server_refuses_or_leads_elsewhere() {
    let server = HttpServer::start(|request, stream| match request.target.as_str() {
        "/away" => stream.write_all(&response("302 Found", &[("Location", "https://example.org/")], "")),
        _ => stream.write_all(&response("404 Not Found", &[("Content-Type", "text/plain")], "gone")),
    });
    let fixture = Fixture::new(&[]);
    fixture.settings(ALLOWED);
    let output = fixture.run(&["fetch", &server.url("/")]);
    assert_eq!((output.code, output.stdout.as_str()), (1, "gone\n"), "{output:?}");
    let output = fixture.run(&["fetch", &server.url("/away")]);
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
    assert!(output.stderr.contains("redirects to https://example.org/"), "{output:?}");
}

#[test]
fn private_addresses_are_refused_without_a_setting_and_proxies_of_the_workspace_are_ignored() {
    let server = page("text/plain", "secret");
    let fixture =
        Fixture::new(&[(".env", "HTTP_PROXY=http://127.0.0.1:9\nHTTPS_PROXY=http://127.0.0.1:9\n")]);
    let output = fixture.run(&["fetch", &server.url("/")]);
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
    assert!(output.stderr.contains("web.allow_private"), "{output:?}");
    assert_eq!(server.connections(), 0);
    fixture.settings(ALLOWED);
    assert_eq!(fixture.run(&["fetch", &server.url("/")]).stdout, "secret\n");
    fixture.run(&["fetch", "ftp://example.org/"]).refused("`ftp:` URLs are not fetched");
}

#[test]
fn a_proxy_of_the_environment_or_of_the_settings_is_used() {
    let proxy = page("text/plain", "by proxy");
    let fixture = Fixture::new(&[]);
    let address = format!("http://{}", proxy.address());
    // The name cannot be found here, so the proxy must be trusted with it.
    fixture.settings("[web]\nproxy_resolves = true\n");
    let mut command = fixture.haft(&["fetch", "http://site.example:8080/x"]);
    let output = RunOutput::of(command.env("http_proxy", &address).output().unwrap());
    assert_eq!((output.code, output.stdout.as_str()), (0, "by proxy\n"), "{output:?}");
    fixture.settings(&format!("[web]\nproxy_resolves = true\nproxy = \"{address}\"\n"));
    let output = fixture.run(&["fetch", "http://site.example:8080/y"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "by proxy\n"), "{output:?}");
    let targets: Vec<String> = proxy.received().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["http://site.example:8080/x", "http://site.example:8080/y"]);
    fixture.settings(&format!("[web]\nproxy = \"{address}\"\n"));
    assert_eq!(fixture.run(&["fetch", "http://10.0.0.1/"]).code, 1);
    assert_eq!(proxy.received().len(), 2, "a proxy is no way inside");
}

#[test]
fn search_lists_results_with_the_key_of_the_settings() {
    let answer = r#"{"organic": [{"title": "One", "link": "https://example.org/1", "snippet": "first"}]}"#;
    let server = page("application/json", answer);
    let fixture = Fixture::new(&[]);
    let with_key = |key: &str| {
        let url = server.url("/search");
        fixture.settings(&format!("[web.search]\nprovider = \"serper\"\nurl = \"{url}\"\n{key}\n"));
    };
    with_key("key_env = \"SEARCH_KEY\"");
    let mut command = fixture.haft(&["search", "two", "words"]);
    let output = RunOutput::of(command.env("SEARCH_KEY", "k-1").output().unwrap());
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "One\nhttps://example.org/1\nfirst\n\n"),
        "{output:?}"
    );
    let got = &server.received()[0];
    assert_eq!(got.header("x-api-key"), Some("k-1"));
    assert!(String::from_utf8_lossy(&got.body).contains("\"q\":\"two words\""));
    let output = fixture.run(&["search", "x"]);
    assert!(output.code == 1 && output.stderr.contains("`SEARCH_KEY`"), "{output:?}");
    with_key("key_command = \"echo k-2\"");
    assert_eq!(fixture.run(&["search", "x"]).code, 0);
    assert_eq!(server.received()[1].header("x-api-key"), Some("k-2"));
}

#[test]
fn wrong_settings_of_the_web_are_refused_with_a_reason() {
    let fixture = Fixture::new(&[]);
    for (settings, why) in [
        ("[web]\nallow_private = [\"10.0.0.0/99\"]\n", "longer than the address"),
        ("[web]\nproxy = \"socks5://x\"\n", "`web.proxy`"),
        ("[web]\nmax_megabytes = 0\n", "`web.max_megabytes`"),
        ("[web.search]\nprovider = \"bing\"\n", "unknown variant `bing`"),
        ("[web.search]\nprovider = \"searxng\"\n", "needs the `url`"),
        ("[web.search]\nprovider = \"brave\"\n", "needs a key"),
        ("[web.search]\nprovider = \"brave\"\nkey_env = \"A\"\nkey_command = \"b\"\n", "not both"),
    ] {
        fixture.settings(settings);
        fixture.run(&["fetch", "https://example.org/"]).refused(why);
    }
    let fixture =
        Fixture::new(&[(".haft/config.toml", "[web.search]\nprovider = \"searxng\"\nurl = \"http://x\"\n")]);
    fixture.run(&["fetch", "https://example.org/"]).refused("which only the user's own file can");
}

#[test]
fn doctor_says_whether_proxy_and_provider_answer() {
    let server = page("text/plain", "here");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fixture = Fixture::new(&[]);
    let found = |fixture: &Fixture, what: &str| {
        let findings = fixture.run(&["--json", "doctor"]).json();
        let row = findings.as_array().unwrap().iter().find(|row| row["what"] == what).cloned();
        row.map(|row| (row["state"].as_str().unwrap().to_owned(), row["detail"].as_str().unwrap().to_owned()))
    };
    assert_eq!(found(&fixture, "search").unwrap().0, "note");
    assert!(found(&fixture, "network").is_some() && found(&fixture, "proxy").is_none());
    let settings = |proxy: &str, search: &str| {
        format!("[web]\nproxy = \"{proxy}\"\n[web.search]\nprovider = \"searxng\"\nurl = \"{search}\"\n")
    };
    fixture.settings(&settings(&format!("http://me:secret@{}", server.address()), &server.url("/")));
    let proxy = found(&fixture, "proxy").unwrap();
    assert!(proxy.0 == "ok" && !proxy.1.contains("secret"), "{proxy:?}");
    assert_eq!(found(&fixture, "search").unwrap().0, "ok");
    fixture.settings(&settings(&format!("http://{gone}"), &format!("http://{gone}/")));
    assert_eq!(found(&fixture, "proxy").unwrap().0, "bad");
}
