//! Differential test: haft and ripgrep find the same, where their semantics agree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use haft_core::Session;
use haft_ops::Searching;
use serde_json::{Value, json};

use super::tree::{Random, Tree};
use super::{all_pages, session};

const TREES: u64 = 6;
const SEARCHES: usize = 40;

const PATTERNS: [&str; 30] = [
    "alpha",
    "Beta",
    "beta",
    "TODO",
    "x",
    "fn main\\(\\)",
    "gamma_\\d",
    "^alpha",
    "end$",
    "^$",
    "a.*b",
    "\\bx\\b",
    "al(pha|phabet)",
    "[a-c]\\w+",
    "\\d+",
    "(?i)BETA",
    "\\s+x",
    "foo\\.bar",
    "\\{\\}",
    "a-b",
    "^\\w+$",
    "[^a-z ]{2}",
    "émile",
    "straße",
    "日本",
    "STRASSE|Émile",
    "no such thing",
    "alpha|TODO|42",
    ".",
    "\\w+\\s\\w+\\s\\w+$",
];
const OVER_LINES: [&str; 6] =
    ["alpha\\nx", "x\\s+alpha", "(?s)alpha.{0,20}end", "end\\r?\\n", "TODO[^x]*Beta", "^x$"];
const GLOBS: [&str; 12] = [
    "*.rs",
    "*.{rs,py}",
    "!*.md",
    "src/**",
    "/src/*.rs",
    "**/deep/**",
    "!src/deep",
    "*.log",
    ".env",
    "docs/*",
    "[ab].log",
    "!*.{log,tmp}",
];
const TYPES: [&str; 5] = ["rust", "py", "md", "json", "txt"];

/// One search: the input for haft, and the arguments for ripgrep.
struct Search {
    tool: &'static str,
    input: Value,
    flags: Vec<String>,
}

fn claude(random: &mut Random) -> Search {
    let multiline = random.one_in(8);
    let pattern = if multiline { random.pick(&OVER_LINES) } else { random.pick(&PATTERNS) };
    let mode = random.pick(&["files_with_matches", "count", "content"]);
    let mut asked = Search {
        tool: "Grep",
        input: json!({"pattern": pattern, "output_mode": mode, "multiline": multiline}),
        flags: Vec::new(),
    };
    match mode {
        "files_with_matches" => asked.flag("-l"),
        "count" => asked.flag("-c"),
        _ => asked.flag("-n"),
    }
    if multiline {
        asked.flag("-U");
        asked.flag("--multiline-dotall");
    }
    if random.one_in(3) {
        asked.input["-i"] = true.into();
        asked.flag("-i");
    }
    if mode == "content" {
        // Their combination differs between versions of ripgrep.
        let flags: &[&str] = if random.one_in(2) { &["-A", "-B"] } else { &["-C"] };
        for &flag in flags {
            if random.one_in(2) {
                let lines = random.below(4);
                asked.input[flag] = lines.into();
                asked.flag(&format!("{flag}{lines}"));
            }
        }
    }
    if random.one_in(3) {
        let glob = random.pick(&GLOBS);
        asked.input["glob"] = glob.into();
        asked.flag(&format!("--glob={glob}"));
    }
    if random.one_in(4) {
        let kind = random.pick(&TYPES);
        asked.input["type"] = kind.into();
        asked.flag(&format!("-t{kind}"));
    }
    asked.pattern(pattern)
}

fn ally(random: &mut Random) -> Search {
    let pattern = random.pick(&PATTERNS);
    let mut asked =
        Search { tool: "grep", input: json!({"pattern": pattern, "max_results": 1000}), flags: Vec::new() };
    asked.flag("-n");
    asked.flag("--no-ignore");
    match random.one_in(2) {
        true => asked.input["case_sensitive"] = true.into(),
        false => asked.flag("-i"),
    }
    if random.one_in(3) {
        asked.input["whole_words"] = true.into();
        asked.flag("-w");
    }
    if random.one_in(3) {
        let depth = random.below(4);
        asked.input["max_depth"] = depth.into();
        asked.flag(&format!("--max-depth={}", depth + 1));
    }
    match random.below(4) {
        0 => {
            asked.input["file_types"] = ".rs,py".into();
            asked.flag("--iglob=*.{rs,py}");
        }
        1 => {
            asked.input["include"] = "*.rs".into();
            asked.flag("--glob=*.rs");
        }
        2 => {
            asked.input["exclude"] = "*.md,docs".into();
            asked.flag("--glob=!*.md");
            asked.flag("--glob=!docs");
        }
        _ => {}
    }
    asked.pattern(pattern)
}

impl Search {
    fn flag(&mut self, flag: &str) {
        self.flags.push(flag.to_owned());
    }

    fn pattern(mut self, pattern: &str) -> Self {
        self.flags.extend(["-e".to_owned(), pattern.to_owned(), ".".to_owned()]);
        self
    }

    /// ripgrep's output, as lines without `./`.
    fn by_rg(&self, root: &Path) -> Vec<String> {
        let mut rg = Command::new("rg");
        rg.args(["--no-config", "--no-require-git", "--no-ignore-global", "--no-ignore-parent", "--crlf"]);
        rg.args(["--no-heading", "--with-filename", "--color=never", "--context-separator=--"]);
        let out = rg.args(&self.flags).current_dir(root).output().unwrap();
        assert_ne!(out.status.code(), Some(2), "{:?}: {}", self.flags, String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let lines = text.lines().filter(|line| *line != "--");
        lines.map(|line| line.trim_start_matches("./").trim_end_matches('\r').to_owned()).collect()
    }

    /// haft's output, in ripgrep's form.
    async fn by_haft(&self, session: &Session, root: &Path) -> Vec<String> {
        let found = all_pages(session, self.tool, &self.input).await;
        let in_form = |line: &String| match serde_json::from_str::<Value>(line) {
            Ok(Value::String(file)) => file,
            Ok(entry @ Value::Object(_)) => {
                let file = Path::new(entry["file"].as_str().unwrap());
                let file = file.strip_prefix(root).unwrap_or(file).display();
                match (entry["line"].as_u64(), entry["content"].as_str()) {
                    (Some(number), Some(text)) => format!("{file}:{number}:{text}"),
                    _ => format!("{file}:{}", entry["count"]),
                }
            }
            _ => line.clone(),
        };
        found.iter().map(in_form).collect()
    }
}

/// Removes files that both may treat differently.
fn comparable(lines: Vec<String>, excluded: &[PathBuf]) -> BTreeSet<String> {
    let is_in = |line: &str, file: &Path| {
        let file = file.to_str().unwrap();
        line.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-']))
    };
    lines.into_iter().filter(|line| !excluded.iter().any(|file| is_in(line, file))).collect()
}

#[tokio::test]
async fn haft_finds_what_ripgrep_finds() {
    if !haft_testing::require(haft_testing::Need::Ripgrep) {
        return;
    }
    let (mut compared, mut found, mut differ) = (0, 0, Vec::new());
    for seed in 1..=TREES {
        let tree = Tree::new(seed);
        let root = tree.root().canonicalize().unwrap();
        let sessions = ["claude", "ally"].map(|dialect| session(&root, dialect, Searching::default()));
        let mut random = Random::new(seed + 1000);
        for _ in 0..SEARCHES {
            let (asked, session) = match random.one_in(3) {
                true => (ally(&mut random), &sessions[1]),
                false => (claude(&mut random), &sessions[0]),
            };
            let theirs = comparable(asked.by_rg(&root), &tree.foreign);
            let ours = comparable(asked.by_haft(session, &root).await, &tree.foreign);
            if theirs != ours {
                differ.push(format!(
                    "tree {seed}: {} {}\nrg {}\nmissing: {:#?}\ntoo much: {:#?}",
                    asked.tool,
                    asked.input,
                    asked.flags.join(" "),
                    theirs.difference(&ours).collect::<Vec<_>>(),
                    ours.difference(&theirs).collect::<Vec<_>>()
                ));
            }
            compared += 1;
            found += theirs.len();
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(5)].join("\n\n"));
    assert!(compared >= 200 && found > 1000, "{compared} searches found {found} things");
}
