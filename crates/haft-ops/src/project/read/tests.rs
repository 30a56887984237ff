//! Each format is parsed from recorded output of the real program.

use super::*;

fn read(format: OutputFormat, out: &str, err: &str) -> ParsedOutput {
    parse_output(format, out, err)
}

/// The problems, one per line.
fn shown(found: &ParsedOutput) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let line = |problem: &Problem| {
        let Problem { test, file, line, column, code, message, .. } = problem;
        let (test, file) = (test.as_deref().unwrap_or("-"), file.as_deref().unwrap_or("-"));
        let (code, message) = (code.as_deref().unwrap_or("-"), message.lines().next().unwrap_or("-"));
        format!("{test} {file}:{}:{} {code} {message}", number(*line), number(*column))
    };
    found.problems.iter().map(line).collect()
}

fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
    Some(Counts { passed, failed, skipped })
}

#[test]
fn cargo_test() {
    let found = read(OutputFormat::CargoTest, include_str!("recorded/cargo_test.txt"), "   Compiling rs\n");
    assert_eq!(shown(&found), ["tests::breaks src/lib.rs:9:9 - assertion `left == right` failed: sum"]);
    assert_eq!(found.problems[0].message.lines().count(), 3);
    assert_eq!(found.counts, counts(1, 1, 1));
    assert!(found.log.starts_with("   Compiling") && !found.log.contains("\"reason\""), "{}", found.log);
}

#[test]
fn cargo_that_does_not_compile() {
    let found = read(OutputFormat::CargoTest, include_str!("recorded/cargo_broken.txt"), "");
    assert_eq!(shown(&found), ["- src/lib.rs:1:50 E0277 cannot add `&str` to `i32`"]);
    assert_eq!(found.counts, None);
}

#[test]
fn clippy() {
    let found = read(OutputFormat::Cargo, include_str!("recorded/clippy.txt"), "");
    assert_eq!(shown(&found), ["- src/lib.rs:1:41 unused_variables unused variable: `x`"]);
    assert_eq!(found.problems[0].severity, Severity::Warning);
}

#[test]
fn pytest() {
    let found = read(OutputFormat::Pytest, include_str!("recorded/pytest.txt"), "");
    assert_eq!(
        shown(&found),
        [
            "test_error test_p.py:11:- - RuntimeError: fixture broke",
            "test_bad test_p.py:3:- - AssertionError: helper says no",
            "test_many[2] test_p.py:9:- - assert 2 == 1",
        ]
    );
    assert_eq!(found.counts, counts(2, 3, 1));
}

#[test]
fn pytest_that_cannot_collect() {
    let found = read(OutputFormat::Pytest, include_str!("recorded/pytest_collecting.txt"), "");
    assert_eq!((found.problems.len(), found.counts), (1, counts(0, 1, 0)));
    let problem = &found.problems[0];
    assert_eq!((problem.file.as_deref(), problem.line), (Some("/ws/test_syntax.py"), Some(1)));
    assert!(problem.message.ends_with("SyntaxError: invalid syntax"), "{}", problem.message);
}

#[test]
fn unittest() {
    let found = read(OutputFormat::Unittest, "", include_str!("recorded/unittest.txt"));
    assert_eq!(
        shown(&found),
        [
            "test_a.T.test_broken /ws/test_a.py:7:- - ValueError: boom",
            "test_a.T.test_bad /ws/test_a.py:5:- - AssertionError: 1 != 2 : numbers differ",
        ]
    );
    assert_eq!(found.counts, counts(1, 2, 1));
}

#[test]
fn go_test() {
    let found = read(OutputFormat::GoTest, include_str!("recorded/go_test.json"), "");
    assert_eq!(shown(&found), ["TestBreaks sum_test.go:12:- - got 2, want 3"]);
    assert_eq!(found.counts, counts(1, 1, 1));
    assert!(found.log.contains("--- FAIL: TestBreaks"), "{}", found.log);
}

#[test]
fn tap() {
    let found = read(OutputFormat::Node, include_str!("recorded/tap.txt"), "");
    assert_eq!(shown(&found), ["breaks /ws/a.test.js:3:31 - Expected values to be strictly equal:"]);
    assert!(found.problems[0].message.ends_with("2 !== 3"), "{}", found.problems[0].message);
    assert_eq!(found.counts, counts(1, 1, 1));
}

#[test]
fn jest() {
    let found = read(OutputFormat::Node, include_str!("recorded/jest.txt"), "");
    assert_eq!(
        shown(&found),
        ["sums > breaks j.test.js:1:107 - expect(received).toBe(expected) // Object.is equality"]
    );
    assert_eq!(found.counts, counts(1, 1, 1));
}

#[test]
fn mocha() {
    let found = read(OutputFormat::Node, include_str!("recorded/mocha.txt"), "");
    let first = "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:";
    assert_eq!(shown(&found), [format!("sums breaks m/m.spec.cjs:1:108 - {first}")]);
    assert_eq!(found.counts, counts(1, 1, 1));
}

#[test]
fn vitest() {
    let found = read(OutputFormat::Node, include_str!("recorded/vitest.txt"), "");
    let first = "AssertionError: expected 2 to be 3 // Object.is equality";
    assert_eq!(shown(&found), [format!("v.test.mjs > sums > breaks v.test.mjs:2:36 - {first}")]);
    assert_eq!(found.counts, counts(1, 1, 1));
}

#[test]
fn ruff() {
    let found = read(OutputFormat::Ruff, include_str!("recorded/ruff.json"), "");
    assert_eq!(found.problems.len(), 5);
    assert_eq!(shown(&found)[1], "- /ws/bad.py:1:8 F401 `os` imported but unused");
    assert!(found.log.contains("/ws/bad.py:3:12: F821 Undefined name"), "{}", found.log);
}

#[test]
fn unformatted_files_of_ruff_and_black() {
    let ruff = read(OutputFormat::RuffFormat, include_str!("recorded/ruff_format.txt"), "");
    let older_ruff =
        read(OutputFormat::RuffFormat, "Would reformat: bad.py\n1 file would be reformatted\n", "");
    let black = read(OutputFormat::Black, "", include_str!("recorded/black.txt"));
    for found in [ruff, older_ruff, black] {
        assert_eq!((found.files, found.problems), (vec!["bad.py".to_owned()], Vec::new()));
    }
    assert_eq!(read(OutputFormat::Names, "a.go\nb/c.go\n", "").files, ["a.go", "b/c.go"]);
}

#[test]
fn eslint() {
    let found = read(OutputFormat::Eslint, include_str!("recorded/eslint.json"), "");
    assert_eq!(
        shown(&found),
        [
            "- /ws/bad.js:2:1 no-undef 'foo' is not defined.",
            "- /ws/bad.js:1:7 no-unused-vars 'x' is assigned a value but never used.",
        ]
    );
}

#[test]
fn tsc() {
    let found = read(OutputFormat::Tsc, include_str!("recorded/tsc.txt"), "");
    assert_eq!(shown(&found), ["- bad.ts:1:7 TS2322 Type 'string' is not assignable to type 'number'."]);
}

#[test]
fn lines_with_a_file_and_a_line_number() {
    let log = "gcc -c a.c\na.c:3:5: error: no such thing\na.c:9: warning: odd\n./x/b.go:1:2: undefined: y\nhttp://x:80/ no\nat 12:30: lunch\n";
    let found = read(OutputFormat::Lines, log, "");
    assert_eq!(
        shown(&found),
        ["- a.c:3:5 - no such thing", "- ./x/b.go:1:2 - undefined: y", "- a.c:9:- - odd"]
    );
}
