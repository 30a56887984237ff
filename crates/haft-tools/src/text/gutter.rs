//! What a model copies or writes that was never meant to be in the file: the line numbers of a reply, and
//! comments that stand for code it did not want to repeat.

use super::manner::{Manner, Placeholders};

/// A text without the line numbers in front of its lines, if every line has one and they count up.
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

/// A line number as replies write it, and what follows.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches(' ');
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let number = line[..digits].parse().ok().filter(|number| *number > 0)?;
    let rest = &line[digits..];
    let rest = ["\t", "→", ":\t", " | ", "| ", "|"].iter().find_map(|mark| rest.strip_prefix(mark))?;
    Some((number, rest))
}

/// The first line of `new` that stands for code left out, counted from 1. A line that `old` has too is
/// in the file and stays.
pub(crate) fn placeholder(old: &str, new: &str, manner: Manner) -> Option<(usize, String)> {
    if manner.placeholders == Placeholders::Keep {
        return None;
    }
    let lines = new.split('\n').enumerate();
    let mut stand_ins = lines.filter(|(_, line)| is_placeholder(line));
    let (at, line) = stand_ins.find(|(_, line)| !old.split('\n').any(|old| old.trim() == line.trim()))?;
    Some((at + 1, line.trim().to_owned()))
}

const LEADERS: [&str; 14] =
    ["<!--", "{/*", "/**", "/*", "//", "--", "##", "#", ";;", ";", "%", "(*", "\"\"\"", "*"];
const TRAILERS: [&str; 5] = ["-->", "*/}", "*/", "*)", "\"\"\""];
/// What says that something is left out.
const KEYS: [&str; 7] = ["rest", "existing", "remaining", "unchanged", "omitted", "previous", "same"];
/// What is left out.
const NOUNS: [&str; 9] =
    ["code", "implementation", "file", "function", "class", "method", "methods", "functions", "module"];
/// What else such a line says.
const FILL: [&str; 38] = [
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
    "lines",
    "logic",
    "imports",
    "body",
    "continues",
    "left",
    "to",
];

fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    let leader = LEADERS.iter().find_map(|leader| line.strip_prefix(leader));
    let body = leader.unwrap_or(line);
    let body = TRAILERS.iter().find_map(|trailer| body.strip_suffix(trailer)).unwrap_or(body).trim();
    let inner = body.trim_matches(['.', '…', ' ', '(', ')', '[', ']']);
    let dotted = body.contains("...") || body.contains('…');
    if (leader.is_none() && !dotted) || inner.len() > 80 {
        return false;
    }
    let inner = inner.to_lowercase();
    let words: Vec<&str> =
        inner.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let any = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let all = words.iter().all(|word| KEYS.contains(word) || NOUNS.contains(word) || FILL.contains(word));
    words.len() > 1 && all && any(&KEYS) && (dotted || any(&NOUNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_only_when_all_lines_have_them() {
        assert_eq!(without_numbers("    12\tfoo\n    13\t  bar\n").as_deref(), Some("foo\n  bar\n"));
        assert_eq!(without_numbers("9→a\n10→b").as_deref(), Some("a\nb"));
        for text in ["12\tfoo\nbar", "12\tfoo\n14\tbar", "foo", "", "12 foo", "1: x"] {
            assert_eq!(without_numbers(text), None, "{text:?}");
        }
    }

    #[test]
    fn stand_ins_for_code_are_known() {
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
        ] {
            assert!(placeholder("", line, Manner::default()).is_some(), "{line}");
            assert_eq!(placeholder(line, line, Manner::default()), None);
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
            "",
        ] {
            assert_eq!(placeholder("", line, Manner::default()), None, "{line}");
        }
    }
}
