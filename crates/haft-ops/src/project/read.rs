//! What programs print, as problems: which file, which line, what. A form that is not understood leaves the lines
//! that look like `file:line: message`, and always the whole text.

mod node;
mod python;
mod rust;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The form of what a program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `cargo --message-format=json`.
    Cargo,
    /// The same, with what tests print in between.
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
    /// Names of files, a line each.
    Names,
    /// Whatever looks like `file:line:column: message`.
    Lines,
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The test that failed.
    pub test: Option<String>,
    /// The file, as the program names it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The column, from 1.
    pub column: Option<u64>,
    /// What the program calls this kind of problem.
    pub code: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not work.
    #[default]
    Error,
    /// It may be meant.
    Warning,
}

impl Severity {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// How many tests did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That passed.
    pub passed: u64,
    /// That failed.
    pub failed: u64,
    /// That were not run.
    pub skipped: u64,
}

/// What was understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Understood {
    pub(super) problems: Vec<Problem>,
    pub(super) counts: Option<Counts>,
    /// Files that are named, where that is what was asked.
    pub(super) files: Vec<String>,
    /// What a person would have seen.
    pub(super) log: String,
}

/// Understands what a program printed.
pub(super) fn understood(form: Form, out: &str, err: &str) -> Understood {
    let mut found = match form {
        Form::Cargo | Form::CargoTest => rust::cargo(out, err),
        Form::Pytest => python::pytest(out),
        Form::Unittest => python::unittest(&joined(out, err)),
        Form::GoTest => go(out),
        Form::Node => node::tests(&joined(out, err)),
        Form::Ruff => python::ruff(out),
        Form::RuffFormat => python::ruff_format(&joined(out, err)),
        Form::Black => python::black(err),
        Form::Eslint => node::eslint(out),
        Form::Tsc => node::tsc(out),
        Form::Names => names(out),
        Form::Lines => Understood::default(),
    };
    if found.log.is_empty() {
        found.log = joined(out, err);
    }
    if found.problems.is_empty() && found.files.is_empty() && form != Form::Names {
        found.problems = lines(&found.log);
    }
    // What is worse comes first, otherwise the order of the program.
    found.problems.sort_by_key(|problem| problem.severity);
    found
}

/// Both streams, one after the other.
fn joined(out: &str, err: &str) -> String {
    let between = if out.is_empty() || out.ends_with('\n') || err.is_empty() { "" } else { "\n" };
    format!("{out}{between}{err}")
}

fn names(out: &str) -> Understood {
    let files = out.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    Understood { files, ..Understood::default() }
}

/// Lines such as `src/a.c:3:5: error: no`.
fn lines(log: &str) -> Vec<Problem> {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^\s*(?:vet: |Error: )?([^\s:()'\x22]+\.[A-Za-z]\w*|[\w./-]*Makefile):(\d+)(?::(\d+))?:?\s+(.*\S)").ok()
    });
    let Some(place) = &*PLACE else { return Vec::new() };
    let problem = |line: &str| {
        let found = place.captures(line)?;
        let told = found.get(4)?.as_str();
        let (severity, message) = match told.split_once(": ") {
            Some((word, rest)) if word.eq_ignore_ascii_case("warning") => (Severity::Warning, rest),
            Some((word, rest)) if word.eq_ignore_ascii_case("error") => (Severity::Error, rest),
            Some((word, _)) if word.eq_ignore_ascii_case("note") => return None,
            _ => (Severity::Error, told),
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

/// `go test -json`: an event a line.
fn go(out: &str) -> Understood {
    let mut found = Understood::default();
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
                let told = printed.get(&(package, test.clone())).cloned().unwrap_or_default();
                let place = lines(&told).into_iter().next();
                let said = told.lines().map(str::trim).find(|line| {
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
    Understood { counts: Some(counts), log, ..found }
}
