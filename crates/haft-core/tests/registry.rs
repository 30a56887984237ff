//! The registry of tools, and their definitions for APIs.

use std::sync::Arc;

use haft_core::limits::Cut;
use haft_core::{Call, Category, Context, DynTool, Format, Function, Reply, Sensitivity, Typed, function};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::*;

#[derive(Serialize, JsonSchema)]
struct Said {
    /// What was said
    word: String,
}

fn named(name: &'static str, description: &'static str) -> Function<Any> {
    function(name, description, async |input: Any, _cx| input.word)
}

fn rig() -> Rig {
    Rig::new(
        |engine| engine,
        |session| {
            let session = session.tool(named("b", "Second. And more.\nAnd a line").read_only());
            session.tool(named("a", "Third").about(|spec| spec.category(Category::Web).output::<Said>()))
        },
    )
}

fn names(tools: &[Arc<dyn DynTool>]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.spec().name).collect()
}

#[tokio::test]
async fn a_name_is_taken_once_and_replaced_in_place() {
    let rig = rig();
    let tools = rig.session.tools();
    let fault = tools.register(Arc::new(named("b", "Other"))).unwrap_err();
    assert_eq!(fault.message(), "there is a tool `b` already");
    assert!(fault.hint_text().is_some());
    assert!(rig.session.add_tool(Arc::new(named("b", "Other"))).is_err());
    let old = tools.replace(Arc::new(named("b", "Other"))).unwrap();
    assert_eq!(old.spec().description, "Second. And more.\nAnd a line");
    assert!(tools.replace(Arc::new(named("z", "New"))).is_none());
    let all: Vec<_> = tools.names();
    assert_eq!(all.iter().map(|name| &**name).collect::<Vec<_>>(), ["note", "b", "a", "z"]);
    assert_eq!(tools.spec("b").unwrap().description, "Other");
}

#[tokio::test]
async fn the_builder_replaces_in_place_too() {
    let rig = Rig::new(
        |engine| engine,
        |session| session.shared_tool(Arc::new(named("b", "First"))).tool(named("note", "Mine")),
    );
    assert_eq!(names(&rig.session.tools().all()), ["note", "b"]);
    assert_eq!(rig.session.tools().spec("note").unwrap().description, "Mine");
}

#[tokio::test]
async fn removing_keeps_the_order_of_the_rest() {
    let rig = rig();
    let tools = rig.session.tools();
    assert_eq!(&*tools.remove("note").unwrap().spec().name, "note");
    assert!(tools.remove("note").is_none());
    assert!(tools.get("note").is_none() && tools.spec("note").is_none());
    assert_eq!(names(&tools.all()), ["b", "a"]);
    assert!(tools.register(Arc::new(Typed::<Note>::new())).is_ok());
    assert_eq!(names(&tools.all()), ["b", "a", "note"]);
}

#[tokio::test]
async fn tools_are_found_by_name_category_and_harm() {
    let rig = rig();
    let tools = rig.session.tools();
    assert_eq!(names(&tools.filter(&["a", "missing", "note", "a"])), ["note", "a"]);
    assert_eq!(names(&tools.in_category(Category::File)), ["note"]);
    assert_eq!(names(&tools.in_category(Category::Other)), ["b"]);
    assert!(tools.in_category(Category::Git).is_empty());
    assert_eq!(names(&tools.read_only()), ["b"]);
    let spec = tools.spec("note").unwrap();
    assert_eq!((spec.read_only, spec.sensitivity), (false, Sensitivity::Sensitive));
    assert_eq!((spec.max_result, spec.cut, spec.timeout), (haft_core::DEFAULT_MAX_RESULT, Cut::End, None));
    let example = spec.example();
    assert_eq!(example, json!({"path": "…", "text": "…"}));
    assert_eq!(tools.get("note").unwrap().preview_use(&example).unwrap(), "write …");
}

#[tokio::test]
async fn a_function_can_say_how_its_calls_and_results_are_shown() {
    let shouting = function("shout", "Shouts", async |_: Any, _cx| "ready")
        .read_only()
        .preview_use(|_| "shouts once".to_owned())
        .preview_result(|reply, _| vec![reply.display_text().to_uppercase()]);
    let rig = Rig::new(|engine| engine, |session| session.tool(shouting));
    let reply = rig.session.call(Call::new("1", "shout", json!({}))).await;
    let tool = rig.session.tools().get("shout").unwrap();
    assert_eq!(tool.preview_use(&json!({})).as_deref(), Some("shouts once"));
    assert_eq!(tool.preview_result(&reply, 8), ["READY"]);
}

#[tokio::test]
async fn a_prompt_lists_each_tool_in_a_line() {
    let rig = rig();
    let prompt = rig.session.tools().prompt(&rig.session.context());
    assert_eq!(prompt, "- note: Writes a note.\n- b: Second.\n- a: Third\n");
}

/// Available only in the session `friends`; its description names the session.
struct Shy(Function<Any>);

impl DynTool for Shy {
    fn spec(&self) -> &haft_core::Spec {
        DynTool::spec(&self.0)
    }
    fn describe(&self, cx: &Context) -> std::borrow::Cow<'_, str> {
        format!("For {}", cx.session().id()).into()
    }
    fn unavailable(&self, cx: &Context) -> Option<haft_core::Fault> {
        (&**cx.session().id() != "friends").then(|| haft_core::Fault::failed("it is for friends"))
    }
    fn prepare(&self, input: &Value, cx: &Context) -> Result<Box<dyn haft_core::Prepared>, haft_core::Fault> {
        self.0.prepare(input, cx)
    }
}

#[tokio::test]
async fn unavailable_tools_are_not_listed() {
    let shown = |id: &'static str| {
        let rig = Rig::new(|engine| engine, |session| session.id(id).tool(Shy(named("shy", "Shy"))));
        let cx = rig.session.context();
        let tools = rig.session.tools();
        (tools.prompt(&cx).contains("shy"), tools.definitions(Format::Mcp, &cx))
    };
    let (in_prompt, definitions) = shown("strangers");
    assert_eq!((in_prompt, definitions.len()), (false, 1));
    let (in_prompt, definitions) = shown("friends");
    assert_eq!((in_prompt, definitions.len()), (true, 2));
    assert_eq!(definitions[1]["description"], "For friends");
}

#[tokio::test]
async fn tools_are_defined_in_the_form_of_each_api() {
    let rig = rig();
    let definitions = |format| rig.session.tools().definitions(format, &rig.session.context());
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"description": "The file", "type": "string"},
            "text": {"description": "What to write", "type": "string"},
            "times": {"description": "How often", "type": "integer", "minimum": 0},
        },
        "required": ["path", "text"],
        "additionalProperties": false,
    });
    let description = "Writes a note. It is kept in a file";
    assert_eq!(
        definitions(Format::OpenAi)[0],
        json!({"type": "function", "function": {"name": "note", "description": description, "parameters": schema}})
    );
    assert_eq!(
        definitions(Format::OpenAiResponses)[0],
        json!({"type": "function", "name": "note", "description": description, "parameters": schema, "strict": false})
    );
    assert_eq!(
        definitions(Format::Anthropic)[0],
        json!({"name": "note", "description": description, "input_schema": schema})
    );
    let mcp = definitions(Format::Mcp);
    assert_eq!(
        mcp[0],
        json!({
            "name": "note", "title": "Note", "description": description, "inputSchema": schema,
            "annotations": {
                "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false,
            },
            "_meta": {"anthropic/maxResultSizeChars": 60_000},
        })
    );
    assert_eq!(
        mcp[1]["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    assert_eq!(mcp[2]["outputSchema"]["properties"]["word"]["description"], "What was said");
    let haft = definitions(Format::Haft);
    assert_eq!(haft[0]["sensitivity"], "sensitive");
    assert_eq!((&haft[1]["read_only"], &haft[1]["sensitivity"]), (&json!(true), &json!("safe")));
    assert_eq!((&haft[2]["category"], &haft[2]["max_result"]), (&json!("web"), &json!(30_000)));
    for format in [Format::OpenAi, Format::OpenAiResponses, Format::Anthropic, Format::Mcp, Format::Haft] {
        assert_eq!(definitions(format).len(), 3, "{format:?}");
    }
}

#[test]
fn a_title_is_the_name_as_a_person_writes_it() {
    let titles =
        [("read_file", "Read file"), ("NotebookEdit", "Notebook edit"), ("ls", "Ls"), ("a--b.c", "A b c")];
    for (name, title) in titles {
        assert_eq!(haft_core::Spec::from_schema(name, "", json!({})).title(), title);
    }
}

#[tokio::test]
async fn watchers_are_notified_when_tools_change() {
    let rig = rig();
    let tools = rig.session.tools();
    let mut changes = tools.changes();
    assert!(!changes.has_changed().unwrap());
    let tool = || Arc::new(function("late", "Comes late", async |_: Nothing, _cx| "here"));
    rig.session.add_tool(tool()).unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert!(rig.session.add_tool(tool()).is_err());
    tools.remove("never there");
    assert!(!changes.has_changed().unwrap(), "nothing has changed");
    tools.replace(tool());
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    tools.remove("late");
    assert!(changes.has_changed().unwrap());
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Nothing {}

#[tokio::test]
async fn a_tool_without_parameters_has_an_object_for_a_schema() {
    let tool = function("nothing", "Takes nothing", async |_: Nothing, _cx| "fine").read_only();
    let rig = Rig::new(|engine| engine, |session| session.tool(tool));
    let spec = rig.session.tools().spec("nothing").unwrap();
    assert_eq!(
        *spec.input_schema(),
        json!({"type": "object", "properties": {}, "additionalProperties": false})
    );
    assert_ok(&rig.call("nothing", json!({})).await);
    assert_says(&rig.call("nothing", json!({"a": 1})).await, &["unknown field `a`", "no fields are taken"]);
}

#[test]
fn a_name_is_not_like_every_letter_in_it() {
    assert!(haft_core::suggest::nearest("number", ["n", "um"], 3).is_empty());
    assert_eq!(haft_core::suggest::nearest("file", ["n", "file_path"], 3), ["file_path"]);
}

#[test]
fn replies_are_written_as_each_api_wants_them() {
    use haft_core::replies::Block;
    let mut reply = Reply::text("seen").block(Block::image("image/png", vec![0])).failed();
    reply.id = "c1".into();
    assert_eq!(
        Format::Anthropic.reply(&reply),
        json!({
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                {"type": "text", "text": "seen"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            ],
            "is_error": true,
        })
    );
    assert_eq!(
        Format::OpenAi.reply(&reply),
        json!({"role": "tool", "tool_call_id": "c1", "content": "seen\n[image/png, 1 bytes]"})
    );
    assert_eq!(
        Format::OpenAiResponses.reply(&reply),
        json!({
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "seen"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
            ],
        })
    );
    let mut plain = Reply::text("a");
    plain.id = "c2".into();
    assert_eq!(
        Format::OpenAiResponses.reply(&plain),
        json!({"type": "function_call_output", "call_id": "c2", "output": "a"})
    );
}
