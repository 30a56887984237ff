//! JavaScript and TypeScript, by oxc. What is a module and what is a script is not written in a file, so
//! JavaScript is right if it is right as either.

use oxc_allocator::Allocator;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType};

use super::balance::unbalanced;
use super::depth::{Ends, too_long};
use super::scan::{Lexis, delimiters};
use super::statements::{Parsed, Statements};
use super::{Checker, MAX_PROBLEMS, Places, Problem, worded};

/// Which of the languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// JavaScript, with JSX or without.
    Js,
    /// TypeScript.
    Ts,
    /// TypeScript with JSX.
    Tsx,
    /// Declarations.
    Declarations,
}

impl Script {
    fn readings(self) -> Vec<SourceType> {
        match self {
            Self::Js => vec![
                SourceType::unambiguous().with_jsx(true),
                SourceType::cjs().with_jsx(true),
                SourceType::script().with_jsx(true),
            ],
            Self::Ts => vec![SourceType::ts(), SourceType::ts().with_script(true)],
            Self::Tsx => vec![SourceType::tsx()],
            Self::Declarations => vec![SourceType::d_ts()],
        }
    }
}

impl Checker for Script {
    fn name(&self) -> &'static str {
        match self {
            Self::Js => "javascript",
            _ => "typescript",
        }
    }

    fn can_leave_out_parts(&self) -> bool {
        true
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.parse(text)?.problems)
    }
}

/// For TypeScript only. In JavaScript other statements matter, too: those that make it a module, and what they export. The
/// parser checks neither in TypeScript.
impl Statements for Script {
    fn parse(&self, text: &str) -> Option<Parsed> {
        let head = &text[..text.floor_char_boundary(2000)];
        // Flow is another language, and Qt keeps translations in files that are called the same.
        if head.contains("@flow")
            || head.trim_start().starts_with("<?xml")
            || too_long(text, Ends::Semicolons)
        {
            return None;
        }
        let mut fewest: Option<Vec<Problem>> = None;
        for (at, reading) in self.readings().into_iter().enumerate() {
            let read = read(text, reading)?;
            if read.problems.is_empty() {
                return Some(if at == 0 { read } else { Parsed::wrong(Vec::new()) });
            }
            if fewest.as_ref().is_none_or(|fewest| read.problems.len() < fewest.len()) {
                fewest = Some(read.problems);
            }
        }
        // After a bracket without a partner, the errors are echoes.
        match unbalanced(text, &delimiters(text, Lexis::Script)) {
            Some(problem) => Some(Parsed::wrong(vec![problem])),
            None => fewest.map(Parsed::wrong),
        }
    }
}

fn read(text: &str, reading: SourceType) -> Option<Parsed> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, text, reading).with_options(options).parse();
    if parsed.is_flow_language {
        return None;
    }
    if parsed.diagnostics.errors().next().is_none() {
        let statements = parsed.program.body.iter().map(|statement| statement.span().start as usize);
        return Some(Parsed::right(statements.collect()));
    }
    let places = Places::new(text);
    let told = parsed.diagnostics.errors().take(MAX_PROBLEMS).map(|error| {
        let at = error.labels.first().map_or(text.len(), |label| label.offset() as usize);
        let help = error.help.as_deref().filter(|help| help.len() < 80 && !help.contains('\n'));
        let message = match help {
            Some(help) => format!("{}: {}", worded(&error.message), worded(help)),
            None => worded(&error.message),
        };
        places.problem(text, at, message)
    });
    Some(Parsed::wrong(told.collect()))
}
