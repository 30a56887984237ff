//! What a syntax check of a file of 2,000 lines costs: of a new file, and of one with a change that is right or wrong.
//! Then, what checks add to calls that edit and write such files in several languages. With names of files (`a.c`) as
//! arguments, only these are measured.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use haft::Durability;
use haft_tools::check::Checkers;
use programs::{PLACES, Program, name_at, programs};
use rig::Rig;
use serde_json::json;

#[path = "shared/programs.rs"]
mod programs;
#[path = "shared/rig.rs"]
mod rig;

/// The most that a check may take.
const LIMIT: Duration = Duration::from_millis(20);
/// The most that an edit may take that follows others.
const EDIT_LIMIT: Duration = Duration::from_micros(650);
const ROUNDS: usize = 11;
/// How many edits follow each other.
const EDITS: usize = 300;
/// How long a model takes at the least to answer to what it has read.
const PAUSE: Duration = Duration::from_millis(30);

/// A file, what stands before and after its lines, lines to repeat, and what breaks it.
const FILES: &[(&str, &str, &[&str], &str, &str)] = &[
    ("a.py", "", &["def f_N(a, b=1):", "    return [a + b, {'k': a}]"], "", "x = (1\n"),
    ("a.js", "", &["function f_N(a) {", "  return a.map((b) => ({ c: `${b}` }));", "}"], "", "let x = (1;\n"),
    (
        "a.ts",
        "",
        &["function f_N(a: string[]): string {", "  return a.join(',') as string;", "}"],
        "",
        "let x: = 1;\n",
    ),
    ("a.tsx", "", &["const f_N = (a: A) => {", "  return <b c={a}>{a.d}</b>;", "};"], "", "let x: = 1;\n"),
    (
        "a.rs",
        "",
        &["fn f_N(a: &str) -> Option<usize> {", "    a.split(',').map(|b| b.len()).max()", "}"],
        "",
        "fn x( {}\n",
    ),
    ("a.json", "{\n", &["\"k_N\": {\"a\": [1, 2, 3], \"b\": \"c\"},"], "\"z\": 1\n}\n", "x\n"),
    ("a.jsonl", "", &["{\"a\": [1, 2, 3], \"b\": \"c_N\"}"], "", "{\n"),
    ("a.yaml", "", &["k_N:", "  - a: 1", "    b: [c, d]"], "", "x: [\n"),
    ("a.toml", "", &["[t_N]", "a = [1, 2, 3]", "b = { c = 'd' }"], "", "x = \n"),
    ("a.go", "package a\n", &["func f_N(a []int) int {", "\treturn len(a) + 1", "}"], "", "func x( {}\n"),
    ("a.java", "class A {\n", &["int f_N(int a) {", "  return g(a, \"b\") + 1;", "}"], "}\n", "int x(;\n"),
    ("a.c", "", &["int f_N(int a) {", "  return g(a, \"b\") + 1;", "}"], "", "int x(;\n"),
    ("a.cpp", "", &["template <class T> int f_N(T a) {", "  return a.g(\"b\") + 1;", "}"], "", "int x(;\n"),
    ("a.rb", "", &["def f_N(a)", "  a.map { |b| b + 1 }", "end"], "", "def x\n"),
    ("a.php", "<?php\n", &["function f_N($a) {", "  return g($a, 'b') + 1;", "}"], "", "function x( {}\n"),
    ("a.sh", "", &["f_N() {", "  if [ -n \"$1\" ]; then echo \"${1%%.*}\"; fi", "}"], "", "if a; then\n"),
    ("a.html", "", &["<div class=\"c_N\">", "  <p>a <b>b</b>", "</div>"], "", "<div>\n"),
    ("a.css", "", &[".c_N {", "  color: #fff;", "}"], "", "a {\n"),
];

fn checks(wanted: &dyn Fn(&str) -> bool) {
    let checkers = Checkers::standard();
    for (name, front, lines, back, broken) in FILES.iter().filter(|(name, ..)| wanted(name)) {
        let body: Vec<String> = (0..2000)
            .map(|n| lines[n % lines.len()].replace("_N", &format!("_{}", n / lines.len())))
            .collect();
        let whole = 2000 - 2000 % lines.len();
        let body = |to: usize| body[..to].iter().map(|line| format!("{line}\n")).collect::<String>();
        let half = whole / lines.len() / 2 * lines.len();
        let good = format!("{front}{}{back}", body(whole));
        let bad = format!("{front}{}{broken}{}", body(half), &good[front.len() + body(half).len()..]);
        let unit = body(half + lines.len())[body(half).len()..].to_owned();
        let longer = good.replacen(&unit, &format!("{unit}{}", unit.replace("_", "_0")), 1);
        let rows = [
            ("new", None, &good, true),
            ("clean", Some(good.as_str()), &longer, true),
            ("broken", Some(good.as_str()), &bad, false),
        ];
        for (at, (what, before, after, passes)) in rows.into_iter().enumerate() {
            let round = |round: usize| {
                // Each text is one that no checker has parsed, but that before a change was checked when it was made.
                let unread = |text: &str| format!("{text}{}", "\n".repeat(at * ROUNDS + round + 1));
                let (before, after) = (before.map(unread), unread(after));
                if let Some(before) = &before {
                    checkers.compare(name, None, before);
                }
                let mut found = None;
                let took = timed(|| found = black_box(checkers.compare(name, before.as_deref(), &after)));
                assert_eq!(found.as_ref().map(|found| found.passed()), Some(passes), "{name}: {found:?}");
                took
            };
            let middle = median((0..ROUNDS).map(round).collect());
            let verdict = if middle <= LIMIT { "ok" } else { "OVER" };
            let (middle, limit) = (middle.as_secs_f64() * 1e3, LIMIT.as_millis());
            println!("check, {name:8} {what:7} {middle:7.2} ms  (limit {limit} ms)  {verdict}");
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// What edits of a file take.
struct Costs {
    /// The first edit, right after the file was read.
    first: Duration,
    /// The first edit, a moment after the file was read.
    read: Duration,
    /// An edit after others.
    next: Duration,
    /// An edit that breaks the syntax.
    broken: Duration,
    /// All of the file written, of which a name is new.
    written: Duration,
    /// A new file.
    created: Duration,
}

impl Costs {
    fn of(program: &Program, checkers: &Checkers) -> Self {
        let rig = Rig::new(Durability::Fast, checkers.clone());
        let edit =
            |old: &str, new: &str| timed(|| assert!(!black_box(rig.edit(program.name, old, new)).is_error));
        // Each text is one that no checker has read.
        let mut texts = 0;
        let mut unread = || {
            texts += 1;
            format!("{}{}", program.text, "\n".repeat(texts))
        };
        let mut first_after = |pause: Duration| {
            let first = (0..ROUNDS).map(|_| {
                rig.seen(program.name, unread().as_bytes());
                std::thread::sleep(pause);
                edit(&name_at(1, 0), &name_at(1, 1))
            });
            median(first.collect())
        };
        let (first, read) = (first_after(Duration::ZERO), first_after(PAUSE));
        rig.seen(program.name, program.text.as_bytes());
        let mut next = |round: usize| {
            let (place, edits) = (round % PLACES, round / PLACES);
            edit(&name_at(place, edits), &name_at(place, edits + 1))
        };
        let next = median((0..EDITS).map(&mut next).skip(PLACES).collect());
        let broken = |line: &str| {
            let name = name_at(1, EDITS / PLACES);
            let rounds = (0..ROUNDS).map(|round| {
                let line = line.replace("broken", &format!("broken{round}"));
                // The line goes before the one with the name.
                let text = std::fs::read_to_string(rig.path(program.name)).unwrap();
                let from = text[..text.find(&name).unwrap()].rfind('\n').unwrap() + 1;
                let old = &text[from..from + text[from..].find('\n').unwrap()];
                let took = edit(old, &format!("{line}{old}"));
                edit(&line, "");
                took
            });
            median(rounds.collect())
        };
        let broken = program.broken.map_or(Duration::ZERO, broken);
        let write = |name: &str, content: &str| {
            let input = json!({"file_path": name, "content": content});
            timed(|| assert!(!black_box(rig.call("Write", input)).is_error))
        };
        let written = median(
            (0..ROUNDS)
                .map(|round| {
                    write(program.name, &program.text.replace(&name_at(1, 0), &name_at(1, round + 1)))
                })
                .collect(),
        );
        let created =
            median((0..ROUNDS).map(|round| write(&format!("{round}{}", program.name), &unread())).collect());
        Self { first, read, next, broken, written, created }
    }
}

/// Edits and writes made by calls, with the check and without it.
fn calls(wanted: &dyn Fn(&str) -> bool) {
    for program in programs().iter().filter(|program| wanted(program.name)) {
        let (with, without) =
            (Costs::of(program, &Checkers::standard()), Costs::of(program, &Checkers::none()));
        let row = |what: &str, cost: fn(&Costs) -> Duration, limit: Option<Duration>| {
            let millis = |took: Duration| took.as_secs_f64() * 1e3;
            let (all, rest) = (cost(&with), cost(&without));
            let share = 100.0 * (1.0 - rest.as_secs_f64() / all.as_secs_f64());
            let verdict = match limit {
                Some(limit) if all > limit => format!("(limit {:.2} ms)  OVER", millis(limit)),
                Some(limit) => format!("(limit {:.2} ms)  ok", millis(limit)),
                None => String::new(),
            };
            println!(
                "call, {:5} {what:28} {:7.3} ms, {:7.3} unchecked, check {share:3.0} %  {verdict}",
                program.name,
                millis(all),
                millis(rest)
            );
        };
        row("first edit, right after Read", |costs| costs.first, None);
        row("first edit, later", |costs| costs.read, None);
        row("next edits", |costs| costs.next, Some(EDIT_LIMIT));
        if program.broken.is_some() {
            row("edit that breaks it", |costs| costs.broken, None);
        }
        row("write over it", |costs| costs.written, None);
        row("write of a new file", |costs| costs.created, None);
    }
}

fn main() {
    // Of the arguments, cargo's own begin with a dash.
    let asked: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    checks(&wanted);
    calls(&wanted);
}
