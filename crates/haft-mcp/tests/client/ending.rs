//! Cleanup: neither the server nor its child processes survive.

use super::*;

/// The number of processes that sleep for this long.
fn sleeping(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_the_server_and_its_detached_children() {
    let Some(world) = World::fault("plain").await else { return };
    let pid = world.text("pid", json!({})).await;
    // A duration that no other process sleeps for.
    let seconds = format!("90071.{}", std::process::id());
    world.text("child", json!({"seconds": seconds})).await;
    until("the child sleeps", || sleeping(&seconds) == 1).await;
    world.servers.close().await;
    until("the server is gone", || !is_running(&pid)).await;
    until("its child is gone", || sleeping(&seconds) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_signals_is_killed() {
    let Some(world) = World::fault("stubborn").await else { return };
    let pid = world.text("pid", json!({})).await;
    world.servers.close().await;
    until("the server is gone", || !is_running(&pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_end_with_the_session() {
    let Some(world) = World::fault("plain").await else { return };
    let pid = world.text("pid", json!({})).await;
    assert!(is_running(&pid));
    drop(world);
    until("the server is gone", || !is_running(&pid)).await;
}

#[test]
fn the_servers_end_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let started = runtime.block_on(async {
        let world = World::fault("stubborn").await?;
        let pid = world.text("pid", json!({})).await;
        Some((world, pid))
    });
    let Some((world, pid)) = started else { return };
    drop(runtime);
    drop(world);
    let started = Instant::now();
    while is_running(&pid) {
        assert!(started.elapsed() < TIMEOUT, "{pid} is still running");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_server_that_died_are_ended() {
    let Some(world) = World::fault("plain").await else { return };
    let seconds = format!("90072.{}", std::process::id());
    world.text("child", json!({"seconds": seconds})).await;
    until("the child sleeps", || sleeping(&seconds) == 1).await;
    world.failure("crash", json!({})).await;
    until("the child is gone", || sleeping(&seconds) == 0).await;
}
