//! Parsing the output of JavaScript and TypeScript programs: test runners, eslint and tsc.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::python::line as as_line;
use super::{Counts, ParsedOutput, Problem, Severity, number};

/// Parses TAP, or else the output of jest, vitest or mocha.
pub(super) fn tests(text: &str) -> ParsedOutput {
    if text.lines().any(|line| line.starts_with("TAP version") || line.starts_with("1..")) {
        return tap(text);
    }
    let mut problems: Vec<Problem> = Vec::new();
    let mut current: Option<Problem> = None;
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = title(line, lines.get(at + 1).copied()) {
            problems.extend(current.take());
            current = Some(Problem { test: Some(name), ..Problem::default() });
        } else if is_over(line) {
            problems.extend(current.take());
        } else if let Some(problem) = &mut current {
            let trimmed = line.trim();
            if let Some((file, row, column)) = place(trimmed) {
                if problem.file.is_none() {
                    (problem.file, problem.line, problem.column) = (Some(file), row, column);
                }
            } else if !trimmed.is_empty() && problem.file.is_none() && !is_source(trimmed) {
                // In mocha's output, the first line is the second part of the title.
                if problem.message.is_empty() && trimmed.ends_with(':') && !trimmed.contains(' ') {
                    let test = problem.test.get_or_insert_default();
                    *test = format!("{test} {}", trimmed.trim_end_matches(':'));
                } else {
                    problem.message.push_str(if problem.message.is_empty() { "" } else { "\n" });
                    problem.message.push_str(trimmed);
                }
            }
        }
    }
    problems.extend(current);
    problems.dedup_by(|later, earlier| later.test == earlier.test);
    ParsedOutput { problems, counts: totals(text), ..ParsedOutput::default() }
}

/// The first line of a failure: `● a › b`, `FAIL  file > a > b`, or `1) a` before a deeper line.
fn title(line: &str, next: Option<&str>) -> Option<String> {
    if let Some(name) = line.trim_start().strip_prefix("● ") {
        return Some(name.replace(" › ", " > "));
    }
    if let Some(name) = line.strip_prefix(" FAIL  ").filter(|name| name.contains(" > ")) {
        return Some(name.to_owned());
    }
    let (count, name) = line.strip_prefix("  ")?.split_once(") ")?;
    let deeper = next?;
    let is_title = count.parse::<u64>().is_ok() && deeper.starts_with("       ");
    is_title.then(|| name.to_owned())
}

/// Whether a line quotes source code, as in `> 1 | code`, or marks a column below it.
fn is_source(line: &str) -> bool {
    let rest = line.trim_start_matches(['>', ' ']).trim_start_matches(|c: char| c.is_ascii_digit());
    rest.trim_start().starts_with('|')
}

/// Whether a line ends the details of a failure.
fn is_over(line: &str) -> bool {
    ["Test Suites:", "Tests:", " Test Files ", "⎯⎯⎯"].iter().any(|start| line.starts_with(start))
}

/// Parses a stack frame, `at f (file:1:2)` or `❯ file:1:2`, in a file of the project.
fn place(line: &str) -> Option<(String, Option<u64>, Option<u64>)> {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^(?:at (?:.*\()?|❯ (?:\S+ )?)(?:file://)?([^\s()]+):(\d+):(\d+)\)?$").ok()
    });
    let found = PLACE.as_ref()?.captures(line)?;
    let file = found.get(1)?.as_str();
    let foreign = file.starts_with("node:") || file.contains("node_modules/");
    (!foreign).then(|| (file.to_owned(), number(found.get(2)), number(found.get(3))))
}

/// Parses TAP with the YAML blocks of `node --test`.
fn tap(text: &str) -> ParsedOutput {
    static PLACE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\(?(?:file://)?([^\s()']+):(\d+):(\d+)\)?'?$").ok());
    let (mut problems, mut counts): (Vec<Problem>, Counts) = (Vec::new(), Counts::default());
    let mut current: Option<Problem> = None;
    let (mut is_error, mut depth) = (false, 0);
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let (failed, rest) = match (trimmed.strip_prefix("not ok "), trimmed.strip_prefix("ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => {
                if let Some(problem) = &mut current {
                    if trimmed == "..." {
                        problems.extend(current.take());
                    } else if let Some(said) = trimmed.strip_prefix("error: ") {
                        is_error = said.starts_with('|');
                        problem.message =
                            if is_error { String::new() } else { said.trim_matches('\'').to_owned() };
                    } else if is_error && indent > depth + 2 {
                        problem.message.push_str(if problem.message.is_empty() { "" } else { "\n" });
                        problem.message.push_str(trimmed);
                    } else {
                        is_error = false;
                        let found = PLACE.as_ref().and_then(|place| place.captures(trimmed.trim_end()));
                        if let Some(found) = found.filter(|found| !found[1].starts_with("node:")) {
                            // The first stack frame is more precise than the location where the test begins. Until
                            // the end of the block, `code` marks that a frame was found.
                            let of_stack = !trimmed.starts_with("location:");
                            if problem.file.is_none() || (of_stack && problem.code.is_none()) {
                                problem.file = found.get(1).map(|file| file.as_str().to_owned());
                                (problem.line, problem.column) = (number(found.get(2)), number(found.get(3)));
                                problem.code = of_stack.then(String::new);
                            }
                        }
                    }
                }
                continue;
            }
        };
        problems.extend(current.take());
        let name = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches([' ', '-']);
        let is_skipped = name.contains("# SKIP") || name.contains("# skip") || name.contains("# TODO");
        match (is_skipped, failed) {
            (true, _) => counts.skipped += 1,
            (false, false) => counts.passed += 1,
            (false, true) => {
                counts.failed += 1;
                depth = indent;
                is_error = false;
                current = Some(Problem { test: Some(name.to_owned()), ..Problem::default() });
            }
        }
    }
    problems.extend(current);
    for problem in &mut problems {
        problem.code = None;
        problem.message = problem.message.trim().to_owned();
    }
    ParsedOutput { problems, counts: Some(counts), ..ParsedOutput::default() }
}

/// Parses the summary: `Tests:       1 failed, 1 skipped, 1 passed`, `Tests  1 failed | 1 passed`, or `1 passing`.
fn totals(text: &str) -> Option<Counts> {
    static COUNT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(\d+) (passed|passing|failed|failing|skipped|pending|todo)").ok());
    let is_summary = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("Tests:")
            || line.starts_with("Tests  ")
            || COUNT.as_ref().is_some_and(|count| count.find(line).is_some_and(|found| found.start() == 0))
    };
    let mut counts = None;
    for found in text
        .lines()
        .filter(is_summary)
        .flat_map(|line| COUNT.iter().flat_map(move |count| count.captures_iter(line)))
    {
        let counts = counts.get_or_insert_with(Counts::default);
        let count = number(found.get(1)).unwrap_or(0);
        match &found[2] {
            "passed" | "passing" => counts.passed += count,
            "failed" | "failing" => counts.failed += count,
            _ => counts.skipped += count,
        }
    }
    counts
}

/// Parses `eslint -f json`.
pub(super) fn eslint(out: &str) -> ParsedOutput {
    let Ok(Value::Array(files)) = serde_json::from_str::<Value>(out) else { return ParsedOutput::default() };
    let mut problems = Vec::new();
    for file in &files {
        let path = file.get("filePath").and_then(Value::as_str).map(str::to_owned);
        for message in file.get("messages").and_then(Value::as_array).into_iter().flatten() {
            let at = |name: &str| message.get(name).and_then(Value::as_u64);
            problems.push(Problem {
                severity: if at("severity") == Some(1) { Severity::Warning } else { Severity::Error },
                file: path.clone(),
                line: at("line"),
                column: at("column"),
                code: message.get("ruleId").and_then(Value::as_str).map(str::to_owned),
                message: message.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                ..Problem::default()
            });
        }
    }
    let log = match problems.len() {
        0 => "no problems found\n".to_owned(),
        _ => problems.iter().map(as_line).collect(),
    };
    ParsedOutput { problems, log, ..ParsedOutput::default() }
}

/// Parses the output of tsc: `file(1,2): error TS1: message`.
pub(super) fn tsc(out: &str) -> ParsedOutput {
    static LINE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^(.+?)\((\d+),(\d+)\): (error|warning) (TS\d+): (.*)$").ok());
    let problem = |line: &str| {
        let found = LINE.as_ref()?.captures(line)?;
        Some(Problem {
            severity: if &found[4] == "warning" { Severity::Warning } else { Severity::Error },
            file: Some(found[1].to_owned()),
            line: number(found.get(2)),
            column: number(found.get(3)),
            code: Some(found[5].to_owned()),
            message: found[6].to_owned(),
            ..Problem::default()
        })
    };
    ParsedOutput { problems: out.lines().filter_map(problem).collect(), ..ParsedOutput::default() }
}
