//! Languages whose parsers are exact. What was found out about the texts that were parsed last is cached, so a text is not
//! parsed again when the next change starts from it, and where a parser tells where statements begin, a change of a text
//! without errors is parsed with the statements around it.

use std::sync::Arc;

use haft::Hash;

use super::recent::{Key, Recent};
use super::statements::{self, Statements};
use super::{Checker, Introduced, Problem, new_problems};

/// What is known of texts that were parsed.
pub(super) type Texts = Recent<Arc<Text>>;

/// What is known of a text.
pub(super) struct Text {
    problems: Vec<Problem>,
    /// Where its statements begin, if it has no errors and the parser can tell.
    statements: Option<Vec<usize>>,
}

impl Text {
    /// How much memory it takes, roughly.
    fn bytes(&self) -> usize {
        let messages: usize =
            self.problems.iter().map(|problem| size_of::<Problem>() + problem.message.len()).sum();
        let statements = self.statements.as_ref().map_or(0, |starts| size_of_val(starts.as_slice()));
        size_of::<Self>() + messages + statements
    }
}

/// A cache for all languages together.
pub(super) fn texts() -> Texts {
    Recent::new(64, 2 << 20)
}

/// How a language is parsed.
#[derive(Clone, Copy)]
pub(super) enum Parser {
    /// As a whole.
    Whole(&'static dyn Checker),
    /// As a whole, or the statements around a change.
    Statements(&'static dyn Statements),
}

impl Parser {
    fn checker(self) -> &'static dyn Checker {
        match self {
            Self::Whole(checker) => checker,
            Self::Statements(checker) => checker,
        }
    }
}

/// The checker of a language.
pub(super) struct Exact {
    pub(super) parser: Parser,
    /// Which kind of file it is for.
    pub(super) kind: usize,
    pub(super) texts: Arc<Texts>,
}

impl Exact {
    fn key(&self, text: &str) -> Key {
        (self.kind, Hash::of(text.as_bytes()))
    }

    fn cached(&self, key: Key, text: Text) -> Arc<Text> {
        let text = Arc::new(text);
        self.texts.put(key, text.bytes(), text.clone());
        text
    }

    /// What is wrong with a text; `None` where the parser cannot tell.
    fn parsed(&self, text: &str) -> Option<Arc<Text>> {
        let key = self.key(text);
        if let Some(known) = self.texts.get(key) {
            return Some(known);
        }
        let found = match self.parser {
            Parser::Statements(checker) => statements::of(checker, text),
            Parser::Whole(_) => None,
        };
        let found = match found {
            Some(statements) => Text { problems: Vec::new(), statements: Some(statements) },
            None => Text { problems: self.parser.checker().check(text)?, statements: None },
        };
        Some(self.cached(key, found))
    }

    /// Whether a change of a text without errors brought in none either, as far as the statements around it show that.
    fn is_still_right(&self, before: &str, after: &str) -> bool {
        let Parser::Statements(checker) = self.parser else { return false };
        let Some(known) = self.texts.get(self.key(before)) else { return false };
        let Some(statements) = &known.statements else { return false };
        let Some(statements) = statements::after_change(checker, (before, statements), after) else {
            return false;
        };
        self.cached(self.key(after), Text { problems: Vec::new(), statements: Some(statements) });
        true
    }
}

impl Checker for Exact {
    fn name(&self) -> &'static str {
        self.parser.checker().name()
    }

    fn can_leave_out_parts(&self) -> bool {
        self.parser.checker().can_leave_out_parts()
    }

    fn can_prepare(&self) -> bool {
        matches!(self.parser, Parser::Statements(_))
    }

    fn prepare(&self, text: &str) {
        self.parsed(text);
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.parsed(text)?.problems.clone())
    }

    fn introduced(&self, before: Option<&str>, after: &str) -> Option<Introduced> {
        if before.is_some_and(|before| self.is_still_right(before, after)) {
            return Some(Introduced::default());
        }
        new_problems(self, before, after)
    }
}
