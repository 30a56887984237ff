//! A host of one's own, served over a pipe in memory.
#![allow(clippy::unwrap_used)] // a test

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::{Context, Engine, Function, Session, Store, Workspace, function};
use haft_journal::Entry;
use haft_mcp::{Client, SessionHost, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// Whoever waits longer waits in vain.
const PATIENCE: Duration = Duration::from_secs(30);

struct Plain {
    folder: tempfile::TempDir,
    opened: Mutex<Vec<Session>>,
    closed: Mutex<usize>,
}

impl SessionHost for Plain {
    fn instructions(&self) -> String {
        "be kind".to_owned()
    }

    fn open(&self, client: Client) -> Result<Session, haft_core::Fault> {
        let workspace = Workspace::open(self.folder.path()).map_err(|error| error.to_string())?;
        let session = Engine::default().session(workspace).id(client.id).tool(tool("first")).start();
        self.opened.lock().unwrap().push(session.clone());
        Ok(session)
    }

    fn close(&self, _: &Session) {
        *self.closed.lock().unwrap() += 1;
    }

    fn results(&self) -> Store {
        Store::at(self.folder.path())
    }

    fn difference(&self, _: &Session, _: &Entry) -> Result<String, haft_core::Fault> {
        Err("nothing is changed here".into())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool(name: &'static str) -> Function<Nothing> {
    function(name, "Says its name.", move |_: Nothing, _: Context| async move { name }).read_only()
}

struct Pipe {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Pipe {
    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    async fn names(&mut self) -> Vec<String> {
        self.send(json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})).await;
        let listed = self.next().await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_client_is_told_of_tools_that_come_and_its_host_when_it_goes() {
    let host = Arc::new(Plain {
        folder: tempfile::tempdir().unwrap(),
        opened: Mutex::default(),
        closed: Mutex::default(),
    });
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn(serve(host.clone(), read, write, std::future::pending()));
    let (read, write) = tokio::io::split(ours);
    let mut pipe = Pipe { lines: BufReader::new(read).lines(), write };
    let about = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    pipe.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})).await;
    assert_eq!(pipe.next().await["result"]["instructions"], "be kind");
    assert_eq!(pipe.names().await, ["first"]);
    let session = host.opened.lock().unwrap()[0].clone();
    session.add_tool(Arc::new(tool("second"))).unwrap();
    assert_eq!(pipe.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(pipe.names().await, ["first", "second"]);
    session.tools().remove("first");
    assert_eq!(pipe.next().await["method"], "notifications/tools/list_changed");
    let call = json!({"name": "second", "arguments": {}});
    pipe.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})).await;
    assert_eq!(pipe.next().await["result"]["content"][0]["text"], "second");
    drop(pipe);
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert_eq!(*host.closed.lock().unwrap(), 1);
}
