//! The stateless protocol, from 2026-07-28 on: no initialization, client data in each request, questions as results.

use super::*;

fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn call(tool: &str, arguments: Value, capabilities: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": meta(capabilities)})
}

/// The arguments of a write that needs approval.
fn write(content: &str) -> Value {
    call("Write", json!({"file_path": "new.txt", "content": content}), json!({"elicitation": {}}))
}

#[test]
fn stateless_requests_are_served_and_cancelled() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &["--mode", "bypass"]);
    let found = client.request("server/discover", json!({"_meta": meta(json!({}))}));
    let versions = found["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{found}");
    let listed = client.request("tools/list", json!({"_meta": meta(json!({}))}));
    assert!(listed["tools"].as_array().unwrap().len() > 5 && listed["ttlMs"].is_number(), "{listed}");
    let read = client.request("tools/call", call("Read", json!({"file_path": "one.txt"}), json!({})));
    assert_eq!((text_of(&read), &read["resultType"]), (ONE, &json!("complete")));
    let sleep = call("Bash", json!({"command": "sleep 31405"}), json!({}));
    let id = client.send_request("tools/call", sleep);
    started("31405", 1);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    started("31405", 0);
    let id = client.send_request("tools/list", json!({}));
    assert_eq!(client.reply(&id)["error"]["code"], -32602, "who does not say who it is");
}

#[test]
fn a_question_is_the_result_and_the_repeated_request_continues() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &[]);
    let asked = client.request("tools/call", write("new\n"));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (name, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("+new"), "{question}");
    assert!(!fixture.base.join("ws/new.txt").exists(), "nothing happens before the answer");
    let answered = |mut request: Value, answer: &str, state: &Value| {
        request["inputResponses"] = json!({name: {"action": "accept", "content": {"answer": answer}}});
        request["requestState"] = state.clone();
        request
    };
    // An answer counts only for its question and its request.
    let state = &asked["requestState"];
    let other = client.send_request("tools/call", answered(write("other\n"), "allow once", state));
    assert_eq!(client.reply(&other)["error"]["code"], -32602);
    let forged = client.send_request("tools/call", answered(write("new\n"), "allow once", &json!("forged")));
    assert_eq!(client.reply(&forged)["error"]["code"], -32602);
    let done = client.request("tools/call", answered(write("new\n"), "allow once", state));
    assert_eq!((&done["isError"], &done["resultType"]), (&json!(false), &json!("complete")), "{done}");
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/new.txt")).unwrap(), "new\n");
}

#[test]
fn a_denial_counts_and_a_client_that_cannot_ask_learns_how_to_allow() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &[]);
    let asked = client.request("tools/call", write("new\n"));
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = write("new\n");
    again["inputResponses"] = json!({name: {"action": "decline"}});
    again["requestState"] = asked["requestState"].clone();
    assert_eq!(client.request("tools/call", again)["isError"], true);
    let unasked = call("Write", json!({"file_path": "new.txt", "content": "new\n"}), json!({}));
    let denied = client.request("tools/call", unasked);
    assert!(text_of(&denied).contains("--mode accept-edits"), "{denied}");
    assert!(!fixture.base.join("ws/new.txt").exists());
}

#[test]
fn subscribers_are_notified_of_changes() {
    let fixture = two_files();
    let mut client = Client::start(&fixture, &["--mode", "bypass"]);
    let wanted = json!({"resourceSubscriptions": ["haft://nothing", "haft://journal", "file:///etc/passwd"]});
    let listening = json!({"_meta": meta(json!({})), "notifications": wanted});
    client.send_request("subscriptions/listen", listening);
    let acknowledged = client.next();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let accepted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*accepted, json!(["haft://journal"]), "{acknowledged}");
    let made = json!({"file_path": "made.txt", "content": "made\n"});
    client.send_request("tools/call", call("Write", made, json!({})));
    let told = [client.next(), client.next()];
    let update = told.iter().find(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(update.unwrap_or_else(|| panic!("{told:?}"))["params"]["uri"], "haft://journal");
}
