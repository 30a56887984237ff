//! Concurrent calls: order, waiting, failures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::dialect::Failed;
use haft_core::events::{EventPayload, Subscription};
use haft_core::hooks::{HookAnswer, HookEvent};
use haft_core::permissions::{Approval, Decision};
use haft_core::sessions::SavedSession;
use haft_core::{
    Call, Claims, Context, Dialect, DynTool, Effect, Fault, Function, Mode, Operation, Policy, Preview,
    Reply, Resource, Spec, Tool, Typed, blocking_function, function,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::common::*;

/// What a call of `work` reads and writes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Work {
    #[serde(default)]
    reads: Vec<String>,
    #[serde(default)]
    writes: Vec<String>,
}

/// Holds the calls of `work` until the test releases them.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<String, Arc<Gate>>>>);

pub(crate) struct Gate {
    started: Semaphore,
    go: Semaphore,
}

impl Gates {
    pub(crate) fn of(&self, call: &str) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap();
        let gate = || Arc::new(Gate { started: Semaphore::new(0), go: Semaphore::new(0) });
        gates.entry(call.to_owned()).or_insert_with(gate).clone()
    }

    pub(crate) async fn started(&self, call: &str) {
        within(self.of(call).started.acquire()).await.unwrap().forget();
    }

    pub(crate) fn open(&self, call: &str) {
        self.of(call).go.add_permits(1);
    }

    /// A tool whose calls wait until the test releases them.
    pub(crate) fn work(&self) -> Function<Work> {
        let gates = self.clone();
        let body = move |_: Work, cx: Context| {
            let gate = gates.of(cx.call());
            async move {
                log(&cx, format!("start {}", cx.call()));
                gate.started.add_permits(1);
                gate.go.acquire().await.unwrap().forget();
                log(&cx, format!("end {}", cx.call()));
                format!("done {}", cx.call())
            }
        };
        function("work", "Works", body).claims(|work, _| {
            let state = |name: &String| Resource::State(name.clone().into());
            let claims = work.reads.iter().fold(Claims::none(), |claims, name| claims.read(state(name)));
            Ok(work.writes.iter().fold(claims, |claims, name| claims.write(state(name))))
        })
    }
}

pub(crate) fn writes(id: &str, what: &str) -> Call {
    Call::new(id, "work", json!({"writes": [what]}))
}

pub(crate) fn reads(id: &str, what: &str) -> Call {
    Call::new(id, "work", json!({"reads": [what]}))
}

pub(crate) fn rig(gates: &Gates) -> Rig {
    Rig::new(|engine| engine, |session| session.tool(gates.work()).tool(echo()).mode(Mode::Bypass))
}

pub(crate) fn texts(replies: &[Reply]) -> Vec<String> {
    replies.iter().map(Reply::full_text).collect()
}

pub(crate) async fn waiting(events: &mut Subscription, call: &str) -> (String, Resource) {
    loop {
        let event = within(events.next()).await.unwrap();
        if let EventPayload::Waiting { on, resource } = &event.payload
            && &*event.call == call
        {
            return (on.to_string(), resource.clone());
        }
    }
}

#[tokio::test]
async fn replies_come_in_call_order_whatever_ends_first() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut turn = rig.session.turn();
    for id in ["1", "2", "3"] {
        turn.submit(writes(id, id));
        gates.started(id).await;
    }
    let mut events = rig.engine.activity().subscribe_to(&[haft_core::events::EventKind::Ended]);
    for id in ["3", "2", "1"] {
        gates.open(id);
        assert_eq!(&*within(events.next()).await.unwrap().call, id);
    }
    assert_eq!(texts(&within(turn.finish()).await), ["done 1", "done 2", "done 3"]);
}

#[tokio::test]
async fn a_call_runs_while_the_message_still_streams() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    gates.started("1").await;
    turn.submit(writes("2", "b"));
    gates.started("2").await;
    gates.open("1");
    assert_eq!(within(turn.next()).await.unwrap().full_text(), "done 1");
    // Even after the first reply was received.
    turn.submit(writes("3", "c"));
    gates.started("3").await;
    gates.open("3");
    gates.open("2");
    assert_eq!(texts(&within(turn.finish()).await), ["done 2", "done 3"]);
}

#[tokio::test]
async fn only_conflicting_calls_wait_and_report_their_blocker() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    turn.submit(reads("2", "a"));
    turn.submit(writes("3", "b"));
    gates.started("1").await;
    gates.started("3").await;
    assert_eq!(waiting(&mut events, "2").await, ("1".into(), Resource::State("a".into())));
    gates.open("3");
    gates.open("2");
    gates.open("1");
    within(turn.finish()).await;
    let log = logged(&rig.session);
    let at = |what: &str| log.iter().position(|entry| entry == what).unwrap();
    assert!(at("end 1") < at("start 2"), "{log:?}");
    let waits = drain(&mut events)
        .iter()
        .filter(|event| matches!(event.payload, EventPayload::Waiting { .. }))
        .count();
    assert_eq!(waits, 0, "nobody else waits, and nobody is told twice");
}

#[tokio::test]
async fn calls_of_other_turns_wait_as_well() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut events = rig.engine.activity().subscribe();
    let (mut first, mut second) = (rig.session.turn(), rig.session.turn());
    first.submit(writes("1", "a"));
    second.submit(writes("2", "a"));
    assert_eq!(waiting(&mut events, "2").await.0, "1");
    gates.open("2");
    gates.open("1");
    within(first.finish()).await;
    assert_eq!(texts(&within(second.finish()).await), ["done 2"]);
}

/// A tool that panics in the stage that its input names.
struct Crash;
struct CrashOp(String);

fn crash(at: &str, word: &str) {
    assert!(word != at, "crash in {at}");
}

impl Operation for CrashOp {
    type Output = String;
    fn claims(&self) -> Claims {
        crash("claims", &self.0);
        Claims::none().write(Resource::State("crash".into()))
    }
    async fn check(&mut self, _cx: &Context) -> Result<Option<Preview>, Fault> {
        crash("check", &self.0);
        Ok(None)
    }
    async fn run(self, _cx: &Context) -> Result<String, Fault> {
        tokio::task::yield_now().await;
        crash("run", &self.0);
        Ok(self.0)
    }
}

impl Tool for Crash {
    const NAME: &'static str = "crash";
    const DESCRIPTION: &'static str = "Crashes";
    type Input = Any;
    type Op = CrashOp;
    fn lower(input: &Any, _cx: &Context) -> Result<CrashOp, Fault> {
        crash("lower", &input.word);
        Ok(CrashOp(input.word.clone()))
    }
    fn approval(input: &Any, _op: &CrashOp, _cx: &Context) -> Approval {
        crash("approval", &input.word);
        Approval::NotNeeded
    }
    fn render(input: &Any, output: String, _cx: &Context) -> Result<Reply, Fault> {
        crash("render", &input.word);
        Ok(Reply::text(output))
    }
}

#[tokio::test]
async fn a_panic_in_any_stage_fails_only_that_call() {
    let early = |_: Any, _: Context| -> std::future::Ready<&'static str> { panic!("crash in early") };
    let blocking = |_: Any, _: Context| -> &'static str { panic!("crash in blocking") };
    let rig = Rig::new(
        |engine| engine,
        |session| {
            let session = session.tool(Typed::<Crash>::new()).tool(function("early", "Crashes", early));
            session.tool(blocking_function("blocking", "Crashes", blocking)).tool(echo()).mode(Mode::Bypass)
        },
    );
    let mut events = rig.engine.activity().subscribe();
    let stages = ["lower", "claims", "check", "approval", "run", "render"];
    let mut turn = rig.session.turn();
    for stage in stages {
        turn.submit(Call::new(stage, "crash", json!({"word": stage})));
    }
    turn.submit(Call::new("early", "early", json!({})));
    turn.submit(Call::new("blocking", "blocking", json!({})));
    turn.submit(Call::new("sibling", "crash", json!({"word": "fine"})));
    let replies = within(turn.finish()).await;
    for reply in &replies[..8] {
        assert_eq!(kind(reply), "internal", "{}", reply.id);
        assert_says(reply, &[&format!("the tool crashed: crash in {}", reply.id), "hint:"]);
    }
    assert_eq!(replies[8].full_text(), "fine");
    assert_eq!(rig.call("echo", json!({"word": "still here"})).await.full_text(), "still here");
    assert_each_ended_once(&drain(&mut events));
}

#[tokio::test]
async fn a_call_that_fails_touches_no_other() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    gates.started("1").await;
    turn.submit(Call::new("2", "nowhere", json!({})));
    turn.submit(Call::new("3", "work", json!({"writes": {"a": 5}})));
    turn.submit(writes("4", "b"));
    gates.started("4").await;
    gates.open("4");
    gates.open("1");
    let replies = within(turn.finish()).await;
    assert_eq!(replies.iter().map(|reply| reply.is_error).collect::<Vec<_>>(), [false, true, true, false]);
    let ids: Vec<_> = replies.iter().map(|reply| &*reply.id).collect();
    assert_eq!(ids, ["1", "2", "3", "4"]);
}

/// A dialect that panics while it presents a fault must not affect other calls.
#[tokio::test]
async fn a_dialect_that_panics_is_replaced_by_plain_text() {
    struct Fragile;
    impl Dialect for Fragile {
        fn name(&self) -> &'static str {
            "fragile"
        }
        fn summary(&self) -> &'static str {
            "crashes"
        }
        fn tools(&self) -> Vec<Arc<dyn DynTool>> {
            Vec::new()
        }
        fn present(&self, _failed: &Failed<'_>, _fault: &Fault) -> Reply {
            panic!("no words")
        }
        fn note(&self, _reply: &mut Reply, _notes: &[String]) {
            panic!("no notes")
        }
    }
    let gates = Gates::default();
    let rig = Rig::new(
        |engine| engine,
        |session| session.dialect(Arc::new(Fragile)).tool(gates.work()).mode(Mode::Bypass),
    );
    let mut events = rig.engine.activity().subscribe();
    assert_eq!(kind(&rig.call("nowhere", json!({})).await), "unknown_tool");
    let reply = rig.call("note", json!({"path": "a", "text": "x", "times": "1"})).await;
    assert_says(&reply, &["wrote 1 bytes", "`times` came as a string"]);
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    gates.started("1").await;
    drop(turn);
    within(async {
        while logged_ends(&mut events) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn tools_know_the_message_that_they_are_called_by() {
    let which = function("which", "Names the message", async |_input: Value, cx: Context| {
        cx.message().map_or("none", |id| id).to_owned()
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(which.read_only()));
    for (mut turn, wanted) in [(rig.session.turn_of("msg_1"), "msg_1"), (rig.session.turn(), "none")] {
        turn.submit(Call::new("1", "which", json!({})));
        assert_eq!(within(turn.finish()).await[0].full_text(), wanted);
    }
}

#[tokio::test]
async fn what_is_known_of_files_can_be_asked_for_and_forgotten() {
    let change = function("change", "Changes a file", async |_input: Value, cx: Context| {
        let path = cx.cwd().child("a".as_ref());
        cx.effect(Effect::Changed { path, now: haft_core::KnownContent::AsBefore });
        "done"
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(change).mode(Mode::Bypass));
    let path = rig.session.cwd().child("a".as_ref());
    assert_eq!(rig.session.last_written(&path), None);
    let before = std::time::SystemTime::now();
    assert_ok(&rig.call("change", json!({})).await);
    assert!(rig.session.last_written(&path).is_some_and(|at| at >= before));
    rig.session.forget_files();
    assert_eq!((rig.session.last_written(&path), rig.session.modified()), (None, vec![]));
}

#[tokio::test]
async fn safe_calls_go_first_where_that_is_the_policy() {
    let gates = Gates::default();
    let rig = Rig::new(
        |engine| engine,
        |session| session.tool(gates.work()).mode(Mode::Bypass).policy(Policy::SafeFirst),
    );
    let mut turn = rig.session.turn();
    turn.submit(writes("w1", "a"));
    turn.submit(reads("r1", "a"));
    turn.submit(writes("w2", "b"));
    turn.submit(reads("r2", "b"));
    // Both readers run at once although a writer came before them.
    gates.started("r1").await;
    gates.started("r2").await;
    assert_eq!(logged(&rig.session).len(), 2);
    for id in ["w1", "w2", "r1", "r2"] {
        gates.open(id);
    }
    let replies = within(turn.finish()).await;
    assert_eq!(texts(&replies), ["done w1", "done r1", "done w2", "done r2"]);
    let log = logged(&rig.session);
    assert_eq!(log[4..], ["start w1", "end w1", "start w2", "end w2"], "{log:?}");
    // A single call is a whole turn.
    gates.open("w3");
    assert_eq!(within(rig.session.call(writes("w3", "a"))).await.full_text(), "done w3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_in_one_turn() {
    let rig = Rig::new(|engine| engine, |session| session.tool(echo()).mode(Mode::Bypass));
    let mut events = rig
        .engine
        .activity()
        .subscribe_to(&[haft_core::events::EventKind::Started, haft_core::events::EventKind::Ended]);
    let count = Arc::new(Mutex::new((0_u32, 0_u32)));
    let counter = count.clone();
    // Not atomic on purpose: the claims alone keep the calls apart.
    let add = move |_: Any, _: Context| {
        let counter = counter.clone();
        async move {
            let (seen, _) = *counter.lock().unwrap();
            tokio::task::yield_now().await;
            *counter.lock().unwrap() = (seen + 1, 0);
            "added"
        }
    };
    let claims = |_: &Any, _: &Context| Ok(Claims::none().write(Resource::State("count".into())));
    rig.session.add_tool(Arc::new(function("add", "Adds", add).claims(claims))).unwrap();
    let mut turn = rig.session.turn();
    for number in 0..10_000 {
        let tool = if number % 10 == 0 { "add" } else { "echo" };
        turn.submit(Call::new(number.to_string(), tool, json!({"word": number.to_string()})));
    }
    let replies = within(turn.finish()).await;
    assert_eq!(replies.len(), 10_000);
    for (number, reply) in replies.iter().enumerate() {
        assert_eq!(*reply.id, *number.to_string());
        assert!(!reply.is_error);
    }
    assert_eq!(count.lock().unwrap().0, 1000);
    assert_each_ended_once(&drain(&mut events));
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_stopped() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    let stubborn = blocking_function("stubborn", "Blocks", move |_: Any, cx: Context| {
        while !cx.is_cancelled() {
            std::thread::yield_now();
        }
        tell.lock().unwrap().take().unwrap().send(()).unwrap();
        "stopped"
    });
    let forever = function("forever", "Never ends", async |_: Any, _cx: Context| {
        std::future::pending::<()>().await;
        "never"
    });
    let soon = |spec: Spec| spec.timeout(Duration::from_millis(20));
    let rig = Rig::new(
        |engine| engine,
        |session| session.tool(forever.about(soon)).tool(stubborn.about(soon)).mode(Mode::Bypass),
    );
    let reply = rig.call("forever", json!({})).await;
    assert_eq!(kind(&reply), "timeout");
    assert_says(&reply, &["took longer than 0.02 s"]);
    assert_eq!(reply.structured.as_ref().unwrap()["fault"]["details"]["limit_ms"], 20);
    assert_eq!(kind(&rig.call("stubborn", json!({})).await), "timeout");
    // A thread cannot be stopped, but it can see that its call was cancelled.
    within(told).await.unwrap();
    // Calls that waited for the cancelled ones go on.
    assert_ok(&rig.note("a", "x").await);
}

#[tokio::test]
async fn tools_come_and_go_while_calls_run() {
    let gates = Gates::default();
    let rig = rig(&gates);
    let mut turn = rig.session.turn();
    turn.submit(writes("1", "a"));
    gates.started("1").await;
    turn.submit(writes("2", "a"));
    assert!(rig.session.tools().remove("work").is_some());
    turn.submit(writes("3", "b"));
    let other = function("work", "Works otherwise", async |_: Work, _cx| "otherwise").read_only();
    rig.session.add_tool(Arc::new(other)).unwrap();
    turn.submit(writes("4", "c"));
    gates.open("1");
    gates.open("2");
    let replies = within(turn.finish()).await;
    assert_eq!(texts(&replies[..2]), ["done 1", "done 2"]);
    assert_eq!(kind(&replies[2]), "unknown_tool");
    assert_eq!(replies[3].full_text(), "otherwise");
}

#[tokio::test]
async fn an_edited_input_waits_for_what_it_now_touches() {
    let gates = Gates::default();
    let rule = |to: &str| Decision::AllowEdited(json!({"writes": [to]}));
    let approver = Script::say([rule("early"), rule("late")]);
    let rig = Rig::new(
        |engine| {
            engine.approver(approver.clone()).judge(Says(
                |question: &haft_core::permissions::Question<'_>| {
                    let asks = question.cx.call().starts_with('?');
                    Ok(if asks {
                        haft_core::permissions::Verdict::Ask("why?".into())
                    } else {
                        haft_core::permissions::Verdict::Allow { by: "a rule".into(), exactly: true }
                    })
                },
            ))
        },
        |session| session.tool(gates.work()),
    );
    let mut events = rig.engine.activity().subscribe();
    let mut turn = rig.session.turn();
    turn.submit(writes("early", "early"));
    gates.started("early").await;
    // It becomes a call that conflicts with one that came before it …
    turn.submit(writes("?1", "a"));
    assert_eq!(waiting(&mut events, "?1").await, ("early".into(), Resource::State("early".into())));
    gates.open("?1");
    gates.open("early");
    gates.started("?1").await;
    // … or with one that came after it and runs already.
    turn.submit(writes("hold", "b"));
    gates.started("hold").await;
    turn.submit(writes("?2", "b"));
    turn.submit(writes("late", "late"));
    gates.started("late").await;
    gates.open("hold");
    assert_eq!(waiting(&mut events, "?2").await.0, "hold");
    assert_eq!(waiting(&mut events, "?2").await, ("late".into(), Resource::State("late".into())));
    gates.open("?2");
    gates.open("late");
    assert!(within(turn.finish()).await.iter().all(|reply| !reply.is_error));
    let log = logged(&rig.session);
    let at = |what: &str| log.iter().position(|entry| entry == what).unwrap();
    assert!(at("end early") < at("start ?1") && at("end late") < at("start ?2"), "{log:?}");
    assert_eq!(approver.times(), 2);
}

/// Reports that the model has seen a file.
fn see() -> Function<Any> {
    function("see", "Sees", async |input: Any, cx: Context| {
        let place = cx.workspace().resolve(&cx.cwd(), &input.word)?;
        let stamp = cx.workspace().stat(&place.path)?.stamp;
        cx.effect(Effect::Read { path: place.path, seen: haft_core::sessions::Seen::part(stamp) });
        Ok::<_, Fault>("seen")
    })
    .claims(|input, cx| {
        let path = cx.workspace().resolve(&cx.cwd(), &input.word)?.path;
        Ok(Claims::none().read(Resource::Path(path)))
    })
}

/// Answers whether the model has seen a file.
fn seen() -> Function<Any> {
    function("seen", "Says whether a file was seen", async |input: Any, cx: Context| {
        let path = cx.workspace().resolve(&cx.cwd(), &input.word)?.path;
        Ok::<_, Fault>(cx.session().last_seen(&path).is_some().to_string())
    })
    .claims(|input, cx| {
        let path = cx.workspace().resolve(&cx.cwd(), &input.word)?.path;
        Ok(Claims::none().write(Resource::Path(path)))
    })
}

/// Regression: the claims were released before the call's effects were applied.
#[tokio::test]
async fn effects_of_a_call_are_visible_to_the_next() {
    let hook = TestHook::new("slow", HookEvent::PostToolUse, |_, _| Ok(HookAnswer::default()));
    let rig =
        Rig::new(|engine| engine.hook(hook), |session| session.tool(see()).tool(seen()).mode(Mode::Bypass));
    for number in 0..30 {
        let name = format!("file-{number}");
        std::fs::write(rig.dir.path().join(&name), "x").unwrap();
        let mut turn = rig.session.turn();
        turn.submit(Call::new("1", "see", json!({"word": name})));
        turn.submit(Call::new("2", "seen", json!({"word": name})));
        assert_eq!(texts(&within(turn.finish()).await), ["seen", "true"], "{name}");
    }
}

#[tokio::test]
async fn read_effects_of_a_failed_call_are_dropped() {
    let liar = function("liar", "Fails", async |input: Any, cx: Context| {
        let place = cx.workspace().resolve(&cx.cwd(), &input.word)?;
        let stamp = cx.workspace().stat(&place.path)?.stamp;
        cx.effect(Effect::Read { path: place.path, seen: haft_core::sessions::Seen::part(stamp) });
        Err::<String, _>(Fault::failed("after all"))
    });
    let rig = Rig::new(|engine| engine, |session| session.tool(liar).tool(seen()).mode(Mode::Bypass));
    std::fs::write(rig.dir.path().join("a"), "x").unwrap();
    assert_eq!(kind(&rig.call("liar", json!({"word": "a"})).await), "failed");
    assert_eq!(rig.call("seen", json!({"word": "a"})).await.full_text(), "false");
}

#[tokio::test]
async fn calls_are_read_in_every_form_that_apis_send() {
    let rig = Rig::new(|engine| engine, |session| session.tool(echo()));
    let forms: [Value; 7] = [
        json!({"id": "7", "name": "echo", "input": {"word": "x"}}),
        json!({"type": "tool_use", "id": "7", "name": "echo", "input": {"word": "x"}}),
        json!({"type": "function", "id": "7", "function": {"name": "echo", "arguments": "{\"word\":\"x\"}"}}),
        json!({"type": "function_call", "id": "fc", "call_id": "7", "name": "echo", "arguments": "{\"word\":\"x\"}"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "7", "name": "echo", "input": {"word": "x"}}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "7", "type": "function", "function": {"name": "echo", "arguments": "{\"word\":\"x\"}"}}]}),
        json!({"id": "resp", "output": [{"type": "reasoning", "id": "r"}, {"type": "message", "role": "assistant", "content": []}, {"type": "function_call", "call_id": "7", "name": "echo", "arguments": "{\"word\":\"x\"}"}]}),
    ];
    for form in forms {
        let calls = Call::parse(&form.to_string()).unwrap();
        assert_eq!(calls.len(), 1, "{form}");
        let reply = within(rig.session.call(calls[0].clone().unwrap())).await;
        assert_eq!((&*reply.id, reply.full_text().as_str()), ("7", "x"), "{form}");
    }
    let unnamed =
        Call::parse(r#"[{"name":"echo"},{"name":"echo","id":null},{"name":"echo","id":3}]"#).unwrap();
    let ids: Vec<_> = unnamed.iter().map(|call| &*call.as_ref().unwrap().id).collect();
    assert_eq!(ids, ["call_1", "call_2", "3"]);
    for wrong in ["[", r#"{"name":"a","name":"b"}"#] {
        assert!(Call::parse(wrong).is_err(), "{wrong}");
    }
    for wrong in ["5", "[5]", "{}", r#"{"name":5}"#, r#"{"name":"a","id":{}}"#] {
        assert!(Call::parse(wrong).unwrap()[0].is_err(), "{wrong}");
    }
}

#[test]
fn a_malformed_call_does_not_affect_its_siblings() {
    let turn = json!([
        {"name": "a"},
        {"id": "x", "inptu": {}, "name": "b"},
        {"type": "thinking", "thinking": "hm"},
        {"id": "call_1", "name": "c"},
        {"id": "call_1", "name": "d"},
        7,
    ]);
    let read: Vec<String> = Call::from_json(turn)
        .into_iter()
        .map(|call| match call {
            Ok(call) => format!("{} {}", call.id, call.name),
            Err(wrong) => format!("{:?} {:?}: {}", wrong.id, wrong.name, wrong.fault.message()),
        })
        .collect();
    assert_eq!(
        read,
        [
            "call_2 a",
            "Some(\"x\") Some(\"b\"): not a tool call: unknown key `inptu`; did you mean `input`?",
            "call_1 c",
            "Some(\"call_1\") Some(\"d\"): an earlier call of this turn has the id `call_1` already",
            "None None: not a tool call: an integer instead of an object",
        ]
    );
}

#[test]
fn saved_sessions_over_the_same_files_merge() {
    let seen = |path: &str, changed: u64| haft_core::sessions::SavedSeen {
        path: path.to_owned(),
        stamp: [0, 0, 0, 0, changed],
        hash: None,
        lines: haft_core::sessions::ShownLines::all(),
    };
    let of = |seen, modified: &[&str]| SavedSession {
        seen,
        modified: modified.iter().map(|path| (*path).to_owned()).collect(),
        ..SavedSession::default()
    };
    let mut one = of(vec![seen("a", 1), seen("b", 5)], &["b", "a"]);
    one.merge(of(vec![seen("a", 2), seen("b", 4), seen("c", 3)], &["c", "a"]));
    assert_eq!(one, of(vec![seen("a", 2), seen("b", 5), seen("c", 3)], &["b", "a", "c"]));
}

#[test]
fn a_saved_session_may_have_unknown_or_missing_fields() {
    let saved: SavedSession = serde_json::from_str(r#"{"cwd":"/a","of the future":[1]}"#).unwrap();
    assert_eq!((saved.version, saved.cwd.as_deref()), (SavedSession::VERSION, Some("/a")));
}
