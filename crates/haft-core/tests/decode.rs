//! Decoding of input: unambiguous mistakes are repaired, and everything else is a fault that says what to send instead.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use haft_core::permissions::Decision;
use haft_core::{Call, Input, Reply, Spec, function};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::common::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Place {
    x: i32,
    y: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    Green,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    Square { side: u32, at: Place },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Outer {
    Plain,
    Sized { size: u32 },
}

/// One field of every type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Order {
    count: i64,
    #[schemars(range(min = 1, max = 200))]
    small: u8,
    ratio: f64,
    urgent: bool,
    title: String,
    #[schemars(length(max = 4))]
    tags: Vec<String>,
    sizes: Vec<u32>,
    place: Place,
    places: Vec<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra: Option<Place>,
    colour: Colour,
    shape: Shape,
    outer: Outer,
    scores: BTreeMap<String, i32>,
    pair: (i32, String),
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z]*$"))]
    word: String,
    #[serde(default)]
    anything: Value,
}

fn order() -> Order {
    Order {
        count: -5,
        small: 7,
        ratio: 0.5,
        urgent: true,
        title: "12".into(),
        tags: vec!["a".into()],
        sizes: vec![1, 2],
        place: Place { x: 1, y: 2, label: None },
        places: vec![Place { x: 3, y: 4, label: Some("here".into()) }],
        limit: Some(3),
        extra: Some(Place { x: 5, y: 6, label: None }),
        colour: Colour::Green,
        shape: Shape::Square { side: 9, at: Place { x: 7, y: 8, label: None } },
        outer: Outer::Sized { size: 4 },
        scores: BTreeMap::from([("one".into(), 1)]),
        pair: (1, "p".into()),
        word: "word".into(),
        anything: json!({"free": [1.0, "2"]}),
    }
}

fn rig() -> Rig {
    let take = function("take", "Takes an order", async |input: Order, _cx| {
        Reply::object(serde_json::to_value(input).unwrap())
    });
    Rig::new(
        |engine| engine,
        |session| {
            session
                .tool(take.read_only().about(|spec| spec.max_result(1_000_000, haft_core::limits::Cut::End)))
        },
    )
}

fn with(pointer: &str, value: Value) -> Value {
    let mut order = serde_json::to_value(order()).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match order.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
        other => *other.pointer_mut(&format!("/{name}")).unwrap() = value,
    }
    order
}

fn without(name: &str) -> Value {
    let mut order = serde_json::to_value(order()).unwrap();
    order.as_object_mut().unwrap().shift_remove(name);
    order
}

fn notes(reply: &Reply) -> Vec<String> {
    let texts = reply.full_text();
    texts.lines().filter_map(|line| line.strip_prefix("note: ")).map(str::to_owned).collect()
}

#[track_caller]
fn taken(reply: &Reply) -> Order {
    assert_ok(reply);
    serde_json::from_value(reply.structured.clone().unwrap()).unwrap()
}

#[tokio::test]
async fn valid_input_is_neither_changed_nor_noted() {
    let rig = rig();
    let reply = rig.call("take", serde_json::to_value(order()).unwrap()).await;
    assert_eq!(taken(&reply), order());
    assert_eq!(reply.structured.as_ref().unwrap()["anything"].to_string(), r#"{"free":[1.0,"2"]}"#);
    assert!(notes(&reply).is_empty());
    // A string that looks like something else stays a string.
    for title in ["12", "true", "null", "[1]", "{\"a\":1}", "1e5", ""] {
        let reply = rig.call("take", with("/title", json!(title))).await;
        assert_eq!((taken(&reply).title.as_str(), notes(&reply).len()), (title, 0));
        let reply = rig.call("take", with("/tags", json!([title]))).await;
        assert_eq!((taken(&reply).tags, notes(&reply).len()), (vec![title.to_owned()], 0));
        let reply = rig.call("take", with("/anything", json!(title))).await;
        assert_eq!((taken(&reply).anything, notes(&reply).len()), (json!(title), 0));
    }
}

#[tokio::test]
async fn unambiguous_mistakes_are_repaired_and_noted() {
    let rig = rig();
    let whole = serde_json::to_value(order()).unwrap();
    let cases = [
        ("/count", json!("-5"), "`count` came as a string and was read as -5"),
        ("/count", json!(" -5 "), "`count` came as a string and was read as -5"),
        ("/ratio", json!("0.5"), "`ratio` came as a string and was read as 0.5"),
        ("/urgent", json!("true"), "`urgent` came as a string and was read as true"),
        ("/urgent", json!("True"), "`urgent` came as a string and was read as true"),
        ("/tags", json!("a"), "`tags` came as a string and was read as [\"a\"]"),
        ("/tags", json!("[\"a\"]"), "`tags` came as a string and was read as [\"a\"]"),
        ("/sizes", json!("[1, 2]"), "`sizes` came as a string and was read as [1,2]"),
        ("/sizes/1", json!("2"), "`sizes[1]` came as a string and was read as 2"),
        ("/place", json!(r#"{"x":1,"y":2}"#), "`place` came as a string and was read as {\"x\":1,\"y\":2}"),
        ("/place/x", json!("1"), "`place.x` came as a string and was read as 1"),
        ("/places/0/y", json!("4"), "`places[0].y` came as a string and was read as 4"),
        ("/limit", json!("3"), "`limit` came as a string and was read as 3"),
        ("/extra", json!(r#"{"x":5,"y":6}"#), "`extra` came as a string and was read as {\"x\":5,\"y\":6}"),
        ("/extra/x", json!("5"), "`extra.x` came as a string and was read as 5"),
        ("/shape/side", json!("9"), "`shape.side` came as a string and was read as 9"),
        ("/shape/at/x", json!("7"), "`shape.at.x` came as a string and was read as 7"),
        ("/outer/sized/size", json!("4"), "`outer.sized.size` came as a string and was read as 4"),
        (
            "/outer",
            json!(r#"{"sized":{"size":4}}"#),
            "`outer` came as a string and was read as {\"sized\":{\"size\":4}}",
        ),
        ("/scores/one", json!("1"), "`scores.one` came as a string and was read as 1"),
        ("/pair/0", json!("1"), "`pair[0]` came as a string and was read as 1"),
        ("/urgent", json!(1), "`urgent` came as 1 and was read as true"),
        ("/title", json!(12), "`title` came as 12 and was read as \"12\""),
        ("/title", json!(["12"]), "`title` came as [\"12\"] and was read as \"12\""),
        ("/colour", json!("Green"), "`colour` came as \"Green\" and was read as \"green\""),
        (
            "/places",
            places()[0].clone(),
            "`places` came as {\"x\":3,\"y\":4,\"label\":\"here\"} and was read as [{\"x\":3,\"y\":4,\"label\":\"here\"}]",
        ),
    ];
    for (pointer, value, note) in cases {
        let reply = rig.call("take", with(pointer, value)).await;
        assert_eq!(taken(&reply), order(), "{pointer}");
        assert_eq!(notes(&reply), [note]);
    }
    // One string of JSON inside of another.
    let reply = rig.call("take", with("/place", json!(r#"{"x":"1","y":2}"#))).await;
    assert_eq!((taken(&reply), notes(&reply).len()), (order(), 2));
    let reply = rig.call("take", json!(whole.to_string())).await;
    assert_eq!((taken(&reply), notes(&reply).len()), (order(), 1));
}

fn places() -> Vec<Value> {
    serde_json::to_value(order().places).unwrap().as_array().unwrap().clone()
}

/// Options and limits that a model sets a little beyond what is possible.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Options {
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    limit: Option<u32>,
    #[schemars(range(min = 1, max = 10))]
    line: u32,
    #[schemars(length(min = 1))]
    path: Option<String>,
    #[serde(default)]
    #[schemars(example = &".py,.js")]
    endings: String,
    #[serde(default)]
    numbers: Vec<u32>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[tokio::test]
async fn slips_in_optional_fields_are_repaired_and_those_in_required_ones_are_not() {
    let tool = |name: &'static str| {
        function(name, "Takes options", async |input: Options, _cx| {
            Reply::object(serde_json::to_value(input).unwrap())
        })
    };
    let changes = tool("changes").claims(|_, _| Ok(haft_core::Claims::none()));
    let approver = Script::say([Decision::AllowOnce, Decision::AllowOnce]);
    let rig = Rig::new(
        |engine| engine.approver(approver),
        |session| session.tool(tool("reads").read_only()).tool(changes),
    );
    for (field, value, taken, note) in [
        ("limit", json!(11), json!(10), "`limit` must be at most 10, which was taken instead of 11"),
        ("limit", json!(0), json!(1), "`limit` must be at least 1, which was taken instead of 0"),
        ("path", json!(""), Value::Null, ""),
        ("endings", json!([".py", ".js"]), json!(".py,.js"), "`endings` came as"),
        ("numbers", json!(2), json!([2]), "`numbers` came as 2 and was read as [2]"),
        ("numbers", json!("2"), json!([2]), "`numbers` came as a string and was read as [2]"),
        ("env", json!({"A": 1, "B": true}), json!({"A": "1", "B": "true"}), "`env.A` came as 1"),
    ] {
        let reply = rig.call("reads", json!({"line": 1, field: value})).await;
        assert_ok(&reply);
        assert_eq!(reply.structured.as_ref().unwrap()[field], taken, "{field}");
        assert_says(&reply, &[note]);
    }
    // More than was asked for could be changed.
    assert_eq!(kind(&rig.call("changes", json!({"line": 1, "limit": 0})).await), "invalid_input");
    assert_ok(&rig.call("changes", json!({"line": 1, "limit": 11})).await);
    for line in [0, 11] {
        assert_eq!(kind(&rig.call("reads", json!({"line": line})).await), "invalid_input");
    }
}

#[tokio::test]
async fn whole_numbers_and_nulls_are_taken_as_they_are_meant() {
    let rig = rig();
    let reply = rig.call("take", with("/count", json!(-5.0))).await;
    assert_eq!((taken(&reply), notes(&reply).len()), (order(), 0));
    let reply = rig
        .call("take", with("/shape", json!({"kind": "square", "side": 9.0, "at": {"x": 7.0, "y": 8}})))
        .await;
    assert_eq!(taken(&reply), order());
    for name in ["limit", "extra"] {
        let reply = rig.call("take", with(&format!("/{name}"), Value::Null)).await;
        assert_eq!(taken(&reply), serde_json::from_value(without(name)).unwrap());
        assert!(notes(&reply).is_empty());
    }
    let reply = rig.call("take", with("/place/label", Value::Null)).await;
    assert_eq!(taken(&reply), order());
    let reply = rig.call("take", with("/anything", Value::Null)).await;
    assert_eq!(taken(&reply).anything, Value::Null);
}

#[tokio::test]
async fn ambiguous_mistakes_are_not_repaired() {
    let rig = rig();
    for (pointer, value) in [
        ("/sizes", json!("[1")),
        ("/tags", json!("[1")),
        ("/count", json!("5.5")),
        ("/count", json!("five")),
        ("/count", json!("")),
        ("/count", json!("0x10")),
        ("/count", json!(true)),
        ("/urgent", json!("maybe")),
        ("/urgent", json!(2)),
        ("/place", json!("{\"x\":1")),
        ("/place", json!([1, 2])),
        ("/title", json!(1.5)),
        ("/title", json!(["a", "b"])),
        ("/title", Value::Null),
        ("/colour", json!("greenish")),
        ("/count", Value::Null),
        ("/sizes/0", Value::Null),
    ] {
        let reply = rig.call("take", with(pointer, value.clone())).await;
        assert_eq!(kind(&reply), "invalid_input", "{pointer} {value}");
    }
}

#[tokio::test]
async fn a_fault_names_the_field_the_expected_type_and_the_value() {
    let rig = rig();
    let cases: Vec<(Value, &str, &str)> = vec![
        (without("title"), "`title` is missing", "title"),
        (with("/count", json!("five")), "`count` must be an integer, not \"five\"", "count"),
        (with("/title", json!(1.5)), "`title` must be a string, not 1.5", "title"),
        (with("/title", Value::Null), "`title` must be a string, not null", "title"),
        (with("/small", json!(0)), "`small` must be at least 1, not 0", "small"),
        (with("/small", json!(201)), "`small` must be at most 200, not 201", "small"),
        (with("/tags", json!(["", "", "", "", ""])), "`tags` must have at most 4 items, not 5", "tags"),
        (with("/word", json!("A")), "`word` must match `^[a-z]*$`, not \"A\"", "word"),
        (with("/places/0/x", json!({})), "`places[0].x` must be an integer, not {}", "places[0].x"),
        (with("/places/0/z", json!(1)), "unknown field `places[0].z`", "places[0].z"),
        (
            with("/place/labell", json!("")),
            "unknown field `place.labell` (did you mean `label`?)",
            "place.labell",
        ),
        (with("/titel", json!("")), "unknown field `titel` (did you mean `title`?)", "titel"),
        (
            with("/colour", json!("blue")),
            "`colour` must be one of \"red\", \"green\", not \"blue\"",
            "colour",
        ),
        (with("/sizes/1", json!(-1)), "`sizes[1]` must be at least 0, not -1", "sizes[1]"),
        (with("/scores/one", json!([])), "`scores.one` must be an integer, not []", "scores.one"),
        (with("/pair", json!([1])), "`pair` must have at least 2 items, not 1", "pair"),
        (with("/extra", json!({"x": 1})), "`extra.y` is missing", "extra.y"),
    ];
    for (input, message, place) in cases {
        let reply = rig.call("take", input).await;
        assert_eq!(kind(&reply), "invalid_input");
        assert_says(&reply, &[message, "hint: an example call: take {"]);
        let details = &reply.structured.as_ref().unwrap()["fault"]["details"];
        assert_eq!(details["fields"][0], place, "{message}");
        // The example is itself a call that works.
        assert_ok(&rig.call("take", details["example"].clone()).await);
    }
}

#[tokio::test]
async fn a_fault_in_one_of_several_forms_speaks_of_the_nearest() {
    let rig = rig();
    for (shape, words) in [
        (json!({"kind": "circle"}), "radius` is missing"),
        (json!({"kind": "square", "side": -1, "at": {"x": 1, "y": 1}}), "side` must be at least 0, not -1"),
        (json!(5), "shape` must be an object, not 5"),
    ] {
        let reply = rig.call("take", with("/shape", shape)).await;
        assert_eq!(kind(&reply), "invalid_input");
        assert_says(&reply, &[words]);
    }
    let reply = rig.call("take", with("/shape", json!({"kind": "line"}))).await;
    assert_says(&reply, &["shape.kind` must be"]);
}

#[tokio::test]
async fn several_problems_are_listed_at_once_up_to_a_limit() {
    let rig = rig();
    let reply = rig.call("take", json!({"count": true})).await;
    let text = reply.full_text();
    let missing = "`small`, `ratio`, `urgent`, `title`, `tags` and 8 more are missing";
    assert_says(&reply, &[missing, "`count` must be an integer, not true"]);
    assert!(text.lines().next().unwrap().len() < 300);
    assert_eq!(kind(&rig.call("take", json!({"titel": "x"})).await), "invalid_input");
    assert_says(&rig.call("take", json!({"titel": "x"})).await, &["did you mean `title`?"]);
    let fields: Map<String, Value> = (0..100).map(|number| (format!("f{number}"), json!(number))).collect();
    let reply = rig.call("take", Value::Object(fields)).await;
    assert_says(&reply, &["unknown fields `f0`, `f1`, `f2`, `f3`, `f4` and 95 more (the fields are"]);
}

#[tokio::test]
async fn a_foreign_schema_is_followed_through_its_references() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }},
    });
    struct Foreign(Spec);
    struct Ready(Value);
    impl haft_core::Prepared for Ready {
        fn claims(&self) -> haft_core::Claims {
            haft_core::Claims::none()
        }
        fn run(
            self: Box<Self>,
            _cx: haft_core::Context,
        ) -> haft_core::BoxFuture<'static, Result<Reply, haft_core::Fault>> {
            Box::pin(async move { Ok(Reply::object(self.0)) })
        }
    }
    impl haft_core::DynTool for Foreign {
        fn spec(&self) -> &Spec {
            &self.0
        }
        fn prepare(
            &self,
            input: &Value,
            _cx: &haft_core::Context,
        ) -> Result<Box<dyn haft_core::Prepared>, haft_core::Fault> {
            Ok(Box::new(Ready(input.clone())))
        }
    }
    let tool = |schema| Foreign(Spec::from_schema("foreign", "Foreign", schema).read_only());
    let rig = Rig::new(|engine| engine, |session| session.tool(tool(schema)));
    let input = json!({"tree": {"children": [{"size": "3", "children": "[{\"size\":\"4\"}]"}]}});
    let reply = rig.call("foreign", input).await;
    assert_ok(&reply);
    let mended = json!({"tree": {"children": [{"size": 3, "children": [{"size": 4}]}]}});
    assert_eq!(reply.structured.unwrap(), mended);
    // A circular schema, and an invalid one: the tool validates its input itself.
    for schema in [json!({"$ref": "#"}), json!({"type": 5}), json!({"$ref": "#/nowhere"}), json!(true)] {
        rig.session.tools().replace(std::sync::Arc::new(tool(schema)));
        let reply = rig.call("foreign", json!({"a": "1"})).await;
        assert!(reply.is_error || reply.structured == Some(json!({"a": "1"})));
    }
}

// Hostile input

fn deep(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

async fn text(rig: &Rig, text: String) -> Reply {
    within(rig.session.call(Call::new("1", "take", Input::Text(text)))).await
}

#[tokio::test]
async fn text_that_is_too_long_is_refused_unread() {
    let rig = rig();
    let long = "[".repeat(100 * 1024 * 1024);
    assert_eq!(Call::parse(&long).unwrap_err().kind(), haft_core::FaultKind::TooLarge);
    assert_eq!(kind(&rig.call("take", Value::String(long.clone())).await), "too_large");
    let reply = text(&rig, long).await;
    assert_eq!(kind(&reply), "too_large");
    assert_says(&reply, &["104857600 bytes", "at most 33554432"]);
}

/// Sixteen million numbers are a short text, but a gigabyte of parsed values.
#[tokio::test]
async fn text_of_too_many_values_is_refused_before_it_is_read() {
    let rig = rig();
    let wide = format!("{{\"sizes\":[{}1]}}", "1,".repeat(16_000_000));
    assert_eq!(Call::parse(&wide).unwrap_err().kind(), haft_core::FaultKind::TooLarge);
    let reply = text(&rig, wide).await;
    assert_eq!(kind(&reply), "too_large");
    assert_says(&reply, &["more than 2000000 values"]);
    let many = with("/count", json!(vec![1; 1_000_001]));
    let reply = text(&rig, many.to_string()).await;
    assert_says(&reply, &["`count` must be an integer, not an array of 1000001 items"]);
}

#[tokio::test]
async fn text_that_no_two_parsers_read_alike_is_refused() {
    let rig = rig();
    let title = |json: &str| format!(r#"{{"title":{json}}}"#);
    for hostile in [
        deep(100_000),
        "{\"a\":".repeat(100_000),
        format!("{{\"place\":{}}}", deep(100_000)),
        r#"{"title":"a","title":"b"}"#.to_owned(),
        r#"{"place":{"x":1,"x":2}}"#.to_owned(),
        title("1e999"),
        title("-1e999"),
        title(&"9".repeat(400)),
        title(r#""\ud800""#),
        title(r#""\udc00\ud800""#),
        title("NaN"),
        title("Infinity"),
        title("01"),
        "{} {}".to_owned(),
        "{}\0".to_owned(),
        "\u{feff}{}".to_owned(),
    ] {
        let reply = text(&rig, hostile.clone()).await;
        assert_eq!(kind(&reply), "invalid_input", "{}", &hostile[..20.min(hostile.len())]);
        assert_says(&reply, &["not valid JSON"]);
        assert!(Call::parse(&hostile).is_err());
        // Not parsed either as a string in the place of an object.
        let reply = rig.call("take", with("/place", json!(hostile))).await;
        assert_eq!(kind(&reply), "invalid_input");
    }
    // Within the limit it is parsed, however odd it is.
    assert_eq!(kind(&text(&rig, format!("{{\"a\":{}}}", deep(100))).await), "invalid_input");
}

#[tokio::test]
async fn numbers_beyond_every_type_are_faults() {
    let rig = rig();
    for (pointer, value) in [
        ("/count", json!(1e308)),
        ("/count", json!(u64::MAX)),
        ("/count", json!("9223372036854775808")),
        ("/count", json!(9.3e18)),
        ("/small", json!(256)),
        ("/small", json!(-1)),
        ("/small", json!(1.5)),
        ("/limit", json!(4294967296_u64)),
        ("/place/x", json!(2147483648_u64)),
    ] {
        let reply = rig.call("take", with(pointer, value.clone())).await;
        assert_eq!(kind(&reply), "invalid_input", "{pointer} {value}");
        let name = pointer.rsplit('/').next().unwrap();
        assert_says(&reply, &[name]);
    }
    let reply = rig.call("take", with("/count", json!(i64::MIN))).await;
    assert_eq!(taken(&reply).count, i64::MIN);
}

/// Memory and time for rejected input must not grow with the number of its problems.
#[tokio::test]
async fn a_million_wrong_items_are_one_fault() {
    let rig = rig();
    for (item, count) in [
        (json!("x"), 1_000_000),
        (json!("1"), 100_000),
        (Value::Null, 1_000_000),
        (json!({}), 100_000),
        (json!("{\"x\":1}"), 100_000),
        (json!([1]), 100_000),
    ] {
        let many = Value::Array(vec![item.clone(); count]);
        let reply = rig.call("take", with("/sizes", many)).await;
        assert_eq!(kind(&reply), "invalid_input", "{item}");
        assert!(reply.full_text().len() < 2000, "{}", reply.full_text());
    }
    let fields: Map<String, Value> =
        (0..100_000).map(|number| (format!("field {number}"), json!(number))).collect();
    let reply = rig.call("take", Value::Object(fields)).await;
    assert_eq!(kind(&reply), "invalid_input");
    assert!(reply.full_text().len() < 2000);
}

#[tokio::test]
async fn names_and_values_of_any_length_are_shown_short() {
    let rig = rig();
    let long = "n".repeat(1_000_000);
    let mut events = rig.engine.activity().subscribe_to(&[haft_core::events::EventKind::Fault]);
    for input in [
        with(&format!("/{long}"), json!(1)),
        with(&format!("/place/{long}"), json!(1)),
        with(&format!("/scores/{long}"), json!([])),
        with(&format!("/scores/{long}"), json!("1x")),
        with("/colour", json!(long)),
        with("/count", json!(long)),
        with("/word", json!("N".repeat(1_000_000))),
        with("/place", json!(format!("{{\"a\":\"{}\"}}", "x".repeat(10_000_000)))),
        json!(format!("{{\"{long}\":1,\"{long}\":2}}")),
    ] {
        let reply = rig.call("take", input).await;
        assert_eq!(kind(&reply), "invalid_input");
        assert!(reply.full_text().len() < 3000, "{} characters", reply.full_text().len());
    }
    for fault in faults(&drain(&mut events)) {
        assert!(fault.to_string().len() + json!(fault.details()).to_string().len() < 6000);
    }
}

// Properties

fn any_place() -> impl Strategy<Value = Place> {
    (any::<i32>(), any::<i32>(), prop::option::of("[a-z]{0,5}")).prop_map(|(x, y, label)| Place {
        x,
        y,
        label,
    })
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let circle = any_float().prop_map(|radius| Shape::Circle { radius });
    prop_oneof![circle, (any::<u32>(), any_place()).prop_map(|(side, at)| Shape::Square { side, at })]
}

/// Floats that survive being written and read.
fn any_float() -> impl Strategy<Value = f64> {
    (-1_000_000_i64..1_000_000).prop_map(|number| number as f64 / 64.0)
}

fn any_order() -> impl Strategy<Value = Order> {
    let numbers = (any::<i64>(), 1_u8..=200, any_float(), any::<bool>(), "[ -~]{0,8}");
    let lists = (
        prop::collection::vec("[a-z ]{1,6}", 0..3),
        prop::collection::vec(any::<u32>(), 0..4),
        any_place(),
        prop::collection::vec(any_place(), 0..3),
    );
    let options = (prop::option::of(any::<u32>()), prop::option::of(any_place()), any::<bool>());
    let rest = (
        any_shape(),
        prop_oneof![Just(Outer::Plain), any::<u32>().prop_map(|size| Outer::Sized { size })],
        prop::collection::btree_map("[a-z/~.]{0,4}", any::<i32>(), 0..3),
        (any::<i32>(), "[ -~]{0,4}"),
    );
    (numbers, lists, options, rest).prop_map(|(numbers, lists, options, rest)| Order {
        count: numbers.0,
        small: numbers.1,
        ratio: numbers.2,
        urgent: numbers.3,
        title: numbers.4,
        tags: lists.0,
        sizes: lists.1,
        place: lists.2,
        places: lists.3,
        limit: options.0,
        extra: options.1,
        colour: if options.2 { Colour::Red } else { Colour::Green },
        shape: rest.0,
        outer: rest.1,
        scores: rest.2,
        pair: rest.3,
        word: String::new(),
        anything: json!(null),
    })
}

/// Introduces mistakes that models make, wherever the next of `choices` says so. Returns their number.
fn damage(value: &mut Value, choices: &mut impl Iterator<Item = bool>, is_root: bool) -> usize {
    let mut damaged = 0;
    match value {
        Value::Array(items) => {
            if let [Value::String(only)] = &items[..]
                && choices.next() == Some(true)
            {
                *value = Value::String(only.clone());
                return 1;
            }
            for item in items.iter_mut() {
                damaged += damage(item, choices, false);
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                damaged += damage(field, choices, false);
            }
        }
        Value::Number(_) | Value::Bool(_) => {}
        Value::String(_) | Value::Null => return damaged,
    }
    if !is_root && choices.next() == Some(true) {
        *value = Value::String(value.to_string());
        damaged += 1;
    }
    damaged
}

/// One session for all cases, since compiling the validator takes long.
fn on_one_rig<T>(work: impl AsyncFnOnce(&Rig) -> T) -> T {
    static RIG: OnceLock<Rig> = OnceLock::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(RIG.get_or_init(rig)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_input_is_repaired(order in any_order(), choices in prop::collection::vec(prop::bool::weighted(0.3), 200)) {
        let mut input = serde_json::to_value(&order).unwrap();
        let damaged = damage(&mut input, &mut choices.into_iter(), true);
        let reply = on_one_rig(async |rig| rig.call("take", input.clone()).await);
        prop_assert!(!reply.is_error, "{}\n{}", input, reply.full_text());
        prop_assert_eq!(taken(&reply), order);
        prop_assert_eq!(notes(&reply).len(), damaged);
    }

    #[test]
    fn an_input_that_fits_is_never_changed(order in any_order()) {
        let input = serde_json::to_value(&order).unwrap();
        let reply = on_one_rig(async |rig| rig.call("take", input).await);
        prop_assert_eq!(taken(&reply), order);
        prop_assert!(notes(&reply).is_empty());
    }

    #[test]
    fn no_input_causes_a_panic(text in "\\PC{0,200}|[\\[\\]{}\",:0-9a-z\\\\ ]{0,60}") {
        let _ = Call::parse(&text);
        let reply = on_one_rig(async |rig| self::text(rig, text.clone()).await);
        prop_assert_eq!(kind(&reply), "invalid_input");
        let reply = on_one_rig(async |rig| rig.call("take", with("/place", json!(text))).await);
        prop_assert_eq!(kind(&reply), "invalid_input");
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
enum Expression {
    Not { inner: Box<Expression> },
    Minus { inner: Box<Expression> },
    Number(i64),
}

#[derive(Deserialize, JsonSchema)]
struct Evaluated {
    #[allow(dead_code)]
    /// What is evaluated
    expression: Expression,
}

#[tokio::test]
async fn a_schema_with_several_forms_at_every_level_is_decoded_in_time() {
    let tool = function("evaluate", "Evaluates", async |_: Evaluated, _cx| "done").read_only();
    let rig = Rig::new(|engine| engine, |session| session.tool(tool));
    let mut expression = json!({"number": 5.0});
    for level in 0..40 {
        let name = if level % 2 == 0 { "not" } else { "minus" };
        expression = json!({ name: {"inner": expression} });
    }
    // Whether the float is converted or not, the call gets a reply.
    assert_eq!(rig.call("evaluate", json!({"expression": expression})).await.content.len(), 1);
}
