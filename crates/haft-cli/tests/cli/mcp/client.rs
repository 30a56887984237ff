//! An MCP client over standard input and output.

use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};

use super::*;

/// Maximum wait for a message or a process.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(in super::super) struct Client {
    pub(in super::super) child: Child,
    pub(in super::super) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    count: u64,
}

impl Client {
    pub(in super::super) fn start(fixture: &Fixture, args: &[&str]) -> Self {
        let mut command = fixture.haft(&[&["mcp"], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        // One line ahead and no more, so that a test can leave the rest unread.
        let (sender, lines) = mpsc::sync_channel(0);
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if line.map(|line| sender.send(line)).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, count: 100 }
    }

    /// Starts a client and initializes the session.
    pub(in super::super) fn ready(fixture: &Fixture, args: &[&str]) -> Self {
        let mut client = Self::start(fixture, args);
        client.initialize(json!({}));
        client
    }

    pub(in super::super) fn initialize(&mut self, capabilities: Value) -> Value {
        let about = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let welcome = self.request("initialize", about);
        self.notify("notifications/initialized", json!({}));
        welcome
    }

    pub(in super::super) fn initialize_with_roots(&mut self, roots: &[&str]) {
        self.initialize(json!({"roots": {"listChanged": true}}));
        self.answer_roots_request(roots);
    }

    /// Answers the next message, a request for the client's roots.
    pub(in super::super) fn answer_roots_request(&mut self, roots: &[&str]) {
        let request = self.next();
        assert_eq!(request["method"], "roots/list");
        let roots: Vec<Value> = roots.iter().map(|uri| json!({"uri": uri})).collect();
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": roots}}));
    }

    pub(in super::super) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(in super::super) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(in super::super) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(in super::super) fn send_request(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let id = json!(self.count);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message of any kind.
    pub(in super::super) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("no message: {error}"));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The response to a request. Skips other messages.
    pub(in super::super) fn reply(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(in super::super) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        let mut reply = self.reply(&id);
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].take()
    }

    pub(in super::super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(in super::super) fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The number of processes that run `sleep SECONDS`.
pub(in super::super) fn running(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
        .count()
}

/// Waits until this many processes run `sleep SECONDS`.
pub(in super::super) fn started(seconds: &str, count: usize) {
    let started_at = std::time::Instant::now();
    while running(seconds) != count {
        assert!(started_at.elapsed() < TIMEOUT, "{} of {count} sleep for {seconds}", running(seconds));
        std::thread::sleep(Duration::from_millis(10));
    }
}
