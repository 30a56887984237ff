//! What a plan asks to be allowed, in words, as rules: only well-known meanings, in a project of a kind that is known,
//! and never anything wider than the words say.

use std::ffi::OsStr;

use haft_core::Context;
use haft_core::permissions::Rule;

/// Something that a plan asks to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The tool that runs commands.
    pub tool: String,
    /// What is to be done with it, in words.
    pub meaning: String,
}

/// A wish that can be said as rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The wish.
    pub wish: Wish,
    /// What it comes to here.
    pub rules: Vec<Rule>,
}

/// Something that is done in most projects.
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

/// Words that do not change what is meant.
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

/// What is meant, by the words that are left without fillers. Words that say more, or something else, mean none of it.
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

/// A kind of project: the file that tells it, and which commands do what in it.
type Kind = (&'static str, &'static [(Chore, &'static [&'static str])]);

/// What installs is said to the last word: with a prefix it could install anything.
const KINDS: [Kind; 9] = [
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

/// The wishes that can be said as rules here, and those that cannot.
pub(super) fn grant(wishes: &[Wish], cx: &Context) -> (Vec<Granted>, Vec<Wish>) {
    let workspace = cx.session_workspace();
    let is_there = |name: &str| workspace.stat(&workspace.root().child(OsStr::new(name))).is_ok();
    let mut kinds: Vec<&Kind> = KINDS.iter().filter(|(file, _)| is_there(file)).collect();
    // Without a lock file of any other, npm is what packages are managed with.
    let is_managed = kinds.iter().any(|(file, _)| *file == "pnpm-lock.yaml" || *file == "yarn.lock");
    if is_there("package.json") && !is_managed && !is_there("package-lock.json") {
        kinds.extend(KINDS.iter().find(|(file, _)| *file == "package-lock.json"));
    }
    let (mut granted, mut not_granted) = (Vec::new(), Vec::new());
    for wish in wishes {
        let chore = chore(&wish.meaning);
        let does = |kind: &&Kind| kind.1.iter().filter(|(does, _)| Some(*does) == chore);
        let patterns = kinds.iter().flat_map(does).flat_map(|(_, patterns)| patterns.iter());
        let rules: Vec<Rule> = patterns.map(|pattern| Rule(format!("{}({pattern})", wish.tool))).collect();
        match rules.is_empty() {
            true => not_granted.push(wish.clone()),
            false => granted.push(Granted { wish: wish.clone(), rules }),
        }
    }
    (granted, not_granted)
}

/// What words mean, if that is well known.
fn chore(words: &str) -> Option<Chore> {
    let words = words.to_lowercase();
    let left: Vec<&str> = words.split_whitespace().filter(|word| !FILLERS.contains(word)).collect();
    let left = left.join(" ");
    MEANINGS.iter().find(|(meaning, _)| *meaning == left).map(|(_, chore)| *chore)
}
