//! Parts of a change that the user can approve one by one: the hunks of its diff. A diff can be cut or lossy, so a change
//! has parts only if all hunks together produce exactly its content. Knows nothing of plans.

use diffy::Patch;

/// Largest file whose changes have parts, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// The hunks of a diff; empty if they do not reproduce the change or if there is only one.
pub(super) fn of(diff: &str, before: &[u8], after: &[u8]) -> Vec<String> {
    if before.len().max(after.len()) > MAX_BYTES {
        return Vec::new();
    }
    let hunks = hunks(diff);
    let all: Vec<usize> = (0..hunks.len()).collect();
    match hunks.len() > 1 && with(diff, before, &all).as_deref() == Some(after) {
        true => hunks,
        false => Vec::new(),
    }
}

/// Applies only the chosen hunks of a diff.
pub(super) fn with(diff: &str, before: &[u8], chosen: &[usize]) -> Option<Vec<u8>> {
    let head: String = diff.split_inclusive('\n').take_while(|line| !line.starts_with("@@ ")).collect();
    let hunks = hunks(diff);
    let chosen: String = chosen.iter().filter_map(|part| hunks.get(*part)).map(String::as_str).collect();
    let patch = format!("{head}{chosen}");
    let patch = Patch::from_bytes(patch.as_bytes()).ok()?;
    diffy::apply_bytes(before, &patch).ok()
}

fn hunks(diff: &str) -> Vec<String> {
    let mut hunks: Vec<String> = Vec::new();
    for line in diff.split_inclusive('\n') {
        match hunks.last_mut() {
            _ if line.starts_with("@@ ") => hunks.push(line.to_owned()),
            Some(hunk) => hunk.push_str(line),
            None => {}
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_text::{DiffLimits, Side, unified};

    #[test]
    fn each_part_applies_without_the_others() {
        let before: String = (1..60).map(|n| format!("line {n}\n")).collect();
        let after = before
            .replace("line 5\n", "five\n")
            .replace("line 30\n", "")
            .replace("line 55\n", "line 55\nmore\n");
        let side = |name, text: &'static str| Side { name, bytes: text.as_bytes() };
        let (before, after) = (before.leak() as &str, after.leak() as &str);
        let diff = unified(side("a", before), side("a", after), DiffLimits::default()).text;
        let parts = of(&diff, before.as_bytes(), after.as_bytes());
        assert_eq!(parts.len(), 3);
        let only = String::from_utf8(with(&diff, before.as_bytes(), &[1]).unwrap()).unwrap();
        assert_eq!(only, before.replace("line 30\n", ""));
        let two = String::from_utf8(with(&diff, before.as_bytes(), &[0, 2]).unwrap()).unwrap();
        assert_eq!(two, before.replace("line 5\n", "five\n").replace("line 55\n", "line 55\nmore\n"));
    }

    #[test]
    fn a_change_that_its_hunks_do_not_reproduce_has_no_parts() {
        assert!(of("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", b"x\n", b"y\n").is_empty());
        assert!(of("no diff at all", b"x", b"y").is_empty());
    }
}
