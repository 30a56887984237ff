//! The stream of events: it never blocks a call, and no subscriber misses the end of one.

use haft_core::events::{Event, EventKind, EventPayload, Progress};
use haft_core::{Context, Mode, function};
use serde_json::json;

use crate::common::*;

/// A tool that prints its word the given number of times, with progress reports in between.
fn print() -> haft_core::Function<Printing> {
    function("print", "Prints", async |input: Printing, cx: Context| {
        for number in 0..input.times {
            cx.output(&input.word);
            if input.yields {
                tokio::task::yield_now().await;
            }
            if input.progress {
                cx.progress(Progress { done: number, total: Some(input.times), message: "printing".into() });
            }
        }
        input.word
    })
    .read_only()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Printing {
    word: String,
    times: u64,
    #[serde(default)]
    progress: bool,
    #[serde(default)]
    yields: bool,
}

fn rig() -> Rig {
    Rig::new(|engine| engine, |session| session.tool(print()).mode(Mode::Bypass))
}

fn kinds(events: &[std::sync::Arc<Event>]) -> Vec<EventKind> {
    events.iter().map(|event| event.payload.kind()).collect()
}

#[tokio::test]
async fn events_arrive_in_order() {
    let rig = rig();
    let mut all = rig.engine.activity().subscribe();
    let mut output = rig.engine.activity().subscribe_to(&[EventKind::Output]);
    let mut ends = rig.engine.activity().subscribe_to(&[EventKind::Ended, EventKind::Fault]);
    rig.call("print", json!({"word": "x", "times": 1, "progress": true})).await;
    rig.call("print", json!({})).await;
    let events = drain(&mut all);
    use EventKind::{Ended, Fault, Output, Progress, Started};
    assert_eq!(kinds(&events), [Started, Output, Progress, Ended, Started, Fault, Ended]);
    assert_eq!(kinds(&drain(&mut output)), [Output]);
    assert_eq!(kinds(&drain(&mut ends)), [Ended, Fault, Ended]);
    let first = &events[0];
    assert_eq!((&*first.call, &*first.tool, &first.session), ("call", "print", rig.session.id()));
    assert!(matches!(&first.payload, EventPayload::Started { input } if input["word"] == "x"));
    assert!(matches!(&events[1].payload, EventPayload::Output { chunk } if chunk == "x"));
    assert!(matches!(&events[3].payload, EventPayload::Ended { reply, .. } if reply.full_text() == "x"));
    assert_ne!(events[0].turn, events[4].turn);
}

#[tokio::test]
async fn requests_and_answers_are_events() {
    let approver = Script::say([haft_core::permissions::Decision::AllowOnce]);
    let rig = Rig::new(|engine| engine.approver(approver), |session| session);
    let mut events = rig.engine.activity().subscribe_to(&[EventKind::Asked, EventKind::Answered]);
    rig.note("a", "x").await;
    let events = drain(&mut events);
    assert!(matches!(&events[0].payload, EventPayload::Asked { reason } if reason == "it changes `a`"));
    assert!(matches!(&events[1].payload, EventPayload::Answered { answer } if answer == "allowed once"));
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn no_events_before_subscribing_nor_after_unsubscribing() {
    let rig = rig();
    rig.call("print", json!({"word": "x", "times": 1})).await;
    let mut events = rig.engine.activity().subscribe();
    assert!(events.try_next().is_none());
    drop(events);
    let mut ends = rig.engine.activity().subscribe_to(&[EventKind::Ended]);
    rig.call("print", json!({"word": "x", "times": 1})).await;
    assert_eq!(kinds(&drain(&mut ends)), [EventKind::Ended]);
}

#[tokio::test]
async fn a_subscription_to_one_call_gets_no_other_events() {
    let rig = rig();
    let mut own = rig.engine.activity().subscribe_to_call("call".into(), &[EventKind::Output]);
    let mut other = rig.engine.activity().subscribe_to_call("another".into(), &[EventKind::Output]);
    rig.call("print", json!({"word": "x", "times": 2})).await;
    assert_eq!(kinds(&drain(&mut own)), [EventKind::Output, EventKind::Output]);
    assert!(drain(&mut other).is_empty());
}

/// A subscriber that reads nothing until the end blocks no call, loses output, and learns how much.
#[tokio::test]
async fn a_slow_subscriber_gets_every_end_and_a_gap() {
    let rig = rig();
    let mut slow = rig.engine.activity().subscribe();
    let mut only_output = rig.engine.activity().subscribe_to(&[EventKind::Output]);
    rig.call("print", json!({"word": "x", "times": 5000})).await;
    let events = drain(&mut slow);
    assert_each_ended_once(&events);
    let output = kinds(&events).iter().filter(|kind| **kind == EventKind::Output).count();
    let gaps: Vec<u64> = gaps(&events);
    assert_eq!((gaps.len(), output as u64 + gaps[0]), (1, 5000));
    assert_eq!(events.last().unwrap().payload.kind(), EventKind::Ended);
    // Gaps reach even a subscriber that did not subscribe to them.
    assert_eq!(self::gaps(&drain(&mut only_output)), gaps);
    // Once the subscriber has caught up, it gets everything again.
    rig.call("print", json!({"word": "x", "times": 3})).await;
    assert_eq!(kinds(&drain(&mut slow)).len(), 5);
}

fn gaps(events: &[std::sync::Arc<Event>]) -> Vec<u64> {
    let lost = events.iter().filter_map(|event| match event.payload {
        EventPayload::Gap { lost } => Some(lost),
        _ => None,
    });
    lost.collect()
}

#[tokio::test]
async fn two_calls_that_flood_in_turns_leave_one_gap() {
    let rig = rig();
    let mut slow = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    for id in ["1", "2"] {
        let input = json!({"word": id, "times": 5000, "yields": true, "progress": true});
        turn.submit(haft_core::Call::new(id, "print", input));
    }
    within(turn.finish()).await;
    let events = drain(&mut slow);
    assert_each_ended_once(&events);
    // One while both run, and one more for what the second prints after the first has ended.
    let gaps = gaps(&events);
    assert!((1..=2).contains(&gaps.len()), "{gaps:?}");
    assert!(events.len() < 1100, "{} events are held", events.len());
    let told = kinds(&events);
    let told = told.iter().filter(|kind| matches!(kind, EventKind::Output | EventKind::Progress)).count();
    assert_eq!(told as u64 + gaps.iter().sum::<u64>(), 20_000);
}

/// The gap is at the position of the first lost event, and names its call.
#[tokio::test]
async fn a_gap_begins_with_the_call_that_lost_first() {
    let rig = rig();
    let mut slow = rig.engine.activity().subscribe_to(&[EventKind::Output]);
    for (id, times) in [("1", 1025), ("2", 10)] {
        let input = json!({"word": "x", "times": times});
        within(rig.session.call(haft_core::Call::new(id, "print", input))).await;
    }
    let events = drain(&mut slow);
    let gap = events.last().unwrap();
    assert!(matches!(gap.payload, EventPayload::Gap { lost: 11 }));
    assert_eq!(&*gap.call, "1");
}

#[tokio::test]
async fn large_chunks_are_bounded_by_their_size() {
    let rig = rig();
    let mut slow = rig.engine.activity().subscribe_to(&[EventKind::Output]);
    rig.call("print", json!({"word": "x".repeat(1024 * 1024), "times": 100})).await;
    let events = drain(&mut slow);
    assert!(events.len() < 20, "{} chunks are held", events.len());
    assert_eq!(events.len() as u64 - 1 + gaps(&events)[0], 100);
    // One chunk that is larger than the bound by itself still arrives.
    rig.call("print", json!({"word": "x".repeat(20 * 1024 * 1024), "times": 1})).await;
    assert_eq!(kinds(&drain(&mut slow)), [EventKind::Output]);
}

#[tokio::test]
async fn a_subscription_ends_with_the_engine() {
    let rig = rig();
    let mut events = rig.engine.activity().subscribe_to(&[EventKind::Ended]);
    rig.call("print", json!({"word": "x", "times": 1})).await;
    drop(rig);
    assert_eq!(within(events.next()).await.unwrap().payload.kind(), EventKind::Ended);
    assert!(within(events.next()).await.is_none());
    assert!(within(events.next()).await.is_none());
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_when_the_engine_is_dropped() {
    let rig = rig();
    let mut events = rig.engine.activity().subscribe();
    let waiting = tokio::spawn(async move { events.next().await.is_none() });
    tokio::task::yield_now().await;
    drop(rig);
    assert!(within(waiting).await.unwrap());
}
