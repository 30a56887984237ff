//! The delimiters of a text, read off a syntax tree: its leaves are right even where the tree is not. Knows
//! which words open and close in each language.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use super::balance::{Delimiter, Role, bracket};

/// Which delimiters a language has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Brackets.
    Brackets,
    /// Brackets, in files of which a preprocessor takes parts.
    Preprocessed,
    /// Brackets, and what `end` closes.
    Ruby,
    /// What `fi`, `done` and `esac` close.
    Shell,
}

/// The delimiters of a tree, in order.
pub(super) fn delimiters<'a>(tree: &Tree, text: &'a str, pairs: Pairs) -> Vec<Delimiter<'a>> {
    let mut found: Vec<Delimiter<'a>> = Vec::new();
    // Of each open `#if`, how many were found when its first branch ended: the others are alternatives to it.
    let mut branches: Vec<Option<usize>> = Vec::new();
    // What a macro stands for need not be balanced.
    let directives = if pairs == Pairs::Preprocessed { directives(text) } else { Vec::new() };
    leaves(tree, |leaf| {
        // In a broken part a directive is known by its text alone.
        let word = text.get(leaf.byte_range()).unwrap_or("").trim_end();
        if pairs == Pairs::Preprocessed && word.starts_with('#') {
            match word {
                "#if" | "#ifdef" | "#ifndef" => branches.push(None),
                "#endif" => {
                    if let Some(Some(kept)) = branches.pop() {
                        found.truncate(kept);
                    }
                }
                "#else" | "#elif" | "#elifdef" | "#elifndef" => {
                    if let Some(kept) = branches.last_mut() {
                        found.truncate(*kept.get_or_insert(found.len()));
                    }
                }
                _ => {}
            }
        }
        let in_directive = || {
            let next = directives.partition_point(|range| range.start <= leaf.start_byte());
            next.checked_sub(1).is_some_and(|last| directives[last].contains(&leaf.start_byte()))
        };
        if let Some(role) = role(leaf, text, pairs).filter(|_| !in_directive()) {
            found.push(Delimiter { at: leaf.start_byte(), word: &text[leaf.byte_range()], role });
        }
    });
    found
}

/// The lines of the preprocessor, each with those that continue it.
fn directives(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut continued) = (0, false);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match found.last_mut().filter(|_| continued) {
            Some(last) => last.end = end,
            None if line.trim_start().starts_with('#') => found.push(at..end),
            None => {}
        }
        let directive = found.last().is_some_and(|last| last.end == end);
        continued = directive && line.trim_end().ends_with('\\');
        at = end;
    }
    found
}

fn role(leaf: Node<'_>, text: &str, pairs: Pairs) -> Option<Role> {
    let word = text.get(leaf.byte_range())?;
    // What the parser added is not in the text, and a word inside a string is no word.
    if leaf.is_missing() || leaf.is_named() {
        return None;
    }
    match (pairs, word) {
        (Pairs::Brackets, _) => bracket(word),
        // `[[` is one token or two.
        (Pairs::Preprocessed, _) => bracket(word).filter(|_| !matches!(word, "[" | "]")),
        (Pairs::Ruby, "end") => Some(Role::Closes),
        (Pairs::Ruby, "def" | "class" | "module" | "begin" | "case") => Some(Role::Opens("end")),
        (Pairs::Ruby, "if" | "unless") if begins(leaf, text) => Some(Role::Opens("end")),
        (Pairs::Ruby, "while" | "until" | "for") if begins(leaf, text) => Some(Role::Opens("end")),
        (Pairs::Ruby, "do") if !ends_loop(leaf, text) => Some(Role::Opens("end")),
        (Pairs::Shell, "if") => Some(Role::Opens("fi")),
        (Pairs::Shell, "do") => Some(Role::Opens("done")),
        (Pairs::Shell, "case") => Some(Role::Opens("esac")),
        (Pairs::Shell, "fi" | "done" | "esac") => Some(Role::Closes),
        _ => None,
    }
}

/// Whether a word begins a statement or a value, so that it is no modifier.
fn begins(leaf: Node<'_>, text: &str) -> bool {
    let before = text[..leaf.start_byte()].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with(['\n', '=', '(', ';', '[', '{', ',', '|'])
}

/// Whether a `do` belongs to the loop that its line begins with.
fn ends_loop(leaf: Node<'_>, text: &str) -> bool {
    let line = text[..leaf.start_byte()].rsplit('\n').next().unwrap_or("").trim_start();
    ["while ", "until ", "for "].iter().any(|word| line.starts_with(word))
}

/// Visits what has no parts, in order.
pub(super) fn leaves(tree: &Tree, mut visit: impl FnMut(Node<'_>)) {
    walk(tree, |node| {
        if node.child_count() == 0 {
            visit(node);
        }
        Go::Into
    });
}

/// Where a walk goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// To the parts of a node.
    Into,
    /// Past it.
    Past,
}

/// Visits all nodes from the outermost, in order.
pub(super) fn walk<'a>(tree: &'a Tree, mut visit: impl FnMut(Node<'a>) -> Go) {
    let mut cursor = tree.walk();
    loop {
        if visit(cursor.node()) == Go::Into && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}
