//! Converts the permissions that a plan requests in words, such as "run the tests", to rules. It accepts only a fixed list
//! of phrases, and only for kinds of projects whose commands it knows, so that a rule never allows more than the words say.
//! Knows nothing of approval.

use std::ffi::OsStr;

use haft_core::Context;
use haft_core::permissions::Rule;

/// A permission that a plan requests, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Name of the tool that would run the commands.
    pub tool: String,
    /// What the tool would do, in words.
    pub meaning: String,
}

/// A requested permission and the rules that express it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The request.
    pub wish: Wish,
    /// Rules for the commands of this project.
    pub rules: Vec<Rule>,
}

/// A routine task that most projects have a command for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chore {
    Test,
    Build,
    Check,
    Lint,
    Format,
    Install,
    Commit,
}

/// Words that do not change the meaning of a phrase.
const FILLERS: [&str; 12] = [
    "run",
    "the",
    "all",
    "a",
    "project",
    "project's",
    "projects",
    "code",
    "please",
    "existing",
    "your",
    "our",
];

/// Chores by phrase, without fillers. A phrase has to match completely: one with further words may mean something else.
const MEANINGS: [(&str, Chore); 32] = [
    ("test", Chore::Test),
    ("tests", Chore::Test),
    ("test suite", Chore::Test),
    ("unit test", Chore::Test),
    ("unit tests", Chore::Test),
    ("integration tests", Chore::Test),
    ("build", Chore::Build),
    ("compile", Chore::Build),
    ("check", Chore::Check),
    ("checks", Chore::Check),
    ("type check", Chore::Check),
    ("type checks", Chore::Check),
    ("typecheck", Chore::Check),
    ("type checker", Chore::Check),
    ("lint", Chore::Lint),
    ("lints", Chore::Lint),
    ("linter", Chore::Lint),
    ("linters", Chore::Lint),
    ("linting", Chore::Lint),
    ("format", Chore::Format),
    ("formatter", Chore::Format),
    ("formatting", Chore::Format),
    ("install dependencies", Chore::Install),
    ("install deps", Chore::Install),
    ("install packages", Chore::Install),
    ("dependencies install", Chore::Install),
    ("fetch dependencies", Chore::Install),
    ("commit", Chore::Commit),
    ("commits", Chore::Commit),
    ("commit changes", Chore::Commit),
    ("git commit", Chore::Commit),
    ("create commit", Chore::Commit),
];

/// A kind of project: the file that identifies it, and the command patterns of each chore.
type ProjectCommands = (&'static str, &'static [(Chore, &'static [&'static str])]);

/// Commands of each kind of project. Patterns that install have no wildcard: a prefix would allow to install anything.
const PROJECTS: [ProjectCommands; 9] = [
    (
        "Cargo.toml",
        &[
            (Chore::Test, &["cargo test:*"]),
            (Chore::Build, &["cargo build:*"]),
            (Chore::Check, &["cargo check:*"]),
            (Chore::Lint, &["cargo clippy:*"]),
            (Chore::Format, &["cargo fmt:*"]),
            (Chore::Install, &["cargo fetch"]),
        ],
    ),
    (
        "package-lock.json",
        &[
            (Chore::Test, &["npm test:*", "npm run test:*"]),
            (Chore::Build, &["npm run build:*"]),
            (Chore::Check, &["npm run typecheck:*"]),
            (Chore::Lint, &["npm run lint:*"]),
            (Chore::Format, &["npm run format:*"]),
            (Chore::Install, &["npm install", "npm ci"]),
        ],
    ),
    (
        "pnpm-lock.yaml",
        &[
            (Chore::Test, &["pnpm test:*", "pnpm run test:*"]),
            (Chore::Build, &["pnpm build:*", "pnpm run build:*"]),
            (Chore::Check, &["pnpm run typecheck:*"]),
            (Chore::Lint, &["pnpm lint:*", "pnpm run lint:*"]),
            (Chore::Format, &["pnpm run format:*"]),
            (Chore::Install, &["pnpm install"]),
        ],
    ),
    (
        "yarn.lock",
        &[
            (Chore::Test, &["yarn test:*", "yarn run test:*"]),
            (Chore::Build, &["yarn build:*", "yarn run build:*"]),
            (Chore::Check, &["yarn run typecheck:*"]),
            (Chore::Lint, &["yarn lint:*", "yarn run lint:*"]),
            (Chore::Format, &["yarn run format:*"]),
            (Chore::Install, &["yarn install"]),
        ],
    ),
    (
        "pyproject.toml",
        &[
            (Chore::Test, &["pytest:*", "python -m pytest:*", "python3 -m pytest:*"]),
            (Chore::Check, &["mypy:*"]),
            (Chore::Lint, &["ruff check:*"]),
            (Chore::Format, &["ruff format:*"]),
        ],
    ),
    ("uv.lock", &[(Chore::Test, &["uv run pytest:*"]), (Chore::Install, &["uv sync"])]),
    ("requirements.txt", &[(Chore::Install, &["pip install -r requirements.txt"])]),
    (
        "go.mod",
        &[
            (Chore::Test, &["go test:*"]),
            (Chore::Build, &["go build:*"]),
            (Chore::Check, &["go vet:*"]),
            (Chore::Lint, &["go vet:*"]),
            (Chore::Format, &["go fmt:*", "gofmt -w:*"]),
            (Chore::Install, &["go mod download"]),
        ],
    ),
    (".git", &[(Chore::Commit, &["git add:*", "git commit -m:*"])]),
];

/// Splits the requests into those that rules express in this project and those that none does.
pub(super) fn grant(wishes: &[Wish], cx: &Context) -> (Vec<Granted>, Vec<Wish>) {
    let workspace = cx.session_workspace();
    let is_there = |name: &str| workspace.stat(&workspace.root().child(OsStr::new(name))).is_ok();
    let mut projects: Vec<&ProjectCommands> = PROJECTS.iter().filter(|(file, _)| is_there(file)).collect();
    // A package without a lock file of another package manager uses npm.
    let has_other_manager =
        projects.iter().any(|(file, _)| *file == "pnpm-lock.yaml" || *file == "yarn.lock");
    if is_there("package.json") && !has_other_manager && !is_there("package-lock.json") {
        projects.extend(PROJECTS.iter().find(|(file, _)| *file == "package-lock.json"));
    }
    let (mut granted, mut not_granted) = (Vec::new(), Vec::new());
    for wish in wishes {
        let chore = chore(&wish.meaning);
        let commands =
            |project: &&ProjectCommands| project.1.iter().filter(|(other, _)| Some(*other) == chore);
        let patterns = projects.iter().flat_map(commands).flat_map(|(_, patterns)| patterns.iter());
        let rules: Vec<Rule> = patterns.map(|pattern| Rule(format!("{}({pattern})", wish.tool))).collect();
        match rules.is_empty() {
            true => not_granted.push(wish.clone()),
            false => granted.push(Granted { wish: wish.clone(), rules }),
        }
    }
    (granted, not_granted)
}

/// The chore that a phrase names.
fn chore(words: &str) -> Option<Chore> {
    let words = words.to_lowercase();
    let left: Vec<&str> = words.split_whitespace().filter(|word| !FILLERS.contains(word)).collect();
    let left = left.join(" ");
    MEANINGS.iter().find(|(meaning, _)| *meaning == left).map(|(_, chore)| *chore)
}
