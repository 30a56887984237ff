//! Delegated sessions, which work for another one.

use haft_core::permissions::Decision;
use haft_core::{Call, Mode, Reply, Session, Typed};
use serde_json::json;

use crate::common::{Answer, Note, Rig, Script, assert_ok, assert_says, kind, log, logged, within};

fn helper(rig: &Rig, mode: Mode) -> Session {
    rig.session.delegate("reviewer").tool(Typed::<Note>::new()).mode(mode).start()
}

async fn note(session: &Session, path: &str) -> Reply {
    within(session.call(Call::new("call", "note", json!({"path": path, "text": "x"})))).await
}

#[tokio::test]
async fn it_asks_the_approver_of_its_parent_under_its_own_id() {
    let (asked, unasked) = (Script::say([Decision::AllowOnce]), Script::default());
    let rig = Rig::new(
        |engine| engine.approver(unasked.clone()),
        |session| session.id("main").approver(std::sync::Arc::new(asked.clone())),
    );
    let helper = helper(&rig, Mode::Default);
    let below = helper.delegate("second").tool(Typed::<Note>::new()).start();
    assert_ok(&note(&helper, "a").await);
    assert_says(&note(&below, "b").await, &["the script is over"]);
    let asked = asked.asked();
    let names: Vec<_> =
        asked.iter().map(|request| (&*request.session, request.works_for.as_deref())).collect();
    assert_eq!(names, [("reviewer", Some("main")), ("second", Some("reviewer"))]);
    assert_eq!(unasked.times(), 0);
}

#[tokio::test]
async fn grants_apply_to_both() {
    let script = Script::new([Answer::Always]);
    let rig = Rig::new(|engine| engine.approver(script.clone()), |session| session);
    let helper = helper(&rig, Mode::Default);
    assert_ok(&note(&helper, "a").await);
    assert_ok(&note(&rig.session, "a").await);
    assert_eq!(
        (script.times(), rig.session.grants(), rig.session.save().grants.len()),
        (1, helper.grants(), 1)
    );
    assert!(helper.revoke(&helper.grants()[0]));
    assert_eq!(kind(&note(&rig.session, "a").await), "denied");
}

#[tokio::test]
async fn it_is_never_more_permissive() {
    let rig = Rig::new(|engine| engine, |session| session);
    let helper = helper(&rig, Mode::Bypass);
    for (mode, own, both) in [
        (Mode::Default, Mode::Bypass, Mode::Default),
        (Mode::Plan, Mode::Bypass, Mode::Plan),
        (Mode::Bypass, Mode::Default, Mode::Default),
        (Mode::Bypass, Mode::Plan, Mode::Plan),
        (Mode::AcceptEdits, Mode::Bypass, Mode::AcceptEdits),
        (Mode::Bypass, Mode::Bypass, Mode::Bypass),
    ] {
        rig.session.set_mode(mode);
        helper.set_mode(own);
        assert_eq!(helper.mode(), both);
        assert_eq!(
            note(&helper, "a").await.is_error,
            !matches!(both, Mode::AcceptEdits | Mode::Bypass),
            "{both:?}"
        );
    }
}

#[tokio::test]
async fn it_inherits_initial_extensions_and_keeps_its_own() {
    #[derive(Default)]
    struct Given(u32);
    let rig = Rig::new(|engine| engine, |session| session.extension(Given(7)).mode(Mode::Bypass));
    log(&rig.session.context(), "of the first");
    let helper = helper(&rig, Mode::Bypass);
    assert_eq!(helper.extension::<Given>().0, 7);
    assert_eq!(helper.workspace().root(), rig.session.workspace().root());
    assert!(logged(&helper).is_empty());
}

#[tokio::test]
async fn it_is_cancelled_with_its_parent_but_not_the_other_way_round() {
    let rig = Rig::new(|engine| engine, |session| session.mode(Mode::Bypass));
    let first = helper(&rig, Mode::Bypass);
    first.cancel();
    assert_eq!(kind(&note(&first, "a").await), "cancelled");
    assert_ok(&note(&rig.session, "a").await);
    let second = helper(&rig, Mode::Bypass);
    rig.session.cancel();
    assert_eq!(kind(&note(&second, "b").await), "cancelled");
}
