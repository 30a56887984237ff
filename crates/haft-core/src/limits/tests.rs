//! A cut text fits into its limit, and its marker has the exact number of dropped characters.

use std::time::Duration;

use haft_sandbox::Store;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn marker(count: usize) -> String {
    format!("[{count} cut]")
}

fn any_cut() -> impl Strategy<Value = Cut> {
    prop_oneof![Just(Cut::Start), Just(Cut::End), Just(Cut::Both)]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "(\\PC|\n|\r\n){0,200}",
        "[ab\u{301}\u{200d}👩é\n\r\"\\\\\t\u{1}]{0,300}",
        "([a-z ]{0,30}\r?\n){0,20}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
        "[a-z]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 60, 24, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..24).prop_map(Value::from),
            proptest::collection::vec(("[a-z/~\"]{1,8}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn printed(value: &Value) -> usize {
    serde_json::to_string(value).unwrap().chars().count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_cut_text_fits_and_marks_what_it_lost(text in any_text(), max in 0..250_usize, keep in any_cut()) {
        let total = text.chars().count();
        let Some(cut) = cut_text(&text, max, keep, &marker) else {
            prop_assert!(total <= max);
            return Ok(());
        };
        prop_assert!(total > max);
        prop_assert!(cut.chars().count() <= max);
        // Rebuild the parts from the number in the marker.
        let found = (1..=total).find_map(|count| {
            let (head, tail) = cut.split_once(&marker(count))?;
            let kept = head.chars().count() + tail.chars().count();
            (kept + count == total && text.starts_with(head) && text.ends_with(tail)).then_some((head, tail))
        });
        match found {
            Some((head, tail)) => {
                prop_assert!(keep != Cut::Start || tail.is_empty());
                prop_assert!(keep != Cut::End || head.is_empty());
                let rest = &text[head.len()..text.len() - tail.len()];
                prop_assert!(!(head.ends_with('\r') && rest.starts_with('\n')));
                prop_assert!(!(tail.starts_with('\n') && rest.ends_with('\r')));
            }
            None => prop_assert!(max < marker(total).chars().count(), "no marker in {cut:?}"),
        }
    }

    #[test]
    fn a_cut_value_fits_and_keeps_its_keys(value in any_json(), max in 200..2000_usize, keep in any_cut()) {
        let mut cut = value.clone();
        let Some(fields) = cut_json(&mut cut, max, keep) else {
            prop_assert!(printed(&value) <= max);
            prop_assert_eq!(cut, value);
            return Ok(());
        };
        prop_assert!(printed(&value) > max);
        prop_assert!(printed(&cut) <= max, "{} > {max}", printed(&cut));
        prop_assert!(!fields.is_empty());
        if fields[0].lost == Removed::Everything {
            prop_assert_eq!(cut, json!({"truncated": true}));
            return Ok(());
        }
        if let (Value::Object(before), Value::Object(after)) = (&value, &cut) {
            prop_assert!(before.keys().eq(after.keys()));
        }
        for field in fields {
            let now = cut.pointer(&field.path);
            match field.lost {
                Removed::Chars(_) => prop_assert!(now.is_some_and(|now| now.as_str().is_some_and(|text| text.contains('…')))),
                Removed::Items(_) => prop_assert!(now.is_some_and(Value::is_array)),
                Removed::Everything => prop_assert!(false),
            }
        }
    }
}

#[test]
fn the_cut_prefers_a_line_border() {
    let text = "0123456789\n".repeat(100);
    let cut = cut_text(&text, 215, Cut::Start, &marker).unwrap();
    assert_eq!(cut, "0123456789\n".repeat(18) + "[902 cut]");
    let cut = cut_text(&text, 215, Cut::End, &marker).unwrap();
    assert_eq!(cut, "[902 cut]".to_owned() + &"0123456789\n".repeat(18));
}

#[test]
fn without_room_for_the_marker_the_text_alone_is_cut() {
    assert_eq!(cut_text("äöüß", 2, Cut::Start, &marker).unwrap(), "äö");
    assert_eq!(cut_text("äöüß", 2, Cut::End, &marker).unwrap(), "üß");
    assert_eq!(cut_text("äöüß", 0, Cut::Both, &marker).unwrap(), "");
    assert_eq!(cut_text("äöüß", 4, Cut::Both, &marker), None);
}

#[test]
fn characters_that_belong_together_stay_together() {
    assert_eq!(cut_text("abe\u{301}fgh", 3, Cut::Start, &|_| String::new()).unwrap(), "ab");
    assert_eq!(cut_text("abce\u{301}fg", 3, Cut::End, &|_| String::new()).unwrap(), "fg");
}

#[test]
fn the_largest_fields_are_cut() {
    let mut value =
        json!({"path": "src/main.rs", "lines": 3, "text": "x".repeat(5000), "also": "y".repeat(60)});
    let cuts = cut_json(&mut value, 300, Cut::Start).unwrap();
    assert_eq!(cuts.len(), 1);
    assert_eq!(cuts[0].path, "/text");
    assert_eq!(value["also"], "y".repeat(60));
    assert_eq!(value["path"], "src/main.rs");
    assert!(printed(&value) > 290);
}

#[test]
fn a_long_list_keeps_whole_rows_from_the_kept_side() {
    let rows: Vec<Value> = (0..1000).map(|n| json!({"n": n})).collect();
    let mut value = json!({"rows": rows, "count": 1000});
    let cuts = cut_json(&mut value, 400, Cut::End).unwrap();
    let left = value["rows"].as_array().unwrap();
    assert_eq!(left.last(), Some(&json!({"n": 999})));
    assert_eq!(cuts, [CutField { path: "/rows".into(), lost: Removed::Items(1000 - left.len()) }]);
    assert!(printed(&value) > 380);
}

#[test]
fn a_record_in_an_array_is_cut_inside() {
    let mut value = json!([{"type": "text", "text": "x".repeat(5000)}, {"type": "text", "text": "short"}]);
    cut_json(&mut value, 300, Cut::End).unwrap();
    assert_eq!(value[1]["text"], "short");
    assert!(value[0]["text"].as_str().unwrap().starts_with("…xxx"));
}

#[test]
fn keys_that_do_not_fit_leave_only_a_mark() {
    let fields = (0..100).map(|n| (format!("key{n}"), Value::from(n))).collect();
    let mut value = Value::Object(fields);
    let cuts = cut_json(&mut value, 200, Cut::End).unwrap();
    assert_eq!(value, json!({"truncated": true}));
    assert_eq!(cuts, [CutField { path: String::new(), lost: Removed::Everything }]);
}

#[test]
fn kept_texts_have_safe_names_and_are_swept_from_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path().join("kept"));
    let kept = ResultStore::new(store.clone(), Duration::from_secs(3600), 2500);
    let paths: Vec<_> = (0..5).map(|_| kept.keep("../a b/ü", &"x".repeat(1000)).unwrap()).collect();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("ab-") && name.ends_with(".txt")));
    assert_eq!(kept.sweep().unwrap(), Swept { files: 3, bytes: 3000 });
    assert_eq!(store.read(names[4]).unwrap().unwrap(), "x".repeat(1000).into_bytes());
    assert_eq!(store.read(names[0]).unwrap(), None);
    assert_eq!(kept.sweep().unwrap(), Swept::default());
}

#[test]
fn the_text_kept_last_survives_every_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(dir.path());
    store.write("foreign.json", b"{}").unwrap();
    let kept = ResultStore::new(store.clone(), Duration::ZERO, 0);
    kept.keep("", "first").unwrap();
    let last = kept.keep("", "second").unwrap();
    kept.sweep().unwrap();
    let left = store.entries().unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|entry| store.path(&entry.name) == last));
}
