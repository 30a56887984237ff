//! What the web operations promise, measured in one run and compared with their limits. Ratios and differences come from
//! interleaved rounds, so that load on the machine affects both sides alike. Servers are on loopback.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use haft_core::{Engine, Operation as _, Session, Workspace};
use haft_sandbox::egress::{EgressOptions, Proxies, Reach, Url, install_tls};
use haft_testing::http::{HttpServer, bomb, response};
use haft_web::{DEFAULT_MAX_BYTES, Fetch, Fetched, Target, Web, markdown};

/// Rounds of each measurement.
const ROUNDS: usize = 15;

struct Figures {
    failed: bool,
}

impl Figures {
    fn show(&mut self, name: &str, value: f64, limit: f64, unit: &str) {
        let verdict = if value <= limit { "ok" } else { "TOO MUCH" };
        self.failed |= value > limit;
        println!("{name:58} {value:9.2} {unit:3} (limit {limit}) {verdict}");
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut figures = Figures { failed: false };
    runtime.block_on(memory(&mut figures));
    runtime.block_on(conversion(&mut figures));
    runtime.block_on(overhead(&mut figures));
    if figures.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A session in which loopback may be reached.
fn session(folder: &std::path::Path) -> Session {
    let options = EgressOptions {
        reach: Reach::Public { and: vec!["127.0.0.0/8".parse().unwrap()] },
        proxies: Proxies::none(),
        ..EgressOptions::default()
    };
    let web = Web::new(options, DEFAULT_MAX_BYTES, None);
    Engine::default().session(Workspace::open(folder).unwrap()).extension(web).start()
}

async fn fetch(session: &Session, url: &str) -> Fetched {
    let target = Target::parse(url, session.extension::<Web>().egress.reach()).unwrap();
    Fetch::page(target).run(&session.context()).await.unwrap()
}

/// A field of `/proc/self/status`, in megabytes.
fn status(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

async fn memory(figures: &mut Figures) {
    let folder = tempfile::tempdir().unwrap();
    let bomb = bomb(1000);
    let packed = response("200 OK", &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")], &bomb);
    let small = HttpServer::fixed(response("200 OK", &[("Content-Type", "text/html")], "<p>small</p>"));
    let server = HttpServer::fixed(packed);
    let session = session(folder.path());
    let before = status("VmRSS");
    fetch(&session, &small.url("/")).await;
    figures.show("memory that the first fetch adds", status("VmRSS") - before, 10.0, "MB");
    // The highest mark begins anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let fetched = fetch(&session, &server.url("/")).await;
    assert!(fetched.notes.iter().any(|note| note.contains("it goes on")), "{:?}", fetched.notes);
    figures.show("peak of memory for a bomb (1 MB to 1 GB)", status("VmHWM") - before, 40.0, "MB");
}

/// A page of about so many bytes, of the kind that documentation has.
fn documentation(bytes: usize) -> String {
    let mut html =
        String::from("<!doctype html><html><head><title>A manual</title></head><body><div class=\"page\">");
    let mut section = 0;
    while html.len() < bytes {
        section += 1;
        html.push_str(&format!(
            "<section id=\"s{section}\" class=\"method impl-items\"><div class=\"wrap\"><h3 class=\"head\">\
             <a class=\"anchor\" href=\"#s{section}\">§</a>Section {section}</h3>\n\
             <div class=\"docblock\"><p>The <code>item_{section}</code> does <em>one</em> thing, and <strong>that</strong> \
             well; see <a class=\"struct\" href=\"../other/struct.Other.html\" title=\"Other\">Other</a> &amp; the \
             <a href=\"https://example.org/page?x={section}&amp;y=2\">page</a>.</p>\n\
             <ul><li>first point of {section}</li><li>second <span class=\"note\">point</span></li></ul>\n\
             <div class=\"example-wrap\"><pre class=\"rust\"><code class=\"language-rust\"><span class=\"kw\">let</span> \
             value = item_{section}(<span class=\"number\">{section}</span>);\n<span class=\"macro\">assert!</span>(value &lt; 10);\
             </code></pre></div>\n<table><thead><tr><th>Name</th><th>Value</th></tr></thead><tbody><tr><td>a</td>\
             <td>{section}</td></tr></tbody></table></div></div></section>\n"
        ));
    }
    html.push_str("</div></body></html>");
    html
}

async fn conversion(figures: &mut Figures) {
    let base = Url::parse("https://example.org/manual/page.html").unwrap();
    let html = documentation(1_000_000);
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (page, base) = (html.clone(), base.clone());
        ours.push(timed(async { drop(black_box(markdown::convert(page, base).await.unwrap())) }).await);
        let page = html.clone();
        let convert = async move {
            // On a thread of its own, as ours.
            let work = move || drop(black_box(htmd::convert(&page).unwrap()));
            std::thread::Builder::new().stack_size(16 << 20).spawn(work).unwrap().join().unwrap();
        };
        alone.push(timed(convert).await);
    }
    println!("a page of 1 MB as Markdown: {:?}, by htmd alone {:?}", median(&mut ours), median(&mut alone));
    let ratio = median(&mut ours).as_secs_f64() / median(&mut alone).as_secs_f64();
    figures.show("a page of 1 MB as Markdown, compared with htmd alone", ratio, 3.0, "x");
    for (name, html) in [
        ("10,000 nested <div>", format!("{}deep", "<div>".repeat(10_000))),
        ("10,000 nested <blockquote>", format!("{}deep", "<blockquote>".repeat(10_000))),
        ("10,000 nested lists", format!("{}deep", "<ul><li>".repeat(5_000))),
    ] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let (page, base) = (html.clone(), base.clone());
            times.push(timed(async { drop(black_box(markdown::convert(page, base).await.unwrap())) }).await);
        }
        figures.show(name, median(&mut times).as_secs_f64() * 1e3, 100.0, "ms");
    }
}

async fn overhead(figures: &mut Figures) {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let server = HttpServer::fixed(response("200 OK", &[("Content-Type", "text/plain")], "a small page"));
    install_tls();
    let bare = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for round in 0..200 {
        let url = server.url(&format!("/{round}"));
        alone.push(timed(async { drop(bare.get(&url).send().await.unwrap().bytes().await.unwrap()) }).await);
        ours.push(timed(async { drop(fetch(&session, &url).await) }).await);
    }
    println!("a small page: {:?}, by reqwest alone {:?}", median(&mut ours), median(&mut alone));
    let added = median(&mut ours).as_secs_f64() - median(&mut alone).as_secs_f64();
    figures.show("time that a fetch adds to reqwest", added * 1e3, 2.0, "ms");
}

async fn timed(work: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
