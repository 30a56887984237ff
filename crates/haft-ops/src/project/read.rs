//! Parsing the output of test runners, linters and formatters into problems with file, line and message. Where a format is
//! not recognized, lines such as `file:line: message` become problems. The whole text is kept in any case. Starts no
//! programs.

mod node;
mod python;
mod rust;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Output format of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// `cargo --message-format=json`.
    Cargo,
    /// `cargo test --message-format=json`: JSON lines, with the output of tests between them.
    CargoTest,
    /// `pytest -rfE --tb=short`.
    Pytest,
    /// `python -m unittest -v`.
    Unittest,
    /// `go test -json`.
    GoTest,
    /// TAP, jest, vitest or mocha.
    Node,
    /// `ruff check --output-format=json`.
    Ruff,
    /// `ruff format --check`.
    RuffFormat,
    /// `black --check`.
    Black,
    /// `eslint -f json`.
    Eslint,
    /// `tsc --pretty false`.
    Tsc,
    /// File names, one per line.
    Names,
    /// No known format: lines such as `file:line:column: message`.
    Lines,
}

/// A failed test, or a problem that a compiler or linter reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// The test that failed.
    pub test: Option<String>,
    /// Path of the file.
    pub file: Option<String>,
    /// Line number, from 1.
    pub line: Option<u64>,
    /// Column, from 1.
    pub column: Option<u64>,
    /// Code or name of the rule, such as `E0277`.
    pub code: Option<String>,
    /// The message.
    pub message: String,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An error, or a failed test.
    #[default]
    Error,
    /// A warning.
    Warning,
}

impl Severity {
    /// Its name: `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Number of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed tests.
    pub passed: u64,
    /// Failed tests, including errors.
    pub failed: u64,
    /// Skipped tests.
    pub skipped: u64,
}

/// Parsed output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedOutput {
    pub(super) problems: Vec<Problem>,
    pub(super) counts: Option<Counts>,
    /// Unformatted files, from a formatter.
    pub(super) files: Vec<String>,
    /// The output as a person would read it, without JSON.
    pub(super) log: String,
}

/// Parses the output of a program.
pub(super) fn parse_output(format: OutputFormat, out: &str, err: &str) -> ParsedOutput {
    let mut found = match format {
        OutputFormat::Cargo | OutputFormat::CargoTest => rust::cargo(out, err),
        OutputFormat::Pytest => python::pytest(out),
        OutputFormat::Unittest => python::unittest(&joined(out, err)),
        OutputFormat::GoTest => go(out),
        OutputFormat::Node => node::tests(&joined(out, err)),
        OutputFormat::Ruff => python::ruff(out),
        OutputFormat::RuffFormat => python::ruff_format(&joined(out, err)),
        OutputFormat::Black => python::black(err),
        OutputFormat::Eslint => node::eslint(out),
        OutputFormat::Tsc => node::tsc(out),
        OutputFormat::Names => names(out),
        OutputFormat::Lines => ParsedOutput::default(),
    };
    if found.log.is_empty() {
        found.log = joined(out, err);
    }
    if found.problems.is_empty() && found.files.is_empty() && format != OutputFormat::Names {
        found.problems = lines(&found.log);
    }
    // Errors first; the sort is stable and otherwise keeps the program's order.
    found.problems.sort_by_key(|problem| problem.severity);
    found
}

/// Both streams, one after the other.
fn joined(out: &str, err: &str) -> String {
    let between = if out.is_empty() || out.ends_with('\n') || err.is_empty() { "" } else { "\n" };
    format!("{out}{between}{err}")
}

fn names(out: &str) -> ParsedOutput {
    let files = out.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    ParsedOutput { files, ..ParsedOutput::default() }
}

/// Problems in lines such as `src/a.c:3:5: error: no`.
fn lines(log: &str) -> Vec<Problem> {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^\s*(?:vet: |Error: )?([^\s:()'\x22]+\.[A-Za-z]\w*|[\w./-]*Makefile):(\d+)(?::(\d+))?:?\s+(.*\S)").ok()
    });
    let Some(place) = &*PLACE else { return Vec::new() };
    let problem = |line: &str| {
        let found = place.captures(line)?;
        let text = found.get(4)?.as_str();
        let (severity, message) = match text.split_once(": ") {
            Some((word, rest)) if word.eq_ignore_ascii_case("warning") => (Severity::Warning, rest),
            Some((word, rest)) if word.eq_ignore_ascii_case("error") => (Severity::Error, rest),
            Some((word, _)) if word.eq_ignore_ascii_case("note") => return None,
            _ => (Severity::Error, text),
        };
        Some(Problem {
            severity,
            file: Some(found.get(1)?.as_str().to_owned()),
            line: number(found.get(2)),
            column: number(found.get(3)),
            message: message.to_owned(),
            ..Problem::default()
        })
    };
    log.lines().filter_map(problem).collect()
}

fn number(found: Option<regex::Match<'_>>) -> Option<u64> {
    found?.as_str().parse().ok()
}

/// Parses `go test -json`: one event per line.
fn go(out: &str) -> ParsedOutput {
    let mut found = ParsedOutput::default();
    let mut counts = Counts::default();
    let mut printed: indexmap::IndexMap<(String, String), String> = indexmap::IndexMap::new();
    let mut log = String::new();
    for line in out.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            log.push_str(line);
            log.push('\n');
            continue;
        };
        let word = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (package, test) = (word("Package"), word("Test"));
        match &*word("Action") {
            "output" | "build-output" => {
                log.push_str(&word("Output"));
                printed.entry((package, test)).or_default().push_str(&word("Output"));
            }
            "pass" if !test.is_empty() => counts.passed += 1,
            "skip" if !test.is_empty() => counts.skipped += 1,
            "fail" if !test.is_empty() => {
                counts.failed += 1;
                let output = printed.get(&(package, test.clone())).cloned().unwrap_or_default();
                let place = lines(&output).into_iter().next();
                let said = output.lines().map(str::trim).find(|line| {
                    !line.is_empty() && !["=== ", "--- ", "FAIL"].iter().any(|start| line.starts_with(start))
                });
                let message = said.unwrap_or("it failed").to_owned();
                found.problems.push(match place {
                    Some(place) => Problem { test: Some(test), ..place },
                    None => Problem { test: Some(test), message, ..Problem::default() },
                });
            }
            _ => {}
        }
    }
    ParsedOutput { counts: Some(counts), log, ..found }
}
