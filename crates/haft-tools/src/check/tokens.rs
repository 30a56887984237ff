//! The delimiters of a text, read off a syntax tree: its leaves are right even where the tree is not. Knows
//! which words open and close in each language.

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
    /// None.
    None,
}

/// The delimiters of a tree, in order.
pub(super) fn delimiters<'a>(tree: &Tree, text: &'a str, pairs: Pairs) -> Vec<Delimiter<'a>> {
    let mut found: Vec<Delimiter<'a>> = Vec::new();
    // What was found before each open `#if`, and, after its first branch, what was found with that.
    let mut branches: Vec<(usize, Option<usize>)> = Vec::new();
    leaves(tree, |leaf| {
        let kind = leaf.kind();
        if pairs == Pairs::Preprocessed && kind.starts_with('#') {
            match kind {
                "#if" | "#ifdef" | "#ifndef" => branches.push((found.len(), None)),
                "#endif" => {
                    if let Some((_, Some(kept))) = branches.pop() {
                        found.truncate(kept);
                    }
                }
                _ => {
                    if let Some((_, kept)) = branches.last_mut() {
                        found.truncate(*kept.get_or_insert(found.len()));
                    }
                }
            }
        }
        if let Some(role) = role(leaf, text, pairs) {
            found.push(Delimiter { at: leaf.start_byte(), word: &text[leaf.byte_range()], role });
        }
    });
    found
}

fn role(leaf: Node<'_>, text: &str, pairs: Pairs) -> Option<Role> {
    let word = text.get(leaf.byte_range())?;
    // What the parser added is not in the text, and a word inside a string is no word.
    if leaf.is_missing() || leaf.is_named() {
        return None;
    }
    match (pairs, word) {
        (Pairs::Brackets | Pairs::Preprocessed, _) => bracket(word),
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
