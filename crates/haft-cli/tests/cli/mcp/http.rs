//! `haft mcp --http`, tested over plain sockets.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

use super::*;

pub(in super::super) struct Server {
    child: Child,
    pub(in super::super) address: SocketAddr,
}

const TOKEN: &str = "a-token-that-nobody-guesses";

impl Server {
    pub(in super::super) fn start(fixture: &Fixture, args: &[&str]) -> Self {
        Self::at(fixture, "127.0.0.1:0", args)
    }

    fn at(fixture: &Fixture, address: &str, args: &[&str]) -> Self {
        let mut command = fixture.haft(&[&["mcp", "--http", address], args].concat());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { child, address }
    }

    /// Sends a request on a new connection.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\n");
        let length = body.len().to_string();
        let usual = [
            ("Content-Length", length.as_str()),
            ("Host", "localhost"),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        for (name, value) in usual.iter().filter(|(name, _)| !is_given(name)).chain(headers) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Sends a request on a new connection; returns status, head and body of the response.
    fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut stream = self.send(method, headers, body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, head.to_owned(), body.to_owned())
    }

    fn post(&self, headers: &[(&str, &str)], message: &Value) -> (u16, String, String) {
        self.ask("POST", headers, &message.to_string())
    }

    /// Starts a session and returns its id.
    fn begin(&self) -> String {
        let (code, head, body) = self.post(&[], &hello());
        assert_eq!(code, 200, "{body}");
        let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], &initialized).0, 202);
        id
    }

    fn call(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let asked = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let (code, _, body) = self.post(&[("Mcp-Session-Id", session)], &asked);
        assert_eq!(code, 200, "{body}");
        answer_in(&body, &json!(5))
    }

    /// Makes a call in the stateless version of the protocol.
    fn stateless(&self, tool: &str, arguments: Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let asked = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let headers =
            [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        let (code, _, body) = self.post(&headers, &asked);
        assert_eq!(code, 200, "{body}");
        answer_in(&body, &json!(5))
    }
}

/// The result of a request in a stream of events.
fn answer_in(body: &str, id: &Value) -> Value {
    let events = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let messages = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut answers = messages.filter(|message| message["id"] == *id);
    answers.next().unwrap_or_else(|| panic!("{body}"))["result"].take()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hello() -> Value {
    let about = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
}

#[test]
fn clients_have_sessions_of_their_own() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--mode", "accept-edits"]);
    let (one, two) = (server.begin(), server.begin());
    assert_ne!(one, two);
    assert!(one.len() >= 32, "{one}");
    assert_eq!(text_of(&server.call(&one, "Read", json!({"file_path": "one.txt"}))), ONE);
    let edit = json!({"file_path": "one.txt", "old_string": "one", "new_string": "1"});
    // The read state of the first session does not count in the second.
    assert_eq!(server.call(&two, "Edit", edit.clone())["isError"], true);
    assert_eq!(server.call(&one, "Edit", edit)["isError"], false);
    let journal = |session: &str| {
        let asked = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "haft://journal"}});
        server.post(&[("Mcp-Session-Id", session)], &asked).2
    };
    assert!(journal(&one).contains("one.txt"));
    assert!(!journal(&two).contains("one.txt"));
}

#[test]
fn ten_clients_at_once_see_nothing_of_each_other() {
    let fixture = two_files();
    let server = &Server::start(&fixture, &["--mode", "bypass"]);
    std::thread::scope(|scope| {
        for number in 0..10 {
            scope.spawn(move || {
                let session = server.begin();
                let name = format!("of-{number}.txt");
                for round in 0..5 {
                    let content = format!("{number} {round}\n");
                    let written = server.call(&session, "Write", json!({"file_path": name, "content": content}));
                    assert_eq!(written["isError"], false, "{written}");
                    let read = server.call(&session, "Read", json!({"file_path": name}));
                    assert!(text_of(&read).contains(content.trim()), "{read}");
                }
                let asked = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "haft://journal"}});
                let journal = server.post(&[("Mcp-Session-Id", &session)], &asked).2;
                for other in (0..10).filter(|other| *other != number) {
                    assert!(!journal.contains(&format!("of-{other}.txt")), "{journal}");
                }
            });
        }
    });
}

#[test]
fn clients_without_sessions_share_one() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--mode", "accept-edits"]);
    let edit = json!({"file_path": "one.txt", "old_string": "one", "new_string": "1"});
    assert_eq!(server.stateless("Edit", edit.clone())["isError"], true);
    assert_eq!(text_of(&server.stateless("Read", json!({"file_path": "one.txt"}))), ONE);
    assert_eq!(
        server.stateless("Edit", edit)["isError"],
        false,
        "what was read is known to the next request"
    );
}

#[test]
fn an_unknown_session_id_opens_nothing() {
    let fixture = two_files();
    let server = Server::start(&fixture, &[]);
    let id = server.begin();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(server.post(&[("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000")], &list).0, 404);
    assert!((400..500).contains(&server.post(&[], &list).0));
    assert_eq!(server.post(&[("Mcp-Session-Id", &id)], &list).0, 200);
    let ended = server.ask("DELETE", &[("Mcp-Session-Id", &id)], "").0;
    assert!((200..300).contains(&ended), "{ended}");
    assert_eq!(server.post(&[("Mcp-Session-Id", &id)], &list).0, 404);
    assert_eq!(server.ask("DELETE", &[("Mcp-Session-Id", &id)], "").0, 404, "it has ended already");
    assert_eq!(server.ask("DELETE", &[("Mcp-Session-Id", "never-given")], "").0, 404);
}

#[test]
fn over_the_session_limit_a_503_says_when_to_retry() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--idle-seconds", "1234"]);
    let sessions: Vec<String> = (0..100).map(|_| server.begin()).collect();
    let (code, _, body) = server.post(&[], &hello());
    assert_eq!(code, 503, "{body}");
    let told: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let message = told["error"]["message"].as_str().unwrap();
    assert!(told["id"] == 1 && message.contains("100") && message.contains("1234 seconds"), "{told}");
    let read = json!({"file_path": "one.txt"});
    assert_eq!(text_of(&server.stateless("Read", read.clone())), ONE, "it needs no seat");
    assert_eq!(text_of(&server.call(&sessions[0], "Read", read)), ONE);
    assert_eq!(server.ask("DELETE", &[("Mcp-Session-Id", &sessions[0])], "").0, 204);
    let started_at = std::time::Instant::now();
    while server.post(&[], &hello()).0 == 503 {
        assert!(started_at.elapsed() < Duration::from_secs(60), "its seat is still taken");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads events until a text is among them.
fn read_events_until(stream: &mut TcpStream, wanted: &str) -> String {
    let (mut heard, mut piece) = (String::new(), [0; 4096]);
    while !heard.split(wanted).nth(1).is_some_and(|rest| rest.contains("\n\n")) {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{heard}");
        heard.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    heard
}

/// The id of the last event.
fn last_event_id(heard: &str) -> String {
    let mut lines = heard.lines().rev();
    lines.find_map(|line| line.strip_prefix("id: ")).unwrap_or_else(|| panic!("{heard}")).to_owned()
}

/// Starts a call that prints `first` and then waits for a file; disconnects once that is received. Returns the id of the
/// last event.
fn disconnect_during_call(server: &Server, session: &str, waits_for: &str) -> String {
    let command = format!("echo first; until [ -e {waits_for} ]; do sleep 0.02; done; echo last");
    let params = json!({"name": "Bash", "arguments": {"command": command}, "_meta": {"progressToken": "t"}});
    let asked = json!({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params});
    let mut stream = server.send("POST", &[("Mcp-Session-Id", session)], &asked.to_string());
    last_event_id(&read_events_until(&mut stream, "first"))
}

#[test]
fn a_stream_that_broke_off_goes_on_where_it_was() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--mode", "bypass"]);
    let session = server.begin();
    let known = [("Mcp-Session-Id", session.as_str())];
    let resumed = |last: &str, body: &str| {
        assert!(!body.lines().any(|line| line == format!("id: {last}")), "told again: {body}");
        assert_eq!(text_of(&answer_in(body, &json!("long"))), "first\nlast");
    };
    // While the call runs.
    let last = disconnect_during_call(&server, &session, "go");
    let mut stream = server.send("GET", &[known[0], ("Last-Event-ID", &last)], "");
    fixture.write("ws/go", "");
    let mut body = String::new();
    stream.read_to_string(&mut body).unwrap();
    resumed(&last, &body);
    // After the call has ended: the next command waits for it.
    let last = disconnect_during_call(&server, &session, "go-on");
    fixture.write("ws/go-on", "");
    assert_eq!(server.call(&session, "Bash", json!({"command": "true"}))["isError"], false);
    let (code, _, body) = server.ask("GET", &[known[0], ("Last-Event-ID", &last)], "");
    assert_eq!(code, 200);
    resumed(&last, &body);
    // Other sessions do not receive it.
    let other = server.begin();
    let (_, _, body) = server.ask("GET", &[("Mcp-Session-Id", &other), ("Last-Event-ID", &last)], "");
    assert!(!body.contains("last"), "{body}");
}

#[test]
fn notifications_are_sent_once_and_none_is_lost() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--mode", "bypass"]);
    let session = server.begin();
    let known = ("Mcp-Session-Id", session.as_str());
    let subscribe = json!({"jsonrpc": "2.0", "id": 7, "method": "resources/subscribe", "params": {"uri": "haft://journal"}});
    assert_eq!(server.post(&[known], &subscribe).0, 200);
    let write = |name: &str| server.call(&session, "Write", json!({"file_path": name, "content": "new\n"}));
    // A connection that breaks before any event.
    let mut stream = server.send("GET", &[known], "");
    let last = last_event_id(&read_events_until(&mut stream, "id: "));
    drop(stream);
    let mut stream = server.send("GET", &[known, ("Last-Event-ID", &last)], "");
    write("a.txt");
    read_events_until(&mut stream, "resources/updated");
    write("b.txt");
    let last = last_event_id(&read_events_until(&mut stream, "resources/updated"));
    drop(stream);
    let mut stream = server.send("GET", &[known, ("Last-Event-ID", &last)], "");
    write("c.txt");
    let heard = read_events_until(&mut stream, "resources/updated");
    assert!(!heard.lines().any(|line| line == format!("id: {last}")), "{heard}");
}

#[test]
fn browser_pages_of_other_origins_are_refused() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--allow-origin", "http://localhost:5173"]);
    for origin in
        ["http://evil.example", "null", "http://localhost:1", "http://localhost", "http://127.0.0.1:5173"]
    {
        assert_eq!(server.post(&[("Origin", origin)], &hello()).0, 403, "{origin}");
    }
    assert_eq!(server.post(&[("Origin", "http://localhost:5173")], &hello()).0, 200);
    assert_eq!(server.post(&[("Host", "evil.example")], &hello()).0, 403);
    let elsewhere = Server::at(&fixture, "127.0.0.2:0", &[]);
    assert_eq!(elsewhere.post(&[("Host", &elsewhere.address.to_string())], &hello()).0, 200);
    assert_eq!(elsewhere.post(&[("Host", "127.0.0.3")], &hello()).0, 403);
    assert_eq!(Server::start(&fixture, &[]).post(&[("Origin", "http://localhost:5173")], &hello()).0, 403);
}

#[test]
fn requests_without_the_token_are_refused() {
    let fixture = two_files();
    fixture.write("token", &format!("{TOKEN}\n"));
    let file = fixture.base.join("token");
    let server = Server::start(&fixture, &["--token-file", file.to_str().unwrap()]);
    let with = |value: &str| server.post(&[("Authorization", value)], &hello()).0;
    assert_eq!(server.post(&[], &hello()).0, 401);
    for wrong in ["Bearer", "Bearer ", "Bearer x", &format!("Basic {TOKEN}"), &format!("Bearer {TOKEN}x")] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    assert_eq!(with(&format!("Bearer {TOKEN}")), 200);
    assert_eq!(server.ask("GET", &[], "").0, 401);
}

#[test]
fn a_public_address_requires_a_token() {
    let fixture = two_files();
    fixture.run(&["mcp", "--http", "0.0.0.0:0"]).refused("token");
    fixture.write("token", "short");
    let file = fixture.base.join("token");
    fixture
        .run(&["mcp", "--http", "127.0.0.1:0", "--token-file", file.to_str().unwrap()])
        .refused("at least");
    fixture.run(&["mcp", "--http", "127.0.0.1:0", "--session", "x"]).refused("--session");
}

#[test]
fn a_connection_without_a_request_is_closed() {
    let fixture = two_files();
    let server = Server::start(&fixture, &[]);
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut silent {
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    server.begin();
    for stream in &mut silent {
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(!matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
    }
}

#[test]
fn an_unfinished_request_is_closed() {
    let fixture = two_files();
    let server = Server::start(&fixture, &[]);
    let mut stream = server.send("POST", &[("Content-Length", "1000")], "{");
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut answer = Vec::new();
    // Sending a few bytes now and then does not extend the timeout.
    for _ in 0..100 {
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let _ = stream.write_all(b" ");
            }
            Err(_) => break,
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("30 s"), "{answer}");
}

#[test]
fn malformed_messages_are_refused_as_over_lines() {
    let fixture = two_files();
    let server = Server::start(&fixture, &[]);
    let session = server.begin();
    let twice = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"Read",
        "arguments":{"file_path":"two.txt","file_path":"one.txt"}}}"#;
    for (body, code, word) in [
        (twice, -32700, "file_path"),
        ("{", -32700, "JSON"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, "batches"),
    ] {
        let (status, _, answer) = server.ask("POST", &[("Mcp-Session-Id", &session)], body);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{body}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{body}: {answer}");
    }
    assert_eq!(server.call(&session, "Read", json!({"file_path": "one.txt"}))["isError"], json!(false));
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let fixture = two_files();
    let server = Server::start(&fixture, &[]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 400000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![b' '; 1 << 20];
    // It is refused before all of it has arrived.
    let sent = (0..400).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!(sent < 400, "all of it was taken");
    assert_eq!(server.post(&[], &hello()).0, 200);
}

#[test]
fn a_session_that_idles_ends_with_what_it_started() {
    let fixture = two_files();
    let server = Server::start(&fixture, &["--mode", "bypass", "--idle-seconds", "1"]);
    let id = server.begin();
    server.call(&id, "Bash", json!({"command": "sleep 31407", "run_in_background": true}));
    started("31407", 1);
    started("31407", 0);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(server.post(&[("Mcp-Session-Id", &id)], &list).0, 404);
}

#[test]
fn an_interrupted_server_ends_everything_that_runs() {
    let fixture = two_files();
    let mut server = Server::start(&fixture, &["--mode", "bypass"]);
    let id = server.begin();
    server.call(&id, "Bash", json!({"command": "sleep 31406", "run_in_background": true}));
    started("31406", 1);
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    started("31406", 0);
    assert_eq!(running("31406"), 0);
}

#[test]
fn an_id_in_use_is_refused_over_http_too() {
    let fixture = two_files();
    let fifo = fixture.base.join("ws/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let server = Server::start(&fixture, &["--mode", "bypass"]);
    let session = server.begin();
    let call = |command: &str| {
        let params = json!({"name": "Bash", "arguments": {"command": command}});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    };
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut first = server.send("POST", &headers, &call("sleep 4711 & cat fifo; kill $!").to_string());
    started("4711", 1);
    let (code, _, body) = server.post(&headers, &call("echo second"));
    let refused: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &refused["id"], &refused["error"]["code"]), (400, &json!(7), &json!(-32600)), "{body}");
    std::fs::write(&fifo, "first\n").unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(text_of(&answer_in(&answer, &json!(7))).contains("first"), "{answer}");
    let (code, _, body) = server.post(&headers, &call("echo third"));
    assert_eq!((code, text_of(&answer_in(&body, &json!(7)))), (200, "third"), "{body}");
}
