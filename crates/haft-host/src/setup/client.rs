//! What there is to know of a client: its files, the form of its entries, and what can be switched off. It holds data only.

use serde_json::{Map, Value, json};

use super::document::Form;
use super::places::Place;

/// A client of the Model Context Protocol.
#[derive(Debug)]
pub struct Client {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its programs in `PATH`.
    pub programs: &'static [&'static str],
    /// Folders and files that exist where it is installed.
    pub traces: &'static [Place],
    /// The form of its files.
    pub form: Form,
    /// The files for every project of the user.
    pub user: Files,
    /// The files of one project, if it has such.
    pub project: Option<Files>,
    /// The keys that lead to its servers.
    pub servers: &'static [&'static str],
    /// The form of an entry.
    pub layout: Layout,
    /// Which folder a server works in.
    pub folder: Folder,
    /// How its own question before each call of a tool is switched off, so that only haft asks.
    pub question: Switch,
    /// How its own tools for files and commands are switched off.
    pub tools: Switch,
    /// What the client itself wants to be asked or told before it starts the server.
    pub trust: Option<&'static str>,
}

/// Whether an entry is for every project of the user or for one project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For every project of the user.
    User,
    /// For one project.
    Project,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::User => "user",
            Level::Project => "project",
        }
    }
}

/// The files of one level. Of several candidates the first that exists is used; if none does, the first.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// The file with the servers.
    pub servers: &'static [Place],
    /// The file with what [`Switch`]es write outside of the entry. Empty if the client takes that from no file of this level.
    pub settings: &'static [Place],
}

/// The form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `command` and `args`.
    Plain,
    /// `type`, which is `stdio`, then `command` and `args`.
    Typed,
    /// `type`, which is `local`, `command` as a list with the arguments, and `enabled`.
    Local,
    /// `name`, `type`, `cmd`, `args`, `enabled` and `timeout`.
    Extension,
}

impl Layout {
    /// The entry for a command.
    pub(super) fn entry(self, command: &str, args: &[String]) -> Map<String, Value> {
        let entry = match self {
            Layout::Plain => json!({"command": command, "args": args}),
            Layout::Typed => json!({"type": "stdio", "command": command, "args": args}),
            Layout::Local => {
                let words: Vec<&str> =
                    std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
                json!({"type": "local", "command": words, "enabled": true})
            }
            Layout::Extension => json!({
                "name": super::ENTRY, "type": "stdio", "cmd": command, "args": args, "enabled": true, "timeout": 600,
            }),
        };
        match entry {
            Value::Object(entry) => entry,
            _ => Map::new(),
        }
    }

    /// The command and arguments of an entry; `None` if it has none, such as that of a server at a URL.
    pub(super) fn command(self, entry: &Value) -> Option<Vec<String>> {
        let texts = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let words = match self {
            Layout::Local => texts(&entry["command"]),
            Layout::Plain | Layout::Typed => with_first(&entry["command"], texts(&entry["args"])),
            Layout::Extension => with_first(&entry["cmd"], texts(&entry["args"])),
        };
        (!words.is_empty()).then_some(words)
    }
}

fn with_first(first: &Value, rest: Vec<String>) -> Vec<String> {
    first.as_str().map(str::to_owned).into_iter().chain(rest).collect()
}

/// Which folder a client's servers work in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// The client starts them in the project's folder.
    Project,
    /// The client puts the project's folder in the place of this variable.
    Variable(&'static str),
    /// Neither: the folder has to be named.
    Named,
}

/// Something that may be switched off in a client.
#[derive(Clone, Copy, Debug)]
pub enum Switch {
    /// By writing this.
    Write(&'static [Extra]),
    /// In part by writing this, and what is left.
    Partly(&'static [Extra], &'static str),
    /// Not by setup; the text says why, or what the user can do.
    Not(&'static str),
}

impl Switch {
    pub(super) fn extras(self) -> &'static [Extra] {
        match self {
            Switch::Write(extras) | Switch::Partly(extras, _) => extras,
            Switch::Not(_) => &[],
        }
    }

    /// What it cannot do.
    pub fn lacks(self) -> Option<&'static str> {
        match self {
            Switch::Write(_) => None,
            Switch::Partly(_, why) | Switch::Not(why) => Some(why),
        }
    }
}

/// Something to write besides the entry's command.
#[derive(Clone, Copy, Debug)]
pub enum Extra {
    /// A text in the entry itself.
    EntryText(&'static str, &'static str),
    /// `true` in the entry itself.
    EntryTrue(&'static str),
    /// Texts in a list.
    Items(&'static [&'static str], &'static [&'static str]),
    /// A text in a list for each of haft's tools: the list, and what is before the tool's name.
    ItemPerTool(&'static [&'static str], &'static str),
    /// One text under each of several patterns: the table, the patterns, the text. One text in place of the table is
    /// shorthand for a table with that text under `*`.
    Patterns(&'static [&'static str], &'static [&'static str], &'static str),
    /// `false` under a key.
    False(&'static [&'static str]),
    /// A text for each of haft's tools: the table, what is before the tool's name, the key below that, the text.
    TextPerTool(&'static [&'static str], &'static str, &'static str, &'static str),
}
