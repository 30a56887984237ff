//! Servers that people use, from npm, at the versions that `tests/peers/package-lock.json` names. `tests/peers/install`
//! installs them, with the network; these tests are skipped where that has not been done.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use haft_core::events::{EventKind, EventPayload};
use haft_core::replies::Content;
use haft_mcp::client::OAuth;
use haft_testing::Need;

use super::*;

/// The environment variable with the folder into which `tests/peers/install` has installed the packages.
const PACKAGES: &str = "HAFT_TEST_PEERS";

/// The folder of the packages. The tests install nothing themselves: they use no network.
fn packages() -> Option<PathBuf> {
    if !haft_testing::require(Need::Node) {
        return None;
    }
    let Some(dir) = std::env::var_os(PACKAGES).map(PathBuf::from) else {
        haft_testing::missing(Need::Packages, format_args!("{PACKAGES} is not set"));
        return None;
    };
    let (wanted, found) = (peers().join("package-lock.json"), dir.join("installed"));
    if std::fs::read(wanted).unwrap() != std::fs::read(&found).unwrap_or_default() {
        haft_testing::missing(Need::Packages, format_args!("{} has other versions", dir.display()));
        return None;
    }
    Some(dir)
}

fn script(package: &str) -> Option<String> {
    let dir = packages()?.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    Some(dir.to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_over_lines() {
    let Some(script) = script("server-everything") else { return };
    let world = World::with(vec![Server::new("fault", command("node", &[&script]))], Engine::builder());
    let tested = world.servers.test("fault").await.unwrap();
    assert!(tested.latency.is_some());
    assert!(tested.status.problems.is_empty(), "{:?}", tested.status.problems);
    check_everything(&world).await;
    let pid = pid_of(&script);
    world.servers.close().await;
    until("it is gone", || pid.iter().all(|pid| !is_running(pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_over_http() {
    let Some(script) = script("server-everything") else { return };
    let Some((server, port)) = served(&script) else { return };
    let url = format!("http://127.0.0.1:{port}/mcp");
    let access =
        ServerTransport::Http { url, headers: BTreeMap::new(), bearer: None, oauth: OAuth::default() };
    let world = World::with(vec![Server::new("fault", access)], Engine::builder());
    world.servers.start("fault").await.unwrap();
    check_everything(&world).await;
    world.servers.close().await;
    drop(server);
    let fault = world.servers.start("fault").await.unwrap_err();
    assert!(fault.message().contains("cannot be reached"), "{fault}");
}

/// Everything expected of the server, over either transport.
async fn check_everything(world: &World) {
    assert_eq!(world.text("echo", json!({"message": "hello"})).await, "Echo: hello");
    let sum = world.text("get-sum", json!({"a": 2, "b": 40})).await;
    assert!(sum.contains("42"), "{sum}");
    let image = world.call("get-tiny-image", json!({})).await;
    assert!(image.content.iter().any(|block| matches!(block.content, Content::Image { .. })));
    let weather = world.call("get-structured-content", json!({"location": "Chicago"})).await;
    assert!(weather.structured.unwrap()["temperature"].is_number());
    let roots = world.text("get-roots-list", json!({})).await;
    assert!(roots.contains(world.dir.to_str().unwrap()), "{roots}");
    let mut events = world.session.engine().activity().subscribe_to(&[EventKind::Progress]);
    world.text("trigger-long-running-operation", json!({"duration": 1, "steps": 3})).await;
    let event = tokio::time::timeout(TIMEOUT, events.next()).await.unwrap().unwrap();
    assert!(
        matches!(&event.payload, EventPayload::Progress(progress) if progress.total == Some(3)),
        "{event:?}"
    );
    let listed = world.session.call(Call::new("1", "ListMcpResources", json!({}))).await;
    let resources = listed.structured.unwrap()["resources"].as_array().unwrap().clone();
    let uri = resources.iter().find_map(|resource| resource["uri"].as_str()).unwrap().to_owned();
    let read =
        world.session.call(Call::new("1", "ReadMcpResource", json!({"server": "fault", "uri": uri}))).await;
    assert!(!read.is_error, "{}", read.full_text());
    let prompts = world.servers.prompts("fault").await.unwrap();
    assert!(!prompts.is_empty());
    let wrong = world.failure("get-sum", json!({"a": 2})).await;
    assert!(wrong.contains("`b` is missing"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_filesystem() {
    let Some(script) = script("server-filesystem") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    std::fs::write(dir.join("a.txt"), "one\n").unwrap();
    let access = command("node", &[&script, dir.to_str().unwrap()]);
    let world = World::with(vec![Server::new("fault", access)], Engine::builder());
    std::fs::write(world.dir.join("b.txt"), "two\n").unwrap();
    world.servers.start("fault").await.unwrap();
    // It replaces the folders it was started with by its client's roots.
    let started = Instant::now();
    while !world.text("list_allowed_directories", json!({})).await.contains(world.dir.to_str().unwrap()) {
        assert!(started.elapsed() < TIMEOUT, "it has not heard of the roots");
    }
    let path = |name: &str| world.dir.join(name).to_str().unwrap().to_owned();
    assert!(world.text("read_text_file", json!({"path": path("b.txt")})).await.starts_with("two"));
    world.text("write_file", json!({"path": path("c.txt"), "content": "three"})).await;
    assert_eq!(std::fs::read_to_string(world.dir.join("c.txt")).unwrap(), "three");
    let outside = world.failure("read_text_file", json!({"path": "/etc/hostname"})).await;
    assert!(outside.contains("outside"), "{outside}");
}

/// The ids of the processes that run a script.
fn pid_of(script: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let runs = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent =
            parent.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).map(str::to_owned);
        line.split(|byte| *byte == 0).any(|word| word == script.as_bytes())
            && parent == Some(std::process::id().to_string())
    };
    processes.filter_map(|entry| entry.file_name().into_string().ok()).filter(runs).collect()
}

/// A server started by the test, and its port.
fn served(script: &str) -> Option<(Served, u16)> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new("node")
        .args([script, "streamableHttp"])
        .env("PORT", free.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let served = Served(child);
    let said = lines.by_ref().map_while(Result::ok).find(|line| line.contains("listening"));
    std::thread::spawn(move || lines.for_each(drop));
    said.map(|_| (served, free))
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
