//! Nothing is left behind: neither the server nor what it has started.

use super::*;

/// How many processes sleep for so long.
fn sleeping(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_the_server_and_what_has_left_it() {
    let Some(world) = World::fault("plain").await else { return };
    let pid = world.text("pid", json!({})).await;
    // A number of seconds that nobody else sleeps for.
    let seconds = format!("90071.{}", std::process::id());
    world.text("child", json!({"seconds": seconds})).await;
    until("the child sleeps", || sleeping(&seconds) == 1).await;
    world.servers.close().await;
    until("the server is gone", || !is_running(&pid)).await;
    until("its child is gone", || sleeping(&seconds) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_want_to_end_has_to() {
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
    let begun = runtime.block_on(async {
        let world = World::fault("stubborn").await?;
        let pid = world.text("pid", json!({})).await;
        Some((world, pid))
    });
    let Some((world, pid)) = begun else { return };
    drop(runtime);
    drop(world);
    let begun = Instant::now();
    while is_running(&pid) {
        assert!(begun.elapsed() < PATIENCE, "{pid} is still running");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_left_behind_ends_when_it_dies() {
    let Some(world) = World::fault("plain").await else { return };
    let seconds = format!("90072.{}", std::process::id());
    world.text("child", json!({"seconds": seconds})).await;
    until("the child sleeps", || sleeping(&seconds) == 1).await;
    world.failure("crash", json!({})).await;
    until("the child is gone", || sleeping(&seconds) == 0).await;
}
