//! The one list of clients. Everything else about them is generated or checked from it: `haft setup`, `docs/setup.md` and the
//! table in the README. It holds data only.

use serde_json::{Map, Value, json};

use super::document::Form;
use super::places::Place::{self, Config, Home, Project, Variable};

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
    /// One text under each of several keys: the table, the keys, the text.
    Texts(&'static [&'static str], &'static [&'static str], &'static str),
    /// `false` under a key.
    False(&'static [&'static str]),
    /// A text for each of haft's tools: the table, what is before the tool's name, the key below that, the text.
    TextPerTool(&'static [&'static str], &'static str, &'static str, &'static str),
}

/// The client of a name.
pub fn by_name(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

const fn files(servers: &'static [Place], settings: &'static [Place]) -> Files {
    Files { servers, settings }
}

/// Every client that setup knows.
pub static CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        title: "Claude Code",
        programs: &["claude"],
        traces: &[Variable("CLAUDE_CONFIG_DIR", "", ".claude")],
        form: Form::Json,
        user: files(
            &[Variable("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json")],
            &[Variable("CLAUDE_CONFIG_DIR", "settings.json", ".claude/settings.json")],
        ),
        project: Some(files(&[Project(".mcp.json")], &[Project(".claude/settings.json")])),
        servers: &["mcpServers"],
        layout: Layout::Typed,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::Items(&["permissions", "allow"], &["mcp__haft"])]),
        tools: Switch::Write(&[Extra::Items(
            &["permissions", "deny"],
            &["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash"],
        )]),
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        programs: &["claude-desktop"],
        traces: &[Config("Claude")],
        form: Form::Json,
        user: files(&[Config("Claude/claude_desktop_config.json")], &[]),
        project: None,
        servers: &["mcpServers"],
        layout: Layout::Plain,
        folder: Folder::Named,
        question: Switch::Not("it asks about each tool once; choose \"Always allow\" there"),
        tools: Switch::Not("it has no tools for files and commands of its own"),
    },
    Client {
        name: "codex",
        title: "Codex",
        programs: &["codex"],
        traces: &[Variable("CODEX_HOME", "", ".codex")],
        form: Form::Toml,
        user: files(
            &[Variable("CODEX_HOME", "config.toml", ".codex/config.toml")],
            &[Variable("CODEX_HOME", "config.toml", ".codex/config.toml")],
        ),
        project: Some(files(&[Project(".codex/config.toml")], &[Project(".codex/config.toml")])),
        servers: &["mcp_servers"],
        layout: Layout::Plain,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::EntryText("default_tools_approval_mode", "approve")]),
        tools: Switch::Partly(
            &[Extra::False(&["features", "shell_tool"])],
            "only its shell can be switched off, not `apply_patch`",
        ),
    },
    Client {
        name: "crush",
        title: "Crush",
        programs: &["crush"],
        traces: &[Config("crush")],
        form: Form::Json,
        user: files(&[Config("crush/crush.json")], &[Config("crush/crush.json")]),
        project: Some(files(
            &[Project("crush.json"), Project(".crush.json")],
            &[Project("crush.json"), Project(".crush.json")],
        )),
        servers: &["mcp"],
        layout: Layout::Typed,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::ItemPerTool(&["permissions", "allowed_tools"], "mcp_haft_")]),
        tools: Switch::Write(&[Extra::Items(
            &["options", "disabled_tools"],
            &["bash", "edit", "multiedit", "write", "view", "ls", "glob", "grep"],
        )]),
    },
    Client {
        name: "cursor",
        title: "Cursor",
        programs: &["cursor", "cursor-agent"],
        traces: &[Home(".cursor")],
        form: Form::Json,
        user: files(&[Home(".cursor/mcp.json")], &[]),
        project: Some(files(&[Project(".cursor/mcp.json")], &[])),
        servers: &["mcpServers"],
        layout: Layout::Plain,
        folder: Folder::Variable("${workspaceFolder}"),
        question: Switch::Not(
            "add `haft:*` to its list of allowed tools; in `permissions.json` that list would replace the one in Cursor's settings",
        ),
        tools: Switch::Not("its own tools cannot be switched off"),
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        programs: &["gemini"],
        traces: &[Variable("GEMINI_CLI_HOME", ".gemini", ".gemini")],
        form: Form::Json,
        user: files(
            &[Variable("GEMINI_CLI_HOME", ".gemini/settings.json", ".gemini/settings.json")],
            &[Variable("GEMINI_CLI_HOME", ".gemini/settings.json", ".gemini/settings.json")],
        ),
        project: Some(files(&[Project(".gemini/settings.json")], &[Project(".gemini/settings.json")])),
        servers: &["mcpServers"],
        layout: Layout::Plain,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::EntryTrue("trust")]),
        tools: Switch::Write(&[Extra::Items(
            &["tools", "exclude"],
            &[
                "read_file",
                "read_many_files",
                "write_file",
                "replace",
                "glob",
                "grep_search",
                "list_directory",
                "run_shell_command",
            ],
        )]),
    },
    Client {
        name: "goose",
        title: "Goose",
        programs: &["goose"],
        traces: &[Config("goose")],
        form: Form::Yaml,
        user: files(&[Config("goose/config.yaml")], &[]),
        project: None,
        servers: &["extensions"],
        layout: Layout::Extension,
        folder: Folder::Project,
        question: Switch::Not("`GOOSE_MODE: auto` switches it off, but for the tools of every extension"),
        tools: Switch::Not("switch the extension `developer` off with `goose configure`"),
    },
    Client {
        name: "opencode",
        title: "OpenCode",
        programs: &["opencode"],
        traces: &[Config("opencode")],
        form: Form::Json,
        user: files(
            &[Config("opencode/opencode.json"), Config("opencode/opencode.jsonc")],
            &[Config("opencode/opencode.json"), Config("opencode/opencode.jsonc")],
        ),
        project: Some(files(
            &[Project("opencode.json"), Project("opencode.jsonc")],
            &[Project("opencode.json"), Project("opencode.jsonc")],
        )),
        servers: &["mcp"],
        layout: Layout::Local,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::Texts(&["permission"], &["haft_*"], "allow")]),
        tools: Switch::Write(&[Extra::Texts(
            &["permission"],
            &["read", "edit", "glob", "grep", "list", "bash"],
            "deny",
        )]),
    },
    Client {
        name: "qwen",
        title: "Qwen Code",
        programs: &["qwen"],
        traces: &[Variable("QWEN_HOME", "", ".qwen")],
        form: Form::Json,
        user: files(
            &[Variable("QWEN_HOME", "settings.json", ".qwen/settings.json")],
            &[Variable("QWEN_HOME", "settings.json", ".qwen/settings.json")],
        ),
        project: Some(files(&[Project(".qwen/settings.json")], &[Project(".qwen/settings.json")])),
        servers: &["mcpServers"],
        layout: Layout::Plain,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::EntryTrue("trust")]),
        tools: Switch::Write(&[Extra::Items(
            &["permissions", "deny"],
            &[
                "read_file",
                "write_file",
                "edit",
                "glob",
                "grep_search",
                "list_directory",
                "run_shell_command",
            ],
        )]),
    },
    Client {
        name: "vscode",
        title: "VS Code",
        programs: &["code"],
        traces: &[Config("Code")],
        form: Form::Json,
        user: files(&[Config("Code/User/mcp.json")], &[]),
        project: Some(files(&[Project(".vscode/mcp.json")], &[])),
        servers: &["servers"],
        layout: Layout::Typed,
        folder: Folder::Variable("${workspaceFolder}"),
        question: Switch::Not("choose \"Always Allow\" for the server `haft` when it first asks"),
        tools: Switch::Not("choose haft's tools alone in the tools picker of the chat"),
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        programs: &["windsurf"],
        traces: &[Home(".codeium/windsurf")],
        form: Form::Json,
        user: files(&[Home(".codeium/windsurf/mcp_config.json")], &[]),
        project: None,
        servers: &["mcpServers"],
        layout: Layout::Plain,
        folder: Folder::Named,
        question: Switch::Not("it has no setting for that in a file"),
        tools: Switch::Not("its own tools cannot be switched off"),
    },
    Client {
        name: "zed",
        title: "Zed",
        programs: &["zed", "zeditor"],
        traces: &[Config("zed")],
        form: Form::Json,
        user: files(&[Config("zed/settings.json")], &[Config("zed/settings.json")]),
        project: Some(files(&[Project(".zed/settings.json")], &[])),
        servers: &["context_servers"],
        layout: Layout::Plain,
        folder: Folder::Project,
        question: Switch::Write(&[Extra::TextPerTool(
            &["agent", "tool_permissions", "tools"],
            "mcp:haft:",
            "default",
            "allow",
        )]),
        tools: Switch::Not("make a profile of the agent with haft's tools alone"),
    },
];
