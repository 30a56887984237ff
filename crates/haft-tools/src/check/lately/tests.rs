use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Checked, Checkers, Hash};
use super::REMEMBERED;

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
];

/// Checkers that know that a text is right, and nothing else.
fn knowing(name: &str, text: &str) -> Checkers {
    let checkers = Checkers { lately: Arc::default(), ..Checkers::standard() };
    let checked = checkers.compare(name, None, text).expect(name);
    assert!(checked.passed() && checked.existing == 0, "{name}: {checked:?}");
    checkers
}

fn briefly(checkers: &Checkers, name: &str, before: &str, after: &str) -> Option<Checked> {
    let known = |text| (Hash::of(str::as_bytes(text)), text);
    checkers.compare_briefly(name, known(before), known(after))
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

/// As deep as it gets, on a thread with half the stack of those that serve.
#[test]
fn what_is_read_at_once_needs_little_stack() {
    let nested = |open: &str, close: &str, most: usize| open.repeat(most) + "1" + &close.repeat(most);
    let deep = move |most: usize| {
        vec![
            ("a.rs", format!("const A: B = {};\n", nested("(", ")", most))),
            ("a.rs", format!("fn a() {}\n", nested("{ if a {", "}}", most / 2))),
            ("a.rs", format!("fn a() {{ {}1; }}\n", "!-&*".repeat(most))),
            ("a.rs", format!("fn a() {{ {}1; }}\n", "|a|a=".repeat(most))),
            ("a.rs", format!("type A = {};\n", nested("B<C<", ">>", most))),
            ("a.py", format!("a = {}\n", nested("[", "]", most))),
            ("a.py", format!("a = {}1\n", "-~+".repeat(most))),
            ("a.py", format!("a = {}1\n", "lambda: ".repeat(most))),
            ("a.py", format!("a = {}1\n", "b if c else ".repeat(most))),
            ("a.ts", format!("a = {};\n", nested("[{b: (", ")}]", most / 3))),
            ("a.ts", format!("a = {}1;\n", "!-~".repeat(most))),
            ("a.ts", format!("a = {}1;\n", "b => ".repeat(most))),
            ("a.ts", format!("type A = {};\n", nested("B<C<", ">>", most))),
            ("a.tsx", format!("a = {};\n", nested("<b>", "</b>", most))),
            ("a.java", format!("class A {{ int a = {}; }}\n", nested("(", ")", most))),
            ("a.go", format!("var a = {}\n", nested("(", ")", most))),
        ]
    };
    let told = |name: &str, text: &str| {
        let checker = Checkers::standard();
        checker.find(name).unwrap().is_right_alone(text)
    };
    std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(move || {
            for most in 1..=150 {
                deep(most).iter().for_each(|(name, text)| _ = told(name, text));
            }
            deep(4).iter().for_each(|(name, text)| assert!(told(name, text), "{name}: {text}"));
            deep(200).iter().filter(|(name, _)| !matches!(*name, "a.java" | "a.go")).for_each(
                |(name, text)| {
                    assert!(!told(name, text), "{name}: {text}");
                },
            );
        })
        .unwrap()
        .join()
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

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
