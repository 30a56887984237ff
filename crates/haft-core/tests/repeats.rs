//! Repeated calls within a turn, in dialects that refuse them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_core::hooks::HookAnswer;
use haft_core::permissions::{Choice, Decision, Rule};
use haft_core::{
    Call, Claims, Context, Dialect, DynTool, Fault, Mode, Operation, Reply, Resource, Spec, Tool, Typed,
};
use serde_json::json;

use crate::common::*;

struct NoRepeats;

impl Dialect for NoRepeats {
    fn name(&self) -> &'static str {
        "no-repeats"
    }
    fn summary(&self) -> &'static str {
        "refuses repeats"
    }
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![Arc::new(Typed::<Peek>::new())]
    }
    fn refuses_repeats(&self) -> bool {
        true
    }
}

/// Reads something that never changes, and counts the reads.
struct Peek;
struct PeekOp(String);
static PEEKS: AtomicUsize = AtomicUsize::new(0);

impl Operation for PeekOp {
    type Output = String;
    fn claims(&self) -> Claims {
        Claims::none().read(Resource::State("peek".into()))
    }
    fn fingerprint(&self, _cx: &Context) -> Option<u64> {
        Some(1)
    }
    async fn run(self, _cx: &Context) -> Result<String, Fault> {
        PEEKS.fetch_add(1, Ordering::Relaxed);
        if self.0 == "fail" { Err(Fault::failed("it failed")) } else { Ok(self.0) }
    }
}

impl Tool for Peek {
    const NAME: &'static str = "peek";
    const DESCRIPTION: &'static str = "Peeks";
    type Input = Any;
    type Op = PeekOp;
    fn spec(spec: Spec) -> Spec {
        spec.read_only()
    }
    fn lower(input: &Any, _cx: &Context) -> Result<PeekOp, Fault> {
        Ok(PeekOp(input.word.clone()))
    }
    fn render(_input: &Any, output: String, _cx: &Context) -> Result<Reply, Fault> {
        Ok(Reply::text(output))
    }
}

fn peek(id: &str, word: &str) -> Call {
    Call::new(id, "peek", json!({"word": word}))
}

#[tokio::test]
async fn a_repeat_is_refused_by_name_and_only_within_its_turn() {
    let rig = Rig::new(|engine| engine, |session| session.dialect(Arc::new(NoRepeats)));
    let mut turn = rig.session.turn();
    for (id, word) in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "fail"), ("5", "fail")] {
        turn.submit(peek(id, word));
    }
    let replies = within(turn.finish()).await;
    assert_ok(&replies[0]);
    assert_eq!(kind(&replies[1]), "redundant");
    assert_says(&replies[1], &["as `1`"]);
    assert_ok(&replies[2]);
    // A failed call has no reply that a repeat could use instead.
    assert_eq!((kind(&replies[3]), kind(&replies[4])), ("failed", "failed"));
    assert_ok(&within(rig.session.call(peek("5", "a"))).await);
}

#[tokio::test]
async fn a_call_that_is_rewritten_to_itself_does_not_repeat_itself() {
    let hook = TestHook::new("rewrite", haft_core::hooks::HookEvent::PreToolUse, |input, _| {
        Ok(HookAnswer::default().updated_input(input.call().unwrap().tool_input.clone()))
    });
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.dialect(Arc::new(NoRepeats)));
    let reply = within(rig.session.call(peek("1", "a"))).await;
    assert_ok(&reply);
    assert_eq!(reply.full_text(), "a");
}

#[tokio::test]
async fn a_call_that_became_another_is_not_what_was_asked() {
    let hook = TestHook::new("rewrite", haft_core::hooks::HookEvent::PreToolUse, |input, _| {
        let is_first = input.call().unwrap().tool_use_id == "1";
        let other = HookAnswer::default().updated_input(json!({"word": "other"}));
        Ok(if is_first { other } else { HookAnswer::default() })
    });
    let rig = Rig::new(|engine| engine.hook(hook), |session| session.dialect(Arc::new(NoRepeats)));
    let mut turn = rig.session.turn();
    turn.submit(peek("1", "a"));
    turn.submit(peek("2", "a"));
    let replies = within(turn.finish()).await;
    assert_eq!(replies[0].full_text(), "other");
    assert_eq!(replies[1].full_text(), "a");
}

/// Detecting repeats must not make a call count as one that writes.
#[tokio::test]
async fn refusing_repeats_makes_no_reader_a_writer() {
    let rig = Rig::new(|engine| engine, |session| session.dialect(Arc::new(NoRepeats)).mode(Mode::Plan));
    assert_ok(&within(rig.session.call(peek("1", "a"))).await);

    let approver = Script::say([Decision::AllowOnce]);
    let rig =
        Rig::new(|engine| engine.approver(approver.clone()), |session| session.dialect(Arc::new(NoRepeats)));
    assert_ok(&rig.note("a", "x").await);
    let path = rig.session.cwd().child("a".as_ref());
    assert_eq!(approver.asked()[0].claims, Claims::none().write(Resource::Path(path.clone())));
    let rule = Rule(format!("note({path})"));
    assert!(approver.asked()[0].choices.contains(&Choice::AllowAlways(vec![rule])));
    rig.session.set_mode(Mode::AcceptEdits);
    assert_ok(&rig.note("a", "y").await);
}

#[tokio::test]
async fn refusing_repeats_holds_no_reader_back() {
    let rig = Rig::new(
        |engine| engine,
        |session| session.dialect(Arc::new(NoRepeats)).policy(haft_core::Policy::SafeFirst),
    );
    let mut ends = rig.engine.activity().subscribe_to(&[haft_core::events::EventKind::Ended]);
    let mut turn = rig.session.turn();
    turn.submit(peek("1", "a"));
    // The turn is still open, so this is the end of a call that counts as safe.
    assert_eq!(&*within(ends.next()).await.unwrap().call, "1");
    assert_ok(&within(turn.finish()).await[0]);
}
