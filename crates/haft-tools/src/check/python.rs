//! Python, by ruff's parser: the newest grammar, with all errors of a text. Python 2 is left alone where a
//! file says that it is.

use ruff_python_parser::{Mode, ParseOptions, parse_module, parse_unchecked};
use ruff_text_size::Ranged;

use super::balance::unbalanced;
use super::depth::{Ends, too_long};
use super::scan::{Lexis, delimiters};
use super::statements::Statements;
use super::{Checker, MAX_PROBLEMS, Places, Problem, worded};

/// Python 3.
pub(super) struct Python;

impl Checker for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn can_leave_out_parts(&self) -> bool {
        true
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        if !is_readable(text) {
            return None;
        }
        let parsed = parse_unchecked(text, ParseOptions::from(Mode::Module));
        if parsed.errors().is_empty() {
            return Some(Vec::new());
        }
        // After a bracket without a partner, the errors are echoes.
        if let Some(problem) = unbalanced(text, &delimiters(text, Lexis::Python)) {
            return Some(vec![problem]);
        }
        let places = Places::new(text);
        let told = parsed.errors().iter().take(MAX_PROBLEMS).map(|error| {
            places.problem(text, error.location.start().to_usize(), worded(&error.error.to_string()))
        });
        Some(told.collect())
    }
}

impl Statements for Python {
    fn statements(&self, text: &str) -> Option<Vec<usize>> {
        if !is_readable(text) {
            return None;
        }
        let module = parse_module(text).ok()?;
        Some(module.syntax().body.iter().map(|statement| statement.start().to_usize()).collect())
    }
}

fn is_readable(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    !too_long(text, Ends::Lines) && !(first.starts_with("#!") && first.contains("python2"))
}
