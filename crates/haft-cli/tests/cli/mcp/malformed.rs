//! Malformed and invalid messages get a JSON-RPC error, and the next message is served.

use super::*;

#[test]
fn malformed_lines_are_answered_and_the_next_one_is_served() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let deep = format!("{}\n", "[".repeat(100_000));
    let nested = format!("{}\n", "{\"a\":".repeat(100_000));
    let lines: [(&[u8], i64); 9] = [
        (b"{\"jsonrpc\":\n", -32700),
        (b"nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (deep.as_bytes(), -32700),
        (nested.as_bytes(), -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}\n", -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        (b"17\n", -32600),
        (b"{\"id\":1}\n", -32600),
    ];
    for (line, code) in lines {
        client.write(line);
        let answer = client.next();
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &Value::Null),
            "{shown}: {answer}"
        );
        client.request("ping", json!({}));
    }
    for (message, id, word) in [
        (json!({"jsonrpc": "1.0", "id": 10, "method": "ping"}), json!(10), "`jsonrpc` must be"),
        (json!({"id": 11, "method": "ping"}), json!(11), "`jsonrpc` must be"),
        (json!([{"jsonrpc": "2.0", "id": 12, "method": "ping"}]), json!(null), "batches are not taken"),
    ] {
        client.send(&message);
        let answer = client.next();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{answer}");
    }
    for ignored in ["\n", "\r\n", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard-of\"}\n"] {
        client.write(ignored.as_bytes());
        let id = client.send_request("ping", json!({}));
        assert_eq!(client.next()["id"], id, "{ignored:?}");
    }
    client.send(&json!({"jsonrpc": "2.0", "id": "nobody asked", "result": {}}));
    client.request("ping", json!({}));
}

#[test]
fn an_id_is_returned_unchanged_and_an_invalid_one_refused() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let long = "x".repeat(100_000);
    for id in [json!("x"), json!(0), json!(-1), json!(9_007_199_254_740_993_u64), json!(long), json!("")] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    for id in [json!(1.5), json!(null), json!(true), json!({}), json!([])] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let answer = client.next();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null), "{id}");
    }
}

#[test]
fn an_overlong_line_is_refused_and_not_buffered() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        client.write(&piece);
    }
    client.write(b"\n");
    let answer = client.next();
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 150_000, "{peak} kB");
    client.request("ping", json!({}));
    // A long line within the limit is served.
    let id = client.send_request("ping", json!({"_meta": {"x": "y".repeat(10 << 20)}}));
    assert!(client.reply(&id).get("result").is_some());
}

#[test]
fn unknown_methods_and_tools_differ_from_failed_calls() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let mut answer = |method: &str, params: Value| {
        let id = client.send_request(method, params);
        client.reply(&id)
    };
    let unknown = answer("tools/burn", json!({}));
    assert_eq!(unknown["error"], json!({"code": -32601, "message": "there is no method `tools/burn`"}));
    let unknown = answer("tools/call", json!({"name": "Raed", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`Read`"), "{unknown}");
    for params in
        [json!({}), json!({"name": 7}), json!({"name": "Read", "arguments": [1]}), json!([1]), json!("x")]
    {
        let refused = answer("tools/call", params.clone());
        assert_eq!(refused["error"]["code"], -32602, "{params}: {refused}");
    }
    assert_eq!(answer("tools/list", json!({"cursor": "nowhere"}))["error"]["code"], -32602);
    let wrong = [
        json!({"file_path": 123}),
        json!({"file_path": "one.txt", "limit": 1.5}),
        json!({"file_path": "one.txt", "limit": 1e308}),
        json!({"file_path": "one.txt", "offset": 1e30}),
        json!({"file_path": "one.txt", "no_such_key": 1}),
        json!({}),
    ];
    for arguments in wrong {
        let failed = answer("tools/call", json!({"name": "Read", "arguments": arguments}));
        assert_eq!(failed["result"]["isError"], true, "{arguments}: {failed}");
    }
    let mended =
        answer("tools/call", json!({"name": "Read", "arguments": {"file_path": "one.txt", "limit": "10"}}));
    assert_eq!(mended["result"]["isError"], false, "{mended}");
}

#[test]
fn a_request_before_initialize_does_not_end_the_connection() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &[]);
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({"requestId": 1}));
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    client.request("ping", json!({}));
    let id = client.send_request("tools/list", json!({}));
    let early = client.reply(&id);
    let told = early["error"]["message"].as_str().unwrap();
    assert!(told.contains("`tools/list`") && told.contains("`initialize` first"), "{early}");
    let id = client.send_request("tools/burn", json!({}));
    assert!(client.reply(&id)["error"]["message"].as_str().unwrap().contains("`initialize` first"));
    client.initialize(json!({}));
    client.request("tools/list", json!({}));
}

#[test]
fn a_version_from_the_future_is_answered_with_one_of_today() {
    let fixture = two_files();
    for (asked, given) in
        [("2026-07-28", "2025-11-25"), ("2099-01-01", "2025-11-25"), ("2024-11-05", "2024-11-05")]
    {
        let mut client = Client::start(&fixture, &[]);
        let about = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        assert_eq!(client.request("initialize", about)["protocolVersion"], given);
    }
}

#[test]
fn only_existing_resources_can_be_subscribed_to() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    client.call("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    let listed = client.request("resources/list", json!({}));
    let resources = listed["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 2, "{listed}");
    for resource in resources {
        client.request("resources/subscribe", json!({"uri": resource["uri"]}));
    }
    for uri in ["haft://journal/9999", "haft://nothing", "file:///etc/passwd", ""] {
        let id = client.send_request("resources/subscribe", json!({"uri": uri}));
        let refused = client.reply(&id);
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["data"]["uri"]),
            (&json!(-32002), &json!(uri))
        );
    }
}

#[test]
fn an_id_in_use_is_refused_and_the_running_call_is_answered() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let fifo = fixture.base.join("ws/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let call = |command: &str| {
        let params = json!({"name": "Bash", "arguments": {"command": command}});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    };
    client.send(&call("cat fifo"));
    client.send(&call("echo second"));
    let refused = client.next();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32600)), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("in use"), "{refused}");
    std::fs::write(&fifo, "first\n").unwrap();
    let first = client.reply(&json!(7));
    assert_eq!(text_of(&first["result"]), "first");
    // Once it is answered, the id is free.
    client.send(&call("echo third"));
    let third = client.reply(&json!(7));
    assert_eq!(text_of(&third["result"]), "third");
    // A call that was cancelled may still run: its id is not free.
    client.send(&call("cat fifo"));
    client.notify("notifications/cancelled", json!({"requestId": 7}));
    client.send(&call("echo fourth"));
    assert_eq!(client.reply(&json!(7))["error"]["code"], -32600);
    client.request("ping", json!({}));
}
