//! The time to decide about a call with a thousand rules, with a limit.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::{AbsPath, Claims, CommandLine, Resource, Workspace};
use haft_rules::{CallFacts, Effect, KnownTools, RuleBook, Rules};
use haft_shell as shell;

/// An empty rule book that knows the tools of every dialect.
fn book() -> RuleBook {
    RuleBook::new(KnownTools::of(haft_dialects::all().iter().flat_map(|dialect| dialect.tools())))
}

const ROUNDS: usize = 2001;

fn main() {
    let folder = std::env::current_dir().unwrap();
    let workspace = Workspace::open(&folder).unwrap();
    let mut book = book();
    for n in 0..250 {
        book.add(Effect::Allow, &format!("Edit(src/part{n}/**)"), "bench").unwrap();
        book.add(Effect::Deny, &format!("Read(**/secret{n}.*)"), "bench").unwrap();
        book.add(Effect::Allow, &format!("Bash(tool{n} run:*)"), "bench").unwrap();
        book.add(Effect::Ask, &format!("Bash(tool{n} push *)"), "bench").unwrap();
    }
    book.add(Effect::Allow, "Bash(git status:*)", "bench").unwrap();
    book.add(Effect::Allow, "Bash(cargo test:*)", "bench").unwrap();
    let start = Instant::now();
    let rules = Rules::new(&book, &workspace, None);
    println!("{} rules made ready in {:.1?}", book.iter().count(), start.elapsed());

    let place = |name: &str| Resource::Path(AbsPath::lexical(&workspace.root().as_path().join(name)));
    let command = |text: &str| {
        let line = CommandLine::new(text).with_analysis(Arc::new(shell::parse(text)));
        Claims::none().write(Resource::Command(line)).write(Resource::Everything)
    };
    let rows = [
        ("a file that is allowed", "Edit", Claims::none().write(place("src/part249/a/b.rs")), 20),
        ("a file that is denied", "Read", Claims::none().read(place("a/b/secret249.txt")), 20),
        ("a file that no rule is about", "Edit", Claims::none().write(place("docs/notes.md")), 20),
        ("a command that is allowed", "Bash", command("cargo test --workspace && git status -s"), 100),
        ("a command that no rule is about", "Bash", command("make -j4 all | tee log | tail -n 20"), 100),
        ("a command of twenty parts", "Bash", command(&["git status"; 20].join(" && ")), 100),
    ];
    for (name, tool, claims, limit) in rows {
        let called = CallFacts { tool, claims: &claims, workspace: &workspace };
        let took = median(|| {
            black_box(rules.rule_on(black_box(&called)));
        });
        println!("{name:<34} {took:>9.1?}   limit {limit} µs");
    }
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}
