//! Questions to a person, asynchronous approval of plans, saved state of tools, and the effects of calls on a session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::events::{EventKind, EventPayload};
use haft_core::limits::ResultStore;
use haft_core::permissions::Rule;
use haft_core::plans::{PlanAnswer, PlanApprover, PlanRequest};
use haft_core::questions::{
    Answer as QuestionAnswer, AnswerOption, QuestionSet, Respondent, Selection, UserQuestion,
};
use haft_core::sessions::{SavedSession, SavedState, SavedStates};
use haft_core::{
    BoxFuture, Claims, Effect, Fault, Function, Mode, Resource, Sensitivity, Session, Store,
    blocking_function, function,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::{Any, Rig, assert_ok, assert_says, drain, echo, kind, within};

/// A respondent that always gives the same answers.
#[derive(Clone, Default)]
struct Says {
    answers: Vec<QuestionAnswer>,
    asked: Arc<Mutex<Vec<QuestionSet>>>,
}

impl Respondent for Says {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<QuestionAnswer>, Fault>> {
        self.asked.lock().unwrap().push(set);
        Box::pin(async { Ok(self.answers.clone()) })
    }
}

/// A respondent that never answers.
struct Silent;

impl Respondent for Silent {
    fn answer(&self, _set: QuestionSet) -> BoxFuture<'_, Result<Vec<QuestionAnswer>, Fault>> {
        Box::pin(std::future::pending())
    }
}

/// A tool that asks one question with two answers.
fn asks(choosing: Selection) -> Function<Any> {
    function("asks", "Asks something", move |_: Any, cx: haft_core::Context| async move {
        let option = |label: &str| AnswerOption { label: label.to_owned(), description: String::new() };
        let question = UserQuestion {
            header: "Which".to_owned(),
            text: "Which one?".to_owned(),
            options: vec![option("this"), option("that")],
            choosing,
        };
        Ok::<_, Fault>(format!("{:?}", cx.ask_user(vec![question]).await?))
    })
    .read_only()
}

async fn asked(answers: Vec<QuestionAnswer>, choosing: Selection) -> haft_core::Reply {
    let says = Says { answers, ..Says::default() };
    let rig = Rig::new(|engine| engine.respondent(says.clone()), |session| session.tool(asks(choosing)));
    let reply = rig.call("asks", json!({})).await;
    let sets = says.asked.lock().unwrap();
    assert_eq!((sets.len(), &*sets[0].call, sets[0].questions[0].options.len()), (1, "call", 2));
    reply
}

#[tokio::test]
async fn a_question_is_answered_by_a_choice_or_in_words() {
    assert_says(&asked(vec![QuestionAnswer::option(1)], Selection::One).await, &["chosen: [1]"]);
    assert_says(&asked(vec![QuestionAnswer::other("neither")], Selection::One).await, &["neither"]);
    let both = QuestionAnswer { chosen: vec![0, 1], other: Some("more".to_owned()) };
    assert_says(&asked(vec![both], Selection::Several).await, &["chosen: [0, 1]", "more"]);
    assert_ok(&asked(vec![QuestionAnswer::default()], Selection::Several).await);
}

#[tokio::test]
async fn an_answer_that_fits_no_question_is_rejected() {
    let two = QuestionAnswer { chosen: vec![0, 1], other: None };
    let twice = QuestionAnswer { chosen: vec![0, 0], other: None };
    for (answers, choosing) in [
        (vec![], Selection::One),
        (vec![QuestionAnswer::option(0), QuestionAnswer::option(1)], Selection::One),
        (vec![QuestionAnswer::option(2)], Selection::One),
        (vec![QuestionAnswer::default()], Selection::One),
        (vec![two], Selection::One),
        (vec![twice], Selection::Several),
    ] {
        let reply = asked(answers, choosing).await;
        assert_says(&reply, &["do not fit", "say in your answer what you have assumed"]);
    }
}

#[tokio::test]
async fn without_a_respondent_the_model_gets_a_hint_to_go_on() {
    let rig = Rig::new(|engine| engine, |session| session.tool(asks(Selection::One)));
    let reply = rig.call("asks", json!({})).await;
    assert_eq!(kind(&reply), "failed");
    assert_says(&reply, &["there is nobody who can be asked", "what you have assumed"]);
}

#[tokio::test]
async fn a_question_times_out() {
    let rig = Rig::new(
        |engine| engine.respondent(Silent).answer_timeout(Duration::from_millis(10)),
        |session| session.tool(asks(Selection::One)),
    );
    let reply = rig.call("asks", json!({})).await;
    assert_says(&reply, &["there was no answer within"]);
}

/// A plan approver, which can answer before it returns the id.
#[derive(Clone, Default)]
struct TestPlanApprover {
    plans: Arc<Mutex<Vec<PlanRequest>>>,
    early: Arc<Mutex<Option<(Session, PlanAnswer)>>>,
    fails: bool,
}

impl PlanApprover for TestPlanApprover {
    fn submit(&self, plan: PlanRequest) -> BoxFuture<'_, Result<String, Fault>> {
        Box::pin(async move {
            if self.fails {
                return Err("the office is closed".into());
            }
            self.plans.lock().unwrap().push(plan);
            if let Some((session, answer)) = self.early.lock().unwrap().take() {
                session.answer_plan("request 1", answer).unwrap();
            }
            Ok(format!("request {}", self.plans.lock().unwrap().len()))
        })
    }
}

/// A tool that submits a plan, which asks for the rule `note(a)`.
fn submits_plan() -> Function<Any> {
    function("hands_in", "Hands in a plan", async |_: Any, cx: haft_core::Context| {
        cx.submit_plan("do it".to_owned(), vec![Rule("note(a)".to_owned())]).await
    })
    .read_only()
}

fn planning(leader: &TestPlanApprover) -> Rig {
    let leader = leader.clone();
    let rig = Rig::new(|engine| engine.plan_approver(leader), |session| session.tool(submits_plan()));
    rig.session.set_mode(Mode::AcceptEdits);
    rig.session.set_mode(Mode::Plan);
    rig
}

#[tokio::test]
async fn a_submitted_plan_changes_nothing_until_it_is_approved() {
    let leader = TestPlanApprover::default();
    let rig = planning(&leader);
    let mut events = rig.engine.activity().subscribe_to(&[EventKind::Finished]);
    let reply = rig.call("hands_in", json!({})).await;
    assert_says(&reply, &["request 1"]);
    assert_eq!(leader.plans.lock().unwrap()[0].plan, "do it");
    assert_eq!((rig.session.mode(), rig.session.grants()), (Mode::Plan, vec![]));
    assert_eq!(rig.session.pending_plan().as_deref(), Some("request 1"));
    assert_says(&rig.note("a.txt", "x").await, &["only plans"]);
    assert_says(&rig.call("hands_in", json!({})).await, &["waits for approval already, as `request 1`"]);

    let unknown = rig.session.answer_plan("request 2", PlanAnswer::Approved).unwrap_err();
    assert!(unknown.message().contains("no plan `request 2` waits"), "{unknown}");
    assert_eq!(rig.session.mode(), Mode::Plan);

    rig.session.answer_plan("request 1", PlanAnswer::Approved).unwrap();
    assert_eq!(rig.session.mode(), Mode::AcceptEdits);
    assert_eq!(rig.session.grants(), [Rule("note(a)".to_owned())]);
    assert_eq!(rig.session.pending_plan(), None);
    assert_ok(&rig.note("a.txt", "x").await);
    let told = drain(&mut events);
    assert!(
        matches!(&told[0].payload, EventPayload::Finished { id, outcome } if id == "request 1" && outcome.contains("approved"))
    );
    assert!(rig.session.answer_plan("request 1", PlanAnswer::Approved).is_err());
}

#[tokio::test]
async fn plan_mode_goes_on_after_a_rejection() {
    let rig = planning(&TestPlanApprover::default());
    rig.call("hands_in", json!({})).await;
    let answer = PlanAnswer::Rejected { feedback: Some("smaller steps".to_owned()) };
    rig.session.answer_plan("request 1", answer).unwrap();
    assert_eq!((rig.session.mode(), rig.session.grants()), (Mode::Plan, vec![]));
    assert_says(&rig.call("hands_in", json!({})).await, &["request 2"]);
}

#[tokio::test]
async fn the_answer_to_a_plan_counts_only_once_it_is_in_the_audit_log() {
    let (leader, kept) = (TestPlanApprover::default(), tempfile::tempdir().unwrap());
    let store = Store::at(kept.path());
    let rig = Rig::new(
        |engine| engine.plan_approver(leader).audit(haft_core::audit::Audit::new(store.clone())),
        |session| session.mode(Mode::Plan).tool(submits_plan()),
    );
    rig.call("hands_in", json!({})).await;
    let file = kept.path().join("audit.jsonl");
    std::fs::create_dir(&file).unwrap();
    let fault = rig.session.answer_plan("request 1", PlanAnswer::Approved).unwrap_err();
    assert!(fault.message().contains("does not count"), "{fault}");
    assert_eq!((rig.session.mode(), rig.session.pending_plan().as_deref()), (Mode::Plan, Some("request 1")));
    std::fs::remove_dir(&file).unwrap();
    rig.session.answer_plan("request 1", PlanAnswer::Approved).unwrap();
    let (lines, chain) = haft_core::audit::Audit::read(&store).unwrap();
    let decided = &lines.last().unwrap().entry;
    assert_eq!(
        (chain, decided.call.as_str(), decided.tool.as_str()),
        (haft_core::audit::Chain::Intact, "request 1", "plan")
    );
    assert_eq!(
        (decided.decision, &decided.input["grants"][0]),
        (haft_core::audit::AuditOutcome::Allowed, &json!("note(a)"))
    );
}

#[tokio::test]
async fn an_answer_may_come_before_the_id_is_known() {
    let leader = TestPlanApprover::default();
    let rig = planning(&leader);
    *leader.early.lock().unwrap() = Some((rig.session.clone(), PlanAnswer::Approved));
    assert_ok(&rig.call("hands_in", json!({})).await);
    assert_eq!((rig.session.mode(), rig.session.pending_plan()), (Mode::AcceptEdits, None));
}

#[tokio::test]
async fn a_plan_that_cannot_be_submitted_is_not_pending() {
    let rig = planning(&TestPlanApprover { fails: true, ..TestPlanApprover::default() });
    assert_says(&rig.call("hands_in", json!({})).await, &["could not be handed in: the office is closed"]);
    assert_says(&rig.call("hands_in", json!({})).await, &["could not be handed in"]);
    assert_eq!((rig.session.mode(), rig.session.pending_plan()), (Mode::Plan, None));
}

#[tokio::test]
async fn leaving_plan_mode_withdraws_a_pending_plan() {
    let rig = planning(&TestPlanApprover::default());
    rig.call("hands_in", json!({})).await;
    rig.session.set_mode(Mode::Default);
    assert!(rig.session.answer_plan("request 1", PlanAnswer::Approved).is_err());
    assert_eq!((rig.session.mode(), rig.session.grants()), (Mode::Default, vec![]));
}

#[tokio::test]
async fn a_session_saved_in_plan_mode_resumes_in_plan_mode() {
    let rig = planning(&TestPlanApprover::default());
    rig.call("hands_in", json!({})).await;
    let saved = serde_json::to_string(&rig.session.save()).unwrap();
    let saved: SavedSession = serde_json::from_str(&saved).unwrap();
    let later = rig.engine.session(rig.session.workspace()).mode(Mode::Default).resume(saved).start();
    assert_eq!((later.mode(), later.pending_plan().as_deref()), (Mode::Plan, Some("request 1")));
    // After plan mode comes the mode of this run, not that of the earlier one.
    later.answer_plan("request 1", PlanAnswer::Approved).unwrap();
    assert_eq!((later.mode(), later.grants()), (Mode::Default, vec![Rule("note(a)".to_owned())]));
    assert_eq!(later.save().planning, None);
}

#[tokio::test]
async fn only_the_plan_file_is_written_without_approval_in_plan_mode() {
    let rig = Rig::new(|engine| engine, |session| session.mode(Mode::Plan));
    let workspace = rig.session.workspace();
    let plan = workspace.resolve(workspace.root(), "plan.md").unwrap().path;
    rig.session.set_plan_file(Some(plan));
    assert_ok(&rig.note("plan.md", "1. think").await);
    assert_eq!(kind(&rig.note("a.txt", "x").await), "denied");
    rig.session.set_mode(Mode::Default);
    assert_eq!(kind(&rig.note("plan.md", "2. act").await), "denied");
    assert_eq!(rig.file("plan.md").as_deref(), Some("1. think"));
}

#[tokio::test]
async fn a_tool_that_only_changes_the_session_may_be_used_while_planning() {
    let count = |in_plan: bool| {
        let claims =
            |_: &Any, _: &haft_core::Context| Ok(Claims::none().write(Resource::State("count".into())));
        let tool = function("count", "Counts", async |_: Any, _| "counted").claims(claims);
        let tool = tool.about(|spec| spec.sensitivity(Sensitivity::Safe));
        if in_plan { tool.about(haft_core::Spec::in_plan) } else { tool }
    };
    for in_plan in [true, false] {
        let rig = Rig::new(|engine| engine, |session| session.tool(count(in_plan)).mode(Mode::Plan));
        assert_eq!(rig.call("count", json!({})).await.is_error, !in_plan);
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Tally(Mutex<u32>);

impl SavedState for Tally {
    const NAME: &'static str = "tally";
}

fn add(session: &Session) -> u32 {
    let tally = session.lasting::<Tally>();
    let mut count = tally.0.lock().unwrap();
    *count += 1;
    *count
}

#[tokio::test]
async fn lasting_values_are_saved_and_unknown_ones_preserved() {
    let rig = Rig::new(|engine| engine, |session| session);
    let saved = r#"{"lasting": {"tally": 4, "of the future": [1]}}"#;
    let session = |saved: &str| {
        let saved = serde_json::from_str(saved).unwrap();
        rig.engine.session(rig.session.workspace()).resume(saved).start()
    };
    let first = session(saved);
    assert_eq!(add(&first), 5);
    let kept = serde_json::to_string(&first.save()).unwrap();
    assert!(kept.contains(r#""lasting":{"of the future":[1],"tally":5}"#), "{kept}");
    assert_eq!(add(&session(&kept)), 6);
    // A value that cannot be deserialized starts from its default.
    assert_eq!(add(&session(r#"{"lasting": {"tally": "many"}}"#)), 1);
    // A value that was only read is not saved.
    let looked = session("{}");
    assert_eq!(*looked.lasting::<Tally>().0.lock().unwrap(), 0);
    assert_eq!(looked.save().lasting, BTreeMap::new());
}

#[tokio::test]
async fn of_two_processes_the_one_that_changed_a_value_wins() {
    let rig = Rig::new(|engine| engine, |session| session);
    let on_disk = BTreeMap::from([("tally".to_owned(), json!(7))]);
    let (idle, busy) = (rig.session.save(), rig.engine.session(rig.session.workspace()).start());
    add(&busy);
    let mut kept = [idle, busy.save()];
    kept.iter_mut().for_each(|kept| kept.merge_lasting(on_disk.clone()));
    assert_eq!(kept.map(|kept| kept.lasting["tally"].clone()), [json!(7), json!(1)]);
}

#[tokio::test]
async fn sessions_can_share_lasting_values() {
    let rig = Rig::new(|engine| engine, |session| session);
    let values = SavedStates::default();
    let session = || rig.engine.session(rig.session.workspace()).lasting(values.clone()).start();
    let (one, other) = (session(), session());
    add(&one);
    assert_eq!(add(&other), 2);
}

/// A tool that reports an effect, and then fails if its input says so.
fn does(name: &str, effect: impl Fn(&haft_core::Context) -> Effect + Send + Sync + 'static) -> Function<Any> {
    blocking_function(
        name.to_owned(),
        "Does something to its session",
        move |input: Any, cx: haft_core::Context| {
            cx.effect(effect(&cx));
            if input.word == "fail" { Err(Fault::failed("it failed")) } else { Ok("done") }
        },
    )
    .read_only()
}

#[tokio::test]
async fn effects_are_applied_if_the_call_succeeds() {
    let below = |cx: &haft_core::Context| cx.workspace().resolve(cx.workspace().root(), "src").unwrap().path;
    let rig = Rig::new(
        |engine| engine,
        |session| {
            session
                .tool(does("grants", |_| Effect::Granted(Rule("a".to_owned()))))
                .tool(does("accepts", |_| Effect::Mode(Mode::AcceptEdits)))
                .tool(does("moves", move |cx| Effect::Cwd(below(cx))))
                .tool(does("queues", |cx| Effect::Queued(cx.call().to_string())))
                .tool(does("focuses", move |cx| Effect::Focus(Some(below(cx)))))
        },
    );
    std::fs::create_dir(rig.dir.path().join("src")).unwrap();
    for word in ["fail", "do"] {
        for tool in ["grants", "accepts", "moves", "queues", "focuses"] {
            assert_eq!(rig.call(tool, json!({"word": word})).await.is_error, word == "fail");
        }
        let done = word == "do";
        assert_eq!(rig.session.grants().len(), usize::from(done));
        assert_eq!(rig.session.mode() == Mode::AcceptEdits, done);
        assert_eq!(rig.session.cwd().as_path().ends_with("src"), done);
        assert_eq!(rig.session.focus().is_some(), done);
        assert_eq!(rig.session.take_queued().len(), usize::from(done));
    }
}

#[tokio::test]
async fn effects_of_one_turn_are_applied_in_call_order() {
    let queues = |name: &'static str| {
        let claims =
            |_: &Any, _: &haft_core::Context| Ok(Claims::none().write(Resource::State("queue".into())));
        function(name, "Queues something", async move |input: Any, cx: haft_core::Context| {
            for _ in 0..input.word.len() {
                tokio::task::yield_now().await;
            }
            cx.effect(Effect::Queued(cx.call().to_string()));
            "queued"
        })
        .claims(claims)
        .about(|spec| spec.sensitivity(Sensitivity::Safe))
    };
    let rig = Rig::new(|engine| engine, |session| session.tool(queues("queues")));
    let mut turn = rig.session.turn();
    for at in 0..20 {
        let word = "x".repeat((20 - at) * 5);
        turn.submit(haft_core::Call::new(format!("{at}"), "queues", json!({"word": word})));
    }
    while within(turn.next()).await.is_some() {}
    let wanted: Vec<String> = (0..20).map(|at| at.to_string()).collect();
    assert_eq!(rig.session.take_queued(), wanted);
}

#[tokio::test]
async fn a_focus_holds_for_calls_that_come_later_and_can_be_changed_and_cleared() {
    let rig = Rig::new(|engine| engine, |session| session.mode(Mode::Bypass));
    for folder in ["src", "docs"] {
        std::fs::create_dir(rig.dir.path().join(folder)).unwrap();
    }
    let before = rig.session.context();
    rig.session.set_focus(Some("src")).unwrap();
    assert!(rig.session.cwd().as_path().ends_with("src"));
    assert!(before.workspace().focus().is_none());
    assert_ok(&rig.note("a.txt", "x").await);
    assert_eq!(rig.file("src/a.txt").as_deref(), Some("x"));
    assert_eq!(kind(&rig.note("../docs/a.txt", "x").await), "outside_focus");
    // Another focus takes the place of the first, and need not lie in it.
    rig.session.set_focus(Some("docs")).unwrap();
    assert_ok(&rig.note("a.txt", "x").await);
    assert_eq!(rig.file("docs/a.txt").as_deref(), Some("x"));
    // An invalid focus changes nothing.
    assert!(rig.session.set_focus(Some("missing")).is_err());
    assert!(rig.session.focus().unwrap().as_path().ends_with("docs"));
    rig.session.set_focus(None).unwrap();
    assert_eq!(rig.session.focus(), None);
    assert_ok(&rig.note("../src/a.txt", "y").await);
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_behind() {
    let store = tempfile::TempDir::new().unwrap();
    let kept = ResultStore::new(Store::at(store.path()), Duration::from_secs(3600), u64::MAX);
    let drops = does("drops", |_| Effect::Forgotten("long".into()));
    let rig = Rig::new(|engine| engine.keep_results(kept), |session| session.tool(echo()).tool(drops));
    let mut events = rig.engine.activity().subscribe_to(&[EventKind::Forgotten]);
    let files = || std::fs::read_dir(store.path()).unwrap().count();
    let long = haft_core::Call::new("long", "echo", json!({"word": "x".repeat(100_000)}));
    within(rig.session.call(long)).await;
    let past = rig.session.past_call("long").unwrap();
    assert_eq!((&*past.tool, past.files.len(), files()), ("echo", 1, 1));
    assert_ok(&rig.call("drops", json!({})).await);
    assert_eq!((rig.session.past_call("long"), files()), (None, 0));
    assert_eq!(rig.session.past_calls(), ["call".into()]);
    let told = drain(&mut events);
    assert!(
        matches!(&told[..], [event] if matches!(&event.payload, EventPayload::Forgotten { call } if &**call == "long"))
    );
}
