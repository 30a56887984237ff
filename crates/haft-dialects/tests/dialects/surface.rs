//! What models are told, dialect by dialect: a snapshot of each whole surface, and rules that every tool keeps.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use haft_core::sessions::{SavedSeen, SavedSession, ShownLines};
use haft_core::{
    Call, Category, Dialect, Durability, DynTool, Engine, Format, Hash, Mode, Session, Spec, Store, Workspace,
};
use haft_dialects as dialects;
use haft_journal::{Change, Journal, Label, Limits};
use haft_sandbox::Expect;
use serde_json::{Value, json};

/// A session that speaks a dialect, in a folder where the files of the examples exist.
fn session(dialect: Arc<dyn Dialect>) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let notebook = r#"{"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": []}],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;
    let files = [
        ("ws/src/main.rs", "fn old() {}\n".to_owned()),
        ("ws/src/main.py", format!("def hello():\n{}", "    pass\n".repeat(20))),
        ("ws/src/index.ts", "hello\n".to_owned()),
        ("ws/main.go", "package main\n".to_owned()),
        ("ws/old/notes.txt", "old\n".to_owned()),
        ("ws/a.txt", "a\n".to_owned()),
        ("ws/analysis.ipynb", notebook.to_owned()),
        ("ws/package.json", r#"{"scripts": {"test": "node --test"}}"#.to_owned()),
        ("ws/node_modules/.bin/npm", String::new()),
        ("ws/node_modules/.bin/eslint", String::new()),
        ("ws/node_modules/.bin/prettier", String::new()),
    ];
    let mut saved = SavedSession::default();
    for (file, text) in files {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&path, &text).unwrap();
        let hash = Some(Hash::of(text.as_bytes()).to_string());
        saved.seen.push(SavedSeen {
            path: path.display().to_string(),
            stamp: [0; 5],
            hash,
            lines: ShownLines::all(),
        });
    }
    let workspace = Workspace::open(&folder.path().join("ws")).unwrap();
    let journal =
        Journal::open(Store::at(folder.path().join("journal")), &workspace, Limits::default()).unwrap();
    // The example of undo needs a change to undo.
    let path = workspace.resolve(workspace.root(), "undone.txt").unwrap().path;
    let change =
        Change::Write { path, content: b"x".to_vec().into(), expect: Expect::Missing, replaced: None };
    journal
        .change(&workspace, change, Label { tool: "write", session: "s", durability: Durability::Fast })
        .unwrap();
    let engine = Engine::default();
    let session = engine.session(workspace).dialect(dialect).resume(saved).id("s").mode(Mode::Bypass);
    let session = session.extension(crate::web::playing());
    (folder, session.journal(Arc::new(journal), Durability::Fast).start())
}

fn every_tool(mut check: impl FnMut(&str, &Spec)) {
    for dialect in dialects::all() {
        for tool in dialect.tools() {
            check(&format!("{}/{}", dialect.name(), tool.spec().name), tool.spec());
        }
    }
}

/// Visits a schema and every schema inside it, with its path.
fn each_schema<'a>(at: &str, schema: &'a Value, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(at, schema);
    let Some(fields) = schema.as_object() else { return };
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(children)) => {
                for (name, child) in children {
                    each_schema(&format!("{at}.{name}"), child, visit);
                }
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(children)) => {
                for child in children {
                    each_schema(&format!("{at}.{key}"), child, visit);
                }
            }
            ("items" | "additionalProperties", Value::Object(_)) => {
                each_schema(&format!("{at}[]"), value, visit);
            }
            _ => {}
        }
    }
}

#[test]
fn the_whole_surface() {
    for dialect in dialects::all() {
        let mut text = format!("{}: {}\n", dialect.name(), dialect.summary());
        for tool in dialect.tools() {
            let spec = tool.spec();
            let access = if spec.read_only { "reads only" } else { "may change things" };
            let _ = write!(text, "\n──── {} · {} · {access}", spec.name, spec.category);
            let _ = writeln!(text, " · at most {} characters, keeps {:?}", spec.max_result, spec.cut);
            let _ = writeln!(text, "\n{}", spec.description.trim_end());
            let _ = writeln!(text, "\ninput {:#}", spec.input_schema());
            if let Some(output) = spec.output_schema() {
                let _ = writeln!(text, "\noutput {output:#}");
            }
            let _ = writeln!(text, "\nexample {}", spec.example());
        }
        insta::assert_snapshot!(dialect.name(), text);
    }
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for dialect in dialects::all() {
        assert!(names.insert(dialect.name().to_owned()), "two dialects `{}`", dialect.name());
    }
    every_tool(|name, _| assert!(names.insert(name.to_owned()), "two tools `{name}`"));
}

#[test]
fn names_are_valid_for_every_api() {
    every_tool(|name, spec| {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(spec.name.chars().all(fine) && (1..=64).contains(&spec.name.len()), "{name}");
    });
}

#[test]
fn every_input_is_an_object_and_names_all_it_takes() {
    every_tool(|name, spec| {
        assert_eq!(spec.input_schema()["type"], "object", "{name}");
        each_schema(name, spec.input_schema(), &mut |at, schema| {
            if schema["type"] == "object" && schema["properties"].is_object() {
                // Some inputs take further fields, which models know from elsewhere, and ignore them.
                let is_open = ["claude/ExitPlanMode", "claude/TodoWrite.todos[]"].contains(&at);
                assert_eq!(schema["additionalProperties"], is_open, "{at}");
            }
        });
    });
}

#[test]
fn every_field_is_described() {
    every_tool(|name, spec| {
        for schema in [Some(spec.input_schema()), spec.output_schema()].into_iter().flatten() {
            each_schema(name, schema, &mut |at, schema| {
                for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                    let about = property["description"].as_str().unwrap_or_default();
                    assert!(!about.trim().is_empty(), "{at}.{field} says nothing");
                    assert!(!about.ends_with('.'), "{at}.{field}: a field's description has no full stop");
                }
            });
        }
    });
}

#[test]
fn every_description_is_whole_sentences() {
    every_tool(|name, spec| {
        let text = spec.description.trim_end();
        assert!(text.len() > 20, "{name} says too little");
        assert!(text.starts_with(|c: char| c.is_uppercase()), "{name} does not begin like a sentence");
        assert!(text.ends_with('.'), "{name} does not end like a sentence");
        assert!(spec.summary().ends_with('.'), "{name}: the summary `{}` is cut off", spec.summary());
    });
}

#[test]
fn schemas_do_not_mention_rust_types() {
    every_tool(|name, spec| {
        for schema in [Some(spec.input_schema()), spec.output_schema()].into_iter().flatten() {
            each_schema(name, schema, &mut |at, schema| {
                for key in ["title", "format", "$schema", "$ref"] {
                    assert_eq!(schema.get(key), None, "{at}");
                }
            });
        }
    });
}

#[test]
fn optional_fields_are_never_null() {
    every_tool(|name, spec| {
        each_schema(name, spec.input_schema(), &mut |at, schema| {
            let kinds = schema["type"].as_array().into_iter().flatten();
            assert!(!kinds.clone().any(|kind| kind == "null"), "{at}");
            assert_ne!(schema["type"], "null", "{at}");
        });
    });
}

#[test]
fn every_example_fits_and_can_be_prepared() {
    for dialect in dialects::all() {
        let (_folder, session) = session(dialect.clone());
        for tool in session.tools().all() {
            let spec = tool.spec();
            let name = format!("{}/{}", dialect.name(), spec.name);
            let example = spec.example();
            let validator = jsonschema::validator_for(spec.input_schema()).unwrap();
            assert!(validator.is_valid(&example), "{name}: {example}");
            assert!(!example.to_string().contains('…'), "{name}: a field without an example: {example}");
            let prepared = tool.prepare(&example, &session.context());
            let prepared = prepared.unwrap_or_else(|fault| panic!("{name}: {fault}"));
            assert!(prepared.claims().iter().count() > 0, "{name} claims nothing");
            assert!(
                !spec.read_only || prepared.claims().is_read_only(),
                "{name} only reads, yet claims more"
            );
            assert!(tool.preview_use(&example).is_some(), "{name} does not say what it is about to do");
        }
    }
}

/// Clients validate the structured part of a reply against the declared schema.
#[tokio::test]
async fn every_reply_fits_the_output_schema() {
    for dialect in dialects::all() {
        let (_folder, session) = session(dialect.clone());
        let usable =
            session.tools().all().into_iter().filter(|tool| tool.unavailable(&session.context()).is_none());
        for tool in usable {
            let spec = tool.spec();
            // Commands need a program that can start as the supervisor, which this test is not.
            if matches!(spec.category, Category::Shell | Category::Code | Category::Git | Category::Project) {
                continue;
            }
            let Some(schema) = spec.output_schema() else { continue };
            assert_eq!(schema["type"], "object", "{}", spec.name);
            let validator = jsonschema::validator_for(schema).unwrap();
            let reply = session.call(Call::new("call_1", spec.name.clone(), spec.example())).await;
            assert!(!reply.is_error, "{reply:?}");
            let value = reply.structured.unwrap();
            let problems: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(problems.is_empty(), "{}/{}: {problems:?} in {value}", dialect.name(), spec.name);
        }
    }
}

/// Some clients validate failures, too.
#[tokio::test]
async fn every_failure_fits_the_failure_schema() {
    for dialect in dialects::all() {
        let (_folder, session) = session(dialect.clone());
        let declares = session.tools().all().iter().any(|tool| tool.spec().output_schema().is_some());
        assert_eq!(dialect.failure_schema().is_some(), declares, "{}", dialect.name());
        let Some(schema) = dialect.failure_schema() else { continue };
        assert_eq!(schema["type"], "object", "{}", dialect.name());
        let validator = jsonschema::validator_for(&schema).unwrap();
        for tool in session.tools().all() {
            let name = tool.spec().name.clone();
            let reply = session.call(Call::new("call_1", name.clone(), json!({"no_such_field": 1}))).await;
            assert!(reply.is_error, "{name}: {reply:?}");
            let value = reply.structured.unwrap();
            assert!(validator.is_valid(&value), "{}/{name}: {value}", dialect.name());
        }
    }
}

#[test]
fn every_default_in_a_schema_fits_its_own_field() {
    every_tool(|name, spec| {
        each_schema(name, spec.input_schema(), &mut |at, schema| {
            if let Some(default) = schema.get("default") {
                assert!(jsonschema::validator_for(schema).unwrap().is_valid(default), "{at}");
            }
        });
    });
}

#[test]
fn definitions_have_the_fields_that_each_api_wants() {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    for dialect in dialects::all() {
        let (_folder, session) = session(dialect.clone());
        let cx = session.context();
        // Nobody can be asked in this session.
        let works = |tool: &&Arc<dyn DynTool>| !tool.spec().asks_user && tool.unavailable(&cx).is_none();
        let count = dialect.tools().iter().filter(works).count();
        let definitions = |format| {
            let all = session.tools().definitions(format, &session.context());
            assert_eq!(all.len(), count, "{}", dialect.name());
            all
        };
        for tool in definitions(Format::OpenAi) {
            assert_eq!(keys(&tool), ["type", "function"]);
            assert_eq!(tool["type"], "function");
            assert_eq!(keys(&tool["function"]), ["name", "description", "parameters"]);
            assert_eq!(tool["function"]["parameters"]["type"], "object");
        }
        for tool in definitions(Format::OpenAiResponses) {
            assert_eq!(keys(&tool), ["type", "name", "description", "parameters", "strict"]);
        }
        for tool in definitions(Format::Anthropic) {
            assert_eq!(keys(&tool), ["name", "description", "input_schema"]);
        }
        // Only tools that can be used have a definition.
        let usable =
            dialect.tools().into_iter().filter(|tool| tool.unavailable(&session.context()).is_none());
        for (tool, spec) in definitions(Format::Mcp).iter().zip(usable) {
            assert_eq!(keys(tool)[..5], ["name", "title", "description", "inputSchema", "annotations"]);
            assert_eq!(tool["annotations"]["readOnlyHint"], spec.spec().read_only);
            assert_eq!(tool.get("outputSchema").is_some(), spec.spec().output_schema().is_some());
        }
        for tool in definitions(Format::Haft) {
            assert!(tool["category"].is_string() && tool["max_result"].is_u64(), "{tool}");
        }
    }
}
