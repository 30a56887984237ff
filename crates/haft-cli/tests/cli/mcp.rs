//! `haft mcp` over standard input and output: one JSON-RPC message per line.

pub(super) mod client;
mod elicitation;
pub(super) mod http;
mod malformed;
mod shutdown;
mod stateless;

use base64::Engine as _;

use super::*;
use client::{Client, running, started, text_of};

/// The tools that are offered without settings: nobody searches the web then.
fn offered(tools: &Value) -> Vec<Value> {
    let needs_settings = |tool: &Value| ["WebSearch", "web_search"].iter().any(|name| tool["name"] == *name);
    tools.as_array().unwrap().iter().filter(|tool| !needs_settings(tool)).cloned().collect()
}

#[test]
fn a_client_sees_the_tools_of_the_dialect() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &[]);
    let welcome = client.initialize(json!({"elicitation": {}}));
    assert_eq!(welcome["serverInfo"]["name"], "haft");
    assert_eq!(welcome["protocolVersion"], "2025-06-18");
    assert_eq!(welcome["capabilities"]["tools"]["listChanged"], true);
    let listed = client.request("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let expected = offered(&fixture.run(&["tools", "--format", "mcp"]).json());
    assert_eq!(tools, &expected);
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let read = named("Read");
    assert_eq!(read["inputSchema"]["type"], "object");
    assert_eq!(
        read["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    assert_eq!(
        named("Bash")["annotations"],
        json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true})
    );
    assert_eq!(named("Write")["annotations"]["openWorldHint"], false);
    assert!(listed.get("nextCursor").is_none(), "all tools fit one page");
}

#[test]
fn a_client_learns_why_haft_cannot_start() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &["--workspace", "missing"]);
    let refused =
        client.send_request("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    let answer = client.reply(&refused);
    let reason = answer["error"]["message"].as_str().unwrap();
    assert!(reason.contains("haft cannot start") && reason.contains("missing"), "{answer}");
    let settings = fixture.base.join("home/.config/haft");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), "mode = 'fast'\n").unwrap();
    let mut client = Client::start(&fixture, &[]);
    let refused =
        client.send_request("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    let answer = client.reply(&refused);
    let reason = answer["error"]["message"].as_str().unwrap();
    assert!(reason.contains("config.toml") && reason.contains("fast"), "{answer}");
}

#[test]
fn tools_that_need_a_person_are_offered_only_where_one_can_be_asked() {
    let fixture = two_files();
    let asking = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];
    let names = |client: &mut Client| -> Vec<String> {
        let listed = client.request("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut client = Client::start(&fixture, &[]);
    client.initialize(json!({"elicitation": {}}));
    let offered = names(&mut client);
    assert!(asking.iter().all(|tool| offered.iter().any(|name| name == tool)), "{offered:?}");
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let offered = names(&mut client);
    assert!(!asking.iter().any(|tool| offered.iter().any(|name| name == tool)), "{offered:?}");
    // A model that knows the tool all the same does not lock itself out of every later change.
    let refused = client.call("EnterPlanMode", json!({}));
    assert!(text_of(&refused).contains("nobody can approve a plan"), "{refused}");
    let written = client.call("Write", json!({"file_path": "a.txt", "content": "new\n"}));
    assert_eq!(written["isError"], false, "{written}");
}

#[test]
fn only_tools_that_may_reach_beyond_the_machine_say_so() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &[]);
    client.initialize(json!({"elicitation": {}}));
    let listed = client.request("tools/list", json!({}));
    for tool in listed["tools"].as_array().unwrap() {
        let is_open = tool["annotations"]["openWorldHint"].as_bool().unwrap();
        let reaches_out = ["Bash", "WebFetch"].iter().any(|name| tool["name"] == *name);
        assert_eq!(is_open, reaches_out, "{}", tool["name"]);
        assert!(!tool["inputSchema"].to_string().contains("_simulated"), "{tool}");
    }
}

#[test]
fn every_dialect_can_be_served() {
    let fixture = two_files();
    for dialect in ["claude", "ally", "cdd", "workspace"] {
        let mut client = Client::start(&fixture, &["--dialect", dialect]);
        client.initialize(json!({"elicitation": {}}));
        let listed = client.request("tools/list", json!({}));
        let expected = fixture.run(&["tools", "--format", "mcp", "--dialect", dialect]).json();
        assert_eq!(listed["tools"].as_array().unwrap().len(), offered(&expected).len(), "{dialect}");
    }
}

#[test]
fn a_client_that_prefers_structured_content_still_gets_the_text() {
    // Several clients hand their model `structuredContent` alone where there is both.
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let read = client.call("Read", json!({"file_path": "one.txt"}));
    assert_eq!(text_of(&read), ONE);
    assert!(read.get("structuredContent").is_none(), "{read}");
    assert_eq!(read["_meta"]["haft/structured"]["total_lines"], 1);
    assert_eq!(read["isError"], false);
    let output = client.call("Bash", json!({"command": "echo seen"}));
    assert_eq!(text_of(&output), "seen");
    assert!(output.get("structuredContent").is_none(), "{output}");
    let missing = client.call("Read", json!({"file_path": "three.txt"}));
    assert_eq!(missing["isError"], true);
    assert!(text_of(&missing).contains("three.txt"), "{missing}");
    for (dialect, tool, input) in [
        ("ally", "read", json!({"file_paths": ["one.txt"]})),
        ("ally", "bash", json!({"command": "echo seen"})),
        ("workspace", "read_file", json!({"path": "one.txt"})),
    ] {
        let mut client = Client::ready(&fixture, &["--dialect", dialect, "--mode", "bypass"]);
        let reply = client.call(tool, input);
        let text: Value = serde_json::from_str(text_of(&reply)).unwrap();
        assert_eq!(reply["structuredContent"], text, "{dialect}: both parts say the same");
    }
}

#[test]
fn a_failure_does_not_break_the_promise_of_an_output_schema() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--dialect", "workspace"]);
    let listed = client.request("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let promised = &tools.iter().find(|tool| tool["name"] == "read_file").unwrap()["outputSchema"];
    // A client may validate the JSON of a failure's text, too: its schema is one of both.
    assert_eq!(promised["type"], "object");
    assert_eq!(promised["anyOf"][0]["required"], json!(["ok", "value"]));
    assert_eq!(promised["anyOf"][1]["required"], json!(["ok", "error"]));
    let read = client.call("read_file", json!({"path": "one.txt"}));
    assert_eq!(read["structuredContent"]["ok"], true);
    let missing = client.call("read_file", json!({"path": "none.txt"}));
    assert_eq!(missing["isError"], true);
    assert!(missing.get("structuredContent").is_none(), "{missing}");
    assert!(text_of(&missing).contains("none.txt"));
}

#[test]
fn a_failure_is_not_said_twice_to_a_client_that_shows_all_of_it() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let missing = client.call("Read", json!({"file_path": "three.txt"}));
    assert!(text_of(&missing).contains("`three.txt` does not exist"), "{missing}");
    let fault = &missing["_meta"]["haft/structured"]["fault"];
    assert_eq!(fault["kind"], "not_found");
    assert!(fault.get("message").is_none() && fault.get("hint").is_none(), "{missing}");
    let mut client = Client::ready(&fixture, &["--dialect", "ally"]);
    let missing = client.call("read", json!({"file_paths": []}));
    assert!(text_of(&missing).contains("validation_error"), "{missing}");
    assert!(missing.get("_meta").is_none(), "{missing}");
}

#[test]
fn tools_say_how_long_their_replies_may_be() {
    // Otherwise Claude Code hands its model the first 2 kB of a long one.
    let fixture = two_files();
    let listed = Client::ready(&fixture, &[]).request("tools/list", json!({}));
    let specs = offered(&fixture.run(&["tools", "--format", "json"]).json());
    for (tool, spec) in listed["tools"].as_array().unwrap().iter().zip(&specs) {
        let longest = tool["_meta"]["anthropic/maxResultSizeChars"].as_u64().unwrap();
        // As JSON a line break is two characters.
        assert_eq!((&tool["name"], longest), (&spec["name"], spec["max_result"].as_u64().unwrap() * 2));
    }
}

#[test]
fn a_picture_is_sent_as_one() {
    let fixture = two_files();
    let dot =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let bytes = base64::engine::general_purpose::STANDARD.decode(dot).unwrap();
    std::fs::write(fixture.base.join("ws/dot.png"), bytes).unwrap();
    let reply = Client::ready(&fixture, &[]).call("Read", json!({"file_path": "dot.png"}));
    let picture = reply["content"].as_array().unwrap().iter().find(|block| block["type"] == "image").unwrap();
    assert_eq!(picture["mimeType"], "image/png");
    assert!(!picture["data"].as_str().unwrap().is_empty());
}

#[test]
fn output_is_sent_as_progress_if_the_client_gives_a_token() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let command = "echo first; until [ -e go ]; do sleep 0.02; done; echo last";
    let asked = json!({"name": "Bash", "arguments": {"command": command}, "_meta": {"progressToken": "t"}});
    let id = client.send_request("tools/call", asked);
    let told = client.next();
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("t"))
    );
    assert!(told["params"]["message"].as_str().unwrap().contains("first"), "{told}");
    fixture.write("ws/go", "");
    let mut before = told["params"]["progress"].as_f64().unwrap();
    let reply = loop {
        let message = client.next();
        if message["id"] == id {
            break message;
        }
        let now = message["params"]["progress"].as_f64().unwrap();
        assert!(now > before, "{message}");
        before = now;
    };
    assert_eq!(text_of(&reply["result"]), "first\nlast");
}

#[test]
fn output_is_logged_only_for_clients_that_set_a_log_level() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let command =
        |name: &str| json!({"command": format!("echo told; until [ -e {name} ]; do sleep 0.02; done")});
    client.request("logging/setLevel", json!({"level": "info"}));
    let id = client.send_request("tools/call", json!({"name": "Bash", "arguments": command("one-more")}));
    let told = client.next();
    assert_eq!(told["method"], "notifications/message");
    assert_eq!((&told["params"]["level"], &told["params"]["logger"]), (&json!("info"), &json!("Bash")));
    assert!(told["params"]["data"]["text"].as_str().unwrap().contains("told"), "{told}");
    fixture.write("ws/one-more", "");
    assert_eq!(client.reply(&id)["result"]["isError"], false);
    client.request("logging/setLevel", json!({"level": "warning"}));
    let id = client.send_request("tools/call", json!({"name": "Bash", "arguments": command("another")}));
    fixture.write("ws/another", "");
    assert_eq!(client.next()["id"], id, "nothing else was told");
}

#[test]
fn calls_of_one_connection_run_in_parallel_unless_they_conflict() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let pipe = fixture.base.join("ws/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let slow =
        client.send_request("tools/call", json!({"name": "Bash", "arguments": {"command": "cat pipe"}}));
    assert_eq!(text_of(&client.call("Read", json!({"file_path": "one.txt"}))), ONE);
    std::fs::write(&pipe, "at last\n").unwrap();
    assert_eq!(text_of(&client.reply(&slow)["result"]), "at last");
    fixture.write("ws/n.txt", "none\n");
    client.call("Read", json!({"file_path": "n.txt"}));
    let mut reads = Vec::new();
    for number in 0..40 {
        let written = json!({"file_path": "n.txt", "content": format!("{number}\n")});
        client.send_request("tools/call", json!({"name": "Write", "arguments": written}));
        reads.push(
            client.send_request("tools/call", json!({"name": "Read", "arguments": {"file_path": "n.txt"}})),
        );
    }
    // Answers may come in any order.
    let replies: Vec<Value> = (0..80).map(|_| client.next()).collect();
    for (number, id) in reads.iter().enumerate() {
        let reply = replies.iter().find(|reply| reply["id"] == *id).unwrap();
        assert_eq!(text_of(&reply["result"]), format!("     1\t{number}"));
    }
}

#[test]
fn consecutive_edits_report_only_their_own_syntax_errors() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let text: String = (0..300).map(|n| format!("fn f{n}() -> u32 {{\n    {n}\n}}\n\n")).collect();
    fixture.write("ws/a.rs", &text);
    client.call("Read", json!({"file_path": "a.rs"}));
    let mut edit = |old: &str, new: &str| {
        let (old, new) = (format!("    {old}\n"), format!("    {new}\n"));
        let edit = json!({"file_path": "a.rs", "old_string": old, "new_string": new});
        let checks = client.call("Edit", edit)["_meta"]["haft/structured"]["checks"].take();
        (checks["passed"] == true, checks["errors"][0]["line"].as_u64(), checks["errors_before"].as_u64())
    };
    // The first check parses all of the text, later ones are incremental.
    assert_eq!(edit("100", "100 + 1"), (true, None, None));
    assert_eq!(edit("101", "101 + 1"), (true, None, None));
    assert_eq!(edit("102", "102 + (1"), (false, Some(410), None));
    assert_eq!(edit("103", "103 + 1"), (false, None, Some(1)));
    assert_eq!(edit("102 + (1", "102 + 1"), (true, None, None));
    assert_eq!(edit("104", "104 + 1"), (true, None, None));
    assert_eq!(edit("0", "0 +"), (false, Some(2), None));
    assert_eq!(edit("0 +", "0"), (true, None, None));
    assert_eq!(edit("299", "299 }"), (false, Some(1199), None));
}

#[test]
fn a_session_can_read_its_own_changes_and_no_others() {
    let fixture = two_files();
    let mut other = Client::ready(&fixture, &["--mode", "bypass"]);
    other.call("Write", json!({"file_path": "other.txt", "content": "other\n"}));
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    client.call("Write", json!({"file_path": "own.txt", "content": "own\n"}));
    let journal = client.request("resources/read", json!({"uri": "haft://journal"}));
    let rows: Vec<Value> = serde_json::from_str(journal["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["files"], json!(["own.txt"]));
    let diff = client.request("resources/read", json!({"uri": rows[0]["uri"]}));
    assert!(diff["contents"][0]["text"].as_str().unwrap().contains("+own"), "{diff}");
    let others = other.request("resources/read", json!({"uri": "haft://journal"}));
    let others: Vec<Value> = serde_json::from_str(others["contents"][0]["text"].as_str().unwrap()).unwrap();
    for uri in [
        others[0]["uri"].as_str().unwrap(),
        "haft://journal/x",
        "haft://results/../stats.json",
        "file:///etc/passwd",
    ] {
        let id = client.send_request("resources/read", json!({"uri": uri}));
        assert_eq!(client.reply(&id)["error"]["code"], -32002, "{uri}");
    }
}

#[test]
fn a_reply_that_was_cut_is_a_resource() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    client.call("Bash", json!({"command": "seq 1 20000"}));
    let listed = client.request("resources/list", json!({}));
    let found = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|resource| resource["uri"].as_str().unwrap().starts_with("haft://results/"));
    let uri = &found.unwrap_or_else(|| panic!("{listed}"))["uri"];
    let whole = client.request("resources/read", json!({"uri": uri}));
    assert!(whole["contents"][0]["text"].as_str().unwrap().contains("\n12345\n"));
}

#[test]
fn roots_narrow_the_workspace_and_never_widen_it() {
    let fixture = Fixture::new(&[("in/a.txt", "one\n"), ("b.txt", "two\n")]);
    fixture.write("outside/c.txt", "secret\n");
    let uri = |name: &str| format!("file://{}", fixture.base.join(name).display());
    let mut client = Client::start(&fixture, &[]);
    client.initialize_with_roots(&[&uri("ws/in"), &uri("outside")]);
    assert_eq!(text_of(&client.call("Read", json!({"file_path": "a.txt"}))), ONE);
    assert_eq!(client.call("Read", json!({"file_path": fixture.base.join("ws/b.txt")}))["isError"], true);
    assert_eq!(
        client.call("Read", json!({"file_path": fixture.base.join("outside/c.txt")}))["isError"],
        true
    );
    // Roots above or outside of the workspace are ignored.
    let mut client = Client::start(&fixture, &[]);
    client.initialize_with_roots(&[&uri(""), &uri("outside"), "https://example.com/"]);
    assert_eq!(text_of(&client.call("Read", json!({"file_path": "b.txt"}))), TWO);
    assert_eq!(
        client.call("Read", json!({"file_path": fixture.base.join("outside/c.txt")}))["isError"],
        true
    );
}

#[test]
fn changed_roots_are_followed_within_the_workspace() {
    let fixture = Fixture::new(&[("in/a.txt", "one\n"), ("b.txt", "two\n")]);
    fixture.write("outside/c.txt", "secret\n");
    let uri = |name: &str| format!("file://{}", fixture.base.join(name).display());
    let mut client = Client::start(&fixture, &[]);
    client.initialize_with_roots(&[&uri("ws/in")]);
    assert_eq!(client.call("Read", json!({"file_path": fixture.base.join("ws/b.txt")}))["isError"], true);
    client.notify("notifications/roots/list_changed", json!({}));
    client.answer_roots_request(&[&uri("ws"), &uri("outside")]);
    // The roots may arrive after the next request.
    let started_at = std::time::Instant::now();
    while client.call("Read", json!({"file_path": fixture.base.join("ws/b.txt")}))["isError"] == true {
        assert!(started_at.elapsed() < Duration::from_secs(30), "the client is not followed");
    }
    assert_eq!(
        client.call("Read", json!({"file_path": fixture.base.join("outside/c.txt")}))["isError"],
        true
    );
}

#[test]
fn an_unfinished_line_blocks_no_other_call() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let ping = json!({"jsonrpc": "2.0", "id": "late", "method": "ping"}).to_string();
    let (half, rest) = ping.split_at(20);
    let read =
        client.send_request("tools/call", json!({"name": "Read", "arguments": {"file_path": "one.txt"}}));
    client.write(half.as_bytes());
    assert_eq!(text_of(&client.reply(&read)["result"]), ONE);
    client.write(format!("{rest}\n").as_bytes());
    assert_eq!(client.next()["id"], "late");
    // A client can disconnect in the middle of a line.
    client.write(half.as_bytes());
    drop(client.stdin.take());
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn thousands_of_calls_leave_nothing_behind() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let mut calls = |count: usize| {
        for at in 0..count / 50 {
            let read = json!({"name": "Read", "arguments": {"file_path": "one.txt"}});
            let sent: Vec<Value> = (0..48).map(|_| client.send_request("tools/call", read.clone())).collect();
            let answered: Vec<Value> = sent.iter().map(|_| client.next()["id"].take()).collect();
            assert!(sent.iter().all(|id| answered.contains(id)));
            client.call("Bash", json!({"command": "echo $$"}));
            client.call("Write", json!({"file_path": "w.txt", "content": format!("{at}\n")}));
        }
        Usage::of(client.child.id())
    };
    let (before, after) = (calls(500), calls(4500));
    // A sandbox may be in preparation; a leak per call or command would be far larger.
    assert!(after.descriptors < before.descriptors + 20, "{before:?} {after:?}");
    assert!(after.children < before.children + 3, "{before:?} {after:?}");
    assert!(after.kilobytes < before.kilobytes + 8 * 1024, "{before:?} {after:?}");
}

/// The resources of a process.
#[derive(Debug)]
struct Usage {
    kilobytes: u64,
    descriptors: usize,
    children: usize,
}

impl Usage {
    fn of(id: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
        let children = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
        Self {
            kilobytes: held.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count(),
            children: tasks.flat_map(children).map(|text| text.split_whitespace().count()).sum(),
        }
    }
}
