//! `haft settings`: the settings in force with their sources, the JSON Schema, and the reference of all settings, which is
//! generated from the types and their doc comments.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use haft_core::Mode;
use haft_host::settings::{Presence, Settings};
use haft_sandbox::user;
use serde_json::{Value, json};

use crate::args::Common;
use crate::host;
use crate::style::{DIM, cell};
use crate::table::{self, Rows};

/// Maximum size of a settings file.
const MAX_BYTES: u64 = 1024 * 1024;

const INTRO: &str = "\
# Settings

Every setting, as `haft settings --reference` prints it. `haft settings` shows those that are in force and which file each
comes from; `haft settings --schema` prints a JSON Schema, with which editors complete and check the files. haft reads, in this order:

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

/// A setting that some file, or the command line, sets.
struct SetValue {
    name: String,
    value: toml::Value,
    source: String,
    /// Whether it is not followed, because the project is not trusted.
    is_ignored: bool,
}

/// Shows the settings that are in force. Later files win; lists add up.
pub(super) fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let environment = host::lenient_environment(common)?;
    let loaded = &environment.loaded;
    let mut values: Vec<SetValue> = Vec::new();
    for (path, _) in loaded.files.iter().filter(|(_, presence)| *presence == Presence::Found) {
        let text = user::read_regular(path, MAX_BYTES)?.unwrap_or_default();
        let table: toml::Table = toml::from_str(&String::from_utf8_lossy(&text))?;
        let source = path.strip_prefix(&environment.root).unwrap_or(path).display().to_string();
        let mut found = Vec::new();
        flatten("", &table, &mut found);
        for (name, value) in found {
            let is_ignored = loaded.ignored.iter().any(|ignored| {
                let key = ignored.strip_prefix(&source).and_then(|rest| rest.strip_prefix(": "));
                key.is_some_and(|key| {
                    name == key || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
                })
            });
            set(&mut values, SetValue { name, value, source: source.clone(), is_ignored });
        }
    }
    let mode = common.mode.map(|mode| Mode::from(mode).name().to_owned());
    for (name, typed) in [("dialect", common.dialect.clone()), ("mode", mode)] {
        let default = if name == "dialect" { "claude" } else { "default" };
        match typed {
            Some(typed) => set(&mut values, SetValue::new(name, typed, "the command line")),
            None if values.iter().any(|value| value.name == name && !value.is_ignored) => {}
            None => values.push(SetValue::new(name, default.to_owned(), "the default")),
        }
    }
    values.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<Value> = values
            .iter()
            .map(|value| {
                json!({
                    "setting": value.name,
                    "value": value.value,
                    "source": value.source,
                    "is_followed": !value.is_ignored,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Rows::new(&["setting", "value", "source"]);
    for value in &values {
        let ignored = if value.is_ignored { " (ignored: not trusted)" } else { "" };
        rows.add([value.name.clone(), value.shown(), format!("{}{ignored}", value.source)]);
    }
    write!(out, "{rows}")?;
    let others = "everything else has its default: `haft settings --reference` lists all settings";
    writeln!(out, "{DIM}{}{DIM:#}", table::hanging(others, 0))?;
    Ok(ExitCode::SUCCESS)
}

impl SetValue {
    fn new(name: &str, value: String, source: &str) -> Self {
        let (name, source) = (name.to_owned(), source.to_owned());
        Self { name, value: toml::Value::String(value), source, is_ignored: false }
    }

    fn shown(&self) -> String {
        match &self.value {
            toml::Value::String(text) => text.clone(),
            value => json!(value).to_string(),
        }
    }
}

/// Adds a value: a single one replaces that of an earlier file, unless it is ignored.
fn set(values: &mut Vec<SetValue>, value: SetValue) {
    if !value.is_ignored && !value.value.is_array() {
        values.retain(|earlier| earlier.name != value.name || earlier.is_ignored);
    }
    values.push(value);
}

/// The values of a table, with their names in full.
fn flatten(prefix: &str, table: &toml::Table, found: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(table) => flatten(&format!("{name}."), table, found),
            value => found.push((name, value.clone())),
        }
    }
}

/// Prints the JSON Schema of a settings file.
pub(super) fn print_schema() -> anyhow::Result<ExitCode> {
    let mut schema = schemars::schema_for!(Settings).to_value();
    schema["title"] = json!("Settings of haft");
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what every setting means.
pub(super) fn print_reference() -> anyhow::Result<ExitCode> {
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
