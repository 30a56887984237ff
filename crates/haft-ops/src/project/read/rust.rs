//! Parsing the output of cargo: compiler messages as JSON, and the output of libtest.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Counts, ParsedOutput, Problem, Severity, number};

/// Parses `cargo … --message-format=json`: compiler messages are lines of JSON, all other lines come from tests.
pub(super) fn cargo(out: &str, err: &str) -> ParsedOutput {
    let (mut found, mut log, mut tests) = (ParsedOutput::default(), String::new(), String::new());
    for line in out.lines() {
        let message = if line.starts_with("{\"") { serde_json::from_str::<Value>(line).ok() } else { None };
        match message {
            Some(message) if message.get("reason").is_some() => {
                let Some(diagnosis) = message.get("message") else { continue };
                log.push_str(diagnosis.get("rendered").and_then(Value::as_str).unwrap_or_default());
                found
                    .problems
                    .extend(diagnostic(diagnosis).filter(|problem| !found.problems.contains(problem)));
            }
            _ => {
                tests.push_str(line);
                tests.push('\n');
            }
        }
    }
    let (failed, counts) = libtest(&tests);
    // Failed tests come before compiler warnings.
    found.problems.splice(0..0, failed);
    found.counts = counts;
    found.log = format!("{err}{log}{tests}");
    found
}

/// A compiler message with a location, as a problem.
fn diagnostic(message: &Value) -> Option<Problem> {
    let severity = match message.get("level")?.as_str()? {
        "warning" => Severity::Warning,
        level if level.starts_with("error") => Severity::Error,
        _ => return None,
    };
    let spans = message.get("spans")?.as_array()?;
    let span = spans.iter().find(|span| span.get("is_primary") == Some(&Value::Bool(true)));
    let at = |name: &str| span.and_then(|span| span.get(name)?.as_u64());
    // The compiler's summary at the end has no location and repeats what the problems say.
    span?;
    Some(Problem {
        severity,
        file: span.and_then(|span| span.get("file_name")?.as_str()).map(str::to_owned),
        line: at("line_start"),
        column: at("column_start"),
        code: message.get("code").and_then(|code| code.get("code")?.as_str()).map(str::to_owned),
        message: message.get("message")?.as_str()?.to_owned(),
        ..Problem::default()
    })
}

/// Parses the failures in the output of libtest, and adds up the counts of every `test result:`.
fn libtest(text: &str) -> (Vec<Problem>, Option<Counts>) {
    static PANIC: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^thread '.*' (?:\(\d+\) )?panicked at (.+?):(\d+):(\d+):$").ok());
    static RESULT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^test result: \S+\. (\d+) passed; (\d+) failed; (\d+) ignored").ok());
    let (mut problems, mut counts): (Vec<Problem>, Option<Counts>) = (Vec::new(), None);
    let (mut test, mut is_message): (Option<Problem>, bool) = (None, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            problems.extend(test.take());
            test = Some(Problem { test: Some(name.to_owned()), ..Problem::default() });
            is_message = false;
        } else if line == "failures:" || line.starts_with("test result:") {
            problems.extend(test.take());
        } else if let Some(test) = &mut test {
            if let Some(place) = PANIC.as_ref().and_then(|panic| panic.captures(line)) {
                // The first panic is the cause; later ones follow from it.
                if test.file.is_none() {
                    test.file = place.get(1).map(|file| file.as_str().to_owned());
                    (test.line, test.column) = (number(place.get(2)), number(place.get(3)));
                    is_message = true;
                    test.message.clear();
                }
            } else if line.starts_with("note: ") || line.starts_with("stack backtrace:") {
                is_message = false;
            } else if is_message || (test.file.is_none() && !line.trim().is_empty()) {
                test.message.push_str(if test.message.is_empty() { "" } else { "\n" });
                test.message.push_str(line);
            }
        }
        if let Some(found) = RESULT.as_ref().and_then(|result| result.captures(line)) {
            let counts = counts.get_or_insert_with(Counts::default);
            counts.passed += number(found.get(1)).unwrap_or(0);
            counts.failed += number(found.get(2)).unwrap_or(0);
            counts.skipped += number(found.get(3)).unwrap_or(0);
        }
    }
    for problem in &mut problems {
        problem.message = problem.message.trim().to_owned();
    }
    (problems, counts)
}
