use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::nearest::{Difference, Nearest};
use super::*;

type Files = BTreeMap<String, Vec<u8>>;
type Bad = PatchProblem<String>;

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

fn planned(files: &Files, patch: &str) -> Result<Vec<Patched>, Bad> {
    plan_patch(patch, Leniency::Lenient, &mut |path| {
        let bytes = files.get(path).cloned();
        bytes.map(|bytes| Source::new(bytes).map_err(|_| format!("`{path}` is binary"))).transpose()
    })
}

fn applied(files: &Files, patch: &str) -> Result<Files, Bad> {
    let mut after = files.clone();
    for Patched { path, outcome } in planned(files, patch)? {
        match outcome {
            Outcome::Create { text } => {
                after.insert(path, text.into_bytes());
            }
            Outcome::Delete => {
                after.remove(&path);
            }
            Outcome::Update { source, planned, to } => {
                after.remove(&path);
                after.insert(to.unwrap_or(path), planned.splices.apply(source.bytes()));
            }
        }
    }
    Ok(after)
}

/// A text after a unified diff of it.
pub(in super::super) fn check_unified(text: &str, patch: &str) -> String {
    let before = files(&[("f", text)]);
    match applied(&before, patch) {
        Ok(after) => String::from_utf8(after["f"].clone()).unwrap(),
        Err(problem) => problem.message(),
    }
}

fn one(text: &str, body: &str) -> String {
    check_unified(text, &format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n"))
}

#[test]
fn files_are_made_changed_moved_and_deleted() {
    let before = files(&[("a", "one\ntwo\nthree\n"), ("b", "x\n"), ("c", "y\n")]);
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: d/a\n@@ one\n-two\n+2\n three\n\
                 *** Add File: e\n+hello\n+\n+world\n*** Delete File: b\n*** End Patch";
    let after = applied(&before, patch).unwrap();
    assert_eq!(after, files(&[("c", "y\n"), ("d/a", "one\n2\nthree\n"), ("e", "hello\n\nworld\n")]));
}

#[test]
fn hunks_find_their_place() {
    let text = "def f():\n    x = 1\n    return x\n\ndef g():\n    x = 1\n    return x\n";
    let changed = one(text, "@@ def g():\n-    x = 1\n+    x = 2\n     return x\n");
    assert_eq!(
        changed,
        text.replacen("x = 1\n    return x\n", "x = 2\n    return x\n", 2).replacen("x = 2", "x = 1", 1)
    );
    let told = one(text, "@@\n-    x = 1\n+    x = 2\n");
    assert_eq!(told, "hunk 1 of 1 for `f`: the text to replace is there 2 times");
    assert_eq!(one("a\nb\na\n", " a\n+c\n*** End of File\n"), "a\nb\na\nc\n");
    assert_eq!(one("a\nb\n", "+c\n"), "a\nb\nc\n");
    assert_eq!(one("a\nb\n", "@@ a\n+c\n"), "a\nc\nb\n");
    assert_eq!(one("a\n\nb\n", " a\n\n-b\n+c\n"), "a\n\nc\n");
}

#[test]
fn context_lines_are_not_touched() {
    assert_eq!(one("a \r\nb\r\nc", " a\n-b\n+x\n+y\n c\n"), "a \r\nx\r\ny\r\nc");
    assert_eq!(one("\tif x:\n\t\ty\n", " if x:\n-    y\n+    z\n+    w\n"), "\tif x:\n\t\tz\n\t\tw\n");
}

#[test]
fn a_unified_diff_needs_no_right_numbers() {
    let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let patch = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@ fn x\n line 19\n-line 20\n\
                 +line twenty\n line 21\n@@ -99 +99 @@\n-line 30\n+line thirty\n\\ No newline at end of file\n";
    let expected = text.replace("line 20\n", "line twenty\n").replace("line 30\n", "line thirty");
    assert_eq!(check_unified(&text, patch), expected);
    let patch = "--- a/f\n+++ b/f\n@@ -3 +3 @@\n-same\n+other\n";
    assert_eq!(check_unified("same\nsame\nsame\n", patch), "same\nsame\nother\n");
}

#[test]
fn a_unified_diff_makes_and_deletes_files() {
    let before = files(&[("a", "x\n")]);
    let patch =
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+p\n+--- q\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    assert_eq!(applied(&before, patch).unwrap(), files(&[("new", "p\n--- q\n")]));
}

#[test]
fn what_does_not_fit_is_named() {
    let before = files(&[("f", "alpha beta\ngamma delta\n"), ("g", "x\n")]);
    let patch = "*** Begin Patch\n*** Update File: g\n-x\n+y\n*** Update File: f\n@@\n alpha beta\n-gamma Delta\n+z\n*** End Patch";
    let Err(PatchProblem::Hunk {
        path,
        hunk: 1,
        problem: Problem::NotFound { near: Nearest::Place(near), .. },
        ..
    }) = planned(&before, patch)
    else {
        panic!()
    };
    assert_eq!(
        (path.as_str(), near.first, near.last, &near.differences[..]),
        ("f", 1, 2, &[Difference::Case][..])
    );
    let bad = |body: &str| {
        planned(&before, &format!("*** Begin Patch\n{body}\n*** End Patch")).unwrap_err().message()
    };
    assert_eq!(bad("*** Update File: h\n-a\n+b"), "`h`, which the patch changes, does not exist");
    assert_eq!(bad("*** Add File: f\n+b"), "`f`, which the patch makes, exists already");
    assert_eq!(
        bad("*** Update File: f\n*** Move to: g\n-alpha beta\n+b"),
        "`g`, which the patch makes, exists already"
    );
    assert_eq!(bad("*** Delete File: f\n*** Add File: f\n+b"), "the patch changes `f` in two ways");
    assert_eq!(
        bad("*** Add File: n\nb"),
        "line 3 of the patch: a line of the new file `n` does not begin with `+`"
    );
    let both = "*** Add File: n\n+x\n*** Update File: g\n*** Move to: n\n-x\n+y";
    assert_eq!(bad(both), "the patch changes `n` in two ways");
    assert_eq!(bad(""), "the patch changes no file");
    let overlapping = "*** Update File: f\n@@\n-alpha beta\n+b\n gamma delta\n@@\n-gamma delta\n+c";
    assert_eq!(bad(overlapping), "hunk 2 of 2 for `f` changes lines that another one changes");
    let cut = planned(&before, "*** Begin Patch\n*** Delete File: f\n").unwrap_err().message();
    assert_eq!(cut, "line 2 of the patch: the patch has no `*** End Patch` and may be cut off");
    assert_eq!(planned(&before, "").unwrap_err(), PatchProblem::Nothing);
}

proptest! {
    #[test]
    fn a_diff_as_a_patch_gives_the_other_side(
        old in "([ab]{0,2}\r?\n){0,12}[ab]{0,1}", new in "([ab]{0,2}\n){0,12}[ab]{0,1}"
    ) {
        use super::super::diff::{DiffLimits, Side, unified};
        let old = old.replace('\r', "");
        let limits = DiffLimits { context: 100, ..DiffLimits::default() };
        let side = |text: &'static str| Side { name: "f", bytes: text.as_bytes() };
        let diff = unified(side(old.clone().leak()), side(new.clone().leak()), limits);
        if old != new && !new.is_empty() && !old.is_empty() {
            prop_assert_eq!(check_unified(&old, &diff.text), new);
        }
    }

    #[test]
    fn nothing_panics(
        text in ".{0,40}",
        parts in proptest::collection::vec(prop_oneof![
            Just("*** Begin Patch\n".to_owned()), Just("*** Update File: f\n".to_owned()), Just("*** Add File: f\n".to_owned()),
            Just("*** End Patch\n".to_owned()), Just("*** Move to: g\n".to_owned()), Just("@@ \n".to_owned()),
            Just("--- a/f\n+++ b/f\n".to_owned()), Just("@@ -1,2 +3 @@\n".to_owned()), Just("*** End of File\n".to_owned()),
            "[-+ @\\\\*][a-c ]{0,3}\n", "[^\n]{0,4}\n",
        ], 0..12),
    ) {
        let before = files(&[("f", &text)]);
        let marked = format!("*** Begin Patch\n*** Update File: f\n{}*** End Patch\n", parts.concat());
        for patch in [parts.concat(), marked] {
            if let Err(problem) = planned(&before, &patch) {
                problem.message();
                problem.hint();
            }
        }
    }
}
