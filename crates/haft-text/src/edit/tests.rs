use proptest::prelude::*;

use super::super::encoding::Unwritable;
use super::super::nearest::Difference;
use super::*;

fn only(old: &str, new: &str) -> Replace {
    Replace { old: old.to_owned(), new: new.to_owned(), occurrences: Occurrences::Only }
}

fn all(old: &str, new: &str) -> Replace {
    Replace { occurrences: Occurrences::All, ..only(old, new) }
}

fn source(bytes: impl AsRef<[u8]>) -> Source {
    Source::new(bytes.as_ref().to_vec()).unwrap()
}

/// The file after edits, as text, and the notes.
fn edited(text: &str, edits: &[Replace]) -> (String, Vec<IgnoredDifference>) {
    let source = source(text);
    let planned = plan(&source, edits, Leniency::Lenient).unwrap_or_else(|bad| panic!("{}", bad.message()));
    let notes = planned.notes.iter().map(|note| note.overlooked).collect();
    (String::from_utf8(planned.splices.apply(source.bytes())).unwrap(), notes)
}

fn problem(text: &str, edits: &[Replace]) -> Problem {
    plan(&source(text), edits, Leniency::Lenient).unwrap_err().problem
}

#[test]
fn one_line_of_a_crlf_file_changes_alone() {
    let text: String = (1..=1000).map(|n| format!("line {n}\r\n")).collect();
    let source = source(&text);
    let edits = [only("line 500\nline 501", "line five hundred\nand more\nline 501")];
    let planned = plan(&source, &edits, Leniency::Exact).unwrap();
    let expected = text.replace("line 500\r\n", "line five hundred\r\nand more\r\n");
    assert_eq!(planned.splices.apply(source.bytes()), expected.as_bytes());
    assert_eq!(planned.changed, [500..=501]);
    assert_eq!(planned.replaced, 1);
    let [splice] = planned.splices.iter().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(splice.bytes, b"five hundred\r\nand more");
}

#[test]
fn a_byte_order_mark_stays() {
    let source = source(b"\xEF\xBB\xBFa\nb\n");
    let planned = plan(&source, &[only("a", "x")], Leniency::Exact).unwrap();
    assert_eq!(planned.splices.apply(source.bytes()), b"\xEF\xBB\xBFx\nb\n");
}

#[test]
fn bytes_of_other_encodings_stay() {
    let mut bytes = b"first\n".to_vec();
    (0..997).for_each(|_| bytes.extend_from_slice(b"plain\n"));
    bytes.extend_from_slice(b"caf\xE9 \x99\n");
    let source = source(&bytes);
    let planned = plan(&source, &[only("first", "1st")], Leniency::Exact).unwrap();
    let after = planned.splices.apply(source.bytes());
    assert_eq!(&after[..4], b"1st\n");
    assert_eq!(after[4..], bytes[6..]);
}

#[test]
fn new_text_is_inserted_exactly() {
    for new in ["$1", "$&", r"\1", "%s", r"C:\new\table", "${x}", "$$", r"\\", "\\n"] {
        assert_eq!(edited("a OLD b", &[only("OLD", new)]).0, format!("a {new} b"));
    }
}

#[test]
fn edits_without_effect_have_distinct_errors() {
    assert_eq!(problem("x", &[only("", "y")]), Problem::Empty);
    assert_eq!(problem("x", &[only("x", "x")]), Problem::Same);
    assert_eq!(problem("x\ny", &[only("x\r\n", "x\n")]), Problem::SameButLineEnds);
    assert!(matches!(problem("", &[only("x", "y")]), Problem::NotFound { near: Nearest::EmptyFile, .. }));
    assert!(matches!(
        problem("ab", &[only("longer than the file", "y")]),
        Problem::NotFound { near: Nearest::Nothing, .. }
    ));
}

#[test]
fn edits_build_on_each_other_or_none_is_made() {
    assert_eq!(edited("a b", &[only("a", "c"), only("c b", "d")]).0, "d");
    let mismatch = plan(&source("a b"), &[only("a", "c"), only("a", "d")], Leniency::Lenient).unwrap_err();
    assert_eq!((mismatch.edit, mismatch.of), (2, 2));
    assert!(mismatch.message().starts_with("edit 2 of 2: "), "{}", mismatch.message());
}

#[test]
fn several_places_are_named() {
    let text = "x = 1\ny\nx = 1\n".repeat(6);
    let Problem::Several { total, places, loosely } = problem(&text, &[only("x = 1", "z")]) else { panic!() };
    assert_eq!((total, places.len(), loosely), (12, 10, false));
    assert_eq!(places[1], (3, "x = 1".to_owned()));
    assert_eq!(edited(&text, &[all("x = 1", "z")]).0, "z\ny\nz\n".repeat(6));
}

#[test]
fn mixed_line_ends_stay_as_they_are() {
    let (text, _) = edited("a\r\nb\nc\r\nd\n", &[only("a\nb\nc", "a\nB\nB2\nc")]);
    assert_eq!(text, "a\r\nB\nB2\nc\r\nd\n");
    assert_eq!(edited("a\rb\rc", &[only("a\nb", "a\nx\ny")]).0, "a\rx\ry\rc");
}

#[test]
fn indentation_is_corrected() {
    let file = "fn f() {\n\tif x {\n\t\ta();\n\t}\n}\n";
    let edit = only("    if x {\n        a();\n    }", "    if y {\n        a();\n        b();\n    }");
    let (text, notes) = edited(file, &[edit]);
    assert_eq!(text, "fn f() {\n\tif y {\n\t\ta();\n\t\tb();\n\t}\n}\n");
    assert_eq!(notes, [IgnoredDifference::Indentation]);
    let (text, _) = edited(
        "class A:\n    def f(self):\n        return 1\n",
        &[only("def f(self):\n    return 1\n", "def f(self):\n    if x:\n        return 2\n    return 1\n")],
    );
    assert_eq!(text, "class A:\n    def f(self):\n        if x:\n            return 2\n        return 1\n");
}

#[test]
fn lines_that_stay_keep_their_trailing_space() {
    let (text, notes) = edited("one  \ntwo\t\nthree\n", &[only("one\ntwo\nthree", "one\n2\nthree")]);
    assert_eq!((text.as_str(), &notes[..]), ("one  \n2\nthree\n", &[IgnoredDifference::TrailingSpace][..]));
    let (text, notes) = edited("a\nb", &[only("b\n", "c\n")]);
    assert_eq!((text.as_str(), &notes[..]), ("a\nc", &[IgnoredDifference::FinalNewline][..]));
}

#[test]
fn look_alike_punctuation_stays_where_it_is() {
    let (text, notes) = edited("say(“it’s”, x)\n", &[only("say(\"it's\", x)", "say(\"it's\", y)")]);
    assert_eq!((text.as_str(), &notes[..]), ("say(“it’s”, y)\n", &[IgnoredDifference::Punctuation][..]));
}

#[test]
fn copied_line_numbers_are_removed() {
    let edit = only("     2\tb\n     3\t  c", "     2\tB\n     3\t  c");
    let (text, notes) = edited("a\nb\n  c\n", std::slice::from_ref(&edit));
    assert_eq!((text.as_str(), &notes[..]), ("a\nB\n  c\n", &[IgnoredDifference::LineNumbers][..]));
    let mismatch = plan(&source("a\nb\n  c\n"), &[edit], Leniency::Exact).unwrap_err();
    assert!(mismatch.hint().unwrap().contains("line numbers"), "{:?}", mismatch.hint());
}

#[test]
fn leniency_never_chooses_between_places() {
    let text = "  foo(a)\n\tfoo(a)\n";
    let Problem::Several { total, loosely, .. } = problem(text, &[only("    foo(a)", "x")]) else { panic!() };
    assert_eq!((total, loosely), (2, true));
    let text = "f(“a”)\n  f(‘a’)\n\tf(\"a\" )\nf(“a”)\n";
    assert!(matches!(problem(text, &[only("f(\"a\")", "x")]), Problem::Several { total: 2, .. }));
}

#[test]
fn placeholders_are_refused() {
    let edit = only("a", "x\n// ... existing code ...\ny");
    assert!(matches!(problem("a", &[edit]), Problem::Placeholder { line: 2, .. }));
}

#[test]
fn characters_that_the_encoding_lacks_are_refused() {
    let source = source(b"caf\xE9 au lait, tr\xE8s bon\n");
    assert!(matches!(source.charset().to_string().as_str(), "windows-1252"));
    let problem = plan(&source, &[only("lait", "lait \u{4e2d}")], Leniency::Exact).unwrap_err().problem;
    assert!(matches!(problem, Problem::Unwritable(Unwritable::Character { char: '\u{4e2d}', .. })));
    let planned = plan(&source, &[only("café", "thé")], Leniency::Exact).unwrap();
    assert_eq!(planned.splices.apply(source.bytes()), b"th\xE9 au lait, tr\xE8s bon\n");
}

#[test]
fn a_long_place_is_shown_in_part() {
    let text: String = (0..100).map(|n| format!("line number {n} {}\n", "x".repeat(300))).collect();
    let mismatch =
        plan(&source(&text), &[only(&text.replace("line number", "Line number"), "")], Leniency::Exact);
    let hint = mismatch.unwrap_err().hint().unwrap();
    assert!(hint.len() < 12_000 && hint.ends_with("\nand 60 lines more"), "{hint}");
}

/// The nearest place and its differences, with leniency off.
fn near(text: &str, old: &str) -> (usize, usize, Vec<Difference>) {
    let mismatch = plan(&source(text), &[only(old, "something else")], Leniency::Exact).unwrap_err();
    let Problem::NotFound { near: Nearest::Place(near), .. } = mismatch.problem else {
        panic!("{}", mismatch.message())
    };
    (near.first, near.last, near.differences)
}

#[test]
fn the_nearest_place_says_how_it_differs() {
    use Difference as D;
    let text = "use a;\n\nfn main() {\n    let name = \"value\";\n    print(name, caf\u{e9});  \n}\n\nfn other() {}\n";
    let cases: [(&str, usize, usize, &[D]); 10] = [
        ("\tlet name = \"value\";", 4, 4, &[D::Indentation]),
        ("    print(name, caf\u{e9});\n}", 5, 6, &[D::TrailingSpace]),
        ("let name  =  \"value\";", 4, 4, &[D::InnerSpace]),
        ("let name = \u{201c}value\u{201d};", 4, 4, &[D::Punctuation]),
        ("let Name = \"Value\";", 4, 4, &[D::Case]),
        ("let n\u{430}me = \"value\";", 4, 4, &[D::LookAlikes]),
        ("print(name, cafe\u{301});", 5, 5, &[D::NormalForm]),
        ("fn main() {\n    let other = \"value\";\n    print(name, caf\u{e9});", 3, 5, &[D::Words]),
        ("use a;\nfn main() {", 1, 3, &[D::BlankLines]),
        ("let name = \"value\";\r\r", 4, 4, &[D::LineEnds]),
    ];
    for (old, first, last, differences) in cases {
        assert_eq!(near(text, old), (first, last, differences.to_vec()), "{old:?}");
    }
}

#[test]
fn the_nearest_place_shows_white_space() {
    let mismatch =
        plan(&source("a {\n\tlong line = 1; \n}\n"), &[only("  long line = 2;", "x")], Leniency::Lenient)
            .unwrap_err();
    assert_eq!(mismatch.message(), "the text to replace was not found; line 2 differs from it in some words");
    let hint = mismatch.hint().unwrap();
    assert!(
        hint.contains("\n2: →long line = 1;·\nline 2 is `long line = 1;`, not `long line = 2;`"),
        "{hint}"
    );
}

/// Text and a way to write it as bytes.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[a-z]{1,6}",
        Just("\u{e9}t\u{e9}".to_owned()),
        Just("\u{43f}\u{440}\u{438}".to_owned()),
        Just("\u{65e5}\u{672c}\u{8a9e}".to_owned()),
        Just("\u{201c}q\u{201d}".to_owned()),
        Just(" ".to_owned()),
        Just("\t".to_owned()),
    ];
    let end = prop_oneof![3 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"), 3 => Just("")];
    let uniform = prop_oneof![Just(None), Just(Some("\n")), Just(Some("\r\n")), Just(Some("\r"))];
    let parts = proptest::collection::vec((word, end), 0..24);
    let broken = proptest::collection::vec((any::<prop::sample::Index>(), 0x80_u8..), 0..4);
    (parts, uniform, 0..8_usize, broken).prop_map(|(parts, uniform, charset, broken)| {
        let mut text = String::new();
        for (word, end) in parts {
            text.push_str(&word);
            text.push_str(if end.is_empty() { "" } else { uniform.unwrap_or(end) });
        }
        let utf16 = |le: bool| -> Vec<u8> {
            text.encode_utf16()
                .flat_map(|unit| if le { unit.to_le_bytes() } else { unit.to_be_bytes() })
                .collect()
        };
        let mut bytes = match charset {
            0 => text.into_bytes(),
            1 => [b"\xEF\xBB\xBF".to_vec(), text.into_bytes()].concat(),
            2 => [b"\xFF\xFE".to_vec(), utf16(true)].concat(),
            3 => [b"\xFE\xFF".to_vec(), utf16(false)].concat(),
            4 => encoding_rs::WINDOWS_1252.encode(&text).0.into_owned(),
            5 => encoding_rs::SHIFT_JIS.encode(&text).0.into_owned(),
            6 => encoding_rs::GBK.encode(&text).0.into_owned(),
            _ => encoding_rs::WINDOWS_1251.encode(&text).0.into_owned(),
        };
        for (index, byte) in broken {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

/// A part of a text, at character boundaries.
fn part(text: &str, from: prop::sample::Index, len: usize) -> Range<usize> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let start = from.index(places.len());
    places[start]..places[(start + len).min(places.len() - 1)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn bytes_outside_of_an_edit_are_identical(
        bytes in file(), from: prop::sample::Index, len in 1..12_usize, new in "[a-z\n]{0,9}"
    ) {
        let Ok(source) = Source::new(bytes.clone()) else { return Ok(()) };
        let range = part(source.text(), from, len);
        let edit = only(&source.text()[range], &new);
        let Ok(planned) = plan(&source, &[edit], Leniency::Exact) else { return Ok(()) };
        let found = find(
            source.text(), &normalize_line_ends(&source.text()[part(source.text(), from, len)], source.ending()),
            source.endings(), CharMatch::Exact, Search::Candidates(2),
        );
        prop_assert_eq!(found.total, 1);
        let matched = source.byte_range(&found.ranges[0]).unwrap();
        let after = planned.splices.apply(source.bytes());
        prop_assert_eq!(&after[..matched.start], &bytes[..matched.start]);
        let tail = bytes.len() - matched.end;
        prop_assert_eq!(&after[after.len() - tail..], &bytes[matched.end..]);
        for splice in planned.splices.iter() {
            prop_assert!(splice.range.start >= matched.start && splice.range.end <= matched.end);
        }
    }

    #[test]
    fn places_in_text_lead_to_places_in_bytes_in_order(bytes in file()) {
        let Ok(source) = Source::new(bytes) else { return Ok(()) };
        let places = source.text().char_indices().map(|(at, _)| at).chain([source.text().len()]);
        let bytes: Vec<usize> = places.filter_map(|at| source.byte_at(at)).collect();
        prop_assert!(bytes.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(bytes.last().copied(), Some(source.bytes().len()));
    }

    #[test]
    fn an_edit_and_its_opposite_restore(bytes in file(), from: prop::sample::Index, len in 1..12_usize) {
        let Ok(source) = Source::new(bytes.clone()) else { return Ok(()) };
        let range = part(source.text(), from, len);
        let old = &source.text()[range.clone()];
        let edits = [only(old, "Q0Q1Q2"), only("Q0Q1Q2", old)];
        // Some encodings have two spellings of one character, of which only one is ever written.
        let spelt_as_written = source.byte_range(&range).map(|range| bytes[range].to_vec()) == source.encode(old).ok();
        if let Ok(planned) = plan(&source, &edits, Leniency::Exact)
            && !source.endings().mixed()
        {
            let after = planned.splices.apply(source.bytes());
            if spelt_as_written {
                prop_assert_eq!(after, bytes);
            } else {
                prop_assert_eq!(Source::new(after).map(|after| after.text().to_owned()).ok(), Some(source.text().to_owned()));
            }
        }
    }

    #[test]
    fn a_lenient_edit_changes_one_block(
        lines in proptest::collection::vec("[ \t]{0,3}[ab]{0,2}[ ]{0,2}", 1..12),
        old in proptest::collection::vec("[ ]{0,3}[ab]{1,2}", 1..3),
    ) {
        let text = lines.join("\n");
        let source = Source::new(text.into()).unwrap();
        let wanted: Vec<String> = old.iter().map(|line| line.trim().to_owned()).collect();
        let fitting = lines.windows(wanted.len())
            .filter(|window| window.iter().map(|line| line.trim()).eq(wanted.iter().map(String::as_str)))
            .count();
        let old = old.join("\n");
        if let Ok(planned) = plan(&source, &[only(&old, "zz")], Leniency::Lenient)
            && !planned.notes.is_empty()
        {
            prop_assert_eq!(fitting, 1);
        }
    }

    #[test]
    fn structured_texts_never_panic_and_keep_other_lines(
        lines in proptest::collection::vec("[ \t]{0,2}[ab\"\u{201c}\u{a0}-]{0,2}[ ]{0,1}", 0..9),
        end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        old in "([ \t]{0,2}[ab\"'-]{0,2}\n){0,2}[ \t]{0,2}[ab\"'-]{0,2}\n?",
        new in "([ \t]{0,2}[xy]{0,2}\r?\n){0,2}[xy]{0,2}\n?",
        ended: bool,
    ) {
        let text = lines.join(end) + if ended { end } else { "" };
        let source = Source::new(text.clone().into()).unwrap();
        match plan(&source, &[only(&old, &new)], Leniency::Lenient) {
            Ok(planned) => {
                let after = String::from_utf8(planned.splices.apply(source.bytes())).unwrap();
                // No line end of another kind comes in.
                if !text.contains(['\r', '\n']) || end == "\n" {
                    prop_assert!(!after.contains('\r'), "{after:?}");
                } else if end == "\r\n" {
                    prop_assert!(!after.replace("\r\n", "").contains(['\r', '\n']), "{after:?}");
                }
                let last = after.split(source.ending().as_str()).count();
                prop_assert!(planned.changed.iter().all(|lines| *lines.start() >= 1 && *lines.end() <= last));
                for (change, kept) in planned.splices.iter().map(|splice| (splice, &splice.range)) {
                    prop_assert!(text.is_char_boundary(kept.start) && text.is_char_boundary(kept.end));
                    prop_assert!(std::str::from_utf8(&change.bytes).is_ok());
                }
            }
            Err(mismatch) => {
                mismatch.message();
                mismatch.hint();
            }
        }
    }

    #[test]
    fn nothing_panics(bytes: Vec<u8>, edits in proptest::collection::vec((".{0,6}", ".{0,6}", any::<bool>()), 0..4)) {
        if let Ok(source) = Source::new(bytes) {
            let edits: Vec<Replace> = edits
                .iter()
                .map(|(old, new, each)| if *each { all(old, new) } else { only(old, new) })
                .collect();
            if let Err(mismatch) = plan(&source, &edits, Leniency::Lenient) {
                mismatch.message();
                mismatch.hint();
            }
        }
    }
}
