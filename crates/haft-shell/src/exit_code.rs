//! Exit codes that are answers rather than errors: a `grep` without matches has not failed. Knows exit codes and
//! program names only, not the output itself.

use super::{ParsedCommand, Preceding, scan};

/// Search programs, which exit with 1 if nothing matches.
const SEARCH: &[&str] =
    &["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "look", "findmnt", "getent"];
/// Comparison programs, which exit with 1 if there is a difference.
const COMPARE: &[&str] = &["diff", "cmp", "sdiff", "colordiff", "zdiff", "comm"];

/// Explains a non-zero exit code that is an answer and not an error; `None` for errors. `printed` says whether the
/// command printed anything.
///
/// ```
/// use haft_shell as shell;
/// let found = shell::parse("cd src && grep -r unlikely .");
/// assert_eq!(shell::exit_code_meaning(&found, 1, false), Some("nothing was found"));
/// assert_eq!(shell::exit_code_meaning(&found, 2, true), None);
/// ```
pub fn exit_code_meaning(understood: &ParsedCommand, code: i32, printed: bool) -> Option<&'static str> {
    let source = understood.exit_code_source.as_ref()?;
    let mut words = source.argv.iter().map(|word| scan::basename(word));
    let mut name = words.next()?;
    // These exit with the code of the command that they run.
    while matches!(name, "command" | "nice" | "timeout" | "stdbuf") {
        name = words
            .find(|word| !word.starts_with(['-', '+']) && !word.starts_with(|c: char| c.is_ascii_digit()))?;
    }
    let rest: Vec<&str> = words.collect();
    let is_git = |verb: &str| name == "git" && rest.first() == Some(&verb);
    // In `a && b` it may have been `a` that failed.
    let alone = source.preceding == Preceding::None;
    match code {
        1 if (SEARCH.contains(&name) || is_git("grep"))
            && !printed
            && source.preceding != Preceding::Other =>
        {
            Some("nothing was found")
        }
        1 if COMPARE.contains(&name) && alone => Some("there are differences"),
        1 if is_git("diff") && alone && rest.iter().any(|word| word.starts_with("--")) => {
            Some("there are differences")
        }
        1 if matches!(name, "test" | "[") && alone => Some("the condition does not hold"),
        1 if matches!(name, "which" | "type") && alone && !printed => Some("there is no such program"),
        1 if name == "expr" && alone => Some("the result is nothing or zero"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::exit_code_meaning;

    #[test]
    fn answers_are_distinguished_from_errors() {
        let is_answer = |text: &str, printed| exit_code_meaning(&parse(text), 1, printed).is_some();
        for text in
            ["grep x f", "cat f | grep x", "ls; rg x", "timeout 5 grep x f", "git grep x", "cd a && grep x f"]
        {
            assert!(is_answer(text, false), "{text}");
            assert!(!is_answer(text, true), "{text}");
        }
        for text in ["diff a b", "git diff --exit-code", "test -f x", "[ -f x ]", "cmp a b"] {
            assert!(is_answer(text, true), "{text}");
        }
        for text in [
            "grep x f | head",
            "make",
            "make && diff a b",
            "grep x f || make",
            "make && grep x f",
            "grep x f &",
            "if grep x f; then ls; fi",
        ] {
            assert!(!is_answer(text, false), "{text}");
        }
        assert_eq!(exit_code_meaning(&parse("grep x f"), 2, false), None);
    }
}
