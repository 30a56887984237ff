//! Tools that ask somebody: plans that are approved, what is allowed with them, and questions with answers.

use std::sync::{Arc, Mutex};

use haft_core::permissions::{ApprovalRequest, Approver, Decision, Rule};
use haft_core::plans::{PlanAnswer, PlanApprover, PlanRequest};
use haft_core::questions::{Answer, QuestionSet, Respondent};
use haft_core::{BoxFuture, Call, Claims, CommandLine, Engine, Mode, Reply, Resource, Session, Workspace};
use haft_dialects::Claude;
use haft_ops::{PlanPlace, Todos};
use haft_rules::{CallFacts, KnownTools, RuleBook, RuleJudge};
use serde_json::{Value, json};

/// An empty rule book that knows the tools of every dialect.
fn book() -> RuleBook {
    RuleBook::new(KnownTools::of(haft_dialects::all().iter().flat_map(|dialect| dialect.tools())))
}

/// A user with fixed answers, who records the questions.
#[derive(Clone)]
struct Person {
    decision: Decision,
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Approver for Person {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Decision, haft_core::Fault>> {
        self.asked.lock().unwrap().push(request);
        Box::pin(async { Ok(self.decision.clone()) })
    }
}

impl Respondent for Person {
    fn answer(&self, set: QuestionSet) -> BoxFuture<'_, Result<Vec<Answer>, haft_core::Fault>> {
        let answer = |at: usize| match at {
            0 => Answer::option(1),
            1 => Answer { chosen: vec![0, 1], other: Some("and more".to_owned()) },
            _ => Answer::other("neither"),
        };
        Box::pin(async move { Ok((0..set.questions.len()).map(answer).collect()) })
    }
}

/// A leader who approves plans asynchronously.
#[derive(Clone, Default)]
struct Leader(Arc<Mutex<Vec<PlanRequest>>>);

impl PlanApprover for Leader {
    fn submit(&self, plan: PlanRequest) -> BoxFuture<'_, Result<String, haft_core::Fault>> {
        self.0.lock().unwrap().push(plan);
        Box::pin(async { Ok("r-1".to_owned()) })
    }
}

struct Project {
    folder: tempfile::TempDir,
    session: Session,
    judge: Arc<RuleJudge>,
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Project {
    /// A project with these files.
    fn new(files: &[&str], decision: Decision, leader: Option<Leader>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let judge = Arc::new(RuleJudge::new(book(), None));
        let person = Person { decision, asked: Arc::default() };
        let asked = person.asked.clone();
        let mut engine = Engine::builder().judge(judge.clone()).approver(person.clone()).respondent(person);
        if let Some(leader) = leader {
            engine = engine.plan_approver(leader);
        }
        let workspace = Workspace::open(folder.path()).unwrap();
        let place = PlanPlace(Some(folder.path().join("plan.md")));
        let session = engine.build().session(workspace).dialect(Arc::new(Claude)).extension(place).start();
        Self { folder, session, judge, asked }
    }

    async fn call(&self, tool: &str, input: Value) -> Reply {
        self.session.call(Call::new("call", tool, input)).await
    }

    /// Enters plan mode and writes a plan.
    async fn plan(&self) {
        let reply = self.call("EnterPlanMode", json!({})).await;
        assert!(!reply.is_error, "{}", reply.full_text());
        assert_eq!(self.session.mode(), Mode::Plan);
        std::fs::write(self.folder.path().join("plan.md"), "1. Write a.txt\n").unwrap();
    }

    async fn leave(&self, wishes: &[&str]) -> Reply {
        let wishes: Vec<Value> = wishes.iter().map(|wish| json!({"tool": "Bash", "prompt": wish})).collect();
        self.call("ExitPlanMode", json!({"allowedPrompts": wishes})).await
    }

    /// Whether a command would run without approval.
    fn allows(&self, command: &str) -> bool {
        let claims = Claims::none().write(Resource::Command(CommandLine::new(command)));
        let workspace = self.session.workspace();
        let called = CallFacts { tool: "Bash", claims: &claims, workspace: &workspace };
        self.judge.rules(&self.session.context()).unwrap().rule_on(&called).is_some()
    }
}

#[tokio::test]
async fn an_approved_plan_allows_what_it_asked_for() {
    let project = Project::new(&["Cargo.toml"], Decision::AllowOnce, None);
    project.session.set_mode(Mode::AcceptEdits);
    project.plan().await;
    assert!(!project.allows("cargo test"));
    let reply = project.leave(&["run the tests", "Lint", "deploy it"]).await;
    assert!(!reply.is_error, "{}", reply.full_text());
    let asked = project.asked.lock().unwrap();
    let shown = &asked[0].preview.as_ref().unwrap().diff;
    for part in
        ["1. Write a.txt", "Bash(cargo test:*)", "Bash(cargo clippy:*)", "not allowed with it", "deploy it"]
    {
        assert!(shown.contains(part), "`{part}` is not in `{shown}`");
    }
    assert_eq!(asked[0].offered(), []);
    assert_eq!((project.session.mode(), project.session.plan_file()), (Mode::AcceptEdits, None));
    assert!(project.allows("cargo test --workspace") && project.allows("cargo clippy"));
    for other in ["cargo publish", "cargo run", "cargo test; rm -rf .", "git commit -m x", "cargo build"] {
        assert!(!project.allows(other), "{other}");
    }
    let told = reply.structured.unwrap();
    assert_eq!(told["notGranted"], json!(["deploy it"]));
    assert_eq!(told["granted"], json!(["Bash(cargo test:*)", "Bash(cargo clippy:*)"]));
}

#[tokio::test]
async fn a_refused_plan_stays_in_plan_mode_and_allows_nothing() {
    let no = Decision::Deny { feedback: Some("smaller steps".to_owned()) };
    let project = Project::new(&["Cargo.toml"], no, None);
    project.plan().await;
    let reply = project.leave(&["run tests"]).await;
    assert!(reply.is_error && reply.full_text().contains("smaller steps"), "{}", reply.full_text());
    assert_eq!((project.session.mode(), project.session.grants()), (Mode::Plan, vec![]));
}

#[tokio::test]
async fn a_plan_is_asked_about_every_time() {
    let project = Project::new(&[], Decision::AllowOnce, None);
    project.session.grant(Rule("ExitPlanMode".to_owned()));
    for times in 1..=2 {
        project.plan().await;
        assert!(!project.leave(&[]).await.is_error);
        assert_eq!(project.asked.lock().unwrap().len(), times);
    }
}

#[tokio::test]
async fn a_plan_for_a_leader_is_pending_and_the_user_is_not_asked() {
    let leader = Leader::default();
    let project = Project::new(&["go.mod"], Decision::AllowOnce, Some(leader.clone()));
    project.plan().await;
    let reply = project.leave(&["run tests"]).await;
    let told = reply.structured.unwrap();
    assert_eq!((&told["awaitingLeaderApproval"], &told["requestId"]), (&json!(true), &json!("r-1")));
    assert!(project.asked.lock().unwrap().is_empty());
    assert_eq!((project.session.mode(), project.session.grants()), (Mode::Plan, vec![]));
    assert!(leader.0.lock().unwrap()[0].plan.contains("1. Write a.txt"));
    let again = project.leave(&[]).await;
    assert!(again.is_error && again.full_text().contains("as `r-1`"), "{}", again.full_text());
    project.session.answer_plan("r-1", PlanAnswer::Approved).unwrap();
    assert_eq!(project.session.mode(), Mode::Default);
    assert!(project.allows("go test ./...") && !project.allows("go install x"));
}

/// The files of a project, a permission asked for, the commands it allows and those it must not.
type Meant = (&'static [&'static str], &'static str, &'static [&'static str], &'static [&'static str]);

/// For each kind of project: a permission asked for, what it allows, and what it must not.
#[tokio::test]
async fn chores_mean_no_more_than_they_say() {
    let table: [Meant; 12] = [
        (&["package.json"], "install dependencies", &["npm install", "npm ci"], &["npm install left-pad"]),
        (
            &["package.json"],
            "run tests",
            &["npm test", "npm run test -- a"],
            &["npm run deploy", "npm publish"],
        ),
        (&["package.json", "yarn.lock"], "build", &["yarn build"], &["npm run build", "yarn add x"]),
        (&["package.json", "pnpm-lock.yaml"], "lint", &["pnpm lint"], &["pnpm install"]),
        (&["pyproject.toml"], "run the test suite", &["pytest -q"], &["python -c 1", "pip install x"]),
        (&["requirements.txt"], "install deps", &["pip install -r requirements.txt"], &["pip install x"]),
        (&["go.mod"], "format the code", &["gofmt -w a.go"], &["go run ."]),
        (&["Cargo.toml"], "run tests and publish", &[], &["cargo test", "cargo publish"]),
        (&["Cargo.toml"], "install dependencies", &["cargo fetch"], &["cargo install ripgrep"]),
        (&[], "run tests", &[], &["cargo test", "npm test"]),
        (&[".git"], "commit", &["git add a.txt", "git commit -m x"], &["git push", "git commit --amend"]),
        (&["Cargo.toml"], "commit", &[], &["git commit -m x"]),
    ];
    for (files, wish, allowed, not_allowed) in table {
        let project = Project::new(files, Decision::AllowOnce, None);
        project.plan().await;
        assert!(!project.leave(&[wish]).await.is_error);
        for command in allowed {
            assert!(project.allows(command), "{files:?}: `{wish}` does not allow `{command}`");
        }
        for command in not_allowed {
            assert!(!project.allows(command), "{files:?}: `{wish}` allows `{command}`");
        }
    }
}

#[tokio::test]
async fn without_a_plan_file_the_plan_is_handed_over() {
    let project = Project::new(&[], Decision::AllowOnce, None);
    let session = project.session.engine().session(project.session.workspace());
    let session = session.dialect(Arc::new(Claude)).start();
    let call = |tool: &str, input: Value| session.call(Call::new("call", tool, input));
    let reply = call("EnterPlanMode", json!({})).await;
    assert!(reply.full_text().contains("as `plan`"), "{}", reply.full_text());
    assert!(call("ExitPlanMode", json!({})).await.is_error);
    assert!(!call("ExitPlanMode", json!({"plan": "1. Think"})).await.is_error);
    assert_eq!(project.asked.lock().unwrap()[0].preview.as_ref().unwrap().diff, "1. Think\n");
}

#[tokio::test]
async fn answers_are_listed_by_question() {
    let project = Project::new(&[], Decision::AllowOnce, None);
    let question = |text: &str, several: bool| {
        let option = |label: &str| json!({"label": label, "description": "…"});
        let options = [option("this"), option("that")];
        json!({"question": text, "header": "Which", "options": options, "multiSelect": several})
    };
    let questions = [question("A?", false), question("B?", true), question("C?", false)];
    let reply = project.call("AskUserQuestion", json!({"questions": questions})).await;
    assert_eq!(
        reply.full_text(),
        "the user answered:\n\"A?\": that\n\"B?\": this, that, and more\n\"C?\": neither"
    );
    let answers = &reply.structured.unwrap()["answers"];
    assert_eq!(*answers, json!({"A?": "that", "B?": "this, that, and more", "C?": "neither"}));
}

#[tokio::test]
async fn a_task_that_stays_on_the_list_is_the_same_task() {
    let project = Project::new(&[], Decision::AllowOnce, None);
    let todo = |content: &str, status: &str| json!({"content": content, "status": status});
    let first = json!({"todos": [todo("a", "pending"), todo("b", "pending")]});
    assert!(!project.call("TodoWrite", first).await.is_error);
    let before = Todos::of(&project.session);
    let second = json!({"todos": [todo("b", "in_progress"), todo("c", "pending")]});
    assert!(!project.call("TodoWrite", second).await.is_error);
    let now = Todos::of(&project.session);
    assert_eq!((&now[0].id, now.len()), (&before[1].id, 2));
    assert!(before.iter().all(|todo| todo.id != now[1].id));
    // A refused list changes nothing.
    let wrong = json!({"todos": [todo("x", "in_progress"), todo("y", "in_progress")]});
    assert!(project.call("TodoWrite", wrong).await.is_error);
    assert_eq!(Todos::of(&project.session), now);
    assert!(now.iter().all(|todo| todo.id.len() == 36 && todo.id.as_bytes()[14] == b'4'));
}
