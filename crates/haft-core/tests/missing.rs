//! Calls that use a file which an earlier call of the turn is about to create.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haft_core::events::EventKind;
use haft_core::{
    AbsPath, Call, Claims, Context, Fault, FaultKind, Function, Mode, Reply, Resource, function,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::common::*;

#[derive(Deserialize, JsonSchema)]
struct Pair {
    from: String,
    to: String,
}

#[derive(Deserialize, JsonSchema)]
struct One {
    name: String,
}

/// The path of a file that must exist.
fn present(cx: &Context, name: &str) -> Result<AbsPath, Fault> {
    let path = cx.workspace().lexical_path(&cx.cwd(), name);
    match path.as_path().exists() {
        true => Ok(path),
        false => Err(Fault::new(FaultKind::NotFound, "it is not there").at(name)),
    }
}

/// Creates a file once the test releases it.
fn make(go: &Arc<Semaphore>) -> Function<One> {
    let go = go.clone();
    let body = move |one: One, cx: Context| {
        let go = go.clone();
        async move {
            go.acquire().await.unwrap().forget();
            std::fs::write(cx.workspace().root().as_path().join(&one.name), "made").unwrap();
            "done"
        }
    };
    function("make", "Makes a file", body).claims(|one, cx| {
        Ok(Claims::none().write(Resource::Path(cx.workspace().lexical_path(&cx.cwd(), &one.name))))
    })
}

/// Moves a file. Its claims are not known before the file exists.
fn shift() -> Function<Pair> {
    let body = |pair: Pair, cx: Context| async move {
        let root = cx.workspace().root().as_path();
        std::fs::rename(root.join(pair.from), root.join(pair.to)).unwrap();
        "done"
    };
    function("shift", "Moves a file", body).claims(|pair, cx| {
        let to = cx.workspace().lexical_path(&cx.cwd(), &pair.to);
        Ok(Claims::none().write(Resource::Path(present(cx, &pair.from)?)).write(Resource::Path(to)))
    })
}

fn show() -> Function<One> {
    let body = |one: One, cx: Context| async move {
        std::fs::read_to_string(cx.workspace().root().as_path().join(one.name)).unwrap()
    };
    function("show", "Shows a file", body)
        .read_only()
        .claims(|one, cx| Ok(Claims::none().read(Resource::Path(present(cx, &one.name)?))))
}

#[tokio::test]
async fn later_calls_wait_for_a_deferred_call() {
    let go = Arc::new(Semaphore::new(0));
    let tools = |session: haft_core::sessions::SessionBuilder| {
        session.tool(make(&go)).tool(shift()).tool(show()).mode(Mode::Bypass)
    };
    let rig = Rig::new(|engine| engine, tools);
    let mut waiting = rig.engine.activity().subscribe_to(&[EventKind::Waiting]);
    let mut turn = rig.session.turn();
    turn.submit(Call::new("1", "make", json!({"name": "a"})));
    turn.submit(Call::new("2", "shift", json!({"from": "a", "to": "b"})));
    turn.submit(Call::new("3", "shift", json!({"from": "b", "to": "c"})));
    turn.submit(Call::new("4", "show", json!({"name": "c"})));
    turn.submit(Call::new("5", "show", json!({"name": "never"})));
    // All but the first wait, each for one before it.
    let mut waiters = std::collections::BTreeSet::new();
    while waiters.len() < 4 {
        waiters.insert(within(waiting.next()).await.unwrap().call.to_string());
    }
    go.add_permits(1);
    let replies = within(turn.finish()).await;
    replies[..4].iter().for_each(assert_ok);
    assert_eq!(replies[3].full_text(), "made");
    assert_eq!(kind(&replies[4]), "not_found");
}

/// The call that creates the file ends just after the other one has found it missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_created_during_the_lookup_is_found() {
    let go = Arc::new(Semaphore::new(0));
    let maker: Arc<Mutex<Option<JoinHandle<Reply>>>> = Arc::default();
    let slow = {
        let (go, maker, looked) = (go.clone(), maker.clone(), AtomicBool::new(false));
        let body = |_: One, _: Context| async { "found" };
        function("slow", "Looks for a file slowly", body).claims(move |one, cx| {
            let found = present(cx, &one.name);
            if !looked.swap(true, Ordering::Relaxed) {
                go.add_permits(1);
                let maker = maker.lock().unwrap().take().unwrap();
                let made = tokio::task::block_in_place(|| Handle::current().block_on(within(maker)));
                assert_ok(&made.unwrap());
            }
            Ok(Claims::none().read(Resource::Path(found?)))
        })
    };
    let rig = Rig::new(|engine| engine, |session| session.tool(make(&go)).tool(slow).mode(Mode::Bypass));
    let mut started = rig.engine.activity().subscribe_to(&[EventKind::Started]);
    let session = rig.session.clone();
    let making = async move { session.call(Call::new("1", "make", json!({"name": "a"}))).await };
    *maker.lock().unwrap() = Some(tokio::spawn(making));
    within(started.next()).await.unwrap();
    let reply = rig.call("slow", json!({"name": "a"})).await;
    assert_ok(&reply);
    assert_eq!(reply.full_text(), "found");
}
