//! Tags of HTML without a partner. A browser reads anything, so only elements that must be closed count.

use tree_sitter::{Node, Tree};

use super::tokens::{Go, walk};
use super::{MAX_PROBLEMS, Places, Problem};

/// What has no end, or need not have one.
const OPEN: &[&str] = &[
    "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
    "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td",
    "tfoot", "th", "thead", "tr", "track", "wbr", "basefont", "frame", "keygen", "command",
];

/// Whether a text is HTML only after a template engine has read it.
pub(super) fn templated(text: &str) -> bool {
    ["{{", "{%", "<%", "<?", "{#", "${"].iter().any(|mark| text.contains(mark))
}

/// The tags without a partner, in order.
pub(super) fn problems(tree: &Tree, text: &str) -> Vec<Problem> {
    let places = Places::new(text);
    let mut found = Vec::new();
    walk(tree, |node| {
        let blamed = match node.kind() {
            "erroneous_end_tag" => {
                name(node, text).filter(|name| !is_open(name)).map(|name| ("unexpected", name, "/"))
            }
            "element" if closer(node).is_none() => node
                .child(0)
                .filter(|tag| tag.kind() == "start_tag")
                .and_then(|tag| name(tag, text))
                .filter(|name| !is_open(name))
                .map(|name| ("unclosed", name, "")),
            _ => None,
        };
        if let Some((what, name, slash)) = blamed.filter(|_| found.len() < MAX_PROBLEMS) {
            found.push(places.problem(text, node.start_byte(), format!("{what} `<{slash}{name}>`")));
        }
        Go::Into
    });
    found
}

fn is_open(name: &str) -> bool {
    OPEN.iter().any(|open| open.eq_ignore_ascii_case(name))
}

fn closer(element: Node<'_>) -> Option<Node<'_>> {
    let last = element.child(element.child_count().checked_sub(1)?)?;
    (last.kind() == "end_tag" || last.kind() == "self_closing_tag").then_some(last)
}

fn name<'a>(tag: Node<'_>, text: &'a str) -> Option<&'a str> {
    let mut cursor = tag.walk();
    let name = tag.children(&mut cursor).find(|part| part.kind().ends_with("tag_name"))?;
    text.get(name.byte_range())
}
