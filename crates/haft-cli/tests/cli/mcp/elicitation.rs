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
    assert!(message.contains("`Write`") && message.contains("+new"), "{message}");
    let offered = &question["requestedSchema"]["properties"]["answer"]["enum"];
    assert_eq!(*offered, json!(["allow once", "allow for this session", "no"]));
    assert_eq!(client.reply(&id)["result"]["isError"], false);
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/a.txt")).unwrap(), "new\n");
    let id = write(&mut client, "b.txt");
    answer(&mut client, &json!({"answer": "no", "feedback": "call it c.txt"}));
    let denied = client.reply(&id);
    assert!(text_of(&denied["result"]).contains("call it c.txt"), "{denied}");
    assert!(!fixture.base.join("ws/b.txt").exists());
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
fn a_form_that_a_client_declines_by_itself_is_answered_with_how_to_allow_the_call() {
    // Clients without a terminal do so: the model is not to believe that the user said no.
    let fixture = two_files();
    let mut client = asking(&fixture);
    for action in ["decline", "cancel"] {
        let id = write(&mut client, "a.txt");
        let asked = client.next();
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}}));
        let denied = client.reply(&id);
        let text = text_of(&denied["result"]);
        assert!(text.contains("the client without asking") && text.contains("--mode accept-edits"), "{text}");
    }
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
    assert_eq!(fields["answer_2"]["oneOf"][0], json!({"const": "chrono", "title": "chrono: why"}));
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
