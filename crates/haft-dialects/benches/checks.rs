//! The time of a syntax check of a file of 2,000 lines, with limits: for a new file, and after a correct or wrong change.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use haft_text::check::Checkers;

/// The longest time that a check may take.
const LIMIT: Duration = Duration::from_millis(20);
const ROUNDS: usize = 11;

/// A file: a header and a footer, lines to repeat, and a line that breaks its syntax.
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

fn main() {
    let checkers = Checkers::standard();
    // Arguments of cargo begin with a dash.
    let asked: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
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
        for (what, before, after, passes) in rows {
            let found = checkers.compare(name, before, after);
            assert_eq!(found.as_ref().map(|found| found.passed()), Some(passes), "{name}: {found:?}");
            let mut took: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    black_box(checkers.compare(name, before, black_box(after)));
                    start.elapsed()
                })
                .collect();
            took.sort_unstable();
            let verdict = if took[ROUNDS / 2] <= LIMIT { "ok" } else { "OVER" };
            let (middle, limit) = (took[ROUNDS / 2].as_secs_f64() * 1e3, LIMIT.as_millis());
            println!("check, {name:8} {what:7} {middle:7.2} ms  (limit {limit} ms)  {verdict}");
        }
    }
}
