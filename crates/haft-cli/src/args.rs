//! The command line. Its doc comments are the help texts. Nothing here looks at files or settings.

mod setup;

use std::path::PathBuf;

pub(crate) use setup::SetupFlags;

use clap::builder::PossibleValuesParser;
use clap::{Args as Flags, CommandFactory, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use haft_core::{Format, Mode};
use haft_dialects as dialects;

use crate::commands::KnownLine;

/// An engine for a model's tool calls: decides whether they are allowed, and runs them in a sandbox
#[derive(Parser)]
#[command(name = "haft", version, propagate_version = true, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

// Flags that every command takes. A doc comment here would become the description of each command.
#[derive(Flags)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// The dialect that the session speaks [default: claude]
    #[arg(long, global = true, value_name = "NAME", value_parser = dialect_names())]
    pub(crate) dialect: Option<String>,
    /// The folder that the session may touch [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Another folder that the session may touch; may be given several times
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Narrow the session to one folder of the workspace
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) focus: Option<String>,
    /// How permissive the session is [default: default]
    #[arg(long, global = true, value_name = "MODE", value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// The session to continue, or to begin under this name [default: for `call`, `undo`, `redo`, `todos` and `rules check` that of this
    /// terminal in this workspace; else a new one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) color: ColorWhen,
}

const AFTER_HELP: &str = "\
Examples:
  haft call Read file_path=README.md limit=5
  haft call Bash command='cargo test'
  haft undo
  haft mcp                      serve the tools to an MCP client

Exit codes:
  0    success
  1    a tool failed or was denied; something was refused or not found
  2    an invalid command line or settings
  130  interrupted

Environment:
  HAFT_LOG                          what is logged: a level such as debug, or haft=debug
  HAFT_MCP_TOKEN                    the token that clients of `haft mcp --http` must send
  XDG_CONFIG_HOME, XDG_STATE_HOME   where your settings and haft's state are, in a folder `haft`
  VISUAL, EDITOR                    the editor for arguments of a call
  NO_COLOR                          no colours";

/// The commands by what they are for. A command that is not named is among the others.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Calls", &["tools", "call", "batch", "mcp"]),
    ("Changes", &["history", "undo", "redo"]),
    ("The web", &["fetch", "search"]),
    ("Permissions", &["rules", "trust", "audit"]),
    ("Sessions", &["sessions", "todos", "stats"]),
];

/// Reads the command line.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The command line, with its commands in groups where its help may be asked for.
pub(crate) fn command() -> clap::Command {
    // Describing all commands takes longer than parsing one.
    let names_command = std::env::args_os().skip(1).any(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    if names_command && std::env::args_os().nth(1).is_none_or(|arg| arg != "help") {
        return Args::command();
    }
    let mut built = Args::command();
    built.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        overview(&built)
    );
    Args::command().help_template(template)
}

/// The commands in groups, each with its description.
fn overview(built: &clap::Command) -> String {
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> =
        built.get_subcommands().map(clap::Command::get_name).filter(|name| !is_grouped(name)).collect();
    let groups =
        GROUPS.iter().map(|(title, names)| (*title, names.to_vec())).chain([("Set-up and help", others)]);
    let mut text = String::new();
    for (title, names) in groups {
        text.push_str(&format!("{title}:\n"));
        for command in names.iter().filter_map(|name| built.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:12} {about}\n", command.get_name()));
        }
        text.push('\n');
    }
    text
}

#[derive(Subcommand)]
#[command(defer = true)] // only the one that was typed is read in full
pub(crate) enum Command {
    /// Show the tools of a dialect
    #[command(after_help = "Examples:
  haft tools
  haft --dialect ally tools --format openai    definitions for an API")]
    Tools {
        /// As text, or as definitions for an API
        #[arg(long, value_enum, default_value = "text")]
        format: ToolFormat,
    },
    /// Make one call; its reply goes to stdout
    ///
    /// Calls that are made one after the other at a terminal, in one workspace, share a session: a file that one call
    /// has read the next one can edit. Ctrl-C cancels the call and prints what it has so far; a second one ends haft at
    /// once. The exit code is 0, or 1 if the tool failed or was denied.
    #[command(after_help = "Examples:
  haft call Read file_path=README.md limit=5
  haft call Grep pattern='fn main' type=rust
  haft --mode accept-edits call Edit file_path=a.txt old_string=one new_string=two
  echo '{\"command\":\"ls\"}' | haft call Bash -")]
    Call {
        /// The tool's name
        tool: String,
        /// The arguments: a JSON object, `-` to read one from stdin, or `name=value` pairs
        #[arg(value_name = "JSON | - | NAME=VALUE")]
        input: Vec<String>,
    },
    /// Make the calls of a file: JSON Lines, each line a call or a turn of calls
    ///
    /// The replies are JSON Lines, too, in the order of the calls. The exit code is 0 when every line could be
    /// read and answered: that a call failed is told in its reply, as is that a line made no sense.
    #[command(after_help = "Examples:
  echo '{\"name\":\"Read\",\"input\":{\"file_path\":\"README.md\"}}' | haft batch
  haft --mode accept-edits batch examples/tour.jsonl")]
    Batch {
        /// The file; `-` for stdin
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Serve haft's tools to clients of the Model Context Protocol (MCP), or look at other MCP servers
    ///
    /// Without a command, `haft mcp` is an MCP server: it serves the tools of a dialect to the client that starts it, over
    /// standard input and output, until that client closes them. With --http it serves any number of clients at
    /// http://ADDR/mcp, each with a session of its own. The commands are about other servers, whose tools haft uses.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:
  haft mcp                                     serve the client that starts haft
  haft mcp --http localhost:8765               serve http://localhost:8765/mcp
  haft mcp --log-file haft.log                 with a log, since clients hide standard error
  haft mcp list                                the servers whose tools haft uses

Environment:
  HAFT_MCP_TOKEN   the token that clients must send over HTTP
  HAFT_LOG         what is logged: a level such as debug, or haft=debug,rmcp=trace"
    )]
    Mcp {
        #[command(flatten)]
        http: HttpFlags,
        /// Append a log to this file, at the levels of HAFT_LOG or at `info`
        #[arg(long, value_name = "FILE")]
        log_file: Option<PathBuf>,
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Fetch a page of the web, and print it as Markdown
    ///
    /// It is what the tools of models see: HTML as Markdown, JSON indented, the text of PDFs. Addresses of this machine and
    /// its networks are refused unless your settings allow them in `web.allow_private`. The exit code is 1 if the server
    /// refuses, or if the URL leads to another host.
    #[command(after_help = "Examples:
  haft fetch https://example.org
  haft fetch https://github.com/haft-rs/haft/blob/main/README.md    the file itself
  haft fetch --json https://example.org/data.json")]
    Fetch {
        /// The URL
        url: String,
    },
    /// Search the web with the provider of your settings
    #[command(after_help = "Examples:
  haft search rust html to markdown

In your settings, for example:
  [web.search]
  provider = \"brave\"
  key_env = \"BRAVE_API_KEY\"")]
    Search {
        /// The words
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// How many results
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
        limit: usize,
    },
    /// Show what was changed, the newest first
    History {
        /// Show what each change did, as a unified diff
        #[arg(long)]
        diff: bool,
        /// How many changes
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: usize,
        /// These changes only
        #[arg(value_name = "NUMBER")]
        numbers: Vec<Numbers>,
    },
    /// Undo changes: the last one of this terminal's session, or those that are named
    ///
    /// Changes of other sessions are undone by their number, or with --any. The exit code is 1 if there is nothing to undo,
    /// or if a file has changed since.
    #[command(after_help = "Examples:
  haft undo                  the last change of this terminal's session
  haft undo --last 3 --any   the last three changes, whoever made them
  haft undo 7 9-12           these changes, as `haft history` numbers them
  haft undo --dry-run        shows what would happen")]
    Undo {
        /// The numbers of the changes, such as 7, or 3-5 for several
        #[arg(value_name = "NUMBER", conflicts_with = "last")]
        numbers: Vec<Numbers>,
        /// So many of the last changes
        #[arg(long, value_name = "COUNT")]
        last: Option<std::num::NonZeroUsize>,
        /// Also changes of other sessions, such as those of an MCP client or of another terminal
        #[arg(long)]
        any: bool,
        /// Keep what was changed in the files since, where it is in other lines
        #[arg(long)]
        merge: bool,
        /// Only show what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Redo changes that were undone: the last one undone at this terminal, or those that are named
    Redo {
        /// The numbers of the changes, such as 7, or 3-5 for several
        #[arg(value_name = "NUMBER", conflicts_with = "last")]
        numbers: Vec<Numbers>,
        /// So many of the changes that were taken back last
        #[arg(long, value_name = "COUNT")]
        last: Option<std::num::NonZeroUsize>,
        /// Also changes that other sessions took back
        #[arg(long)]
        any: bool,
        /// Only show what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the rules about calls, change them, or see what they do to a call
    #[command(after_help = "Examples:
  haft rules
  haft rules allow 'Edit(src/**)'
  haft rules check Bash command='git push'")]
    Rules {
        #[command(subcommand)]
        command: Option<RulesCommand>,
    },
    /// Show the settings that this project brings, and follow them in full from then on
    Trust {
        /// Without asking: the settings were read before
        #[arg(long)]
        yes: bool,
    },
    /// Show what was decided about calls, the latest last, and check that nobody has changed it
    ///
    /// With `--session`, only what was decided in that one. The exit code is 1 if something was changed.
    Audit {
        /// How many decisions
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: usize,
        /// Check that the log still has a line whose mark you have kept
        #[arg(long, value_name = "NUMBER:HASH")]
        contains: Option<KnownLine>,
    },
    /// Show the list of tasks of a session
    Todos,
    /// Show how often each tool was called, and how long it took
    ///
    /// The times leave out how long people thought about a question. Denied calls never ran, so they count neither as
    /// successes nor as failures. A narrow terminal shows the most useful figures; --json has all.
    Stats,
    /// Add haft to the clients you have, such as Claude Code or Codex
    ///
    /// Shows what it would write into a client's own settings, and asks. Everything else in these files stays as it is.
    /// --dialect, --mode, --workspace and --add-dir become part of what the client starts.
    Setup(SetupFlags),
    /// Show or remove the sessions that are kept of this workspace
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Check the set-up: workspace, settings, trust, state, sandbox
    Doctor,
    /// Show the settings in force, and which file each comes from
    Settings {
        /// Print every setting and what it means, as Markdown
        #[arg(long)]
        reference: bool,
        /// Print a JSON Schema of the settings files, for editors
        #[arg(long, conflicts_with = "reference")]
        schema: bool,
    },
    /// Write man pages of haft and its commands
    Man {
        /// The folder, which must exist
        dir: PathBuf,
    },
    /// Print a script that completes haft's arguments in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

// How the protocol is served over HTTP. A doc comment here would become the description of `haft mcp`.
#[derive(Flags)]
pub(crate) struct HttpFlags {
    /// Serve over HTTP at this address and port, such as localhost:8765
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// A file with the token that clients must know; the variable HAFT_MCP_TOKEN may hold one instead. An address that
    /// others can reach needs one
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// A page in a browser that may be a client, such as http://localhost:5173; may be given several times
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// A session ends when nothing was said for so many seconds
    #[arg(long, value_name = "SECONDS", requires = "http", default_value_t = 3600)]
    pub(crate) idle_seconds: u64,
}

// What can be done with the servers whose tools haft uses. A doc comment here would describe `haft mcp`.
#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Show the servers whose tools are used, where each comes from, and whether it works
    List,
    /// Log in to a server that wants to know for whom haft works; it is kept, and renewed by itself
    Login {
        /// The server's name
        server: String,
    },
    /// Start a server and show what it offers; the exit code is 1 if it cannot be used
    Test {
        /// The server's name
        server: String,
    },
}

// What can be done with sessions. A doc comment here would describe `haft sessions`.
#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// Show the sessions, the latest first
    List,
    /// Remove sessions: what they have seen, and the rules that were granted for them
    Remove {
        /// The names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

// What can be done with rules. A doc comment here would describe `haft rules`.
#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// Show every rule and where it comes from
    List,
    /// Let calls happen without being asked, such as `Bash(git status:*)` or `Edit(src/**)`
    Allow {
        /// The rules
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Have calls asked about, every time
    Ask {
        /// The rules
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Have calls denied
    Deny {
        /// The rules
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Take a rule back
    Remove {
        /// The rule, as it is listed
        rule: String,
        #[command(flatten)]
        place: Where,
    },
    /// Show what would become of a call, and why; the exit code is 0 only if it would happen without a question
    Check {
        /// The tool's name
        tool: String,
        /// The arguments: a JSON object, `-` to read one from stdin, or `name=value` pairs
        #[arg(value_name = "JSON | - | NAME=VALUE")]
        input: Vec<String>,
    },
    /// Show what the rules would do now to the calls of a past session
    Replay {
        /// The session, as `haft audit` tells it
        session: String,
    },
}

// Where a rule is kept. A doc comment here would become the description of each command.
#[derive(Clone, Copy, Flags)]
pub(crate) struct Where {
    /// In your own settings, for every project [default: for this project, in haft's state]
    #[arg(long)]
    pub(crate) user: bool,
}

/// The dialects, so that a shell can complete them.
fn dialect_names() -> PossibleValuesParser {
    PossibleValuesParser::new(dialects::all().iter().map(|dialect| dialect.name()))
}

/// When colours are used.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// At a terminal, unless NO_COLOR is set
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// A mode, as it is typed.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    /// What is not safe is asked
    Default,
    /// Nothing is changed
    Plan,
    /// Changes of files in the workspace are not asked
    AcceptEdits,
    /// Nothing is asked
    Bypass,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Default => Mode::Default,
            ModeName::Plan => Mode::Plan,
            ModeName::AcceptEdits => Mode::AcceptEdits,
            ModeName::Bypass => Mode::Bypass,
        }
    }
}

/// A form in which tools are shown.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum ToolFormat {
    /// For people
    Text,
    /// Everything haft knows of each tool
    Json,
    /// OpenAI Chat Completions
    Openai,
    /// OpenAI Responses
    OpenaiResponses,
    /// Anthropic Messages
    Anthropic,
    /// The Model Context Protocol
    Mcp,
    /// The reference of every dialect
    Markdown,
}

impl ToolFormat {
    /// The form for an API, if it is one.
    pub(crate) fn api(self) -> Option<Format> {
        match self {
            ToolFormat::Text | ToolFormat::Markdown => None,
            ToolFormat::Json => Some(Format::Haft),
            ToolFormat::Openai => Some(Format::OpenAi),
            ToolFormat::OpenaiResponses => Some(Format::OpenAiResponses),
            ToolFormat::Anthropic => Some(Format::Anthropic),
            ToolFormat::Mcp => Some(Format::Mcp),
        }
    }
}

/// A change's number, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(std::ops::RangeInclusive<u64>);

/// Maximum length of a range.
const MAX_NUMBERS: u64 = 100_000;

impl std::str::FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number of a change"));
        let Some((first, last)) = text.split_once("..").or_else(|| text.split_once('-')) else {
            return number(text).map(|number| Self(number..=number));
        };
        match (number(first)?, number(last)?) {
            (first, last) if first > last => Err(format!("`{text}` begins after its end")),
            (first, last) if last - first >= MAX_NUMBERS => Err(format!("`{text}` names too many changes")),
            (first, last) => Ok(Self(first..=last)),
        }
    }
}

impl Numbers {
    /// All numbers of these ranges.
    pub(crate) fn all(numbers: &[Self]) -> Vec<u64> {
        numbers.iter().flat_map(|numbers| numbers.0.clone()).collect()
    }
}
