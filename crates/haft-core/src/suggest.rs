//! "Did you mean": suggests the names that are most similar to an unknown one.

/// The names most similar to `name`, best first, at most `most`. Ignores case, `_` and `-`.
///
/// ```
/// assert_eq!(haft_core::suggest::nearest("read-fil", ["ReadFile", "Write"], 3), ["ReadFile"]);
/// ```
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = fold(name);
    let mut found: Vec<(f64, &str)> = among
        .into_iter()
        .filter_map(|candidate| {
            let folded = fold(candidate);
            let score = if folded == wanted {
                1.0
            } else if is_much_of(&wanted, &folded) || is_much_of(&folded, &wanted) {
                0.9
            } else {
                strsim::jaro_winkler(&wanted, &folded)
            };
            (score >= 0.8).then_some((score, candidate))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    found.into_iter().take(most).map(|(_, name)| name).collect()
}

/// Names in backticks, joined for a sentence: `` `a`, `b` or `c` ``.
pub fn or_list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Whether a name is part of another one, and no small part.
fn is_much_of(part: &str, whole: &str) -> bool {
    part.len() >= 3 && 2 * part.len() >= whole.len() && whole.contains(part)
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}
