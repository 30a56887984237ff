//! A minimal host, served over an in-memory pipe.
#![allow(clippy::unwrap_used)] // a test

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::{
    Context, DynTool, Engine, Fault, Function, Prepared, Session, Spec, Store, Workspace, function,
};
use haft_journal::Entry;
use haft_mcp::{Client, SessionHost, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

struct MinimalHost {
    folder: tempfile::TempDir,
    opened: Mutex<Vec<Session>>,
    closed: Mutex<usize>,
}

impl MinimalHost {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), opened: Mutex::default(), closed: Mutex::default() }
    }
}

impl SessionHost for MinimalHost {
    fn instructions(&self) -> String {
        "be kind".to_owned()
    }

    fn open(&self, client: Client) -> Result<Session, Fault> {
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

    fn diff(&self, _: &Session, _: &Entry) -> Result<String, Fault> {
        Err("nothing is changed here".into())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool(name: &'static str) -> Function<Nothing> {
    function(name, "Says its name.", move |_: Nothing, _: Context| async move { name }).read_only()
}

/// A tool whose input schema is not an object, which the protocol cannot express.
struct Unconvertible(Spec);

impl DynTool for Unconvertible {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn prepare(&self, _: &Value, _: &Context) -> Result<Box<dyn Prepared>, Fault> {
        Err("it is never called".into())
    }
}

struct Pipe {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Pipe {
    /// Serves the host, and sends `initialize`.
    async fn connect(host: Arc<MinimalHost>) -> (Self, JoinHandle<std::io::Result<()>>) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let serving = tokio::spawn(serve(host, read, write, std::future::pending()));
        let (read, write) = tokio::io::split(ours);
        let mut pipe = Self { lines: BufReader::new(read).lines(), write };
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        pipe.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
        assert_eq!(pipe.next().await["result"]["instructions"], "be kind");
        (pipe, serving)
    }

    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    async fn list_tools(&mut self) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})).await;
        self.next().await
    }

    async fn names(&mut self) -> Vec<String> {
        let listed = self.list_tools().await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn tool_changes_notify_the_client_and_a_disconnect_closes_the_session() {
    let host = Arc::new(MinimalHost::new());
    let (mut pipe, serving) = Pipe::connect(host.clone()).await;
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
    tokio::time::timeout(TIMEOUT, serving).await.unwrap().unwrap().unwrap();
    assert_eq!(*host.closed.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_tool_that_cannot_be_listed_is_an_error_that_names_it() {
    let host = Arc::new(MinimalHost::new());
    let (mut pipe, _serving) = Pipe::connect(host.clone()).await;
    assert_eq!(pipe.names().await, ["first"]);
    let session = host.opened.lock().unwrap()[0].clone();
    let spec = Spec::from_schema("odd", "Has no object as its input.", json!(true));
    session.tools().replace(Arc::new(Unconvertible(spec)));
    assert_eq!(pipe.next().await["method"], "notifications/tools/list_changed");
    let error = pipe.list_tools().await["error"].clone();
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().unwrap().contains("`odd`"), "{error}");
}
