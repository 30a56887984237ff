//! Time to parse and check a command, printed next to its limit.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use haft_shell::{self as shell, Rule, RuleSet, Side};

/// Time limit for parsing and checking a command of a thousand characters.
const LIMIT: Duration = Duration::from_micros(300);
const ROUNDS: usize = 2001;

fn main() {
    let list = "git status --short && ls -la src | grep -n 'fn main' ; rg -n --glob '*.rs' foo src/shell "
        .to_owned();
    let commands = [
        ("a short command", "git status".to_owned()),
        ("a pipeline", "cd src && timeout 5 rg -n 'fn main' | head -n 20".to_owned()),
        ("1,000 characters of lists and pipelines", fill(&format!("{list}; "), 1000)),
        ("1,000 characters in one quoted word", format!("git commit -m '{}'", "word ".repeat(197))),
        (
            "1,000 characters of a script in a word",
            format!("bash -c '{}'", fill("git log | head && ls -la; ", 990)),
        ),
        ("1,000 characters with substitutions", fill("echo \"$(git log)\" ${x:-y} && ls *.rs; ", 1000)),
        ("16 KiB", fill(&format!("{list}; "), 16 * 1024 - 200)),
    ];
    let rules = ["git status:*", "ls:*", "rg:*", "grep *"].map(|rule| Rule::parse(rule).unwrap());
    let rules = RuleSet::new(rules.into());
    for (name, text) in &commands {
        let check_time = median(|| {
            let understood = shell::parse(black_box(text));
            black_box(shell::read_only(&understood));
            black_box(shell::banned(&understood));
            black_box(shell::sensitive(&understood));
            black_box(shell::interactive(&understood));
            black_box(shell::accesses(&understood, Path::new("/ws")));
        });
        let understood = shell::parse(text);
        let rule_time = median(|| {
            black_box(shell::offered_rules(&understood));
            black_box(rules.allows(&understood));
            black_box(shell::matches("curl *", &understood, Side::Deny));
        });
        if std::env::var_os("STAGES").is_some() {
            let stages: [(&str, &dyn Fn()); 6] = [
                ("parse", &|| drop(black_box(shell::parse(black_box(text))))),
                ("read-only", &|| drop(black_box(shell::read_only(&understood)))),
                ("banned", &|| drop(black_box(shell::banned(&understood)))),
                ("sensitive", &|| drop(black_box(shell::sensitive(&understood)))),
                ("interactive", &|| drop(black_box(shell::interactive(&understood)))),
                ("touches", &|| drop(black_box(shell::accesses(&understood, Path::new("/ws"))))),
            ];
            let times = stages.map(|(stage, work)| format!("{stage} {:.1?}", median(work)));
            println!("    {}", times.join(", "));
        }
        let limit = if text.len() <= 1100 { format!("limit {LIMIT:?}") } else { String::new() };
        println!(
            "{name:<42} {:>6} bytes  judged {check_time:>9.1?}  {limit:<12}  rules {rule_time:>9.1?}",
            text.len()
        );
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
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// A text repeated up to a length.
fn fill(text: &str, length: usize) -> String {
    text.repeat((length / text.len()).max(1)).trim_end_matches(['&', ';', ' ']).to_owned()
}
