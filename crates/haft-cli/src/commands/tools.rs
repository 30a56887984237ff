//! `haft tools`: the tools of a dialect, for people, as API definitions, and as the Markdown reference.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use haft_core::{Registry, Spec};
use haft_dialects as dialects;
use haft_mcp::client::{ServerState, ServerStatus};
use serde_json::Value;

use crate::args::{Common, ToolFormat};
use crate::host;
use crate::style::{self, BOLD, DIM, NAME, cell};
use crate::table;

/// Descriptions of fields begin at this column at most.
const MAX_INDENT: usize = 60;

pub(super) fn run(common: &Common, format: ToolFormat) -> anyhow::Result<ExitCode> {
    let format = if common.json && format == ToolFormat::Text { ToolFormat::Json } else { format };
    let mut out = anstream::stdout().lock();
    if format == ToolFormat::Markdown {
        write!(out, "{}", reference()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let environment = host::lenient_environment(common)?;
    let dialect = haft_host::dialect(common.dialect.as_deref(), &environment.loaded.settings)?;
    let tools = Registry::default();
    for tool in dialect.tools() {
        tools.replace(tool);
    }
    for name in &environment.loaded.settings.tools {
        tools.replace(dialects::tool_by_name(name).map_err(|fault| style::fault_error(&fault))?);
    }
    let servers = haft_host::servers(&environment)?;
    if !servers.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for status in runtime.block_on(servers.start_all()) {
            print_problems(&status);
        }
        servers.tools().into_iter().for_each(|tool| drop(tools.replace(tool)));
        runtime.block_on(servers.close());
    }
    let tools = tools.all();
    if let Some(api) = format.api() {
        let definitions: Vec<Value> =
            tools.iter().map(|tool| api.define(tool.spec(), &tool.spec().description)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&definitions)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{BOLD}{}{BOLD:#}  {}", dialect.name(), dialect.summary())?;
    let width = tools.iter().map(|tool| tool.spec().name.len()).max().unwrap_or_default();
    for tool in tools {
        let spec = tool.spec();
        let kind = if spec.read_only { "reads" } else { "changes" };
        writeln!(out, "\n  {NAME}{:width$}{NAME:#}  {DIM}{} · {kind}{DIM:#}", spec.name, spec.category)?;
        writeln!(out, "  {:width$}  {}", "", table::hanging(spec.summary(), width + 4))?;
        for Field { name, kind, default, about } in fields(spec.input_schema()) {
            let (mark, default) = match default {
                Some(Value::Null) => ("", String::new()),
                Some(default) => ("?", format!(" (default {default})")),
                None => ("?", String::new()),
            };
            let head = format!("{name}{mark}: {kind}");
            let about = format!("{about}{default}");
            let (below, beside) = (width + 10, width + 8 + head.chars().count());
            // Beside a long name and type the description would be a narrow column.
            let about = match table::width().is_some() && beside > MAX_INDENT {
                true => format!("\n{:below$}{DIM}{}{DIM:#}", "", table::hanging(&about, below)),
                false => format!("  {DIM}{}{DIM:#}", table::hanging(&about, beside)),
            };
            writeln!(out, "  {:width$}    {}{about}", "", table::hanging(&head, below))?;
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

/// Prints why a server, or some of its tools, are missing from the list.
fn print_problems(status: &ServerStatus) {
    if let ServerState::Down(fault) = &status.state {
        style::notice(fault.message());
    }
    let server = &status.server;
    status
        .problems
        .iter()
        .for_each(|problem| style::notice(&format!("the MCP server `{server}`: {problem}")));
}

/// A field of an input schema.
struct Field {
    name: String,
    kind: String,
    /// The default; null if the field is required.
    default: Option<Value>,
    about: String,
}

fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, field)| Field {
            name: name.clone(),
            kind: type_of(field),
            default: match required.contains(&name.as_str()) {
                true => Some(Value::Null),
                false => field.get("default").cloned(),
            },
            about: field["description"].as_str().unwrap_or_default().replace('\n', " "),
        })
        .collect()
}

fn type_of(field: &Value) -> String {
    if let Some(options) = field["enum"].as_array() {
        return options.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    }
    match field["type"].as_str() {
        Some("array") => format!("{}[]", type_of(&field["items"])),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

/// The Markdown reference of all tools of all dialects.
fn reference() -> anyhow::Result<String> {
    let mut text = String::from(REFERENCE);
    for dialect in dialects::all() {
        let names: Vec<String> =
            dialect.tools().iter().map(|tool| link(dialect.name(), &tool.spec().name)).collect();
        writeln!(text, "| `{}` | {} | {} |", dialect.name(), names.join(", "), cell(dialect.summary()))?;
    }
    for dialect in dialects::all() {
        for tool in dialect.tools() {
            section(&mut text, dialect.name(), tool.spec())?;
        }
    }
    Ok(text)
}

const REFERENCE: &str = "\
# Tools

Every tool of every dialect, as `haft tools --format markdown` prints it. A session speaks one dialect
(`--dialect NAME`); a tool of another can be added to it with the setting `tools`.

| dialect | tools | what it is like |
|---|---|---|
";

/// A link to a tool's section, by the anchor that Markdown renderers give its heading.
fn link(dialect: &str, tool: &str) -> String {
    format!("[{tool}](#{dialect}--{})", tool.to_lowercase())
}

fn section(text: &mut String, dialect: &str, spec: &Spec) -> anyhow::Result<()> {
    let kind = if spec.read_only { "only reads" } else { "may change things" };
    write!(text, "\n## {dialect} · {}\n\n{}\n\n", spec.name, spec.description.trim())?;
    writeln!(text, "| field | type | default | meaning |\n|---|---|---|---|")?;
    for Field { name, kind, default, about } in fields(spec.input_schema()) {
        let default = match default {
            Some(Value::Null) => "required".to_owned(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        writeln!(text, "| `{name}` | {} | {default} | {} |", cell(&kind), cell(&about))?;
    }
    writeln!(text, "\n```sh\nhaft --dialect {dialect} call {} '{}'\n```", spec.name, spec.example())?;
    let max = spec.max_result;
    writeln!(text, "\nCategory {}; {kind}; replies of up to {max} characters.", spec.category)?;
    Ok(())
}
