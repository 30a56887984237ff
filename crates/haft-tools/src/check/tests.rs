mod cached;

use proptest::prelude::*;

use super::table::KINDS;
use super::*;

/// A file, a good text, a broken one, and where and what the first error is.
const SAMPLES: &[(&str, &str, &str, usize, &str)] = &[
    ("a.py", "def f(x):\n    return x\n", "def f(x):\n    y = (1,\n    return x\n", 2, "unclosed `(`"),
    ("b.py", "", "x = 1\n  y = 2\n", 2, "unexpected indentation"),
    ("a.js", "#!/usr/bin/env node\nconst a = <b>x</b>;\n", "let a = 1;\nlet = = 2;\n", 2, "unexpected token"),
    ("b.js", "return 1;\n", "function a() {\n  if (x) {\n    y();\n}\n", 2, "unclosed `{`"),
    ("c.js", "let r = /[)/]/g, t = `${a}(`;\n", "let t = `${f({a: 1})}`;\nf(\n", 2, "unclosed `(`"),
    ("a.ts", "let a: number = <any>1;\n", "let a: number = 1;\nlet b: = 2;\n", 2, "unexpected token"),
    ("a.tsx", "let a: X = <b>x</b>;\n", "let a = <b>\n  <i>x</b>;\n", 2, "expected"),
    (
        "a.d.ts",
        "declare const a: number;\nexport {};\n",
        "export interface A {\n  a: string\n",
        1,
        "unclosed `{`",
    ),
    ("a.rs", "fn a<'a>() -> char { '\\'' }\n", "fn a() {\n    let x = (1;\n}\n", 2, "unclosed `(`"),
    ("b.rs", "fn a() {}\n", "fn a() {\n    let x = ;\n}\n", 2, "expected"),
    ("c.rs", "fn a() { r#\"}\"#; }\n", "fn a() {\n    }\n    b();\n}\n", 2, "unexpected `}`"),
    ("a.json", "{\"a\": [1]}\n", "{\n  \"a\": 1,\n}\n", 3, "trailing comma"),
    ("b.json", "", "{\n  \"a\": [1,\n  \"b\": 2\n}\n", 2, "unclosed `[`"),
    ("c.json", "[]", "{\n  \"a\": 1\n  \"b\": 2\n}\n", 3, "expected `,` or `}`"),
    ("a.jsonl", "{}\n\n[]\n", "{}\n{a}\n", 2, "key must be a string"),
    ("a.yaml", "a: 1\n---\nb: !Ref x\n", "a: 1\nb: [1, 2\nc: 3\n", 2, "unclosed `[`"),
    ("b.yaml", "a: {b: 1}\n", "a: 1\n b: 2\n", 2, "mapping values are not allowed"),
    ("a.toml", "[a]\nb = 1\n", "[a]\nb = \nc = 1\n", 2, ""),
    ("b.toml", "a = ['\\']\n", "a = '''['''\nb = ['[\\', \"\\\"[\"\nc = 1\n", 2, "unclosed `[`"),
    ("a.go", "package a\nfunc f() {}\n", "package a\nfunc f() {\n\tx := (1\n}\n", 3, "unclosed `(`"),
    (
        "a.java",
        "class A { int b() { return 1; } }\n",
        "class A {\n  int b = 1\n  int c;\n}\n",
        2,
        "missing `;`",
    ),
    ("a.c", "int f(void) { return 1; }\n", "int f(void) {\n  if (1) {\n    g();\n}\n", 2, "unclosed `{`"),
    ("a.cpp", "class A { int b() { return 1; } };\n", "int f() {\n  g(1;\n}\n", 2, "unclosed `(`"),
    ("a.h", "namespace a { class B; }\n", "void f(int a\n;\n", 1, "unclosed `(`"),
    ("a.rb", "def a\n  b if c\nend\n", "class A\n  def b\n    c\nend\n", 2, "unclosed `def`"),
    ("a.php", "<p><?php echo 1; ?></p>\n", "<?php\nfunction a() {\n  echo (1;\n}\n", 3, "unclosed `(`"),
    ("a.sh", "case $1 in a) b;; esac\n", "if a; then\n  b\nelse\n  c\n", 1, "unclosed `if`"),
    ("a.html", "<ul><li>a<li>b</ul>\n", "<div>\n  <span>a\n</div>\n", 2, "unclosed `<span>`"),
    ("b.html", "<a b=\"c\">d</a>\n", "<i>\n<a b=\"c>d</a>\n</i>\n", 2, "unclosed `\"`"),
    ("c.html", "<b>a</b>\n", "<b>a</b>\n</div>\n<i>\n", 2, "unexpected `</div>`"),
    ("a.css", "a { b: c; }\n", "a {\n  b: c;\n\nd { e: f; }\n", 1, "unclosed `{`"),
];

/// One file name of each kind, and the name of the checker.
fn names() -> Vec<(String, Option<&'static str>)> {
    let name = |pattern: &str| pattern.replace('*', "x");
    let all = KINDS.iter().flat_map(|kind| kind.files).map(|file| name(file));
    all.map(|name| (name.clone(), Checkers::standard().find(&name).map(|checker| checker.name()))).collect()
}

fn compare(name: &str, before: Option<&str>, after: &str) -> Option<Checked> {
    Checkers::standard().compare(name, before, after)
}

fn errors(name: &str, before: Option<&str>, after: &str) -> Vec<(usize, String)> {
    let checked = compare(name, before, after).expect(name);
    checked.errors.into_iter().map(|found| (found.line, found.message)).collect()
}

#[test]
fn every_language_has_samples() {
    let standard = Checkers::standard();
    for (name, checker) in names() {
        let Some(checker) = checker else { continue };
        let sampled =
            SAMPLES.iter().any(|(file, ..)| standard.find(file).map(|one| one.name()) == Some(checker));
        assert!(sampled, "{name} has no sample");
    }
}

#[test]
fn good_texts_pass_and_broken_ones_are_told_at_the_right_line() {
    let mut wrong = Vec::new();
    for (name, good, broken, line, message) in SAMPLES {
        for before in [None, Some(""), Some(*good)] {
            match compare(name, before, good) {
                Some(checked) if checked.passed() => {}
                other => wrong.push(format!("{name} good: {other:?}")),
            }
            let found = compare(name, before, broken);
            let first = found.as_ref().and_then(|found| found.errors.first());
            if !first.is_some_and(|first| first.line == *line && first.message.contains(message)) {
                wrong.push(format!("{name} broken, before {before:?}: {first:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_of_all_kinds_that_are_right() {
    let texts = [
        ("a.js", "<!-- old\nvar a = 010; with (a) {}\n"),
        ("a.js", "/* @flow */\nfunction f(a: number) {}\n"),
        ("a.mjs", "import a from 'a';\nawait a;\nexport default class {}\n"),
        ("a.json", ""),
        ("a.yaml", "# nothing\n"),
        ("a.yml", "run: echo ${{ secrets.A }}\nb: \"{{ c }}\"\n"),
        ("a.c", "#ifdef A\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return 1;\n}\n"),
        ("a.c", "FOO(a) BAR\nint f(void) { return 1; }\n"),
        ("a.h", "extern \"C\" {\nvoid f(void);\n}\n"),
        ("a.rb", "x = if a then b else c end\nwhile a do\n  b\nend\na.each do |b|\n  c unless d\nend\n"),
        ("a.sh", "for i in \"${a[@]}\"; do echo ${i%%)*}; done\ncat <<EOF\nif (\nEOF\n"),
        ("a.html", "<!doctype html><p>a<br><img src=a><p>b\n"),
        ("a.html", "<script>if (a<b) '<div>'</SCRIPT><style>a</style><!-- <b> --><a b=\"<i>\" c='>'>d</A>\n"),
        (
            "a.html",
            "<svg><path d=x /><![CDATA[<b>]]></svg> 1 < 2 <3 <p title=it's>it\"s</p><div\n\t></div\n>\n",
        ),
        ("a.php", "<?php\n$a = <<<X\n(\nX;\n?>\n<b>(</b>\n"),
        ("a.py", "x = f'{a!r:>{b}}'\nmatch x:\n    case {'a': 1}: pass\n"),
        ("a.rs", "fn f(a: &dyn A) { async {}; let gen = 1; }\nsafe! { a }\n"),
        ("a.rs", "#!/usr/bin/env x\nfn dyn() { let async = c\"a\"; }\n"),
        ("a.toml", "a.b = 1\n[[c]]\nd = '''\n[\n'''\n"),
    ];
    for (name, text) in texts {
        let checked = compare(name, None, text);
        assert!(checked.as_ref().is_none_or(Checked::passed), "{name}: {checked:?}");
    }
}

#[test]
fn templates_and_json_with_comments_are_left_alone() {
    let texts = [
        ("tsconfig.base.json", "{ // x\n}"),
        (".vscode/launch.json", "{ // x\n}"),
        ("project\\.vscode\\launch.json", "{ // x\n}"),
        ("a.jsonc", "{ // x\n}"),
        ("a.yaml", "{{- if .Values.a }}\na: b\n{{- end }}\n"),
        ("a.yaml", "a: {{ .b }}\nc: {% d %}\n"),
        ("a.html", "<div>{% if a %}<p>{% endif %}"),
        ("a.sh", "#!/bin/zsh\nif a; then\n"),
        ("a.py", "#!/usr/bin/python2\nprint 'a'\n"),
        ("a.ts", "<?xml version=\"1.0\"?>\n<TS></TS>\n"),
        ("a.vue", "<template>"),
        ("README", "("),
    ];
    for (name, text) in texts {
        assert_eq!(compare(name, None, text), None, "{name}");
    }
}

#[test]
fn old_errors_are_not_told_again_when_lines_move() {
    let before = "x = 1\nprint 'a'\nprint 'b'\n";
    let after = format!("import a\n\n{before}print 'c'\n");
    let checked = compare("a.py", Some(before), &after).expect("checked");
    assert_eq!(checked.errors.iter().map(|found| found.line).collect::<Vec<_>>(), [6]);
    assert_eq!(checked.existing, 2);
    for (name, _, broken, ..) in SAMPLES {
        let moved = format!("{}{broken}", if name.ends_with("json") { "\n\n" } else { "" });
        let checked = compare(name, Some(broken), &moved).expect("checked");
        assert!(checked.passed() && checked.existing > 0, "{name}: {checked:?}");
    }
    let (before, after) = ("{\n\"a\": 1,,\n\"b\": 2\n}", "{\n\"a\": 1,\n\"b\": 2,\n}");
    assert_eq!(errors("a.json", Some(before), after), [(4, "trailing comma".to_owned())]);
}

#[test]
fn an_old_error_does_not_hide_a_new_one() {
    // What is broken already, what is right, and what a change makes of that.
    let texts = [
        ("a.py", "def one(:\n    pass\n", "def two():\n    return 'a'\n", "def two():\n    return 'a\n"),
        ("b.py", "def one(:\n    pass\n", "x = [1]\n", "x = [1\n"),
        ("a.js", "function a() {\n  let b = (1;\n}\n", "function c() {}\n", "function c() {\n"),
        ("a.ts", "let = = 2;\n", "let b: string;\n", "let b: ;\n"),
        ("a.rs", "fn a() { b(; }\n", "fn c() {}\n", "fn c( {}\n"),
        ("b.rs", "fn a() { let x = ; }\n", "fn c() {}\n", "fn c() { 1 + }\n"),
        ("a.jsonl", "{a}\n", "{}\n", "{b\n"),
        ("a.toml", "a = [1\n", "b = 1\n", "c = \n"),
        ("a.yaml", "a: [1\n", "b: [2]\n", "b: [2\n"),
        ("a.go", "func a() {\n\tb(\n}\n", "func c() {}\n", "func c( {}\n"),
        ("a.rb", "def a\n  b(\nend\n", "def c\nend\n", "def c\n"),
        ("a.html", "<div>\n", "<b></b>\n", "</b>\n"),
    ];
    for (name, old, good, new) in texts {
        let before = format!("{old}\n{good}");
        assert!(!errors(name, None, &before).is_empty(), "{name}: {before:?}");
        for front in ["", "\n\n"] {
            for (before, after) in
                [(&before, format!("{front}{old}\n{new}")), (&before, format!("{front}{before}{new}"))]
            {
                let checked = compare(name, Some(before), &after).expect(name);
                assert_eq!(checked.errors.len(), 1, "{name}, {after:?}: {checked:?}");
                let line = checked.errors[0].line;
                assert!(line > front.len() + old.lines().count(), "{name}, {after:?}: {checked:?}");
            }
        }
    }
}

#[test]
fn right_changes_beside_an_old_error_are_silent() {
    let texts = [
        ("a.py", "x = (1\ndef a():\n    pass\n", "x = (1\n@b\ndef a():\n    pass\n"),
        ("b.py", "x = (1\ntext = \"\"\"\na\nb\n\"\"\"\n", "x = (1\ntext = \"\"\"\na\nno code\nb\n\"\"\"\n"),
        ("c.py", "x = (1\nif a:\n    b\n", "x = (1\nif a:\n    b\nelse:\n    c\n"),
        ("d.py", "x = (1\nif a:\n    b\n", "x = (1\nif a:\n    b\n    c\n"),
        ("a.rs", "fn a( {}\n/*\na\n*/\nfn b() {}\n", "fn a( {}\n/*\nno code\na\n*/\nfn b() {}\n"),
        ("b.rs", "fn a( {}\nfn b() {}\n", "fn a( {}\n#[cfg(\n    test\n)]\nfn b()\nwhere\n    A: B\n{}\n"),
        ("a.js", "let = = 2;\na\n  .b()\n", "let = = 2;\na\n  .b()\n  .c()\n"),
        ("b.js", "let = = 2;\nif (a) {\n}\n", "let = = 2;\nif (a) {\n}\nelse {\n}\n"),
        ("a.yaml", "a: [1\nb: &d 2\nc: 3\n", "a: [1\nb: &d 2\nc: *d\n"),
        ("b.yaml", "a: [1\nb: 2\nc: 3\n", "a: [1\nb: 2\nd: |\n  [\nc: 3\n"),
        ("a.json", "{\n\"a\": [1,\n\"b\": 2\n}\n", "{\n\"a\": [1,\n\"b\": 3\n}\n"),
        ("a.toml", "a = \n[b]\nc = 1\n", "a = \n[b]\nc = 1\n[b.d]\n"),
        ("a.rb", "def a\n  b(\nend\nx = 1\n", "def a\n  b(\nend\nx = 1 if y\n"),
    ];
    for (name, before, after) in texts {
        let checked = compare(name, Some(before), after);
        assert!(checked.as_ref().is_none_or(Checked::passed), "{name}: {checked:?}");
    }
}

#[test]
fn a_second_error_of_the_same_kind_is_new() {
    let line = "print 'a'\n";
    assert_eq!(errors("a.py", Some(line), &line.repeat(2)).len(), 1);
}

#[test]
fn grammars_that_know_less_stay_silent_after_an_error() {
    let before = "a { b: ]; }\n";
    let checked = compare("a.css", Some(before), "a { b: ]; }\nc {\n").expect("checked");
    assert!(checked.passed() && checked.existing > 0, "{checked:?}");
}

#[test]
fn ten_at_most_are_told_and_the_rest_is_counted() {
    let checked = compare("a.py", None, &"print 'a'\n".repeat(25)).expect("checked");
    assert_eq!((checked.errors.len(), checked.more), (MAX_SHOWN, 15));
    assert!(!checked.passed());
}

#[test]
fn the_marker_stands_under_the_place() {
    let marked = |text: &str| {
        let found = compare("a.py", None, text).expect("checked").errors.remove(0);
        format!("{}\n{}", found.source, found.marker)
    };
    assert_eq!(marked("if a:\n\tx = (1\n"), "\tx = (1\n\t    ^");
    assert_eq!(marked("x = '漢字', (1\n"), "x = '漢字', (1\n            ^");
    assert_eq!(marked("a = 1\r\nb = (\r\nc = 2\r\n"), "b = (\n    ^");
    assert_eq!(marked("\u{FEFF}b = (\n"), "b = (\n    ^");
    let long = marked(&format!("a = {}(\n", "1 + ".repeat(400)));
    let (source, marker) = long.split_once('\n').expect("two lines");
    assert_eq!(source.chars().nth(marker.len() - 1), Some('('), "{long}");
    assert!(source.chars().count() < 170 && source.starts_with('…'), "{long}");
}

#[test]
fn line_ends_of_windows_change_nothing() {
    for (name, _, broken, line, _) in SAMPLES {
        let found = compare(name, None, &broken.replace('\n', "\r\n")).expect("checked");
        let first = found.errors.first().expect(name);
        assert_eq!(first.line, *line, "{name}: {first:?}");
        assert!(!first.source.contains('\r') && !first.message.contains('\r'), "{first:?}");
    }
}

#[test]
fn what_no_checker_can_help_with_has_no_result() {
    assert_eq!(compare("a.py", None, &"x = 1\n".repeat(MAX_BYTES / 6 + 1)), None);
    assert_eq!(compare("a.js", None, &format!("x='{}'", "a".repeat(MAX_LINE))), None);
    assert_eq!(compare("a.unknown", None, "("), None);
    assert_eq!(Checkers::none().compare("a.py", None, "("), None);
}

#[test]
fn bombs_do_no_harm() {
    let bombs = [
        "[",
        "(",
        "{",
        "!",
        "-",
        "not ",
        "await ",
        "a=",
        "a+",
        "a?b:",
        "else if(a){}",
        "if(a){}else ",
        "<div>",
        "for(;;)",
        "${",
        "f'{",
        "&",
        "*",
        "x=>",
        "if a {} else ",
        "- ",
        "a:",
        "\"",
        "/*",
        "begin ",
        "if a; then ",
        "? ",
        "<a b={",
    ];
    // One file of each kind: the others of a kind are read alike.
    for name in KINDS.iter().map(|kind| kind.files[0].replace('*', "x")) {
        for bomb in bombs {
            for unit in [bomb.to_owned(), format!("{bomb}\n")] {
                let text = unit.repeat((MAX_BYTES / unit.len()).min(25_000));
                let text = if name.ends_with(".php") { format!("<?php {text}") } else { text };
                let _ = compare(&name, None, &text);
            }
        }
    }
}

#[test]
fn a_character_outside_of_latin_does_not_crash_the_grammar_of_shells() {
    for char in ['\u{10FFFF}', '\u{1EE80}', '漢', 'é'] {
        let text = format!("echo {{{char}..3}} {{1..{char}}}\necho {char}\n");
        assert!(compare("a.sh", None, &text).is_none_or(|checked| checked.passed()), "{char:?}");
    }
}

struct Shout(&'static str);

impl Checker for Shout {
    fn name(&self) -> &'static str {
        self.0
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        assert!(!text.contains("panic"), "asked for");
        let lines = text.lines().enumerate().filter(|(_, line)| line.contains('!'));
        Some(lines.map(|(at, _)| Problem { line: at + 1, column: 1, message: "loud".to_owned() }).collect())
    }
}

#[test]
fn checkers_can_be_added_and_the_last_one_wins() {
    let checkers = Checkers::standard().with(&["*.txt", "NOTES", "docs/*"], Shout("one"));
    for name in ["a.txt", "NOTES", "x/NOTES", "x/docs/any"] {
        assert_eq!(checkers.compare(name, None, "a\nb!").expect(name).errors[0].line, 2);
    }
    assert_eq!(checkers.compare("x/MYNOTES", None, "!"), None);
    let checkers = checkers.with(&["*.py", "*.txt"], Shout("two"));
    assert_eq!(checkers.compare("a.py", None, "!").expect("checked").checker, "two");
    assert_eq!(checkers.compare("a.txt", None, "!").expect("checked").checker, "two");
    assert_eq!(checkers.without(&["*.py"]).compare("a.py", None, "!"), None);
    assert_eq!(compare("a.py", None, "x = 1").expect("checked").checker, "python");
}

#[test]
fn a_panic_is_no_result() {
    let checkers = Checkers::none().with(&["*"], Shout("one"));
    assert_eq!(checkers.compare("a", None, "panic"), None);
}

#[test]
fn messages_are_worded_alike() {
    assert_eq!(worded("Expected ')', found 'x'."), "expected `)`, found `x`");
    assert_eq!(worded("EOF while parsing"), "EOF while parsing");
    assert_eq!(worded("it doesn't end 'a"), "it doesn't end 'a");
}

/// Texts that look a little like code.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,8}",
        proptest::sample::select(vec![
            "(", ")", "{", "}", "[", "]", "\"", "'", "`", "${", "\n", "\r\n", "\t", " ", "if ", "end", "fi",
            "do ", "def ", "fn ", "class ", "//", "/*", "*/", "#", "<div>", "</div>", "<?php ", ": ", "- ",
            "=", ",", ";", "\\", "r#\"", "漢", "é", "#if\n", "#else\n", "#endif\n", "a", "1",
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_text_has_no_errors_that_it_had_before(text in texts(), other in texts()) {
        for (name, ..) in SAMPLES {
            if let Some(checked) = compare(name, Some(&text), &text) {
                prop_assert!(checked.passed(), "{}: {:?}", name, checked);
            }
            if let Some(checked) = compare(name, Some(&other), &text) {
                for found in checked.errors {
                    prop_assert!(found.line >= 1 && found.line <= lines(&text).len(), "{}: {:?}", name, found);
                }
            }
        }
    }
}

/// Texts that look shallow to whoever does not know strings.
#[test]
fn no_text_is_too_deep_for_the_stack() {
    let levels = 60_000;
    let nested = |open: &str, close: &str| {
        let closing = close.repeat(levels / 10) + "\n";
        open.repeat(levels) + "1" + &closing.repeat(10)
    };
    for (name, text) in [
        ("a.ts", format!("let a = {};\n", nested("[\")\",\n", "]"))),
        ("a.ts", format!("let a = {}1;\n", "b?\",\":\n".repeat(levels))),
        ("a.rs", format!("const A: B = {};\n", nested("(\")\",\n", ")"))),
        ("a.py", format!("a = {}\n", nested("[\")\",\n", "]"))),
    ] {
        // Nothing need be told of it, but nothing breaks.
        let checked = compare(name, None, &text);
        assert!(checked.is_none_or(|checked| checked.passed()), "{name}");
    }
}
