//! Limits: no reply exceeds its limit or splits a character, and the full text of a cut one is kept.

use std::time::Duration;

use haft_core::hooks::{HookAnswer, HookEvent};
use haft_core::images::MAX_IMAGE_BYTES;
use haft_core::limits::{Cut, ResultStore};
use haft_core::replies::{Audience, Block, Body, Content};
use haft_core::{Engine, Function, Reply, Workspace, function};
use haft_sandbox::Store;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::*;

/// A tool that always gives the same reply.
fn answering(reply: Reply) -> Function<Any> {
    function("answer", "Answers", move |_: Any, _cx| std::future::ready(reply.clone())).read_only()
}

/// Calls a tool that gives this reply. Returns the cut reply, and the folder with the full text.
async fn answered(reply: Reply, max: usize, cut: Cut) -> (Reply, TempDir) {
    let store = TempDir::new().unwrap();
    let kept = ResultStore::new(Store::at(store.path()), Duration::from_secs(3600), u64::MAX);
    let tool = answering(reply).about(|spec| spec.max_result(max, cut));
    let rig = Rig::new(|engine| engine.keep_results(kept), |session| session.tool(tool));
    (rig.call("answer", json!({})).await, store)
}

fn length(reply: &Reply) -> usize {
    reply.content.iter().filter_map(|block| block.content.text()).map(|text| text.chars().count()).sum()
}

/// The content of the only kept file, which the reply must name.
#[track_caller]
fn kept_whole(reply: &Reply, store: &TempDir) -> String {
    let text = reply.full_text();
    let files = std::fs::read_dir(store.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
    let named = files.find(|path| text.contains(path.to_str().unwrap()));
    std::fs::read_to_string(named.unwrap_or_else(|| panic!("no kept file is named in `{text}`"))).unwrap()
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn a_long_text_is_cut_by_each_strategy_and_kept_whole() {
    let whole = lines(1000);
    for (cut, begins, ends) in [(Cut::Start, true, false), (Cut::End, false, true), (Cut::Both, true, true)] {
        let (reply, store) = answered(Reply::text(whole.clone()), 1000, cut).await;
        let text = reply.full_text();
        assert!(length(&reply) <= 1000 && length(&reply) > 700, "{} characters", length(&reply));
        assert_eq!((text.starts_with("line 1\n"), text.ends_with("line 1000\n")), (begins, ends), "{text}");
        assert!(text.contains("characters cut here; the whole reply is in "));
        assert_eq!(kept_whole(&reply, &store), whole);
    }
}

#[tokio::test]
async fn a_short_reply_is_neither_cut_nor_kept() {
    let text = "ü".repeat(1000);
    let (reply, store) = answered(Reply::text(text.clone()), 1000, Cut::End).await;
    assert_eq!(reply.full_text(), text);
    assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn without_a_store_the_cut_is_still_marked() {
    let tool = answering(Reply::text(lines(1000))).about(|spec| spec.max_result(1000, Cut::End));
    let rig = Rig::new(|engine| engine, |session| session.tool(tool));
    let reply = rig.call("answer", json!({})).await;
    assert_says(&reply, &["characters cut here]"]);
    assert!(length(&reply) <= 1000);
}

#[tokio::test]
async fn several_long_texts_are_cut_and_each_says_so() {
    let mut reply = Reply::text(lines(1000)).internal("a short note");
    reply.content.push(Reply::text(lines(900)).content.remove(0));
    reply.content.push(Reply::text(lines(800)).content.remove(0));
    let whole = reply.full_text();
    let (reply, store) = answered(reply, 3000, Cut::Start).await;
    assert!(length(&reply) <= 3000);
    assert_eq!(reply.content.len(), 4);
    for block in &reply.content {
        let Content::Text(text) = &block.content else { panic!("a picture") };
        assert!(text == "a short note" || text.contains("characters cut here"), "{text}");
    }
    assert_eq!(reply.content[1].audience, Audience::Model);
    assert_eq!(kept_whole(&reply, &store), whole);
}

#[tokio::test]
async fn very_many_texts_end_with_one_notice() {
    let mut reply = Reply::text("0");
    for number in 1..20_000 {
        reply = reply.internal(number.to_string());
    }
    let whole = reply.full_text();
    let (reply, store) = answered(reply, 1000, Cut::Start).await;
    assert!(length(&reply) <= 1000);
    assert_says(&reply, &["characters cut here; the whole reply is in"]);
    assert_eq!(kept_whole(&reply, &store), whole);
}

#[tokio::test]
async fn a_value_is_cut_to_valid_json_that_says_what_is_missing() {
    let value = json!({"success": true, "content": lines(1000), "count": 1000});
    let (reply, store) = answered(Reply::object(value.clone()), 2000, Cut::Start).await;
    assert!(length(&reply) <= 2000);
    let read: Value = serde_json::from_str(&reply.full_text()).unwrap();
    assert_eq!(Some(&read), reply.structured.as_ref());
    assert_eq!((&read["success"], &read["count"]), (&json!(true), &json!(1000)));
    assert!(read["content"].as_str().unwrap().starts_with("line 1\n"));
    assert_eq!(read["cut"]["fields"], json!(["/content"]));
    // The one string that was cut is kept as plain text, so that it can be read by lines.
    let kept = std::fs::read_to_string(read["cut"]["whole"].as_str().unwrap()).unwrap();
    assert_eq!(kept, lines(1000));
    drop(store);
}

#[tokio::test]
async fn a_value_that_is_cut_in_several_places_is_kept_laid_out() {
    let value = json!({"first": lines(1000), "second": lines(1000)});
    let (reply, store) = answered(Reply::object(value.clone()), 2000, Cut::Start).await;
    let kept = kept_whole(&reply, &store);
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), value);
    assert!(kept.lines().count() > 3);
}

#[tokio::test]
async fn a_cut_value_without_room_for_a_mark_is_followed_by_a_notice() {
    for value in [json!([lines(1000)]), json!({"cut": "mine", "content": lines(1000)})] {
        let (reply, store) = answered(Reply::object(value.clone()), 2000, Cut::Start).await;
        assert!(length(&reply) <= 2000);
        assert_eq!(reply.content.len(), 2);
        assert_eq!(reply.structured.as_ref().unwrap().get("cut"), value.get("cut"));
        assert_eq!(kept_whole(&reply, &store), lines(1000));
    }
}

#[tokio::test]
async fn a_value_may_be_for_the_model_alone_and_have_notes() {
    let (reply, _store) = answered(Reply::object(json!({"a": 1})).internal("a note"), 1000, Cut::Start).await;
    assert_eq!(reply.display_text(), r#"{"a":1}"#);
    assert_says(&reply, &["a note"]);
    let (reply, _store) = answered(Reply::object(json!({"a": 1})).internal_only(), 1000, Cut::Start).await;
    assert_eq!((reply.display_text().as_str(), reply.full_text().as_str()), ("", r#"{"a":1}"#));
}

#[tokio::test]
async fn an_invalid_image_is_replaced_by_text() {
    for (media_type, data, problem) in [
        ("image/png", b"<script>".to_vec(), "it is no PNG, JPEG, GIF or WebP picture"),
        ("image/png", Vec::new(), "it is no PNG, JPEG, GIF or WebP picture"),
    ] {
        let (reply, _store) = answered(Reply::image(media_type, data.clone()), 1000, Cut::End).await;
        assert_says(&reply, &["[a picture is not shown:", problem]);
        assert!(reply.content.iter().all(|block| matches!(block.content, Content::Text(_))));
        // Beside a value as well, and within the limit.
        let both = Reply::object(json!({"a": 1})).block(haft_core::replies::Block::image(media_type, data));
        let (reply, _store) = answered(both, 30, Cut::End).await;
        assert!(length(&reply) <= 30, "{}", reply.full_text());
        assert!(reply.content.iter().all(|block| matches!(block.content, Content::Text(_))));
    }
}

#[tokio::test]
async fn a_resource_is_cut_like_any_text() {
    let body = Body::Text(lines(1000));
    let resource = Content::Resource { uri: "a://b".to_owned(), media_type: None, body };
    let reply = Reply::text("this is it").block(resource);
    let whole = reply.full_text();
    let (reply, store) = answered(reply, 2000, Cut::Start).await;
    assert!(length(&reply) <= 2000);
    let Content::Resource { uri, body: Body::Text(text), .. } = &reply.content[1].content else {
        panic!("none")
    };
    assert!(uri == "a://b" && text.contains("characters cut here"), "{text}");
    assert_eq!(kept_whole(&reply, &store), whole);
}

#[tokio::test]
async fn audio_passes_unless_it_is_too_large() {
    let (reply, _store) =
        answered(Reply::blocks(vec![Block::audio("audio/wav", vec![7])]), 100, Cut::End).await;
    assert_eq!(
        reply.content[0].content,
        Content::Audio { media_type: "audio/wav".to_owned(), data: vec![7] }
    );
    let large = Block::audio("audio/wav", vec![0; 9 * 1024 * 1024]);
    let (reply, _store) = answered(Reply::blocks(vec![large]), 100, Cut::End).await;
    assert_says(&reply, &["[audio/wav, 9437184 bytes] is not passed on"]);
}

#[tokio::test]
async fn an_image_gets_the_media_type_of_its_first_bytes() {
    let data = b"\x89PNG\r\n\x1a\n rest".to_vec();
    let (reply, _store) = answered(Reply::image("image/jpeg", data.clone()), 1000, Cut::End).await;
    assert_eq!(reply.content[0].content, Content::Image { media_type: "image/png".to_owned(), data });
    let large = [b"GIF89a".as_slice(), &vec![0; MAX_IMAGE_BYTES]].concat();
    let (reply, _store) = answered(Reply::image("image/gif", large), 1000, Cut::End).await;
    assert_says(&reply, &["[a picture is not shown: it has 3932166 bytes"]);
}

#[tokio::test]
async fn a_limit_can_be_set_for_a_tool() {
    let rig = Rig::new(
        |engine| engine.max_result("answer", 100),
        |session| session.tool(answering(Reply::text(lines(1000)))).tool(echo()),
    );
    assert!(length(&rig.call("answer", json!({})).await) <= 100);
    let word = lines(100);
    assert_eq!(rig.call("echo", json!({"word": word})).await.full_text(), word);
}

#[tokio::test]
async fn a_fault_is_held_to_the_limit_too() {
    let rig = Rig::new(|engine| engine.max_result("echo", 200), |session| session.tool(echo()));
    let reply = rig.call("echo", json!({"word": {"deep": "x".repeat(10_000)}})).await;
    assert!(reply.is_error && length(&reply) <= 200);
    let long = "x".repeat(1_000_000);
    let reply = rig.call(&long, json!({})).await;
    assert!(reply.is_error && length(&reply) < 1000);
}

/// A note of a hook must not cause a second cut of the reply.
#[tokio::test]
async fn the_full_reply_is_kept_even_when_a_hook_adds_to_it() {
    let store = TempDir::new().unwrap();
    let kept = ResultStore::new(Store::at(store.path()), Duration::from_secs(3600), u64::MAX);
    let hook = TestHook::new("adds", HookEvent::PostToolUse, |_, _| {
        Ok(HookAnswer::default().additional_context("an addition"))
    });
    let whole = lines(1000);
    let tool = answering(Reply::text(whole.clone())).about(|spec| spec.max_result(1000, Cut::Both));
    let rig = Rig::new(|engine| engine.keep_results(kept).hook(hook.clone()), |session| session.tool(tool));
    let reply = rig.call("answer", json!({})).await;
    assert!(length(&reply) <= 1000);
    assert_eq!(reply.full_text().matches("characters cut here").count(), 1);
    assert_eq!(reply.full_text().matches("an addition").count(), 1);
    assert!(kept_whole(&reply, &store).starts_with(&whole));
    // The hook itself is shown the cut reply.
    let shown = hook.inputs()[0]["tool_response"]["content"][0]["text"].as_str().unwrap().chars().count();
    assert!(shown <= 1000);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z\n]{0,400}", "\\PC{0,200}", "(e\u{301}|\r\n|👩\u{200d}💻|\"|\u{1}){0,100}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let text = (any_text(), prop::option::of(any_value())).prop_map(|(text, value)| match value {
        Some(value) => Reply::text(text).structured(value),
        None => Reply::text(text),
    });
    let first = prop_oneof![text, any_value().prop_map(Reply::object), any_text().prop_map(Reply::error)];
    (first, prop::collection::vec((any_text(), any::<bool>()), 0..5)).prop_map(|(mut reply, more)| {
        for (text, is_image) in more {
            reply = if is_image {
                reply.content.extend(Reply::image("image/png", text.into_bytes()).content);
                reply
            } else {
                reply.internal(text)
            };
        }
        reply
    })
}

fn any_cut() -> impl Strategy<Value = Cut> {
    prop_oneof![Just(Cut::Start), Just(Cut::End), Just(Cut::Both)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_reply_exceeds_its_limit(reply in any_reply(), max in 20_usize..700, cut in any_cut(), keeps in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = TempDir::new().unwrap();
        let store = TempDir::new().unwrap();
        let mut engine = Engine::builder();
        if keeps {
            engine = engine.keep_results(ResultStore::new(Store::at(store.path()), Duration::from_secs(3600), u64::MAX));
        }
        let tool = answering(reply.clone()).about(|spec| spec.max_result(max, cut));
        let session = engine.build().session(Workspace::open(dir.path()).unwrap()).tool(tool).start();
        let got = runtime.block_on(session.call(haft_core::Call::new("1", "answer", json!({}))));
        prop_assert!(length(&got) <= max, "{} > {max}", length(&got));
        if let Some(value) = &got.structured {
            prop_assert!(value.to_string().chars().count() <= max);
        }
        prop_assert_eq!(got.is_error, reply.is_error);
    }
}
