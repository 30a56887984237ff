//! Parsing the output of Python programs: pytest, unittest, ruff and black.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Counts, ParsedOutput, Problem, number};

/// Parses `pytest -rfE --tb=short`.
pub(super) fn pytest(out: &str) -> ParsedOutput {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^(\S.*?\.py):(\d+): in ").ok());
    static INSIDE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"^E\s+File "(.+?)", line (\d+)"#).ok());
    let mut problems: Vec<Problem> = Vec::new();
    let mut current: Option<Problem> = None;
    for line in out.lines() {
        let title = line.strip_prefix("__").map(|line| line.trim_matches(['_', ' ']));
        if line.starts_with("=====") {
            problems.extend(current.take());
        } else if let Some(title) = title.filter(|title| !title.is_empty()) {
            problems.extend(current.take());
            let test = ["ERROR at setup of ", "ERROR at teardown of ", "ERROR collecting "]
                .iter()
                .find_map(|start| title.strip_prefix(start))
                .unwrap_or(title);
            current = Some(Problem { test: Some(test.to_owned()), ..Problem::default() });
        } else if let Some(problem) = &mut current {
            if let Some(place) = PLACE.as_ref().and_then(|place| place.captures(line)) {
                // Frames come from the outside in: the last one in the project's own files is where it failed.
                let file = place.get(1).map_or("", |file| file.as_str());
                if !file.starts_with('/') && !file.contains("site-packages") {
                    problem.file = Some(file.to_owned());
                    problem.line = number(place.get(2));
                }
            } else if let Some(said) = line.strip_prefix("E  ").map(str::trim) {
                if let Some(place) = INSIDE.as_ref().and_then(|inside| inside.captures(line)) {
                    problem.file = place.get(1).map(|file| file.as_str().to_owned());
                    problem.line = number(place.get(2));
                }
                problem.message.push_str(if problem.message.is_empty() { "" } else { "\n" });
                problem.message.push_str(said);
            }
        }
    }
    problems.extend(current);
    let last = out.lines().rev().find(|line| line.starts_with('=') && line.contains(" in "));
    ParsedOutput { problems, counts: last.map(totals), ..ParsedOutput::default() }
}

/// Parses the summary of pytest: `2 failed, 2 passed, 1 skipped, 1 error`.
fn totals(line: &str) -> Counts {
    let mut counts = Counts::default();
    let words: Vec<&str> =
        line.trim_matches(['=', ' ']).split([' ', ',']).filter(|word| !word.is_empty()).collect();
    for pair in words.windows(2) {
        let Ok(count) = pair[0].parse::<u64>() else { continue };
        match pair[1] {
            "passed" | "xfailed" => counts.passed += count,
            "failed" | "error" | "errors" | "xpassed" => counts.failed += count,
            "skipped" => counts.skipped += count,
            _ => {}
        }
    }
    counts
}

/// Parses `python -m unittest -v`.
pub(super) fn unittest(text: &str) -> ParsedOutput {
    static PLACE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"^  File "(.+?)", line (\d+)(?:, in (\S+))?"#).ok());
    static RAN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^Ran (\d+) tests? in ").ok());
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(failures|errors|skipped|unexpected successes)=(\d+)").ok());
    let mut problems: Vec<Problem> = Vec::new();
    let mut current: Option<Problem> = None;
    let mut counts: Option<Counts> = None;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            problems.extend(current.take());
            let test = title.split_once(" (").map_or(title, |(_, rest)| rest.trim_end_matches(')'));
            current = Some(Problem { test: Some(test.to_owned()), ..Problem::default() });
        } else if line.starts_with("=====") || RAN.as_ref().is_some_and(|ran| ran.is_match(line)) {
            problems.extend(current.take());
        } else if let Some(problem) = &mut current {
            if let Some(place) = PLACE.as_ref().and_then(|place| place.captures(line)) {
                let file = place.get(1).map_or("", |file| file.as_str());
                if !file.contains("/lib/python") && !file.starts_with('<') {
                    problem.file = Some(file.to_owned());
                    problem.line = number(place.get(2));
                }
            } else if !line.starts_with([' ', '-']) && !line.starts_with("Traceback") && !line.is_empty() {
                problem.message.push_str(if problem.message.is_empty() { "" } else { "\n" });
                problem.message.push_str(line);
            }
        }
        if let Some(ran) = RAN.as_ref().and_then(|ran| ran.captures(line)) {
            counts = Some(Counts { passed: number(ran.get(1)).unwrap_or(0), ..Counts::default() });
        }
        if let Some(counts) = &mut counts
            && (line.starts_with("FAILED (") || line.starts_with("OK ("))
        {
            for part in PART.iter().flat_map(|part| part.captures_iter(line)) {
                let count = number(part.get(2)).unwrap_or(0);
                let skipped = part.get(1).is_some_and(|word| word.as_str() == "skipped");
                *(if skipped { &mut counts.skipped } else { &mut counts.failed }) += count;
                counts.passed = counts.passed.saturating_sub(count);
            }
        }
    }
    problems.extend(current);
    ParsedOutput { problems, counts, ..ParsedOutput::default() }
}

/// Parses `ruff check --output-format=json`.
pub(super) fn ruff(out: &str) -> ParsedOutput {
    let Ok(Value::Array(items)) = serde_json::from_str::<Value>(out) else { return ParsedOutput::default() };
    let problem = |item: &Value| {
        let at = |name: &str| item.get("location")?.get(name)?.as_u64();
        let word = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Problem {
            file: word("filename"),
            line: at("row"),
            column: at("column"),
            code: word("code"),
            message: word("message")?,
            ..Problem::default()
        })
    };
    let problems: Vec<Problem> = items.iter().filter_map(problem).collect();
    let log = match problems.len() {
        0 => "no problems found\n".to_owned(),
        _ => problems.iter().map(line).collect(),
    };
    ParsedOutput { problems, log, ..ParsedOutput::default() }
}

/// A problem as a line for a log, where the program printed JSON.
pub(super) fn line(problem: &Problem) -> String {
    let Problem { file, line, column, code, message, .. } = problem;
    let place = [file.clone(), line.map(|at| at.to_string()), column.map(|at| at.to_string())];
    let place: Vec<String> = place.into_iter().flatten().collect();
    format!(
        "{}: {}{message}\n",
        place.join(":"),
        code.as_ref().map_or(String::new(), |code| format!("{code} "))
    )
}

/// Parses `ruff format --check`, in the old format and in the current one.
pub(super) fn ruff_format(text: &str) -> ParsedOutput {
    let mut files: Vec<String> = Vec::new();
    let mut problems = Vec::new();
    let mut is_unformatted = false;
    for line in text.lines() {
        if let Some(file) = line.strip_prefix("Would reformat: ") {
            files.push(file.to_owned());
        } else if line.starts_with("unformatted: ") {
            is_unformatted = true;
        } else if let Some(place) = line.trim_start().strip_prefix("--> ").filter(|_| is_unformatted) {
            is_unformatted = false;
            let file = place.rsplitn(3, ':').last().unwrap_or(place).to_owned();
            if !files.contains(&file) {
                files.push(file);
            }
        } else if let Some(message) = line.strip_prefix("error: ") {
            problems.push(Problem { message: message.to_owned(), ..Problem::default() });
        }
    }
    ParsedOutput { files, problems, ..ParsedOutput::default() }
}

/// Parses `black --check`.
pub(super) fn black(err: &str) -> ParsedOutput {
    let starts = |start: &'static str| err.lines().filter_map(move |line| line.strip_prefix(start));
    let files = starts("would reformat ").map(str::to_owned).collect();
    let wrong = starts("error: cannot format ");
    let problems =
        wrong.map(|message| Problem { message: message.to_owned(), ..Problem::default() }).collect();
    ParsedOutput { files, problems, ..ParsedOutput::default() }
}
