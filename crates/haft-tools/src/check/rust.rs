//! Rust, by syn. It stops at the first error, and of unbalanced delimiters it says nothing of use, so those
//! are looked for here.

use super::balance::unbalanced;
use super::depth::{Ends, too_long};
use super::scan::{Lexis, delimiters};
use super::{Checker, Places, Problem, worded};

/// Rust of any edition.
pub(super) struct Rust;

impl Checker for Rust {
    fn name(&self) -> &'static str {
        "rust"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        if too_long(text, Ends::Semicolons) {
            return None;
        }
        let Err(error) = syn::parse_file(text) else { return Some(Vec::new()) };
        if let Some(problem) = unbalanced(text, &delimiters(text, Lexis::Rust)) {
            return Some(vec![problem]);
        }
        let start = error.span().start();
        let message = match error.to_string() {
            lexical if lexical.starts_with("cannot parse string") => "no token of Rust".to_owned(),
            other => worded(&other),
        };
        if message.starts_with("unexpected end of input") && start.line <= 1 && start.column == 0 {
            return Some(vec![Places::new(text).end(text, message)]);
        }
        Some(vec![Problem { line: start.line.max(1), column: start.column + 1, message }])
    }
}
