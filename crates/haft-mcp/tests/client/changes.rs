//! Lists that change while a session runs.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn tools_follow_the_servers_list() {
    let Some(world) = World::fault("plain").await else { return };
    let mut changes = world.session.tools().changes();
    let has = |name: &str| world.session.tools().get(name).is_some();
    assert!(!has("mcp__fault__extra_0"));
    world.text("grow", json!({})).await;
    until("there is a tool more", || has("mcp__fault__extra_0")).await;
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(world.text("extra_0", json!({})).await, "extra");
    world.text("shrink", json!({})).await;
    until("there is a tool less", || !has("mcp__fault__extra_0")).await;
    assert!(changes.has_changed().unwrap());
    assert!(has("mcp__fault__echo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_joins_later_has_the_same_tools() {
    let Some(world) = World::fault("plain").await else { return };
    let later = Engine::default().session(Workspace::open(&world.dir).unwrap()).mode(Mode::Bypass).start();
    world.servers.join(&later);
    let reply = later.call(Call::new("1", "mcp__fault__echo", json!({"text": "there"}))).await;
    assert_eq!(reply.full_text(), "there");
}
