//! Cancelled calls, turns and sessions: what ends, what is still answered, and what is set free.

use std::sync::Arc;

use haft_core::events::EventKind;
use haft_core::{Call, Context, Mode, function};
use serde_json::{Value, json};

use crate::common::*;
use crate::turns::*;

#[tokio::test]
async fn a_call_that_is_cancelled_says_what_it_had_printed() {
    let endless = function("endless", "Prints and waits", async |_input: Value, cx: Context| {
        cx.output("half of it\n");
        std::future::pending::<&str>().await
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(endless.read_only()));
    let mut printed = rig.engine.activity().subscribe_to(&[EventKind::Output]);
    let mut turn = rig.session.turn();
    let call = turn.submit(Call::new("1", "endless", json!({})));
    within(printed.next()).await.unwrap();
    call.cancel();
    let replies = within(turn.finish()).await;
    assert_eq!(kind(&replies[0]), "cancelled");
    assert_says(&replies[0], &["the call was cancelled", "half of it"]);
}

#[tokio::test]
async fn cancelling_one_call_leaves_its_siblings_alone() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    let first = turn.submit(writes("1", "a"));
    turn.submit(writes("2", "a"));
    let third = turn.submit(writes("3", "a"));
    assert_eq!(&**first.id(), "1");
    gates.started("1").await;
    // One that waits, then the one it waits for.
    third.cancel();
    first.cancel();
    gates.started("2").await;
    gates.open("2");
    let replies = within(turn.finish()).await;
    assert_eq!((kind(&replies[0]), kind(&replies[2])), ("cancelled", "cancelled"));
    assert_says(&replies[0], &["the call was cancelled"]);
    assert_eq!(replies[1].full_text(), "done 2");
    assert_eq!(logged(&rig.session), ["start 1", "start 2", "end 2"]);
    assert_each_ended_once(&drain(&mut events));
}

#[tokio::test]
async fn a_cancelled_call_waits_for_what_belongs_to_its_change() {
    let (begun, finish) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (tell, wait) = (begun.clone(), finish.clone());
    let changing = function("changing", "Has made a change", move |_: Any, cx: Context| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            cx.uncancelled(async {
                tell.notify_one();
                wait.notified().await;
            })
            .await;
            "changed"
        }
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(changing).mode(Mode::Bypass));
    let mut turn = rig.session.turn();
    let call = turn.submit(Call::new("1", "changing", json!({})));
    within(begun.notified()).await;
    call.cancel();
    finish.notify_one();
    assert_eq!(within(turn.finish()).await[0].full_text(), "changed");
}

#[tokio::test]
async fn a_cancelled_call_replies_what_its_work_has_so_far() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = begun.clone();
    let working = function("working", "Stops when it is cancelled", move |_: Any, cx: Context| {
        let tell = tell.clone();
        async move {
            let work = async {
                tell.notify_one();
                cx.cancelled().await;
                tokio::task::yield_now().await;
                "half of it"
            };
            cx.cooperative(work).await
        }
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(working).mode(Mode::Bypass));
    let mut turn = rig.session.turn();
    let call = turn.submit(Call::new("1", "working", json!({})));
    within(begun.notified()).await;
    call.cancel();
    assert_eq!(within(turn.finish()).await[0].full_text(), "half of it");
}

#[tokio::test]
async fn work_that_does_not_stop_by_itself_is_abandoned() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = begun.clone();
    let stubborn = function("stubborn", "Goes on when it is cancelled", move |_: Any, cx: Context| {
        let tell = tell.clone();
        async move {
            tell.notify_one();
            cx.cooperative(std::future::pending::<&str>()).await
        }
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(stubborn).mode(Mode::Bypass));
    let mut turn = rig.session.turn();
    let call = turn.submit(Call::new("1", "stubborn", json!({})));
    within(begun.notified()).await;
    call.cancel();
    assert_eq!(kind(&within(turn.finish()).await[0]), "cancelled");
}

#[tokio::test]
async fn a_single_call_keeps_its_position_and_can_be_cancelled() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let (first, work) = rig.session.start_call(writes("1", "a"));
    // It comes first although its future was not polled yet.
    let (_, later) = rig.session.start_call(writes("2", "a"));
    let later = tokio::spawn(later);
    let work = tokio::spawn(work);
    gates.started("1").await;
    first.cancel();
    gates.open("2");
    assert_eq!(kind(&within(work).await.unwrap()), "cancelled");
    assert_eq!(within(later).await.unwrap().full_text(), "done 2");
    assert_eq!(logged(&rig.session), ["start 1", "start 2", "end 2"]);
}

#[tokio::test]
async fn cancelling_the_turn_or_the_session_ends_every_call() {
    for whole_session in [false, true] {
        let gates = Gates::default();
        let rig = rig(&gates);
        let mut events = rig.engine.activity().subscribe();
        let mut turn = rig.session.turn();
        for id in ["1", "2", "3"] {
            turn.submit(writes(id, "a"));
        }
        gates.started("1").await;
        if whole_session {
            rig.session.cancel()
        } else {
            turn.cancel()
        }
        turn.submit(writes("4", "b"));
        for reply in within(turn.finish()).await {
            assert_eq!(kind(&reply), "cancelled");
        }
        // The claims are free again; a session that is over stays over.
        gates.open("5");
        let later = within(rig.session.call(writes("5", "a"))).await;
        assert_eq!(later.is_error, whole_session, "{}", later.full_text());
        assert_each_ended_once(&drain(&mut events));
    }
}

#[tokio::test]
async fn dropping_a_turn_or_a_call_cancels_and_frees_what_it_claimed() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    turn.submit(writes("2", "a"));
    gates.started("1").await;
    drop(turn);
    let mut call = Box::pin(rig.session.call(writes("3", "a")));
    tokio::select! {
        biased;
        reply = &mut call => panic!("{}", reply.full_text()),
        () = gates.started("3") => {}
    }
    drop(call);
    // Never polled.
    drop(rig.session.call(writes("4", "a")));
    gates.open("5");
    assert_eq!(within(rig.session.call(writes("5", "a"))).await.full_text(), "done 5");
    let events = drain(&mut events);
    assert_each_ended_once(&events);
    assert!(!events.iter().any(|event| &*event.call == "4"));
    let stats = &rig.engine.stats().snapshot()["work"];
    assert_eq!((stats.calls, stats.successes), (4, 1));
}

#[test]
fn calls_end_even_when_the_runtime_does() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut events = rig.engine.activity().subscribe();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut turn = rig.session.turn();
    runtime.block_on(async {
        turn.submit(writes("1", "a"));
        gates.started("1").await;
        turn.submit(writes("2", "a"));
    });
    drop(runtime);
    assert_each_ended_once(&drain(&mut events));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let replies = runtime.block_on(turn.finish());
    assert!(replies.iter().all(|reply| reply.is_error) && replies.len() == 2);
    assert_eq!((&*replies[1].id, &*replies[1].name), ("2", "work"));
    gates.open("3");
    assert_eq!(runtime.block_on(rig.session.call(writes("3", "a"))).full_text(), "done 3");
}
