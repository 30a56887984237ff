//! `docs/setup.md`, generated from the list of clients.

use std::fmt::Write as _;

use haft_host::setup::{CLIENTS, Client, Extra, Files, Folder, Form, Layout, Place, Switch};

use crate::style::cell;

const INTRO: &str = "\
# Setup

Every client that `haft setup` knows, as `haft setup --markdown` prints it.

`haft setup CLIENT` shows what it would write into the client's own settings, as a diff, and asks. `--dry-run` only shows,
`--yes` does not ask, and without a terminal one of them is needed. `--all` stands for every client that is installed.
`haft setup` alone lists the clients: which are installed, which are set up, and whether the entry works.

- `--project` writes into the settings of the project instead of your own.
- `--no-builtin-tools` also switches the client's own tools for files and commands off, so that its model uses haft's;
  `--builtin-tools` switches them on again. A later setup without either keeps that, and the options that you gave before.
- `--dialect`, `--mode`, `--workspace` and `--add-dir` become arguments of the entry. With `--project`, `--workspace` only
  names the project.
- `--remove` takes back what setup wrote. As long as nobody else has changed the file, it has the bytes of before again. The
  entry named `haft` is removed even if it was changed, or written by hand.

Comments, order, layout and unknown keys of a file stay. A file that cannot be parsed is not touched. A file is replaced
atomically, and only if no other program changed it in between; a symbolic link stays one. The entry names the program
`haft` if that is found in `PATH`, and its full path otherwise.

A client asks before each call of a tool, and so does haft where its rules say so. Setup switches the client's question off
for haft's tools where it can, so that only haft asks.

";

pub(super) fn reference() -> anyhow::Result<String> {
    let mut text = INTRO.to_owned();
    text.push_str(&table());
    for client in CLIENTS {
        section(&mut text, client)?;
    }
    Ok(text)
}

/// The table of clients, which the README has as well.
fn table() -> String {
    let mut text =
        "| client | command | your settings | the project's settings |\n|---|---|---|---|\n".to_owned();
    for client in CLIENTS {
        let project = client.project.map_or("none".to_owned(), |files| places(files.servers));
        let folder = if client.folder == Folder::Named { " --workspace DIR" } else { "" };
        text.push_str(&format!(
            "| {} | `haft setup {}{folder}` | {} | {project} |\n",
            client.title,
            client.name,
            places(client.user.servers)
        ));
    }
    text
}

fn section(text: &mut String, client: &Client) -> anyhow::Result<()> {
    writeln!(text, "\n## {}\n", client.title)?;
    let folder = match client.folder {
        Folder::Project => "It starts servers in the project's folder.".to_owned(),
        Folder::Variable(variable) => format!("It replaces `{variable}` with the project's folder."),
        Folder::Named => {
            "It does not tell servers which folder to work in: name it with `--workspace`.".to_owned()
        }
    };
    let trust = client.trust.map(|trust| format!(" It {}.", trust.strip_prefix("it ").unwrap_or(trust)));
    writeln!(text, "{folder}{}\n", trust.unwrap_or_default())?;
    writeln!(text, "| | |\n|---|---|")?;
    let row = |text: &mut String, name: &str, what: &str| writeln!(text, "| {name} | {} |", cell(what));
    row(text, "entry", &entry(client))?;
    row(text, "its question before each call", &switch(client.question, client))?;
    row(text, "its own tools", &switch(client.tools, client))?;
    Ok(())
}

/// The entry of a client, without what a switch adds.
fn entry(client: &Client) -> String {
    let (command, folder) = match client.folder {
        Folder::Project => (r#""haft""#, String::new()),
        Folder::Variable(variable) => (r#""haft""#, format!(r#", "--workspace", "{variable}""#)),
        Folder::Named => (r#""haft""#, r#", "--workspace", "DIR""#.to_owned()),
    };
    let keys = client.servers.join(".");
    let args = format!(r#"["mcp"{folder}]"#);
    let fields = match client.layout {
        Layout::Plain => format!("`command = {command}`, `args = {args}`"),
        Layout::Typed => format!("`type = \"stdio\"`, `command = {command}`, `args = {args}`"),
        Layout::Local => {
            format!("`type = \"local\"`, `command = [{command}, \"mcp\"{folder}]`, `enabled = true`")
        }
        Layout::Extension => {
            format!("`name`, `type = \"stdio\"`, `cmd = {command}`, `args = {args}`, `enabled = true`")
        }
    };
    let form = match client.form {
        Form::Json => "JSON",
        Form::Toml => "TOML",
        Form::Yaml => "YAML",
    };
    format!("`{keys}.haft` ({form}): {fields}")
}

fn switch(switch: Switch, client: &Client) -> String {
    match switch {
        Switch::Write(extras) => written(extras, client),
        Switch::Partly(extras, why) => format!("{}; {why}", written(extras, client)),
        Switch::Not(why) => format!("not switched off: {why}"),
    }
}

fn written(extras: &[Extra], client: &Client) -> String {
    let quoted = |texts: &[&str]| texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ");
    let parts: Vec<String> = extras
        .iter()
        .map(|extra| match extra {
            Extra::EntryText(key, text) => format!("`{key} = \"{text}\"` in the entry"),
            Extra::EntryTrue(key) => format!("`{key} = true` in the entry"),
            Extra::Items(list, texts) => format!("{} in `{}`", quoted(texts), list.join(".")),
            Extra::ItemPerTool(list, before) => {
                format!("`{before}TOOL` in `{}` for each of haft's tools", list.join("."))
            }
            Extra::Patterns(table, keys, text) => {
                format!("{} = `\"{text}\"` in `{}`", quoted(keys), table.join("."))
            }
            Extra::False(path) => format!("`{} = false`", path.join(".")),
            Extra::TextPerTool(table, before, key, text) => {
                format!("`{before}TOOL.{key} = \"{text}\"` in `{}` for each of haft's tools", table.join("."))
            }
        })
        .collect();
    format!("{}{}", parts.join("; "), elsewhere(client))
}

/// Where switches are written, if that is not the file of the entry.
fn elsewhere(client: &Client) -> String {
    let other = |files: Files| {
        (!files.settings.is_empty() && files.settings != files.servers).then(|| places(files.settings))
    };
    let mut levels: Vec<String> = other(client.user).into_iter().collect();
    match client.project {
        Some(files) if files.settings.is_empty() && !client.user.settings.is_empty() => {
            levels.push("your settings only".to_owned());
        }
        Some(files) => levels.extend(other(files)),
        None => {}
    }
    if levels.is_empty() { String::new() } else { format!(" ({})", levels.join("; ")) }
}

fn places(places: &[Place]) -> String {
    places.iter().map(|place| format!("`{}`", place.shown())).collect::<Vec<_>>().join(" or ")
}
