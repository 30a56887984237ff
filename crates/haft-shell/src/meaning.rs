//! Exit codes that answer a question: `grep` that finds nothing has not failed.

use super::{Before, Understood, raw};

/// Programs that look for something, and say with 1 that they found nothing.
const SEARCH: &[&str] =
    &["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "look", "findmnt", "getent"];
/// Programs that compare, and say with 1 that there is a difference.
const COMPARE: &[&str] = &["diff", "cmp", "sdiff", "colordiff", "zdiff", "comm"];

/// What an exit code that is not 0 means where it is an answer and not an error. `printed` says whether the
/// command printed anything.
///
/// ```
/// use haft_shell;
/// let found = shell::parse("cd src && grep -r unlikely .");
/// assert_eq!(shell::meaning(&found, 1, false), Some("nothing was found"));
/// assert_eq!(shell::meaning(&found, 2, true), None);
/// ```
pub fn meaning(understood: &Understood, code: i32, printed: bool) -> Option<&'static str> {
    let decides = understood.decides.as_ref()?;
    let mut words = decides.argv.iter().map(|word| raw::basename(word));
    let mut name = words.next()?;
    // These pass on what they run says.
    while matches!(name, "command" | "nice" | "timeout" | "stdbuf") {
        name = words
            .find(|word| !word.starts_with(['-', '+']) && !word.starts_with(|c: char| c.is_ascii_digit()))?;
    }
    let rest: Vec<&str> = words.collect();
    let is_git = |verb: &str| name == "git" && rest.first() == Some(&verb);
    // In `a && b` it may have been `a` that failed.
    let alone = decides.before == Before::Nothing;
    match code {
        1 if (SEARCH.contains(&name) || is_git("grep"))
            && !printed
            && decides.before != Before::Something =>
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
    use super::meaning;

    #[test]
    fn answers_are_told_from_errors() {
        let is_answer = |text: &str, printed| meaning(&parse(text), 1, printed).is_some();
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
        assert_eq!(meaning(&parse("grep x f"), 2, false), None);
    }
}
