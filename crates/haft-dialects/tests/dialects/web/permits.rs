//! Who may fetch what: rules about hosts, questions with the whole URL, plan mode.

use super::*;

fn allowing() -> Person {
    Person { decision: Decision::AllowOnce, asked: Arc::default() }
}

#[tokio::test]
async fn the_question_shows_the_whole_url_in_ascii() {
    let server = page("text/plain", "x");
    let visit = Visit::with_person(
        web_of(&server, Names::default()),
        &[],
        Mode::Default,
        Arc::new(Claude),
        allowing(),
    );
    let reply = visit.fetch("http://bücher.example/a?secret=1").await;
    assert!(!reply.is_error, "{reply:?}");
    assert_eq!(visit.reasons(), ["it fetches `https://xn--bcher-kva.example/a?secret=1`"]);
    let offered: Vec<String> =
        visit.asked.lock().unwrap()[0].offered().iter().map(ToString::to_string).collect();
    assert_eq!(offered, ["WebFetch(domain:xn--bcher-kva.example)"]);
}

#[tokio::test]
async fn an_allowed_host_is_exactly_that_host() {
    let server = page("text/plain", "x");
    for (dialect, tool, rule) in [
        (Arc::new(Claude) as Arc<dyn Dialect>, "WebFetch", "WebFetch(domain:site.example)"),
        (workspace_dialect(), "web_fetch", "web_fetch(domain:site.example)"),
        (workspace_dialect(), "web_fetch", "WebFetch(domain:site.example)"),
    ] {
        let visit =
            Visit::new(web_of(&server, Names::default()), &[(Effect::Allow, rule)], Mode::Default, dialect);
        let input = |url: &str| match tool {
            "WebFetch" => json!({"url": url, "prompt": "x"}),
            _ => json!({"url": url}),
        };
        for url in ["https://site.example/", "https://SITE.example./x?y", "http://site.example"] {
            let reply = visit.call(tool, input(url)).await;
            assert!(!reply.is_error, "{url}: {reply:?}");
        }
        assert!(visit.reasons().is_empty());
        for url in [
            "https://site.example.other.example/",
            "https://evil-site.example/",
            "https://other.example/site.example",
            "https://www.site.example/",
        ] {
            let reply = visit.call(tool, input(url)).await;
            assert!(reply.is_error, "{url}: {reply:?}");
        }
        assert_eq!(visit.reasons().len(), 4, "{:?}", visit.reasons());
        let reply = visit.call(tool, input("https://site.example@other.example/")).await;
        assert!(reply.is_error && visit.reasons().len() == 4, "{reply:?}");
    }
}

#[tokio::test]
async fn what_sends_more_than_a_url_is_always_asked() {
    let server = page("text/plain", "posted");
    let rules = [(Effect::Allow, "web_fetch(domain:site.example)"), (Effect::Allow, "web_fetch")];
    let visit = Visit::with_person(
        web_of(&server, Names::default()),
        &rules,
        Mode::Default,
        workspace_dialect(),
        allowing(),
    );
    for input in [
        json!({"url": "https://site.example/", "method": "POST", "body": "the data"}),
        json!({"url": "https://site.example/", "method": "POST"}),
        json!({"url": "https://site.example/", "headers": {"X-Data": "leak"}}),
    ] {
        let reply = visit.call("web_fetch", input.clone()).await;
        assert_eq!(reply.structured.as_ref().unwrap()["value"]["body"], "posted", "{input}: {reply:?}");
    }
    let asked = visit.asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    let preview = &asked[0].preview.as_ref().unwrap().diff;
    assert_eq!(preview, "POST https://site.example/\n\nthe data\n");
    assert!(asked[2].preview.as_ref().unwrap().diff.contains("X-Data: leak"));
    assert!(asked.iter().all(|request| request.offered().is_empty()), "none can be allowed for good");
    let got = server.received();
    assert_eq!((got[0].method.as_str(), got[0].body.as_slice()), ("POST", &b"the data"[..]));
    assert_eq!(got[2].header("x-data"), Some("leak"));
}

#[tokio::test]
async fn a_body_needs_a_post_and_some_headers_cannot_be_set() {
    let server = page("text/plain", "x");
    let visit = Visit::new(web_of(&server, Names::default()), &[], Mode::Bypass, workspace_dialect());
    for input in [
        json!({"url": "https://site.example/", "body": "x"}),
        json!({"url": "https://site.example/", "headers": {"Host": "other.example"}}),
        json!({"url": "https://site.example/", "headers": {"Content-Length": "1"}}),
        json!({"url": "https://site.example/", "headers": {"A b": "c"}}),
        json!({"url": "https://site.example/", "headers": {"A": "b\r\nC: d"}}),
        json!({"url": "https://site.example/", "method": "DELETE"}),
    ] {
        let reply = visit.call("web_fetch", input.clone()).await;
        assert_eq!(
            reply.structured.as_ref().unwrap()["error"]["code"],
            "INVALID_ARGUMENT",
            "{input}: {reply:?}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn plan_mode_reads_the_web_and_sends_nothing() {
    let server = page("text/plain", "read");
    let rules = [(Effect::Allow, "WebFetch(domain:site.example)")];
    for (dialect, tool) in
        [(Arc::new(Claude) as Arc<dyn Dialect>, "WebFetch"), (workspace_dialect(), "web_fetch")]
    {
        let visit = Visit::new(web_of(&server, Names::default()), &rules, Mode::Plan, dialect);
        let mut input = json!({"url": "https://site.example/"});
        if tool == "WebFetch" {
            input["prompt"] = json!("x");
        }
        assert!(!visit.call(tool, input).await.is_error, "{tool}");
    }
    let visit = Visit::with_person(
        web_of(&server, Names::default()),
        &rules,
        Mode::Plan,
        workspace_dialect(),
        allowing(),
    );
    let reply = visit.call("web_fetch", json!({"url": "https://site.example/", "method": "POST"})).await;
    assert!(reply.is_error && reply.full_text().contains("only plans"), "{reply:?}");
}

#[tokio::test]
async fn a_redirect_to_another_name_of_the_site_is_judged_by_rules() {
    let server = public(|request, stream| match request.header("host") {
        Some("site.example") => {
            stream.write_all(&response("301 Moved", &[("Location", "https://www.site.example/x")], ""))
        }
        _ => stream.write_all(&response("200 OK", &[("Content-Type", "text/plain")], "www")),
    });
    let one = [(Effect::Allow, "WebFetch(domain:site.example)")];
    let visit = Visit::new(web_of(&server, Names::default()), &one, Mode::Default, Arc::new(Claude));
    let text = visit.fetch("https://site.example/").await.full_text();
    assert!(text.contains("redirects to https://www.site.example/x and was not followed"), "{text}");
    let both = [one[0], (Effect::Allow, "WebFetch(domain:*.site.example)")];
    let visit = Visit::new(web_of(&server, Names::default()), &both, Mode::Default, Arc::new(Claude));
    assert_eq!(between(&visit.fetch("https://site.example/").await), "www");
    let denied = [(Effect::Deny, "WebFetch(domain:www.site.example)")];
    let visit = Visit::new(web_of(&server, Names::default()), &denied, Mode::Bypass, Arc::new(Claude));
    let text = visit.fetch("https://site.example/").await.full_text();
    assert!(text.contains("was not followed"), "{text}");
}

#[tokio::test]
async fn a_call_that_cannot_run_is_not_asked_about() {
    let visit =
        Visit::new(web_of(&page("text/plain", "x"), Names::default()), &[], Mode::Default, Arc::new(Claude));
    for url in ["http://127.0.0.1/", "file:///etc/passwd", "https://user@site.example/", "http://localhost/"]
    {
        assert!(visit.fetch(url).await.is_error, "{url}");
    }
    assert!(visit.reasons().is_empty(), "{:?}", visit.reasons());
}
