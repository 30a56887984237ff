//! Shared by the project tools of all dialects: summaries of tests and problems, faults with a program's output.

use haft_core::Fault;
use haft_sandbox::Exit;
use schemars::JsonSchema;
use serde::Serialize;

use super::commands;
use haft_ops::{Counts, Problem, Severity, in_words};

/// Something that is wrong.
#[derive(Serialize, JsonSchema)]
pub(super) struct ProblemInfo {
    /// `error` or `warning`
    severity: &'static str,
    /// The test that failed
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<String>,
    /// The file, relative to the workspace root
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The line, from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The column, from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    /// What the program calls this kind of problem
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// What is wrong
    message: String,
}

impl From<Problem> for ProblemInfo {
    fn from(problem: Problem) -> Self {
        let Problem { severity, test, file, line, column, code, message } = problem;
        Self { severity: severity.name(), test, file, line, column, code, message }
    }
}

/// A one-line summary of a test run.
pub(super) fn test_summary(counts: Option<Counts>, problems: &[Problem], exit: Exit) -> String {
    let broken =
        problems.iter().filter(|problem| problem.test.is_none() && problem.severity == Severity::Error);
    let broken = broken.count();
    let mut summary = match counts {
        Some(Counts { passed, failed, skipped }) => {
            let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
            format!("{passed} passed, {failed} failed{skipped}")
        }
        None if broken > 0 => format!(
            "no tests were counted, and there {} {}",
            if broken == 1 { "is" } else { "are" },
            many(broken, "error")
        ),
        None => "it cannot be told how many tests there were".to_owned(),
    };
    if let (Some(words), true) = (in_words(exit), counts.is_none_or(|counts| counts.failed == 0)) {
        summary = format!("{summary} ({words})");
    }
    summary
}

/// A one-line summary of a linter's findings.
pub(super) fn problem_summary(problems: &[Problem], exit: Exit) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let warnings = problems.len() - errors;
    match (errors, warnings, in_words(exit)) {
        (0, 0, None) => "no problems".to_owned(),
        (0, 0, Some(words)) => format!("no problems could be read from what it printed ({words})"),
        (errors, warnings, _) => format!("{}, {}", many(errors, "error"), many(warnings, "warning")),
    }
}

pub(super) fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Adds a program's output and notes to a fault.
pub(super) fn with_output(fault: Fault, name: &str, log: String, notes: Vec<String>) -> Fault {
    let fault = fault.with(name, log);
    if notes.is_empty() { fault } else { fault.with("notes", notes) }
}

/// The exit code, and the duration in milliseconds.
pub(super) fn end(exit: Exit, took: std::time::Duration) -> (i32, u64) {
    (commands::exit_code(exit), commands::milliseconds(took))
}
