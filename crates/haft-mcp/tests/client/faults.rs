//! Servers that fail, and hostile servers. Neither affects the others.

use haft_core::FaultKind;
use haft_mcp::client::ServerState;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_call_is_reported_with_its_stderr_and_restarted() {
    let Some(world) = World::fault("plain").await else { return };
    let before = world.text("pid", json!({})).await;
    let fault = world.failure("crash", json!({})).await;
    for word in ["`fault`", "code 3", "the disk is on fire", "haft mcp test fault"] {
        assert!(fault.contains(word), "`{word}` is not in: {fault}");
    }
    let after = world.text("pid", json!({})).await;
    assert_ne!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_dying_is_restarted_with_back_off() {
    let Some(world) = World::fault("plain").await else { return };
    world.failure("crash", json!({})).await;
    world.failure("crash", json!({})).await;
    let fault = world.failure("echo", json!({"text": "a"})).await;
    assert!(fault.contains("is started again in") && fault.contains("code 3"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_too_deep_to_be_decoded_disables_only_its_tool() {
    let Some(world) = World::fault("deep").await else { return };
    assert_eq!(world.text("echo", json!({"text": "here"})).await, "here");
    assert!(world.session.tools().get("mcp__fault__bottomless").is_none());
    let status = world.servers.status();
    let problems = &status[0].problems;
    assert!(
        problems[0].contains("`bottomless` is left out") && problems[0].contains("levels deep"),
        "{problems:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_servers_keep_working() {
    let (Some(dies), Some(lives)) = (fault("dies", "plain"), fault("fault", "plain")) else { return };
    let Some(never) = fault("never", "exits") else { return };
    let world = World::with(vec![dies, lives, never], Engine::builder());
    world.servers.start_all().await;
    let crash = world.session.call(Call::new("1", "mcp__dies__crash", json!({}))).await;
    assert!(crash.is_error);
    assert_eq!(world.text("echo", json!({"text": "still here"})).await, "still here");
    let fault = world.session.call(Call::new("1", "mcp__never__anything", json!({}))).await.full_text();
    for word in ["`never`", "code 7", "the port is taken"] {
        assert!(fault.contains(word), "`{word}` is not in: {fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_started_says_why() {
    for (mode, words) in [
        ("exits", &["code 7", "the port is taken"][..]),
        ("garbage", &["no message of the protocol", "garbage garbage"]),
        ("wrong-ids", &["does not speak the protocol"]),
        ("text-ids", &["does not speak the protocol"]),
    ] {
        let Some(server) = fault("fault", mode) else { return };
        let world = World::with(vec![server], Engine::builder());
        let fault = world.servers.start("fault").await.unwrap_err();
        for word in words {
            assert!(fault.message().contains(word), "{mode}: `{word}` is not in: {fault}");
        }
    }
    let missing = Server::new("fault", command("there-is-no-such-program", &[]));
    let world = World::with(vec![missing], Engine::builder());
    let fault = world.servers.start("fault").await.unwrap_err();
    assert!(fault.message().contains("`there-is-no-such-program` cannot be started"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_times_out() {
    for mode in ["silent", "half-line", "unlisted", "slow-start 600"] {
        let Some(mut server) = fault("fault", mode) else { return };
        server.limits.start = Duration::from_millis(700);
        let world = World::with(vec![server], Engine::builder());
        let fault = world.servers.start("fault").await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Timeout, "{mode}: {fault}");
        assert!(fault.message().contains("within 0.7 s"), "{fault}");
        assert!(fault.hint_text().unwrap().contains("startup_seconds"), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_does_not_keep_others_waiting() {
    let (Some(mut slow), Some(quick)) = (fault("slow", "slow-start 600"), fault("fault", "plain")) else {
        return;
    };
    slow.limits.start = Duration::from_secs(600);
    let world = World::with(vec![slow, quick], Engine::builder());
    let servers = world.servers.clone();
    let starting = tokio::spawn(async move { servers.start_all().await });
    until("the quick one is there", || world.session.tools().get("mcp__fault__echo").is_some()).await;
    assert_eq!(world.text("echo", json!({"text": "a"})).await, "a");
    assert!(!starting.is_finished());
    starting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_no_message_is_skipped() {
    let Some(world) = World::fault("plain").await else { return };
    assert_eq!(world.text("noise", json!({})).await, "after the noise");
    assert_eq!(world.text("wrong_id", json!({})).await, "for you");
    assert_eq!(world.text("text_id", json!({})).await, "for you");
    assert_eq!(world.text("flood", json!({"count": 20_000})).await, "flooded");
    assert_eq!(world.text("echo", json!({"text": "a"})).await, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_too_long_fails_its_call() {
    let Some(world) = World::fault("plain").await else { return };
    for end in [false, true] {
        let fault = world.failure("big", json!({"bytes": 17_000_000, "end": end})).await;
        assert!(fault.contains("at most 16777216 are taken"), "{fault}");
        assert!(!fault.contains("says"), "these are haft's words: {fault}");
    }
    assert_eq!(world.text("echo", json!({"text": "a"})).await, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_tools_are_sanitized_or_refused() {
    let Some(world) = World::fault("hostile").await else { return };
    let status = world.servers.status().remove(0);
    assert!(matches!(status.state, ServerState::Up(_)), "{status:?}");
    let names: Vec<&str> = status.tools.iter().map(|(name, _)| name.as_str()).collect();
    for (name, description) in &status.tools {
        assert!(name.len() <= 64, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{name}");
        assert!(description.chars().count() <= 8_000);
        assert!(!description.contains(['\u{202e}', '\u{1b}']), "{description}");
    }
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(names.contains(&"mcp__fault__fine") && names.contains(&"mcp__fault__a_b"));
    for left_out in
        ["`fine` twice", "`deep`", "`list`", "`circle`", "`away`", "`large`", "output of `promises`"]
    {
        assert!(status.problems.iter().any(|problem| problem.contains(left_out)), "{:?}", status.problems);
    }
    let reply = world.call("fine", json!({"anything": {"at": "all"}})).await;
    assert!(reply.full_text().contains("no tool fine"), "{}", reply.full_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_lists_are_cut() {
    let Some(world) = World::fault("paging").await else { return };
    let status = world.servers.status().remove(0);
    assert_eq!(status.tools.len(), 3);
    assert!(status.problems.last().unwrap().contains("was there before"), "{:?}", status.problems);
    let Some(world) = World::fault("many").await else { return };
    let status = world.servers.status().remove(0);
    assert_eq!(status.tools.len(), 500);
    assert!(status.problems[0].contains("more than 500 tools"), "{:?}", status.problems);
}
