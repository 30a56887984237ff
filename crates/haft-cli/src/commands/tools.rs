//! `haft tools`: the surface, for people and for APIs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use haft::{Engine, Workspace};
use haft_tools::dialects;
use serde_json::Value;

use crate::args::{Common, ToolFormat};
use crate::host::{self, Ground};
use crate::style::{self, BOLD, DIM, NAME};

pub(super) fn run(common: &Common, format: ToolFormat) -> anyhow::Result<ExitCode> {
    let format = if common.json && format == ToolFormat::Text { ToolFormat::Json } else { format };
    let mut out = anstream::stdout().lock();
    if format == ToolFormat::Markdown {
        write!(out, "{}", reference()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ground = Ground::find(common)?;
    let dialect = host::dialect(common.dialect.as_deref(), &ground.loaded.settings)?;
    let mut session = Engine::default().session(Workspace::open(&ground.root)?);
    for name in &ground.loaded.settings.tools {
        session = session.shared_tool(dialects::tool_by_name(name).map_err(|fault| style::wrong(&fault))?);
    }
    let session = session.dialect(dialect.clone()).start();
    if let Some(api) = format.api() {
        let definitions = session.tools().definitions(api, &session.context());
        writeln!(out, "{}", serde_json::to_string_pretty(&definitions)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{BOLD}{}{BOLD:#}  {}", dialect.name(), dialect.summary())?;
    let tools = session.tools().all();
    let width = tools.iter().map(|tool| tool.spec().name.len()).max().unwrap_or_default();
    for tool in tools {
        let spec = tool.spec();
        let kind = if spec.read_only { "reads" } else { "changes" };
        writeln!(out, "\n  {NAME}{:width$}{NAME:#}  {DIM}{} · {kind}{DIM:#}", spec.name, spec.category)?;
        writeln!(out, "  {:width$}  {}", "", spec.summary())?;
        for (name, about) in fields(spec.input_schema()) {
            writeln!(out, "  {:width$}    {name}  {DIM}{about}{DIM:#}", "")?;
        }
    }
    let others: Vec<&str> =
        dialects::all().iter().map(|other| other.name()).filter(|name| *name != dialect.name()).collect();
    writeln!(
        out,
        "\n{DIM}Other dialects: {} (--dialect NAME). Definitions for an API: --format NAME{DIM:#}",
        others.join(", ")
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Each field of a schema: its name with its type, and what it means.
fn fields(schema: &Value) -> Vec<(String, String)> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, field)| {
            let mark = if required.contains(&name.as_str()) { "" } else { "?" };
            let about = field["description"].as_str().unwrap_or_default().replace('\n', " ");
            let default = match &field["default"] {
                Value::Null => String::new(),
                default => format!(" (default {default})"),
            };
            (format!("{name}{mark}: {}", type_of(field)), format!("{about}{default}"))
        })
        .collect()
}

fn type_of(field: &Value) -> String {
    if let Some(options) = field["enum"].as_array() {
        return options.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    }
    match field["type"].as_str() {
        Some("array") => format!("{}[]", type_of(&field["items"])),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

/// The reference of every tool of every dialect.
fn reference() -> anyhow::Result<String> {
    let mut text = String::from(
        "# Tools\n\nEvery tool of every dialect, as `haft tools --format markdown` prints it.\n",
    );
    for dialect in dialects::all() {
        write!(text, "\n## {}\n\n{}\n", dialect.name(), dialect.summary())?;
        for tool in dialect.tools() {
            let spec = tool.spec();
            let kind = if spec.read_only { "reads" } else { "changes" };
            write!(text, "\n### {} · {}\n\n", dialect.name(), spec.name)?;
            writeln!(text, "{}, {kind}, replies of up to {} characters\n", spec.category, spec.max_result)?;
            writeln!(text, "{}\n", spec.description.trim())?;
            writeln!(text, "| field | meaning |\n|---|---|")?;
            for (name, about) in fields(spec.input_schema()) {
                writeln!(text, "| `{}` | {} |", name.replace('|', "\\|"), about.replace('|', "\\|"))?;
            }
        }
    }
    Ok(text)
}
