//! What is cached makes answers quicker, and never makes them other answers.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::python::Python;
use super::super::rust::Rust;
use super::super::script::Script;
use super::super::statements::{Statements, after_change, at_line_starts};
use super::super::{Checked, Checkers, table};

/// Files, most of them without errors, with a place in the middle to change.
const TEXTS: &[(&str, &str)] = &[
    (
        "a.rs",
        "use a::b;\n\n/// One.\nfn one() -> u8 {\n    1\n}\n\nconst TEXT: &str = r#\"\nfn quoted() {}\n\nfn more() {}\n\n\
         fn last() {}\n\"#;\n\n#[derive(Debug)]\n/// Two.\nstruct Two {\n    a: u8,\n}\n\nimpl Two {\n    fn two(&self) -> u8 {\n        \
         self.a + middle('\"')\n    }\n}\n\nstruct Three;\n\nmod inner {\nfn at_margin() {}\n\nfn another() {}\n}\n\n/*\nfn commented() {}\n\n\
         fn out() {}\n*/\nfn three() {}\n\nfn four() {}\n",
    ),
    (
        "a.py",
        "import a\n\n@decorated\ndef one(x):\n    return x\n\nTEXT = '''\ndef quoted():\n    pass\n\nmore = 1\n'''\n\nNUMBER = 1\n\nclass Two:\n    \
         def two(self):\n        if self.a:\n            return middle(1)\n        else:\n            return {'b': [2]}\n\nif one(1):\n    \
         three = 3\nelse:\n    three = 4\n\ndef four():\n    \"\"\"Four.\"\"\"\n\ndef five():\n    pass\n",
    ),
    (
        "a.ts",
        "import a from 'a';\n\nexport function one(x: number) {\n  return x;\n}\n\nconst text = `\nfunction quoted() {}\n\n\
         function more() {}\n`;\n\nlet number = 1;\n\nclass Two {\n  two() {\n    return middle(/[`]/, { b: [2] });\n  }\n}\n\nif (one(1)) {\n  one(2);\n}\n\
         else {\n  one(3);\n}\n\none(4);\n\n/*\nfunction out() {}\n\nfunction commented() {}\n*/\nfunction three() {}\n\nfunction four() {}\n",
    ),
    (
        "a.go",
        "package a\n\nimport \"b\"\n\nfunc one(x int) int {\n\treturn x\n}\n\nvar text = `\nfunc quoted() {}\n\nfunc more() {}\n`\n\nvar number = 1\n\n\
         type two struct {\n\ta int\n}\n\nfunc (t two) two() int {\n\treturn middle(t.a)\n}\n\nfunc three() {}\n\nfunc four() {}\n",
    ),
    (
        "a.java",
        "package a;\n\nimport b.B;\n\nclass One {\n  int one(int x) {\n    return x;\n  }\n}\n\nclass Two {\n  int two() {\n    \
         return middle(1);\n  }\n}\n\nclass Between {}\n\nclass More {}\n\n/*\nclass Out {}\n\nclass Commented {}\n*/\nclass Three {}\n\nclass Four {}\n",
    ),
    (
        "a.js",
        "export function one(x) {\n  return x;\n}\n\nfunction two() {\n  return 2;\n}\n\nfunction between() {\n  return middle(3);\n\
         }\n\nfunction three() {}\n\nfunction four() {}\n\nfunction five() {}\n\nexport default function six() {}\n",
    ),
    (
        "b.js",
        "(function () {\nlet a = 1;\nlet b = 2;\nlet c = 3;\nlet d = 4;\nlet e = 5;\nlet f = 6;\n})();\n\n/*\nfunction a() {}\n\n\
         function b() {}\n\nfunction c() {}\n\nfunction d() {}\n\nfunction e() {}\n\nfunction f() {}\n*/\n\nlet g = 7;\nlet h = 8;\n\
         let i = middle(9);\nlet j = 10;\nlet k = 11;\n",
    ),
    (
        "b.py",
        "from a import (\none,\ntwo,\nthree,\nfour,\nfive,\nsix,\n)\n\nTEXT = '''\na = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n'''\n\n\
         g = 7\nh = 8\ni = middle(9)\nj = 10\nk = 11\n",
    ),
    (
        "b.java",
        "class A {\nint a = 1;\nint b = 2;\nint c = 3;\nint d = 4;\nint e = 5;\nint f() {\n  return 6;\n}\n}\n\nclass B {}\n\nclass C {}\n\n\
         class D {\n  int d = middle(1);\n}\n\nclass E {}\n\nclass F {}\n",
    ),
    (
        "b.rs",
        "/*\nfn a() {}\n\nfn b() {}\n\nfn c() {}\n\nfn d() {}\n\nfn e() {}\n\nfn f() {}\n*/\n\nmod inner {\nfn a() {}\n\nfn b() {}\n\n\
         fn c() {}\n\nfn d() {}\n\nfn e() {}\n}\n\nfn g() {}\n\nfn h() {}\n\nfn i() {\n    middle(1);\n}\n\nfn j() {}\n\nfn k() {}\n",
    ),
    (
        "a.c",
        "#include <a.h>\n\n#define ONE(x) ((x) + 1)\n\nstruct two {\n    int a;\n    char *b[3];\n};\n\n/*\nint commented(void);\n*/\nstatic int \
         three(struct two *t) {\n    for (int i = 0; i < t->a; i++) {\n        if (middle(t->b[i], \"x\\\"}\")) {\n            return '{';\n        }\n    }\n    \
         return ONE(2);\n}\n\n#ifdef FOUR\nint four(void) { return 4; }\n#else\nint four(void) { return 5; }\n#endif\n\nint five;\n",
    ),
    // Code that the grammar cannot read, as there is in most programs of C.
    (
        "b.c",
        "LIST_HEAD(a) lists;\nEXPORT(one)\nint one(void) {\n    FOR_EACH(i, lists)\n        middle(i);\n    return 1;\n}\n\nint two(int a) {\n    return a + \
         1;\n}\n\nint three(void) { return 3; }\n",
    ),
    (
        "a.cpp",
        "#include <vector>\n\nnamespace a {\ntemplate <class T> class One : public Two<T> {\n public:\n  explicit One(T &&t) : t_(std::move(t)) {}\n  auto \
         two() const -> int { return middle([&](auto x) { return x > 1; }); }\n\n private:\n  T t_{};\n};\n}  // namespace a\n\nauto text = \
         R\"x(\n}\n)x\";\n\nint three() { return a::One<int>(3).two(); }\n",
    ),
    (
        "a.h",
        "#pragma once\n\nextern int one(void);\n\ntypedef struct { int a; } two_t;\n\nint three(two_t *middle);\n\nint four(void);\n",
    ),
    (
        "a.rb",
        "require 'a'\n\nmodule One\n  class Two < Three\n    def two(x)\n      x.map do |y|\n        middle(y) if y\n      end\n    end\n  end\nend\n\nTEXT = \
         <<~END\n  def quoted\n  end #{one(1)}\nEND\n\n=begin\ndef commented\n=end\n\ndef four\n  case x\n  when 1 then %w[a b]\n  else /[\"]/\n  \
         end\nend\n\nfive = 5\n",
    ),
    (
        "a.php",
        "<p>One</p>\n<?php\nnamespace A;\n\nuse B\\C;\n\nfunction one(int $x): ?int {\n  return $x;\n}\n\n$text = <<<X\nfunction quoted() {}\nX;\n\nclass Two \
         {\n  public function two() {\n    return middle(fn($a) => \"{$a['b']}\");\n  }\n}\n?>\n<b><?= one(1) ?></b>\n<?php\nfunction three() {}\n",
    ),
    (
        "a.sh",
        "#!/bin/bash\nset -e\n\none() {\n  local x=\"${1%%.*}\"\n  if [ -n \"$x\" ]; then\n    echo \"é $(middle \"$x\")\"\n  fi\n}\n\ncat <<EOF\nif \
         quoted\nEOF\n\ncase $1 in\n  a|b) one ;;\n  *) exit 1 ;;\nesac\n\nfor i in 1 2; do\n  one $i\ndone\n",
    ),
    (
        "a.css",
        "@import url(a.css);\n\n.one > .two:hover {\n  color: #fff;\n}\n\n/*\n.commented {\n*/\n@media (min-width: 1px) {\n  .middle::before {\n    content: \
         \"}\";\n  }\n}\n\n.three { margin: 0 auto; }\n\n.four {}\n",
    ),
    ("a.json", "{\n  \"one\": [1, 2],\n  \"middle\": {\"a\": null},\n  \"three\": \"x\"\n}\n"),
    (
        "a.toml",
        "[one]\na = 1\n\n[middle]\nb = \"\"\"\n[quoted]\n\"\"\"\n\n[[three]]\nc = [1,\n2]\n\n[four]\n",
    ),
    ("a.yaml", "one: 1\ntwo:\n  - middle: [a, b]\nthree: |\n  four: 4\nfive: \"x\"\n"),
    ("a.html", "<div>\n<p>One\n<b>middle</b>\n</div>\n<!-- <i> -->\n<ul><li>two</ul>\n"),
    (
        "a.tsx",
        "import { a } from 'a'\n\nexport const One = (b: A) => {\n  return <b c={b.d}>{b.e} middle(</b>\n}\n\nlet two = One\n;[1, 2].map(a)\n;(() => {})()\n\nlet \
         three = `\nlet x = ${a({ b: `}` })}\n`\n\ntype Four = { [K in keyof A]?: A[K] }\n\nexport default class<T> extends Five<T> {}\n\nlet six = a\n/b/g\n",
    ),
    (
        "a.d.ts",
        "declare const one: number;\n\nexport interface Two {\n  middle(a: string): void;\n}\n\ndeclare module 'a' {\n  export = one;\n}\n\nexport {};\n",
    ),
    // An error before what is changed.
    (
        "c.py",
        "one = (1\n\ndef two():\n    return 2\n\ndef three():\n    return middle(3)\n\ndef four():\n    pass\n",
    ),
    ("c.rs", "fn one( {}\n\nfn two() {}\n\nfn three() {\n    middle(3);\n}\n\nfn four() {}\n"),
    (
        "c.go",
        "package a\n\nfunc one( {}\n\nfunc two() {}\n\nfunc three() {\n\tmiddle(3)\n}\n\nfunc four() {}\n",
    ),
];

/// What is put into a text.
const NEW: &[&str] = &[
    "",
    "",
    "",
    " ",
    "\n",
    "x",
    "1",
    "\"",
    "'",
    "`",
    "\"\"\"",
    "'''",
    "r#\"",
    "\"#",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    "/*",
    "*/",
    "//",
    "#",
    "#[a]\n",
    "@a\n",
    "else ",
    "else {}\n",
    "fn f() {}\n",
    "def f(): pass\n",
    "function f() {}\n",
    "func f() {}\n",
    "class F {}\n",
    "x = `a\n",
    "    ",
    "\t",
    "\n}\n",
    "\n\n",
    "\\",
    "return",
    "end",
    "=",
    "/* x */",
    "'''doc'''",
    "\"src/**/*.ts\"",
    "export function one() {}\n",
    "export default 1;\n",
    "import z from 'z';\n",
    "import z\n",
    "x;\n",
    ",",
    "\\\n",
    "<<EOF\n",
    "EOF\n",
    "<<~X\n",
    "?>",
    "<?php ",
    "#endif\n",
    "#if 1\n",
    "=begin\n",
    "=end\n",
    "#!/usr/bin/python2\n",
    "#![a]\n",
    "//! a\n",
    "async ",
    "try:\n    x\n",
    "except A:\n    x\n",
    "match x:\n    case 1: y\n",
    "a.0.1;",
    "macro_rules! m { () => {} }\n",
    "é",
    "漢",
    "\u{FEFF}",
    "\r\n",
    "x = (1,\n",
    "class ",
    "done\n",
    "'use strict'\n",
    "await a\n",
    "let a = b",
    "=> ",
    "<a>",
    "</a>",
    "@a ",
    "declare ",
    "/",
    "++",
];

/// Checkers that have read a text, and nothing else.
fn knowing(name: &str, text: &str) -> Checkers {
    let checkers = table::checkers();
    checkers.find(name).unwrap().prepare(text);
    checkers
}

fn compare(checkers: &Checkers, name: &str, before: &str, after: &str) -> Option<Checked> {
    // On a busy machine a grammar may run out of time, and then it says nothing.
    (0..3).find_map(|_| checkers.compare(name, Some(before), after))
}

/// What is told where nothing is cached.
fn uncached(name: &str, before: &str, after: &str) -> Option<Checked> {
    compare(&table::checkers(), name, before, after)
}

/// A change of a text: where it begins, how much goes, and what comes.
#[derive(Clone, Debug)]
struct Edit {
    at: Index,
    /// Whether it begins where a line does: most that is special about a place is special there.
    at_line: bool,
    gone: usize,
    new: Vec<&'static str>,
}

impl Edit {
    fn of(&self, text: &str) -> String {
        let at = text.floor_char_boundary(self.at.index(text.len() + 1));
        let start = if self.at_line { text[..at].rfind('\n').map_or(0, |end| end + 1) } else { at };
        let end = text.ceil_char_boundary((start + self.gone).min(text.len()));
        format!("{}{}{}", &text[..start], self.new.concat(), &text[end..])
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let gone = prop_oneof![Just(0), 0_usize..30];
    let edit = (any::<Index>(), any::<bool>(), gone, prop::collection::vec(select(NEW), 0..3));
    prop::collection::vec(edit.prop_map(|(at, at_line, gone, new)| Edit { at, at_line, gone, new }), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_does_not_depend_on_what_is_cached((name, text) in select(TEXTS), edits in edits()) {
        let checkers = knowing(name, text);
        let mut before = (*text).to_owned();
        for edit in edits {
            let after = edit.of(&before);
            let told = compare(&checkers, name, &before, &after);
            prop_assert_eq!(told, uncached(name, &before, &after), "{}: {:?}", name, after);
            before = after;
        }
    }
}

/// The texts that a checker of statements reads.
fn texts_of(ending: &'static str) -> impl Iterator<Item = &'static str> {
    let of_kind = TEXTS.iter().filter(move |(name, _)| name.ends_with(ending) && !name.starts_with('c'));
    of_kind.map(|(_, text)| *text)
}

#[test]
fn a_small_change_is_parsed_with_the_statements_around_it() {
    for (checker, ending) in [(&Python as &dyn Statements, ".py"), (&Rust, ".rs"), (&Script::Ts, ".ts")] {
        let statements = |text: &str| at_line_starts(text, checker.parse(text).unwrap().statements.unwrap());
        let after_change = |before: &str, after: &str| {
            after_change(checker, (before, &statements(before)), after, usize::MAX)
        };
        for text in texts_of(ending) {
            let changed = text.replacen("middle", "amid", 1);
            assert_eq!(after_change(text, &changed), Some(statements(&changed)), "{text}");
            let broken = text.replacen("middle(", "middle((", 1);
            assert_eq!(after_change(text, &broken), None, "{text}");
        }
    }
}

/// What a change does to a text that is known to be right, and to the same text if nothing is known.
fn told(name: &str, before: &str, after: &str) -> usize {
    let known = compare(&knowing(name, before), name, before, after);
    assert_eq!(known, uncached(name, before, after), "{after}");
    known.unwrap().errors.len()
}

/// A stray quote in a comment once made the lines of a string look like code.
#[test]
fn a_quote_in_a_comment_hides_no_error_in_a_string() {
    let lines: String = (0..9).map(|n| format!("line_{n} = {n}\n\n")).collect();
    let before = format!("# 5\" wide\n\nTABLE = \"\"\"\n{lines}\"\"\"\n\nlast = 1\n");
    assert_eq!(told("a.py", &before, &before.replace("line_5 = 5", "line_5 = \"\"\"5\"\"\"")), 2);
    assert_eq!(told("a.py", &before, &before.replace("line_5 = 5", "line_5 is no code")), 0);
}

#[test]
fn what_may_stand_at_the_start_of_a_file_is_told_elsewhere() {
    let before = "fn one() {}\nfn two() {}\nfn three() {}\nfn four() {}\nfn five() {}\n";
    for line in ["fn two", "fn three"] {
        assert_eq!(told("a.rs", before, &before.replace(line, &format!("#![allow(a)]\n{line}"))), 1);
    }
    assert_eq!(told("a.rs", before, &before.replace("fn one", "#![allow(a)]\nfn one")), 0);
    let before = "one = 1\ntwo = 2\nthree = 3\nfour = 4\nfive = 5\n";
    assert_eq!(told("a.py", before, &before.replace("three = 3", "#!/usr/bin/python2\nprint 3")), 1);
}

/// The statement after the change ends up in a string, and what is left of it goes on with the next one.
#[test]
fn a_statement_that_is_swallowed_is_told() {
    let before = "one = 1\ntwo = 2\nthree = 3\nfour = 4  # \"\"\" \\\nfive = 5\nsix = 6\n";
    assert_eq!(told("a.py", before, &before.replace("three = 3", "three = \"\"\"3")), 1);
}

/// An incremental parse found no error in a text that has one: a here-document begins, and another one ends it.
#[test]
fn an_error_after_a_here_document_is_not_overlooked() {
    let (_, text) = TEXTS.iter().find(|(name, _)| *name == "a.sh").unwrap();
    let checkers = knowing("a.sh", text);
    let mut before = (*text).to_owned();
    for (old, new) in [("set -e", "set -<<EOF\ne"), ("exit 1 ;;", "exit 1 ;;x"), ("\ne\n", "\n e\n")] {
        let after = before.replacen(old, new, 1);
        let told = compare(&checkers, "a.sh", &before, &after);
        assert_eq!(told, uncached("a.sh", &before, &after), "{after}");
        before = after;
    }
}
