//! A client that speaks lines.

use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};

use super::*;

/// Whoever waits longer waits in vain.
const PATIENCE: Duration = Duration::from_secs(60);

pub(in super::super) struct Client {
    pub(in super::super) child: Child,
    pub(in super::super) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    count: u64,
}

impl Client {
    pub(in super::super) fn start(lab: &Lab, args: &[&str]) -> Self {
        let mut command = lab.haft(&[&["mcp"], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        // One line ahead and no more, so that a test can leave the rest unread.
        let (give, lines) = mpsc::sync_channel(0);
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if line.map(|line| give.send(line)).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, count: 100 }
    }

    /// One that has begun.
    pub(in super::super) fn ready(lab: &Lab, args: &[&str]) -> Self {
        let mut client = Self::start(lab, args);
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
        self.tell_roots(roots);
    }

    /// Answers the question for its folders, which comes next.
    pub(in super::super) fn tell_roots(&mut self, roots: &[&str]) {
        let asked = self.next();
        assert_eq!(asked["method"], "roots/list");
        let roots: Vec<Value> = roots.iter().map(|uri| json!({"uri": uri})).collect();
        self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}));
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

    /// The next message, whatever it is.
    pub(in super::super) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no message: {error}"));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The answer to a request; what else comes before it is passed over.
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

/// How many processes sleep for so long.
pub(in super::super) fn running(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
        .count()
}

/// Waits until so many do.
pub(in super::super) fn started(seconds: &str, count: usize) {
    let begun = std::time::Instant::now();
    while running(seconds) != count {
        assert!(begun.elapsed() < PATIENCE, "{} of {count} sleep for {seconds}", running(seconds));
        std::thread::sleep(Duration::from_millis(10));
    }
}
