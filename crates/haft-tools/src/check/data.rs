//! JSON, JSON Lines and TOML, each by the parser that defines what is right. Only whether a text can be read
//! matters; what it says is thrown away.

use serde::de::IgnoredAny;

use super::balance::unbalanced;
use super::scan::{Lexis, delimiters};
use super::{Checker, MAX_PROBLEMS, Places, Problem, worded};

/// One JSON value.
pub(super) struct Json;

/// A JSON value on each line.
pub(super) struct JsonLines;

/// TOML.
pub(super) struct Toml;

impl Checker for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        if text.trim().is_empty() {
            return Some(Vec::new());
        }
        let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return Some(Vec::new()) };
        // After a bracket without a partner, the error is an echo.
        if let Some(problem) = unbalanced(text, &delimiters(text, Lexis::Json)) {
            return Some(vec![problem]);
        }
        Some(vec![json_problem(text, error.line(), &error)?])
    }
}

impl Checker for JsonLines {
    fn name(&self) -> &'static str {
        "json lines"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        let lines = text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut problems = Vec::new();
        for (at, line) in lines {
            if let Err(error) = serde_json::from_str::<IgnoredAny>(line) {
                let problem = json_problem(line, 1, &error)?;
                problems.push(Problem { line: at + 1, ..problem });
            }
            if problems.len() == MAX_PROBLEMS {
                break;
            }
        }
        Some(problems)
    }
}

/// Nothing, if the parser gave up for a reason of its own.
fn json_problem(text: &str, line: usize, error: &serde_json::Error) -> Option<Problem> {
    let whole = error.to_string();
    let message = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(message, _)| message);
    if message.starts_with("recursion limit") {
        return None;
    }
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let at = start + error.column().saturating_sub(1);
    let comma = text.as_bytes().get(at).is_some_and(|byte| matches!(byte, b'}' | b']'))
        && text[..at].trim_end().ends_with(',');
    let message = if comma { "trailing comma".to_owned() } else { worded(message) };
    Some(Places::new(text).problem(text, at, message))
}

impl Checker for Toml {
    fn name(&self) -> &'static str {
        "toml"
    }

    fn can_leave_out_parts(&self) -> bool {
        true
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        let (_, errors) = toml::de::DeTable::parse_recoverable(text);
        if !errors.is_empty() && super::yaml::templated(text) {
            return None;
        }
        if errors.iter().any(|error| error.message().contains("recursion limit")) {
            return None;
        }
        let unbalanced = (!errors.is_empty()).then(|| unbalanced(text, &delimiters(text, Lexis::Toml)));
        if let Some(problem) = unbalanced.flatten() {
            return Some(vec![problem]);
        }
        let places = Places::new(text);
        let told = errors.iter().take(MAX_PROBLEMS).map(|error| {
            let at = error.span().map_or(0, |span| span.start);
            places.problem(text, at, worded(&error.message().replace('\n', "; ")))
        });
        Some(told.collect())
    }
}
