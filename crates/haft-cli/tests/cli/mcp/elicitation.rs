//! Approvals and questions by elicitation.

use super::*;

fn write(client: &mut Client, name: &str) -> Value {
    client.send_request(
        "tools/call",
        json!({"name": "Write", "arguments": {"file_path": name, "content": "new\n"}}),
    )
}

/// Answers the next elicitation request, and returns it.
fn answer(client: &mut Client, content: &Value) -> Value {
    let asked = client.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let result = json!({"action": "accept", "content": content});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    asked["params"].clone()
}

fn asking(fixture: &Fixture) -> Client {
    let mut client = Client::start(fixture, &[]);
    client.initialize(json!({"elicitation": {}}));
    client
}

#[test]
fn a_client_is_asked_with_the_diff_and_its_answer_holds() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let id = write(&mut client, "a.txt");
    let question = answer(&mut client, &json!({"answer": "allow once"}));
    let message = question["message"].as_str().unwrap();
    assert!(message.starts_with("Write a.txt (+1 −0)\n") && message.contains("\n+new\n"), "{message}");
    let offered = &question["requestedSchema"]["properties"]["answer"]["enum"];
    assert_eq!(*offered, json!(["allow once", "allow for this session", "allow with other arguments", "no"]));
    assert_eq!(client.reply(&id)["result"]["isError"], false);
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/a.txt")).unwrap(), "new\n");
    let id = write(&mut client, "b.txt");
    answer(&mut client, &json!({"answer": "no"}));
    let second = answer(&mut client, &json!({"feedback": "call it c.txt"}));
    assert!(second["message"].as_str().unwrap().contains("instead of `Write`"), "{second}");
    let denied = client.reply(&id);
    assert!(text_of(&denied["result"]).contains("call it c.txt"), "{denied}");
    assert!(!fixture.base.join("ws/b.txt").exists());
}

#[test]
fn a_client_may_change_the_arguments_before_it_agrees() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let id = write(&mut client, "a.txt");
    let other = json!({"file_path": "b.txt", "content": "other\n"}).to_string();
    answer(&mut client, &json!({"answer": "allow with other arguments"}));
    let form = answer(&mut client, &json!({"arguments": other}));
    let before = form["requestedSchema"]["properties"]["arguments"]["default"].as_str().unwrap();
    assert!(before.contains("a.txt") && before.contains("new"), "{form}");
    let reply = client.reply(&id);
    assert!(text_of(&reply["result"]).contains("created `b.txt`"), "{reply}");
    assert!(reply.to_string().contains("the user changed the arguments"), "{reply}");
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/b.txt")).unwrap(), "other\n");
    let id = write(&mut client, "a.txt");
    answer(&mut client, &json!({"answer": "allow with other arguments"}));
    answer(&mut client, &json!({"arguments": "b.txt"}));
    let reply = client.reply(&id);
    assert!(text_of(&reply["result"]).contains("gave no JSON object"), "{reply}");
    assert!(!fixture.base.join("ws/a.txt").exists());
}

fn bash(client: &mut Client, command: &str) -> Value {
    client.send_request("tools/call", json!({"name": "Bash", "arguments": {"command": command}}))
}

#[test]
fn a_command_is_tried_and_some_of_its_changes_are_kept() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let id = bash(&mut client, "rm one.txt; echo new > two.txt; echo 3 > three.txt; chmod +x three.txt");
    let question = answer(&mut client, &json!({"answer": "try it, and ask about what it changes"}));
    let offered = question["requestedSchema"]["properties"]["answer"]["enum"].to_string();
    assert!(offered.contains("try it"), "{question}");
    let asked = answer(&mut client, &json!({"answer": "keep some"}));
    let message = asked["message"].as_str().unwrap();
    assert!(message.starts_with("Keep what this would change? Bash: rm one.txt"), "{message}");
    let of = |text: &str| message.find(text).unwrap_or_else(|| panic!("`{text}` in {message}"));
    assert!(of("deleted one.txt") < of("WARNING three.txt: it is executable"), "{message}");
    assert!(of("WARNING") < of("+new"), "{message}");
    let answers = &asked["requestedSchema"]["properties"]["answer"]["enum"];
    assert_eq!(*answers, json!(["keep all", "keep some", "keep nothing"]));
    let second = answer(&mut client, &json!({"numbers": "2"}));
    let list = second["message"].as_str().unwrap();
    assert!(list.contains("1 deleted one.txt\n2 changed two.txt\n3 created three.txt"), "{list}");
    let reply = client.reply(&id);
    assert!(reply.to_string().contains("only some of what the command changed was kept"), "{reply}");
    let ws = fixture.base.join("ws");
    assert!(ws.join("one.txt").exists() && !ws.join("three.txt").exists());
    assert_eq!(std::fs::read_to_string(ws.join("two.txt")).unwrap(), "new\n");
}

#[test]
fn a_trial_of_which_nothing_is_kept_says_what_it_would_have_changed() {
    let fixture = two_files();
    fixture.settings("[sandbox]\neffects = \"ask\"\n");
    let mut client = asking(&fixture);
    let id = bash(&mut client, "rm one.txt");
    answer(&mut client, &json!({"answer": "keep nothing"}));
    answer(&mut client, &json!({"feedback": "leave it"}));
    let reply = client.reply(&id);
    let text = reply.to_string();
    assert!(text.contains("leave it") && text.contains("deleted one.txt"), "{reply}");
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(reply["result"]["_meta"]["haft/structured"]["trial"]["kept"], "none", "{reply}");
    assert!(fixture.base.join("ws/one.txt").exists());
}

#[test]
fn a_session_grant_is_not_asked_again() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let id = write(&mut client, "a.txt");
    answer(&mut client, &json!({"answer": "allow for this session"}));
    client.reply(&id);
    let id = write(&mut client, "a.txt");
    let reply = client.next();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&id, &json!(false)), "{reply}");
    // The grant does not hold for another session.
    std::fs::remove_file(fixture.base.join("ws/a.txt")).unwrap();
    let mut other = asking(&fixture);
    write(&mut other, "a.txt");
    assert_eq!(other.next()["method"], "elicitation/create");
}

#[test]
fn only_an_explicit_yes_approves() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let answers = [
        json!({"result": {"action": "decline"}}),
        json!({"result": {"action": "cancel"}}),
        json!({"result": {"action": "accept"}}),
        json!({"result": {"action": "accept", "content": {"answer": "yes"}}}),
        json!({"result": {"action": "accept", "content": {"answer": true}}}),
        json!({"result": {}}),
        json!({"error": {"code": -32603, "message": "no"}}),
    ];
    for answer in answers {
        let id = write(&mut client, "a.txt");
        let asked = client.next();
        let mut message = json!({"jsonrpc": "2.0", "id": asked["id"]});
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        client.send(&message);
        assert_eq!(client.reply(&id)["result"]["isError"], true, "{answer}");
        assert!(!fixture.base.join("ws/a.txt").exists(), "{answer}");
    }
}

#[test]
fn the_first_line_of_a_question_says_what_would_happen() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let bash = |client: &mut Client, command: &str| {
        let arguments = json!({"command": command, "description": "Runs it", "timeout": 9000});
        client.send_request("tools/call", json!({"name": "Bash", "arguments": arguments}))
    };
    let id = bash(&mut client, "python3 app.py --fast");
    let question = answer(&mut client, &json!({"answer": "no"}));
    let message = question["message"].as_str().unwrap();
    assert!(message.starts_with("Bash: python3 app.py --fast\n"), "{message}");
    assert!(message.contains("\ntimeout: 9000") && !message.contains('{'), "{message}");
    // One field with a default, so that a client can send the form as it is.
    let fields = question["requestedSchema"]["properties"].as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["answer"]);
    assert_eq!(fields["answer"]["default"], "allow once");
    answer(&mut client, &json!({}));
    assert!(text_of(&client.reply(&id)["result"]).contains("the user denied `Bash`"));
    bash(&mut client, "touch a\ntouch b");
    let question = client.next()["params"].clone();
    let message = question["message"].as_str().unwrap();
    assert!(message.starts_with("Bash: touch a (and 1 more line)\ntouch a\ntouch b\n"), "{message}");
}

#[test]
fn every_rule_of_a_session_grant_is_named() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let arguments = json!({"command": "mkdir a && cargo build"});
    client.send_request("tools/call", json!({"name": "Bash", "arguments": arguments}));
    let question = client.next()["params"].clone();
    let message = question["message"].as_str().unwrap();
    let (_, granted) = message.split_once("\"allow for this session\" means: ").unwrap();
    assert!(granted.contains("mkdir") && granted.contains("cargo build"), "{message}");
}

#[test]
fn declined_and_dismissed_questions_are_told_apart_with_advice() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    for (action, said) in [("decline", "was declined"), ("cancel", "was dismissed")] {
        let id = write(&mut client, "a.txt");
        let asked = client.next();
        let result = json!({"action": action});
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
        let denied = client.reply(&id);
        let text = text_of(&denied["result"]);
        assert!(text.contains(said) && text.contains("haft rules allow 'Write(./a.txt)'"), "{text}");
    }
}

#[test]
fn a_rule_from_another_shell_holds_in_a_running_session() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let arguments = json!({"file_path": "a.txt", "content": "new\n"});
    let denied = client.call("Write", arguments.clone());
    assert!(text_of(&denied).contains("haft rules allow 'Write(./a.txt)'"), "{denied}");
    assert_eq!(fixture.run(&["rules", "allow", "Write(./a.txt)"]).code, 0);
    let allowed = client.call("Write", arguments.clone());
    assert_eq!(allowed["isError"], false, "{allowed}");
    assert_eq!(fixture.run(&["rules", "remove", "Write(./a.txt)"]).code, 0);
    assert_eq!(fixture.run(&["rules", "deny", "Write(./a.txt)"]).code, 0);
    let denied = client.call("Write", arguments);
    assert!(text_of(&denied).contains("denied by the rule"), "{denied}");
}

#[test]
fn trust_from_another_shell_holds_in_a_running_session() {
    let fixture = two_files();
    let settings = fixture.base.join("ws/.haft");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), "permissions.allow = ['Write(./a.txt)']\n").unwrap();
    let mut client = Client::ready(&fixture, &[]);
    let arguments = json!({"file_path": "a.txt", "content": "new\n"});
    assert_eq!(client.call("Write", arguments.clone())["isError"], true);
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    assert_eq!(client.call("Write", arguments.clone())["isError"], false);
    // Settings that cannot be read deny, and say so: what they forbid is unknown.
    std::fs::write(settings.join("config.toml"), "permissions.deny = [").unwrap();
    let denied = client.call("Write", arguments);
    assert!(
        text_of(&denied).contains("cannot be read") && text_of(&denied).contains("config.toml"),
        "{denied}"
    );
}

#[test]
fn a_question_is_withdrawn_with_its_call() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let id = write(&mut client, "a.txt");
    let asked = client.next();
    client.notify("notifications/cancelled", json!({"requestId": id}));
    let withdrawn = client.next();
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert!(!fixture.base.join("ws/a.txt").exists());
}

#[test]
fn a_client_that_cannot_ask_is_told_how_to_allow() {
    let fixture = two_files();
    let mut client = Client::ready(&fixture, &[]);
    let denied = client.call("Write", json!({"file_path": "a.txt", "content": "new\n"}));
    assert_eq!(denied["isError"], true);
    assert!(text_of(&denied).contains("--mode accept-edits"), "{denied}");
}

#[test]
fn a_question_of_a_tool_is_answered_in_the_clients_form() {
    let fixture = two_files();
    let mut client = asking(&fixture);
    let option = |label: &str| json!({"label": label, "description": "why"});
    let options = [option("chrono"), option("jiff")];
    let question = |text: &str| json!({"question": text, "header": "Library", "options": options});
    let questions = json!({"questions": [question("Which one?"), question("And which besides?")]});
    let call = json!({"name": "AskUserQuestion", "arguments": questions});
    let id = client.send_request("tools/call", call.clone());
    let asked = answer(&mut client, &json!({"answer_1": "jiff", "other_2": "none at all"}));
    let fields = &asked["requestedSchema"]["properties"];
    assert_eq!(fields["answer_1"]["description"], "Which one?");
    assert_eq!(fields["answer_2"]["enum"][0], "chrono");
    assert_eq!(fields["answer_2"]["enumNames"][0], "chrono: why");
    let reply = client.reply(&id);
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    let told = text_of(&reply["result"]);
    assert!(told.contains("\"Which one?\": jiff") && told.contains("none at all"), "{told}");
    let id = client.send_request("tools/call", call);
    let asked = client.next();
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let reply = client.reply(&id);
    assert!(text_of(&reply["result"]).contains("does not want to answer"), "{reply}");
}

#[test]
fn a_form_has_only_what_the_negotiated_version_has() {
    let fixture = two_files();
    let option = |label: &str| json!({"label": label, "description": "why"});
    let question = json!({
        "question": "Which ones?", "header": "Libraries", "multiSelect": true,
        "options": [option("chrono"), option("jiff"), option("time")],
    });
    let call = json!({"name": "AskUserQuestion", "arguments": {"questions": [question]}});
    for (version, chosen) in [
        ("2025-06-18", json!({"answer_1_1": true, "answer_1_2": false, "answer_1_3": true})),
        ("2025-11-25", json!({"answer_1": ["chrono", "time"]})),
    ] {
        let mut client = Client::start(&fixture, &[]);
        let about = json!({
            "protocolVersion": version, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        assert_eq!(client.request("initialize", about)["protocolVersion"], version);
        client.notify("notifications/initialized", json!({}));
        let id = client.send_request("tools/call", call.clone());
        let asked = answer(&mut client, &chosen);
        assert_eq!(asked.get("mode").is_some(), version == "2025-11-25", "{asked}");
        let form = asked["requestedSchema"].clone();
        let has_arrays = form.to_string().contains("array") || form.to_string().contains("anyOf");
        assert_eq!(has_arrays, version == "2025-11-25", "{form}");
        let reply = client.reply(&id);
        assert!(text_of(&reply["result"]).contains("\"Which ones?\": chrono, time"), "{reply}");
    }
}
