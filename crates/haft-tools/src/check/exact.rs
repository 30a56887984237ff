//! Languages with an exact parser. The results for the texts parsed last are cached, so the text before a change is not
//! parsed again. Where the parser says where statements begin, a small change of a text without errors is checked by
//! parsing the statements around it.

use std::sync::Arc;

use haft::Hash;

use super::recent::{Key, Recent};
use super::statements::{Parsed, Statements, after_change, at_line_starts};
use super::{Checker, Introduced, Problem};

/// The cache of results.
pub(super) type Texts = Recent<Arc<Text>>;

/// What the parser said of a text.
pub(super) struct Text {
    problems: Vec<Problem>,
    /// Where parsing can begin again, if the text has no errors and the parser says where statements begin.
    statements: Option<Vec<usize>>,
}

impl Text {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let problems = self.problems.iter().map(|problem| size_of::<Problem>() + problem.message.len());
        let statements = self.statements.as_ref().map_or(0, |starts| size_of_val(starts.as_slice()));
        size_of::<Self>() + problems.sum::<usize>() + statements
    }
}

/// How much is parsed at most for a quick check: about a quarter of a millisecond.
const MAX_QUICK: usize = 16 << 10;

/// How many results are cached.
const MAX_TEXTS: usize = 64;
/// How much memory they may take.
const MAX_TEXTS_BYTES: usize = 2 << 20;

/// One cache for all languages.
pub(super) fn texts() -> Texts {
    Recent::new(MAX_TEXTS, MAX_TEXTS_BYTES)
}

/// How a language is parsed.
#[derive(Clone, Copy)]
pub(super) enum Parser {
    /// As a whole.
    Whole(&'static dyn Checker),
    /// As a whole, or only the statements around a change.
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
    /// The kind of file, as a part of the cache's key.
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

    /// What the parser says of a text, from the cache if it is there; `None` where the parser cannot tell.
    fn read(&self, text: &str) -> Option<Arc<Text>> {
        let key = self.key(text);
        if let Some(known) = self.texts.get(key) {
            return Some(known);
        }
        let read = match self.parser {
            Parser::Whole(checker) => Text { problems: checker.check(text)?, statements: None },
            Parser::Statements(checker) => {
                let Parsed { problems, statements } = checker.parse(text)?;
                Text { problems, statements: statements.map(|starts| at_line_starts(text, starts)) }
            }
        };
        Some(self.cached(key, read))
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
        self.read(text);
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.read(text)?.problems.clone())
    }

    fn recheck(&self, before: &str, after: &str) -> Option<Introduced> {
        let Parser::Statements(checker) = self.parser else { return None };
        let known = self.texts.get(self.key(before))?;
        let statements = after_change(checker, (before, known.statements.as_ref()?), after, MAX_QUICK)?;
        self.cached(self.key(after), Text { problems: Vec::new(), statements: Some(statements) });
        Some(Introduced::default())
    }
}
