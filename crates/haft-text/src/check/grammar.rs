//! Languages without an exact parser, by tree-sitter grammars. A grammar reads on after an error and knows
//! less than a compiler, so its errors count only if a change brought more of them.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{InputEdit, Language, Node, ParseOptions, Parser, Point, Tree};
use tree_sitter_language::LanguageFn;

use super::balance::unbalanced;
use super::tokens::{Go, Pairs, delimiters, walk};
use super::{Checker, Introduced, MAX_PROBLEMS, Places, Problem, parts};

/// How long a parser may take.
const TIME: Duration = Duration::from_millis(100);

/// A language and how far its grammar is to be trusted.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    pub(super) name: &'static str,
    /// The grammar for a text, if there is one.
    pub(super) language: fn(&str) -> Option<LanguageFn>,
    pub(super) pairs: Pairs,
    pub(super) trust: Trust,
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

/// What a grammar says of a text.
struct Reading {
    problems: Vec<Problem>,
    /// Whether a delimiter has no partner: that is wrong in any grammar.
    sure: bool,
    tree: Tree,
}

impl Checker for Grammar {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reads_parts(&self, _text: &str) -> bool {
        self.trust == Trust::Full
    }

    fn is_right_alone(&self, part: &str) -> bool {
        self.stands_alone() && self.reads_alone(part)
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.read(text, None)?.problems)
    }

    fn introduced(&self, before: Option<&str>, after: &str) -> Option<Introduced> {
        let right = |part: &str| self.reads_alone(part);
        // What is right then is remembered, so all of it is read.
        let small = before.filter(|_| !self.stands_alone());
        if small.is_some_and(|before| parts::all_right(before, after, right)) {
            return Some(Introduced::default());
        }
        let now = self.read(after, None)?;
        if now.problems.is_empty() {
            return Some(Introduced::default());
        }
        let Some(before) = before else {
            let believed = now.sure || self.trust == Trust::Full;
            return believed.then_some(Introduced { problems: now.problems, existing: 0 });
        };
        let fresh = parts::fresh(before, after, right);
        if now.problems.iter().all(|problem| fresh.iter().any(|lines| lines.contains(&problem.line))) {
            return Some(Introduced { problems: now.problems, existing: 0 });
        }
        // What both texts have in common is read once.
        let known = self.read(before, Some((now.tree.clone(), after)))?.problems;
        let grew = now.problems.len() > known.len() || (now.sure && known != now.problems);
        let silent = self.trust == Trust::Some && !known.is_empty();
        if silent || !grew || known.len() >= MAX_PROBLEMS {
            return Some(Introduced { existing: now.problems.len(), problems: Vec::new() });
        }
        Some(Introduced::between(&known, before, now.problems, after))
    }
}

impl Grammar {
    /// Whether a part of a text is what it is alone: nothing in the language goes on until a word of its own.
    fn stands_alone(&self) -> bool {
        matches!(self.name, "go" | "java")
    }

    /// Whether a part of a text is right.
    fn reads_alone(&self, part: &str) -> bool {
        // What stands before this mark is no code.
        let part = if self.name == "php" { Cow::from(format!("<?php {part}")) } else { Cow::from(part) };
        self.read(&part, None).is_some_and(|reading| !reading.tree.root_node().has_error())
    }

    /// Reads a text, with the help of how a similar one was read.
    fn read(&self, text: &str, similar: Option<(Tree, &str)>) -> Option<Reading> {
        let language = Language::new((self.language)(text)?);
        let similar = similar.filter(|(tree, _)| *tree.language() == language);
        let similar = similar.map(|(tree, other)| edited(tree, other, text));
        let tree = match self.pairs {
            Pairs::Shell => parse(&language, &ascii(text), similar.as_ref())?,
            _ => parse(&language, text, similar.as_ref())?,
        };
        if !tree.root_node().has_error() {
            return Some(Reading { problems: Vec::new(), sure: false, tree });
        }
        // After a delimiter without a partner, the errors are echoes.
        if let Some(problem) = unbalanced(text, &delimiters(&tree, text, self.pairs)) {
            return Some(Reading { problems: vec![problem], sure: true, tree });
        }
        Some(Reading { problems: errors(&tree, text), sure: false, tree })
    }
}

/// The text with a letter for every byte that is not ASCII. The scanner of the grammar for shells looks
/// characters up in a table of 256, and beyond it reads memory that is not its own.
fn ascii(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii() { char::from(byte) } else { 'x' }).collect()
}

/// The tree of one text, told what to change for it to be that of another.
fn edited(mut tree: Tree, text: &str, other: &str) -> Tree {
    let (old, new) = (text.as_bytes(), other.as_bytes());
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
    let point = |bytes: &[u8], at: usize| {
        let before = &bytes[..at];
        let line = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Point { row: memchr::memchr_iter(b'\n', before).count(), column: at - line }
    };
    tree.edit(&InputEdit {
        start_byte: start,
        old_end_byte: old.len() - end,
        new_end_byte: new.len() - end,
        start_position: point(old, start),
        old_end_position: point(old, old.len() - end),
        new_end_position: point(new, new.len() - end),
    });
    tree
}

fn parse(language: &Language, text: &str, similar: Option<&Tree>) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let start = Instant::now();
    let mut in_time = |_: &tree_sitter::ParseState| match start.elapsed() < TIME {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut in_time);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), similar, Some(options))
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
