use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_sandbox::beside;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Checked, Checker, Checkers, Hash, Problem};
use super::{MAX_PART, REMEMBERED, STACK_FOR_BYTE};

/// Files that are right, with a place in the middle.
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
];

/// Checkers that know that a text is right, and nothing else.
fn knowing(name: &str, text: &str) -> Checkers {
    let checkers = Checkers { lately: Arc::default(), ..Checkers::standard() };
    let checked = checkers.compare(name, None, text).expect(name);
    assert!(checked.passed() && checked.existing == 0, "{name}: {checked:?}");
    checkers
}

fn briefly(checkers: &Checkers, name: &str, before: &str, after: &str) -> Option<Checked> {
    let known = |text| (Hash::of(str::as_bytes(text)), str::as_bytes(text));
    let work = checkers.compare_briefly(name, known(before), known(after))?;
    work.begin().seen()
}

#[test]
fn small_changes_are_told_at_once_one_after_the_other() {
    for (name, text) in TEXTS {
        let checkers = knowing(name, text);
        let mut before = (*text).to_owned();
        for middle in ["between", "among", "within"] {
            let after = text.replace("middle", middle);
            let checked = briefly(&checkers, name, &before, &after);
            assert!(checked.is_some_and(|checked| checked.passed() && checked.existing == 0), "{name}");
            before = after;
        }
    }
}

#[test]
fn what_is_not_known_or_not_right_is_looked_at_closely() {
    for (name, text) in TEXTS {
        let changed = text.replace("middle", "between");
        let unknown = Checkers { lately: Arc::default(), ..Checkers::standard() };
        assert_eq!(briefly(&unknown, name, text, &changed), None, "{name}: nothing is known");
        let checkers = knowing(name, text);
        let broken = text.replace("middle(", "middle((");
        assert_eq!(briefly(&checkers, name, text, &broken), None, "{name}: not right any more");
        assert_eq!(briefly(&checkers, "a.txt", text, &changed), None, "no checker");
        assert_eq!(briefly(&checkers, "a.toml", text, &changed), None, "another checker");
        let other = checkers.clone().without(&["a.nothing"]);
        assert_eq!(briefly(&other, name, text, &changed), None, "{name}: other checkers");
    }
}

#[test]
fn only_the_latest_texts_are_remembered() {
    let texts: Vec<String> = (0..=REMEMBERED)
        .map(|n| format!("fn a() {{}}\nfn b() {{}}\nfn c() {{ {n} }}\nfn d() {{}}\n"))
        .collect();
    let checkers = knowing("a.rs", &texts[0]);
    for text in &texts[1..] {
        checkers.compare("a.rs", None, text).unwrap();
    }
    let told = |text: &str| briefly(&checkers, "a.rs", text, &text.replace("{ ", "{ 0 + ")).is_some();
    assert!(!told(&texts[0]) && told(&texts[1]));
}

/// Takes everything for right but what says `wrong`, and counts the parts it reads.
struct Counting(Arc<AtomicUsize>);

impl Checker for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        let problem = Problem { line: 1, column: 1, message: "wrong".into() };
        Some(text.contains("wrong").then_some(problem).into_iter().collect())
    }

    fn is_right_alone(&self, part: &str) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        !part.contains("wrong")
    }
}

#[test]
fn a_part_that_was_right_is_not_read_again() {
    let read = Arc::new(AtomicUsize::new(0));
    let checkers = Checkers::none().with(&["*.c"], Counting(read.clone()));
    let text = |says: &str| format!("a() {{}}\nb() {{}}\nc() {{ {says} }}\nd() {{}}\ne() {{}}\n");
    checkers.compare("a.c", None, &text("0")).unwrap();
    let changes = [("0", "1", true, 2), ("1", "2", true, 3), ("2", "0", true, 3), ("0", "wrong", false, 4)];
    for (from, to, is_right, reads) in changes.into_iter().chain([("0", "wrong", false, 5)]) {
        assert_eq!(briefly(&checkers, "a.c", &text(from), &text(to)).is_some(), is_right, "{from} to {to}");
        assert_eq!(read.load(Ordering::Relaxed), reads, "{from} to {to}");
    }
}

/// What looks shallow to whoever does not know strings, as deep as a part can be.
#[test]
fn a_part_can_be_as_deep_as_it_is_long() {
    let nested = |open: &str, close: &str, most: usize| open.repeat(most) + "1" + &close.repeat(most);
    for (name, text) in [
        ("a.ts", format!("let a = {};\n", nested("[\")\",", "]", MAX_PART / 6 - 3))),
        ("a.ts", format!("let a = {}1;\n", "b?\",\":".repeat(MAX_PART / 7 - 2))),
        ("a.rs", format!("const A: B = {};\n", nested("(\")\",", ")", MAX_PART / 6 - 4))),
        ("a.rs", format!("fn a() {{ {}1; }}\n", "!".repeat(4000))),
        ("a.py", format!("a = {}\n", nested("[\")\",", "]", 150))),
    ] {
        assert!(text.len() <= MAX_PART, "{name}");
        let read = move || Checkers::standard().find(name).unwrap().is_right_alone(&text);
        assert!(beside(read).ok().unwrap().wait().unwrap(), "{name}");
    }
}

/// Where a part is read on the stack at hand, as much of it is left at the least.
#[test]
fn a_part_that_is_read_here_has_enough_of_the_stack() {
    let nested = |open: &str, close: &str| open.repeat(100) + "1" + &close.repeat(100);
    for (name, text) in [
        ("a.rs", format!("const A: B = {};\n", nested("(", ")"))),
        ("a.rs", format!("const A: B = {};\n", nested("{", "}"))),
        ("a.rs", format!("fn a() {{ {}1; }}\n", "!".repeat(200))),
        ("a.rs", format!("fn a() {{ {}1; }}\n", "||".repeat(100))),
        ("a.ts", format!("let a = {};\n", nested("[", "]"))),
        ("a.ts", format!("let a = {};\n", nested("(", ")"))),
        ("a.ts", format!("let a = {}1;\n", "!".repeat(200))),
        ("a.py", format!("a = {}\n", nested("(", ")"))),
        ("a.go", format!("var a = {}\n", nested("(", ")"))),
        ("a.java", format!("class A {{ int a = {}; }}\n", nested("(", ")"))),
    ] {
        let stack = text.len() * STACK_FOR_BYTE * 2;
        let read = move || Checkers::standard().find(name).unwrap().is_right_alone(&text);
        let thread = std::thread::Builder::new().stack_size(stack).spawn(read).unwrap();
        thread.join().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Whatever is told at once is what the whole text would have told.
    #[test]
    fn what_is_told_at_once_is_so(
        (name, text) in select(TEXTS),
        at in any::<prop::sample::Index>(),
        gone in 0_usize..30,
        new in prop::collection::vec(select(NEW), 0..3),
    ) {
        let checkers = knowing(name, text);
        let start = at.index(text.len() + 1);
        let end = (start + gone).min(text.len());
        let (start, end) = (text.floor_char_boundary(start), text.floor_char_boundary(end));
        let after = format!("{}{}{}", &text[..start], new.concat(), &text[end..]);
        if briefly(&checkers, name, text, &after).is_some() {
            let whole = Checkers::standard().compare(name, None, &after);
            prop_assert!(
                whole.as_ref().is_some_and(|whole| whole.passed() && whole.existing == 0),
                "{after}\n{whole:?}"
            );
        }
    }
}
