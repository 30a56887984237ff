//! The pipeline, stage by stage, with one call at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_core::hooks::HookAnswer;
use haft_core::permissions::{
    Approval, ApprovalRequest, Choice, Decision, NoApprover, Question, Rule, Scope, Verdict,
};
use haft_core::{
    Call, Claims, Context, DynTool, Fault, FaultKind, Input, Mode, Reply, Resource, Sensitivity, Spec, Tool,
    Typed, function,
};
use serde_json::{Value, json};

use crate::common::*;

fn denied(feedback: &str) -> Decision {
    Decision::Deny { feedback: Some(feedback.to_owned()) }
}

fn always(rule: Rule) -> Decision {
    Decision::AllowAlways { rules: vec![rule], scope: Scope::Session }
}

fn edited(path: &str, text: &str) -> Decision {
    Decision::AllowEdited(json!({"path": path, "text": text}))
}

fn rig(approver: &Script) -> Rig {
    Rig::new(|engine| engine.approver(approver.clone()), |session| session.tool(echo()))
}

// 1 find

#[tokio::test]
async fn an_unknown_tool_is_a_fault_that_names_the_nearest() {
    let rig = rig(&Script::default());
    let reply = rig.call("nite", json!({})).await;
    assert_eq!(kind(&reply), "unknown_tool");
    assert_says(&reply, &["there is no tool `nite`", "did you mean `note`?"]);
    let reply = rig.call("zzzzzz", json!({})).await;
    assert_says(&reply, &["the tools are `note`, `echo`"]);
    assert_eq!(&*reply.name, "zzzzzz");
}

#[tokio::test]
async fn a_tool_that_is_switched_off_here_is_a_fault() {
    struct Off;
    impl Tool for Off {
        const NAME: &'static str = "off";
        const DESCRIPTION: &'static str = "Is off";
        type Input = NoteInput;
        type Op = WriteNote;
        fn unavailable(_cx: &Context) -> Option<Fault> {
            Some(Fault::new(FaultKind::Disabled, "it is switched off"))
        }
        fn lower(input: &NoteInput, cx: &Context) -> Result<WriteNote, Fault> {
            Note::lower(input, cx)
        }
        fn render(input: &NoteInput, output: usize, cx: &Context) -> Result<Reply, Fault> {
            Note::render(input, output, cx)
        }
    }
    let rig = Rig::new(|engine| engine, |session| session.tool(Typed::<Off>::new()));
    let reply = rig.call("off", json!({"path": "a", "text": "b"})).await;
    assert_eq!(kind(&reply), "disabled");
    assert!(rig.session.tools().definitions(haft_core::Format::Mcp, &rig.session.context()).len() == 1);
}

// 2 decode, 3 claim

#[tokio::test]
async fn invalid_input_never_reaches_the_tool() {
    let approver = Script::default();
    let rig = rig(&approver);
    let reply = rig.call("note", json!({"path": "a"})).await;
    assert_eq!(kind(&reply), "invalid_input");
    assert_says(&reply, &["`text` is missing", "an example call: note"]);
    let reply = rig.note("../a", "x").await;
    assert_eq!(kind(&reply), "outside");
    assert_eq!(approver.times(), 0);
    assert!(logged(&rig.session).is_empty());
}

#[tokio::test]
async fn repair_notes_are_for_the_model_only() {
    let rig = rig(&Script::say([Decision::AllowOnce]));
    let reply = rig.call("note", json!({"path": "a", "text": "x", "times": "3"})).await;
    assert_ok(&reply);
    assert_eq!(rig.file("a").unwrap(), "xxx");
    assert_says(&reply, &["note: `times` came as a string and was read as 3"]);
    assert_eq!(reply.display_text(), "wrote 3 bytes to a");
}

// 5 check

#[tokio::test]
async fn a_call_that_cannot_run_asks_for_no_approval() {
    let approver = Script::say([Decision::AllowOnce]);
    let hook = TestHook::before(HookAnswer::default());
    let rig = Rig::new(|engine| engine.approver(approver.clone()).hook(hook.clone()), |session| session);
    let reply = rig.note("a", "").await;
    assert_says(&reply, &["there is nothing to write"]);
    assert_eq!((approver.times(), hook.inputs().len()), (0, 0));
}

// 6 permit

#[tokio::test]
async fn a_session_may_have_its_own_approver() {
    let (everybodys, own) = (Script::say([Decision::AllowOnce]), Script::say([Decision::AllowOnce]));
    let rig = Rig::new(
        |engine| engine.approver(everybodys.clone()),
        |session| session.approver(std::sync::Arc::new(own.clone())),
    );
    assert_ok(&rig.note("a", "x").await);
    assert_eq!((everybodys.times(), own.times()), (0, 1));
}

#[tokio::test]
async fn the_approver_sees_the_whole_call() {
    let approver = Script::say([Decision::AllowOnce]);
    let rig = rig(&approver);
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_eq!(rig.file("a").unwrap(), "x");
    let asked = approver.asked();
    let request = &asked[0];
    assert_eq!((&*request.tool, &*request.call), ("note", "call"));
    assert_eq!(request.session, *rig.session.id());
    assert_eq!(request.input, json!({"path": "a", "text": "x"}));
    assert_eq!(request.preview.as_ref().unwrap().diff, "+x");
    assert_eq!(request.reason, "it changes `a`");
    let path = rig.session.cwd().child("a".as_ref());
    assert_eq!(request.claims, Claims::none().write(Resource::Path(path.clone())));
    let rule = Rule(format!("note({path})"));
    assert_eq!(
        request.choices,
        [Choice::AllowOnce, Choice::AllowAlways(vec![rule]), Choice::Edit, Choice::Deny]
    );
}

#[tokio::test]
async fn allowed_once_is_asked_again() {
    let approver = Script::say([Decision::AllowOnce, denied("enough")]);
    let rig = rig(&approver);
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(kind(&rig.note("a", "y").await), "denied");
    assert_eq!(approver.times(), 2);
    assert!(rig.session.grants().is_empty());
    assert_eq!(rig.file("a").unwrap(), "x");
}

#[tokio::test]
async fn allowed_always_is_not_asked_again_but_for_something_else() {
    let approver = Script::new([Answer::Always]);
    let rig = rig(&approver);
    let path = rig.session.cwd().child("a".as_ref());
    assert_ok(&rig.note("a", "x").await);
    assert_ok(&rig.note("a", "y").await);
    assert_eq!(approver.times(), 1);
    let rule = Rule(format!("note({path})"));
    assert_eq!(rig.session.grants(), [rule]);
    // The script is exhausted, so a request would be denied.
    assert_eq!(kind(&rig.note("b", "x").await), "denied");
    assert_eq!(approver.times(), 2);
}

#[tokio::test]
async fn feedback_reaches_the_model() {
    let rig = rig(&Script::say([denied("use `b` instead"), Decision::Deny { feedback: None }]));
    assert_says(&rig.note("a", "x").await, &["use `b` instead"]);
    assert_says(&rig.note("a", "x").await, &["the user denied `note`"]);
    assert_eq!(rig.file("a"), None);
    assert_eq!(logged(&rig.session), ["check x", "check x"]);
}

#[tokio::test]
async fn an_edited_input_is_decoded_and_checked_again_and_asked_once() {
    let approver = Script::say([Decision::AllowEdited(json!({"path": "b", "text": "y", "times": "2"}))]);
    let rig = rig(&approver);
    let reply = rig.note("a", "x").await;
    assert_ok(&reply);
    assert_says(&reply, &["the user changed the arguments", "`times` came as a string"]);
    assert_eq!((rig.file("a"), rig.file("b").as_deref()), (None, Some("yy")));
    assert_eq!(logged(&rig.session), ["check x", "check yy", "run yy"]);
    assert_eq!(approver.times(), 1);
}

#[tokio::test]
async fn an_edited_input_that_does_not_fit_is_a_fault() {
    let rig =
        rig(&Script::say([Decision::AllowEdited(json!({"path": 5})), edited("a", ""), edited("../x", "y")]));
    assert_eq!(kind(&rig.note("a", "x").await), "invalid_input");
    assert_says(&rig.note("a", "x").await, &["there is nothing to write"]);
    assert_eq!(kind(&rig.note("a", "x").await), "outside");
    assert_eq!(rig.file("a"), None);
}

#[tokio::test]
async fn an_edited_input_is_judged_again() {
    let approver = Script::say([edited("secret", "x"), edited("odd", "x")]);
    let judge = Says(|question: &Question<'_>| {
        Ok(match question.input["path"].as_str() {
            Some("secret") => Verdict::Deny("secrets stay secret".into()),
            Some("odd") => Verdict::Ask("that is odd".into()),
            _ => Verdict::Abstain,
        })
    });
    let rig = Rig::new(|engine| engine.approver(approver.clone()).judge(judge), |session| session);
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["secrets stay secret"]);
    // The person who wrote the new input has thereby approved it.
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(approver.times(), 2);
    assert_eq!((rig.file("secret"), rig.file("odd").as_deref()), (None, Some("x")));
}

#[tokio::test]
async fn an_approver_that_fails_or_breaks_denies_this_call_alone() {
    let approver =
        Script::new([Answer::Fail("the line is dead"), Answer::Panic, Answer::Say(Decision::AllowOnce)]);
    let rig = rig(&approver);
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["nobody could be asked for permission", "the line is dead"]);
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["nobody could be asked for permission", "the approver broke"]);
    assert_eq!(rig.file("a"), None);
    assert_ok(&rig.note("a", "x").await);
}

fn extreme(approval: Approval) -> impl DynTool {
    struct Wipe(Spec, Approval);
    struct Prepared(Approval);
    impl haft_core::Prepared for Prepared {
        fn claims(&self) -> Claims {
            Claims::none().write(Resource::State("disk".into()))
        }
        fn approval(&self, _cx: &Context) -> Approval {
            self.0.clone()
        }
        fn run(self: Box<Self>, _cx: Context) -> haft_core::BoxFuture<'static, Result<Reply, Fault>> {
            Box::pin(async { Ok(Reply::text("wiped")) })
        }
    }
    impl DynTool for Wipe {
        fn spec(&self) -> &Spec {
            &self.0
        }
        fn prepare(&self, _input: &Value, _cx: &Context) -> Result<Box<dyn haft_core::Prepared>, Fault> {
            Ok(Box::new(Prepared(self.1.clone())))
        }
    }
    Wipe(Spec::of::<Any>("wipe", "Wipes").sensitivity(Sensitivity::Extreme), approval)
}

#[tokio::test]
async fn extreme_harm_is_asked_every_time() {
    let rule = Rule("wipe".into());
    let approver = Script::say([always(rule.clone()), denied("no")]);
    let rig = Rig::new(
        |engine| engine.approver(approver.clone()),
        |session| session.tool(extreme(Approval::BySensitivity)).mode(Mode::AcceptEdits),
    );
    assert_ok(&rig.call("wipe", json!({})).await);
    assert!(rig.session.grants().is_empty());
    assert_eq!(approver.asked()[0].choices, [Choice::AllowOnce, Choice::Edit, Choice::Deny]);
    assert_says(&Reply::text(approver.asked()[0].reason.clone()), &["cannot be undone"]);
    rig.session.grant(rule);
    assert_eq!(kind(&rig.call("wipe", json!({})).await), "denied");
    assert_eq!(approver.times(), 2);
}

#[tokio::test]
async fn a_tool_can_decide_whether_a_call_needs_approval() {
    let approver = Script::say([Decision::AllowOnce]);
    let rig = Rig::new(
        |engine| engine.approver(approver.clone()),
        |session| session.tool(extreme(Approval::NotNeeded)),
    );
    assert_ok(&rig.call("wipe", json!({})).await);
    assert_eq!(approver.times(), 0);
    let needed = Approval::Needed("this one is dear".into());
    let tools = rig.session.tools();
    tools.replace(Arc::new(extreme(needed)));
    assert_ok(&rig.call("wipe", json!({})).await);
    assert_eq!(approver.asked()[0].reason, "this one is dear");
}

#[tokio::test]
async fn a_judge_denies_at_once() {
    let approver = Script::default();
    let hook = TestHook::before(HookAnswer::default());
    let rig = Rig::new(
        |engine| {
            let engine = engine.approver(approver.clone()).hook(hook.clone());
            engine
                .judge(verdict(Verdict::Allow { by: "a rule".into(), exactly: true }))
                .judge(verdict(Verdict::Deny("not on a sunday".into())))
        },
        |session| session.tool(echo()),
    );
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["not on a sunday"]);
    assert_eq!(kind(&rig.call("echo", json!({})).await), "denied");
    assert_eq!((approver.times(), hook.inputs().len(), logged(&rig.session).len()), (0, 0, 0));
}

#[tokio::test]
async fn a_judge_that_fails_or_breaks_denies() {
    for breaks in [false, true] {
        let judge = Says(move |_: &Question<'_>| {
            assert!(!breaks, "the judge broke");
            Err("the rules are torn".into())
        });
        let rig = Rig::new(
            |engine| {
                engine.judge(verdict(Verdict::Allow { by: "a rule".into(), exactly: true })).judge(judge)
            },
            |session| session.mode(Mode::Bypass),
        );
        let reply = rig.note("a", "x").await;
        assert_eq!(kind(&reply), "denied");
        assert_says(&reply, &["`the rule book` could not judge the call"]);
        assert_says(&reply, &[if breaks { "the judge broke" } else { "the rules are torn" }]);
        assert_eq!(rig.file("a"), None);
    }
}

#[tokio::test]
async fn a_judge_that_asks_beats_one_that_allows_and_every_grant() {
    for order in [[0, 1], [1, 0]] {
        let approver = Script::say([Decision::AllowOnce, denied("no")]);
        let verdicts = [
            Verdict::Allow { by: "a rule".into(), exactly: false },
            Verdict::Ask("the rule says ask".into()),
        ];
        let rig = Rig::new(
            |engine| {
                let engine = engine.approver(approver.clone());
                engine.judge(verdict(verdicts[order[0]].clone())).judge(verdict(verdicts[order[1]].clone()))
            },
            |session| session.mode(Mode::AcceptEdits).tool(echo()),
        );
        rig.session.grant(Rule("note".into()));
        assert_ok(&rig.note("a", "x").await);
        assert_eq!(approver.asked()[0].reason, "the rule says ask");
        assert_eq!(kind(&rig.call("echo", json!({})).await), "denied");
    }
}

/// A rule that asks would ask again, so "always" would be a false promise.
#[tokio::test]
async fn always_is_not_offered_where_a_rule_asks() {
    let rule = Rule("note".into());
    let approver = Script::say([always(rule)]);
    let rig = Rig::new(
        |engine| engine.approver(approver.clone()).judge(verdict(Verdict::Ask("ask".into()))),
        |session| session,
    );
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(approver.asked()[0].choices, [Choice::AllowOnce, Choice::Edit, Choice::Deny]);
    assert!(rig.session.grants().is_empty(), "what was not offered is not remembered");
}

/// "Always" for one host was once "always" for every host.
#[tokio::test]
async fn always_covers_only_the_resources_that_a_call_reads() {
    let approver = Script::new([Answer::Always]);
    let fetch = function("fetch", "Fetches", async |input: Any, _cx| input.word)
        .claims(|input, _| Ok(Claims::none().read(Resource::Host(input.word.clone()))));
    let rig = Rig::new(|engine| engine.approver(approver.clone()), |session| session.tool(fetch));
    assert_ok(&rig.call("fetch", json!({"word": "example.org"})).await);
    assert_ok(&rig.call("fetch", json!({"word": "example.org"})).await);
    assert_eq!(rig.session.grants(), [Rule("fetch(example.org)".into())]);
    assert_eq!(kind(&rig.call("fetch", json!({"word": "evil.test"})).await), "denied");
    assert_eq!(approver.times(), 2);
}

#[tokio::test]
async fn a_judge_that_allows_makes_approval_unnecessary() {
    let approver = Script::default();
    let rig = Rig::new(
        |engine| {
            engine
                .approver(approver.clone())
                .judge(verdict(Verdict::Allow { by: "a rule".into(), exactly: true }))
        },
        |session| session.tool(extreme(Approval::Needed("why".into()))),
    );
    assert_ok(&rig.note("a", "x").await);
    assert_ok(&rig.call("wipe", json!({})).await);
    assert_eq!(approver.times(), 0);
}

#[tokio::test]
async fn a_hook_that_allows_beats_neither_a_judge_that_asks_nor_plan_mode() {
    let allow = HookAnswer::allow();
    let approver = Script::say([denied("I was asked")]);
    let rig = Rig::new(
        |engine| {
            let engine = engine.approver(approver.clone()).hook(TestHook::before(allow.clone()));
            engine.judge(verdict(Verdict::Ask("the rule says ask".into())))
        },
        |session| session,
    );
    assert_says(&rig.note("a", "x").await, &["I was asked"]);
    assert_eq!(approver.times(), 1);

    let rig = Rig::new(|engine| engine.hook(TestHook::before(allow)), |session| session.mode(Mode::Plan));
    assert_eq!(kind(&rig.note("a", "x").await), "denied");
    assert_eq!(rig.file("a"), None);
}

#[tokio::test]
async fn a_hook_that_asks_is_answered_once_even_when_the_input_is_edited() {
    let ask = HookAnswer::ask("the hook wonders");
    let approver = Script::say([edited("b", "y"), denied("asked twice")]);
    let hook = TestHook::before(ask);
    let rig = Rig::new(|engine| engine.approver(approver.clone()).hook(hook.clone()), |session| session);
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(approver.asked()[0].reason, "the hook wonders");
    // The hook sees the final input; the person is not asked again about their own edit.
    assert_eq!((approver.times(), hook.inputs().len()), (1, 2));
    assert_eq!(hook.inputs()[1]["tool_input"]["path"], "b");
    assert_eq!(rig.file("b").unwrap(), "y");
}

/// An approver may grant another rule than the one that was offered.
#[tokio::test]
async fn always_is_granted_as_it_was_answered() {
    let approver = Script::say([always(Rule("note(elsewhere)".into())), denied("no")]);
    let rig = rig(&approver);
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(rig.session.grants(), [Rule("note(elsewhere)".into())]);
    assert_eq!(kind(&rig.note("a", "x").await), "denied");
}

/// An approver that never answers; counts the withdrawn requests.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl haft_core::permissions::Approver for Silent {
    fn ask(
        &self,
        _request: haft_core::permissions::ApprovalRequest,
    ) -> haft_core::BoxFuture<'_, Result<Decision, Fault>> {
        struct Withdrawn(Arc<AtomicUsize>);
        impl Drop for Withdrawn {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        let withdrawn = Withdrawn(self.1.clone());
        Box::pin(async move {
            let _held = withdrawn;
            std::future::pending().await
        })
    }
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::SeqCst) < wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_can_be_scripted() {
    let answers = haft_core::permissions::Scripted::new([Decision::AllowOnce, denied("not twice")]);
    let rig = Rig::new(|engine| engine.approver(answers), |session| session);
    assert_ok(&rig.note("a", "x").await);
    assert_says(&rig.note("a", "y").await, &["not twice"]);
    assert_says(&rig.note("a", "z").await, &["no answer is left"]);
}

#[tokio::test]
async fn one_answer_settles_every_question_it_covers() {
    let silent = Silent::default();
    let rig = Rig::new(|engine| engine.approver(silent.clone()), |session| session.tool(echo()));
    let mut turn = rig.session.turn();
    turn.submit(Call::new("1", "note", json!({"path": "a", "text": "x"})));
    turn.submit(Call::new("2", "note", json!({"path": "b", "text": "x"})));
    turn.submit(Call::new("3", "echo", json!({"word": "meanwhile"})));
    within(until(&silent.0, 2)).await;
    let path = rig.session.cwd().child("a".as_ref());
    rig.session.grant(Rule(format!("note({path})")));
    within(until(&silent.1, 1)).await;
    assert_eq!(silent.1.load(Ordering::SeqCst), 1, "the other question still stands");
    rig.session.set_mode(Mode::AcceptEdits);
    let replies = within(turn.finish()).await;
    replies.iter().for_each(assert_ok);
    assert_eq!((rig.file("a").as_deref(), rig.file("b").as_deref()), (Some("x"), Some("x")));
}

#[tokio::test]
async fn a_turn_that_is_withdrawn_withdraws_its_questions() {
    let silent = Silent::default();
    let rig = Rig::new(|engine| engine.approver(silent.clone()), |session| session);
    let mut turn = rig.session.turn();
    turn.submit(Call::new("1", "note", json!({"path": "a", "text": "x"})));
    within(until(&silent.0, 1)).await;
    turn.cancel();
    assert_eq!(kind(&within(turn.finish()).await[0]), "cancelled");
    assert_eq!(silent.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_that_times_out_is_denied() {
    let patience = std::time::Duration::from_secs(1);
    let rig =
        Rig::new(|engine| engine.approver(Silent::default()).answer_timeout(patience), |session| session);
    let reply = rig.session.call(Call::new("1", "note", json!({"path": "a", "text": "x"}))).await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["no answer within 1 s"]);
}

#[tokio::test]
async fn a_wide_rule_allows_nothing_that_cannot_be_undone() {
    let wide = || verdict(Verdict::Allow { by: "a rule".into(), exactly: false });
    for approval in [Approval::BySensitivity, Approval::NeededAlways("it wipes".into())] {
        let approver = Script::say([denied("no")]);
        let rig = Rig::new(
            |engine| engine.approver(approver.clone()).judge(wide()),
            |session| session.tool(extreme(approval)).mode(Mode::AcceptEdits),
        );
        assert_eq!(kind(&rig.call("wipe", json!({})).await), "denied");
        assert_eq!(approver.asked()[0].choices, [Choice::AllowOnce, Choice::Edit, Choice::Deny]);
    }
}

#[tokio::test]
async fn accept_edits_accepts_nothing_but_edits_of_files() {
    for claims in [
        Claims::none(),
        Claims::none().read(Resource::Host("example.org".into())),
        Claims::none().write(Resource::State("a".into())),
    ] {
        let tool = function("other", "Is no edit", async |_: Nothing, _cx| "done")
            .claims(move |_, _| Ok(claims.clone()));
        let rig = Rig::new(|engine| engine, |session| session.tool(tool).mode(Mode::AcceptEdits));
        assert_eq!(kind(&rig.call("other", json!({})).await), "denied");
    }
}

#[tokio::test]
async fn plan_mode_changes_nothing_and_says_so() {
    let approver = Script::say([Decision::AllowOnce]);
    let rig = Rig::new(
        |engine| {
            engine
                .approver(approver.clone())
                .judge(verdict(Verdict::Allow { by: "a rule".into(), exactly: true }))
        },
        |session| session.tool(echo()).mode(Mode::Plan),
    );
    let reply = rig.note("a", "x").await;
    assert_eq!(kind(&reply), "denied");
    assert_says(&reply, &["this session only plans", "hint: finish the plan first"]);
    assert_eq!((approver.times(), rig.file("a")), (0, None));
    assert_ok(&rig.call("echo", json!({"word": "x"})).await);
    rig.session.set_mode(Mode::Default);
    assert_ok(&rig.note("a", "x").await);
}

#[tokio::test]
async fn accept_edits_asks_only_about_calls_beyond_files() {
    let approver = Script::default();
    let elsewhere = function("post", "Posts", async |input: Any, _cx| input.word)
        .claims(|_, _| Ok(Claims::none().write(Resource::Host("example.org".into()))));
    let rig = Rig::new(
        |engine| engine.approver(approver.clone()),
        |session| session.tool(elsewhere).mode(Mode::AcceptEdits),
    );
    assert_ok(&rig.note("a", "x").await);
    assert_eq!(approver.times(), 0);
    assert_eq!(kind(&rig.call("post", json!({})).await), "denied");
    assert_eq!(approver.times(), 1);
}

#[tokio::test]
async fn bypass_needs_no_approval_but_denials_hold() {
    let approver = Script::default();
    let judge = Says(|question: &Question<'_>| {
        Ok(if question.input["path"] == "secret" { Verdict::Deny("no".into()) } else { Verdict::Abstain })
    });
    let rig = Rig::new(
        |engine| engine.approver(approver.clone()).judge(judge),
        |session| session.mode(Mode::Bypass).tool(extreme(Approval::BySensitivity)),
    );
    assert_ok(&rig.note("a", "x").await);
    assert_ok(&rig.call("wipe", json!({})).await);
    assert_eq!(kind(&rig.note("secret", "x").await), "denied");
    assert_eq!((approver.times(), rig.file("secret")), (0, None));
}

#[tokio::test]
async fn without_an_approver_the_reply_says_how_to_allow_the_call() {
    let rig = Rig::new(|engine| engine, |session| session);
    let reply = rig.note("a", "x").await;
    assert_eq!(reply.fault().map(Fault::kind), Some(FaultKind::Denied));
    assert_says(&reply, &["`note` needs permission", "nobody to ask"]);
    let advise = |_: &ApprovalRequest| Some("press the button".to_owned());
    let rig = Rig::new(|engine| engine.approver(NoApprover).approval_advice(advise), |session| session);
    assert_says(&rig.note("a", "x").await, &["nobody to ask; press the button"]);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

// 9 record

#[tokio::test]
async fn statistics_count_every_call_of_a_known_tool() {
    let rig = rig(&Script::say([Decision::AllowOnce]));
    rig.note("a", "x").await;
    rig.note("a", "x").await;
    rig.note("a", "").await;
    rig.call("nowhere", json!({})).await;
    let stats = rig.engine.stats().snapshot();
    let note = &stats["note"];
    assert_eq!((note.calls, note.successes, note.failures, note.denials), (3, 1, 1, 1));
    assert!(!stats.contains_key("nowhere"));
}

/// A person who thinks for a while before each answer.
struct Slow(std::time::Duration);

impl haft_core::permissions::Approver for Slow {
    fn ask(
        &self,
        _request: haft_core::permissions::ApprovalRequest,
    ) -> haft_core::BoxFuture<'_, Result<Decision, haft_core::Fault>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(Decision::AllowOnce)
        })
    }
}

#[tokio::test]
async fn statistics_leave_out_how_long_a_person_thinks() {
    let thinking = std::time::Duration::from_secs(1);
    let rig = Rig::new(|engine| engine.approver(Slow(thinking)), |session| session);
    let mut ended = rig.engine.activity().subscribe_to(&[haft_core::events::EventKind::Ended]);
    assert_ok(&rig.note("a", "x").await);
    let event = within(ended.next()).await.unwrap();
    let haft_core::events::EventPayload::Ended { took, .. } = &event.payload else { panic!("{event:?}") };
    let counted = std::time::Duration::from_nanos(rig.engine.stats().snapshot()["note"].total_ns);
    assert!(*took >= thinking && counted + thinking <= *took, "{counted:?} of {took:?}");
}

#[tokio::test]
async fn arguments_may_come_as_text_or_not_at_all() {
    let rig = rig(&Script::default());
    let call = |input: Input| rig.session.call(Call::new("1", "echo", input));
    assert_eq!(within(call(Input::Text(r#"{"word":"a"}"#.into()))).await.full_text(), "a");
    for nothing in [Input::Text(String::new()), Input::Text(" \n".into()), Input::Value(Value::Null)] {
        assert_ok(&within(call(nothing)).await);
    }
    let reply = within(call(Input::Value(json!(r#"{"word":"a"}"#)))).await;
    assert_says(&reply, &["a\n", "came as a string of JSON"]);
    assert_eq!(kind(&within(call(Input::Text("{".into()))).await), "invalid_input");
    assert_eq!(kind(&within(call(Input::Value(json!([1])))).await), "invalid_input");
}
