//! Languages without an exact parser, by tree-sitter grammars. A grammar reads on after an error and knows
//! less than a compiler, so its errors count only if a change brought more of them.
//!
//! Parsing 2,000 lines takes about 5 ms, so the trees of the texts parsed last are cached, and a change of one of these
//! texts is parsed incrementally. An incremental parse only says whether there are errors. Which errors these are comes
//! from a parse of the whole text, because how a grammar reads on after an error depends on where it began to read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_sandbox::Hash;
use tree_sitter::{InputEdit, Language, Node, ParseOptions, Parser, Point, Tree};
use tree_sitter_language::LanguageFn;

use super::balance::unbalanced;
use super::recent::{Key, Recent};
use super::tokens::{Go, Pairs, delimiters, walk};
use super::{Checker, Introduced, MAX_PROBLEMS, Places, Problem};
use crate::{common_end, common_start};

/// What an incremental parse may cost.
#[derive(Clone, Copy)]
struct Effort {
    /// How large the change may be.
    bytes: usize,
    /// How long the parser may take.
    time: Duration,
}

/// For a check that something waits for. It takes about 0.1 ms; the time is for texts that are made to take long.
const QUICK: Effort = Effort { bytes: 4 << 10, time: Duration::from_millis(3) };
/// For any other check.
const THOROUGH: Effort = Effort { bytes: usize::MAX, time: Duration::from_millis(100) };

/// How many trees are cached.
const MAX_TREES: usize = 16;
/// How much memory they may take. Trees of similar texts share most of it, so this counts too much.
const MAX_TREE_BYTES: usize = 16 << 20;
/// How much memory a tree takes for each byte of its text, measured with C.
const TREE_BYTES: usize = 27;

/// A language and how far its grammar is to be trusted.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    pub(super) name: &'static str,
    /// The grammar for a text, if there is one.
    pub(super) language: fn(&str) -> Option<LanguageFn>,
    pub(super) pairs: Pairs,
    pub(super) trust: Trust,
    pub(super) changes: Changes,
}

/// How far a grammar is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// What it cannot read is wrong.
    Full,
    /// There is much right code that it cannot read. In a new file only delimiters count, and nothing counts
    /// if there were errors before.
    Some,
}

/// How a change of a text is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// From the tree of the text before.
    Incrementally,
    /// With the whole text. The scanners of languages with here-documents keep state from line to line, and an incremental
    /// parse with that of shells was seen to miss an error that a parse of the whole text finds.
    Wholly,
}

/// What a grammar says of a text.
pub(super) struct Reading {
    tree: Tree,
    /// `None` for a text with errors that was only parsed incrementally.
    wrong: Option<Wrong>,
}

#[derive(Clone, Default)]
struct Wrong {
    problems: Vec<Problem>,
    /// Whether a delimiter has no partner: that is wrong in any grammar.
    sure: bool,
}

impl Reading {
    fn is_right(&self) -> bool {
        !self.tree.root_node().has_error()
    }
}

/// The cache of trees.
pub(super) type Trees = Recent<Arc<Reading>>;

/// One cache for all grammars.
pub(super) fn trees() -> Trees {
    Recent::new(MAX_TREES, MAX_TREE_BYTES)
}

/// The checker of a language.
pub(super) struct Incremental {
    pub(super) grammar: Grammar,
    /// The kind of file, as a part of the cache's key.
    pub(super) kind: usize,
    pub(super) trees: Arc<Trees>,
}

impl Checker for Incremental {
    fn name(&self) -> &'static str {
        self.grammar.name
    }

    fn can_leave_out_parts(&self) -> bool {
        self.grammar.trust == Trust::Full
    }

    fn can_prepare(&self) -> bool {
        self.grammar.changes == Changes::Incrementally
    }

    fn prepare(&self, text: &str) {
        self.read(text);
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.read(text)?.wrong.as_ref()?.problems.clone())
    }

    fn recheck(&self, before: &str, after: &str) -> Option<Introduced> {
        self.reparse(before, after, QUICK)
    }

    fn introduced(&self, before: Option<&str>, after: &str) -> Option<Introduced> {
        let told = before.and_then(|before| self.reparse(before, after, THOROUGH));
        if told.is_some() {
            return told;
        }
        let now = self.read(after)?;
        if now.is_right() {
            return Some(Introduced::default());
        }
        let Wrong { problems, sure } = now.wrong.clone()?;
        let Some(before) = before else {
            return (sure || self.grammar.trust == Trust::Full)
                .then_some(Introduced { problems, existing: 0 });
        };
        let was = self.read(before)?;
        if self.is_silent_after(&was) {
            return Some(SILENT);
        }
        let known = &was.wrong.as_ref()?.problems;
        let grew = problems.len() > known.len() || (sure && *known != problems);
        if !grew || known.len() >= MAX_PROBLEMS {
            return Some(Introduced { existing: problems.len(), problems: Vec::new() });
        }
        Some(Introduced::between(known, before, problems, after))
    }
}

impl Incremental {
    fn key(&self, text: &str) -> Key {
        (self.kind, Hash::of(text.as_bytes()))
    }

    fn cached(&self, key: Key, text: &str, reading: Reading) -> Arc<Reading> {
        let reading = Arc::new(reading);
        self.trees.put(key, text.len() * TREE_BYTES, reading.clone());
        reading
    }

    /// What a parse of the whole text says, from the cache if it is there.
    fn read(&self, text: &str) -> Option<Arc<Reading>> {
        let key = self.key(text);
        if let Some(known) = self.trees.get(key).filter(|known| known.wrong.is_some()) {
            return Some(known);
        }
        let tree = self.grammar.parse(&self.grammar.language(text)?, text, None, THOROUGH.time)?;
        let wrong = Some(self.grammar.wrong(&tree, text));
        Some(self.cached(key, text, Reading { tree, wrong }))
    }

    /// Parses a change incrementally. `None` if the tree of the text before is not cached, if it takes more effort, or if
    /// the errors have to be found by a parse of the whole text.
    fn reparse(&self, before: &str, after: &str, effort: Effort) -> Option<Introduced> {
        if self.grammar.changes == Changes::Wholly {
            return None;
        }
        let keys = [self.key(before), self.key(after)];
        let known = self.trees.get(keys[0])?;
        let now = match self.trees.get(keys[1]) {
            Some(now) => now,
            None => {
                let tree = self.grammar.reparse(&known.tree, before, after, effort)?;
                let wrong = (!tree.root_node().has_error()).then(Wrong::default);
                self.cached(keys[1], after, Reading { tree, wrong })
            }
        };
        let introduced = match now.is_right() {
            true => Introduced::default(),
            false if self.is_silent_after(&known) => SILENT,
            false => return None,
        };
        // The next change starts from the new text, so there is one tree for each file that is being edited.
        self.trees.remove(keys[0]);
        Some(introduced)
    }

    /// Whether no change of a text is reported. Where a grammar with less trust cannot parse the text before, its errors
    /// after the change count as old ones.
    fn is_silent_after(&self, before: &Reading) -> bool {
        self.grammar.trust == Trust::Some && !before.is_right()
    }
}

/// Some errors as before. Their number would say nothing, since the grammar may be wrong.
const SILENT: Introduced = Introduced { problems: Vec::new(), existing: 1 };

impl Grammar {
    fn language(&self, text: &str) -> Option<Language> {
        Some(Language::new((self.language)(text)?))
    }

    /// Parses a text incrementally, from the tree of the text before.
    fn reparse(&self, known: &Tree, before: &str, after: &str, effort: Effort) -> Option<Tree> {
        // A header may become one of another language.
        let language = self.language(after).filter(|language| *known.language() == *language)?;
        let edit = edit(before.as_bytes(), after.as_bytes());
        if edit.old_end_byte.max(edit.new_end_byte) - edit.start_byte > effort.bytes {
            return None;
        }
        let mut old = known.clone();
        old.edit(&edit);
        self.parse(&language, after, Some(&old), effort.time)
    }

    /// Parses a text; incrementally, if there is a tree of another text to which the edit was applied.
    fn parse(&self, language: &Language, text: &str, old: Option<&Tree>, time: Duration) -> Option<Tree> {
        match self.pairs {
            Pairs::Shell => parse(language, &ascii(text), old, time),
            _ => parse(language, text, old, time),
        }
    }

    fn wrong(&self, tree: &Tree, text: &str) -> Wrong {
        if !tree.root_node().has_error() {
            return Wrong::default();
        }
        // After a delimiter without a partner, the errors are echoes.
        if let Some(problem) = unbalanced(text, &delimiters(tree, text, self.pairs)) {
            return Wrong { problems: vec![problem], sure: true };
        }
        Wrong { problems: errors(tree, text), sure: false }
    }
}

/// The text with a letter for every byte that is not ASCII, so that every byte keeps its place. The scanner of the grammar
/// for shells looks characters up in a table of 256, and beyond it reads memory that is not its own.
fn ascii(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii() { char::from(byte) } else { 'x' }).collect()
}

/// The edit that turns one text into another.
fn edit(old: &[u8], new: &[u8]) -> InputEdit {
    let start = common_start(old, new);
    let end = common_end(old, new).min(old.len().min(new.len()) - start);
    let point = |bytes: &[u8], at: usize| {
        let before = &bytes[..at];
        let line = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Point { row: memchr::memchr_iter(b'\n', before).count(), column: at - line }
    };
    InputEdit {
        start_byte: start,
        old_end_byte: old.len() - end,
        new_end_byte: new.len() - end,
        start_position: point(old, start),
        old_end_position: point(old, old.len() - end),
        new_end_position: point(new, new.len() - end),
    }
}

fn parse(language: &Language, text: &str, old: Option<&Tree>, time: Duration) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let start = Instant::now();
    let mut in_time = |_: &tree_sitter::ParseState| match start.elapsed() < time {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut in_time);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), old, Some(options))
}

fn errors(tree: &Tree, text: &str) -> Vec<Problem> {
    let places = Places::new(text);
    let mut found = Vec::new();
    walk(tree, |node| {
        if found.len() >= MAX_PROBLEMS || !node.has_error() {
            return Go::Past;
        }
        if node.is_missing() {
            // The place is after the blanks; what is missing belongs before them.
            let at = text[..node.start_byte()].trim_end().len();
            found.push(places.problem(text, at, format!("missing {}", wanted(node))));
        } else if node.is_error() {
            if let Some((at, word)) = unexpected(node, text) {
                found.push(places.problem(text, at, format!("unexpected `{word}`")));
            }
            return Go::Past;
        }
        Go::Into
    });
    found
}

/// What is missing, in words.
fn wanted(node: Node<'_>) -> String {
    match node.is_named() {
        true => node.kind().replace('_', " "),
        false => format!("`{}`", node.kind()),
    }
}

/// The token of an error at which reading ended: in a short error its first, in a long one, which holds all
/// that was read before, what comes after the parts that were understood.
fn unexpected<'a>(error: Node<'_>, text: &'a str) -> Option<(usize, &'a str)> {
    let mut cursor = error.walk();
    let parts: Vec<Node<'_>> = error.children(&mut cursor).collect();
    let blamed = parts.iter().find(|part| part.is_error()).or_else(|| {
        match error.start_position().row == error.end_position().row {
            true => parts.first(),
            false => parts.last(),
        }
    });
    let mut at = blamed.map_or(error.start_byte(), Node::start_byte);
    if blamed.is_none_or(|part| part.start_byte() == part.end_byte())
        && error.start_byte() == error.end_byte()
    {
        at = error.start_byte();
    }
    let rest = text.get(at..)?;
    let skipped = rest.len() - rest.trim_start().len();
    let rest = rest.trim_start();
    let word = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    let length = if word == 0 { rest.chars().next()?.len_utf8() } else { word };
    Some((at + skipped, &rest[..rest.floor_char_boundary(length.min(40))]))
}
