//! `haft settings`: the reference of all settings, generated from the types and their doc comments.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::style::cell;
use haft_host::settings::Settings;

const INTRO: &str = "\
# Settings

Every setting, as `haft settings` prints it. haft reads, in this order:

1. `$XDG_CONFIG_HOME/haft/config.toml` (`~/.config/haft/config.toml`): the user's own
2. `.haft/config.toml` in the workspace: the project's
3. `.haft/config.local.toml` in the workspace: the project's, on this machine

Later files win; lists add up. A file that is wrong stops haft. The settings of a project whose folder is not
named in the user's `trusted` can make haft stricter, but loosen nothing and run nothing.

";

const TABLE: &str = "| setting | type | meaning |\n|---|---|---|\n";

const EXAMPLE: &str = r#"
## An example

```toml
dialect = "ally"
trusted = ["~/code/mine"]

[limits]
max_result = { read_file = 50000 }

[[hooks.pre_tool_use]]
matcher = "Edit|Write"
command = "./scripts/may-edit"
timeout = 10
```
"#;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(reference()?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn reference() -> anyhow::Result<String> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    let schema = settings.into_generator().into_root_schema_for::<Settings>().to_value();
    let mut text = format!("{INTRO}{TABLE}");
    let mut entries = Vec::new();
    rows(&mut text, "", &schema, &mut entries)?;
    for Entries { of, schema } in entries {
        let names: Vec<String> = of.iter().map(|name| format!("`{name}`")).collect();
        write!(text, "\nEach entry of {} has:\n\n{TABLE}", names.join(", "))?;
        rows(&mut text, "", &schema, &mut Vec::new())?;
    }
    text.push_str(EXAMPLE);
    Ok(text)
}

/// Settings that are lists or maps of tables with the same schema.
struct Entries {
    of: Vec<String>,
    schema: Value,
}

fn rows(text: &mut String, prefix: &str, schema: &Value, entries: &mut Vec<Entries>) -> anyhow::Result<()> {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{prefix}{name}");
        let about = field["description"].as_str().unwrap_or_default();
        if field["properties"].is_object() {
            rows(text, &format!("{name}."), field, entries)?;
            continue;
        }
        writeln!(text, "| `{name}` | {} | {} |", type_of(field), cell(about))?;
        let items = if field["items"].is_object() { &field["items"] } else { &field["additionalProperties"] };
        if items["properties"].is_object() {
            match entries.iter_mut().find(|entries| entries.schema == *items) {
                Some(same) => same.of.push(name),
                None => entries.push(Entries { of: vec![name], schema: items.clone() }),
            }
        }
    }
    Ok(())
}

fn type_of(field: &Value) -> String {
    let options = |field: &Value| -> Option<String> {
        let branches = field["oneOf"].as_array()?;
        let words: Vec<String> = branches
            .iter()
            .filter_map(|branch| branch["const"].as_str())
            .map(|word| format!("`{word}`"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let branches = field["anyOf"].as_array().into_iter().flatten();
    if let Some(words) = options(field).or_else(|| branches.filter_map(options).next()) {
        return words;
    }
    let kinds: Vec<&str> = match &field["type"] {
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect()
        }
        kind => kind.as_str().into_iter().collect(),
    };
    match kinds.as_slice() {
        ["array"] if field["items"]["properties"].is_object() => "list of tables".to_owned(),
        ["array"] => format!("list of {}", plural(&field["items"])),
        ["object"] if field["properties"].is_object() => "table".to_owned(),
        ["object"] => format!("table of {}", plural(&field["additionalProperties"])),
        ["integer"] => "number".to_owned(),
        kinds => kinds.join(" or "),
    }
}

/// The plural of a type, or of each alternative.
fn plural(field: &Value) -> String {
    let types: Vec<String> = match field["anyOf"].as_array() {
        Some(branches) => branches.iter().map(type_of).collect(),
        None => vec![type_of(field)],
    };
    types.iter().map(|name| format!("{name}s")).collect::<Vec<_>>().join(" or ")
}
