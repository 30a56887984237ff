//! Detects artifacts of models in the text of edits: line numbers copied from a reply, and placeholder comments that
//! stand for omitted code. Heuristics over words; knows no programming language.

use super::options::{EditOptions, Placeholders};

/// Removes the line numbers in front of lines, if every line has one and they are consecutive.
pub(crate) fn without_numbers(text: &str) -> Option<String> {
    let mut expected = None;
    let mut lines = Vec::new();
    let mut rest: Vec<&str> = text.split('\n').collect();
    let ended = rest.len() > 1 && rest.last() == Some(&"");
    if ended {
        rest.pop();
    }
    for line in rest {
        let (number, line) = numbered(line)?;
        if expected.is_some_and(|expected| expected != number) {
            return None;
        }
        expected = Some(number + 1);
        lines.push(line);
    }
    let text = lines.join("\n");
    Some(if ended { text + "\n" } else { text })
}

/// Splits a line number, in the formats of replies, from the rest of the line.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches(' ');
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let number = line[..digits].parse().ok().filter(|number| *number > 0)?;
    let rest = &line[digits..];
    let rest = ["\t", "→", ":\t", " | ", "| ", "|"].iter().find_map(|mark| rest.strip_prefix(mark))?;
    Some((number, rest))
}

/// The first line of `new` that stands for omitted code, and its number from 1. A line that is also in `old` does not
/// count, since it is in the file.
pub fn placeholder(old: &str, new: &str, options: EditOptions) -> Option<(usize, String)> {
    if options.placeholders == Placeholders::Keep {
        return None;
    }
    let lines: Vec<&str> = new.split('\n').map(str::trim).collect();
    let is_artifact = |at: &usize| is_placeholder(lines[*at]) || is_gap(old, &lines, *at);
    let is_new = |at: &usize| !old.split('\n').any(|old| old.trim() == lines[*at]);
    let at = (0..lines.len()).filter(is_artifact).find(is_new)?;
    Some((at + 1, lines[at].to_owned()))
}

/// Whether a line is a comment of only dots in a place where `old` has lines between its neighbours.
fn is_gap(old: &str, lines: &[&str], at: usize) -> bool {
    let (Some(_), body) = comment(lines[at]) else { return false };
    if !(body.contains("...") || body.contains('…')) || !body.trim_matches(['.', '…', ' ']).is_empty() {
        return false;
    }
    let is_filled = |line: &&&str| !line.is_empty();
    let before = lines[..at].iter().rfind(is_filled);
    let after = lines[at + 1..].iter().find(is_filled);
    let old_lines: Vec<&str> = old.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = before.and_then(|before| old_lines.iter().position(|line| line == before));
    // The line before may be new as well; then the new text must at least have fewer lines.
    let has_start =
        before.is_none() || from.is_some() || lines.iter().filter(is_filled).count() < old_lines.len();
    let mut rest = old_lines[from.map_or(0, |at| at + 1)..].iter();
    let between = match after {
        Some(after) => rest.position(|line| line == after),
        None => Some(rest.count()),
    };
    has_start && (before.is_some() || after.is_some()) && between.is_some_and(|lines| lines > 0)
}

/// The comment marker of a line, if it has one, and the text of the comment.
fn comment(line: &str) -> (Option<&str>, &str) {
    let leader = LEADERS.iter().find(|leader| line.starts_with(**leader)).copied();
    let body = &line[leader.map_or(0, str::len)..];
    (leader, TRAILERS.iter().find_map(|trailer| body.strip_suffix(trailer)).unwrap_or(body).trim())
}

const LEADERS: [&str; 14] =
    ["<!--", "{/*", "/**", "/*", "//", "--", "##", "#", ";;", ";", "%", "(*", "\"\"\"", "*"];
const TRAILERS: [&str; 5] = ["-->", "*/}", "*/", "*)", "\"\"\""];
/// Words that signal an omission.
const KEYS: [&str; 7] = ["rest", "existing", "remaining", "unchanged", "omitted", "previous", "same"];
/// Words for the omitted part.
const NOUNS: [&str; 10] = [
    "code",
    "document",
    "implementation",
    "file",
    "function",
    "class",
    "method",
    "methods",
    "functions",
    "module",
];
/// Other words that occur in placeholders.
const FILL: [&str; 39] = [
    "of",
    "the",
    "this",
    "your",
    "my",
    "is",
    "are",
    "as",
    "before",
    "above",
    "below",
    "here",
    "stay",
    "stays",
    "remain",
    "remains",
    "for",
    "brevity",
    "and",
    "other",
    "original",
    "goes",
    "keep",
    "kept",
    "no",
    "changes",
    "etc",
    "all",
    "in",
    "content",
    "contents",
    "line",
    "lines",
    "logic",
    "imports",
    "body",
    "continues",
    "left",
    "to",
];

fn is_placeholder(line: &str) -> bool {
    let (leader, body) = comment(line.trim());
    let inner = body.trim_matches(['.', '…', ' ', '(', ')', '[', ']']);
    let dotted = body.contains("...") || body.contains('…');
    let wrapped = body.starts_with(['(', '[']) && body.ends_with([')', ']']);
    if (leader.is_none() && !dotted && !wrapped) || inner.len() > 80 {
        return false;
    }
    let inner = inner.to_lowercase();
    let words: Vec<&str> =
        inner.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let any = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let all = words.iter().all(|word| KEYS.contains(word) || NOUNS.contains(word) || FILL.contains(word));
    let keys = words.iter().filter(|word| KEYS.contains(word)).count();
    // Text in brackets is often ordinary prose, so it needs two signals.
    let min_keys = if leader.is_none() && !dotted { 2 } else { 1 };
    match words[..] {
        ["unchanged"] => leader.is_some(),
        [_] => false,
        ["no", "changes", .., _] if any(&["above", "below"]) => leader.is_some() && all,
        _ => all && keys >= min_keys && (dotted || any(&NOUNS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_removed_only_if_all_lines_have_them() {
        assert_eq!(without_numbers("    12\tfoo\n    13\t  bar\n").as_deref(), Some("foo\n  bar\n"));
        assert_eq!(without_numbers("9→a\n10→b").as_deref(), Some("a\nb"));
        for text in ["12\tfoo\nbar", "12\tfoo\n14\tbar", "foo", "", "12 foo", "1: x"] {
            assert_eq!(without_numbers(text), None, "{text:?}");
        }
    }

    #[test]
    fn dots_in_place_of_lines_are_recognised() {
        let find = |old, new| placeholder(old, new, EditOptions::default()).map(|(line, _)| line);
        assert_eq!(find("a {\n  b;\n  c;\n}\n", "a {\n  // ...\n}\n"), Some(2));
        assert_eq!(find("a\nb\nc\n", "a\n# ...\n"), Some(2));
        assert_eq!(find("a {\n  b;\n  c;\n}\n", "x {\n  // ...\n}\n"), Some(2));
        assert_eq!(find("a\nb\n", "a\n# ...\nb\n"), None);
        assert_eq!(find("a\nb\nc\n", "a\n...\nc\n"), None);
        assert_eq!(find("", "a\n// ...\nc\n"), None);
    }

    #[test]
    fn placeholders_for_code_are_recognised() {
        for line in [
            "// ... existing code ...",
            "# rest of the code unchanged",
            "    // remaining code",
            "/* unchanged code here */",
            "<!-- ... rest of the file ... -->",
            "... existing code ...",
            "# ... (rest of the function remains the same)",
            "-- rest of file unchanged",
            "{/* ...existing code... */}",
            "// … rest of implementation …",
            "(rest of file omitted for brevity)",
            "/* unchanged */",
            "<!-- rest of the document -->",
            "# no changes below this line",
        ] {
            assert!(placeholder("", line, EditOptions::default()).is_some(), "{line}");
            assert_eq!(placeholder(line, line, EditOptions::default()), None);
        }
        for line in [
            "// the rest of the arguments are joined",
            "let rest = code;",
            "...args",
            "existing_code()",
            "# existing users keep their name",
            "// ...",
            "Loading...",
            "- keep the file",
            "// same as before",
            "(the rest of the file)",
            "unchanged",
            "# no changes here",
            "",
        ] {
            assert_eq!(placeholder("", line, EditOptions::default()), None, "{line}");
        }
    }
}
