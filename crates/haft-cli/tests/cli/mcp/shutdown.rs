//! Cancellation and the end of connections: no process stays behind.

use super::*;

fn sleep(seconds: &str) -> Value {
    json!({"name": "Bash", "arguments": {"command": format!("sleep {seconds}")}})
}

#[test]
fn a_cancelled_call_stops_and_is_not_answered() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    // 0 is a valid id.
    client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": sleep("31401")}));
    started("31401", 1);
    client.notify("notifications/cancelled", json!({"requestId": 0, "reason": "enough"}));
    started("31401", 0);
    let id = client.send_request("ping", json!({}));
    assert_eq!(client.next()["id"], id, "nothing was said about the call");
    assert_eq!(client.call("Bash", json!({"command": "echo free"}))["isError"], false);
    // Cancelling an unknown request is ignored.
    client.notify("notifications/cancelled", json!({"requestId": "never"}));
    client.notify("notifications/cancelled", json!({}));
    client.request("ping", json!({}));
}

#[test]
fn a_client_that_disconnects_leaves_no_process() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    client.call("Bash", json!({"command": "sleep 31402", "run_in_background": true}));
    client.send_request("tools/call", sleep("31403"));
    started("31402", 1);
    started("31403", 1);
    drop(client.stdin.take());
    assert!(client.child.wait().unwrap().success());
    started("31402", 0);
    started("31403", 0);
}

#[test]
fn concurrent_calls_end_with_the_connection() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let lines = (900..904).map(|id| {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": sleep("31406")}))
    });
    client.write(lines.collect::<String>().as_bytes());
    started("31406", 4);
    client.notify("notifications/cancelled", json!({"requestId": 902}));
    started("31406", 3);
    assert_eq!(text_of(&client.call("Read", json!({"file_path": "one.txt"}))), ONE);
    drop(client.stdin.take());
    assert!(client.child.wait().unwrap().success());
    started("31406", 0);
}

#[test]
fn an_interrupted_server_leaves_no_process() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    for _ in 0..3 {
        client.send_request("tools/call", sleep("31404"));
    }
    started("31404", 3);
    let id = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(client.child.wait().unwrap().success());
    started("31404", 0);
}

#[test]
fn a_client_that_closes_its_input_has_disconnected() {
    let fixture = two_files();
    let mut command = fixture.haft(&["mcp"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"nonsense\n").unwrap();
    assert!(child.wait().unwrap().success());
    drop(stdin);
}

#[test]
fn piped_requests_are_answered_after_the_pipe_is_closed() {
    let fixture = two_files();
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "Read", "arguments": {"file_path": "one.txt"}}}),
    ];
    let output = fixture.run_with(&["mcp"], &lines.map(|line| format!("{line}\n")).concat());
    let replies: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.code, replies.len()), (0, 2), "{output:?}");
    assert_eq!(text_of(&replies[1]["result"]), ONE);
}

#[test]
fn a_client_that_does_not_read_costs_no_memory_and_still_gets_its_answer() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let flood = json!({
        "name": "Bash",
        "arguments": {"command": "yes 0123456789abcdef | head -c 100000000; touch flooded"},
        "_meta": {"progressToken": 7},
    });
    let id = client.send_request("tools/call", flood);
    let started_at = std::time::Instant::now();
    while !fixture.base.join("ws/flooded").exists() {
        assert!(started_at.elapsed() < Duration::from_secs(60), "the command waits for the client");
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 200_000, "{peak} kB");
    assert_eq!(client.reply(&id)["result"]["isError"], false);
}
