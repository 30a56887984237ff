//! The tools that the suite calls.

use std::sync::Arc;
use std::time::Duration;

use haft_core::events::Progress;
use haft_core::replies::{Block, Body, Content};
use haft_core::{BoxFuture, Claims, Context, DynTool, Fault, Function, Prepared, Reply, Spec, function};
use haft_mcp::model::LoggingLevel;
use haft_mcp::{Caller, ChangeNotifier, FormAnswer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A PNG with one red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53, 0xde, 0x00,
    0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01,
    0x01, 0x00, 0x18, 0xdd, 0x8d, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60,
    0x82,
];

/// An empty WAV file.
const WAV: &[u8] = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What the model is asked
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What the user is told
    message: String,
}

pub(crate) fn all(news: ChangeNotifier) -> Vec<Arc<dyn DynTool>> {
    let mut all: Vec<Arc<dyn DynTool>> = vec![Arc::new(Schema::new())];
    all.extend(content());
    all.extend(notifying(news));
    all.extend(asking());
    all.extend(rounds());
    all
}

fn tool<F, R>(name: &'static str, description: &'static str, body: F) -> Arc<dyn DynTool>
where
    F: haft_core::AsyncBody<Nothing, R>,
    R: haft_core::replies::IntoReply,
{
    shared(function(name, description, body))
}

fn shared<I>(function: Function<I>) -> Arc<dyn DynTool>
where
    Function<I>: DynTool,
    I: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
{
    // They have no effects, so they need no approval and run in parallel.
    Arc::new(function.read_only().claims(|_, _| Ok(Claims::none())))
}

fn resource(uri: &str, media_type: &str, text: &str) -> Content {
    let (uri, media_type) = (uri.to_owned(), Some(media_type.to_owned()));
    Content::Resource { uri, media_type, body: Body::Text(text.to_owned()) }
}

/// Tools that return every kind of content.
fn content() -> Vec<Arc<dyn DynTool>> {
    vec![
        tool(
            "test_simple_text",
            "Says something",
            async |_: Nothing, _: Context| "This is a simple text response for testing.",
        ),
        tool("test_image_content", "Shows a picture", async |_: Nothing, _: Context| {
            Reply::image("image/png", PNG.to_vec())
        }),
        tool("test_audio_content", "Plays a sound", async |_: Nothing, _: Context| {
            Reply::blocks(vec![Block::audio("audio/wav", WAV.to_vec())])
        }),
        tool("test_embedded_resource", "Shows what is at an address", async |_: Nothing, _: Context| {
            let text = "This is an embedded resource content.";
            Reply::blocks(vec![resource("test://embedded-resource", "text/plain", text).into()])
        }),
        tool("test_multiple_content_types", "Shows several things", async |_: Nothing, _: Context| {
            let data = r#"{"test":"data","value":123}"#;
            Reply::text("Multiple content types test:")
                .block(Block::image("image/png", PNG.to_vec()))
                .block(resource("test://mixed-content-resource", "application/json", data))
        }),
        tool("test_error_handling", "Fails", async |_: Nothing, _: Context| {
            Reply::error("This tool intentionally returns an error for testing")
        }),
        tool("test_reconnection", "Takes a moment", async |_: Nothing, _: Context| {
            pause(100).await;
            "This reply can be had again by whoever lost the stream."
        }),
    ]
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Tools that send notifications.
fn notifying(news: ChangeNotifier) -> Vec<Arc<dyn DynTool>> {
    vec![
        tool("test_tool_with_logging", "Writes into the log", async |_: Nothing, cx: Context| {
            let caller = caller(&cx)?;
            for (at, text) in ["Tool execution started", "Tool processing data", "Tool execution completed"]
                .iter()
                .enumerate()
            {
                if at > 0 {
                    pause(50).await;
                }
                caller.log(LoggingLevel::Info, "test", json!(text)).await;
            }
            Ok::<_, Fault>("Tool with logging executed successfully")
        }),
        tool("test_logging_tool", "Writes into the log", async |_: Nothing, cx: Context| {
            caller(&cx)?.log(LoggingLevel::Info, "test", json!("here I am")).await;
            Ok::<_, Fault>("Logged")
        }),
        tool("test_tool_with_progress", "Tells how far it has come", async |_: Nothing, cx: Context| {
            for done in [0, 50, 100] {
                if done > 0 {
                    pause(50).await;
                }
                cx.progress(Progress { done, total: Some(100), message: format!("{done} of 100") });
            }
            pause(10).await;
            "Tool with progress executed successfully"
        }),
        tool("test_trigger_tool_change", "Adds a tool, or takes it away", async |_: Nothing, cx: Context| {
            let tools = cx.session().tools();
            if tools.remove("test_comes_and_goes").is_none() {
                let comes =
                    tool("test_comes_and_goes", "Comes and goes", async |_: Nothing, _: Context| "Here");
                cx.session().add_tool(comes)?;
            }
            Ok::<_, Fault>("The tools have changed")
        }),
        tool(
            "test_trigger_prompt_change",
            "Says that prompts have changed",
            move |_: Nothing, _: Context| {
                news.prompts_changed();
                std::future::ready("The prompts have changed")
            },
        ),
    ]
}

fn caller(cx: &Context) -> Result<Caller, Fault> {
    Caller::of(cx).ok_or_else(|| Fault::failed("there is no client"))
}

fn form(fields: Value) -> Value {
    let names: Vec<&String> = fields.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    json!({"type": "object", "properties": fields, "required": names})
}

fn describe(elicited: FormAnswer) -> String {
    match elicited {
        FormAnswer::Accepted(content) => format!("action=accept, content={content}"),
        FormAnswer::Declined => "action=decline, content={}".to_owned(),
        FormAnswer::Dismissed => "action=cancel, content={}".to_owned(),
    }
}

fn sampling(prompt: &str, max_tokens: u32) -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": max_tokens})
}

/// The text of a model's answer.
fn text_of(answer: &Value) -> String {
    let content = &answer["content"];
    let block = content.get(0).unwrap_or(content);
    block["text"].as_str().unwrap_or_default().to_owned()
}

/// Tools that ask the client's user or its model.
fn asking() -> Vec<Arc<dyn DynTool>> {
    vec![
        shared(function("test_sampling", "Asks the model", async |input: Prompt, cx: Context| {
            let answer = caller(&cx)?.sample("answer", sampling(&input.prompt, 100)).await?;
            Ok::<_, Fault>(format!("LLM response: {}", text_of(&answer)))
        })),
        shared(function("test_elicitation", "Asks the user", async |input: Message, cx: Context| {
            let form = form(json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }));
            let answer = caller(&cx)?.elicit("user", input.message, form).await?;
            Ok::<_, Fault>(format!("User response: {}", describe(answer)))
        })),
        tool(
            "test_elicitation_sep1034_defaults",
            "Asks with answers filled in",
            async |_: Nothing, cx: Context| {
                let form = form(json!({
                    "name": {"type": "string", "description": "User name", "default": "John Doe"},
                    "age": {"type": "integer", "description": "User age", "default": 30},
                    "score": {"type": "number", "description": "User score", "default": 95.5},
                    "status": {
                        "type": "string",
                        "description": "User status",
                        "enum": ["active", "inactive", "pending"],
                        "default": "active",
                    },
                    "verified": {"type": "boolean", "description": "Verification status", "default": true},
                }));
                let answer = caller(&cx)?.elicit("user", "Please check what is known of you", form).await?;
                Ok::<_, Fault>(format!("Elicitation completed: {}", describe(answer)))
            },
        ),
        tool("test_elicitation_sep1330_enums", "Asks to choose", async |_: Nothing, cx: Context| {
            let options = json!(["option1", "option2", "option3"]);
            let titled = |word: &str| {
                let names = ["First", "Second", "Third"].iter().enumerate();
                let option = |(at, name): (usize, &&str)| json!({"const": format!("value{}", at + 1), "title": format!("{name} {word}")});
                names.map(option).collect::<Vec<Value>>()
            };
            let form = json!({"type": "object", "properties": {
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": titled("Option")},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
            }});
            let answer = caller(&cx)?.elicit("choices", "Please choose", form).await?;
            Ok::<_, Fault>(format!("Elicitation completed: {}", describe(answer)))
        }),
        tool("test_missing_capability", "Needs a model", async |_: Nothing, cx: Context| {
            let answer = caller(&cx)?.sample("answer", sampling("Are you there?", 10)).await?;
            Ok::<_, Fault>(text_of(&answer))
        }),
        tool("test_streaming_elicitation", "Asks the user meanwhile", async |_: Nothing, cx: Context| {
            let form = form(json!({"name": {"type": "string"}}));
            let answer = caller(&cx)?.elicit("name", "What is your name?", form).await?;
            Ok::<_, Fault>(describe(answer))
        }),
    ]
}

async fn field(caller: &Caller, key: &str, message: &str, field: (&str, &str)) -> Result<Value, Fault> {
    let (name, kind) = field;
    match caller.elicit(key, message, form(json!({name: {"type": kind}}))).await? {
        FormAnswer::Accepted(content) => Ok(content[name].clone()),
        FormAnswer::Declined | FormAnswer::Dismissed => Err(Fault::failed("the user did not answer")),
    }
}

/// Tools whose questions the server returns as the answer to the call. Their code is the same either way.
fn rounds() -> Vec<Arc<dyn DynTool>> {
    vec![
        tool("test_input_required_result_elicitation", "Asks for a name", async |_: Nothing, cx: Context| {
            let name = field(&caller(&cx)?, "user_name", "What is your name?", ("name", "string")).await?;
            Ok::<_, Fault>(format!("Hello, {}!", name.as_str().unwrap_or_default()))
        }),
        tool("test_input_required_result_sampling", "Asks for a capital", async |_: Nothing, cx: Context| {
            let question = sampling("What is the capital of France?", 100);
            let answer = caller(&cx)?.sample("capital_question", question).await?;
            Ok::<_, Fault>(format!("The model says: {}", text_of(&answer)))
        }),
        tool("test_input_required_result_list_roots", "Asks for folders", async |_: Nothing, cx: Context| {
            let roots = caller(&cx)?.roots("client_roots").await?;
            let uris: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
            Ok::<_, Fault>(format!("Roots: {}", uris.join(", ")))
        }),
        tool(
            "test_input_required_result_request_state",
            "Asks for a yes",
            async |_: Nothing, cx: Context| {
                let caller = caller(&cx)?;
                field(&caller, "confirm", "Please confirm", ("ok", "boolean")).await?;
                Ok::<_, Fault>(if caller.round() > 0 { "state-ok" } else { "no state" })
            },
        ),
        tool(
            "test_input_required_result_multiple_inputs",
            "Asks for three things",
            async |_: Nothing, cx: Context| {
                let caller = caller(&cx)?;
                let (name, greeting, roots) = tokio::join!(
                    field(&caller, "user_name", "What is your name?", ("name", "string")),
                    caller.sample("greeting", sampling("Generate a greeting", 50)),
                    caller.roots("client_roots"),
                );
                let (name, greeting, roots) = (name?, greeting?, roots?);
                Ok::<_, Fault>(format!("{}: {name}, {} roots", text_of(&greeting), roots.len()))
            },
        ),
        tool("test_input_required_result_multi_round", "Asks twice", async |_: Nothing, cx: Context| {
            let caller = caller(&cx)?;
            let name = field(&caller, "step1", "Step 1: What is your name?", ("name", "string")).await?;
            let color =
                field(&caller, "step2", "Step 2: What is your favorite color?", ("color", "string")).await?;
            Ok::<_, Fault>(format!("{name} likes {color}"))
        }),
        tool(
            "test_input_required_result_tampered_state",
            "Asks for a yes",
            async |_: Nothing, cx: Context| {
                let yes = field(&caller(&cx)?, "confirm", "Please confirm", ("ok", "boolean")).await?;
                Ok::<_, Fault>(format!("confirmed: {yes}"))
            },
        ),
        tool(
            "test_input_required_result_capabilities",
            "Asks whom it can",
            async |_: Nothing, cx: Context| {
                let caller = caller(&cx)?;
                if caller.can_elicit() {
                    field(&caller, "user_name", "What is your name?", ("name", "string")).await?;
                }
                if caller.can_sample() {
                    caller.sample("greeting", sampling("Generate a greeting", 50)).await?;
                }
                Ok::<_, Fault>("asked")
            },
        ),
    ]
}

/// A tool with a schema written by hand, with keywords of JSON Schema 2020-12 that no Rust type produces.
struct Schema(Spec);

impl Schema {
    fn new() -> Self {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                },
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        });
        let description =
            "Tool with JSON Schema 2020-12 features for conformance testing (SEP-1613, SEP-2106)";
        Self(Spec::from_schema("json_schema_2020_12_tool", description, schema).read_only())
    }
}

impl DynTool for Schema {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn prepare(&self, input: &Value, _: &Context) -> Result<Box<dyn Prepared>, Fault> {
        Ok(Box::new(Given(input.clone())))
    }
}

struct Given(Value);

impl Prepared for Given {
    fn claims(&self) -> Claims {
        Claims::none()
    }

    fn run(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<Reply, Fault>> {
        Box::pin(std::future::ready(Ok(Reply::text(format!("It was called with {}", self.0)))))
    }
}
