//! Shared by the tests: a session in a temporary folder, scripted approvers and judges, and a tool that writes files.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::events::{Event, EventPayload, Subscription};
use haft_core::hooks::{Hook, HookAnswer, HookEvent, HookInput};
use haft_core::permissions::{
    ApprovalRequest, Approver, Choice, Decision, Judge, Question, Rule, Scope, Verdict,
};
use haft_core::sessions::SessionBuilder;
use haft_core::{
    AbsPath, BoxFuture, Call, Category, Claims, Context, Engine, EngineBuilder, Fault, Function, Operation,
    Preview, Reply, Resource, Session, Spec, Tool, Typed, Workspace, function,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A session in a temporary folder.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) engine: Engine,
    pub(crate) session: Session,
}

impl Rig {
    /// A session with the tool `note`, configured further by the closures.
    pub(crate) fn new(
        engine: impl FnOnce(EngineBuilder) -> EngineBuilder,
        session: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Self {
        let dir = TempDir::new().unwrap();
        let engine = engine(Engine::builder().judge(Grants)).build();
        let workspace = Workspace::open(dir.path()).unwrap();
        let session = session(engine.session(workspace).tool(Typed::<Note>::new())).start();
        Self { dir, engine, session }
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Reply {
        within(self.session.call(Call::new("call", tool, input))).await
    }

    pub(crate) async fn note(&self, path: &str, text: &str) -> Reply {
        self.call("note", json!({"path": path, "text": text})).await
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// The kind of a failure.
pub(crate) fn kind(reply: &Reply) -> &str {
    assert!(reply.is_error, "it succeeded: {}", reply.full_text());
    reply.structured.as_ref().and_then(|value| value["fault"]["kind"].as_str()).expect("a fault")
}

#[track_caller]
pub(crate) fn assert_says(reply: &Reply, words: &[&str]) {
    let text = reply.full_text();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in `{text}`");
    }
}

#[track_caller]
pub(crate) fn assert_ok(reply: &Reply) {
    assert!(!reply.is_error, "it failed: {}", reply.full_text());
}

/// Writes a file. Checks first that there is something to write.
pub(crate) struct Note;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct NoteInput {
    /// The file
    pub(crate) path: String,
    /// What to write
    pub(crate) text: String,
    /// How often
    #[serde(default)]
    pub(crate) times: Option<u32>,
}

pub(crate) struct WriteNote {
    path: AbsPath,
    text: String,
}

/// What happened to the calls of `note` in a session, in order.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<String>>);

pub(crate) fn log(cx: &Context, what: impl Into<String>) {
    cx.session().extension::<Log>().0.lock().unwrap().push(what.into());
}

pub(crate) fn logged(session: &Session) -> Vec<String> {
    session.extension::<Log>().0.lock().unwrap().clone()
}

impl Operation for WriteNote {
    type Output = usize;

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        log(cx, format!("check {}", self.text));
        if self.text.is_empty() {
            return Err(Fault::invalid("there is nothing to write"));
        }
        Ok(Some(Preview::new(format!("+{}", self.text))))
    }

    fn fingerprint(&self, _cx: &Context) -> Option<u64> {
        Some(7)
    }

    async fn run(self, cx: &Context) -> Result<usize, Fault> {
        log(cx, format!("run {}", self.text));
        std::fs::write(self.path.as_path(), &self.text).map_err(|error| Fault::failed(error.to_string()))?;
        Ok(self.text.len())
    }
}

impl Tool for Note {
    const NAME: &'static str = "note";
    const DESCRIPTION: &'static str = "Writes a note. It is kept in a file";
    type Input = NoteInput;
    type Op = WriteNote;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File)
    }

    fn lower(input: &NoteInput, cx: &Context) -> Result<WriteNote, Fault> {
        let path = cx.workspace().resolve(&cx.cwd(), &input.path)?.path;
        Ok(WriteNote { path, text: input.text.repeat(input.times.unwrap_or(1) as usize) })
    }

    fn render(input: &NoteInput, output: usize, _cx: &Context) -> Result<Reply, Fault> {
        Ok(Reply::text(format!("wrote {output} bytes to {}", input.path)))
    }

    fn preview_use(input: &NoteInput) -> Option<String> {
        Some(format!("write {}", input.path))
    }
}

/// Any arguments at all.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct Any {
    /// A word
    #[serde(default)]
    pub(crate) word: String,
}

/// A tool that changes nothing and answers with its word.
pub(crate) fn echo() -> Function<Any> {
    function("echo", "Says a word again", async |input: Any, _cx| input.word).read_only()
}

/// An approver that answers by a script, and remembers the requests.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<(VecDeque<Answer>, Vec<ApprovalRequest>)>>);

pub(crate) enum Answer {
    Say(Decision),
    /// Allow always, by the rule that was offered.
    Always,
    Fail(&'static str),
    Panic,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self(Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn say(decisions: impl IntoIterator<Item = Decision>) -> Self {
        Self::new(decisions.into_iter().map(Answer::Say))
    }

    pub(crate) fn asked(&self) -> Vec<ApprovalRequest> {
        self.0.lock().unwrap().1.clone()
    }

    pub(crate) fn times(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }
}

impl Approver for Script {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, Fault>> {
        Box::pin(async move {
            let offered = request.choices.iter().find_map(|choice| match choice {
                Choice::AllowAlways(rules) => Some(rules.clone()),
                _ => None,
            });
            let answer = {
                let mut script = self.0.lock().unwrap();
                script.1.push(request);
                script.0.pop_front()
            };
            match answer {
                Some(Answer::Say(decision)) => Ok(decision),
                Some(Answer::Always) => Ok(Decision::AllowAlways {
                    rules: offered.expect("it is not offered"),
                    scope: Scope::Session,
                }),
                Some(Answer::Fail(error)) => Err(Fault::failed(error)),
                Some(Answer::Panic) => panic!("the approver broke"),
                None => Err("the script is over".into()),
            }
        })
    }
}

/// A judge made of a closure.
pub(crate) struct Says<F>(pub(crate) F);

impl<F> Judge for Says<F>
where
    F: Fn(&Question<'_>) -> Result<Verdict, Fault> + Send + Sync,
{
    fn name(&self) -> &str {
        "the rule book"
    }

    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault> {
        (self.0)(question)
    }
}

/// A judge that offers `tool(what it writes)` and allows what was granted.
pub(crate) struct Grants;

impl Judge for Grants {
    fn name(&self) -> &str {
        "the grants"
    }

    fn judge(&self, question: &Question<'_>) -> Result<Verdict, Fault> {
        let granted = question.cx.session().grants();
        let covering = self.offer(question);
        let is_granted = !covering.is_empty() && covering.iter().all(|rule| granted.contains(rule));
        Ok(match is_granted {
            true => Verdict::Allow { by: covering[0].to_string(), exactly: false },
            false => Verdict::Abstain,
        })
    }

    fn offer(&self, question: &Question<'_>) -> Vec<Rule> {
        let tool = &question.spec.name;
        question.claims.iter().map(|(_, resource)| Rule(format!("{tool}({resource})"))).collect()
    }

    fn remember(&self, rules: &[Rule], _scope: Scope, cx: &Context) -> Result<(), Fault> {
        rules.iter().for_each(|rule| cx.session().grant(rule.clone()));
        Ok(())
    }
}

/// A judge that always gives the same verdict.
pub(crate) fn verdict(verdict: Verdict) -> impl Judge {
    Says(move |_: &Question<'_>| Ok(verdict.clone()))
}

/// A hook made of a closure; it records its inputs.
#[derive(Clone)]
pub(crate) struct TestHook {
    name: &'static str,
    event: HookEvent,
    inputs: Arc<Mutex<Vec<Value>>>,
    answer: Arc<Answers>,
}

type Answers = dyn Fn(&HookInput<'_>, &Context) -> Result<HookAnswer, Fault> + Send + Sync;

impl TestHook {
    pub(crate) fn new(
        name: &'static str,
        event: HookEvent,
        answer: impl Fn(&HookInput<'_>, &Context) -> Result<HookAnswer, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self { name, event, inputs: Arc::default(), answer: Arc::new(answer) }
    }

    pub(crate) fn before(answer: HookAnswer) -> Self {
        Self::new("listener", HookEvent::PreToolUse, move |_, _| Ok(answer.clone()))
    }

    pub(crate) fn inputs(&self) -> Vec<Value> {
        self.inputs.lock().unwrap().clone()
    }
}

impl Hook for TestHook {
    fn name(&self) -> &str {
        self.name
    }

    fn wants(&self, event: HookEvent, _tool: &str) -> bool {
        event == self.event
    }

    fn call<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<HookAnswer, Fault>> {
        self.inputs.lock().unwrap().push(serde_json::to_value(input).unwrap());
        Box::pin(async move {
            // Other tasks can run while a hook does.
            tokio::task::yield_now().await;
            (self.answer)(input, cx)
        })
    }
}

/// All events so far.
pub(crate) fn drain(events: &mut Subscription) -> Vec<Arc<Event>> {
    std::iter::from_fn(|| events.try_next()).collect()
}

/// The faults among the events.
pub(crate) fn faults(events: &[Arc<Event>]) -> Vec<Fault> {
    events
        .iter()
        .filter_map(|event| match &event.payload {
            EventPayload::Fault(fault) => Some(fault.clone()),
            _ => None,
        })
        .collect()
}

/// Every call that started ended exactly once, and none ended that did not start.
#[track_caller]
pub(crate) fn assert_each_ended_once(events: &[Arc<Event>]) {
    let ids = |wanted: fn(&EventPayload) -> bool| {
        let mut ids: Vec<_> =
            events.iter().filter(|event| wanted(&event.payload)).map(|event| event.call.clone()).collect();
        ids.sort();
        ids
    };
    let started = ids(|what| matches!(what, EventPayload::Started { .. }));
    let ended = ids(|what| matches!(what, EventPayload::Ended { .. }));
    assert!(!started.is_empty());
    assert_eq!(started, ended);
}

/// How many times the call `1` has ended, by the events so far.
pub(crate) fn logged_ends(events: &mut Subscription) -> usize {
    let ended = |event: &Arc<haft_core::events::Event>| {
        matches!(event.payload, EventPayload::Ended { .. }) && &*event.call == "1"
    };
    drain(events).iter().filter(|event| ended(event)).count()
}
