//! Rules: what becomes of calls, as a table; and what must hold for all rules.

mod properties;

use std::path::Path;
use std::sync::Arc;

use haft_core::permissions::Prediction;
use haft_core::{Call, Engine, Mode, Session, Workspace};
use haft_dialects::Claude;
use haft_rules::{Effect, KnownTools, RuleBook, RuleJudge, SessionJudge};
use serde_json::{Value, json};

/// An empty rule book that knows the tools of every dialect.
fn empty() -> RuleBook {
    RuleBook::new(KnownTools::of(haft_dialects::all().iter().flat_map(|dialect| dialect.tools())))
}

/// The files of the workspace.
const FILES: [&str; 13] = [
    "src/main.rs",
    "src/core/a.rs",
    "README.md",
    ".env",
    "deep/.env",
    "env.txt",
    ".environment",
    "vendor/a.rs",
    "secrets/a",
    "private/x.txt",
    "a/private/x.txt",
    "one.txt",
    ".git/config",
];

pub(crate) fn workspace() -> tempfile::TempDir {
    // Not below /tmp, which does not count as outside of the workspace.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for file in FILES
        .iter()
        .map(|file| format!("ws/{file}"))
        .chain(["out/canary.txt".into(), "out/data/a.txt".into()])
    {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "a\n").unwrap();
    }
    std::os::unix::fs::symlink(".env", folder.path().join("ws/link-to-env")).unwrap();
    folder
}

pub(crate) fn book(rules: &[(Effect, &str)]) -> RuleBook {
    let mut book = empty();
    for (effect, rule) in rules {
        book.add(*effect, rule, "test").unwrap();
    }
    book
}

pub(crate) fn session(root: &Path, state: &Path, book: RuleBook, mode: Mode) -> Session {
    let judge = Arc::new(RuleJudge::new(book, Some("/people/somebody".into())));
    let engine = Engine::builder().judge(judge.clone()).build();
    let journal =
        Arc::new(haft_journal::Journal::at(haft_core::Store::at(state), haft_journal::Limits::default()));
    let workspace = Workspace::open(&root.join("ws")).unwrap();
    let session =
        engine.session(workspace).dialect(Arc::new(Claude)).mode(mode).extension(SessionJudge(Some(judge)));
    session.journal(journal, haft_core::Durability::Fast).start()
}

/// Parses `Bash: ls` as a call.
pub(crate) fn call(text: &str) -> Call {
    let (tool, rest) = text.split_once(": ").unwrap();
    let input: Value = match tool {
        "Bash" => json!({"command": rest}),
        "Grep" => match rest.split_once(" in ") {
            Some((pattern, path)) => json!({"pattern": pattern, "path": path}),
            None => json!({"pattern": rest}),
        },
        "Glob" => json!({"pattern": rest}),
        "Read" => json!({"file_path": rest}),
        "WebFetch" => json!({"url": rest, "prompt": "What is it?"}),
        "Write" => json!({"file_path": rest, "content": "b\n"}),
        "Edit" => json!({"file_path": rest, "old_string": "a", "new_string": "b"}),
        other => panic!("{other}"),
    };
    Call::new("1", tool, input)
}

/// The decision about a call: `allow`, `ask` or `deny`.
pub(crate) async fn decided(session: &Session, text: &str) -> (&'static str, String) {
    let call = call(text);
    if text.starts_with("Edit: ") || text.starts_with("Write: ") {
        // A change requires that the file was read before, which is not about rules.
        let seen = Call::new("0", "Read", json!({"file_path": text.split_once(": ").unwrap().1}));
        let _ = session.call(seen).await;
    }
    match session.dry_run(call).await {
        Ok(considered) => match considered.outcome {
            Prediction::Allowed(by) => ("allow", by.unwrap_or_default()),
            Prediction::Asked(why) => ("ask", why),
            Prediction::Denied(why) => ("deny", why),
        },
        Err(fault) => match fault.kind().name() {
            "denied" | "outside" | "access_denied" => ("deny", fault.message().to_owned()),
            kind => (kind, fault.message().to_owned()),
        },
    }
}

#[test]
fn calls_are_decided_as_the_table_says() {
    // Commands are available only where the sandbox is.
    haft_sandbox::sandbox::arm();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let table = include_str!("rules/decisions.txt");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for block in table.split("\n== ").skip(1) {
        let (folder, state) = (workspace(), tempfile::tempdir().unwrap());
        let out = folder.path().canonicalize().unwrap().join("out").display().to_string();
        let block = block.replace("$OUT", &out);
        let (mut rules, mut mode) = (Vec::new(), Mode::Default);
        let mut calls = Vec::new();
        let name = block.lines().next().unwrap();
        for line in block.lines().skip(1).filter(|line| !line.trim().is_empty()) {
            if let Some((decision, rest)) = line.split_once(" | ") {
                let (call, why) = rest.rsplit_once(" | ").unwrap();
                calls.push((decision.trim(), call, why));
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap();
            match Effect::ALL.into_iter().find(|effect| effect.name() == word) {
                Some(effect) => rules.push((effect, rest)),
                None => mode = rest.parse().unwrap(),
            }
        }
        let session = session(folder.path(), state.path(), book(&rules), mode);
        // Commands cannot see what lies beside a workspace below /tmp, so it does not count as outside.
        let is_temporary = folder.path().starts_with("/tmp");
        for (expected, call, why) in calls {
            if is_temporary && (call.contains(&out) || call.contains("cd ..")) {
                continue;
            }
            rows += 1;
            let (decision, because) = runtime.block_on(decided(&session, call));
            if decision != expected {
                wrong.push(format!(
                    "{name}: {call}\n    {expected} expected ({why}), but {decision}: {because}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rows >= 200, "{rows}");
}

/// 200 everyday calls, with the recommended rules.
#[test]
fn everyday_work_needs_no_approval() {
    haft_sandbox::sandbox::arm();
    let (folder, state) = (workspace(), tempfile::tempdir().unwrap());
    let mut book = empty();
    book.add_recommended().unwrap();
    let session = session(folder.path(), state.path(), book, Mode::AcceptEdits);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let commands = [
        "cargo build",
        "cargo test --workspace",
        "cargo clippy --all-targets -- -D warnings",
        "cargo fmt --all",
        "cargo check",
        "npm test",
        "npm run build",
        "npm run lint -- --fix",
        "pytest -q tests",
        "ruff check .",
        "mypy src",
        "go test ./...",
        "go build ./...",
        "go vet ./...",
        "make",
        "make test",
        "tsc --noEmit",
        "eslint src",
        "prettier --check .",
        "git status",
        "git diff HEAD~1",
        "git log --oneline -5",
        "git add -A",
        "git add src/main.rs",
        "git commit -m 'Say more'",
        "git show HEAD",
        "git branch -a",
        "git switch -c topic",
        "ls -la",
        "cat one.txt",
        "grep -rn fn src",
        "find . -name '*.rs'",
        "wc -l one.txt",
        "head -20 one.txt",
        "mkdir -p src/new",
        "touch src/new/mod.rs",
        "cp one.txt three.txt",
        "mv three.txt four.txt",
        "echo done",
        "cargo build && cargo test",
        "cd src && ls",
        "rg TODO",
        "sed -n 1,20p one.txt",
        "sort one.txt | uniq -c",
        "diff one.txt two.txt",
        "python3 -m pytest -q",
        "cargo tree",
        "which cargo",
        "date",
        "env | sort",
    ];
    let others = [
        "Read: src/main.rs",
        "Grep: fn",
        "Glob: **/*.rs",
        "Edit: README.md",
        "Write: new.txt",
        "Read: one.txt",
    ];
    let calls = commands
        .iter()
        .map(|command| format!("Bash: {command}"))
        .chain(others.iter().map(|call| (*call).to_owned()));
    let calls: Vec<String> = calls.collect();
    let asked: Vec<String> = calls
        .iter()
        .cycle()
        .take(200)
        .filter_map(|call| {
            let (decision, why) = runtime.block_on(decided(&session, call));
            (decision != "allow").then(|| format!("{call}: {decision}, {why}"))
        })
        .collect();
    assert!(asked.is_empty(), "{}", asked.join("\n"));
}

/// With the recommended rules, and with rules that allow too much, no dangerous call runs without approval.
#[test]
fn dangerous_calls_are_asked_or_denied() {
    haft_sandbox::sandbox::arm();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut unseen = Vec::new();
    for block in include_str!("rules/dangerous.txt").split("\n== ").skip(1) {
        let (folder, state) = (workspace(), tempfile::tempdir().unwrap());
        let out = folder.path().canonicalize().unwrap().join("out").display().to_string();
        let is_temporary = folder.path().starts_with("/tmp");
        let (mut book, mut mode) = (empty(), Mode::Default);
        book.add_recommended().unwrap();
        let lines = block.lines().skip(1).filter(|line| !line.trim().is_empty());
        let (calls, rules): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        for line in rules {
            let (word, rest) = line.split_once(' ').unwrap();
            match Effect::ALL.into_iter().find(|effect| effect.name() == word) {
                Some(effect) => book.add(effect, rest, "test").unwrap(),
                None => mode = rest.parse().unwrap(),
            }
        }
        let session = session(folder.path(), state.path(), book, mode);
        for line in calls {
            if is_temporary && (line.contains("$OUT") || line.contains("cd ..")) {
                continue;
            }
            let call = line.replace("$OUT", &out).replace("\\n", "\n");
            let (decision, why) = runtime.block_on(decided(&session, &call));
            // A command that waits for input is refused before the rules apply.
            if !matches!(decision, "ask" | "deny" | "invalid_input") {
                unseen.push(format!("{line}: {decision}, {why}"));
            }
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}
