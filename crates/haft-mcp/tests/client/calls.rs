//! Calls of a server's tools: replies, progress, and the server's requests meanwhile.

use std::sync::Arc;

use haft_core::events::{EventKind, EventPayload};
use haft_core::limits::ResultStore;
use haft_core::questions::{Answer, QuestionSet, Respondent};
use haft_core::replies::Content;
use haft_core::{BoxFuture, FaultKind, Store};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_tools_are_the_sessions() {
    let Some(world) = World::fault("plain").await else { return };
    let spec = world.session.tools().spec("mcp__fault__echo").unwrap();
    assert_eq!((&*spec.description, spec.category), ("Says it again", haft_core::Category::Mcp));
    assert!(!spec.read_only, "a server's word alone");
    assert_eq!(world.text("echo", json!({"text": "hello"})).await, "hello");
    assert_eq!(world.text("add", json!({"a": 1, "b": "2"})).await.lines().next(), Some("3"));
    let stats = world.session.engine().stats().snapshot();
    assert!(stats.contains_key("mcp__fault__echo"), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_input_is_checked_before_the_server_sees_it() {
    let Some(world) = World::fault("plain").await else { return };
    let reply = world.call("echo", json!({})).await;
    assert_eq!(reply.fault().unwrap().kind(), FaultKind::InvalidInput);
    assert!(reply.full_text().contains("`text` is missing"), "{}", reply.full_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn results_become_replies() {
    let Some(world) = World::fault("plain").await else { return };
    let picture = world.call("picture", json!({})).await;
    assert!(
        matches!(&picture.content[0].content, Content::Image { media_type, .. } if media_type == "image/png")
    );
    let sound = world.call("sound", json!({})).await;
    assert!(matches!(&sound.content[0].content, Content::Audio { data, .. } if data == b"RIFF"), "{sound:?}");
    let embedded = world.call("embedded", json!({})).await;
    assert_eq!(embedded.full_text(), "inside");
    assert!(matches!(&embedded.content[0].content, Content::Resource { uri, .. } if uri == "test://a"));
    assert!(
        matches!(&embedded.content[1].content, Content::Link { uri, name, .. } if uri == "test://b" && name == "b")
    );
    let structured = world.call("structured", json!({})).await;
    assert_eq!(structured.structured, Some(json!({"degrees": 21})));
    let fail = world.call("fail", json!({})).await;
    assert!(fail.is_error);
    assert_eq!(fail.fault().unwrap().message(), "no such city: Atlantis");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_content_becomes_a_line_of_text() {
    let Some(world) = World::fault("plain").await else { return };
    let reply = world.call("parts", json!({})).await;
    assert!(!reply.is_error, "{}", reply.full_text());
    let parts: Vec<String> = reply.content.iter().map(|block| format!("{:?}", block.content)).collect();
    assert_eq!(parts.len(), 5, "{parts:?}");
    for (part, word) in
        parts.iter().zip(["before", "`hologram` is not shown", "`text` cannot", "without a type", "after"])
    {
        assert!(part.contains(word), "`{word}` is not in: {part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_cut_and_stored_like_every_reply() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = fault("fault", "plain") else { return };
    let kept = ResultStore::new(Store::at(folder.path()), Duration::from_secs(3600), 10 << 20);
    let world = World::with(vec![server], Engine::builder().keep_results(kept));
    world.servers.start_all().await;
    let text = world.text("big", json!({"bytes": 500_000})).await;
    assert!(text.chars().count() <= haft_core::DEFAULT_MAX_RESULT, "{}", text.len());
    let whole =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.metadata().unwrap().len());
    assert_eq!(whole.max(), Some(500_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_logs_belong_to_the_call() {
    let Some(world) = World::fault("plain").await else { return };
    let activity = world.session.engine().activity();
    let mut events = activity.subscribe_to(&[EventKind::Progress, EventKind::Log]);
    world.text("progress", json!({})).await;
    world.text("log", json!({})).await;
    let mut received = Vec::new();
    while received.len() < 4 {
        let event = tokio::time::timeout(TIMEOUT, events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing more after {received:?}")).unwrap();
        assert_eq!(&*event.call, "1");
        received.push(match &event.payload {
            EventPayload::Progress(progress) => {
                format!("{}/{:?} {}", progress.done, progress.total, progress.message)
            }
            EventPayload::Log { source, level, text } => format!("{source} {level} {text}"),
            other => format!("{other:?}"),
        });
    }
    received.sort();
    let expected =
        ["1/Some(3) step 1", "2/Some(3) step 2", "3/Some(3) step 3", r#"fault/disk warning {"left":"3 GB"}"#];
    assert_eq!(received, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_the_roots_and_no_sampling() {
    let Some(world) = World::fault("plain").await else { return };
    let roots: Value = serde_json::from_str(&world.text("roots", json!({})).await).unwrap();
    assert_eq!(roots["roots"][0]["uri"], format!("file://{}/", world.dir.display()));
    assert_eq!(roots["told"], json!(["notifications/initialized"]));
    std::fs::create_dir(world.dir.join("part")).unwrap();
    world.session.set_focus(Some("part")).unwrap();
    let roots: Value = serde_json::from_str(&world.text("roots", json!({})).await).unwrap();
    assert_eq!(roots["roots"][0]["uri"], format!("file://{}/part/", world.dir.display()));
    assert_eq!(roots["told"][1], "notifications/roots/list_changed");
    let refused = world.text("sample", json!({})).await;
    assert!(refused.contains("no model to ask"), "{refused}");
}

/// Chooses the first option, or answers 7.
struct Agrees;

impl Respondent for Agrees {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, haft_core::Fault>> {
        let answer = |options: usize| if options == 0 { Answer::other("7") } else { Answer::option(0) };
        let answers = set.questions.iter().map(|question| answer(question.options.len())).collect();
        Box::pin(std::future::ready(Ok(answers)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_ask_the_user() {
    let Some(server) = fault("fault", "plain") else { return };
    let world = World::with(vec![server], Engine::builder().respondent(Agrees));
    world.servers.start_all().await;
    let answered: Value = serde_json::from_str(&world.text("ask", json!({})).await).unwrap();
    assert_eq!(answered["action"], "accept");
    assert_eq!(answered["content"], json!({"colour": "green", "count": 7}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_pesters_the_user_is_declined() {
    let Some(server) = fault("fault", "plain") else { return };
    let world = World::with(vec![server], Engine::builder().respondent(Agrees));
    world.servers.start_all().await;
    let answered: Vec<String> = serde_json::from_str(&world.text("pester", json!({})).await).unwrap();
    assert!(answered[..10].iter().all(|answer| answer == "asked"), "{answered:?}");
    let declined = "haft declines questions of this server: it has asked 10 questions within 60 seconds";
    assert!(answered[10..].iter().all(|answer| answer == declined), "{answered:?}");
    assert_eq!(answered.len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_user_a_question_is_declined() {
    let Some(world) = World::fault("plain").await else { return };
    let answered = world.text("ask", json!({})).await;
    assert!(answered.contains("decline"), "{answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_are_listed_and_read() {
    let Some(world) = World::fault("plain").await else { return };
    let call = |name: &str, input: Value| world.session.call(Call::new("1", name, input));
    let listed = call("ListMcpResources", json!({})).await;
    assert_eq!(
        listed.structured.as_ref().unwrap()["resources"][0]["uri"],
        "test://a",
        "{}",
        listed.full_text()
    );
    let read = call("ReadMcpResource", json!({"server": "fault", "uri": "test://a"})).await;
    assert_eq!(read.full_text(), "the content of a");
    let missing = call("ReadMcpResource", json!({"server": "fault", "uri": "test://z"})).await;
    assert_eq!(missing.fault().unwrap().kind(), FaultKind::NotFound);
    let unknown = call("ReadMcpResource", json!({"server": "flt", "uri": "test://a"})).await;
    assert!(unknown.full_text().contains("`fault`"), "{}", unknown.full_text());
    let prompts = world.servers.prompts("fault").await.unwrap();
    assert_eq!((prompts[0].name.as_str(), prompts[0].arguments[0].required), ("greet", true));
    let who = json!({"who": "Ada"}).as_object().unwrap().clone();
    let messages = world.servers.prompt("fault", "greet", who).await.unwrap();
    assert!(serde_json::to_string(&messages).unwrap().contains("Greet Ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_only_configured_variables() {
    let Some(mut server) = fault("fault", "plain") else { return };
    if let ServerTransport::Command { env, pass_env, .. } = &mut server.transport {
        env.insert("GIVEN".to_owned(), "1".to_owned());
        pass_env.push("CARGO_PKG_NAME".to_owned());
    }
    let world = World::with(vec![server], Engine::builder());
    world.servers.start_all().await;
    let env: BTreeMap<String, String> =
        serde_json::from_str(&world.text("environment", json!({})).await).unwrap();
    assert_eq!(env["GIVEN"], "1");
    assert!(env.contains_key("PATH") && env.contains_key("CARGO_PKG_NAME"), "{env:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!env.contains_key("CARGO_MANIFEST_DIR"), "{env:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_call_cancels_it_at_the_server() {
    let Some(world) = World::fault("plain").await else { return };
    let mark = world.dir.join("mark");
    let input = json!({"seconds": 600, "mark": mark.to_str().unwrap()});
    let (handle, work) = world.session.start_call(Call::new("1", "mcp__fault__slow", input));
    let mut started = world.session.engine().activity().subscribe_to(&[EventKind::Progress]);
    let work = tokio::spawn(work);
    tokio::time::timeout(TIMEOUT, started.next()).await.unwrap();
    handle.cancel();
    let reply = tokio::time::timeout(TIMEOUT, work).await.unwrap().unwrap();
    assert_eq!(reply.fault().unwrap().kind(), FaultKind::Cancelled);
    until("the server has heard of it", || mark.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_times_out() {
    let Some(mut server) = fault("fault", "plain") else { return };
    server.limits.call = Duration::from_millis(300);
    let world = World::with(vec![server], Engine::builder());
    world.servers.start_all().await;
    for tool in ["never", "half"] {
        let reply = world.call(tool, json!({})).await;
        assert_eq!(reply.fault().unwrap().kind(), FaultKind::Timeout, "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_calls_run_in_parallel() {
    let Some(world) = World::fault("plain").await else { return };
    let world = Arc::new(world);
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let world = world.clone();
            tokio::spawn(async move { world.text("echo", json!({"text": format!("t{number}")})).await })
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), format!("t{number}"));
    }
}
