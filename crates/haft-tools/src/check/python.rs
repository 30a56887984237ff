//! Python, by ruff's parser: the newest grammar, with all errors of a text. Python 2 is left alone where a
//! file says that it is.

use ruff_python_parser::{Mode, ParseError, ParseOptions, parse_unchecked};
use ruff_text_size::Ranged;

use super::balance::unbalanced;
use super::depth::{Ends, too_long};
use super::scan::{Lexis, delimiters};
use super::statements::{Parsed, Statements};
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
        Some(self.parse(text)?.problems)
    }
}

impl Statements for Python {
    fn parse(&self, text: &str) -> Option<Parsed> {
        let first = text.lines().next().unwrap_or("");
        if too_long(text, Ends::Lines) || (first.starts_with("#!") && first.contains("python2")) {
            return None;
        }
        let module = parse_unchecked(text, ParseOptions::from(Mode::Module)).try_into_module()?;
        if !module.errors().is_empty() {
            return Some(Parsed::wrong(problems(text, module.errors())));
        }
        let statements = module.syntax().body.iter().map(|statement| statement.start().to_usize());
        Some(Parsed::right(statements.collect()))
    }
}

fn problems(text: &str, errors: &[ParseError]) -> Vec<Problem> {
    // After a bracket without a partner, the errors are echoes.
    if let Some(problem) = unbalanced(text, &delimiters(text, Lexis::Python)) {
        return vec![problem];
    }
    let places = Places::new(text);
    let told = errors.iter().take(MAX_PROBLEMS).map(|error| {
        places.problem(text, error.location.start().to_usize(), worded(&error.error.to_string()))
    });
    told.collect()
}
